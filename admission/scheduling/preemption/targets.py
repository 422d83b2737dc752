"""The choice of victims, by classical preemption or by fair sharing."""

from admission.scheduling.model import PreemptionPolicy
from admission.scheduling.preemption import classical, fair
from admission.scheduling.preemption.candidates import Need, Preemptor, Target
from admission.scheduling.snapshot import Snapshot


def choose(snapshot: Snapshot, preemptor: Preemptor, need: Need) -> tuple[Target, ...]:
    """Return victims that make room for a workload, in the order of choice; none if no way."""
    policies = preemptor.queue.spec.preemption
    if (
        policies.within_cluster_queue == PreemptionPolicy.NEVER
        and policies.reclaim_within_cohort == PreemptionPolicy.NEVER
    ):
        return ()
    sharing = snapshot.config.fair_sharing
    if sharing is None:
        return classical.targets(snapshot, preemptor, need)
    return fair.targets(snapshot, preemptor, need, sharing.strategies)
