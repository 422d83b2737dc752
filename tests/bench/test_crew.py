"""Threads of a load end together."""

import pytest

from tests.bench.crew import Crew
from tests.controlplane.waiting import PATIENCE_SECONDS


def test_the_failure_of_one_thread_ends_the_wait_for_all():
    crew = Crew()

    def fail(text: str) -> None:
        raise ValueError(text)

    crew.start(fail, "refused")
    with pytest.raises(ValueError, match="refused"):
        crew.wait(PATIENCE_SECONDS)


def test_the_wait_says_whether_the_end_was_seen():
    crew = Crew()
    assert not crew.wait(0)
    crew.start(crew.done.set)
    assert crew.wait(PATIENCE_SECONDS)
