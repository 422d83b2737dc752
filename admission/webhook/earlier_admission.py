"""Take off what an earlier admission left on an object that is created again.

Manifests are exported from clusters, and backups are restored, with the marks that an admission
wrote. A new object has not been admitted: with such marks it would look as if it had been, or
would wait for a program that is not there. See
docs/adr/0213-marks-of-an-earlier-admission-are-taken-off.md.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from admission.base import names, patches
from admission.base.patches import Operation, PatchBuilder
from admission.objects import views
from admission.objects.reviewed_pod import Pod
from admission.owners import injection

_ANNOTATIONS: Final = frozenset(
    {
        *injection.MARK_ANNOTATIONS,
        names.STOPS_AT,
        names.BEYOND_POD_GROUP,
        names.ADMITTED_REQUESTS,
        names.INJECTED,
        names.OUTSIDE_QUOTA,
        names.RUNS_SINCE,
    }
)
_LABELS: Final = frozenset(injection.MARK_LABELS)


def pod_without_marks(pod: Pod) -> tuple[Pod, tuple[Operation, ...]]:
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


def never_held(pod: Pod) -> tuple[Operation, ...]:
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
