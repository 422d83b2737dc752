"""Pods that the API server held, as no review saw them (ADR 0084).

What a review writes on a pod for later is written when the controller first sees it: its role and
its PodGroup. What only a review can do is not done, and the pod says so.
"""

from collections.abc import Callable
from typing import Final

from admission.base import names
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.base.patches import Patch
from admission.objects import gangs, reviewed_pod, role_hash, views
from admission.owners import pod as pod_owner
from admission.reasons import added_conditions

_ASKS: Final = (names.MIG_PROFILE, names.GPU_MEMORY)


class Unreviewed:
    """What is still to be written on pods that no review saw."""

    def __init__(self, is_held: Callable[[views.OwnerReference], bool]) -> None:
        """Prepare for no pods.

        Args:
            is_held: whether a controller of pods is of a kind that is held as a whole.
        """
        self._is_held = is_held
        self._marks: dict[WorkloadKey, dict[str, str]] = {}

    def on_update(self, key: WorkloadKey, document: views.Object) -> bool:
        """Take a sight of a pod. Return whether it is to be completed before anything else."""
        if not pod_owner.is_unreviewed(document):
            return False
        if names.ROLE_HASH in (document.metadata.annotations or {}):
            self._marks.pop(key, None)
        elif isinstance(document, views.PodDocument):
            self._marks[key] = self._made(document)
        return isinstance(document, views.PodDocument | views.Pod) and self._lacks(key, document)

    def forget(self, key: WorkloadKey) -> None:
        """Forget a pod that is gone."""
        self._marks.pop(key, None)

    def missing(self, key: WorkloadKey, pod: views.Pod) -> Patch | None:
        """Return the change that writes on a pod what a review would have written; None if done.

        Its condition is another request: see `text`.
        """
        marks = self._marks.get(key)
        return None if marks is None else pod_owner.complete(pod, marks)

    def text(self, pod: views.Pod) -> Text | None:
        """Return what is still to be said on a pod; None where it is said."""
        if not pod_owner.is_unreviewed(pod) or pod_owner.is_said_unreviewed(pod):
            return None
        annotations_read = (key for key in pod.metadata.annotations or {} if key.startswith(_ASKS))
        return added_conditions.not_reviewed(sorted(annotations_read))

    def _lacks(self, key: WorkloadKey, pod: views.PodDocument | views.Pod) -> bool:
        return key in self._marks or not pod_owner.is_said_unreviewed(pod)

    def _made(self, document: views.PodDocument) -> dict[str, str]:
        pod = reviewed_pod.ReviewedPod(
            metadata=document.metadata, spec=reviewed_pod.from_dict({"spec": document.spec}).spec
        )
        marks = {names.ROLE_HASH: role_hash.of(pod.spec)}
        if pod.has_gate(names.TOPOLOGY_GATE):
            marks[names.FOREIGN_TOPOLOGY_GATE] = "true"
        controller = document.metadata.controller()
        is_of_held = controller is not None and self._is_held(controller)
        gang = pod.gang() or (None if is_of_held else gangs.of_controller(document.metadata))
        if gang is not None and not pod_owner.group_name(document):
            marks[names.POD_GROUP_OBJECT] = gang.text()
        return marks
