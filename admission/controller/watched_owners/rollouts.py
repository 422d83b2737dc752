"""Deployments whose pods are replaced: what earlier pods hold, and who takes it over.

A pod that has ended leaves its quota to the pod that its Deployment makes instead: where the
earlier pod goes first, nobody else gets it meanwhile (ADR 0141). Where the later pod comes first,
it says on the pod that the previous revision holds the quota.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from admission.base.clock import Clock
from admission.base.names import WorkloadKey
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners.owners import resource_of
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners import deployment, serving
from admission.owners import pod as pod_owner
from admission.owners.serving import ServingKind
from admission.owners.serving_group import Document
from admission.scheduling import model

_Ident = tuple[str, str]
"""Namespace and name of a Deployment."""
KEPT: Final = "kept for the replacement of "
"""So begins the name by which quota is charged that is kept; no Workload can have such a name."""


class Ledger(Protocol):
    """What is charged."""

    on_change: Callable[[WorkloadKey, model.Workload | None, model.Workload | None], None]

    def holds(self, key: WorkloadKey) -> bool:
        """Return whether a Workload holds quota."""
        ...

    def waits(self, key: WorkloadKey) -> bool:
        """Return whether a Workload stands in a queue."""
        ...

    def keep(self, key: WorkloadKey, held: model.Workload) -> None:
        """Charge for what a Workload held that has ended, under another key."""
        ...

    def take_over(self, key: WorkloadKey, predecessor: WorkloadKey) -> bool:
        """Give a Workload that waits the quota that is charged under another key, if it suits."""
        ...

    def on_delete(self, key: WorkloadKey) -> None:
        """Charge nothing more for a key."""
        ...


@dataclass(frozen=True, slots=True)
class _Pod:
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
    """

    known: dict[WorkloadKey, _Pod] = field(default_factory=dict)
    running: Counter[str] = field(default_factory=Counter)
    holding: set[WorkloadKey] = field(default_factory=set)
    left: dict[WorkloadKey, model.Workload] = field(default_factory=dict)
    kept: dict[WorkloadKey, datetime] = field(default_factory=dict)


class Rollouts:
    """Pods of Deployments, and the Deployments that are in a queue.

    Attributes:
        informers: who takes what is watched, by resource.
    """

    def __init__(
        self, ledger: Ledger, clock: Clock, kinds: Iterable[ServingKind], *, keeps: timedelta
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
        self._deployments: dict[_Ident, Document] = {}
        self._pods: dict[_Ident, _Pods] = {}
        self._of: dict[WorkloadKey, _Ident] = {}
        self._keys: dict[str, WorkloadKey] = {}
        """Keys of the Workloads of pods that are there, by UID of the pod."""
        self._keeping: set[_Ident] = set()
        """Deployments for which quota is kept."""
        ledger.on_change = self._on_workload
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource_of(one.kind): Informer(one.kind.name, self._on_deployment, self._on_no_more)
            for one in kinds
            if one is serving.DEPLOYMENT
        }

    # ------------------------------------------------------------------------------- seeing

    def _on_deployment(self, found: Document) -> None:
        self._deployments[found.metadata.namespace, found.metadata.name] = found

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
        one = _Pod(
            uid=metadata.uid,
            revision=deployment.revision(pod),
            created=metadata.creation_timestamp or "",
            runs=not is_gated and not ended,
            waits=is_gated and not metadata.deletion_timestamp,
        )
        self._set(key, self._pods.setdefault(ident, _Pods()), one)

    def on_delete(self, uid: str) -> None:
        """Take the news that a pod is gone."""
        key = self._keys.pop(uid, None)
        if key is not None:
            pods = self._pods[self._of[key]]
            gone = replace(pods.known[key], runs=False, waits=False, is_there=False)
            self._set(key, pods, gone)

    def _set(self, key: WorkloadKey, pods: _Pods, one: _Pod) -> None:
        """Count a pod as it is now instead of as it was."""
        was, ident = pods.known.get(key), self._of[key]
        if was is not None:
            pods.running[was.revision] -= was.runs
        pods.running[one.revision] += one.runs
        pods.known[key] = one
        self._recount(key, pods)
        if not one.runs and key in pods.left:
            self._keep(ident, key, pods.left.pop(key))
        self._forget(ident)

    def _recount(self, key: WorkloadKey, pods: _Pods) -> None:
        """Count whether a pod runs or is charged; forget one that is gone and is not."""
        one = pods.known[key]
        if one.runs or self._ledger.holds(key):
            pods.holding.add(key)
            return
        pods.holding.discard(key)
        if not one.is_there:
            del pods.known[key], self._of[key]

    def _forget(self, ident: _Ident) -> None:
        """Forget a Deployment of which nothing is left."""
        pods = self._pods.get(ident)
        if pods is not None and not pods.known and not pods.kept:
            del self._pods[ident]

    def _on_workload(
        self, key: WorkloadKey, before: model.Workload | None, after: model.Workload | None
    ) -> None:
        """Take the news that a Workload is another one; what it held may be kept."""
        ident = self._of.get(key)
        if ident is None:
            return
        pods = self._pods[ident]
        self._recount(key, pods)
        one = pods.known.get(key)
        has_ended = after is None or after.finished
        if before is not None and before.counts and before.eviction is None and has_ended:
            if one is not None and one.runs:
                pods.left[key] = before
            else:
                self._keep(ident, key, before)
        self._forget(ident)

    # ----------------------------------------------------------------------------- telling

    def held_by_previous(self, pod: views.Pod) -> str:
        """Return the name of a pod's Deployment if pods of another revision run; else nothing."""
        name = deployment.of_pod(pod)
        pods = self._pods.get((pod.metadata.namespace, name))
        if pods is None:
            return ""
        others = pods.running.total() - pods.running[deployment.revision(pod)]
        return name if others else ""

    # ----------------------------------------------------------------------------- keeping

    def _wanted(self, ident: _Ident) -> int:
        """Return how many pods a Deployment is to have besides those that hold quota."""
        owner, pods = self._deployments.get(ident), self._pods.get(ident)
        wanted = 0 if owner is None else deployment.replicas(owner.spec)
        return max(0, wanted - (0 if pods is None else len(pods.holding)))

    def _keep(self, ident: _Ident, key: WorkloadKey, held: model.Workload) -> None:
        """Keep what the Workload of a pod held that has ended, if another one is to come."""
        pods = self._pods.setdefault(ident, _Pods())
        if len(pods.kept) < self._wanted(ident):
            kept = WorkloadKey(key.namespace, f"{KEPT}{key.name}")
            self._ledger.keep(kept, held)
            pods.kept[kept] = self._clock.now() + self._keeps
            self._keeping.add(ident)

    def settle(self) -> tuple[WorkloadKey, ...]:
        """Hand over what is kept, and give back what is not to be; return who got something."""
        return tuple(key for ident in sorted(self._keeping) for key in self._settle(ident))

    def _settle(self, ident: _Ident) -> Iterator[WorkloadKey]:
        """Settle for one Deployment.

        What no pod that waits can use is free as soon as all pods are there that are wanted.
        """
        pods, now = self._pods[ident], self._clock.now()
        waiting = [key for key, one in pods.known.items() if one.waits and self._ledger.waits(key)]
        for key in sorted(waiting, key=lambda one: (pods.known[one].created, one)):
            taken = next((one for one in pods.kept if self._ledger.take_over(key, one)), None)
            if taken is not None:
                del pods.kept[taken]
                waiting.remove(key)
                self._recount(key, pods)
                yield key
        wanted = self._wanted(ident)
        are_there = len(waiting) >= wanted
        for index, (key, until) in enumerate(sorted(pods.kept.items(), key=_latest_first)):
            if are_there or index >= wanted or until <= now:
                del pods.kept[key]
                self._ledger.on_delete(key)
        if not pods.kept:
            self._keeping.discard(ident)
            self._forget(ident)

    def next_due_in(self) -> float | None:
        """Return the seconds until something is not kept any more; None while nothing is."""
        ends = [until for ident in self._keeping for until in self._pods[ident].kept.values()]
        if not ends:
            return None
        return max(0.0, (min(ends) - self._clock.now()).total_seconds())


def _latest_first(kept: tuple[WorkloadKey, datetime]) -> tuple[float, WorkloadKey]:
    key, until = kept
    return -until.timestamp(), key
