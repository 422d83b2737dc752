"""Let what waits for quota run outside of quota, with nothing but the API server.

A pod loses its gate; an owner that is suspended is started. Both get the marks of an admission, so
that they are charged as soon as a controller looks at them, and a mark that says that an
administrator let them run: a controller never stops them for want of quota. Only those whom the
policies trust can write these marks. See docs/adr/0214-what-is-let-run-outside-of-quota.md.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from admission.base import clock as clocks
from admission.base import names, patches
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.base.names import WorkloadKey
from admission.kube import errors, resources
from admission.kube.api import Api, every_served
from admission.kube.apply import Applied, Effect
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload, WorkloadSpec
from admission.owners import injection, pod_group
from admission.owners import pod as pod_owner
from admission.owners.framework import Integration
from admission.owners.injection import Injection
from admission.owners.integrations import Kinds

_REFUSED_SECONDS: Final = 10.0
"""How long an API server may go on applying policies that were deleted; it looks every second."""
_POLL_SECONDS: Final = 0.1
_CONFLICTS: Final = 20


class ReleaseError(AdmissionError):
    """What is to be let run does not exist."""

    def __init__(self, message: str, advice: str) -> None:
        """Keep what is wrong, and what to do about it."""
        super().__init__(message)
        self.advice = advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects are let run.

    Attributes:
        namespace: theirs; empty for every namespace.
        kind: theirs as kubectl takes it, in lower case: singular or plural, or with the group;
            empty for every kind.
        name: of the one object; empty for all.
    """

    namespace: str = ""
    kind: str = ""
    name: str = ""

    def is_about(self, resource: Resource) -> bool:
        """Return whether objects of a kind are meant."""
        kinds = (resource.kind.lower(), resource.plural)
        return self.kind in {"", *kinds, *(f"{kind}.{resource.group}" for kind in kinds)}

    def includes(self, metadata: views.ObjectMeta) -> bool:
        """Return whether an object of a kind that is meant is meant."""
        return self.namespace in {"", metadata.namespace} and self.name in {"", metadata.name}


EVERYTHING: Final = Selection()


class Releaser:
    """Lets what waits run outside of quota.

    Attributes:
        charged: ClusterQueues to which what was let run is charged, in the order of the writes.
    """

    def __init__(
        self,
        api: Api,
        kinds: Kinds,
        clock: Clock,
        wait: Callable[[float], None],
        *,
        is_dry_run: bool = False,
    ) -> None:
        """Prepare to write.

        Args:
            api: the cluster.
            kinds: of owners.
            clock: says since when they run, and bounds the wait for policies that were deleted.
            wait: sleeps for seconds.
            is_dry_run: store nothing. The API server checks what would be written to a pod; of an
                owner only its mark, since what has no mark may not be started.
        """
        self._api = api.dry_run() if is_dry_run else api
        self._is_dry_run = is_dry_run
        self._kinds = kinds
        self._clock = clock
        self._wait = wait
        self._tolerations_by_queue: dict[str, tuple[views.Toleration, ...]] = {"": ()}
        self._since = clocks.to_wire(clock.now())
        self._deadline = clock.monotonic() + _REFUSED_SECONDS
        self.charged: dict[str, None] = {}

    def owners(self, chosen: Selection = EVERYTHING) -> Iterator[Applied]:
        """Start suspended owners with a queue, and yield each that was started.

        Kinds and namespaces that are not meant are not read: who may let one Job run need not be
        allowed to see others.

        Raises:
            KubeError: the API server refused.
        """
        for integration, resource, document in queued_owners(self._api, self._kinds, chosen):
            if self._start(integration, resource, document.metadata):
                yield _configured(integration.kind.name, document.metadata)

    def pods(self, chosen: Selection = EVERYTHING) -> Iterator[Applied]:
        """Take the gate off pods that wait, and yield each; of a group all its pods.

        Raises:
            KubeError: the API server refused.
        """
        if not chosen.is_about(resources.PODS):
            return
        for pod in gated_pods(self._api, chosen):
            if self._sent(resources.PODS, pod.metadata, views.Pod, self._changes_of_pod):
                yield _configured(resources.PODS.kind, pod.metadata)

    def require(self, chosen: Selection) -> None:
        """Return if what is meant by kind and name exists.

        Raises:
            ReleaseError: there is no such kind or object.
            KubeError: the API server refused.
        """
        meant = [resource for resource in self._resources() if chosen.is_about(resource)]
        if not meant:
            kinds = ", ".join(sorted({resource.kind.lower() for resource in self._resources()}))
            raise ReleaseError(
                f"{chosen.kind} is not a kind that is let run; these are: {kinds}",
                "of other kinds let run the pods: kubectl get pods "
                f"-n {chosen.namespace or 'NAMESPACE'}",
            )
        for resource in meant:
            try:
                self._api.get(resource, chosen.name, chosen.namespace)
            except errors.NotFoundError:
                continue
            return
        raise ReleaseError(
            f"{chosen.kind}/{chosen.name} does not exist in namespace {chosen.namespace}",
            f"correct the name or the namespace; those that wait: kubectl gpu queue "
            f"-n {chosen.namespace}",
        )

    def _resources(self) -> Iterator[Resource]:
        yield resources.PODS
        for integration in self._kinds.integrations:
            if not integration.kind.is_deleted_to_stop:
                yield _resource_of(integration)

    # ------------------------------------------------------------------------------- owners

    def _start(
        self, integration: Integration[Any, Any], resource: Resource, metadata: views.ObjectMeta
    ) -> bool:
        """Start an owner; the mark is there before it runs."""

        def mark(document: Any) -> patches.Patch | None:
            if not is_startable(integration, document):
                return None
            metadata = document.metadata
            self._charge(metadata.namespace, metadata.label(names.QUEUE_LABEL))
            marks = {names.OUTSIDE_QUOTA: self._since}
            version = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
            return patches.merge({"metadata": {**version, "annotations": marks}})

        def start(document: Any) -> patches.Patch | None:
            if not is_startable(integration, document):
                return None
            view = integration.view(document)
            owner, key = integration.owner(view), integration.kind.key_of(view)
            queue = view.metadata.label(names.QUEUE_LABEL)
            workload = Workload(
                metadata=views.ObjectMeta(name=key.name, namespace=key.namespace),
                spec=WorkloadSpec(queue_name=queue),
            )
            return owner.start(workload, self._marks(key, queue, tuple(owner.pod_sets)))

        into = integration.document
        is_marked = self._sent(resource, metadata, into, mark)
        # A dry run leaves no mark.
        return is_marked and (self._is_dry_run or self._sent(resource, metadata, into, start))

    # --------------------------------------------------------------------------------- pods

    def _changes_of_pod(self, pod: views.Pod) -> patches.Patch | None:
        if not _is_gated(pod):
            return None
        return pod_owner.let_run(pod, self._since, self._marks_of_pod(pod))

    def _marks_of_pod(self, pod: views.Pod) -> Injection | None:
        """Return what an admission would give a pod, but for flavors; None where it has no queue.

        A pod of an admitted owner has it already.
        """
        metadata = pod.metadata
        queue = metadata.label(names.QUEUE_LABEL)
        if not queue or metadata.label(names.MANAGED_LABEL) != names.MANAGED_VALUE:
            return None
        group = pod_owner.group_name(pod)
        name = group or pod_owner.KIND.key_of(pod).name
        pod_set = pod_group.role_of(pod) if group else names.DEFAULT_PODSET
        key = WorkloadKey(metadata.namespace, name)
        return self._marks(key, queue, (pod_set,))[pod_set]

    # ------------------------------------------------------------------------------- either

    def _marks(
        self, key: WorkloadKey, queue: str, pod_sets: tuple[str, ...]
    ) -> dict[str, Injection]:
        """Return what an admission of a Workload would give each pod set, but for flavors.

        It gets the tolerations of all flavors of the queue, so that any of their nodes takes it.
        """
        cluster_queue = self._charge(key.namespace, queue)
        tolerations = self._tolerations(cluster_queue)
        return {
            pod_set: Injection(
                node_selector={},
                tolerations=tolerations,
                labels=injection.labels_of(pod_set, queue, cluster_queue),
                annotations={names.WORKLOAD_ANNOTATION: key.name},
            )
            for pod_set in pod_sets
        }

    def _charge(self, namespace: str, queue: str) -> str:
        """Return the ClusterQueue of a LocalQueue, and keep that it is charged; empty for none."""
        cluster_queue = self._cluster_queue(namespace, queue)
        if cluster_queue:
            self.charged[cluster_queue] = None
        return cluster_queue

    def _cluster_queue(self, namespace: str, queue: str) -> str:
        """Return the ClusterQueue of a LocalQueue; empty where there is none, or it is unread."""
        if not queue:
            return ""
        try:
            local_queue = self._api.get(resources.LOCAL_QUEUES, queue, namespace)
        except (errors.ForbiddenError, errors.NotFoundError):
            return ""
        return str((local_queue.get("spec") or {}).get("clusterQueue") or "")

    def _tolerations(self, cluster_queue: str) -> tuple[views.Toleration, ...]:
        """Return those of all flavors of a ClusterQueue, each once; none where they are unread."""
        if cluster_queue not in self._tolerations_by_queue:
            tolerations: dict[views.Toleration, None] = {}
            with suppress(errors.ForbiddenError, errors.NotFoundError):
                view = self._api.get(resources.CLUSTER_QUEUES, cluster_queue, into=ClusterQueue)
                for group in view.spec.resource_groups or ():
                    for flavor in group.flavors:
                        tolerations |= dict.fromkeys(self._of_flavor(flavor.name))
            self._tolerations_by_queue[cluster_queue] = tuple(tolerations)
        return self._tolerations_by_queue[cluster_queue]

    def _of_flavor(self, name: str) -> tuple[views.Toleration, ...]:
        try:
            flavor = self._api.get(resources.RESOURCE_FLAVORS, name, into=ResourceFlavor)
        except errors.NotFoundError:
            return ()
        return tuple(flavor.spec.tolerations or ())

    def _sent(
        self,
        resource: Resource,
        metadata: views.ObjectMeta,
        into: type[Any],
        changes_of: Callable[[Any], patches.Patch | None],
    ) -> bool:
        """Send the change of an object as it is now; return whether there was one."""
        conflicts = 0
        while True:
            try:
                document = self._api.get(resource, metadata.name, metadata.namespace, into=into)
                changes = changes_of(document)
                if changes is None:
                    return False
                self._api.patch(resource, metadata.name, changes, metadata.namespace)
            except errors.NotFoundError:
                return False
            except errors.ConflictError:  # somebody wrote it meanwhile
                conflicts += 1
                if conflicts == _CONFLICTS:
                    raise
            except errors.ForbiddenError:  # a policy that was deleted may be in force for a moment
                if self._clock.monotonic() > self._deadline:
                    raise
                self._wait(_POLL_SECONDS)
            else:
                return True


def gated_pods(api: Api, chosen: Selection = EVERYTHING) -> list[views.Pod]:
    """Return the gated pods that are meant, and all others of their groups.

    Raises:
        KubeError: the API server refused.
    """
    gated = {
        pod.metadata.uid: pod
        for selector in (f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}", names.PODSET_LABEL)
        for pod in every_served(
            api,
            resources.PODS,
            namespace=chosen.namespace,
            label_selector=selector,
            into=views.Pod,
        )
        if _is_gated(pod)
    }
    meant = {uid for uid, pod in gated.items() if chosen.includes(pod.metadata)}
    groups = {_group(gated[uid]) for uid in meant} - {None}
    return [pod for uid, pod in gated.items() if uid in meant or _group(pod) in groups]


def suspended_owners(api: Api, kinds: Kinds) -> Iterator[tuple[str, views.ObjectMeta]]:
    """Yield kind and metadata of each owner with a queue that is suspended and has not ended.

    Raises:
        KubeError: the API server refused.
    """
    for integration, _, document in queued_owners(api, kinds):
        if is_startable(integration, document):
            yield integration.kind.name, document.metadata


def queued_owners(
    api: Api, kinds: Kinds, chosen: Selection = EVERYTHING
) -> Iterator[tuple[Integration[Any, Any], Resource, Any]]:
    """Yield the owners with a queue that are meant, each as its integration decodes it.

    Raises:
        KubeError: the API server refused.
    """
    for integration in kinds.integrations:
        if integration.kind.is_deleted_to_stop:
            continue  # pods
        resource = _resource_of(integration)
        if not chosen.is_about(resource):
            continue
        listed = every_served(
            api,
            resource,
            namespace=chosen.namespace,
            label_selector=names.QUEUE_LABEL,
            into=integration.document,
        )
        for document in listed:
            if chosen.includes(document.metadata):
                yield integration, resource, document


def is_startable(integration: Integration[Any, Any], document: Any) -> bool:
    """Return whether an owner is suspended, has not ended, and has pods to start."""
    owner = integration.owner(integration.view(document))
    return owner.is_held() and owner.finished() is None and bool(owner.pod_sets)


def _resource_of(integration: Integration[Any, Any]) -> Resource:
    kind = integration.kind
    resource = resources.of_kind(kind.api_version, kind.name)
    return resource or Resource(kind.group, kind.version, kind.plural, kind.name)


def _is_gated(pod: views.Pod) -> bool:
    """Return whether a gate holds a pod that only a controller of ours takes off."""
    is_ours = not pod.metadata.annotation(names.FOREIGN_TOPOLOGY_GATE)
    is_placed = is_ours and bool(pod.metadata.label(names.PODSET_LABEL))
    gates = names.QUOTA_GATES | {names.TOPOLOGY_GATE} if is_placed else names.QUOTA_GATES
    return any(gate.name in gates for gate in pod.spec.scheduling_gates or ())


def _group(pod: views.Pod) -> tuple[str, str] | None:
    """Return namespace and name of the group of a pod; None for a single pod."""
    name = pod_owner.group_name(pod)
    return (pod.metadata.namespace, name) if name else None


def _configured(kind: str, metadata: views.ObjectMeta) -> Applied:
    return Applied(
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        effect=Effect.CONFIGURED,
    )
