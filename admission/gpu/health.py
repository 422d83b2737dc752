"""Which devices and nodes count as healthy, and how long a change must last to count.

Devices of a ResourceSlice that are tainted are read in `admission.objects.resource_slice`.

Source: k8s-device-plugin internal/rm/health.go (XIDs it ignores); Koordinator Device API;
AKS and EKS node conditions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

PLUGIN_IGNORES: Final = frozenset({13, 31, 43, 45, 68})
"""Application errors: the device plugin keeps the device."""

DISPUTED: Final = frozenset({109})
"""Ignored by the device plugin, fatal for the EKS agent: reported, the device stays."""

BAD_CONDITIONS: Final = {
    "GPUMissing": "True",
    "NVLinkStatusInactive": "True",
    "XIDErrors": "True",
    "UnhealthyNvidiaDevicePlugin": "True",
    "AcceleratedHardwareReady": "False",
}
"""Node conditions and the status that means trouble; polarity differs by vendor."""

XID_NAMES: Final = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "GPU stopped processing",
    45: "preemptive channel removal",
    48: "double-bit ECC error",
    63: "row remap recorded",
    64: "row remap failed",
    68: "video processor exception",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch timeout",
    119: "GSP timeout",
    120: "GSP error",
    140: "unrecovered ECC error",
    143: "GPU initialisation failure",
    154: "recovery action changed",
}
"""What XIDs mean. Source: NVIDIA XID catalogue, dcgm-exporter."""

HEALTH_LABEL: Final = "gpu-health"
_XID_REASON: Final = "Xid"


class XidVerdict(Enum):
    """What an XID event means for a device."""

    IGNORE = "ignore"
    REPORT = "report"
    SICK = "sick"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """The settings that decide when a GPU is unhealthy.

    Attributes:
        ignored_xids: never count.
        reported_xids: are told, but the device stays.
        bad_conditions: node condition type to the status that means trouble.
        health_label: node label by which people overrule: ``unhealthy`` or ``healthy``.
        loss_grace_us: how long a drop of capacity must last before it is believed.
        gain_grace_us: how long a rise must last.
    """

    ignored_xids: frozenset[int] = PLUGIN_IGNORES
    reported_xids: frozenset[int] = DISPUTED
    bad_conditions: Mapping[str, str] = field(default_factory=lambda: dict(BAD_CONDITIONS))
    health_label: str = HEALTH_LABEL
    loss_grace_us: int = 60_000_000
    gain_grace_us: int = 0

    def judge_xid(self, xid: int) -> XidVerdict:
        """Return the meaning of an XID; unknown ones mean a sick GPU, as for the device plugin."""
        if xid in self.reported_xids:
            return XidVerdict.REPORT
        return XidVerdict.IGNORE if xid in self.ignored_xids else XidVerdict.SICK


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """One GPU as a node agent reports it (Koordinator ``Device``).

    Attributes:
        id: UUID.
        minor: index on the node.
        healthy: the agent's own verdict.
        reason: of that verdict, such as ``Xid79``.
        memory_bytes: of the GPU; 0 = unknown.
        model: of the GPU; empty = unknown.
    """

    id: str
    minor: int = 0
    healthy: bool = True
    reason: str = ""
    memory_bytes: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthVerdict:
    """Whether something counts.

    Attributes:
        healthy: whether it does.
        reason: why not, or what was noticed; may be empty.
    """

    healthy: bool
    reason: str = ""


def judge_device(device: DeviceReading, policy: HealthPolicy) -> HealthVerdict:
    """Return the verdict on one device.

    Args:
        device: as reported now.
        policy: of the installation.
    """
    if device.healthy:
        return HealthVerdict(healthy=True)
    xid = _xid(device.reason)
    if xid is not None:
        verdict = policy.judge_xid(xid)
        if verdict is not XidVerdict.SICK:
            return HealthVerdict(healthy=True, reason=f"XID {xid} ({verdict.value})")
    return HealthVerdict(healthy=False, reason=_explained(device.reason, xid))


def judge_node(
    conditions: Iterable[tuple[str, str]], labels: Mapping[str, str], policy: HealthPolicy
) -> HealthVerdict:
    """Return the verdict on a node's GPUs as a whole; people overrule conditions.

    Args:
        conditions: (type, status) of the node.
        labels: of the node.
        policy: of the installation.
    """
    label = labels.get(policy.health_label, "")
    if label == "unhealthy":
        reason = f"label {policy.health_label}=unhealthy"
        return HealthVerdict(healthy=False, reason=reason)
    bad = sorted(
        f"condition {kind}={status}"
        for kind, status in conditions
        if policy.bad_conditions.get(kind) == status
    )
    if label == "healthy":
        return HealthVerdict(
            healthy=True, reason=", ".join(bad) and f"overruled: {', '.join(bad)}"
        )
    return HealthVerdict(healthy=not bad, reason=", ".join(bad))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The amount that counts now, and a change that has not lasted long enough yet.

    Attributes:
        amount: what counts now.
        seen: the last observation.
        since_us: since when ``seen`` differs from ``amount`` in the same direction; None while
            they are equal.
    """

    amount: int
    seen: int
    since_us: int | None = None


def settle(before: Settled | None, seen: int, now_us: int, policy: HealthPolicy) -> Settled:
    """Return the health with changes that have lasted, so that a restarting plugin costs no quota.

    Args:
        before: the last result; None at the first observation, which is believed.
        seen: observed now.
        now_us: microseconds since the epoch.
        policy: how long losses and gains must last.
    """
    if before is None or seen == before.amount:
        return Settled(amount=seen, seen=seen)
    losing = seen < before.amount
    same_direction = before.since_us is not None and (before.seen < before.amount) == losing
    since = before.since_us if same_direction and before.since_us is not None else now_us
    grace = policy.loss_grace_us if losing else policy.gain_grace_us
    if now_us - since >= grace:
        return Settled(amount=seen, seen=seen)
    return Settled(amount=before.amount, seen=seen, since_us=since)


def settles_at_us(state: Settled, policy: HealthPolicy) -> int | None:
    """Return when the pending change would be believed; None if there is none."""
    if state.since_us is None:
        return None
    losing = state.seen < state.amount
    return state.since_us + (policy.loss_grace_us if losing else policy.gain_grace_us)


def _explained(reason: str, xid: int | None) -> str:
    if xid is None:
        return reason or "reported unhealthy"
    return f"XID {xid} ({XID_NAMES.get(xid, 'unknown')})"


def _xid(reason: str) -> int | None:
    digits = reason.removeprefix(_XID_REASON)
    return int(digits) if reason.startswith(_XID_REASON) and digits.isdecimal() else None
