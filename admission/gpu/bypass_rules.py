"""Ways for a container to reach GPUs that it did not ask for, as findings on a pod.

In a cluster the policies of `admission/admin/templates/bypass-policies.yaml` decide, with the
tables and texts of this module. Its functions serve the embedded store, and the tests that compare
both. What to do about a finding (deny, warn, audit) is the namespace's choice. See
docs/adr/0050-the-bypass-guard.md.

Source: k8s-device-plugin README (NVIDIA_VISIBLE_DEVICES), nvidia-container-toolkit
internal/config/image (its other variables, legacy images), GPU operator documentation (CDI),
nvidia-container-runtime (volume mounts as device list), kubelet makeEnvironmentVariables (a value
of the pod replaces that of the device plugin).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from admission.gpu import resources, topology_labels
from admission.gpu.resources import ManagedResources

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
VARIABLES: Final = (VISIBLE_DEVICES, "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES")
"""Environment variables by which NVIDIA's container runtime gives devices to a container."""

SHOWS_NOTHING: Final = ("", "void", "none")
"""Values of these variables that show no GPU."""

UNKNOWN_SOURCES: Final = ("configMapKeyRef", "secretKeyRef")
"""Members of ``valueFrom`` whose content nothing in the pod tells."""

LEGACY_VARIABLE: Final = "CUDA_VERSION"
"""Shows all GPUs to a container that has it and neither `VISIBLE_DEVICES` nor
``NVIDIA_REQUIRE_CUDA``, which its image may set."""

CDI_KEYS: Final = ("cdi.k8s.io/", "nvidia.cdi.k8s.io/")
"""Annotations that inject devices begin like this, and speak of GPUs with CDI_VENDOR inside."""

CDI_VENDOR: Final = "nvidia.com/"
DEVICE_MOUNTS: Final = "/var/run/nvidia-container-devices"
"""Mounts at and below it select GPUs."""

DEVICE_PATHS: Final = ("/dev/nvidia", "/dev/dri")
"""Host paths that begin like this are GPU devices."""

DEVICE_DIRECTORIES: Final = (
    "/dev",
    "/var/lib/kubelet/device-plugins",
    "/etc/cdi",
    "/var/run/cdi",
    "/run/cdi",
)
"""What is in them, or in a directory that holds one of them, may reach a GPU."""

_RUNTIME_CLASSES: Final = ("nvidia", "nvidia-cdi", "nvidia-legacy")
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")

ASK: Final = "request GPUs in resources.limits instead"
"""What to do rather than reach for GPUs."""

REMOVE: Final = "remove it, and request GPUs in resources.limits"
"""What to do about a variable."""

NODE_TEXT: Final = (
    "goes around the scheduler and so around quota; remove it, and set nodeSelector"
    f" {topology_labels.HOSTNAME}"
)
RESIZE_TEXT: Final = "GPU amounts cannot change after creation; create a new pod"


class Certainty(Enum):
    """How certain it is that a pod gets access to GPUs outside of quota."""

    BYPASS = "bypass"
    SUSPICIOUS = "suspicious"
    MISTAKE = "mistake"  # none is reached, not even those that were asked for


STRICT: Final = frozenset({"visible-devices", "legacy-image", "privileged", "device-path"})
"""Rules whose suspicious findings are refused by the choice ``deny-strict``, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """One way around quota.

    Attributes:
        rule: short identity.
        severity: whether it surely reaches GPUs or only may.
        field: path in the pod.
        text: what it does and what to do instead.
    """

    rule: str
    severity: Certainty
    field: str
    text: str


def of_pod(pod: Mapping[str, Any], managed: ManagedResources) -> tuple[Bypass, ...]:
    """Return every way around quota in a pod, sorted by field.

    A request does not excuse settings that reach more than was asked for.
    """
    findings = [*_metadata(pod), *_spec(pod, managed)]
    host_paths = dict(_host_paths(pod))
    for path, container in _containers(pod):
        asks = _asks(container, managed)
        findings += _environment(path, container, asks=asks)
        findings += _security(path, container)
        findings += _mounts(path, container, host_paths)
    return tuple(sorted(findings, key=lambda finding: (finding.field, finding.rule)))


def of_update(
    old: Mapping[str, Any], new: Mapping[str, Any], managed: ManagedResources
) -> tuple[Bypass, ...]:
    """Return the ways around quota that a change adds, sorted by field.

    Also fits the subresources ``ephemeralcontainers`` and ``resize``: what ``new`` adds to
    ``old`` is judged.
    """
    before = set(of_pod(old, managed))
    findings = [finding for finding in of_pod(new, managed) if finding not in before]
    findings += _resized(old, new, managed)
    return tuple(sorted(findings, key=lambda finding: (finding.field, finding.rule)))


def _metadata(pod: Mapping[str, Any]) -> Iterator[Bypass]:
    for key, value in sorted(_annotations(pod).items()):
        if key.startswith(CDI_KEYS) and CDI_VENDOR in value:
            text = f"injects {value} into a container outside of any request; {ASK}"
            yield _sure("cdi-annotation", f"metadata.annotations[{key}]", text)


def _spec(pod: Mapping[str, Any], managed: ManagedResources) -> Iterator[Bypass]:
    spec = _child(pod, "spec")
    if spec.get("nodeName") and any(
        _asks(container, managed) for _, container in _containers(pod)
    ):
        yield _sure("node-name", "spec.nodeName", NODE_TEXT)
    runtime = spec.get("runtimeClassName")
    if runtime in _RUNTIME_CLASSES:
        text = f"runtime class {runtime} can show GPUs to containers that ask for none; {ASK}"
        yield _maybe("runtime-class", "spec.runtimeClassName", text)


def _environment(path: str, container: Mapping[str, Any], *, asks: bool) -> Iterator[Bypass]:
    variables = container.get("env") or ()
    for index, variable in enumerate(variables):
        name, where = variable.get("name"), f"{path}.env[{index}]"
        if name in VARIABLES:
            yield from _variable(variable, where, asks=asks)
    for index, source in enumerate(container.get("envFrom") or ()):
        prefix = source.get("prefix", "")
        if prefix and any(name.startswith(prefix) for name in VARIABLES):
            text = f"with the prefix {prefix} a key can become {VISIBLE_DEVICES}; use another"
            yield _sure("visible-devices", f"{path}.envFrom[{index}].prefix", text)
    variable_names = [variable.get("name") for variable in variables]
    if not asks and LEGACY_VARIABLE in variable_names and VISIBLE_DEVICES not in variable_names:
        where = f"{path}.env[{variable_names.index(LEGACY_VARIABLE)}]"
        text = f"{LEGACY_VARIABLE} shows all GPUs to some images; add {VISIBLE_DEVICES}=void"
        yield _maybe("legacy-image", where, text)


def _variable(variable: Mapping[str, Any], where: str, *, asks: bool) -> Iterator[Bypass]:
    name, source, value = variable["name"], variable.get("valueFrom"), variable.get("value", "")
    if source:
        is_unknown = any(member in source for member in UNKNOWN_SOURCES)
        text = f"{name} with a value from elsewhere may show GPUs without a request; {REMOVE}"
        make = _maybe if asks and is_unknown else _sure
        yield make("visible-devices", where, text)
    elif value not in SHOWS_NOTHING:
        whom = "beyond the request of the container" if asks else "to a container without request"
        yield _sure("visible-devices", where, f"{name}={value} shows GPUs {whom}; {REMOVE}")
    elif asks and name == VISIBLE_DEVICES:
        text = f"{name}={value} hides the GPUs that the container asks for; remove it"
        yield _mistake("hidden-devices", where, text)


def _security(path: str, container: Mapping[str, Any]) -> Iterator[Bypass]:
    if _child(container, "securityContext").get("privileged"):
        text = f"a privileged container sees every device of the node; {ASK}"
        yield _maybe("privileged", f"{path}.securityContext.privileged", text)


def _mounts(
    path: str, container: Mapping[str, Any], host_paths: Mapping[str, str]
) -> Iterator[Bypass]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        if _selects_devices(str(mount.get("mountPath", ""))):
            text = f"a mount below {DEVICE_MOUNTS} selects GPUs outside of any request; {ASK}"
            yield _sure("device-mount", where, text)
        host = host_paths.get(str(mount.get("name", "")), "")
        if host:
            text = f"host path {host} gives access to GPU devices; {ASK}"
            make = _sure if host.startswith(DEVICE_PATHS) else _maybe
            yield make("device-path", where, text)


def _host_paths(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Volumes by name whose host path holds GPU devices."""
    for volume in _child(pod, "spec").get("volumes") or ():
        if not volume.get("hostPath"):
            continue
        path = _clean(str(_child(volume, "hostPath").get("path", "")))
        if any(
            _is_under(path, directory) or _is_under(directory, path)
            for directory in DEVICE_DIRECTORIES
        ):
            yield str(volume.get("name", "")), path


def _resized(
    old: Mapping[str, Any], new: Mapping[str, Any], managed: ManagedResources
) -> Iterator[Bypass]:
    before = {path: _amounts(container, managed) for path, container in _containers(old)}
    for path, container in _containers(new):
        amounts = _amounts(container, managed)
        if amounts != before.get(path, {}):
            yield _sure("resize", f"{path}.resources", RESIZE_TEXT)


def _amounts(container: Mapping[str, Any], managed: ManagedResources) -> dict[str, str]:
    parts = _child(container, "resources")
    return {
        f"{kind}/{name}": str(amount)
        for kind in ("requests", "limits")
        for name, amount in sorted(_child(parts, kind).items())
        if managed.matches(name) and str(amount) != "0"
    }


def _asks(container: Mapping[str, Any], managed: ManagedResources) -> bool:
    claims = _child(container, "resources").get("claims")
    implicit = any(
        name.startswith(resources.IMPLICIT_CLASS_PREFIX)
        for name in _child(_child(container, "resources"), "limits")
    )
    return bool(_amounts(container, managed) or claims or implicit)


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    spec = _child(pod, "spec")
    for kind in _LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"spec.{kind}[{index}]", container


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, str]:
    return _child(_child(pod, "metadata"), "annotations")


def _child(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}


def _selects_devices(path: str) -> bool:
    """Whether a mount selects GPUs; where ``..`` leads is not followed."""
    parts = path.split("/")
    if ".." in parts:
        return DEVICE_MOUNTS.rpartition("/")[2] in parts
    return _is_under(_clean(path), DEVICE_MOUNTS)


def _clean(path: str) -> str:
    """The path without what has no meaning in it: ``//dev/./nvidia0/`` is ``/dev/nvidia0``.

    One that begins without a slash begins at the root, as for a container runtime.
    """
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


def _is_under(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _sure(rule: str, field: str, text: str) -> Bypass:
    return Bypass(rule=rule, severity=Certainty.BYPASS, field=field, text=text)


def _maybe(rule: str, field: str, text: str) -> Bypass:
    return Bypass(rule=rule, severity=Certainty.SUSPICIOUS, field=field, text=text)


def _mistake(rule: str, field: str, text: str) -> Bypass:
    return Bypass(rule=rule, severity=Certainty.MISTAKE, field=field, text=text)
