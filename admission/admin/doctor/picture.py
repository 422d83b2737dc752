"""The cluster as it is read once: what all checks look at."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from admission.admin import break_glass
from admission.base import clock, names, structs
from admission.config.derived import Settings
from admission.gpu import capacity
from admission.gpu.capacity import NodeCapacity
from admission.gpu.catalogue import Catalogue
from admission.gpu.nodes import NodeFacts
from admission.gpu.published import Published
from admission.installed import cabundles
from admission.kube import resources
from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.objects import kinds, nodes, resource_flavor, resource_slice, values, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_claim import DeviceClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_slice import ResourceSlice
from admission.objects.workload import Workload
from admission.scheduling.model import Taint
from admission.scheduling.places import predicate

OURS: Final = (
    (resources.MUTATING_WEBHOOKS, cabundles.MUTATING_NAME),
    (resources.VALIDATING_WEBHOOKS, cabundles.VALIDATING_NAME),
)
"""The webhook configurations of an installation."""
DEFINITIONS: Final = tuple(f"{kind.plural}.{names.KUEUE_GROUP}" for kind in kinds.KINDS)
"""The CustomResourceDefinitions of an installation."""
NODE_LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", part="nodes")
OWN_PODS: Final = Resource("", "v1", "pods", "Pod", part="ours")
OWN_CONFIG: Final = Resource("", "v1", "configmaps", "ConfigMap", part="ours")
BROKEN_GLASS: Final = Resource("", "v1", "configmaps", "ConfigMap", part="glass")
QUOTA_SYSTEMS: Final = (
    Resource("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False),
    Resource("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota"),
    Resource("scheduling.x-k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota"),
    Resource("nos.nebuly.com", "v1alpha1", "elasticquotas", "ElasticQuota"),
)
"""Kinds with which others hand out GPUs: KAI, Koordinator, scheduler-plugins, nos."""

_V = TypeVar("_V", bound=views.Object)


class TimedPodStatus(views.PodStatus, frozen=True, kw_only=True):
    """A pod's status, with the time at which it began to run."""

    start_time: str | None = None


class TimedPod(views.Pod, frozen=True, kw_only=True):
    """v1 Pod, with the time at which it began to run."""

    status: TimedPodStatus = TimedPodStatus()


def is_admitted(pod: TimedPod) -> bool:
    """Return whether a queue admitted a pod, or waits to."""
    labels = pod.metadata.labels or {}
    managed = labels.get(names.MANAGED_LABEL) == names.MANAGED_VALUE
    return managed or names.PODSET_LABEL in labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What the API server answered to a pod that it was asked to check and not to store.

    Attributes:
        namespace: in which the pod would be.
        pod: as it would be stored; None where it was refused, or nobody asked.
        refusal: the API server's text where it was refused.
        unasked: why nobody asked, or why the answer says nothing of us.
    """

    namespace: str = ""
    pod: Document | None = None
    refusal: str = ""
    unasked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """What the API server and its clients say of too many requests.

    Attributes:
        refused: requests that the API server refused while it was read, by priority level.
        met: how many requests of ours it refused for load.
        unseen: why its counters could not be read.
    """

    refused: Mapping[str, int] = field(default_factory=dict)
    met: int = 0
    unseen: str = ""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A cluster at one moment.

    Attributes:
        now: the API server's time, else this machine's.
        here: this machine's time at that moment; None where the API server's is not known.
        read_seconds: how long it took from then on until everything was read.
        settings: of the installation.
        settings_known: whether they were read; else the defaults stand for them.
        settings_problem: why they cannot be read.
        objects: documents by kind.
        pods: those of all namespaces that have not ended.
        nodes: all of them.
        workloads: of all namespaces.
        unseen: why objects of a kind could not be read, by kind.
        trial: whether the webhook answers.
        secret: the webhook's certificates in the cluster, without any key.
        served: the webhook's certificates as PEM text, where it is reached by URL from here.
        overload: whether the API server keeps up.
        glass: whether break-glass is on, and what runs outside of quota. What it took away is
            among the objects.
    """

    now: datetime
    here: datetime | None = None
    read_seconds: float = 0.0
    settings: Settings = field(default_factory=Settings)
    settings_known: bool = False
    settings_problem: str = ""
    objects: Mapping[Resource, tuple[Document, ...]] = field(default_factory=dict)
    pods: tuple[TimedPod, ...] = ()
    nodes: tuple[views.Node, ...] = ()
    workloads: tuple[Workload, ...] = ()
    unseen: Mapping[Resource, str] = field(default_factory=dict)
    trial: Trial = Trial(unasked="nobody asked")
    secret: Mapping[str, bytes] = field(default_factory=dict)
    served: bytes = b""
    overload: Overload = Overload()
    glass: break_glass.Status = field(default_factory=break_glass.Status)

    @property
    def namespace(self) -> str:
        """Return where the program is installed."""
        return self.settings.namespace

    def of(self, resource: Resource) -> tuple[Document, ...]:
        """Return the objects of a kind; none where it is not served."""
        return self.objects.get(resource, ())

    def named(self, resource: Resource, name: str, namespace: str = "") -> Document | None:
        """Return one object; None where there is none."""
        for document in self.of(resource):
            metadata = document["metadata"]
            if metadata["name"] == name and metadata.get("namespace", "") == namespace:
                return document
        return None

    @cached_property
    def is_inside(self) -> bool:
        """Return whether webhook and controller run in the cluster."""
        return any("service" in hook["clientConfig"] for _, hook in self.hooks())

    def hooks(self) -> Iterator[tuple[Document, Mapping[str, Any]]]:
        """Yield each webhook of our configurations, with the configuration."""
        for resource, name in OURS:
            configuration = self.named(resource, name)
            for hook in (configuration or {}).get("webhooks") or ():
                assert configuration is not None
                yield configuration, hook

    @cached_property
    def cluster_queues(self) -> tuple[ClusterQueue, ...]:
        """Return the ClusterQueues that can be read."""
        return _views(self.of(resources.CLUSTER_QUEUES), ClusterQueue)

    @cached_property
    def cohorts(self) -> tuple[Cohort, ...]:
        """Return the Cohorts that can be read."""
        return _views(self.of(resources.COHORTS), Cohort)

    @cached_property
    def local_queues(self) -> tuple[LocalQueue, ...]:
        """Return the LocalQueues that can be read and whose namespace is not being deleted."""
        leaving = {
            namespace["metadata"]["name"]
            for namespace in self.of(resources.NAMESPACES)
            if namespace["metadata"].get("deletionTimestamp")
        }
        listed = _views(self.of(resources.LOCAL_QUEUES), LocalQueue)
        return tuple(queue for queue in listed if queue.metadata.namespace not in leaving)

    @cached_property
    def flavors(self) -> Mapping[str, ResourceFlavor]:
        """Return the ResourceFlavors that can be read, by name."""
        flavors = _views(self.of(resources.RESOURCE_FLAVORS), ResourceFlavor)
        return {flavor.metadata.name: flavor for flavor in flavors}

    @cached_property
    def device_classes(self) -> tuple[DeviceClass, ...]:
        """Return the DeviceClasses that can be read."""
        return _views(self.of(resources.DEVICE_CLASSES), DeviceClass)

    @cached_property
    def catalogue(self) -> Catalogue:
        """Return the GPUs that the installation knows."""
        return self.settings.gpu.catalogue()

    @cached_property
    def gpu_nodes(self) -> tuple[tuple[NodeFacts, NodeCapacity], ...]:
        """Return the nodes with GPUs, and what each adds to the capacity of its flavors."""
        published = _published(self.of(resources.RESOURCE_SLICES))
        policy = self.settings.gpu.health.policy
        node_facts = (
            nodes.node_facts(node, None, published.get(node.metadata.name)) for node in self.nodes
        )
        return tuple(
            (facts, capacity.of_node(facts, self.catalogue, policy))
            for facts in node_facts
            if nodes.has_gpus(facts)
        )

    def nodes_of(self, flavor: ResourceFlavor) -> tuple[tuple[NodeFacts, NodeCapacity], ...]:
        """Return the nodes with GPUs that a flavor selects."""
        return tuple(
            gpu_node for gpu_node in self.gpu_nodes if selects(flavor, gpu_node[0].labels)
        )

    def repelling(self, flavor: ResourceFlavor, node: str) -> Taint | None:
        """Return the taint of a node that pods of a flavor do not tolerate; None for none."""
        value = resource_flavor.scheduling_value(flavor)
        tolerations = predicate.tolerated_in(value, self.settings.gpu.toleration_key)
        return predicate.repelling(self._taints.get(node, ()), tolerations)

    def has_state_taint(self, node: str) -> bool:
        """Return whether a taint of a node says that it is cordoned, not ready or unreachable."""
        return any(taint.key in nodes.STATES for taint in self._taints.get(node, ()))

    @cached_property
    def _taints(self) -> Mapping[str, tuple[Taint, ...]]:
        return {node.metadata.name: values.taints(node.spec.taints or ()) for node in self.nodes}

    def age_seconds(self, since: str | None) -> float:
        """Return how long ago a time of the API server is; 0 for no time."""
        if not since:
            return 0.0
        try:
            return (self.now - clock.from_wire(since)).total_seconds()
        except ValueError:
            return 0.0


def selects(flavor: ResourceFlavor, labels: Mapping[str, str]) -> bool:
    """Return whether nodes with these labels are the flavor's."""
    return all(labels.get(key) == value for key, value in (flavor.spec.node_labels or {}).items())


def holding(workloads: Iterable[Workload], queue: str) -> list[str]:
    """Return the names of the Workloads that hold quota of a ClusterQueue."""
    return [
        f"{workload.metadata.namespace}/{workload.metadata.name}"
        for workload in workloads
        if workload.status.admission is not None
        and workload.status.admission.cluster_queue == queue
    ]


def labels_of(document: Document) -> Mapping[str, str]:
    """Return the labels of an object."""
    return document["metadata"].get("labels") or {}


def name_of(document: Document) -> str:
    """Return ``namespace/name``, or the name alone in no namespace."""
    metadata = document["metadata"]
    return "/".join(filter(None, (metadata.get("namespace", ""), metadata["name"])))


def condition(document: Document, kind: str) -> Mapping[str, Any]:
    """Return a condition of an object; nothing where it has none of that type."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _views(documents: tuple[Document, ...], into: type[_V]) -> tuple[_V, ...]:
    """Return what can be read; the controller tells of what cannot."""
    convert = structs.converter(into)
    views_ = []
    for document in documents:
        with suppress(msgspec.ValidationError):
            views_.append(convert(document))
    return tuple(views_)


def _published(slices: tuple[Document, ...]) -> dict[str, Published]:
    """Return the GPUs that a driver publishes, by node."""
    parts: dict[str, list[resource_slice.SliceContent]] = {}
    for view in _views(slices, ResourceSlice):
        part = resource_slice.part(view)
        if part is not None and view.spec.node_name:
            parts.setdefault(view.spec.node_name, []).append(part)
    slices_by_node = ((node, resource_slice.published(of_node)) for node, of_node in parts.items())
    return {node: published for node, published in slices_by_node if published is not None}
