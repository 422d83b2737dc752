"""What is read of the objects of dynamic resource allocation.

Source: kubernetes resource.k8s.io v1 and v1beta2, and v1beta1, which has the fields of
``exactly`` in the request itself and those of ``basic`` below the device.
"""

from admission.api.views import Object, View


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


class ResourceClaim(Object, frozen=True, kw_only=True):
    """resource.k8s.io ResourceClaim."""

    spec: ClaimSpec = ClaimSpec()


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
