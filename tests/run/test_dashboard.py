"""What the dashboard asks the core: the same for all who look, once a second at most."""

from collections.abc import Callable
from typing import Any

from admission.run.dashboard import SharedSource
from admission.scheduling.overview import Overview
from tests.clocks import FakeClock


class Core:
    """Counts the questions that it answers."""

    synced = True
    revision = 7

    def __init__(self) -> None:
        self.questions = 0

    def ask(self, question: Callable[[Any], Any], _: float) -> Any:
        self.questions += 1
        return question(self)

    def overview(self) -> Overview:
        return Overview()


def test_however_many_look_the_core_is_asked_once_a_second() -> None:
    core, clock = Core(), FakeClock()
    source = SharedSource(core.ask, clock, lambda: ())
    for _ in range(10):
        assert source.overview() == Overview()
    assert core.questions == 1
    for _ in range(32):
        assert source.revision() == 7
    assert core.questions == 2
    clock.advance(1.1)
    source.overview()
    source.revision()
    assert core.questions == 4
