"""Two webhooks and two controllers, as the chart installs them, when one of them fails.

`python -m tests.bench --part availability` measures all faults; the times are in
docs/guides/high-availability.md.
"""

from collections.abc import Iterator

import pytest

from tests.bench.availability import TEAM, prepare
from tests.e2e import charted, faults
from tests.e2e.charted import Charted

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly]


@pytest.fixture(scope="module")
def system() -> Iterator[Charted]:
    with charted.charted() as it:
        prepare(it)
        yield it


def test_no_review_fails_while_all_pods_are_replaced(system: Charted) -> None:
    noticed = faults.notice(system, TEAM, faults.restart_all)
    assert noticed.failed <= noticed.late < noticed.reviews


def test_the_other_webhook_answers_when_one_was_killed(system: Charted) -> None:
    noticed = faults.notice(system, TEAM, faults.kill_webhook)
    assert noticed.failed < noticed.reviews


def test_the_other_controller_admits_when_the_leader_was_killed(system: Charted) -> None:
    noticed = faults.notice(system, TEAM, faults.kill_leader)
    assert noticed.failed <= noticed.late < noticed.reviews
