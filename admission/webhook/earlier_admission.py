"""Take off what an earlier admission left on an object that is created again.

Manifests are exported from clusters, and backups are restored, with the marks that an admission
wrote. A new object has not been admitted: with such marks it would look as if it had been, or
would wait for a program that is not there. See
docs/adr/0114-marks-of-an-admission.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from admission.base import names, patches, structs
from admission.base.patches import Operation, PatchBuilder
from admission.objects import views
from admission.objects.reviewed_pod import ReviewedPod
from admission.owners import injection

_ANNOTATIONS: Final = frozenset(
    {
        *injection.MARK_ANNOTATIONS,
        names.STOPS_AT,
        names.BEYOND_POD_GROUP,
        names.ADMITTED_REQUESTS,
        names.INJECTED,
        names.SLICE_NAME,
        names.OUTSIDE_QUOTA,
        names.RUNS_SINCE,
    }
)
_LABELS: Final = frozenset(injection.MARK_LABELS)
_NODE_AFFINITY: Final = "nodeAffinity"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
Item = TypeVar("Item")


class _InjectedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an earlier admission gave a pod template, as its owner records it.

    Attributes:
        node_selector: keys of its node selector.
        tolerations: those of its pods.
        preferred: nodes that they prefer.
        gates: names of their scheduling gates.
    """

    node_selector: tuple[str, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    preferred: tuple[dict[str, Any], ...] = ()
    gates: tuple[str, ...] = ()


class _Record(_InjectedPod, frozen=True, kw_only=True, rename="camel"):
    """The annotation of an owner: of its one template, or by the name of the pod set."""

    pod_sets: dict[str, _InjectedPod] = {}


_AS_RECORD: Final = structs.converter(_Record)


def pod_without_injected(
    owner: views.ObjectMeta, pod_set: str, pod: ReviewedPod
) -> tuple[ReviewedPod, tuple[Operation, ...]]:
    """Return a template without what an earlier admission gave its pods, and the operations.

    That is where its pods may run, and the gates that only the controller takes off: in another
    cluster, or a namespace that is not managed, nobody would.

    Args:
        owner: metadata of a new owner, with the record of that admission if there was one.
        pod_set: the pod set of the template.
        pod: the template.
    """
    text = owner.annotation(names.INJECTED)
    if not text:
        return pod, ()
    try:
        record = _AS_RECORD(msgspec.json.decode(text))
    except structs.UNREADABLE:
        return pod, ()
    injected = record.pod_sets.get(pod_set, record)
    spec, patch = pod.spec, PatchBuilder()
    selector = spec.node_selector
    if selector is not None and not selector.keys().isdisjoint(injected.node_selector):
        selector = {
            key: text for key, text in selector.items() if key not in injected.node_selector
        }
        patch.put(patches.pointer("spec", "nodeSelector"), selector)
    tolerations = _left(
        patch,
        "tolerations",
        spec.tolerations,
        injection.toleration_to_wire,
        lambda wire: wire in injected.tolerations,
    )
    gates = _left(
        patch,
        "schedulingGates",
        spec.scheduling_gates,
        lambda gate: {"name": gate.name},
        lambda wire: wire["name"] in injected.gates,
    )
    affinity = _without_preferred(patch, spec.affinity, injected.preferred)
    operations = patch.operations()
    if not operations:
        return pod, ()
    cleaned = msgspec.structs.replace(
        spec,
        node_selector=selector,
        tolerations=tolerations,
        scheduling_gates=gates,
        affinity=affinity,
    )
    return msgspec.structs.replace(pod, spec=cleaned), operations


def _left(
    patch: PatchBuilder,
    member: str,
    present: tuple[Item, ...] | None,
    to_wire: Callable[[Item], dict[str, Any]],
    is_given: Callable[[dict[str, Any]], bool],
) -> tuple[Item, ...] | None:
    """Return the items of a list of a spec that were not given, and put that into the patch."""
    if present is None:
        return None
    left = tuple(item for item in present if not is_given(to_wire(item)))
    if len(left) != len(present):
        patch.put(patches.pointer("spec", member), [to_wire(item) for item in left])
    return left


def _without_preferred(
    patch: PatchBuilder, affinity: dict[str, Any] | None, preferences: Iterable[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return an affinity without preferences that were given, and put that into the patch."""
    node = (affinity or {}).get(_NODE_AFFINITY)
    if not isinstance(node, dict):
        return affinity
    present = node.get(_PREFERRED)
    gone = tuple(preferences)
    if (
        affinity is None
        or not isinstance(present, list)
        or all(term not in gone for term in present)
    ):
        return affinity
    left = [term for term in present if term not in gone]
    members = {key: item for key, item in node.items() if key != _PREFERRED}
    members |= {_PREFERRED: left} if left else {}
    kept = {key: item for key, item in affinity.items() if key != _NODE_AFFINITY}
    cleaned = kept | ({_NODE_AFFINITY: members} if members else {})
    patch.put(patches.pointer("spec", "affinity"), cleaned)
    return cleaned


def pod_without_marks(pod: ReviewedPod) -> tuple[ReviewedPod, tuple[Operation, ...]]:
    """Return a new pod without the marks of an earlier admission, and the operations for that.

    Kueue's finalizer goes, too: where Kueue does not run, nobody else takes it off.
    """
    metadata, operations = metadata_without_marks(pod.metadata)
    finalizers = metadata.finalizers or ()
    if names.KUEUE_POD_FINALIZER in finalizers:
        kept = tuple(name for name in finalizers if name != names.KUEUE_POD_FINALIZER)
        metadata = msgspec.structs.replace(metadata, finalizers=kept)
        patch = PatchBuilder()
        patch.put(patches.pointer("metadata", "finalizers"), list(kept))
        operations = (*operations, *patch.operations())
    if not operations:
        return pod, ()
    return msgspec.structs.replace(pod, metadata=metadata), operations


def metadata_without_marks(
    metadata: views.ObjectMeta,
) -> tuple[views.ObjectMeta, tuple[Operation, ...]]:
    """Return metadata without the marks of an earlier admission, and the operations for that.

    Args:
        metadata: of a new object, or of a pod template of one.
    """
    patch = PatchBuilder()
    labels = _without(patch, "labels", metadata.labels, _LABELS)
    annotations = _without(patch, "annotations", metadata.annotations, _ANNOTATIONS)
    operations = patch.operations()
    if not operations:
        return metadata, ()
    cleaned = msgspec.structs.replace(metadata, labels=labels, annotations=annotations)
    return cleaned, operations


def kept_marks(
    old: ReviewedPod, new: ReviewedPod
) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """Return the operations that undo what an update does unknowingly to marks, and to which.

    Who replaces all labels, or applies a manifest with what an earlier admission left, does not
    know of the marks. Who changes one of several means it, and is told so by rules and policies.
    """
    patch, kept = PatchBuilder(), list[str]()
    is_replaced = _is_counted(old) and _keeps_none(old.metadata.labels, new.metadata.labels)
    if is_replaced:
        kept += _put_back(patch, "labels", old.metadata.labels, new.metadata.labels)
        before, after = old.metadata.annotations, new.metadata.annotations
        if _keeps_none(before, after):
            kept += _put_back(patch, "annotations", before, after)
    elif _is_marked_anew(old, new):
        _without(patch, "labels", new.metadata.labels, {names.MANAGED_LABEL})
        kept.append(f"no label {names.MANAGED_LABEL}")
    gates, gates_kept = _gates(new), _gates(new)
    if is_replaced:
        gates_kept = [gate for gate in _gates(old) if gate in gates or gate in names.QUOTA_GATES]
    elif names.ADMISSION_GATE not in _gates(old):
        gates_kept = [gate for gate in gates if gate != names.ADMISSION_GATE]
    if gates_kept != gates:
        path = patches.pointer("spec", "schedulingGates")
        patch.put(path, [{"name": gate} for gate in gates_kept])
        kept.append("scheduling gates")
    finalizers = new.metadata.finalizers or ()
    mark = names.KUEUE_POD_FINALIZER
    if mark in finalizers and mark not in (old.metadata.finalizers or ()):
        path = patches.pointer("metadata", "finalizers")
        patch.put(path, [name for name in finalizers if name != mark])
        kept.append(f"no finalizer {mark}")
    return patch.operations(), tuple(kept)


def _gates(pod: ReviewedPod) -> list[str]:
    return [gate.name for gate in pod.spec.scheduling_gates or ()]


def _is_counted(pod: ReviewedPod) -> bool:
    labels = pod.metadata.labels or {}
    return names.MANAGED_LABEL in labels or names.PODSET_LABEL in labels


def _is_marked_anew(old: ReviewedPod, new: ReviewedPod) -> bool:
    """Return whether a pod that was not held is said to be, as by a manifest of Kueue.

    An administrator who puts a running pod into a queue says where it was admitted.
    """
    is_marked = new.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE
    is_placed = bool(new.metadata.annotation(names.WORKLOAD_ANNOTATION))
    was_held = old.has_gate(names.ADMISSION_GATE) or names.MANAGED_LABEL in (
        old.metadata.labels or {}
    )
    return is_marked and not is_placed and not was_held


def _ours(members: Mapping[str, str] | None) -> dict[str, str]:
    return {
        key: text for key, text in (members or {}).items() if key.startswith(names.OUR_PREFIXES)
    }


def _keeps_none(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> bool:
    """Return whether there were keys of ours, and there are none."""
    return bool(_ours(before)) and not _ours(after)


def _put_back(
    patch: PatchBuilder,
    field: str,
    before: Mapping[str, str] | None,
    after: Mapping[str, str] | None,
) -> list[str]:
    lost = _ours(before)
    patch.merge(patches.pointer("metadata", field), after, lost)
    return [f"{field.removesuffix('s')} {key}" for key in sorted(lost)]


def never_held(pod: ReviewedPod) -> tuple[Operation, ...]:
    """Return the operations that take our gate and label off a new pod that needs no quota.

    A label with a value that no admission writes stays, so that a rule tells its author.
    """
    patch = PatchBuilder()
    if pod.metadata.label(names.MANAGED_LABEL) == names.MANAGED_VALUE:
        _without(patch, "labels", pod.metadata.labels, {names.MANAGED_LABEL})
    gates = pod.spec.scheduling_gates or ()
    if pod.has_gate(names.ADMISSION_GATE):
        kept = [{"name": gate.name} for gate in gates if gate.name != names.ADMISSION_GATE]
        path = patches.pointer("spec", "schedulingGates")
        if kept:
            patch.put(path, kept)
        else:
            patch.remove(path)
    return patch.operations()


def _without(
    patch: PatchBuilder, field: str, present: Mapping[str, str] | None, marks: Iterable[str]
) -> dict[str, str] | None:
    """Return the members that are no marks, and put the removal of the others into the patch."""
    if present is None:
        return None
    kept = {key: text for key, text in present.items() if key not in marks}
    patch.become(patches.pointer("metadata", field), present, kept)
    return kept
