"""Checks of a pod against its namespace's LimitRanges and ResourceQuotas, before it takes quota.

The API server's own plugins know only the names that a pod has in the end, so a rewrite could
slip past what they limit. Here the pod is judged in three views: by the names it was given, by
those it asked for, and by what its GPUs amount to in memory and slices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from admission.base import fielderrors, pod_resources
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import FieldError, FieldPath
from admission.gpu import costs, quantities
from admission.gpu.capabilities import FlavorCapabilities
from admission.gpu.catalogue import Catalogue
from admission.gpu.findings import Finding
from admission.gpu.quantities import Quantity
from admission.objects import limit_range, pods, resource_quota
from admission.objects.limit_range import LimitItem, ParsedLimitRange, VirtualLimits
from admission.objects.resource_quota import NamespaceQuota
from admission.objects.reviewed_pod import ReviewedPod
from admission.webhook import originals
from admission.webhook.originals import Stated
from admission.webhook.rewriting import Rewritten

_SPEC: Final = FieldPath.of("spec")
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."

Devices = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitVerdict:
    """The result of checking a pod against the limits of its namespace.

    Attributes:
        errors: broken limits; any denies the pod.
        warnings: for the person who made the request.
    """

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def judge(
    reviewed: ReviewedPod,
    rewritten: Rewritten,
    ranges: Sequence[ParsedLimitRange],
    quotas: Sequence[NamespaceQuota],
    catalogue: Catalogue,
) -> LimitVerdict:
    """Return every limit of the namespace that the pod breaks, and warnings about limits.

    The texts about LimitRanges are the API server's. Its plugin stops at the first LimitRange
    that fails; this function reports all.

    Args:
        reviewed: the pod as reviewed.
        rewritten: what became of it.
        ranges: the namespace's LimitRanges, as stored.
        quotas: its ResourceQuotas.
        catalogue: what GPUs amount to.

    Raises:
        InvalidValueError: an amount is no quantity; the API server stores none such.
    """
    if not ranges and not quotas:
        return LimitVerdict()
    after = _PodView.of(rewritten.pod, {})
    firsts = _firsts(reviewed, rewritten, after)
    errors = [
        *_broken(after.judged, ranges),
        *(
            error
            for first in firsts
            for error in _broken(first.view.judged, _only(ranges, first.taken))
        ),
    ]
    virtual = _virtual(after, rewritten, limit_range.virtual_limits(ranges), catalogue)
    escaped = _escaped(firsts, after, quotas)
    traps = _traps(rewritten.pod, after, ranges, quotas)
    return LimitVerdict(
        errors=fielderrors.in_order((*errors, *virtual.errors, *escaped.errors)),
        warnings=tuple(dict.fromkeys((*virtual.warnings, *escaped.warnings, *traps))),
    )


# -------------------------------------------------------------------------- names, old and new


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodView:
    """A pod by the names it has in one view.

    Attributes:
        judged: what LimitRanger looks at.
        containers: GPU amounts by container name, without amounts of 0.
        total: GPU amounts of the pod.
    """

    judged: pod_resources.Pod[Quantity]
    containers: Mapping[str, Devices]
    total: Devices

    @classmethod
    def of(cls, pod: ReviewedPod, stated: Mapping[str, Stated]) -> Self:
        """Return what LimitRanges judge of the pod, with other resources in some containers."""
        judged = as_limit_ranger_sees(pod, stated)
        amounts = {
            container.name: originals.devices(
                stated.get(container.name, container.resources or Stated())
            )
            for _, _, container in pod.located_containers()
        }
        total = pod_resources.aggregate((role, amounts[role.name]) for role in judged.containers)
        return cls(judged=judged, containers=amounts, total=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    """The pod as it asked before a rewrite.

    Attributes:
        view: the pod with those names.
        taken: names that the rewrite took away.
    """

    view: _PodView
    taken: frozenset[str]


def as_limit_ranger_sees(
    pod: ReviewedPod, stated: Mapping[str, Stated] | None = None
) -> pod_resources.Pod[Quantity]:
    """Return the resources of a pod as LimitRanger sees them, with the API server's defaults.

    Args:
        pod: the pod.
        stated: resources by container name that replace those of the pod.

    Raises:
        InvalidValueError: an amount is no quantity.
    """
    return pod_resources.with_default_requests(
        pods.read(pod.spec, "spec", lambda amounts_, _: quantities.parse_list(amounts_), stated)
    )


def _firsts(reviewed: ReviewedPod, rewritten: Rewritten, after: _PodView) -> tuple[_First, ...]:
    """The pod as reviewed and as an earlier review kept it, where names were taken away.

    What was kept may be forged, so it never stands in for what the pod asks for now.
    """
    records = originals.read(reviewed)
    located = {c.name: c for _, _, c in reviewed.located_containers()}
    kept = {name: originals.whole(located[name], stated) for name, stated in records.items()}
    views_of_it = [{}, kept] if kept else [{}]
    if not rewritten.changed:
        views_of_it = [kept] if kept else []
    return tuple(
        first for stated in views_of_it if (first := _first(reviewed, stated, after)).taken
    )


def _first(reviewed: ReviewedPod, stated: Mapping[str, Stated], after: _PodView) -> _First:
    before = _PodView.of(reviewed, stated)
    taken = {
        name
        for container, amounts in before.containers.items()
        for name in amounts
        if name not in after.containers[container]
    }
    return _First(view=before, taken=frozenset(taken))


def _only(
    ranges: Iterable[ParsedLimitRange], names: frozenset[str]
) -> tuple[ParsedLimitRange, ...]:
    """Return what the LimitRanges say about some resources."""

    def kept(amounts: quantities.ResourceList) -> quantities.ResourceList:
        return {name: amount for name, amount in amounts.items() if name in names}

    def narrowed(item: LimitItem) -> LimitItem:
        return LimitItem(
            type=item.type,
            min=kept(item.min),
            max=kept(item.max),
            default=kept(item.default),
            default_request=kept(item.default_request),
            ratio=kept(item.ratio),
        )

    return tuple(
        replace(limit_range, items=tuple(map(narrowed, limit_range.items)))
        for limit_range in ranges
    )


def _broken(
    pod: pod_resources.Pod[Quantity], ranges: Sequence[ParsedLimitRange]
) -> Iterator[FieldError]:
    filled, _ = limit_range.fill_all(pod, ranges)
    for broken in limit_range.check_all(filled, ranges):
        for reason in broken.reasons:
            yield fielderrors.forbidden(_SPEC, f"LimitRange {broken.limit_range}: {reason}")


# ------------------------------------------------------------------------- memory and slices


def _virtual(
    devices: _PodView, rewritten: Rewritten, bounds: VirtualLimits, catalogue: Catalogue
) -> LimitVerdict:
    """The flavor whose names the pod has decides; others that could hold it are warned about."""
    problems = tuple(finding.text for finding in bounds.problems)
    if not bounds.bounds or not (devices.total or bounds.count_absent):
        return LimitVerdict(warnings=problems)
    if rewritten.flavor is None:
        return LimitVerdict(warnings=(*problems, _unchecked(bounds, "no flavor offers them")))
    try:
        reasons = _too_much(devices, rewritten.flavor, bounds, catalogue)
    except InvalidValueError as error:
        return LimitVerdict(warnings=(*problems, _unchecked(bounds, str(error))))
    return LimitVerdict(
        errors=tuple(fielderrors.forbidden(_SPEC, reason) for reason in reasons),
        warnings=(*problems, *_elsewhere(devices, rewritten, bounds, catalogue)),
    )


def _too_much(
    devices: _PodView, flavor: FlavorCapabilities, bounds: VirtualLimits, catalogue: Catalogue
) -> tuple[str, ...]:
    prices = costs.tariff(flavor, catalogue)
    each = {name: prices.demand(amounts) for name, amounts in devices.containers.items()}
    return limit_range.check_virtual(each, prices.demand(devices.total), bounds)


def _elsewhere(
    devices: _PodView, rewritten: Rewritten, bounds: VirtualLimits, catalogue: Catalogue
) -> Iterator[str]:
    """Limits that the pod would break in another flavor of the queue, which it may get."""
    for flavor in rewritten.others:
        prices = costs.tariff(flavor, catalogue)
        try:
            if any(map(prices.lacks, devices.total)):
                continue
            reasons = _too_much(devices, flavor, bounds, catalogue)
        except InvalidValueError:
            continue
        if reasons:
            yield (
                f"in flavor {flavor.name}, which the pod may get, it would break a limit:"
                f" {reasons[0]}; ask for a slice, or select the nodes of a smaller GPU"
            )


def _unchecked(bounds: VirtualLimits, why: str) -> str:
    keys = ", ".join(sorted({bound.key for bound in bounds.bounds}))
    return f"limits {keys} cannot be applied, the cost of the pod's GPUs is not known: {why}"


# ----------------------------------------------------------------------------- ResourceQuotas


def _escaped(
    firsts: Iterable[_First], after: _PodView, quotas: Sequence[NamespaceQuota]
) -> LimitVerdict:
    """ResourceQuotas on names that a rewrite took away, which the API server will not count."""
    refusals: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for first in firsts:
        for quota in quotas:
            hard = _amounts(quota.spec.hard)
            used = _amounts(quota.status.used) if _counts_all(quota) else None
            refusal, _ = resource_quota.escaped_quota(first.view.total, after.total, hard, used)
            _, warning = resource_quota.escaped_quota(first.view.total, after.total, hard, None)
            if refusal:
                refusals[f"ResourceQuota {quota.metadata.name}: {refusal}"] = None
            elif warning:
                warnings[f"ResourceQuota {quota.metadata.name}: {warning}"] = None
    errors = tuple(fielderrors.forbidden(_SPEC, text) for text in refusals)
    return LimitVerdict(errors=errors, warnings=tuple(warnings))


def _counts_all(quota: NamespaceQuota) -> bool:
    """Return whether it counts every pod and has been counted: scopes choose among pods."""
    is_scoped = bool(quota.spec.scopes or quota.spec.scope_selector)
    return quota.status.used is not None and not is_scoped


def _amounts(stated: Mapping[str, str | int] | None) -> dict[str, int]:
    """The GPU keys of a quota in whole units."""
    return {
        key: quantities.parse(text).value
        for key, text in (stated or {}).items()
        if key.startswith(_REQUESTS)
    }


# -------------------------------------------------------------------------------------- traps


def _traps(
    pod: ReviewedPod,
    devices: _PodView,
    ranges: Iterable[ParsedLimitRange],
    quotas: Iterable[NamespaceQuota],
) -> Iterator[str]:
    """Limits that do not do what they seem to, where they touch this pod."""
    if pod.metadata.annotation(limit_range.ANNOTATION):
        for range_ in ranges:
            yield from _told("LimitRange", range_.name, _harm(range_, devices))
    for quota in quotas:
        findings = (
            finding
            for finding in resource_quota.quota_traps(quota.spec.hard or {})
            if _key_of(finding).removeprefix(_LIMITS) in devices.total
        )
        yield from _told("ResourceQuota", quota.metadata.name, findings)


def _harm(range_: ParsedLimitRange, devices: _PodView) -> Iterator[Finding]:
    """What the LimitRange's defaults do, where a container has just that amount."""
    filled = {
        name
        for item in range_.items
        for amounts in devices.containers.values()
        for name, count in amounts.items()
        if item.type == limit_range.CONTAINER
        and name in item.default
        and item.default[name].value == count
    }
    for finding in limit_range.traps(limit_range.as_written(range_)):
        if _key_of(finding) in filled:
            yield finding


def _key_of(finding: Finding) -> str:
    return finding.field.rpartition("[")[2].removesuffix("]")


def _told(kind: str, name: str, findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{kind} {name}: {finding.field}: {finding.text} ({finding.rule})"
