"""Device of Koordinator: what a node agent says of the GPUs of its node.

Source: koordinator apis/scheduling/v1alpha1 device_types.go.
"""

from collections.abc import Iterable
from typing import Final

from admission.base import names
from admission.gpu.health import DeviceReading
from admission.objects import values
from admission.objects.views import Condition, Object, View

_GPU: Final = "gpu"
_HEALTHY: Final = "Healthy"


class DeviceInfo(View, frozen=True, kw_only=True):
    """One device of a Koordinator Device; a missing verdict is no good one."""

    type: str = ""
    id: str = ""
    minor: int | None = None
    health: bool = False
    labels: dict[str, str] | None = None
    resources: dict[str, str | int] | None = None
    conditions: tuple[Condition, ...] | None = None


class DeviceSpec(View, frozen=True, kw_only=True):
    """Devices of a node."""

    devices: tuple[DeviceInfo, ...] | None = None


class KoordinatorDevice(Object, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 Device, named as its node."""

    spec: DeviceSpec = DeviceSpec()


def readings(view: KoordinatorDevice) -> tuple[DeviceReading, ...]:
    """The GPUs that a node agent lists."""
    model = view.metadata.label(names.KOORDINATOR_MODEL_LABEL)
    return tuple(
        DeviceReading(
            id=device.id,
            minor=device.minor or 0,
            healthy=device.health,
            reason=_reason(device.conditions or ()),
            memory_bytes=values.amount_or_zero(
                names.KOORDINATOR_MEMORY, (device.resources or {}).get(names.KOORDINATOR_MEMORY, 0)
            ),
            model=(device.labels or {}).get(names.KOORDINATOR_MODEL_LABEL, model),
        )
        for device in view.spec.devices or ()
        if device.type == _GPU
    )


def _reason(conditions: Iterable[Condition]) -> str:
    for condition in conditions:
        if condition.type == _HEALTHY and condition.status != "True":
            return condition.reason
    return ""
