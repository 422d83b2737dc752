"""What is read of the objects of dynamic resource allocation.

Source: kubernetes resource.k8s.io v1 and v1beta2, and v1beta1, which has the fields of
``exactly`` in the request itself and those of ``basic`` below the device.
"""

from admission.objects.views import Object, View


class Expression(View, frozen=True, kw_only=True):
    """A condition on devices, in CEL."""

    expression: str = ""


class DeviceSelector(View, frozen=True, kw_only=True):
    """A condition on devices."""

    cel: Expression = Expression()


class Demanded(View, frozen=True, kw_only=True):
    """How many devices of which class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None


class DeviceRequest(Demanded, frozen=True, kw_only=True):
    """One request of a claim; in v1beta1 its own fields stand for ``exactly``."""

    name: str = ""
    exactly: Demanded | None = None
    first_available: tuple[Demanded, ...] | None = None


class ClaimDevices(View, frozen=True, kw_only=True):
    """Requests of a claim."""

    requests: tuple[DeviceRequest, ...] | None = None


class ClaimSpec(View, frozen=True, kw_only=True):
    """What a claim asks for; it never changes."""

    devices: ClaimDevices = ClaimDevices()


class AllocatedDevice(View, frozen=True, kw_only=True):
    """One device that a claim was given."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class AllocatedDevices(View, frozen=True, kw_only=True):
    """All devices that a claim was given."""

    results: tuple[AllocatedDevice, ...] | None = None


class Allocation(View, frozen=True, kw_only=True):
    """What a claim was given."""

    devices: AllocatedDevices = AllocatedDevices()


class ClaimStatus(View, frozen=True, kw_only=True):
    """Whether a claim was given anything."""

    allocation: Allocation | None = None


class ResourceClaim(Object, frozen=True, kw_only=True):
    """resource.k8s.io ResourceClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class TemplateSpec(View, frozen=True, kw_only=True):
    """The claim that is made for each pod."""

    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(Object, frozen=True, kw_only=True):
    """resource.k8s.io ResourceClaimTemplate."""

    spec: TemplateSpec = TemplateSpec()


class DeviceClassSpec(View, frozen=True, kw_only=True):
    """Which devices belong to a class."""

    selectors: tuple[DeviceSelector, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True, kw_only=True):
    """resource.k8s.io DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class Attribute(View, frozen=True, kw_only=True):
    """Value of a device's attribute; text is all that is read."""

    string: str | None = None


class Amount(View, frozen=True, kw_only=True):
    """A quantity as text."""

    value: str | int = 0


class CounterConsumption(View, frozen=True, kw_only=True):
    """What a device takes of the counters of a set."""

    counter_set: str = ""
    counters: dict[str, Amount] | None = None


class DeviceTaint(View, frozen=True, kw_only=True):
    """Why a device is not to be used; the effect None only informs."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceFacts(View, frozen=True, kw_only=True):
    """What a driver says of a device."""

    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, Amount] | None = None
    consumes_counters: tuple[CounterConsumption, ...] | None = None
    taints: tuple[DeviceTaint, ...] | None = None


class SliceDevice(DeviceFacts, frozen=True, kw_only=True):
    """A device; in v1beta1 its facts stand below ``basic``."""

    name: str = ""
    basic: DeviceFacts | None = None


class CounterSet(View, frozen=True, kw_only=True):
    """What devices share that cannot all be used at once."""

    name: str = ""
    counters: dict[str, Amount] | None = None


class Pool(View, frozen=True, kw_only=True):
    """Which slices belong together; only those of the highest generation hold."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(View, frozen=True, kw_only=True):
    """Devices of a node, or a part of them."""

    driver: str = ""
    node_name: str | None = None
    pool: Pool = Pool()
    devices: tuple[SliceDevice, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(Object, frozen=True, kw_only=True):
    """resource.k8s.io ResourceSlice."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
