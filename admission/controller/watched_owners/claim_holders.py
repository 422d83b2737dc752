"""Pods that hold GPUs by ResourceClaims and are charged to no queue (ADR 0057).

A pod is let go when its claims are for other devices, and is not watched after that. What it gets
in the end is in the allocation of its claims, whatever became of them meanwhile. So each pod for
which a claim with GPUs is reserved, and which is not watched, is read: where GPUs go through a
queue it is charged, as a pod that runs is, and where queues are enforced it is stopped.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from admission.base import events, names
from admission.base.clock import Clock
from admission.base.names import ClaimHolderKey, LocalQueueKey, WorkKey
from admission.base.tables import Table
from admission.controller.plans import PlanDraft
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing import informers
from admission.controller.watched_owners import owner_requests
from admission.controller.watched_owners.brake import Brake
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import resource_claim, views
from admission.objects.resource_claim import ObjectKey
from admission.owners import pod as pod_owner
from admission.reasons import added_conditions


@dataclass(slots=True)
class _ClaimHolder:
    """A pod for which claims with GPUs are reserved.

    Attributes:
        key: under which it is looked at.
        name: of the pod.
        claims: that are reserved for it.
        pod: as it was read; None before.
        is_settled: whether nothing is to be done about it.
    """

    key: ClaimHolderKey
    name: str
    claims: set[ObjectKey] = field(default_factory=set)
    pod: views.Pod | None = None
    is_settled: bool = False

    def settle(self, is_settled: bool) -> None:  # an argument of a note
        """Take whether nothing is to be done about it."""
        self.is_settled = is_settled


class ClaimHolders:
    """Pods that hold GPUs by claim, by UID, and what is to be done about those not charged."""

    def __init__(
        self,
        configuration: WatchedConfiguration,
        running: RunningPods,
        brake: Brake,
        clock: Clock,
        draft: PlanDraft,
        look_at: Callable[[Iterable[WorkKey]], None],
    ) -> None:
        """Prepare an empty index.

        Args:
            configuration: queues and namespaces as last seen.
            running: knows the pods that are watched.
            brake: says when a pod may be stopped.
            clock: source of time.
            draft: of the plan that is being derived.
            look_at: is told which keys have something to be written.
        """
        self._configuration = configuration
        self._running = running
        self._brake = brake
        self._clock = clock
        self._draft = draft
        self._look_at = look_at
        self._holders: Table[str, _ClaimHolder] = Table()
        self._in = self._holders.index(lambda _, holder: (holder.key.namespace,))
        self._of_claim: dict[ObjectKey, tuple[str, ...]] = {}
        self._uids: dict[ClaimHolderKey, dict[str, None]] = {}

    # ------------------------------------------------------------------------------- seeing

    def on_claim_update(self, claim: resource_claim.ResourceClaim) -> None:
        """Take a ResourceClaim as it is now."""
        key = informers.key_of(claim)
        pods = resource_claim.pods_of(claim) if resource_claim.given(claim) else {}
        for uid in self._of_claim.get(key, ()):
            if uid not in pods:
                self._release(uid, key)
        for uid, name in pods.items():
            self._hold(uid, name, key)
        if pods:
            self._of_claim[key] = tuple(pods)
        else:
            self._of_claim.pop(key, None)

    def on_claim_delete(self, claim: views.Object) -> None:
        """Handle the deletion of a ResourceClaim: nobody holds anything by it."""
        key = informers.key_of(claim)
        for uid in self._of_claim.pop(key, ()):
            self._release(uid, key)

    def configuration_changed(self, resource: Resource, view: views.Object) -> None:
        """Look again at pods that hold GPUs where no queue was, and none was needed."""
        namespaces: Iterable[str] = ()
        if resource is resources.NAMESPACES:
            namespaces = (view.metadata.name,)
        elif resource is resources.LOCAL_QUEUES:
            namespaces = (view.metadata.namespace,)
        elif resource is resources.CLUSTER_QUEUES:
            behind = self._configuration.behind(view.metadata.name)
            namespaces = dict.fromkeys(queue.namespace for queue in behind)
        holders = (
            self._holders[uid] for namespace in namespaces for uid in self._in.keys(namespace)
        )
        self._look_at(holder.key for holder in holders if not holder.is_settled)

    def _hold(self, uid: str, name: str, claim: ObjectKey) -> None:
        holder = self._holders.get(uid)
        if holder is None:
            key = ClaimHolderKey(claim[0], name)
            holder = _ClaimHolder(key, name)
            self._holders.put(uid, holder)
            self._uids.setdefault(key, {})[uid] = None
        if claim not in holder.claims:
            holder.claims.add(claim)
            self._look_at((holder.key,))

    def _release(self, uid: str, claim: ObjectKey) -> None:
        holder = self._holders.get(uid)
        if holder is None:
            return
        holder.claims.discard(claim)
        if not holder.claims:
            self._forget(uid, holder)

    def _forget(self, uid: str, holder: _ClaimHolder) -> None:
        self._holders.pop(uid)
        uids = self._uids[holder.key]
        del uids[uid]
        if not uids:
            del self._uids[holder.key]
        self._brake.forget(holder.key)

    # ------------------------------------------------------------------------------ writing

    def next_request(self, key: ClaimHolderKey) -> ApiRequest | None:
        """Return the next request about pods that hold GPUs by claim, or None for none."""
        for uid in self._uids.get(key, ()):
            request = self._next(uid, self._holders[uid])
            if request is not None:
                return request
        return None

    def _next(self, uid: str, holder: _ClaimHolder) -> ApiRequest | None:
        namespace = holder.key.namespace
        if holder.is_settled or not self._configuration.manages(namespace):
            return None
        enforced = self._configuration.enforces(namespace)
        if holder.pod is None:
            is_settled = self._running.has(uid)
            self._draft.note(holder.settle, is_settled)
            if is_settled or not (enforced or self._configuration.has_queues(namespace)):
                return None
            sought = views.ObjectMeta(namespace=namespace, name=holder.name, uid=uid)
            return api_requests.read(
                holder.key, WritePurpose.FIND_HOLDER, resources.PODS, sought, views.Pod
            )
        queue = self._queue_of(holder.pod)
        if queue is not None and not _is_ours(holder.pod):
            changes = pod_owner.charge_to(holder.pod, *queue)
            return owner_requests.patch(
                holder.key, resources.PODS, holder.pod, WritePurpose.CHARGE_HOLDER, changes,
                into=views.Pod,
            )  # fmt: skip
        if enforced and not holder.pod.metadata.deletion_timestamp:
            return self._stop(holder.key, holder.pod)
        self._draft.note(holder.settle, _is_ours(holder.pod))
        return None

    def _stop(self, key: ClaimHolderKey, pod: views.Pod) -> ApiRequest | None:
        """Say on a pod why it is deleted, and then delete it; None while that is held back."""
        if self._brake.holds(key, pod, None):
            return None
        text = added_conditions.CLAIMS_WITHOUT_QUEUE
        changes = pod_owner.termination(pod, text, self._clock.now())
        if changes is not None:
            return owner_requests.patch(
                key, resources.PODS, pod, WritePurpose.STOP_HOLDER, changes,
                into=views.Pod, subresource="status",
            )  # fmt: skip
        announced = events.stopped(text.message)
        deletion = owner_requests.delete(key, resources.PODS, pod, views.Pod, announced)
        return replace(deletion, operation=WritePurpose.STOP_HOLDER)

    def complete(self, outcome: RequestResult) -> None:
        """Take what came of a request about a pod that holds GPUs by claim."""
        request = outcome.request
        holder = self._holders.get(request.uid)
        if holder is None:
            return
        pod = outcome.object if isinstance(outcome.object, views.Pod) else None
        is_other = pod is not None and pod.metadata.uid != request.uid
        if outcome.result is Result.GONE or is_other:
            self._forget(request.uid, holder)
        elif pod is not None:
            holder.pod = pod
            is_found = request.operation is WritePurpose.FIND_HOLDER
            has_ended = pod_owner.is_terminal(pod)
            holder.is_settled = has_ended or (is_found and _is_ours(pod))
        elif outcome.result is Result.DONE:
            holder.is_settled = True  # it is deleted

    def _queue_of(self, pod: views.Pod) -> tuple[str, str] | None:
        """The LocalQueue and the ClusterQueue that a pod is to be charged to; None for none."""
        namespace = pod.metadata.namespace
        for name in (pod.metadata.label(names.QUEUE_LABEL), names.DEFAULT_LOCAL_QUEUE):
            queue = self._configuration.cluster_queue_of(LocalQueueKey(namespace, name), "")
            if queue:
                return name, queue
        return None


def _is_ours(pod: views.Pod) -> bool:
    """Whether a pod is watched, and so is charged or held."""
    is_managed = pod.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE
    return is_managed or bool(pod.metadata.label(names.PODSET_LABEL))
