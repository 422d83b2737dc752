"""Queues in place of ResourceQuotas: what each namespace may have becomes its own quota.

A ResourceQuota counts a resource name, whichever nodes offer it. Where several flavors offer it,
its number is divided between them in the ratio of their nodes. What the nodes have beyond all
quotas, and what a namespace had no limit for, is lent by the Cohort.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.admin.proposal import ANY_NODE, Supply, Team, TeamShare
from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import resources
from admission.objects import resource_quota
from admission.objects.resource_quota import NamespaceQuota

_REQUESTS: Final = "requests."
_PLAIN: Final = (quantity.CPU, "memory", "ephemeral-storage")
"""Resources that a quota may name without ``requests.``."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What ResourceQuotas come to.

    Attributes:
        shares: one for each namespace.
        left_over: what is nobody's own, by flavor and resource.
        taken: keys that were taken over, by namespace and name of the ResourceQuota.
        notes: what was not taken over.
        after: what to do with the ResourceQuotas.
    """

    shares: tuple[TeamShare, ...] = ()
    left_over: Mapping[Key, int] = field(default_factory=dict)
    taken: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(slots=True)
class _Read:
    """The ResourceQuotas of a namespace, together."""

    limits: dict[str, int] = field(default_factory=dict)
    taken: dict[str, list[str]] = field(default_factory=dict)
    kept: dict[str, list[str]] = field(default_factory=dict)


def take_over(
    supply: Supply, quotas: Iterable[NamespaceQuota], unmanaged: frozenset[str] = frozenset()
) -> Takeover:
    """Return the queues that replace ResourceQuotas on GPUs; other ResourceQuotas are ignored.

    Args:
        supply: what the nodes have.
        quotas: of all namespaces.
        unmanaged: namespaces that no queue may have.
    """
    by_namespace: dict[str, list[NamespaceQuota]] = {}
    for quota in sorted(
        quotas, key=lambda quota_: (quota_.metadata.namespace, quota_.metadata.name)
    ):
        by_namespace.setdefault(quota.metadata.namespace, []).append(quota)
    offered = {resource for _, resource in supply.amounts()}
    shares: list[TeamShare] = []
    taken: dict[Key, tuple[str, ...]] = {}
    notes: list[str] = []
    after: list[str] = []
    for namespace, own_quotas in by_namespace.items():
        read = _Read()
        for quota in own_quotas:
            _read(quota, offered, read, notes)
        if not any(resources.is_device(name) for name in read.limits):
            continue
        if namespace in unmanaged:
            notes.append(f"namespace {namespace} is excluded, so its quota is not taken over")
            continue
        shares.append(_share(supply, namespace, read))
        taken |= {(namespace, name): tuple(keys) for name, keys in read.taken.items()}
        after += _after(namespace, read)
    notes += _too_much(supply, shares)
    return Takeover(
        shares=tuple(shares),
        left_over=_left_over(supply, shares),
        taken=taken,
        notes=tuple(notes),
        after=tuple(after),
    )


def _read(quota: NamespaceQuota, offered: set[str], read: _Read, notes: list[str]) -> None:
    """Take the limits of a ResourceQuota; of several the lowest holds."""
    name, hard = quota.metadata.name, quota.spec.hard or {}
    where = f"ResourceQuota {name} -n {quota.metadata.namespace}"
    if not any(resources.is_device(_bare(key)) for key in hard):
        return
    if quota.spec.scopes or quota.spec.scope_selector:
        notes.append(f"{where}: not taken over: it counts some of the pods only (scopes)")
        return
    uncounted = {trap.field: trap.text for trap in resource_quota.quota_traps(hard)}
    for key, value in sorted(hard.items()):
        resource = _resource(key)
        if text := uncounted.get(f"spec.hard[{key}]"):
            notes.append(f"{where}: {key} is not taken over: {text}")
        elif resource is None:
            read.kept.setdefault(name, []).append(key)
        elif resource not in offered:
            notes.append(f"{where}: {key} is not taken over: no node offers {resource}")
        else:
            try:
                amount = quantity.to_canonical(resource, str(value))
            except InvalidValueError as error:
                notes.append(f"{where}: {key} is not taken over: {error}")
                continue
            read.limits[resource] = min(amount, read.limits.get(resource, amount))
            read.taken.setdefault(name, []).append(key)


def _bare(key: str) -> str:
    return key.removeprefix(_REQUESTS).removeprefix("limits.")


def _resource(key: str) -> str | None:
    """The resource that a key limits the requests of; None for counts, limits and volumes."""
    if key.startswith(_REQUESTS):
        plain = key.removeprefix(_REQUESTS)
        return None if plain == "storage" else plain
    return key if key in _PLAIN else None


def _share(supply: Supply, namespace: str, read: _Read) -> TeamShare:
    amounts: dict[Key, int] = {}
    texts = []
    for resource, limit in sorted(read.limits.items()):
        if resource in supply.others:
            amounts[ANY_NODE, resource] = limit
            continue
        flavors = [flavor for flavor in supply.flavors if flavor.resource == resource]
        parts = in_ratio(limit, [flavor.amount for flavor in flavors])
        for flavor, part in zip(flavors, parts, strict=True):
            amounts[flavor.name, resource] = part
        if len(flavors) > 1:
            shown = ", ".join(
                f"{flavor.name} {n}" for flavor, n in zip(flavors, parts, strict=True)
            )
            texts.append(f"{limit} {resource} in the ratio of the nodes: {shown}.")
    quotas = ", ".join(read.taken)
    why = "\n".join([f"What ResourceQuota {quotas} gave {namespace}.", *texts])
    return TeamShare(team=Team(name=namespace, namespaces=(namespace,)), amounts=amounts, why=why)


def in_ratio(total: int, weights: list[int]) -> list[int]:
    """Return a total in whole parts by weight.

    The largest remainders get the rest, the first of equal ones first. Without any weight the
    parts are equal.
    """
    weights = weights if any(weights) else [1] * len(weights)
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    order = sorted(
        range(len(weights)), key=lambda place: (-(total * weights[place] % whole), place)
    )
    for place in order[: total - sum(parts)]:
        parts[place] += 1
    return parts


def _after(namespace: str, read: _Read) -> Iterator[str]:
    """What to do with a ResourceQuota once the queue is there: it would refuse who is to wait."""
    for name, keys in read.taken.items():
        kept = read.kept.get(name, [])
        if not kept:
            yield (
                f"namespace {namespace}: once its queue is there, remove the ResourceQuota, which "
                "refuses pods that are to wait: kubectl delete resourcequota "
                f"{name} -n {namespace}"
            )
        else:
            yield (
                f"namespace {namespace}: once its queue is there, take {', '.join(keys)} out of "
                f"ResourceQuota {name}, which refuses pods that are to wait; not taken over, so "
                f"keep there: {', '.join(kept)}"
            )


def _too_much(supply: Supply, shares: Iterable[TeamShare]) -> Iterator[str]:
    used = _given(shares)
    for (flavor, resource), capacity in supply.amounts().items():
        if used.get((flavor, resource), 0) > capacity:
            promised = quantity.from_canonical(resource, used[flavor, resource])
            has = quantity.from_canonical(resource, capacity)
            yield (
                f"the ResourceQuotas promise {promised} {resource} of {flavor}, the nodes have "
                f"{has}; pods that get no node stay pending, or wait for quota with the "
                f"annotation {names.CAPACITY_GUARD}: {names.CAPACITY_GUARD_ENFORCE} on the "
                "ClusterQueues"
            )


def _left_over(supply: Supply, shares: Iterable[TeamShare]) -> dict[Key, int]:
    used = _given(shares)
    return {key: max(capacity - used.get(key, 0), 0) for key, capacity in supply.amounts().items()}


def _given(shares: Iterable[TeamShare]) -> dict[Key, int]:
    total: dict[Key, int] = {}
    for share in shares:
        for key, amount in share.amounts.items():
            total[key] = total.get(key, 0) + amount
    return total
