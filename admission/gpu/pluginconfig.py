"""Reads and checks the device plugin's sharing configuration.

Source: k8s-device-plugin v0.20 api/config/v1 (replicas.go, sharing.go).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from admission.base import names
from admission.gpu import capabilities, resources
from admission.gpu.findings import Finding

_STRATEGIES: Final = {"timeSlicing": capabilities.TIME_SLICING, "mps": capabilities.MPS}
_KEYS: Final = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_RESOURCE_KEYS: Final = ("name", "replicas", "rename", "devices")
_MIN_REPLICAS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """How nodes with a configuration share their GPUs.

    Attributes:
        strategy: ``time-slicing``, ``mps`` or empty.
        renamed: whether shares are offered as ``.shared``.
        fail_above_one: whether a container that asks for two shares fails at start.
        replicas: shares per device, by plain resource name.
    """

    strategy: str = ""
    renamed: bool = False
    fail_above_one: bool = False
    replicas: Mapping[str, int] = field(default_factory=dict)

    def offered(self, resource: str) -> str:
        """Return the name under which nodes offer a device: shared ones may be renamed."""
        if self.renamed and resource in self.replicas:
            return resources.shared_name(resource)
        return resource


def read(config: Mapping[str, Any]) -> GpuSharing:
    """Read the sharing a configuration asks for; malformed parts are left to ``check``."""
    for key, strategy in _STRATEGIES.items():
        part = _part(config, key)
        replicas = {
            str(entry["name"]): int(entry["replicas"])
            for entry in _entries(part)
            if "name" in entry and isinstance(entry.get("replicas"), int)
        }
        if replicas:
            fails = part.get("failRequestsGreaterThanOne")
            return GpuSharing(
                strategy=strategy,
                renamed=bool(part.get("renameByDefault")),
                fail_above_one=strategy == capabilities.MPS if fails is None else bool(fails),
                replicas=replicas,
            )
    return GpuSharing()


def check(config: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Return the problems of a configuration, in the order of its keys."""
    findings: list[Finding] = []
    sharing = config.get("sharing")
    used = [key for key in _STRATEGIES if _entries(_part(config, key))]
    if len(used) > 1:
        text = "a node shares by one strategy only: keep timeSlicing or mps"
        findings.append(Finding(rule="strategy", field="sharing", text=text))
    for key in sharing if isinstance(sharing, Mapping) else ():
        if key not in _STRATEGIES:
            text = f"unknown key; known are {', '.join(_STRATEGIES)}"
            findings.append(Finding(rule="T2", field=f"sharing.{key}", text=text))
    for key in _STRATEGIES:
        findings += _strategy(f"sharing.{key}", key, _part(config, key))
    return tuple(findings)


def _strategy(path: str, strategy: str, part: Mapping[str, Any]) -> Iterator[Finding]:
    for key in part:
        if key not in _KEYS:
            text = f"unknown key, it has no effect; did you mean {_closest(key)}?"
            yield Finding(rule="T2", field=f"{path}.{key}", text=text)
    for index, entry in enumerate(_entries(part)):
        yield from _resource(f"{path}.resources[{index}]", strategy, entry)
    if part.get("renameByDefault"):
        shared = [str(entry.get("name", "")) for entry in _entries(part)]
        text = (
            f"nodes offer {', '.join(map(resources.shared_name, shared))}: pods that ask for"
            f" {', '.join(shared)} stay pending there unless they are rewritten"
        )
        yield Finding(rule="T1", field=f"{path}.renameByDefault", text=text)


def _resource(path: str, strategy: str, entry: Mapping[str, Any]) -> Iterator[Finding]:
    for key in entry:
        if key not in _RESOURCE_KEYS:
            text = f"unknown key, it has no effect; known are {', '.join(_RESOURCE_KEYS)}"
            yield Finding(rule="T2", field=f"{path}.{key}", text=text)
    replicas = entry.get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < _MIN_REPLICAS:
        text = f"must be a whole number of at least {_MIN_REPLICAS}"
        yield Finding(rule="replicas", field=f"{path}.replicas", text=text)
    name = str(entry.get("name", ""))
    if strategy == "mps" and name != names.GPU_RESOURCE:
        text = f"mps shares whole GPUs ({names.GPU_RESOURCE}) only, never MIG instances"
        yield Finding(rule="mps", field=f"{path}.name", text=text)


def _closest(key: str) -> str:
    """The known key with the longest common beginning."""
    return max(_KEYS, key=lambda key_known: (_common(key, key_known), key_known))


def _common(left: str, right: str) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _part(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    sharing = config.get("sharing")
    part = sharing.get(key) if isinstance(sharing, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _entries(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = part.get("resources")
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, Mapping)]
