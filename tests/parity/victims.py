"""The recorded victims of one preemption (family T01) against those that this engine chooses.

Such a case has no steps. It records what Kueue's ``GetTargets`` answered for the pending workload
``incoming``, which asks for cpu in the flavor ``std``. More than one answer is recorded where
Kueue's own depends on the order of a map; each of them is right.
"""

from collections.abc import Mapping
from typing import Any, Final

from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    ResourceName,
    WorkloadKey,
)
from admission.scheduling import podsets
from admission.scheduling.preemption import targets
from admission.scheduling.preemption.candidates import Need, Preemptor
from admission.scheduling.snapshot import Snapshot
from tests.parity.case import Run
from tests.parity.compare import Difference

_CPU: Final = ResourceName("cpu")
_WANTED: Final = FlavorResource(FlavorName("std"), _CPU)


def chosen(case: Mapping[str, Any]) -> dict[str, str]:
    """Return the victims of the case's incoming workload, and why each was chosen."""
    state = Run(case).state
    state.forest.refresh()
    snapshot = Snapshot(forest=state.forest, flavors={}, config=state.config, cycle=1, now_us=0)
    incoming = state.workload(WorkloadKey("default", case["incoming"]))
    assert incoming is not None
    preemptor = Preemptor(
        key=incoming.key,
        uid=incoming.uid,
        queue=snapshot.queue(ClusterQueueName(incoming.queue.name)),
        local_queue=incoming.queue,
        priority=incoming.priority,
        queue_us=podsets.queue_timestamp(incoming, by_eviction=True),
    )
    (demand,) = podsets.demands(incoming)
    need = Need(requests={_WANTED: demand.requests[_CPU]}, short=frozenset((_WANTED,)))
    found = targets.choose(snapshot, preemptor, need)
    return {one.workload.key.name: str(one.reason) for one in found}


def differences(case: Mapping[str, Any]) -> list[Difference]:
    """Return the one difference of the case, if this engine's answer was not recorded."""
    found, recorded = chosen(case), case["targets"]
    if found in recorded:
        return []
    expected = recorded[0] if len(recorded) == 1 else recorded
    return [Difference(case["id"], -1, "targets", expected, found)]
