"""ResourceClaim, its template and DeviceClass: what they ask for, and how that is summed.

Templates are counted for each pod. A ResourceClaim by name is counted once for all pods of a
Workload that name it; how often over several Workloads is decided where those are known.

Source: kubernetes resource.k8s.io v1 and v1beta2, and v1beta1, which has the fields of
``exactly`` in the request itself; kueue keps/2941-DRA.
"""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.base.names import ResourceName
from admission.gpu import claims, resources
from admission.gpu.resources import ManagedResources
from admission.objects import views
from admission.objects.views import Object, ObjectMeta, View
from admission.scheduling.model import Together


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


class Consumer(View, frozen=True, kw_only=True):
    """Who may use a claim that was allocated."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(View, frozen=True, kw_only=True):
    """Whether a claim was given anything, and for whom."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] | None = None


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


Amounts = Mapping[ResourceName, int]
ObjectKey = tuple[str, str]
"""Namespace and name."""

_EXACT: Final = "ExactCount"
_PODS: Final = ("", "pods")


class Generated(NamedTuple):
    """A claim that was made from a template for a pod.

    Attributes:
        name: of the claim in the pod's spec.
        spec: what it asks for.
    """

    name: str
    spec: ClaimSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What is known of devices and of claims on them; its mappings may change.

    Attributes:
        classes: that are counted, by name.
        others: names of DeviceClasses that exist and are not counted.
        claims: what each ResourceClaim asks for.
        templates: what each ResourceClaimTemplate asks for.
        generated: claims that were made from templates, by the uid of the pod.
        allocated: GPUs that each claim was given, by resource.
    """

    classes: Mapping[str, claims.GpuDeviceClass] = field(default_factory=lambda: claims.BUILT_IN)
    others: Container[str] = ()
    claims: Mapping[ObjectKey, ClaimSpec] = field(default_factory=dict)
    templates: Mapping[ObjectKey, ClaimSpec] = field(default_factory=dict)
    generated: Mapping[str, Mapping[ObjectKey, Generated]] = field(default_factory=dict)
    allocated: Mapping[ObjectKey, Mapping[str, int]] = field(default_factory=dict)


NO_DEVICES: Final = Devices()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What the pods of a pod set take.

    Attributes:
        requests: of each pod, with the claims that are made for it.
        shared: ResourceClaims that all pods name.
        problem: why claims cannot be counted; empty where they can.
    """

    requests: Amounts
    shared: tuple[Together, ...] = ()
    problem: str = ""


def device_class(view: DeviceClass, mappings: Mapping[str, str]) -> claims.GpuDeviceClass | None:
    """Return how a DeviceClass is counted; None if it is not about GPUs, and not mapped.

    Args:
        view: the class.
        mappings: resources by the name of the class that is counted as such.
    """
    expressions = (selector.cel.expression for selector in view.spec.selectors or ())
    answers = view.spec.extended_resource_name or ""
    name = view.metadata.name
    return claims.device_class(name, expressions, answers, mappings.get(name, ""))


def concerned(spec: views.PodSpec) -> bool:
    """Return whether what pods take depends on claims or on DeviceClasses."""
    return bool(spec.resource_claims) or any(map(resources.is_of_class, _resources_in(spec)))


def _resources_in(spec: views.PodSpec) -> Iterator[str]:
    """Names of the resources that containers ask for; an amount of zero asks for nothing."""
    for container in (*spec.containers, *(spec.init_containers or ())):
        for listed in (container.resources.requests, container.resources.limits):
            yield from (name for name, value in (listed or {}).items() if str(value) != "0")


def names_in(spec: views.PodSpec) -> frozenset[str]:
    """Names of the claims and templates that pods name."""
    named = (
        claim.resource_claim_template_name or claim.resource_claim_name
        for claim in spec.resource_claims or ()
    )
    return frozenset(name for name in named if name)


def named(spec: views.PodSpec) -> tuple[str, ...]:
    """ResourceClaims that pods name, sorted; all pods of the spec share them."""
    claim_names = {claim.resource_claim_name for claim in spec.resource_claims or ()}
    return tuple(sorted(name for name in claim_names if name))


@dataclass(frozen=True, slots=True)
class Sought:
    """Whether pods are to be counted for their devices.

    Attributes:
        counted: whether they ask for anything that is counted, by name or by claim.
        problem: why that cannot be told yet; empty if it can.
    """

    counted: bool
    problem: str = ""


def sought(
    spec: views.PodSpec, namespace: str, devices: Devices, managed: ManagedResources
) -> Sought:
    """Return whether pods ask for anything that is counted: by name, by claim or by class.

    Whoever only watches devices asks for them, too: that costs nothing, and is a right that not
    everybody has.

    Args:
        spec: of the pods.
        namespace: of the pods.
        devices: claims and classes.
        managed: names of resources that are counted, whatever class answers them.
    """
    is_sought, problem = False, ""
    for name in _resources_in(spec):
        try:
            is_sought |= managed.matches(name) or _is_answered(name, devices)
        except InvalidValueError as error:
            problem = problem or f"{error.value} {error.rule}"
    for claim in spec.resource_claims or ():
        try:
            spec_of_claim = _spec_of(claim, namespace, devices)
            is_sought |= any(_is_counted(each, devices) for each in _classes_in(spec_of_claim))
        except InvalidValueError as error:
            problem = problem or f"{error.value} {error.rule}"
    return Sought(is_sought, "" if is_sought else problem)


def _spec_of(claim: views.PodResourceClaim, namespace: str, devices: Devices) -> ClaimSpec | None:
    if claim.resource_claim_template_name is not None:
        template = claim.resource_claim_template_name
        return _find(devices.templates, namespace, "ResourceClaimTemplate", template)
    if claim.resource_claim_name is not None:
        return _find(devices.claims, namespace, "ResourceClaim", claim.resource_claim_name)
    return None


def _classes_in(spec: ClaimSpec | None) -> tuple[str, ...]:
    return tuple(
        each.device_class_name
        for request in (spec.devices.requests or () if spec is not None else ())
        for each in (request.first_available or (request.exactly or request,))
    )


def _is_answered(resource: str, devices: Devices) -> bool:
    """Whether a class that is counted answers a resource name."""
    if resource.startswith(resources.IMPLICIT_CLASS_PREFIX):
        return _is_counted(resource.removeprefix(resources.IMPLICIT_CLASS_PREFIX), devices)
    is_of_class = resources.is_of_class(resource)
    return is_of_class and bool(claims.answered_by(resource, devices.classes))


def _is_counted(name: str, devices: Devices) -> bool:
    if name not in devices.classes and name not in devices.others:
        raise InvalidValueError(f"DeviceClass {name}", "not found")
    return name in devices.classes


def claimed(
    requests: Amounts,
    spec: views.PodSpec,
    namespace: str,
    devices: Devices,
    path: str,
    pods: Collection[str] = (),
) -> Claimed:
    """Return the requests of pods, with the devices of their claims.

    A claim that cannot be counted by what it asks for counts as what it was given, if anything.

    Args:
        requests: of the containers of one pod.
        spec: of the pods.
        namespace: of the pods.
        devices: claims and classes.
        path: of the spec, for problems.
        pods: UIDs of the pods, as far as they are there.

    Returns:
        What the pods take. With a problem, it is what is known to be taken.
    """
    total: dict[ResourceName, int] = {}
    shared: dict[str, Together] = {}
    problem = ""
    for resource, count in requests.items():
        counted = str(resource)
        try:
            counted = claims.counted_name(resource, devices.classes)
        except InvalidValueError as error:
            problem = problem or f"{path}.containers: {error.value} {error.rule}"
        _add(total, {counted: count})
    for index, claim in enumerate(spec.resource_claims or ()):
        taken: Mapping[str, int] = {}
        try:
            spec_of_claim = _spec_of(claim, namespace, devices)
            taken = {} if spec_of_claim is None else amounts(spec_of_claim, devices.classes)
        except InvalidValueError as error:
            taken = _allocated(claim, namespace, devices, pods)
            if not taken:
                problem = problem or f"{path}.resourceClaims[{index}]: {error.value} {error.rule}"
        name = claim.resource_claim_name
        if name is None:
            _add(total, taken)
        else:
            shared[name] = Together(key=f"{namespace}/{name}", requests=_named(taken))
    return Claimed(requests=total, shared=tuple(shared.values()), problem=problem)


def _allocated(
    claim: views.PodResourceClaim, namespace: str, devices: Devices, pods: Collection[str]
) -> Mapping[str, int]:
    """The GPUs that a claim of pods was given, by resource."""
    if claim.resource_claim_name is not None:
        return devices.allocated.get((namespace, claim.resource_claim_name), {})
    total: dict[str, int] = {}
    for uid in pods:
        for key, generated in devices.generated.get(uid, {}).items():
            if generated.name == claim.name:
                for resource, count in devices.allocated.get(key, {}).items():
                    total[resource] = total.get(resource, 0) + count
    return total


def outgrown(workload: ObjectMeta, spec: views.PodSpec, devices: Devices) -> str:
    """Return a claim of a Workload's pod that costs more than its template; empty for none.

    Args:
        workload: metadata of the Workload that the pod owns.
        spec: of the pod.
        devices: claims and classes.

    Returns:
        The name of the claim in the pod's spec; empty for none, and while a template is unknown.
    """
    for owner in workload.owner_references or ():
        generated = devices.generated.get(owner.uid, {})
        for claim in spec.resource_claims or () if generated else ():
            key = workload.namespace, claim.resource_claim_template_name or ""
            offered = devices.templates.get(key)
            if offered is None:
                continue
            specs = (each.spec for each in generated.values() if each.name == claim.name)
            if any(_costs_more(each, offered, devices) for each in specs):
                return claim.name
    return ""


def _costs_more(claim: ClaimSpec, template: ClaimSpec, devices: Devices) -> bool:
    if claim == template:
        return False
    try:
        charged, offered = (amounts(spec_, devices.classes) for spec_ in (claim, template))
    except InvalidValueError:
        return True
    return any(count > offered.get(name, 0) for name, count in charged.items())


def amounts(spec: ClaimSpec, classes: Mapping[str, claims.GpuDeviceClass]) -> dict[str, int]:
    """Return the devices that a claim uses, by resource.

    Raises:
        InvalidValueError: what it takes is not known before devices are allocated, or a class is
            not counted.
    """
    total: dict[str, int] = {}
    for request in spec.devices.requests or ():
        for resource, count in _request(request, classes).items():
            total[resource] = total.get(resource, 0) + count
    return total


def _request(
    request: DeviceRequest, classes: Mapping[str, claims.GpuDeviceClass]
) -> dict[str, int]:
    if not request.first_available:
        return claims.amounts((_exact(request.exactly or request, request.name),), classes)
    alternatives = [
        claims.amounts((_exact(each, request.name),), classes) for each in request.first_available
    ]
    if any(other != alternatives[0] for other in alternatives):
        rule = "has alternatives with different costs; which one it gets is not known in advance"
        raise InvalidValueError(f"request {request.name}", rule)
    return alternatives[0]


def _exact(request: Demanded, name: str) -> claims.GpuDeviceRequest:
    if request.allocation_mode != _EXACT and not request.admin_access:
        rule = f"asks for allocationMode {request.allocation_mode}; only {_EXACT} can be counted"
        raise InvalidValueError(f"request {name}", rule)
    return claims.GpuDeviceRequest(
        device_class=request.device_class_name,
        count=request.count,
        selectors=tuple(each.cel.expression for each in request.selectors or ()),
        admin_access=bool(request.admin_access),
    )


def _find(specs: Mapping[ObjectKey, ClaimSpec], namespace: str, kind: str, name: str) -> ClaimSpec:
    spec = specs.get((namespace, name))
    if spec is None:
        raise InvalidValueError(f"{kind} {name}", f"not found in namespace {namespace}")
    return spec


def _named(counts: Mapping[str, int]) -> Amounts:
    return {ResourceName(name): count for name, count in counts.items()}


def _add(total: dict[ResourceName, int], amounts_added: Mapping[str, int]) -> None:
    for name, count in amounts_added.items():
        resource = ResourceName(name)
        total[resource] = total.get(resource, 0) + count


def pods_of(claim: ResourceClaim) -> dict[str, str]:
    """Return the names of the pods for which a claim is reserved, by UID."""
    listed = claim.status.reserved_for or ()
    return {
        reference.uid: reference.name
        for reference in listed
        if (reference.api_group, reference.resource) == _PODS
    }


def given(claim: ResourceClaim) -> tuple[tuple[str, str], ...]:
    """Pool and name of each GPU that a claim holds; who only watches holds nothing."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results or ()
    return tuple(
        (result.pool, result.device)
        for result in results
        if result.driver == names.DRA_DRIVER and not result.admin_access
    )
