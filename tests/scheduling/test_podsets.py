"""Whether a workload asks for more now than its quota was reserved for."""

from dataclasses import replace
from typing import Any

import pytest

from admission.base.names import PodSetName, ResourceName
from admission.scheduling import model, podsets
from tests.builders.scheduling import amount, holding, pod_set, waiting

CPU, GPU = ResourceName("cpu"), ResourceName("nvidia.com/gpu")


def admitted(cpu: Any, *, count: int = 1, assigned: int | None = None) -> model.Workload:
    """Return a workload with quota for one core for each pod, and what it asks for now."""
    made = holding("w", "q", 1)
    assert made.reservation is not None
    (one,) = made.reservation.pod_sets
    pods = count if assigned is None else assigned
    one = replace(one, count=pods, usage={CPU: amount("cpu", pods)})
    reservation = replace(made.reservation, pod_sets=(one,))
    return replace(made, reservation=reservation, pod_sets=(pod_set(count=count, cpu=cpu),))


@pytest.mark.parametrize(("cpu", "expected"), [("999m", False), (1, False), ("1001m", True)])
@pytest.mark.parametrize("count", [1, 3])
def test_more_for_each_pod_than_was_reserved_is_more(cpu: Any, count: int, expected: bool) -> None:
    assert podsets.exceeds(admitted(cpu, count=count)) is expected


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_pods_for_which_quota_was_reserved_count(count: int) -> None:
    """With partial admission fewer pods run than the spec says."""
    assert not podsets.exceeds(admitted(1, count=count, assigned=2))
    assert podsets.exceeds(admitted(2, count=count, assigned=2))


def test_a_workload_without_quota_asks_for_no_more_than_it_has() -> None:
    assert not podsets.exceeds(waiting("w", "q", 1000))


def test_a_pod_set_without_quota_is_not_compared() -> None:
    workload = admitted(1)
    others = replace(workload.pod_sets[0], name=PodSetName("other"), requests={CPU: 10**9})
    assert not podsets.exceeds(replace(workload, pod_sets=(*workload.pod_sets, others)))


def test_what_the_queue_does_not_cover_counts_where_all_pods_share_it() -> None:
    workload = admitted(1)
    (one,) = workload.pod_sets
    uncovered = replace(one, requests={**one.requests, GPU: 1})
    assert not podsets.exceeds(replace(workload, pod_sets=(uncovered,)))
    shared = model.Together(key="shared", requests={GPU: 1})
    assert podsets.exceeds(replace(workload, pod_sets=(replace(one, together=(shared,)),)))
    none = model.Together(key="shared", requests={GPU: 0})
    assert not podsets.exceeds(replace(workload, pod_sets=(replace(one, together=(none,)),)))
