"""Rolling updates of Deployments: the quota of earlier pods, and the pods that take it over.

A pod that has ended leaves its quota to the pod that its Deployment makes instead: where the
earlier pod goes first, nobody else gets it meanwhile (ADR 0139). Where the later pod comes first,
it says on the pod that the previous revision holds the quota.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from admission.base.clock import Clock
from admission.base.names import ChargeKey, KeptCharge, WorkloadKey
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners.owner_writes import resource_of
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners import deployment, serving
from admission.owners import pod as pod_owner
from admission.owners.serving import ServingKind
from admission.owners.serving_group import ServingDocument
from admission.scheduling import model

_Ident = tuple[str, str]
"""Namespace and name of a Deployment."""


class ChargedWorkloads(Protocol):
    """What the scheduler charges to Workloads."""

    on_change: Callable[[ChargeKey, model.Workload | None, model.Workload | None], None]

    def holds(self, key: WorkloadKey) -> bool:
        """Return whether a Workload holds quota."""
        ...

    def waits(self, key: WorkloadKey) -> bool:
        """Return whether a Workload is in a queue."""
        ...

    def keep(self, key: KeptCharge, workload: model.Workload) -> None:
        """Charge for what a Workload held that has ended, under another key."""
        ...

    def take_over(self, key: WorkloadKey, predecessor: KeptCharge) -> bool:
        """Give a Workload that waits the quota that is charged under another key, if it suits."""
        ...

    def has_surge_quota(self, key: WorkloadKey) -> bool:
        """Return whether the ClusterQueue in which a Workload waits has surge quota."""
        ...

    def uses_surge_quota(self, key: WorkloadKey) -> bool:
        """Return whether a Workload holds surge quota."""
        ...

    def surge(self, key: WorkloadKey, predecessor: WorkloadKey) -> bool:
        """Give a Workload that waits as much surge quota as another one holds, if it suits."""
        ...

    def move_to_quota(self, key: WorkloadKey) -> bool:
        """Charge the quota for a Workload that holds surge quota, if there is room."""
        ...

    def end_surge(self, key: WorkloadKey) -> None:
        """Have a Workload give its surge quota back."""
        ...

    def on_delete(self, key: ChargeKey) -> None:
        """Charge nothing more for a key."""
        ...


@dataclass(frozen=True, slots=True)
class _RolloutPod:
    """A pod of a Deployment.

    Attributes:
        uid: its UID.
        revision: of its pod template.
        created: when it was created.
        runs: it was released, and has not ended.
        waits: its gate holds it.
        is_there: it is not gone.
    """

    uid: str
    revision: str
    created: str
    runs: bool
    waits: bool
    is_there: bool = True


@dataclass(slots=True)
class _Pods:
    """The pods of a Deployment, by the keys of their Workloads.

    Attributes:
        known: pods that are there, or whose Workload is charged.
        running: how many of each revision run.
        holding: those that run, or whose Workload is charged.
        left: what Workloads held that are not charged any more, while their pods still run.
        kept: until when what ended pods held is charged, by the key under which it is.
        surging: until when each of them that uses surge quota may do so; None while the
            Deployment surges.
    """

    known: dict[WorkloadKey, _RolloutPod] = field(default_factory=dict)
    running: Counter[str] = field(default_factory=Counter)
    holding: set[WorkloadKey] = field(default_factory=set)
    left: dict[WorkloadKey, model.Workload] = field(default_factory=dict)
    kept: dict[KeptCharge, datetime] = field(default_factory=dict)
    surging: dict[WorkloadKey, datetime | None] = field(default_factory=dict)

    def of_others(self, revision: str) -> int:
        """Return how many pods of other revisions run."""
        return self.running.total() - self.running[revision]

    def in_order(self, keys: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """Return keys in the order in which their pods were created."""
        return sorted(keys, key=lambda key: (self.known[key].created, key))


class Rollouts:
    """Pods of Deployments, and the Deployments that are in a queue.

    Attributes:
        informers: who takes what is watched, by resource.
    """

    def __init__(
        self,
        ledger: ChargedWorkloads,
        clock: Clock,
        kinds: Iterable[ServingKind],
        *,
        keeps: timedelta,
    ) -> None:
        """Prepare an empty index.

        Args:
            ledger: is told what is charged besides Workloads, and tells what no longer is.
            clock: source of time.
            kinds: of owners that serve.
            keeps: how long the quota of a pod is kept for the one that comes instead.
        """
        self._ledger = ledger
        self._clock = clock
        self._keeps = keeps
        self._deployments: dict[_Ident, ServingDocument] = {}
        self._pods: dict[_Ident, _Pods] = {}
        self._of: dict[WorkloadKey, _Ident] = {}
        self._keys: dict[str, WorkloadKey] = {}
        """Keys of the Workloads of pods that are there, by UID of the pod."""
        self._keeping: set[_Ident] = set()
        """Deployments for which quota is kept, or of which pods use surge quota."""
        self._rolling: set[_Ident] = set()
        """Deployments of which a pod waits while pods of another revision run."""
        ledger.on_change = self._on_workload
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource_of(kind.kind): Informer(kind.kind.name, self._on_deployment, self._on_no_more)
            for kind in kinds
            if kind is serving.DEPLOYMENT
        }

    # ------------------------------------------------------------------------------- seeing

    def _on_deployment(self, document: ServingDocument) -> None:
        self._deployments[document.metadata.namespace, document.metadata.name] = document

    def _on_no_more(self, gone: views.Object) -> None:
        self._deployments.pop((gone.metadata.namespace, gone.metadata.name), None)

    def on_update(self, pod: views.Pod, *, ended: bool) -> None:
        """Take a pod as it is now.

        Args:
            pod: the pod.
            ended: whether nothing of it can run any more.
        """
        name, metadata = deployment.of_pod(pod), pod.metadata
        if not name:
            self.on_delete(metadata.uid)
            return
        key, is_gated = pod_owner.KIND.key_of(pod), pod_owner.is_gated(pod)
        self._keys[metadata.uid] = key
        ident = self._of.setdefault(key, (metadata.namespace, name))
        pod_ = _RolloutPod(
            uid=metadata.uid,
            revision=deployment.revision(pod),
            created=metadata.creation_timestamp or "",
            runs=not is_gated and not ended,
            waits=is_gated and not metadata.deletion_timestamp,
        )
        self._set(key, self._pods.setdefault(ident, _Pods()), pod_)

    def on_delete(self, uid: str) -> None:
        """Take the news that a pod is gone."""
        key = self._keys.pop(uid, None)
        if key is not None:
            pods = self._pods[self._of[key]]
            gone = replace(pods.known[key], runs=False, waits=False, is_there=False)
            self._set(key, pods, gone)

    def _set(self, key: WorkloadKey, pods: _Pods, pod: _RolloutPod) -> None:
        """Count a pod as it is now instead of as it was."""
        was, ident = pods.known.get(key), self._of[key]
        if was is not None:
            pods.running[was.revision] -= was.runs
        pods.running[pod.revision] += pod.runs
        pods.known[key] = pod
        if pod.waits and pods.of_others(pod.revision):
            self._rolling.add(ident)
        self._recount(key, pods)
        if not pod.runs and key in pods.left:
            self._keep(ident, key, pods.left.pop(key))
        self._forget(ident)

    def _recount(self, key: WorkloadKey, pods: _Pods) -> None:
        """Count whether a pod runs or is charged; forget one that is gone and is not."""
        pod = pods.known[key]
        if not self._ledger.uses_surge_quota(key):
            pods.surging.pop(key, None)
        elif key not in pods.surging:
            pods.surging[key] = None
            self._keeping.add(self._of[key])
        if pod.runs or self._ledger.holds(key):
            pods.holding.add(key)
            return
        pods.holding.discard(key)
        if not pod.is_there:
            del pods.known[key], self._of[key]

    def _forget(self, ident: _Ident) -> None:
        """Forget a Deployment of which nothing is left."""
        pods = self._pods.get(ident)
        if pods is not None and not pods.known and not pods.kept:
            del self._pods[ident]
            self._rolling.discard(ident)
            self._keeping.discard(ident)

    def _on_workload(
        self, key: ChargeKey, before: model.Workload | None, after: model.Workload | None
    ) -> None:
        """Take the news that a Workload is another one; what it held may be kept."""
        ident = self._of.get(key) if isinstance(key, WorkloadKey) else None
        if not isinstance(key, WorkloadKey) or ident is None:
            return
        pods = self._pods[ident]
        self._recount(key, pods)
        pod = pods.known.get(key)
        has_ended = after is None or after.finished
        if before is not None and _may_be_kept(before) and has_ended:
            if pod is not None and pod.runs:
                pods.left[key] = before
            else:
                self._keep(ident, key, before)
        self._forget(ident)

    # ----------------------------------------------------------------------------- telling

    def deployment_of(self, pod: views.Pod) -> ServingDocument | None:
        """Return the Deployment of a pod; None where it has none that is in a queue."""
        return self._deployments.get((pod.metadata.namespace, deployment.of_pod(pod)))

    def waiting_beside(self, key: WorkloadKey) -> list[WorkloadKey]:
        """Return the Workloads of all pods that wait of a pod's Deployment, its own among them.

        It is empty for a pod that has none.
        """
        pods = self._pods.get(self._of[key]) if key in self._of else None
        return [] if pods is None else self._waiting(pods)

    def held_by_previous(self, pod: views.Pod) -> str:
        """Return the name of a pod's Deployment if pods of another revision run; else nothing."""
        name = deployment.of_pod(pod)
        pods = self._pods.get((pod.metadata.namespace, name))
        if pods is None:
            return ""
        return name if pods.of_others(deployment.revision(pod)) else ""

    # ----------------------------------------------------------------------------- keeping

    def _wanted(self, ident: _Ident) -> int:
        """Return the number of pods of a Deployment that do not hold quota yet."""
        owner, pods = self._deployments.get(ident), self._pods.get(ident)
        replicas = 0 if owner is None else deployment.replicas(owner.spec)
        return max(0, replicas - (0 if pods is None else len(pods.holding)))

    def _keep(self, ident: _Ident, key: WorkloadKey, workload: model.Workload) -> None:
        """Keep what the Workload of a pod held that has ended, if another one is to come."""
        pods = self._pods.setdefault(ident, _Pods())
        if len(pods.kept) < self._wanted(ident):
            kept = KeptCharge(key.namespace, key.name, "replacement")
            self._ledger.keep(kept, workload)
            pods.kept[kept] = self._clock.now() + self._keeps
            self._keeping.add(ident)

    def settle(self) -> tuple[WorkloadKey, ...]:
        """Hand over what is kept, and give back what is not to be.

        Return the Workloads about which something is to be written.
        """
        settled = [key for ident in sorted(self._keeping) for key in self._settle(ident)]
        return (*settled, *(key for ident in sorted(self._rolling) for key in self._surge(ident)))

    def _settle(self, ident: _Ident) -> Iterator[WorkloadKey]:
        pods = self._pods[ident]
        if pods.surging:
            yield from self._end_surges(ident, pods)
        if pods.kept:
            yield from self._hand_over(ident, pods)
        if not pods.kept and not pods.surging:
            self._keeping.discard(ident)
            self._forget(ident)

    def _waiting(self, pods: _Pods) -> list[WorkloadKey]:
        return [key for key, pod in pods.known.items() if pod.waits and self._ledger.waits(key)]

    def _hand_over(self, ident: _Ident, pods: _Pods) -> Iterator[WorkloadKey]:
        """Give what is kept to pods that wait, and yield these.

        What none of them can use is free as soon as all pods are there that are wanted.
        """
        waiting, now = self._waiting(pods), self._clock.now()
        for key in pods.in_order(waiting):
            taken = next(
                (kept_key for kept_key in pods.kept if self._ledger.take_over(key, kept_key)), None
            )
            if taken is not None:
                del pods.kept[taken]
                waiting.remove(key)
                self._recount(key, pods)
                yield key
        replicas = self._wanted(ident)
        are_there = len(waiting) >= replicas
        for index, (kept, until) in enumerate(sorted(pods.kept.items(), key=_latest_first)):
            if are_there or index >= replicas or until <= now:
                del pods.kept[kept]
                self._ledger.on_delete(kept)

    # ----------------------------------------------------------------------------- surging

    def _end_surges(self, ident: _Ident, pods: _Pods) -> Iterator[WorkloadKey]:
        """Have pods that do not surge any more move to the quota, and yield them.

        A pod surges that is beyond the replicas of its Deployment, and beside one of an earlier
        revision that runs and holds quota. Where the Deployment is gone, none does: nobody ends
        its pods. One for which there is no room gives its surge quota back after a while.
        """
        owner, now = self._deployments.get(ident), self._clock.now()
        revisions = {pods.known[key].revision for key in pods.surging}
        beside = [
            pods.known[key]
            for key in pods.holding - pods.surging.keys()
            if pods.known[key].runs and revisions - {pods.known[key].revision}
        ]
        replicas = len(pods.holding) if owner is None else deployment.replicas(owner.spec)
        beyond = min(len(beside), max(0, len(pods.holding) - replicas))
        listed = pods.in_order(pods.surging)
        for key in listed[len(listed) - beyond :] if beyond else ():
            pods.surging[key] = None
        for key in listed[: max(0, len(listed) - beyond)]:
            until = pods.surging[key]
            if self._ledger.move_to_quota(key):
                yield key
            elif until is None:
                pods.surging[key] = now + self._keeps
            elif until <= now:
                self._ledger.end_surge(key)
                yield key

    def _surge(self, ident: _Ident) -> Iterator[WorkloadKey]:
        """Give surge quota to pods beyond the replicas, and yield them.

        Each needs a pod of another revision whose quota it will take: one that is not paired with
        a pod that surges already.
        """
        pods, owner = self._pods[ident], self._deployments.get(ident)
        waiting = [key for key in pods.known if pods.known[key].waits]
        if not any(pods.of_others(pods.known[key].revision) for key in waiting):
            self._rolling.discard(ident)
        waiting = [key for key in waiting if self._ledger.has_surge_quota(key)]
        if owner is None or not waiting:
            return
        replicas, surge = deployment.replicas(owner.spec), deployment.surge(owner.spec)
        for key in pods.in_order(key for key in waiting if self._ledger.waits(key)):
            if not replicas <= len(pods.holding) < replicas + surge:
                return
            revision = pods.known[key].revision
            earlier = [
                kept_key
                for kept_key in pods.in_order(pods.holding - pods.surging.keys())
                if pods.known[kept_key].revision != revision and pods.known[kept_key].runs
            ]
            if len(earlier) <= len(pods.surging):
                continue
            if any(self._ledger.surge(key, kept_key) for kept_key in earlier):
                self._recount(key, pods)
                yield key

    def next_due_in(self) -> float | None:
        """Return the seconds until something is not kept any more; None while nothing is."""
        ends = [
            until
            for pods in map(self._pods.__getitem__, self._keeping)
            for until in (*pods.kept.values(), *pods.surging.values())
            if until is not None
        ]
        if not ends:
            return None
        return max(0.0, (min(ends) - self._clock.now()).total_seconds())


def _may_be_kept(workload: model.Workload) -> bool:
    """Return whether a Workload holds quota and is not being evicted."""
    reservation = workload.reservation
    return (
        workload.counts
        and not workload.is_leaving
        and reservation is not None
        and not reservation.surges
    )


def _latest_first(kept: tuple[KeptCharge, datetime]) -> tuple[float, KeptCharge]:
    key, until = kept
    return -until.timestamp(), key
