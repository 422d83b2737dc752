"""Requeues are due after a batch, and nobody looks at each of them to learn that none is."""

from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import ClusterQueueName
from admission.scheduling.hierarchy import CohortHierarchy
from admission.scheduling.inadmissible import InadmissibleRequeues
from tests.controller.steps import Steps

_BATCH_US = 10
_STEPS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(0, 60)), max_size=30)


@given(_STEPS)
def test_what_is_taken_is_due_also_when_the_clock_was_set_back(
    steps: list[tuple[str, int]],
) -> None:
    requeues, pending = InadmissibleRequeues(_BATCH_US), dict[str, int]()
    for name, now_us in steps:
        if name:
            requeues.queue(ClusterQueueName(name), now_us)
            pending[name] = min(pending.get(name, now_us + _BATCH_US), now_us + _BATCH_US)
        else:
            due = {one for one, at in pending.items() if at <= now_us or at > now_us + _BATCH_US}
            assert requeues.take(CohortHierarchy(), now_us) == due
            pending = {one: at for one, at in pending.items() if one not in due}
        assert requeues.next_us() == min(pending.values(), default=None)


def test_to_find_that_none_is_due_costs_the_same_for_many_as_for_few() -> None:
    def steps(queues: int) -> int:
        requeues, counted = InadmissibleRequeues(_BATCH_US), Steps()
        for number in range(queues):
            requeues.tree(ClusterQueueName(f"q{number}"), 0)
        with counted.counting():
            assert requeues.take(CohortHierarchy(), 1) == set()
            assert requeues.next_us() == _BATCH_US
        return counted.total

    assert steps(1_000) == steps(1)
