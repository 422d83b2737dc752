"""Bars: what is used of a quota, in parts of one scale, as the templates draw them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from admission.base import amount
from admission.base.names import FlavorName, FlavorResource, ResourceName
from admission.serve.dashboard import words

FULL = 1_000
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
        missing: part of that which does not exist; empty for nothing.
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
        is_open: whether it would be longer than the row, so that it is drawn without an end.
        asked: amount.
        text: the same in words.
    """

    resource: str
    width: int
    is_open: bool
    asked: str
    text: str


def awaited(resource: str, value: int, scale: int, limit: int = FULL) -> Awaited:
    """Return what those that wait ask for, on the scale of the bars.

    Args:
        resource: the resource.
        value: the sum that they ask for.
        scale: the amount that a whole bar stands for.
        limit: width of the row that is left.
    """
    amount_ = _say(FlavorResource(FlavorName(""), ResourceName(resource)), value)
    width = value * FULL // scale
    return Awaited(
        resource=short(resource),
        width=max(2, min(width, limit - 2)),
        is_open=width > limit - 2,
        asked=amount_,
        text=f"those that wait ask for {amount_} {short(resource)}",
    )


def make(
    pair: FlavorResource,
    used: int,
    nominal: int,
    leaving: int,
    scale: int,
    missing: int = 0,
    borrowed: int | None = None,
) -> Bar:
    """Return a bar.

    Args:
        pair: flavor and resource; no flavor for the sum of all.
        used: all that is used.
        nominal: the quota.
        leaving: part of what is used that is about to be given back.
        scale: the amount that a whole bar stands for.
        missing: part of the quota that does not exist.
        borrowed: part of what is used that is borrowed; None for all beyond the quota.
    """
    is_endless = nominal == amount.UNLIMITED
    beyond = 0 if is_endless else max(0, used - nominal)
    beyond = beyond if borrowed is None else borrowed
    within_nominal = used - beyond
    texts = [f"{_say(pair, used)} of {_say(pair, nominal)} used"]
    texts += [f"{_say(pair, beyond)} of it borrowed"] if beyond else []
    texts += [f"{_say(pair, leaving)} about to be given back"] if leaving else []
    texts += (
        [f"{_say(pair, missing)} {'does' if missing == 1 else 'do'} not exist"] if missing else []
    )
    title = " ".join(filter(None, (pair.flavor, short(pair.resource))))
    return Bar(
        flavor=pair.flavor,
        resource=short(pair.resource),
        own=_width(within_nominal, scale),
        borrowed=_width(used, scale) - _width(within_nominal, scale),
        leaving=_width(min(leaving, used), scale),
        mark=None if is_endless else _width(nominal, scale),
        text=f"{title}: " + ", ".join(texts),
        used=_say(pair, used),
        nominal=_say(pair, nominal),
        missing=_say(pair, missing) if missing else "",
    )


def without_length(bar: Bar) -> Bar:
    """Return a bar of which nothing is drawn: its amounts do not compare with those beside it."""
    return replace(bar, own=0, borrowed=0, leaving=0, mark=0)


def scale_of(amounts: Iterable[int]) -> int:
    """Return the largest finite amount, 1 at least."""
    return max((value for value in amounts if value != amount.UNLIMITED), default=0) or 1


def short(resource: str) -> str:
    """Return the name of a resource without its domain."""
    return resource.rpartition("/")[2]


def _say(pair: FlavorResource, value: int) -> str:
    if value == amount.UNLIMITED:
        return "∞"
    return words.say(pair.resource, value)


def _width(value: int, scale: int) -> int:
    return min(FULL, value * FULL // scale)
