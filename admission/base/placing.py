"""What people are told where pods cannot be on nodes now."""

from collections.abc import Iterable
from typing import Final

from admission.base import quantity


def shortage(
    *,
    flavors: Iterable[str],
    count: int,
    fitting: int,
    resource: str,
    asks: int,
    free: int,
    hole: tuple[str, int] | None,
    refusals: Iterable[tuple[str, int]],
    is_joint: bool,
) -> str:
    """Return why pods cannot be on nodes now, without a full stop.

    ``needs 8 nvidia.com/gpu on one node of a100; 12 are free, at most 3 on one node (node-4)``

    Args:
        flavors: in which they cannot.
        count: how many pods need a node.
        fitting: how many of them nodes could take.
        resource: the one that counts.
        asks: how much of it one pod asks for.
        free: how much of it is free on nodes that could take such pods.
        hole: the node with most of it free, and how much; None where no node could ever take one.
        refusals: how many nodes can never take such a pod, by reason.
        is_joint: each pod set has room by itself, but not all at once.
    """
    where = " and ".join(flavors)
    amount = f"{quantity.in_words(resource, asks)} {resource}"
    if hole is None:
        why = ", ".join(f"{nodes} {_REFUSED[reason][nodes != 1]}" for reason, nodes in refusals)
        return f"no node of {where} can take a pod with {amount}" + (f": {why}" if why else "")
    if is_joint:
        return f"the nodes of {where} have room for each pod set, but not for all of them at once"
    needs = (
        f"needs {amount} on one node of {where}"
        if count == 1
        else f"needs a node of {where} for {count} pods with {amount} each, {fitting} fit"
    )
    node, most = hole
    free_in_words = quantity.in_words(resource, free)
    if not free:
        return f"{needs}; nothing of it is free there"
    return (
        f"{needs}; {free_in_words} {'is' if free == 1 else 'are'} free,"
        f" at most {quantity.in_words(resource, most)} on one node ({node})"
    )


_REFUSED: Final = {
    "affinity": (
        "has other labels than its affinity asks for",
        "have other labels than its affinity asks for",
    ),
    "resource": ("does not have the resource", "do not have the resource"),
    "sick": ("has too few devices that are well", "have too few devices that are well"),
    "size": ("is too small", "are too small"),
    "taint": ("has a taint that it does not tolerate", "have a taint that it does not tolerate"),
}
"""Why nodes can never take a pod, of one node and of several."""
