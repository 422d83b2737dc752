"""Defaults and rules of pods, as far as admission and scheduling gates are concerned.

Source: k8s.io/kubernetes pkg/apis/core/{v1/defaults.go,validation/validation.go} and
pkg/registry/core/pod/strategy.go, v1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.base import quantity
from admission.base.errors import InvalidValueError
from admission.kube.api import Document
from admission.sandbox.embedded import refusals
from admission.sandbox.embedded.refusals import RefusalCause

SELECTABLE_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)

_CONTAINER_LISTS: Final = ("containers", "initContainers")
_SPEC_DEFAULTS: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER_DEFAULTS: Final = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_NODE_TROUBLES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MAY_BE_ADDED: Final = ("tolerations", "schedulingGates", "activeDeadlineSeconds")
_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
    "set to 1 if it was previously negative)"
)


def initial(document: Document) -> None:
    """Reset the status: a new pod is pending."""
    document["status"] = {"phase": "Pending"}


def defaults(document: Document) -> None:
    """Set what the API server and its default admission plugins set; in place."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    for key, value in _SPEC_DEFAULTS.items():
        spec.setdefault(key, dict(value) if isinstance(value, dict) else value)
    for container in _containers(spec):
        for key, value in _CONTAINER_DEFAULTS.items():
            container.setdefault(key, dict(value) if isinstance(value, dict) else value)
        _resources(container["resources"])
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    _tolerate_node_troubles(spec)
    for key in ("schedulingGates", "nodeSelector", "tolerations"):
        if not spec.get(key):
            spec.pop(key, None)


def gated_condition(now: str) -> dict[str, Any]:
    """Return what the API server puts on a pod that is created with a gate."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def rules(document: Document, old: Document | None) -> tuple[RefusalCause, ...]:
    """Return the broken rules of a new pod (``old`` is None) or of an update."""
    spec = document.get("spec") or {}
    if old is None:
        return tuple(_creation(spec))
    return tuple(_update(spec, old["spec"]))


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key in _CONTAINER_LISTS:
        yield from spec.get(key) or ()


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in {"", "latest"} else "IfNotPresent"


def _resources(resources: dict[str, Any]) -> None:
    """Canonical quantities; a limit without a request is the request."""
    for kind in ("limits", "requests"):
        amounts = resources.get(kind)
        if amounts:
            resources[kind] = {name: _canonical(value) for name, value in amounts.items()}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _canonical(value: object) -> object:
    """A quantity as the API server writes it; what is no quantity is left to the rules."""
    text = str(value)
    try:
        nano = quantity.parse_nano(text)
    except InvalidValueError:
        return value
    whole, fraction = divmod(nano, 10**9)
    if fraction:
        return quantity.format_milli(-(-nano // 10**6))
    binary = text.endswith("i")
    return quantity.from_canonical("memory", whole) if binary else quantity.format_integer(whole)


def _tolerate_node_troubles(spec: dict[str, Any]) -> None:
    """Source: plugin/pkg/admission/defaulttolerationseconds; it acts on updates too."""
    tolerations = spec.get("tolerations") or []
    tolerated = {(item.get("key"), item.get("effect")) for item in tolerations}
    missing = [key for key in _NODE_TROUBLES if not {(key, "NoExecute"), (key, None)} & tolerated]
    if any(item.get("operator") == "Exists" and not item.get("key") for item in tolerations):
        missing = []
    spec["tolerations"] = tolerations + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in missing
    ]


def _creation(spec: Mapping[str, Any]) -> Iterator[RefusalCause]:
    if not spec.get("containers"):
        yield refusals.required("spec.containers")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield refusals.forbidden("spec.nodeName", "cannot be set until all schedulingGates have "
                                                  "been cleared")  # fmt: skip
    for key in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(key) or ()):
            yield from _container(container, f"spec.{key}[{index}]")


def _container(container: Mapping[str, Any], path: str) -> Iterator[RefusalCause]:
    if not container.get("name"):
        yield refusals.required(f"{path}.name")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in sorted(amounts.items()):
            yield from _amount(name, value, f"{path}.resources.{kind}[{name}]")
    for name, value in sorted(requests.items()):
        if not _is_extended(name):
            continue
        if name not in limits:
            yield refusals.required(
                f"{path}.resources.limits", "Limit must be set for non overcommitable resources"
            )
        elif limits[name] != value:
            yield refusals.invalid_value(
                f"{path}.resources.requests",
                value,
                f"must be equal to {name} limit of {limits[name]}",
            )


def _amount(name: str, value: object, path: str) -> Iterator[RefusalCause]:
    try:
        nano = quantity.parse_nano(str(value))
    except InvalidValueError as error:
        yield refusals.invalid_value(path, value, error.rule)
        return
    if nano < 0:
        yield refusals.invalid_value(path, value, "must be greater than or equal to 0")
    if _is_extended(name) and nano % 10**9:
        yield refusals.invalid_value(path, value, "must be an integer")


def _is_extended(name: str) -> bool:
    """Return whether the resource is not the kubelet's own; devices are not overcommitted."""
    return "/" in name and "kubernetes.io/" not in name


def _update(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[RefusalCause]:
    for key in _CONTAINER_LISTS:
        if len(spec.get(key) or ()) != len(old.get(key) or ()):
            yield refusals.forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    yield from _tolerations(spec, old)
    yield from _gates(spec, old)
    gated = bool(old.get("schedulingGates"))
    if gated:
        yield from _selector(spec, old)
    if _fixed_part(spec, gated=gated) != _fixed_part(old, gated=gated):
        yield refusals.forbidden("spec", _IMMUTABLE)


def _tolerations(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[RefusalCause]:
    kept = [_untimed(item) for item in spec.get("tolerations") or ()]
    if any(_untimed(item) not in kept for item in old.get("tolerations") or ()):
        yield refusals.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )


def _untimed(toleration: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gates(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[RefusalCause]:
    gates = {gate["name"] for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate["name"] not in gates:
            yield refusals.forbidden(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
            )


def _selector(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[RefusalCause]:
    new = spec.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
        yield refusals.invalid_value(
            "spec.nodeSelector",
            new,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )


def _fixed_part(spec: Mapping[str, Any], *, gated: bool) -> dict[str, Any]:
    """Return what an update must leave as it is.

    Node affinity of a gated pod is not checked here.
    """
    fixed = {key: value for key, value in spec.items() if key not in _MAY_BE_ADDED}
    for key in _CONTAINER_LISTS:
        if key in fixed:
            fixed[key] = [{**container, "image": ""} for container in fixed[key]]
    if gated:
        fixed.pop("nodeSelector", None)
        fixed.pop("affinity", None)
    # The binding subresource sets the node; the store takes it as a plain update.
    fixed.pop("nodeName", None)
    return fixed
