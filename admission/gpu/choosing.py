"""The device of a flavor that meets a container's request for GPUs, or why none does."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from admission.base import names, quantity
from admission.gpu import placement
from admission.gpu.capabilities import DeviceKind, Offered, ResolvedCapabilities
from admission.gpu.request_annotations import GpuAnnotations
from admission.gpu.resources import Device, UnitKind


class RefusalCode(Enum):
    """Why a flavor does not hold a request."""

    NOT_COVERED = "NotCovered"
    BAD_FLAVOR = "BadFlavor"
    INVALID = "Invalid"
    UNKNOWN_PROFILE = "UnknownProfile"
    WRONG_PROFILE = "WrongProfile"
    TOO_LITTLE_MEMORY = "TooLittleMemory"
    TOO_MANY_SHARES = "TooManyShares"
    NEVER_FITS = "NeverFits"
    ABOVE_CEILING = "AboveCeiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReason:
    """Why a request is not met.

    Attributes:
        code: code for programs.
        field: path in the pod.
        text: one sentence that says what to do next where that is known.
        flavor: the flavor that gave the reason; empty if no flavor was tried.
        asks: for NOT_COVERED, what it does not offer: a resource or a MIG profile.
        offers: for NOT_COVERED, the resources that it offers.
    """

    code: RefusalCode
    field: str
    text: str
    flavor: str = ""
    asks: str = ""
    offers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """One GPU resource that one container asks for.

    Attributes:
        container: its name.
        field: path of the resource in the pod.
        device: the name, understood.
        count: units, positive.
        wish: the pod's annotations for this container.
    """

    container: str
    field: str
    device: Device
    count: int
    wish: GpuAnnotations


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswer:
    """The answer to one request.

    Attributes:
        ask: the request.
        resource: the name to request instead, or the same.
        offer: what the flavor hands out under it.
    """

    ask: GpuRequest
    resource: str
    offer: Offered


def choose(menu: ResolvedCapabilities, ask: GpuRequest) -> RequestAnswer | RefusalReason:
    """Return the flavor's answer to one request."""
    wrong = _contradiction(menu, ask) or _lacks_profile(menu, ask)
    if wrong is not None:
        return wrong
    if not menu.offers:
        return _not_covered(menu, ask)
    fitting = [offer for offer in menu.offers if _is_meant(menu, ask)(offer)]
    if not fitting:
        return _not_covered(menu, ask)
    ample = [offer for offer in fitting if _has_memory(ask.wish, offer)]
    if not ample:
        return _too_small(menu, ask, fitting)
    best = min(ample, key=_least) if ask.wish.memory_bytes else ample[0]
    return RequestAnswer(ask=ask, resource=_name(menu, ask, best), offer=best)


def too_many_shares(
    menu: ResolvedCapabilities, answers: Iterable[RequestAnswer]
) -> RefusalReason | None:
    """Return why the kubelet would refuse a container's sum of shares after scheduling.

    Source: k8s-device-plugin, failRequestsGreaterThanOne; the text is the plugin's.
    """
    if not menu.fails_above_one:
        return None
    shares: dict[tuple[str, str], int] = {}
    for answer in answers:
        if not answer.offer.shared:
            continue
        key = (answer.ask.container, answer.resource)
        shares[key] = shares.get(key, 0) + answer.ask.count
        if shares[key] > 1:
            text = (
                f"maximum request size for shared resources is 1; found {shares[key]}:"
                f" the nodes of this flavor refuse more than one share per container"
            )
            return _reason(menu, answer.ask, RefusalCode.TOO_MANY_SHARES, text)
    return None


def why_node_never(menu: ResolvedCapabilities, totals: Iterable[tuple[Offered, int]]) -> str:
    """Return why no node of the flavor can ever hold the pod.

    It is empty if one can, or that is not known: nobody is refused for what was not found out.

    Args:
        menu: the flavor.
        totals: what the whole pod needs of each offer.
    """
    gpus = menu.flavor.gpus_per_node
    if not gpus:
        return ""
    slices: dict[str, int] = {}
    whole = 0
    for offer, count in totals:
        if offer.grain is DeviceKind.SLICE and not offer.shared:
            slices[offer.profile] = slices.get(offer.profile, 0) + count
        else:
            whole += -(-count // offer.replicas)
    if whole > gpus:
        return f"the pod needs {whole} GPUs of one node, which has at most {gpus}"
    if not slices or menu.product is None or not menu.product.has_mig:
        return ""
    answer = placement.fit_node(menu.product, slices, [()] * (gpus - whole))
    return answer.reason if answer.fit is placement.Fit.NEVER else ""


def _contradiction(menu: ResolvedCapabilities, ask: GpuRequest) -> RefusalReason | None:
    """A MIG name in the request and another profile in the annotation."""
    profile, wished = ask.device.profile, ask.wish.profile
    if profile is None or not wished or _canonical(menu, profile.text) == _canonical(menu, wished):
        return None
    text = f"asks for {ask.device.resource}, but the annotation {names.MIG_PROFILE} says {wished}"
    return _reason(menu, ask, RefusalCode.WRONG_PROFILE, text)


def _lacks_profile(menu: ResolvedCapabilities, ask: GpuRequest) -> RefusalReason | None:
    """A profile that the flavor's product does not have, whatever quota says."""
    profile = _wanted_profile(ask)
    if not profile or menu.product is None or menu.product.find(profile) is not None:
        return None
    text = placement.unknown_profiles(menu.product, [profile])
    return _reason(menu, ask, RefusalCode.UNKNOWN_PROFILE, text)


def _wanted_profile(ask: GpuRequest) -> str:
    return ask.wish.profile or (ask.device.profile.text if ask.device.profile else "")


def _canonical(menu: ResolvedCapabilities, profile: str) -> str:
    profile_of_product = menu.product.find(profile) if menu.product else None
    return profile_of_product.name if profile_of_product else profile


def _is_meant(menu: ResolvedCapabilities, ask: GpuRequest) -> Callable[[Offered], bool]:
    """Return whether an offer is what the request means, memory aside."""
    profile = _wanted_profile(ask)
    name = _canonical(menu, profile)
    if ask.device.shared:
        # Under a name without .shared the request could be taken for a whole device.
        return lambda offer: (
            offer.resource == ask.device.resource and offer.profile == (name or offer.profile)
        )
    if ask.device.kind is UnitKind.MIG:
        return lambda offer: offer.profile == name and not offer.shared
    if profile:
        return lambda offer: offer.profile == name
    if ask.wish.memory_bytes:
        return lambda _: True
    return lambda offer: menu.answers_plain and offer == menu.offers[0]


def _has_memory(wish: GpuAnnotations, offer: Offered) -> bool:
    if not wish.memory_bytes:
        return True
    return offer.memory_bytes is not None and offer.memory_bytes >= wish.memory_bytes


def _least(offer: Offered) -> tuple[int, int, bool, int, str]:
    """Order of offers from the smallest: memory, slices, undivided first, plain names first."""
    memory = offer.memory_bytes or 0
    return memory, offer.slices, offer.shared, len(offer.resource), offer.resource


def _name(menu: ResolvedCapabilities, ask: GpuRequest, offer: Offered) -> str:
    """The offer's name, or the asker's own spelling (an alias) where the queue covers that."""
    resource_name = ask.device.resource
    if (
        ask.device.kind is UnitKind.MIG
        and offer.resource != names.GPU_RESOURCE
        and menu.covers(resource_name)
    ):
        return resource_name
    return offer.resource


def _not_covered(menu: ResolvedCapabilities, ask: GpuRequest) -> RefusalReason:
    """The flavor has no quota for what is asked, or its description is wrong."""
    if menu.problem:
        return _reason(menu, ask, RefusalCode.BAD_FLAVOR, menu.problem)
    offers = tuple(offer.resource for offer in menu.offers)
    asks = _wanted_profile(ask) or ask.device.resource
    text = f"offers {', '.join(offers) or 'no GPUs'}, not {asks}"
    reason = _reason(menu, ask, RefusalCode.NOT_COVERED, text)
    return replace(reason, asks=asks, offers=offers)


def _too_small(
    menu: ResolvedCapabilities, ask: GpuRequest, offers: list[Offered]
) -> RefusalReason:
    lowest = quantity.from_canonical("memory", ask.wish.memory_bytes)
    measured = [offer for offer in offers if offer.memory_bytes is not None]
    if not measured:
        text = (
            f"the memory of its GPUs is unknown: name the product in the flavor's annotation"
            f" {names.FLAVOR_PRODUCT}"
        )
        return _reason(menu, ask, RefusalCode.BAD_FLAVOR, text)
    shown = ", ".join(
        f"{o.resource} ({quantity.from_canonical('memory', o.memory_bytes or 0)})"
        for o in measured
    )
    text = f"no device with {lowest} of memory: it offers {shown}"
    return _reason(menu, ask, RefusalCode.TOO_LITTLE_MEMORY, text)


def _reason(
    menu: ResolvedCapabilities, ask: GpuRequest, code: RefusalCode, text: str
) -> RefusalReason:
    return RefusalReason(code=code, field=ask.field, text=text, flavor=menu.flavor.name)
