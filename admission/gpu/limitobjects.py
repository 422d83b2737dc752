"""Checks of LimitRange and ResourceQuota objects: the API server's rules, and GPU traps.

The API server accepts a GPU ``max`` and silently turns it into a default of every container; it
accepts quota keys that count nothing. The findings here say so before pods suffer.

Source: kubernetes v1.36 pkg/apis/core/validation/validation.go (ValidateLimitRange),
pkg/quota/v1/evaluator/core/pods.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from admission.gpu import limits, resources
from admission.gpu.limits import LimitItem, LimitRange
from admission.gpu.quantities import NANO, Quantity
from admission.gpu.rewrite import LimitedNames

_MAX_MILLI: Final = (2**63 - 1) // 1000
_QUOTA_REQUESTS: Final = "requests."
_QUOTA_LIMITS: Final = "limits."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something wrong or dangerous in an object or a pod.

    Attributes:
        rule: short identity, such as ``T10`` or ``duplicate``.
        field: path in the object.
        text: what happens, and what to write instead.
    """

    rule: str
    field: str
    text: str


def invalid(limit_range: LimitRange) -> tuple[Finding, ...]:
    """Why the API server refuses the object, in its words; sorted by field.

    Items are to be given as written; they are defaulted here as the API server does first.
    """
    found: list[Finding] = []
    seen: set[str] = set()
    for index, raw in enumerate(limit_range.items):
        path = f"spec.limits[{index}]"
        if raw.type in seen:
            found.append(Finding(rule="T9", field=f"{path}.type", text=_duplicate(raw.type)))
        seen.add(raw.type)
        if raw.type == limits.POD:
            found += _pod_defaults(path, raw)
        found += _bounds(path, limits.defaulted(raw))
    return tuple(sorted(found, key=lambda finding: (finding.field, finding.text)))


def traps(limit_range: LimitRange) -> tuple[Finding, ...]:
    """What a valid LimitRange does to containers that want no GPU; items as written."""
    found = []
    for index, raw in enumerate(limit_range.items):
        for resource in _gpu_names(raw):
            finding = _trap(f"spec.limits[{index}]", raw, resource)
            if finding is not None:
                found.append(finding)
    return tuple(found)


def quota_traps(hard: Iterable[str]) -> tuple[Finding, ...]:
    """Quota keys that the API server accepts and never counts (T8), sorted."""
    return tuple(
        Finding(rule="T8", field=f"spec.hard[{key}]", text=_uncounted(key))
        for key in sorted(hard)
        if resources.is_device(key.removeprefix(_QUOTA_LIMITS))
        and not key.startswith(_QUOTA_REQUESTS)
    )


def limited_names(ranges: Iterable[LimitRange]) -> LimitedNames:
    """The GPU names that a rewrite must keep at 0, and those it must not take away.

    A ``min`` or a ratio fails on a container (or pod) without the name, and on 0.
    """
    named: set[str] = set()
    floors: dict[str, str] = {}
    for limit_range in ranges:
        for raw in limit_range.items:
            if raw.type not in {limits.CONTAINER, limits.POD}:
                continue
            stored = limits.defaulted(raw)
            named.update(stored.max, stored.default, stored.default_request)
            for what, bounds in (("min", stored.min), ("maxLimitRequestRatio", stored.ratio)):
                for name, bound in bounds.items():
                    floors.setdefault(name, f"{what} {bound.text} in {limit_range.name}")
    return LimitedNames(
        named=frozenset(filter(resources.is_device, named)), floors=_only_gpu(floors)
    )


def escaped_quota(
    before: Mapping[str, int],
    after: Mapping[str, int],
    hard: Mapping[str, int],
    used: Mapping[str, int] | None,
) -> tuple[str, str]:
    """What a rewrite would take out of sight of a ResourceQuota.

    Args:
        before: the pod's device amounts as it asked for them.
        after: as rewritten.
        hard: the quota's bounds by key (``requests.nvidia.com/gpu``).
        used: its use by key; None if it is not known.

    Returns:
        (refusal, warning); at most one is not empty.
    """
    for name, amount in sorted(before.items()):
        key = _QUOTA_REQUESTS + name
        if key not in hard or after.get(name, 0) >= amount:
            continue
        if used is None:
            return "", (
                f"the namespace limits {key} to {hard[key]}, which the rewritten request no"
                " longer counts against; put the limit on the queue"
            )
        if used.get(key, 0) + amount > hard[key]:
            return (
                f"exceeded quota: requested: {key}={amount}, used: {key}={used.get(key, 0)},"
                f" limited: {key}={hard[key]} (asked for as {name} before the rewrite)"
            ), ""
    return "", ""


def _duplicate(kind: str) -> str:
    return f'Duplicate value: "{kind}": put all bounds of a type into one item'


def _pod_defaults(path: str, limit: LimitItem) -> Iterator[Finding]:
    text = "Forbidden: may not be specified when `type` is 'Pod'"
    if limit.default:
        yield Finding(rule="pod-default", field=f"{path}.default", text=text)
    if limit.default_request:
        yield Finding(rule="pod-default", field=f"{path}.defaultRequest", text=text)


def _bounds(path: str, limit: LimitItem) -> Iterator[Finding]:
    """Order of min, defaultRequest, default and max; ratios; equal defaults for devices."""
    has_defaults = limit.type != limits.POD
    default = limit.default if has_defaults else {}
    request = limit.default_request if has_defaults else {}
    pairs = (
        ("min", limit.min, limit.max, "min value {} is greater than max value {}"),
        (
            "defaultRequest",
            limit.min,
            request,
            "min value {} is greater than default request value {}",
        ),
        (
            "defaultRequest",
            request,
            limit.max,
            "default request value {} is greater than max value {}",
        ),
        (
            "defaultRequest",
            request,
            default,
            "default request value {} is greater than default limit value {}",
        ),
        ("default", limit.min, default, "min value {} is greater than default value {}"),
        ("default", default, limit.max, "default value {} is greater than max value {}"),
    )
    for where, low, high, text in pairs:
        for name in sorted(low.keys() & high.keys()):
            if low[name].nano > high[name].nano:
                shown = text.format(low[name].text, high[name].text)
                yield Finding(rule="order", field=f"{path}.{where}[{name}]", text=shown)
    yield from _ratios(path, limit)
    for name in sorted(default.keys() & request.keys()):
        if _is_overcommittable(name) or default[name].nano == request[name].nano:
            continue
        text = (
            f"default value {default[name].text} must equal to defaultRequest value"
            f" {request[name].text} in {name}"
        )
        yield Finding(rule="unequal", field=f"{path}.defaultRequest[{name}]", text=text)


def _ratios(path: str, limit: LimitItem) -> Iterator[Finding]:
    for name, ratio in sorted(limit.ratio.items()):
        field = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio.nano < NANO:
            yield Finding(rule="ratio", field=field, text=f"ratio {ratio.text} is less than 1")
        if name in limit.min and name in limit.max:
            text = _above_span(ratio, limit.min[name], limit.max[name])
            if text:
                yield Finding(rule="ratio", field=field, text=text)


def _above_span(ratio: Quantity, least: Quantity, most: Quantity) -> str:
    """In floating point, as the API server computes it; a min of 0 gives no bound."""
    small = all(part.value < _MAX_MILLI for part in (ratio, least, most))
    value = ratio.milli / 1000 if small else float(ratio.value)
    low, high = (least.milli, most.milli) if small else (least.value, most.value)
    if low == 0 or value <= high / low:
        return ""
    return f"ratio {ratio.text} is greater than max/min = {high / low:.6f}"


def _trap(path: str, raw: LimitItem, resource: str) -> Finding | None:
    """The worst consequence of one item for one resource."""
    if raw.type == limits.POD:
        field = f"{path}[{resource}]"
        text = f"type Pod refuses every pod of the namespace that asks for no {resource}"
        return Finding(rule="pod-bound", field=field, text=text)
    if raw.type != limits.CONTAINER:
        return None
    if resource in raw.default or resource in raw.default_request:
        return _default_trap(path, raw, resource)
    if resource in raw.max:
        amount = raw.max[resource].text
        text = (
            f"the API server makes it a default: every container without a {resource} limit,"
            f" sidecars and init containers too, requests {amount}; add default 0 and"
            " defaultRequest 0"
        )
        return Finding(rule="T10", field=f"{path}.max[{resource}]", text=text)
    if resource in raw.min:
        text = (
            "without max and default it gives every container a request and no limit, which the"
            " API server then refuses: Limit must be set for non overcommitable resources"
        )
        return Finding(rule="min-only", field=f"{path}.min[{resource}]", text=text)
    field = f"{path}.maxLimitRequestRatio[{resource}]"
    text = f"refuses every container without {resource}: requests and limits of it are equal"
    return Finding(rule="ratio-only", field=field, text=text)


def _default_trap(path: str, raw: LimitItem, resource: str) -> Finding | None:
    stored = limits.defaulted(raw)
    amount = stored.default_request[resource]
    if amount.nano == 0:
        return None
    text = (
        f"every container without {resource}, sidecars and init containers too, requests"
        f" {amount.text}; set it to 0, and let pods ask"
    )
    return Finding(rule="T11", field=f"{path}.default[{resource}]", text=text)


def _uncounted(key: str) -> str:
    bare = key.removeprefix(_QUOTA_LIMITS)
    return (
        f"{key} is accepted and never counted, and GPUs cannot be overcommitted (requests equal"
        f" limits); write {_QUOTA_REQUESTS}{bare}"
    )


def _gpu_names(limit: LimitItem) -> list[str]:
    lists = (limit.min, limit.max, limit.default, limit.default_request, limit.ratio)
    return sorted({name for amounts in lists for name in amounts if resources.is_device(name)})


def _only_gpu(floors: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in floors.items() if resources.is_device(name)}


def _is_overcommittable(resource: str) -> bool:
    """Source: pkg/apis/core/helper (IsOvercommitAllowed): native resources, hugepages aside."""
    is_native = "/" not in resource or "kubernetes.io/" in resource
    return is_native and not resource.startswith("hugepages-")
