"""Owners that serve: their pods are admitted, and they themselves are never suspended.

What the queue label of such an owner says reaches its pods by its pod templates. Each pod of a
Deployment is admitted by itself; those of a StatefulSet, and of each replica of a LeaderWorkerSet,
are a group (``serving_group``).
Source: kueue pkg/controller/jobs, deployment, statefulset and leaderworkerset (their webhooks).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

import msgspec

from admission.base import names
from admission.base.patches import Operation
from admission.objects import owner_rows as rows
from admission.objects import pod_templates, reviewed_pod, views
from admission.owners.framework import Kind
from admission.owners.review import Template

REPLICAS: Final = "spec.replicas"
GROUP_SIZE: Final = "spec.leaderWorkerTemplate.size"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingKind:
    """A kind of owners that serve.

    Attributes:
        kind: its names.
        framework: its name in ``integrations.frameworks`` of Kueue's Configuration; empty for a
            kind that Kueue does not know, which is always served.
        parent: what its pods say in the annotation ``names.POD_SUSPENDING_PARENT``; empty where
            they say nothing.
        templates: paths of its pod templates, such as ``spec.template``.
        makes_groups: whether its pods are admitted as groups; else each by itself.
        replaces: whether its pods are replaced one by one, each in the quota of an earlier one.
        fixed: what does not change while it has replicas, besides what roles of pods depend on:
            the path and the value that stands for an absent one.
        refused: what it must not say in a queue: path, value, and the rule.
        index_label: label with which its controller numbers the pods of a group; empty for none.
        queue_at: path of the queue of its own scheduler; empty for none.
        webhook: what the names of its webhooks have in them.
    """

    kind: Kind
    framework: str
    parent: str
    templates: tuple[str, ...]
    makes_groups: bool = False
    replaces: bool = False
    fixed: tuple[tuple[str, int], ...] = ()
    refused: tuple[tuple[str, str, str], ...] = ()
    index_label: str = ""
    queue_at: str = ""
    webhook: str = ""

    @property
    def webhook_name(self) -> str:
        """Return what the names of its webhooks have in them."""
        return self.webhook or self.kind.name.lower()

    @property
    def is_watched(self) -> bool:
        """Return whether the controller is to know its objects."""
        return self.makes_groups or self.replaces


class Serving(views.Object, frozen=True, kw_only=True):
    """An owner that serves, under review; a subclass for each kind."""

    of: ClassVar[ServingKind]

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """The kind it is of."""
        return self.of.kind

    def has_ready(self) -> bool:
        """Return whether something of it is ready, so that it cannot move to another queue.

        Raises:
            msgspec.ValidationError: the status does not say it with a number.
        """
        return rows.number_at(self.status, "readyReplicas", 0) > 0

    def templates(self) -> tuple[Template, ...]:
        """Return its pod templates, each named by its place.

        Raises:
            msgspec.ValidationError: one of them is no pod template.
        """
        return tuple(self._templates())

    def _templates(self) -> Iterator[Template]:
        for path in self.of.templates:
            for member in rows.find({"spec": self.spec}, path):
                if not isinstance(member.value, dict):
                    raise msgspec.ValidationError(f"{member.path.text}: must be an object")
                yield Template(
                    name=path,
                    path=member.path,
                    pod=reviewed_pod.from_dict(pod_templates.with_text(member.value)),
                    count=1,
                    fewest=1,
                    has_metadata=member.value.get("metadata") is not None,
                )

    def written(self) -> tuple[Operation, ...]:
        """Return the operations after which its templates are as their schema has them."""
        return tuple(
            operation
            for path in self.of.templates
            for member in rows.find({"spec": self.spec}, path)
            for operation in pod_templates.write_text(member)
        )

    def labels(self) -> dict[str, str]:
        """Return the labels that its pods get, of one in a queue."""
        labels_ = {names.MANAGED_LABEL: names.MANAGED_VALUE}
        for key in (names.QUEUE_LABEL, names.PRIORITY_CLASS_LABEL):
            if self.metadata.label(key):
                labels_[key] = self.metadata.label(key)
        return labels_

    def annotations(self) -> dict[str, str]:
        """Return the annotations that its pods get, of one in a queue."""
        annotations_ = {names.POD_SUSPENDING_PARENT: self.of.parent} if self.of.parent else {}
        if self.of.makes_groups:
            annotations_[names.POD_GROUP_SERVING] = "true"
        return annotations_

    def number(self, path: str, default: int) -> int:
        """Return a number of its spec.

        Raises:
            msgspec.ValidationError: something else stands there.
        """
        return rows.number_at({"spec": self.spec}, path, default)

    def text(self, path: str) -> Any:
        """Return the value at a path of its spec; None if there is none."""
        return rows.value_at({"spec": self.spec}, path)

    def has_replicas(self) -> bool:
        """Return whether it has, or is to have, any replicas.

        Raises:
            msgspec.ValidationError: it does not say it with a number.
        """
        replicas_now = rows.number_at(self.status, "replicas", 0)
        return self.number(REPLICAS, 1) > 0 or replicas_now > 0

    def foreign_queue(self) -> str:
        """Return the queue of its own scheduler; empty for none.

        Raises:
            msgspec.ValidationError: something on the way is no object.
        """
        queue = rows.value_at({"spec": self.spec}, self.of.queue_at)
        return queue if isinstance(queue, str) else ""


def document(kind: ServingKind) -> type[Serving]:
    """Return what an object of the kind is decoded into when it is reviewed."""
    namespace: Mapping[str, Any] = {"of": kind, "__doc__": f"{kind.kind.name} under review."}
    struct_ = msgspec.defstruct(
        kind.kind.name, (), bases=(Serving,), namespace=dict(namespace), frozen=True, kw_only=True
    )
    return cast(type[Serving], struct_)


def _kind(api_version: str, name: str, plural: str) -> Kind:
    return Kind(
        api_version=api_version,
        name=name,
        plural=plural,
        label=names.QUEUE_LABEL,
        is_deleted_to_stop=False,
        has_condition=False,
    )


DEPLOYMENT: Final = ServingKind(
    kind=_kind("apps/v1", "Deployment", "deployments"),
    framework="deployment",
    parent="deployment",
    templates=("spec.template",),
    replaces=True,
)

STATEFUL_SET: Final = ServingKind(
    kind=_kind("apps/v1", "StatefulSet", "statefulsets"),
    framework="statefulset",
    parent="statefulset",
    templates=("spec.template",),
    makes_groups=True,
    index_label="apps.kubernetes.io/pod-index",
)
LEADER_WORKER_SET: Final = ServingKind(
    kind=_kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    framework="leaderworkerset.x-k8s.io/leaderworkerset",
    parent="leaderworkerset.x-k8s.io/leaderworkerset",
    templates=(
        "spec.leaderWorkerTemplate.leaderTemplate",
        "spec.leaderWorkerTemplate.workerTemplate",
    ),
    makes_groups=True,
    index_label="leaderworkerset.sigs.k8s.io/worker-index",
    fixed=((GROUP_SIZE, 1),),
    refused=(
        (
            "spec.startupPolicy",
            "LeaderReady",
            "must be LeaderCreated in a queue: a replica is admitted when all its pods exist",
        ),
    ),
)

VOLCANO_JOB: Final = ServingKind(
    kind=_kind("batch.volcano.sh/v1alpha1", "Job", "jobs"),
    framework="",
    parent="",
    templates=("spec.tasks[*].template",),
    queue_at="spec.queue",
    webhook="volcanojob",
)

KINDS: Final = (DEPLOYMENT, STATEFUL_SET, LEADER_WORKER_SET, VOLCANO_JOB)
"""In the order in which they are listed for people."""
