"""PodGroups of other schedulers: how pods name them, and what is read from them.

A kind is a row of `KINDS`. Which PodGroup a pod belongs to is read from the pod when it is
created, and written on it in one form: the annotation ``names.POD_GROUP_OBJECT``.
Source: volcano pkg/apis/scheduling/v1beta1, scheduler-plugins apis/scheduling/v1alpha1 and
kubernetes staging/src/k8s.io/api/scheduling.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from admission.base import names
from admission.objects import owner_rows, views

PLURAL: Final = "podgroups"
KIND: Final = "PodGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangKind:
    """A kind of PodGroups.

    Attributes:
        group: API group.
        version: version of the API that is read.
        annotations: annotations of a pod that name its PodGroup; the first that is there counts.
        labels: labels that do; annotations win over them.
        has_field: whether ``spec.schedulingGroup.podGroupName`` of a pod does.
        minimum: path of the number of pods that must start at once.
        queue: path of the queue of that scheduler; empty for none.
        single: path of what says that its pods start one by one; empty for none.
        topology: path of the list of topologies in which all its pods must be in one domain.
        resource: of the objects.
        is_controller: the object is no PodGroup, but the controller of its pods, and says no
            number: its pods are as many as come together.
    """

    group: str
    version: str = ""
    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    has_field: bool = False
    minimum: str = ""
    queue: str = ""
    single: str = ""
    topology: str = ""
    resource: str = PLURAL
    is_controller: bool = False

    @property
    def qualified(self) -> str:
        """``podgroups.<group>``, as kubectl names the resource."""
        return f"{self.resource}.{self.group}"

    def named_by(self, metadata: views.ObjectMeta, field: str = "") -> str:
        """Return the name of the PodGroup of this kind that a pod names, empty for none.

        Args:
            metadata: of the pod.
            field: its ``spec.schedulingGroup.podGroupName``; empty for none.
        """
        kinds_named = (
            field if self.has_field else "",
            *map(metadata.annotation, self.annotations),
            *map(metadata.label, self.labels),
        )
        return next(filter(None, kinds_named), "")


VOLCANO: Final = GangKind(
    group="scheduling.volcano.sh",
    version="v1beta1",
    annotations=("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"),
    minimum="spec.minMember",
    queue="spec.queue",
)
COSCHEDULING: Final = GangKind(
    group="scheduling.x-k8s.io",
    version="v1alpha1",
    labels=("scheduling.x-k8s.io/pod-group",),
    minimum="spec.minMember",
)
NATIVE: Final = GangKind(
    group="scheduling.k8s.io",
    version="v1beta1",  # or an earlier one, see `admission.kube.resources.versions`
    has_field=True,
    minimum="spec.schedulingPolicy.gang.minCount",
    single="spec.schedulingPolicy.basic",
    topology="spec.schedulingConstraints.topology",
)
KINDS: Final = (NATIVE, VOLCANO, COSCHEDULING)
"""In the order in which they are asked whether a pod names one of them."""

TRAINING: Final = frozenset(
    {"elastic.iml.github.io", "kubeflow.org", "training.kubedl.io", "xgboostjob.kubeflow.org"}
)
"""API groups of controllers of training: a pod of one of them is of no use without the others."""

_BY_RESOURCE: Final = {kind.qualified: kind for kind in KINDS}


class Reference(NamedTuple):
    """A PodGroup that a pod names; it may not exist. Of a controller: ``<name>/<uid>``."""

    kind: GangKind
    name: str

    def text(self) -> str:
        """``podgroups.<group>/<name>``, as the annotation has it and kubectl takes it."""
        return f"{self.kind.qualified}/{self.name}"


class GangPodGroup(views.Object, frozen=True, kw_only=True):
    """A PodGroup of any kind."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """What a PodGroup says about its pods.

    Attributes:
        metadata: of the PodGroup.
        minimum: how many pods must start at once; at least 1.
        queue: the queue of its own scheduler; empty for none.
        is_single: its pods start one by one, so they are no group.
        together: labels of nodes of which the nodes of all its pods must have the same values,
            sorted.
    """

    metadata: views.ObjectMeta
    minimum: int
    queue: str = ""
    is_single: bool = False
    together: tuple[str, ...] = ()


def named(metadata: views.ObjectMeta, field: str = "") -> Reference | None:
    """Return the PodGroup that a pod names as its author wrote it, or None.

    Args:
        metadata: of the pod.
        field: its ``spec.schedulingGroup.podGroupName``; empty for none.
    """
    pairs = ((kind, kind.named_by(metadata, field)) for kind in KINDS)
    return next((Reference(kind, name) for kind, name in pairs if name), None)


def of_controller(metadata: views.ObjectMeta) -> Reference | None:
    """Return the controller of training that has made a pod, or None."""
    owner = metadata.controller()
    if owner is None:
        return None
    group = owner.api_version.rpartition("/")[0]
    if group not in TRAINING:
        return None
    return Reference(_controller(owner.kind.lower(), group), f"{owner.name}/{owner.uid}")


@lru_cache(maxsize=64)
def _controller(kind: str, group: str) -> GangKind:
    return GangKind(group=group, resource=kind, is_controller=True)


def marked(metadata: views.ObjectMeta, key: str = names.POD_GROUP_OBJECT) -> Reference | None:
    """Return the PodGroup that the mark on a pod says, or None.

    Args:
        metadata: of the pod.
        key: the annotation that is the mark.
    """
    resource, _, name = metadata.annotation(key).partition("/")
    kind = _BY_RESOURCE.get(resource)
    plural, _, group = resource.partition(".")
    if kind is None and group in TRAINING:
        kind = _controller(plural, group)
    return None if kind is None or not name else Reference(kind, name)


def read(kind: GangKind, pod_group: GangPodGroup) -> Gang:
    """Return the minimum number of pods and the queue of a PodGroup.

    Raises:
        msgspec.ValidationError: the number is none, or something on the way is no object.
    """
    document = {"spec": pod_group.spec}
    queue = owner_rows.value_at(document, kind.queue)
    return Gang(
        metadata=pod_group.metadata,
        minimum=max(1, owner_rows.number_at(document, kind.minimum, 1)),
        queue=queue if isinstance(queue, str) else "",
        is_single=owner_rows.value_at(document, kind.single) is not None,
        together=_together(owner_rows.value_at(document, kind.topology)),
    )


def _together(constraints: Any) -> tuple[str, ...]:
    listed = constraints if isinstance(constraints, list) else ()
    keys = (constraint.get("key") for constraint in listed if isinstance(constraint, dict))
    return tuple(sorted({key for key in keys if isinstance(key, str) and key}))
