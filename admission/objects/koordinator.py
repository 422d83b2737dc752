"""What is read of Koordinator's Device objects.

Source: koordinator apis/scheduling/v1alpha1 device_types.go.
"""

from admission.objects.views import Condition, Object, View


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


class Device(Object, frozen=True, kw_only=True):
    """scheduling.koordinator.sh/v1alpha1 Device, named as its node."""

    spec: DeviceSpec = DeviceSpec()
