"""Amounts and resources in the words of the pages."""

from collections.abc import Mapping
from typing import Final

from admission.answers import quota_use
from admission.base import names, quantity
from admission.gpu import resources

_MANY: Final = 10_000_000
"""Devices that are no longer written digit by digit."""


def in_words(amounts: Mapping[str, int], lowest: Mapping[str, int] | None = None) -> str:
    """Return GPUs in words; all resources where there are none.

    Args:
        amounts: by resource.
        lowest: what it may be instead, by resource: ``80Gi to 94Gi gpu-memory``; None for nothing
            else.
    """
    kept = {name: n for name, n in amounts.items() if n}
    gpus = {name: n for name, n in kept.items() if quota_use.is_gpu(name)} or kept
    return ", ".join(
        f"{_between(name, (lowest or gpus)[name], gpus[name])} {unit(name, gpus[name])}"
        for name in sorted(gpus, key=quota_use.order_of)
    )


def _between(resource: str, low: int, high: int) -> str:
    return f"{say(resource, low)} to {say(resource, high)}" if low < high else say(resource, high)


def say(resource: str, value: int) -> str:
    """Return an amount in words; devices are counted one by one."""
    if resources.is_device(resource) and value < _MANY:
        return f"{value:,}"
    return quantity.in_words(resource, value)


def unit(resource: str, value: int = 0) -> str:
    """Return what an amount of a resource is counted in."""
    is_many = resource == names.GPU_RESOURCE and value != 1
    return "GPUs" if is_many else short(resource)


def short(resource: str) -> str:
    """Return the name of a resource as people say it."""
    return "GPU" if resource == names.GPU_RESOURCE else resource.rpartition("/")[2]


def counted(number: int, noun: str) -> str:
    """Return so many of something: ``1 node``, ``2 nodes``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def level(label: str) -> str:
    """Return the name of a label of nodes as people say it: ``zone``, ``product``."""
    return label.rpartition("/")[2].rpartition(".")[2]
