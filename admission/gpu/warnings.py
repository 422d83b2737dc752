"""What a user should know about a request that is nevertheless allowed."""

from collections.abc import Iterable

from admission.base import names
from admission.gpu.capabilities import Grain, ResolvedCapabilities
from admission.gpu.choosing import Chosen
from admission.gpu.resources import Kind


def of_rewrite(
    menu: ResolvedCapabilities, chosen: Iterable[Chosen], *, is_gang: bool
) -> tuple[str, ...]:
    """Warnings about a pod's new requests, in the order of the requests, each once."""
    found: dict[str, None] = {}
    for answer in chosen:
        for text in (
            _sliced_training(answer, is_gang=is_gang),
            _several_shares(menu, answer),
            _renamed_share(menu, answer),
            _unknown_cut(menu, answer),
        ):
            if text:
                found[text] = None
    return tuple(found)


def _sliced_training(answer: Chosen, *, is_gang: bool) -> str:
    """Instances cannot talk over NVLink or peer-to-peer. Source: NVIDIA MIG User Guide."""
    if answer.offer.grain is not Grain.SLICE or (answer.ask.count == 1 and not is_gang):
        return ""
    what = "a gang" if answer.ask.count == 1 else f"{answer.ask.count} devices"
    return (
        f"container {answer.ask.container}: {what} on MIG instances ({answer.offer.profile})"
        " cannot use NVLink or peer-to-peer; train on whole GPUs or on one larger slice"
    )


def _several_shares(menu: ResolvedCapabilities, answer: Chosen) -> str:
    """Source: k8s-device-plugin README, shared access with failRequestsGreaterThanOne false."""
    if not answer.offer.shared or answer.ask.count == 1:
        return ""
    return (
        f"container {answer.ask.container}: {answer.ask.count} shares of a GPU"
        f" ({menu.flavor.sharing or 'shared'}) give no more time or memory than 1"
    )


def _renamed_share(menu: ResolvedCapabilities, answer: Chosen) -> str:
    """A plain request that gets a share under another name would else wait for ever (T1)."""
    if answer.ask.device.kind is not Kind.GPU or answer.ask.device.shared:
        return ""
    if not answer.offer.shared or answer.resource == names.GPU_RESOURCE:
        return ""
    part = f"1/{answer.offer.replicas}" if answer.offer.replicas > 1 else "a share"
    return (
        f"container {answer.ask.container}: flavor {menu.flavor.name} offers"
        f" {answer.resource}, not {names.GPU_RESOURCE}; each unit is {part} of a GPU"
    )


def _unknown_cut(menu: ResolvedCapabilities, answer: Chosen) -> str:
    """A slice that answers a wish for memory, where nobody has said that nodes are cut so."""
    is_wish = answer.ask.device.kind is Kind.GPU and not answer.ask.wish.profile
    is_own = answer.offer == menu.offers[0] and menu.answers_plain
    if not menu.open_names or not is_wish or is_own or answer.offer.grain is not Grain.SLICE:
        return ""
    return (
        f"container {answer.ask.container}: flavor {menu.flavor.name} does not say how its GPUs"
        f" are cut; {answer.resource} is the smallest slice that would do: if no node has it, the"
        f" pod stays pending (flavor annotation {names.MIG_PROFILE} or quota for that name says)"
    )
