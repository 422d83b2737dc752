"""The role hash: a digest of what scheduling a pod depends on.

Source: kueue pkg/util/pod (GenerateRoleHash): the first 8 hex digits of SHA-256 over compact JSON
as Go writes it: map keys sorted, struct fields in declaration order, absent values null.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from admission.objects import views
from admission.objects.reviewed_pod import Quantities, ReviewedContainer, ReviewedPodSpec

_LENGTH: Final = 8
_GO_ESCAPES: Final = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def of(spec: ReviewedPodSpec) -> str:
    """Return the role hash of a pod spec, 8 hex digits; equal specs have equal hashes.

    Image, command, names, volumes and limits do not matter.
    """
    text = msgspec.json.encode({"spec": fields(spec)})
    for plain, escaped in _GO_ESCAPES:
        text = text.replace(plain, escaped)
    return hashlib.sha256(text).hexdigest()[:_LENGTH]


def fields(spec: ReviewedPodSpec) -> dict[str, Any]:
    """Return what the role of a pod depends on, by the member of its spec."""
    shape: dict[str, Any] = {
        "affinity": spec.affinity,
        "containers": _containers(spec.containers),
        "initContainers": _containers(spec.init_containers),
        "nodeSelector": _sorted(spec.node_selector),
        "overhead": _sorted(spec.overhead),
        "priority": spec.priority,
        "resourceClaims": spec.resource_claims or None,
    }
    if spec.resources is not None:
        shape["resources"] = _sorted(spec.resources.requests)
    return shape | {
        "runtimeClassName": spec.runtime_class_name,
        "tolerations": [_toleration(item) for item in spec.tolerations or ()] or None,
        "topologySpreadConstraints": spec.topology_spread_constraints or None,
    }


def _containers(containers: Sequence[ReviewedContainer] | None) -> list[dict[str, Any]] | None:
    return [
        {
            "ports": [_port(port) for port in container.ports or ()] or None,
            "resources": {"requests": _sorted(container.requests)},
        }
        for container in containers or ()
    ] or None


def _port(port: views.ContainerPort) -> dict[str, Any]:
    fields = {
        "name": port.name,
        "hostPort": port.host_port,
        "containerPort": port.container_port or 0,
        "protocol": port.protocol,
        "hostIP": port.host_ip,
    }
    return {key: value for key, value in fields.items() if value or key == "containerPort"}


def _toleration(item: views.Toleration) -> dict[str, Any]:
    fields = {
        "key": item.key,
        "operator": item.operator,
        "value": item.value,
        "effect": item.effect,
        "tolerationSeconds": item.toleration_seconds,
    }
    return {key: value for key, value in fields.items() if value not in {"", None}}


def _sorted(values: Quantities | None) -> dict[str, str] | None:
    return {key: str(value) for key, value in sorted((values or {}).items())} or None
