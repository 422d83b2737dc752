"""What the flavors of a queue offer: device names, and what one unit of each is.

A flavor says it by annotations (product, mig-profile, sharing, replicas) and by the resources
its queue gives it quota for. A resource with a ceiling of 0 is not offered: Kueue makes every
flavor of a group list every resource of the group, so 0 is how an admin says "not here".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from admission.base import names
from admission.base.errors import InvalidValueError
from admission.gpu import catalogue as catalogues
from admission.gpu import mig_profile_names as profile_names
from admission.gpu import resources
from admission.gpu.catalogue import Catalogue
from admission.gpu.products import Cost, Product

TIME_SLICING: Final = "time-slicing"
MPS: Final = "mps"
_TIME_SLICING_NAMES: Final = (TIME_SLICING, "time-sharing")  # GKE writes the second
SHARING_NAMES: Final = (*_TIME_SLICING_NAMES, MPS, "none")
"""Every spelling of a sharing strategy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorCapabilities:
    """A flavor of a queue, as far as GPU requests care.

    Attributes:
        name: of the ResourceFlavor.
        product: name, alias or product label; empty = unknown.
        resources: the resources that the queue covers with this flavor.
        profile: the flavor is made of slices of this profile; any spelling, empty = it is not.
        sharing: ``time-slicing``, ``mps`` or empty.
        replicas: shares per device, 1 without sharing.
        fail_above_one: whether its nodes refuse more than one share per container; None = the
            device plugin's default (MPS refuses, time-slicing does not).
        gpus_per_node: most GPUs that one of its nodes has; 0 = unknown, not checked.
        ceilings: the most that one workload may ever get, by resource; missing = no limit.
    """

    name: str
    product: str = ""
    resources: frozenset[str] = frozenset()
    profile: str = ""
    sharing: str = ""
    replicas: int = 1
    fail_above_one: bool | None = None
    gpus_per_node: int = 0
    ceilings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffer:
    """The flavors of a queue, in the order in which it tries them."""

    name: str
    flavors: tuple[FlavorCapabilities, ...] = ()


class DeviceKind(Enum):
    """The kind of device that one unit of a resource is: a whole GPU or a MIG instance."""

    GPU = "gpu"
    SLICE = "slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One device name that the nodes of a flavor offer.

    Attributes:
        resource: the name to request.
        grain: a whole GPU or a MIG instance.
        profile: canonical profile of a MIG instance; empty for a whole GPU.
        shared: whether one unit is only a share of it.
        replicas: shares per device.
        cost: of one undivided device; None where the product is unknown.
    """

    resource: str
    grain: DeviceKind
    profile: str = ""
    shared: bool = False
    replicas: int = 1
    cost: Cost | None = None

    @property
    def memory_bytes(self) -> int | None:
        """Memory that one unit may count on: a share's part of the device, rounded down."""
        return None if self.cost is None else self.cost.memory_bytes // self.replicas

    @property
    def slices(self) -> int:
        """Compute slices of the undivided device; 0 where unknown."""
        return 0 if self.cost is None else self.cost.slices


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCapabilities:
    """All that a flavor offers.

    Attributes:
        flavor: the flavor.
        product: its product, None where unknown.
        offers: what can be requested; the first answers a plain request for a GPU if
            ``answers_plain``.
        answers_plain: whether ``nvidia.com/gpu`` without further wish means ``offers[0]``.
        open_names: whether every device name counts as covered (only virtual quota is listed).
        problem: what is wrong with the flavor's own description; empty = nothing.
    """

    flavor: FlavorCapabilities
    product: Product | None
    offers: tuple[Offered, ...]
    answers_plain: bool
    open_names: bool
    problem: str = ""

    def covers(self, resource: str) -> bool:
        """Return whether the queue has quota for the name in this flavor."""
        return self.open_names or resource in _declared(self.flavor)

    @property
    def fails_above_one(self) -> bool:
        """Return whether a container that asks for two shares would be refused by the node."""
        if self.flavor.fail_above_one is not None:
            return self.flavor.fail_above_one
        return self.flavor.sharing == MPS


def menu(flavor: FlavorCapabilities, catalogue: Catalogue) -> ResolvedCapabilities:
    """Read a flavor's annotations and resources into what it offers."""
    label = catalogues.read_label(flavor.product)
    flavor = replace(flavor, sharing=normal_sharing(flavor.sharing))
    product = catalogue.find(flavor.product) if flavor.product else None
    problem = ""
    if flavor.product and product is None:
        problem = f"product {flavor.product} is not in the GPU catalogue"
    profile, wrong = _own_profile(flavor, label.profile, product, catalogue)
    declared = _declared(flavor)
    open_names = _is_virtual_only(declared)
    reader = _Reader(
        flavor=flavor,
        product=product,
        catalogue=catalogue,
        declared=declared,
        open_names=open_names,
        unrenamed=label.shared,
    )
    offers = tuple(dict.fromkeys(reader.offers(profile, single=bool(label.profile))))
    return ResolvedCapabilities(
        flavor=flavor,
        product=product,
        offers=offers,
        answers_plain=bool(offers) and _answers_plain(offers[0], profile),
        open_names=open_names,
        problem=wrong or problem,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """The parts from which offers are made."""

    flavor: FlavorCapabilities
    product: Product | None
    catalogue: Catalogue
    declared: frozenset[str]
    open_names: bool
    unrenamed: bool

    def offers(self, profile: str, *, single: bool) -> Iterator[Offered]:
        """The flavor's own profile first, then the whole GPU, then other slices."""
        if profile:
            yield from self._own_slices(profile, single=single)
        else:
            yield from self._named(names.GPU_RESOURCE, DeviceKind.GPU, "")
        for other in self._other_profiles(profile):
            yield from self._named(profile_names.parse(other).resource, DeviceKind.SLICE, other)

    def _own_slices(self, profile: str, *, single: bool) -> Iterator[Offered]:
        """Slices by their own name, or as ``nvidia.com/gpu`` under the single strategy.

        A queue that covers ``nvidia.com/gpu`` but not the slice's name means the latter.
        """
        resource = profile_names.parse(profile).resource
        mixed = tuple(self._named(resource, DeviceKind.SLICE, profile))
        if mixed and not single:
            yield from mixed
        else:
            yield from self._named(names.GPU_RESOURCE, DeviceKind.SLICE, profile)

    def _named(self, resource: str, grain: DeviceKind, profile: str) -> Iterator[Offered]:
        """The name, or its ``.shared`` form where the flavor's nodes share and rename."""
        shared = resources.shared_name(resource)
        if not self.flavor.sharing:
            names_offered = [(resource, False), (shared, True)]
            if self.open_names:
                names_offered.pop()
        elif not self.unrenamed and (self.open_names or shared in self.declared):
            names_offered = [(shared, True)]
        else:
            names_offered = [(resource, True)]
        for name, is_shared in names_offered:
            if self.open_names or name in self.declared:
                yield self._offer(name, grain, profile, shared=is_shared)

    def _offer(self, resource: str, grain: DeviceKind, profile: str, *, shared: bool) -> Offered:
        return Offered(
            resource=resource,
            grain=grain,
            profile=profile,
            shared=shared,
            replicas=max(self.flavor.replicas, 1) if shared else 1,
            cost=self._cost(profile),
        )

    def _cost(self, profile: str) -> Cost | None:
        if self.product is None:
            return None
        if not profile:
            return self.product.whole
        profile_of_product = self.product.find(profile)
        return None if profile_of_product is None else profile_of_product.cost

    def _other_profiles(self, own_profile: str) -> Iterator[str]:
        """Canonical profiles, besides the flavor's own, whose names the queue covers."""
        if self.open_names:
            if self.product is not None and not own_profile and not self.flavor.sharing:
                yield from self.product.profiles
            return
        for resource in sorted(self.declared):
            profile = _profile_of(resource, self.product)
            if profile and profile != own_profile:
                yield profile


def _declared(flavor: FlavorCapabilities) -> frozenset[str]:
    return frozenset(r for r in flavor.resources if flavor.ceilings.get(r, 1) > 0)


def _is_virtual_only(declared: Iterable[str]) -> bool:
    names_declared = set(declared)
    return bool(names_declared & resources.VIRTUAL) and not any(
        resources.is_device(name) for name in names_declared
    )


def _profile_of(resource: str, product: Product | None) -> str:
    """Canonical profile of a MIG resource that the product has; else empty."""
    try:
        device = resources.parse(resource)
    except InvalidValueError:
        return ""
    if device is None or device.profile is None:
        return ""
    text = device.profile.text
    if product is None:
        return text
    profile_found = product.find(text)
    return "" if profile_found is None else profile_found.name


def _own_profile(
    flavor: FlavorCapabilities, labelled: str, product: Product | None, catalogue: Catalogue
) -> tuple[str, str]:
    """The flavor's own profile, canonical, and what is wrong with it."""
    text = flavor.profile or labelled
    if not text:
        return "", ""
    if flavor.sharing == MPS:
        return "", f"mps cannot share MIG instances, so mig-profile {text} cannot be offered"
    try:
        if product is None:
            return profile_names.parse(text).text, ""
        return catalogue.profile(product, text).name, ""
    except InvalidValueError as error:
        return "", f"mig-profile {error}"


def _answers_plain(first: Offered, profile: str) -> bool:
    return first.profile == profile


def normal_sharing(text: str) -> str:
    """Return the strategy of any spelling of sharing; empty for ``none`` and unknown ones."""
    if text in _TIME_SLICING_NAMES:
        return TIME_SLICING
    return MPS if text == MPS else ""
