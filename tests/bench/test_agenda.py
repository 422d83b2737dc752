"""What is due comes first."""

import threading

from tests.bench.agenda import Agenda
from tests.controlplane.waiting import PATIENCE_SECONDS


def test_items_come_in_the_order_of_their_times_and_then_as_they_were_added() -> None:
    agenda: Agenda[str] = Agenda(lambda: 10.0)
    for due, what in ((3, "c"), (1, "a"), (2, "b1"), (2, "b2")):
        agenda.put(due, what)
    assert [agenda.take() for _ in range(4)] == ["a", "b1", "b2", "c"]


def test_every_item_is_taken_once_by_one_of_several_takers() -> None:
    agenda: Agenda[int] = Agenda(lambda: 1.0)
    taken: list[int] = []
    full = threading.Event()

    def take() -> None:
        while True:
            taken.append(agenda.take())
            if len(taken) == 100:
                full.set()

    for _ in range(4):
        threading.Thread(target=take, daemon=True).start()
    for number in range(100):
        agenda.put(0.0, number)
    assert full.wait(PATIENCE_SECONDS)
    assert sorted(taken) == list(range(100))
