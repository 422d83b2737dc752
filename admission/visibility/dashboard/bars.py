"""Bars: what is used of a quota, in parts of one scale, as the templates draw them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from admission.base import amount, quantity
from admission.base.names import FlavorResource

_FULL = 1_000
"""Width of a whole bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Use of one resource in one flavor.

    Attributes:
        flavor: the flavor; empty for all flavors together.
        resource: the resource, without its domain where that is NVIDIA's.
        own: width of what is used within the nominal quota.
        borrowed: width of what is used beyond it.
        leaving: width of what is about to be given back, part of the two.
        mark: position of the nominal quota; None if it is unlimited.
        text: the same in words.
        used: amount that is used.
        nominal: amount of the nominal quota.
        missing: amount that was promised beyond it and does not exist; empty for nothing.
    """

    flavor: str
    resource: str
    own: int
    borrowed: int
    leaving: int
    mark: int | None
    text: str
    used: str
    nominal: str
    missing: str

    @property
    def leaving_at(self) -> int:
        """Return where the part begins that is about to be given back: it is drawn last."""
        return self.own + self.borrowed - self.leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The sum that waiting Workloads ask for of one resource.

    Attributes:
        resource: the resource.
        width: of the bar.
        asked: amount.
        text: the same in words.
    """

    resource: str
    width: int
    asked: str
    text: str


def awaited(resource: str, value: int, scale: int) -> Awaited:
    """Return what those that wait ask for, on the scale of the bars."""
    amount_ = quantity.in_words(resource, value)
    return Awaited(
        resource=short(resource),
        width=max(2, min(_width(value, scale), _FULL - 2)),
        asked=amount_,
        text=f"those that wait ask for {amount_} {short(resource)}",
    )


def make(
    pair: FlavorResource, used: int, nominal: int, leaving: int, scale: int, missing: int = 0
) -> Bar:
    """Return a bar.

    Args:
        pair: flavor and resource.
        used: all that is used.
        nominal: the quota.
        leaving: part of what is used that is about to be given back.
        scale: the amount that a whole bar stands for.
        missing: what was promised beyond the quota and does not exist.
    """
    is_endless = nominal == amount.UNLIMITED
    own = used if is_endless else min(used, nominal)
    beyond = used - own
    told = [f"{_say(pair, used)} of {_say(pair, nominal)} used"]
    told += [f"{_say(pair, beyond)} of it borrowed"] if beyond else []
    told += [f"{_say(pair, leaving)} about to be given back"] if leaving else []
    told += [f"{_say(pair, missing)} more promised do not exist"] if missing else []
    return Bar(
        flavor=pair.flavor,
        resource=short(pair.resource),
        own=_width(own, scale),
        borrowed=_width(used, scale) - _width(own, scale),
        leaving=_width(min(leaving, used), scale),
        mark=None if is_endless else _width(nominal, scale),
        text=f"{pair.flavor} {short(pair.resource)}: " + ", ".join(told),
        used=_say(pair, used),
        nominal=_say(pair, nominal),
        missing=_say(pair, missing) if missing else "",
    )


def scale_of(amounts: Iterable[int]) -> int:
    """Return the largest finite amount, 1 at least."""
    return max((one for one in amounts if one != amount.UNLIMITED), default=0) or 1


def asked(requested: Mapping[str, int]) -> str:
    """Return what those that wait ask for, in words; empty for nothing."""
    return ", ".join(
        f"{quantity.in_words(name, value)} {short(name)}"
        for name, value in sorted(requested.items())
        if value
    )


def short(resource: str) -> str:
    """Return the name of a resource without its domain."""
    return resource.rpartition("/")[2]


def _say(pair: FlavorResource, value: int) -> str:
    return "∞" if value == amount.UNLIMITED else quantity.in_words(pair.resource, value)


def _width(value: int, scale: int) -> int:
    return min(_FULL, value * _FULL // scale)
