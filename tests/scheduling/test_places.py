"""The place of each that waits is the one it has where all that may start are sorted."""

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
    strategy=st.sampled_from(QueueingStrategy),
    steps=st.lists(
        st.tuples(
            st.sampled_from(_NAMES),
            st.sampled_from(["add", "remove", "preempt", "leave", "hopeless", "hopeful"]),
            st.integers(0, 2),
            st.integers(0, 2),
            st.sampled_from(sorted(_RANKS)),
        ),
        max_size=30,
    ),
)
def test_a_place_is_that_in_the_sorted_line_of_those_that_may_start(
    *,
    is_ranked: bool,
    strategy: QueueingStrategy,
    steps: list[tuple[str, str, int, int, str]],
) -> None:
    queue = PendingQueue(strategy, _rank if is_ranked else None)
    for name, step, priority, created, local in steps:
        key = WorkloadKey("default", name)
        if step == "add":
            queue.remove(key, left=False)
            queue.add(_pending(name, priority, created, local), 0)
        elif step == "preempt" and (item := queue.get(key)) is not None:
            nothing = Wait(workload=key, cluster_queue=ClusterQueueName("solo"), why=NotTried())
            queue.settle(item, Requeue.PENDING_PREEMPTION, nothing, 0)
        elif step in {"hopeless", "hopeful"}:
            queue.set_hopeless(key, is_hopeless=step == "hopeless")
        elif step != "preempt":
            queue.remove(key, left=step == "leave")

    line = queue.line()
    order = sorted(line.members, key=line.sort_key())
    assert strategy == QueueingStrategy.BEST_EFFORT_FIFO or not any(i.hopeless for i in order)
    may_start = [item.key for item in order if not item.hopeless]
    assert [queue.place(key) for key in may_start] == list(range(1, len(may_start) + 1))
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


def test_places_have_moved_where_somebody_never_starts_and_where_they_may_again():
    made = world(cluster_queue("solo", 0), waiting("a", "solo", 1), waiting("b", "solo", 1))
    a, b = (WorkloadKey("default", name) for name in "ab")
    made.state.take_moved()
    for is_hopeless, place in ((True, 1), (False, 2)):
        made.state.set_hopeless(a, is_hopeless=is_hopeless)
        assert made.state.take_moved() == ("solo",)
        assert made.state.place(b) == ("solo", place)
        made.state.set_hopeless(a, is_hopeless=is_hopeless)
        assert made.state.take_moved() == (), "that is no news"
