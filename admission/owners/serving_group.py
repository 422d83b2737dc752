"""Groups of pods of owners that serve: which pod is in which, and how large it is.

The pods of a StatefulSet are one group, those of each replica of a LeaderWorkerSet another.
Source: kueue pkg/controller/jobs, statefulset and leaderworkerset (their reconcilers). Differs:
the Workload is made once pods are there, and is deleted when none is wanted any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.base import names, patches, syntax
from admission.base.names import WorkloadKey
from admission.objects import owner_rows as rows
from admission.objects import views
from admission.owners import workload
from admission.owners.serving import GROUP_SIZE, KINDS, REPLICAS, STATEFUL_SET, ServingKind

_SET_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
_REPLICA: Final = "leaderworkerset.sigs.k8s.io/group-index"
_LEADER: Final = "leaderworkerset.sigs.k8s.io/leader-name"
"""Labels, and an annotation of workers, that the controller of LeaderWorkerSets writes on pods."""
_LEADER_TEMPLATE: Final = "spec.leaderWorkerTemplate.leaderTemplate"
_WORKER: Final = "worker"
_AFTER_LEADER: Final = {names.POD_INDEX_OFFSET: "1"}
"""Workers are numbered from 1 on: the leader, which is another pod set, has the number 0."""
_FAST: Final = {names.POD_GROUP_FAST_ADMISSION: "true"}

GROUPED: Final = tuple(kind_ for kind_ in KINDS if kind_.makes_groups)


class ServingDocument(views.Object, frozen=True, kw_only=True):
    """An owner of such groups, as it was watched."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)

    def number(self, path: str, default: int) -> int:
        """Return a number of its spec; the default also for what is no number."""
        try:
            return rows.number_at({"spec": self.spec}, path, default)
        except msgspec.ValidationError:
            return default

    def has(self, path: str) -> bool:
        """Return whether its spec has a value at a path."""
        try:
            return rows.value_at({"spec": self.spec}, path) is not None
        except msgspec.ValidationError:
            return False


@dataclass(frozen=True, slots=True)
class ServingGroup:
    """The pods of an owner that are admitted together.

    Attributes:
        of: the kind of the owner.
        owner: the owner.
        replica: its replica, counted from 0; 0 where the owner is one group.
    """

    of: ServingKind
    owner: ServingDocument
    replica: int = 0

    @property
    def key(self) -> WorkloadKey:
        """The identity of its Workload, whose name is that of the group."""
        if self.of is STATEFUL_SET:
            return self.of.kind.key_of(self.owner)
        kind, metadata = self.of.kind, self.owner.metadata
        name = workload.name_for(
            kind.name, kind.group, f"{metadata.name}-{self.replica}", metadata.uid
        )
        return WorkloadKey(metadata.namespace, name)

    @property
    def size(self) -> int:
        """How many pods it has at a time."""
        path = REPLICAS if self.of is STATEFUL_SET else GROUP_SIZE
        return self.owner.number(path, 1)

    @property
    def is_wanted(self) -> bool:
        """Whether the owner is to have pods of this group."""
        return self.replica < self.owner.number(REPLICAS, 1)

    @property
    def queue(self) -> str:
        """The LocalQueue of the owner."""
        return self.owner.metadata.label(names.QUEUE_LABEL)

    def labels(self) -> dict[str, str]:
        """Return the labels of the owner that its Workload follows."""
        keys = (names.QUEUE_LABEL, names.PRIORITY_CLASS_LABEL)
        return {key: self.owner.metadata.label(key) for key in keys}

    def reference(self) -> dict[str, Any]:
        """Return the reference to the owner as one of the owners of the Workload.

        With it the Workload outlives a moment in which no pod is there.
        """
        reference_ = self.of.kind.reference(self.owner.metadata)
        return {key: reference_[key] for key in ("apiVersion", "kind", "name", "uid")}

    def marks(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the labels and annotations with which its Workload names the owner.

        Source: kueue pkg/controller/jobs/leaderworkerset and statefulset (constructWorkload).
        """
        kind, metadata = self.of.kind, self.owner.metadata
        annotations = {
            names.JOB_OWNER_GVK: f"{kind.api_version}, Kind={kind.name}",
            names.JOB_OWNER_NAME: metadata.name,
        }
        if self.of is not STATEFUL_SET:
            annotations[names.COMPONENT_INDEX] = str(self.replica)
        return {names.JOB_UID_LABEL: metadata.uid}, annotations

    def join(self, pod: views.Pod) -> patches.Patch:
        """Return the merge patch that makes a gated pod, in exactly this version, one of it."""
        metadata = pod.metadata
        annotations = {
            names.POD_GROUP_NAME: self.key.name,
            names.POD_GROUP_TOTAL_COUNT: str(max(1, self.size)),
            names.POD_GROUP_SERVING: "true",
            names.ROLE_HASH: self._role(pod),
            **(_FAST if self.of is STATEFUL_SET else {}),
            **(_AFTER_LEADER if self._role(pod) == _WORKER else {}),
        }
        labels = {key: text for key, text in self.labels().items() if text}
        changes = {
            "resourceVersion": metadata.resource_version,
            "uid": metadata.uid,
            "labels": labels,
            "annotations": annotations,
        }
        return patches.merge({"metadata": changes})

    def _role(self, pod: views.Pod) -> str:
        if not self.owner.has(_LEADER_TEMPLATE):
            return names.DEFAULT_PODSET
        return _WORKER if pod.metadata.annotation(_LEADER) else "leader"


def owner_of(kind: ServingKind, pod: views.Pod) -> str:
    """Return the name of the owner whose pod it says that it is; empty for none."""
    if kind is not STATEFUL_SET:
        return pod.metadata.label(_SET_NAME)
    controller = pod.metadata.controller()
    return controller.name if controller is not None and kind.kind.is_of(controller) else ""


def of_pod(kind: ServingKind, owner: ServingDocument, pod: views.Pod) -> ServingGroup | None:
    """Return the group of an owner in which a pod of its name is, or None for another's pod."""
    if kind is STATEFUL_SET:
        controller = pod.metadata.controller()
        is_its = controller is not None and controller.uid == owner.metadata.uid
        return ServingGroup(kind, owner) if is_its else None
    replica = syntax.whole_number(pod.metadata.label(_REPLICA))
    return None if replica is None else ServingGroup(kind, owner, replica)


def groups(kind: ServingKind, owner: ServingDocument) -> Iterator[ServingGroup]:
    """Yield the groups that an owner is to have."""
    count = 1 if kind is STATEFUL_SET else owner.number(REPLICAS, 1)
    return (ServingGroup(kind, owner, replica) for replica in range(count))


def is_owner(reference: views.OwnerReference) -> bool:
    """Return whether a reference names an owner of such groups."""
    return any(kind_.kind.is_of(reference) for kind_ in GROUPED)
