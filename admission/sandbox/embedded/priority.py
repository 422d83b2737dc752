"""Priority of new pods, from their class.

A real server refuses a priority that no class gives; here a pod without a class may choose one.

Source: k8s.io/kubernetes plugin/pkg/admission/priority and pkg/apis/scheduling/helpers.go.
"""

from collections.abc import Iterator
from typing import Any, Final

from admission.kube import resources
from admission.kube.api import Document
from admission.sandbox.embedded import refusals
from admission.sandbox.embedded.journal import Key, ObjectJournal

_PREEMPTION: Final = "PreemptLowerPriority"
_SYSTEM_CLASSES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def system_classes() -> Iterator[Document]:
    """Yield the classes that every cluster has."""
    for name, value in _SYSTEM_CLASSES.items():
        yield {"metadata": {"name": name}, "value": value, "preemptionPolicy": _PREEMPTION}


def resolve(journal: ObjectJournal, pod: Document) -> None:
    """Set in place the priority of the pod's class, or its own, the default class's, or 0.

    Raises:
        ForbiddenError: there is no such class, or it has another priority than the pod.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    name = spec.get("priorityClassName")
    priority_class = _named(journal, name) if name else _default(journal)
    if name and priority_class is None:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    value = priority_class["value"] if priority_class else 0
    if not name:
        value = spec.get("priority", value)
    if spec.get("priority", value) != value:
        raise _forbidden(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            f"spec; priority admission controller computed {value} from the given PriorityClass "
            "name",
        )
    spec["priority"] = value
    if priority_class:
        spec["priorityClassName"] = priority_class["metadata"]["name"]
        spec.setdefault("preemptionPolicy", priority_class.get("preemptionPolicy", _PREEMPTION))


def _named(journal: ObjectJournal, name: str) -> dict[str, Any] | None:
    stored = journal.get(resources.PRIORITY_CLASSES, Key("", name))
    return stored.document() if stored else None


def _default(journal: ObjectJournal) -> dict[str, Any] | None:
    """The global default; of several the one with the lowest value."""
    classes = journal.snapshot(resources.PRIORITY_CLASSES, "")[0]
    defaults = [
        priority_class
        for priority_class in (stored.document() for stored in classes)
        if priority_class.get("globalDefault")
    ]
    return min(defaults, key=lambda priority_class: priority_class["value"], default=None)


def _forbidden(pod: Document, why: str) -> Exception:
    return refusals.denied(resources.PODS, pod["metadata"].get("name", ""), why)
