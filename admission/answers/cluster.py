"""The objects that answers about a cluster are made from, read with the rights of who asks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from admission.answers import existing_quota
from admission.base import conditions, names
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorResource, WorkloadKey
from admission.kube import errors, resources
from admission.kube.api import PAGE, Api
from admission.kube.resources import Resource
from admission.objects import cluster_queue as cluster_queues
from admission.objects import cohort as cohorts
from admission.objects import views
from admission.objects import workload as workloads
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.queue_status import reserved
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from admission.scheduling import model, reserving
from admission.scheduling.hierarchy import CohortHierarchy
from admission.scheduling.reserving import ReservingWorkload

_T = TypeVar("_T", bound=views.Object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What was read; each collection is sorted by namespace and name.

    Attributes:
        cluster_queues: of the cluster.
        cohorts: Cohort objects; one that is only named by others has none.
        local_queues: of the namespaces that may be read.
        flavors: of the cluster.
        workloads: of the namespaces that may be read.
        pods: those that were asked for, of the namespaces that may be read.
        nodes: of the cluster.
        missing: what could not be read, a sentence each; empty where everything was.
    """

    cluster_queues: tuple[ClusterQueue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    workloads: tuple[Workload, ...] = ()
    pods: tuple[views.Pod, ...] = ()
    nodes: tuple[views.Node, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be read beside the queues.

    Attributes:
        namespace: read alone where not all may be.
        pods: label selector of the pods; None for no pods.
        pod_fields: field selector of the pods.
        nodes: whether nodes are.
        workloads: whether LocalQueues, ResourceFlavors and Workloads are.
        tree_of: a ClusterQueue; Cohorts are read only where it is in one. Empty to read them.
    """

    namespace: str
    workloads: bool = True
    tree_of: str = ""
    pods: str | None = None
    pod_fields: str = ""
    nodes: bool = False


def is_whole(missing: Iterable[str], kind: str) -> bool:
    """Return whether all objects of a kind could be read.

    Args:
        missing: sentences about what could not be read.
        kind: of the objects, as ``Workload``.
    """
    return not any(note.startswith(f"{kind}s are not shown") for note in missing)


def is_unread(missing: Iterable[str], kind: str) -> bool:
    """Return whether no object of a kind could be read, not even of the caller's namespace.

    Args:
        missing: sentences about what could not be read.
        kind: of the objects, as ``Workload``.
    """
    return any(note.startswith(f"{kind}s are not shown: ") for note in missing)


def knows_waiting(missing: Iterable[str]) -> bool:
    """Return whether all that waits could be read, and in which ClusterQueue.

    Args:
        missing: sentences about what could not be read.
    """
    notes = tuple(missing)
    return all(is_whole(notes, kind) for kind in ("Workload", "LocalQueue"))


RELEASED: Final = names.PODSET_LABEL
"""Selects the pods that an admission has started."""
RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Selects, by fields, the pods that have not ended."""

SHOWN_BY: Final = "; shown by ClusterRole "
"""What comes between what may not be read and the role that would allow it."""


def not_listed(resource: Resource) -> str:
    """Return that a kind is not shown, and the role that would show it."""
    role = names.VIEWER_ROLES.get(resource.kind)
    how = f"{SHOWN_BY}{role}" if role else ""
    return f"{resource.kind}s are not shown: you may not list them{how}"


def read(api: Api, selection: Wanted) -> Objects:
    """Read what the caller may read.

    Raises:
        KubeError: the API server did not answer, or does not serve Kueue's kinds.
    """
    missing: list[str] = []
    lists = _Lists(api, selection.namespace, missing)
    of_workloads = lists.of if selection.workloads else _nothing
    queues = lists.of(resources.CLUSTER_QUEUES, ClusterQueue)
    in_cohort = not selection.tree_of or any(
        queue.spec.cohort_name for queue in queues if queue.metadata.name == selection.tree_of
    )
    return Objects(
        cluster_queues=queues,
        cohorts=lists.of(resources.COHORTS, Cohort) if in_cohort else (),
        local_queues=of_workloads(resources.LOCAL_QUEUES, LocalQueue),
        flavors=of_workloads(resources.RESOURCE_FLAVORS, ResourceFlavor),
        workloads=of_workloads(resources.WORKLOADS, Workload),
        pods=()
        if selection.pods is None
        else lists.of(resources.PODS, views.Pod, selection.pods, selection.pod_fields),
        nodes=lists.of(resources.NODES, views.Node) if selection.nodes else (),
        missing=tuple(missing),
    )


def with_workloads(api: Api, objects: Objects, namespace: str) -> Objects:
    """Return objects with LocalQueues and Workloads beside the queues that were read.

    Raises:
        KubeError: the API server did not answer.
    """
    missing = list(objects.missing)
    lists = _Lists(api, namespace, missing)
    return replace(
        objects,
        local_queues=lists.of(resources.LOCAL_QUEUES, LocalQueue),
        workloads=lists.of(resources.WORKLOADS, Workload),
        missing=tuple(missing),
    )


def read_flavors(api: Api) -> tuple[ResourceFlavor, ...]:
    """Return the ResourceFlavors; none where they may not be listed.

    Raises:
        KubeError: the API server did not answer.
    """
    return _Lists(api, "", []).of(resources.RESOURCE_FLAVORS, ResourceFlavor)


def read_nodes(api: Api) -> tuple[views.Node, ...]:
    """Return the nodes; none where they may not be listed.

    Raises:
        KubeError: the API server did not answer.
    """
    return _Lists(api, "", []).of(resources.NODES, views.Node)


def read_holders(api: Api, namespace: str, *, is_alone: bool = False) -> Objects:
    """Return the Workloads, and the pods that an admission has started and that have not ended.

    Args:
        api: is asked with the rights of the caller.
        namespace: read alone where not all may be.
        is_alone: read no other namespace, even where that is allowed.

    Raises:
        KubeError: the API server did not answer.
    """
    missing: list[str] = []
    lists = _Lists(api, namespace, missing, is_alone=is_alone)
    return Objects(
        workloads=lists.of(resources.WORKLOADS, Workload),
        pods=lists.of(resources.PODS, views.Pod, RELEASED, RUNNING),
        missing=tuple(missing),
    )


def _nothing(resource: Resource, kind: type[_T]) -> tuple[_T, ...]:  # noqa: ARG001 - as `_Lists.of`
    return ()


class _Lists:
    """Lists kinds, and writes down what may not be listed."""

    def __init__(
        self, api: Api, namespace: str, missing: list[str], *, is_alone: bool = False
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._missing = missing
        self._is_alone = is_alone

    def of(
        self, resource: Resource, kind: type[_T], labels: str = "", fields: str = ""
    ) -> tuple[_T, ...]:
        """Return the objects of a kind: of all namespaces, else of the caller's, else none."""
        if not (self._is_alone and resource.namespaced):
            with suppress(errors.ForbiddenError):
                return tuple(self._pages(resource, kind, "", labels, fields))
        plural = f"{resource.kind}s"
        if not resource.namespaced:
            self._missing.append(not_listed(resource))
            return ()
        try:
            objects_read = tuple(self._pages(resource, kind, self._namespace, labels, fields))
        except errors.ForbiddenError:
            self._missing.append(
                f"{plural} are not shown: you may not list them, nor those of namespace "
                f"{self._namespace}"
            )
            return ()
        if self._is_alone:
            return objects_read
        self._missing.append(
            f"{plural} are not shown outside namespace {self._namespace}: you may not list them"
        )
        return objects_read

    def _pages(
        self, resource: Resource, kind: type[_T], namespace: str, labels: str, fields: str
    ) -> Iterator[_T]:
        token = ""
        while True:
            page = self._api.list(
                resource,
                namespace,
                label_selector=labels,
                field_selector=fields,
                limit=PAGE,
                continue_=token,
                into=kind,
            )
            yield from page.items
            for undecodable in page.undecodable:
                name_shown = "/".join(filter(None, (undecodable.namespace, undecodable.name)))
                self._missing.append(
                    f"{resource.kind} {name_shown} is left out: {undecodable.error}"
                )
            token = page.continue_
            if not token:
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Objects as values of scheduling, put in relation to each other.

    Attributes:
        objects: as they were read.
        forest: quota trees, with usage as the ClusterQueues' status tells it.
        admitting: the same trees as the controller admits by: where the capacity guard is set,
            quota is held to what exists.
        uncounted: ClusterQueues with quota of which it is not known how much exists, though it is
            held to that.
        queues: ClusterQueues by name.
        locals_: LocalQueues by namespace and name.
        values: Workloads that can be read, by identity.
        holding: those of them that hold quota, by identity.
        pods_of: pods by the Workload that started them.
    """

    objects: Objects
    forest: CohortHierarchy
    admitting: CohortHierarchy
    uncounted: AbstractSet[tuple[str, FlavorResource]]
    queues: Mapping[str, ClusterQueue]
    locals_: Mapping[tuple[str, str], LocalQueue]
    workloads: Mapping[WorkloadKey, Workload]
    values: Mapping[WorkloadKey, model.Workload]
    holding: Mapping[WorkloadKey, ReservingWorkload]
    pods_of: Mapping[WorkloadKey, tuple[views.Pod, ...]]
    unreadable: tuple[str, ...] = field(default=())

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what could not be read, or not be understood."""
        return (*self.objects.missing, *self.unreadable)

    @property
    def known_queues(self) -> AbstractSet[str]:
        """Return the names of the ClusterQueues that can be read, or that a LocalQueue names."""
        return {
            local_queue.spec.cluster_queue for local_queue in self.objects.local_queues
        } | self.queues.keys()

    def cluster_queue_of(self, namespace: str, local_queue: str) -> str:
        """Return the ClusterQueue behind a LocalQueue; empty where that is not known."""
        local_queue_ = self.locals_.get((namespace, local_queue))
        return local_queue_.spec.cluster_queue if local_queue_ is not None else ""

    def is_admitted(self, pod: views.Pod) -> bool:
        """Return whether a queue admitted a pod: its Workload holds quota, or it names a queue."""
        workload = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
        is_held_for = WorkloadKey(pod.metadata.namespace, workload) in self.holding
        return is_held_for or bool(pod.metadata.label(names.CLUSTER_QUEUE_NAME_LABEL))

    def is_releasing(self, key: WorkloadKey) -> bool:
        """Return whether a Workload that holds quota is about to give it back.

        It was evicted or deleted, or all of its pods are being deleted.
        """
        view = self.workloads.get(key)
        if view is None:
            return False
        if view.metadata.deletion_timestamp or view.status.is_true(conditions.EVICTED):
            return True
        pods = self.pods_of.get(key, ())
        return bool(pods) and all(pod.metadata.deletion_timestamp for pod in pods)


def relate(objects: Objects) -> Read:
    """Put objects in relation to each other; those that break a rule are left out."""
    unreadable: list[str] = []
    readable = _each(objects.workloads, workloads.scheduling_value, unreadable)
    by_key = {workload.workload_key: workload for _, workload in readable}
    holding = {
        key: reserving.of(workload, workload.reservation)
        for key, workload in by_key.items()
        if workload.counts and workload.reservation is not None
    }
    forest = _forest(objects, holding, unreadable)
    existing = existing_quota.of(forest, objects.cluster_queues)
    return Read(
        objects=objects,
        forest=forest,
        admitting=existing.forest,
        uncounted=existing.uncounted,
        queues={
            cluster_queue.metadata.name: cluster_queue for cluster_queue in objects.cluster_queues
        },
        locals_={
            (local_queue.metadata.namespace, local_queue.metadata.name): local_queue
            for local_queue in objects.local_queues
        },
        workloads={workload.key(): workload for workload in objects.workloads},
        values=by_key,
        holding=holding,
        pods_of=_pods_of(objects.pods),
        unreadable=tuple(unreadable),
    )


_View = TypeVar("_View", bound=views.Object)
_Value = TypeVar("_Value")


def _each(
    views_: tuple[_View, ...], value_of: Callable[[_View], _Value], unreadable: list[str]
) -> Iterator[tuple[str, _Value]]:
    for view in views_:
        name = "/".join(filter(None, (view.metadata.namespace, view.metadata.name)))
        try:
            yield name, value_of(view)
        except InvalidValueError as error:
            unreadable.append(f"{type(view).__name__} {name} is left out: {error}")


def _forest(
    objects: Objects,
    holding: Mapping[WorkloadKey, ReservingWorkload],
    unreadable: list[str],
) -> CohortHierarchy:
    forest = CohortHierarchy()
    for _, cohort in _each(objects.cohorts, cohorts.scheduling_value, unreadable):
        forest.set_cohort(cohort)
    views_ = {
        cluster_queue.metadata.name: cluster_queue for cluster_queue in objects.cluster_queues
    }
    for name, queue in _each(objects.cluster_queues, cluster_queues.scheduling_value, unreadable):
        forest.set_queue(queue).usage = reserved(views_[name].status.flavors_reservation)
    for workload in holding.values():
        node = forest.queues.get(workload.cluster_queue)
        if node is not None and workload.surges:
            for pair, value in workload.usage.items():
                node.surge_usage[pair] = node.surge_usage.get(pair, 0) + value
    for node in forest.queues.values():
        for pair, surge in node.surge_usage.items():
            node.usage[pair] = max(0, node.usage.get(pair, 0) - surge)
    forest.refresh()
    return forest


def _pods_of(pods: tuple[views.Pod, ...]) -> dict[WorkloadKey, tuple[views.Pod, ...]]:
    by_workload: dict[WorkloadKey, list[views.Pod]] = {}
    for pod in pods:
        named = pod.metadata.annotation(names.WORKLOAD_ANNOTATION)
        if named and pod.status.phase not in {"Succeeded", "Failed"}:
            by_workload.setdefault(WorkloadKey(pod.metadata.namespace, named), []).append(pod)
    return {key: tuple(pods) for key, pods in by_workload.items()}
