"""What a review asks an owner that is held as a whole, and how the webhook serves its kind.

Such an owner is created suspended and started when its Workload is admitted; its pods are not held
one by one. Its pod templates may stand anywhere in it. An owner under review is the struct that
the review is decoded into: it has the methods of `Reviewed`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import views
from admission.objects.reviewed_pod import ReviewedPod
from admission.owners import prebuilt
from admission.owners.framework import Kind

ELASTIC_PATH: Final = FieldPath.of("metadata", "annotations").key(names.ELASTIC_JOB)
IMMUTABLE: Final = "field is immutable"
_CONTROL_PLANE: Final = "system:serviceaccount:kube-system:"
_CONTROLLER_MANAGER: Final = "system:kube-controller-manager"


class Mark(NamedTuple):
    """What the start of an owner writes on its pods, and what they are counted by.

    Attributes:
        workload: the Workload with which they were admitted; empty for none.
        pod_set: their pod set; empty where its name cannot be a label.
        devices: what was admitted for each, as text; empty where an earlier version started it.
    """

    workload: str
    pod_set: str
    devices: str


def mark_of(labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> Mark:
    """Return the mark in the metadata of a pod or pod template."""
    texts = annotations or {}
    return Mark(
        workload=texts.get(names.WORKLOAD_ANNOTATION, ""),
        pod_set=(labels or {}).get(names.PODSET_LABEL, ""),
        devices=texts.get(names.ADMITTED_DEVICES, ""),
    )


def marks_of(metadata_list: Iterable[Mapping[str, Any]]) -> tuple[Mark, ...]:
    """Return the marks in what an admission gives beside pod templates.

    Args:
        metadata_list: labels and annotations, by these names, for each.
    """
    marks = (
        mark_of(_texts(metadata_.get("labels")), _texts(metadata_.get("annotations")))
        for metadata_ in metadata_list
    )
    return tuple(mark for mark in marks if mark.workload)


def _texts(members: Any) -> dict[str, str]:
    """Return the members of an object that are text: no schema may hold it."""
    if not isinstance(members, Mapping):
        return {}
    return {str(key): text for key, text in members.items() if isinstance(text, str)}


class Beside(msgspec.Struct, frozen=True, gc=False):
    """A field next to a pod template that also applies to its pods.

    Attributes:
        at: the list in which it stands.
        marks: what it says that was admitted; empty for nothing.
    """

    at: FieldPath
    marks: tuple[Mark, ...] = ()


class Template(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod template of an owner under review; made for each review, so it is a struct.

    Attributes:
        name: name of the pod set of its pods.
        path: its path in the owner.
        pod: what the pods are made from.
        count: how many of them run at a time at most.
        fewest: minimum number of them with which the owner may be admitted; ``count`` without
            partial admission.
        has_metadata: whether the template has metadata at all.
        raw: the template as it was sent, with what stands beside; None where nobody compares it.
        beside: what stands beside it for its pods; None for nothing.
        asks_at: path of the requests of the pods, if they are not in a pod template: it is judged,
            and not changed.
    """

    name: str
    path: FieldPath
    pod: ReviewedPod
    count: int
    fewest: int
    has_metadata: bool = True
    raw: dict[str, Any] | None = None
    beside: Beside | None = None
    asks_at: str = ""

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return the admissions that the template names, or else those of `beside`."""
        template_mark = mark_of(self.pod.metadata.labels, self.pod.metadata.annotations)
        beside = () if self.beside is None else self.beside.marks
        return (template_mark,) if template_mark.workload else beside

    @property
    def mark(self) -> str:
        """Return the name of the Workload of the first of `marks`; empty without one."""
        return self.marks[0].workload if self.marks else ""


class Reviewed(Protocol):
    """An owner as it would be stored, or as it is stored."""

    @property
    def kind(self) -> Kind:
        """The kind it is of."""
        ...

    @property
    def metadata(self) -> views.ObjectMeta:
        """Return its metadata."""
        ...

    def is_held(self) -> bool:
        """Return whether it is suspended."""
        ...

    def hold(self) -> Sequence[Operation]:
        """Return the operations after which it waits, and later runs only what is admitted.

        None where it is so already.
        """
        ...

    def spread(self, queue: str) -> Sequence[Operation]:
        """Return the operations that give a queue to what is in it and is not counted with it."""
        ...

    def templates(self) -> Sequence[Template]:
        """Return its pod templates, each with a name of its own.

        Raises:
            msgspec.ValidationError: it does not have them where its kind has them.
        """
        ...

    def remakes(self, old: Self) -> FieldPath | None:
        """Return where it differs so that its controller has all its pods a second time.

        None where it does not: its pods stay, or go before others come.
        """
        ...

    def errors(self, old: Self | None) -> list[FieldError]:
        """Return the broken rules of its kind, besides those of every owner.

        Args:
            old: as stored so far; None when it is being created.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldKind:
    """A kind of owners that are held as a whole.

    Attributes:
        kind: its names.
        document: what an object under review is decoded into.
        templates: paths of its pod templates, such as ``spec.template``; ``jobs[*].template``
            is one in each member of a list.
        makers: users under which its controller runs. Only they make pods, and other owners, of
            it; nobody else can become one of them.
        framework: its name in ``integrations.frameworks`` of Kueue's Configuration.
        holds_children: whether the owners that it controls are held while it is not admitted; else
            its own controller sees to that.
        changes: members of its spec in which the controller changes something; empty where
            policies say it otherwise.
        tells_start: whether the controller writes on it what its admission gave its pods when it
            starts it; who starts it otherwise is told from that.
    """

    kind: Kind
    document: type[Reviewed]
    templates: tuple[str, ...]
    makers: frozenset[str]
    framework: str
    holds_children: bool = False
    changes: tuple[str, ...] = ()
    tells_start: bool = True

    @property
    def is_checked(self) -> bool:
        """Whether reviews look its owners up before they trust one of its makers.

        An account of the control plane is nobody's but a cluster administrator's.
        """
        return not all(map(is_of_control_plane, self.makers))


def is_of_control_plane(user: str) -> bool:
    """Return whether a user is a controller of Kubernetes itself."""
    return user.startswith(_CONTROL_PLANE) or user == _CONTROLLER_MANAGER


# --------------------------------------------------------------- owners that change their size


def is_elastic(metadata: views.ObjectMeta) -> bool:
    """Return whether the author of an owner wants to change its size while it runs."""
    return metadata.annotation(names.ELASTIC_JOB) == "true"


def elastic_gate(pod: ReviewedPod, pointer: str) -> Sequence[Operation]:
    """Return the operations that give the pods of an elastic owner the gate of their slice.

    Args:
        pod: what its pods are made from.
        pointer: its path.
    """
    if pod.has_gate(names.ELASTIC_JOB_GATE):
        return ()
    patch = PatchBuilder()
    at = f"{pointer}/spec/schedulingGates"
    patch.append(at, pod.spec.scheduling_gates, [{"name": names.ELASTIC_JOB_GATE}])
    return patch.operations()


def elastic_errors(old: Reviewed | None, new: Reviewed) -> Iterator[FieldError]:
    """Yield what is wrong with an owner that is to change its size, or was."""
    if old is not None and is_elastic(old.metadata) != is_elastic(new.metadata):
        text = new.metadata.annotation(names.ELASTIC_JOB)
        yield fielderrors.invalid(ELASTIC_PATH, text, IMMUTABLE)
    elif is_elastic(new.metadata) and prebuilt.key_of(views.Object(metadata=new.metadata)):
        kind = new.kind.name
        rule = f"the controller creates the Workload of an elastic {kind}: do not name one"
        yield fielderrors.forbidden(ELASTIC_PATH, rule)
