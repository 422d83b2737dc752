"""What an admission gives the pods of an owner: selectors and tolerations of flavors, labels.

Source: kueue pkg/podset/podset.go (Merge) for what is injected and what is a conflict.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from typing_extensions import override

from admission.base import names
from admission.objects import admitted_devices, views
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import PodSetUpdate, Workload, assigned_domains
from admission.scheduling.places.model import HOSTNAME

MARK_LABELS: Final = (
    names.PODSET_LABEL,
    names.LOCAL_QUEUE_NAME_LABEL,
    names.CLUSTER_QUEUE_NAME_LABEL,
)
MARK_ANNOTATIONS: Final = (names.WORKLOAD_ANNOTATION, names.ADMITTED_DEVICES)
"""Labels and annotations that every admission writes: they tell where a pod was admitted."""

_MAX_LABEL: Final = 63
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class InjectionConflictError(Exception):
    """The pod has one of the keys with another value; it cannot be started as assigned.

    Attributes:
        field: ``nodeSelector``, ``labels`` or ``annotations``.
        key: the key.
        wanted: value to inject.
        found: value of the pod.
        check: name of the admission check that wants it; empty for a flavor.
    """

    field: str
    key: str
    wanted: str
    found: str
    check: str = ""

    @override
    def __str__(self) -> str:
        source = f'in admission check "{self.check}": ' if self.check else ""
        return (
            f"{source}invalid admission check PodSetUpdate: conflict for {self.field}: "
            f"conflict for key={self.key}, value1={self.found}, value2={self.wanted}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What an admission adds to a pod.

    Attributes:
        node_selector: labels of the assigned flavors.
        tolerations: tolerations of the assigned flavors, each once.
        labels: labels that tell where the pod was admitted.
        annotations: likewise.
        hosts: hostnames of nodes that the pod is to prefer; none for no preference.
        gates: scheduling gates of the pods that another controller makes.
    """

    node_selector: Mapping[str, str]
    tolerations: tuple[views.Toleration, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    hosts: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


def injections(
    workload: Workload,
    pod_sets: Iterable[str],
    flavors: Mapping[str, ResourceFlavor],
) -> dict[str, Injection]:
    """Return the labels, node selector and tolerations of each pod set at admission, by name.

    Raises:
        KeyError: an assigned flavor is not among the flavors.
        InjectionConflictError: an admission check contradicts a flavor or another check.
    """
    return {name: injection(workload, name, flavors) for name in pod_sets}


def injection(
    workload: Workload, pod_set: str, flavors: Mapping[str, ResourceFlavor]
) -> Injection:
    """Return the labels, node selector and tolerations that a pod set gets at admission.

    Args:
        workload: an admitted Workload.
        pod_set: name of the pod set.
        flavors: ResourceFlavors by name.

    Raises:
        KeyError: an assigned flavor is not among them.
        InjectionConflictError: an admission check contradicts a flavor or another check.
    """
    admission = workload.status.admission
    cluster_queue = admission.cluster_queue if admission else ""
    injection_ = Injection(
        node_selector={},
        tolerations=(),
        labels=labels_of(pod_set, workload.spec.queue_name, cluster_queue),
        annotations={names.WORKLOAD_ANNOTATION: workload.metadata.name},
    )
    for name in _assigned_flavors(workload, pod_set):
        spec = flavors[name].spec
        update = PodSetUpdate(node_selector=spec.node_labels, tolerations=spec.tolerations)
        injection_ = _with(injection_, update)
    for check in workload.status.admission_checks or ():
        for update in check.pod_set_updates or ():
            if update.name == pod_set:
                injection_ = _with_check(injection_, check.name, update)
    return injection_


def with_devices(
    injections: Mapping[str, Injection], devices: Mapping[str, Mapping[str, int]]
) -> dict[str, Injection]:
    """Return what pod sets get, with how many devices were admitted for each of their pods.

    Their review compares them with that, because what others add to a pod is not in its template.

    Args:
        injections: what each pod set gets, by its name.
        devices: amounts by resource, by the name of the pod set.
    """
    return {
        name: replace(
            injection_,
            annotations={
                **injection_.annotations,
                names.ADMITTED_DEVICES: admitted_devices.text(devices.get(name, {})),
            },
        )
        for name, injection_ in injections.items()
    }


def labels_of(pod_set: str, queue: str, cluster_queue: str) -> dict[str, str]:
    """Return the labels that tell where a pod was admitted; without names that cannot be one."""
    labels = dict(zip(MARK_LABELS, (pod_set, queue, cluster_queue), strict=True))
    return {key: value for key, value in labels.items() if _is_label_value(value)}


def _with_check(injection_: Injection, check: str, update: PodSetUpdate) -> Injection:
    try:
        return _with(injection_, update)
    except InjectionConflictError as conflict:
        raise replace(conflict, check=check) from None


def _with(injection_: Injection, update: PodSetUpdate) -> Injection:
    """Return both together; what both give must be equal."""
    present = injection_.tolerations
    tolerations_added = tuple(
        t for t in dict.fromkeys(update.tolerations or ()) if t not in present
    )
    selector = additions("nodeSelector", update.node_selector or {}, injection_.node_selector)
    labels = additions("labels", update.labels or {}, injection_.labels)
    annotations = additions("annotations", update.annotations or {}, injection_.annotations)
    return Injection(
        node_selector={**injection_.node_selector, **selector},
        tolerations=(*present, *tolerations_added),
        labels={**injection_.labels, **labels},
        annotations={**injection_.annotations, **annotations},
    )


def into_template(
    injection_: Injection, metadata: views.ObjectMeta, spec: views.PodSpec
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what an injection adds to a pod or pod template: members of metadata and of spec.

    Marks of an earlier admission are replaced: a pod that waits has not been admitted.

    Raises:
        InjectionConflictError: the pod contradicts the injection.
    """
    changes: dict[str, Any] = {}
    selector = additions("nodeSelector", injection_.node_selector, spec.node_selector)
    if selector:
        changes["nodeSelector"] = selector
    present = spec.tolerations or ()
    missing = [toleration for toleration in injection_.tolerations if toleration not in present]
    if missing:
        changes["tolerations"] = [toleration_to_wire(t) for t in (*present, *missing)]
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    added_gates = [gate for gate in injection_.gates if gate not in gates]
    if added_gates:
        changes["schedulingGates"] = [{"name": gate} for gate in (*gates, *added_gates)]
    if injection_.hosts:
        changes["affinity"] = _preferring(injection_.hosts, spec.affinity)
    added = {
        "labels": _marked("labels", injection_.labels, metadata.labels, MARK_LABELS),
        "annotations": _marked(
            "annotations", injection_.annotations, metadata.annotations, MARK_ANNOTATIONS
        ),
    }
    return added, changes


def _preferring(hosts: Iterable[str], affinity: views.Affinity | None) -> dict[str, Any]:
    """Return a node affinity that prefers hosts beside what the pod prefers itself.

    The pod was admitted because it has room there; the scheduler may know better.
    """
    node = None if affinity is None else affinity.node_affinity
    preferred = (node.preferred or ()) if node is not None else ()
    term = {
        "weight": 100,
        "preference": {
            "matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(hosts)}]
        },
    }
    return {"nodeAffinity": {_PREFERRED: [*preferred, term]}}


def preferred_by(
    changes: Mapping[str, Any], affinity: views.Affinity | None
) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return what pods prefer since they were changed, and what was absent before.

    Args:
        changes: what `into_template` adds to the spec.
        affinity: of the pods before.

    Returns:
        The preferences that were added, and the first member on the way to them that was absent;
        empty where all were there.
    """
    if "affinity" not in changes:
        return (), ""
    node = None if affinity is None else affinity.node_affinity
    present = None if node is None else node.preferred
    added = changes["affinity"]["nodeAffinity"][_PREFERRED][len(present or ()) :]
    absent = "affinity" if affinity is None else "nodeAffinity" if node is None else ""
    return tuple(added), absent or ("" if present else _PREFERRED)


def without_preferred(
    affinity: views.Affinity | None, preferred: Iterable[dict[str, Any]], absent: str
) -> dict[str, Any]:
    """Return the members of a merge patch of a spec that take preferences out again.

    Args:
        affinity: as it is now.
        preferred: what was added.
        absent: which member was absent before; see `preferred_by`.
    """
    node = None if affinity is None else affinity.node_affinity
    present = (node.preferred or ()) if node is not None else ()
    gone = list(preferred)
    left = [preferred for preferred in present if preferred not in gone]
    if affinity is None or node is None or len(left) == len(present):
        return {}
    is_bare = not left and node.required is None
    is_alone = affinity.pod_affinity is None and affinity.pod_anti_affinity is None
    if is_bare and absent == "affinity" and is_alone:
        return {"affinity": None}
    if is_bare and absent in {"affinity", "nodeAffinity"}:
        return {"affinity": {"nodeAffinity": None}}
    return {"affinity": {"nodeAffinity": {_PREFERRED: left or None}}}


def with_hosts(
    injections: Mapping[str, Injection], hosts: Mapping[str, tuple[str, ...]]
) -> dict[str, Injection]:
    """Return what pod sets get, with the nodes that their pods prefer, by hostname."""
    return {
        name: replace(injection_, hosts=hosts.get(name, ()))
        for name, injection_ in injections.items()
    }


def in_domain(injection_: Injection, workload: Workload, pod_set: str) -> Injection:
    """Return what the only pod of a pod set gets, with the node of its domain."""
    assigned = assigned_domains(workload, pod_set)
    if assigned is None or not assigned.counts:
        return injection_
    values, _ = assigned.counts[0]
    return with_selector(injection_, dict(zip(assigned.levels, values, strict=True)))


def with_selector(injection_: Injection, selector: Mapping[str, str]) -> Injection:
    """Return what a pod gets that is told its domain; it prefers no other node then."""
    if not selector:
        return injection_
    return replace(injection_, node_selector={**injection_.node_selector, **selector}, hosts=())


def gated_for_domains(injection_: Injection, workload: Workload, pod_set: str) -> Injection:
    """Return what a template gets whose pods have to wait until each is told its domain."""
    if assigned_domains(workload, pod_set) is None:
        return injection_
    return replace(injection_, gates=(names.TOPOLOGY_GATE,))


def _marked(
    field: str,
    desired: Mapping[str, str],
    present: Mapping[str, str] | None,
    marks: Iterable[str],
) -> dict[str, str]:
    """Return the members of ``desired`` that are missing, or are marks with another value."""
    unmarked = {key: text for key, text in (present or {}).items() if key not in marks}
    added = additions(field, desired, unmarked)
    return {key: text for key, text in added.items() if (present or {}).get(key) != text}


def _assigned_flavors(workload: Workload, pod_set: str) -> Iterable[str]:
    """Return the flavors assigned to a pod set, each once, in the order of their resources."""
    admission = workload.status.admission
    for assignment in (admission.pod_set_assignments or ()) if admission else ():
        if assignment.name == pod_set:
            flavors = assignment.flavors or {}
            yield from dict.fromkeys(flavors[resource] for resource in sorted(flavors))


def additions(
    field: str, desired: Mapping[str, str], present: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the members of ``desired`` that are missing.

    Raises:
        InjectionConflictError: a key is there with another value.
    """
    for key, value in sorted(desired.items()):
        if present and key in present and present[key] != value:
            raise InjectionConflictError(field, key, value, present[key])
    return {key: value for key, value in desired.items() if not present or key not in present}


def _is_label_value(value: str) -> bool:
    """Return whether a queue's name can be a label value: names may be longer, with dots."""
    return 0 < len(value) <= _MAX_LABEL


def toleration_to_wire(toleration: views.Toleration) -> dict[str, Any]:
    """Return a toleration as it is written; absent members are left out."""
    wire = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
        "tolerationSeconds": toleration.toleration_seconds,
    }
    return {field: value for field, value in wire.items() if value not in {None, ""}}
