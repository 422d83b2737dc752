"""When the status of a queue is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.controller.writing.api_requests import QueueKey
from admission.controller.writing.flow_control import StatusQueue

_ROOM = 0.0
"""There was room for long."""


@pytest.mark.parametrize(
    ("marked", "seconds"), [(1, 0.5), (25, 0.5), (40, 0.8), (1000, 1.0)],
    ids=["one", "few", "many", "at most twice as long"],
)  # fmt: skip
def test_a_status_rests_longer_while_many_queues_change(marked: int, seconds: float) -> None:
    statuses = StatusQueue(0.5)
    lanes = [QueueKey("ClusterQueue", "", f"q{number}") for number in range(marked)]
    for lane in lanes:
        statuses.mark(lane, 10.0)
    assert statuses.due(10.0, _ROOM) == lanes
    statuses.take(lanes[0], 10.0)
    statuses.mark(lanes[0], 10.0)
    assert lanes[0] not in statuses.due(10.0 + seconds - 0.01, _ROOM)
    assert lanes[0] in statuses.due(10.0 + seconds, _ROOM)


def test_statuses_wait_in_the_order_in_which_they_were_marked() -> None:
    statuses = StatusQueue(0.5)
    first, second = lanes = [QueueKey("ClusterQueue", "", name) for name in "ab"]
    for lane in lanes:
        statuses.mark(lane, 10.0)
    statuses.take(first, 10.0)
    statuses.mark(first, 10.1)
    assert statuses.due(10.6, _ROOM) == [second, first]


def test_without_room_a_status_waits_two_seconds_from_the_first_change_that_it_lacks() -> None:
    statuses = StatusQueue(0.5)
    lane = QueueKey("ClusterQueue", "", "a")
    statuses.mark(lane, 10.0)
    statuses.mark(lane, 11.0)
    room_at = 100.0
    assert statuses.due(11.9, room_at) == []
    assert statuses.next_due(room_at) == 12.0
    assert statuses.due(12.0, room_at) == [lane]


def test_a_status_waits_no_longer_than_for_room() -> None:
    statuses = StatusQueue(0.5)
    lane = QueueKey("ClusterQueue", "", "a")
    statuses.mark(lane, 10.0)
    assert statuses.due(10.6, 10.7) == []
    assert statuses.next_due(10.7) == 10.7
    assert statuses.due(10.7, 10.7) == [lane]
    assert statuses.next_due(9.0) == 10.0


def test_a_status_whose_turn_is_postponed_waits_from_when_it_was_marked() -> None:
    statuses = StatusQueue(0.5)
    lane = QueueKey("ClusterQueue", "", "a")
    statuses.mark(lane, 10.0)
    statuses.postpone(lane, 11.8)
    assert statuses.due(12.0, 100.0) == []
    assert statuses.next_due(100.0) == 12.3
    assert statuses.due(12.3, 100.0) == [lane]


class Plain:
    """The same rules, told by going through all keys each time."""

    def __init__(self) -> None:
        self.marked: dict[QueueKey, float] = {}
        self.next: dict[QueueKey, float] = {}

    def due(self, now: float, room_at: float) -> set[QueueKey]:
        return {
            key for key, marked in self.marked.items()
            if self.next.get(key, 0.0) <= now and (room_at <= now or marked + 2 <= now)
        }  # fmt: skip


_DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["mark", "take", "postpone", "forget", "look"]),
        st.integers(0, 4), st.integers(0, 6), st.integers(-8, 8),
    )
)  # fmt: skip


@given(_DEEDS)
def test_what_is_due_is_what_going_through_all_keys_would_find(
    deeds: list[tuple[str, int, int, int]],
) -> None:
    statuses, plain, now = StatusQueue(0.5), Plain(), 100.0
    for deed, number, steps, room in deeds:
        now += steps / 4
        key, room_at = QueueKey("ClusterQueue", "", f"q{number}"), now + room / 4
        match deed:
            case "mark":
                statuses.mark(key, now)
                plain.marked.setdefault(key, now)
            case "take" | "postpone" if key in plain.marked:
                (statuses.take if deed == "take" else statuses.postpone)(key, now)
                plain.next[key] = now + 0.5
                if deed == "take":
                    del plain.marked[key]
            case "forget":
                statuses.forget(key)
                plain.marked.pop(key, None)
                plain.next.pop(key, None)
            case _:
                pass
        due = statuses.due(now, room_at)
        assert set(due) == plain.due(now, room_at)
        assert [plain.marked[key] for key in due] == sorted(plain.marked[key] for key in due)
        moment = statuses.next_due(room_at)
        assert (moment is not None and moment <= now) == bool(due)
        assert moment is not None or not plain.marked
