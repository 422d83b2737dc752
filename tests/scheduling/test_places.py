"""The place of each that waits is the one it has where all are sorted."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from admission.base.causes import NotTried
from admission.base.names import ClusterQueueName, LocalQueueKey, WorkloadKey
from admission.scheduling.decisions import Requeue, Wait
from admission.scheduling.model import QueueingStrategy
from admission.scheduling.pending import Pending, PendingQueue
from tests.builders.scheduling import SECOND_US, cluster_queue, waiting
from tests.scheduling.worlds import world

_NAMES = "abcdefgh"
_RANKS = {"one": (False, Fraction(2)), "two": (False, Fraction(1)), "three": (False, Fraction(2))}


def _rank(local: LocalQueueKey) -> tuple[bool, Fraction]:
    return _RANKS[local.name]


def _pending(name: str, priority: int, created: int, local: str) -> Pending:
    found = waiting(name, local, 1, created=created, priority=priority)
    return Pending(
        workload=found, queue_us=created * SECOND_US, demands=(), equivalence=(local, priority)
    )


@given(
    is_ranked=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.sampled_from(_NAMES),
            st.sampled_from(["add", "remove", "preempt", "leave"]),
            st.integers(0, 2),
            st.integers(0, 2),
            st.sampled_from(sorted(_RANKS)),
        ),
        max_size=30,
    ),
)
def test_a_place_is_that_in_the_sorted_line(
    *, is_ranked: bool, steps: list[tuple[str, str, int, int, str]]
) -> None:
    queue = PendingQueue(QueueingStrategy.BEST_EFFORT_FIFO, _rank if is_ranked else None)
    for name, step, priority, created, local in steps:
        key = WorkloadKey("default", name)
        if step == "add":
            queue.remove(key, left=False)
            queue.add(_pending(name, priority, created, local), 0)
        elif step == "preempt" and (item := queue.get(key)) is not None:
            nothing = Wait(workload=key, cluster_queue=ClusterQueueName("solo"), why=NotTried())
            queue.settle(item, Requeue.PENDING_PREEMPTION, nothing, 0)
        elif step != "preempt":
            queue.remove(key, left=step == "leave")

    line = queue.line()
    order = [item.key for item in sorted(line.members, key=line.sort_key())]
    assert [queue.place(key) for key in order] == list(range(1, len(order) + 1))
    assert queue.place(WorkloadKey("default", "nobody")) is None


def test_a_queue_has_moved_where_somebody_came_or_left_and_only_there():
    made = world(
        cluster_queue("solo", 0),
        cluster_queue("other", 0),
        waiting("a", "solo", 1),
        waiting("b", "other", 1),
    )
    assert set(made.state.take_moved()) == {"solo", "other"}
    made.cycle()
    assert made.state.take_moved() == ()
    made.state.drop_workload(WorkloadKey("default", "a"))
    assert made.state.take_moved() == ("solo",)
    assert made.state.place(WorkloadKey("default", "b")) == ("other", 1)
    assert made.state.place(WorkloadKey("default", "a")) is None
