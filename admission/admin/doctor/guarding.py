"""Whose nominal quota the capacity guard would take, were it set on all that promise a resource.

It hands out what exists as `admission.controller.devices.capacity_guard` does;
tests/admin/doctor/test_guarding.py compares both.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from admission.admin.doctor.picture import Picture, is_admitted
from admission.answers.queue_problems import Holder, top_of
from admission.base import amount, names
from admission.base.errors import InvalidValueError
from admission.gpu import capacity, costs, resources
from admission.objects import pods as pod_objects
from admission.objects import values
from admission.objects.cluster_queue import surge_quota
from admission.objects.cohort import Cohort
from admission.scheduling import handing_out
from admission.scheduling.handing_out import Promise, ResourceStock

_Group = tuple[str, ...]
"""Flavors that select the same nodes, sorted."""


class WithheldQuota(NamedTuple):
    """Nominal quota of a flavor that has no devices behind it.

    Attributes:
        holder: name of the ClusterQueue, or ``Cohort NAME``.
        flavor: the flavor.
        taken: how much of it has none.
        nominal: all of it.
    """

    holder: str
    flavor: str
    taken: int
    nominal: int


def taken(picture: Picture, resource: str, flavors: Iterable[str]) -> tuple[WithheldQuota, ...]:
    """Return what would be taken of nominal quota, in the order of handing out.

    Args:
        picture: of the cluster.
        resource: of the quota.
        flavors: the guard is set on all ClusterQueues with quota of these.
    """
    chosen = frozenset(flavors)
    every: list[Holder] = [*picture.cluster_queues, *picture.cohorts]
    promised = sorted(
        flavor
        for flavor in picture.flavors
        if any(_nominal(holder, resource, {flavor}) for holder in every)
    )
    promises = [
        Promise(_shown_name(holder), flavor, nominal, rank)
        for rank, holder in _in_turn(picture, resource, chosen, promised)
        for flavor, nominal in _nominal(holder, resource, promised).items()
    ]
    shares = handing_out.shared_out(promises, _stock(picture, resource, promised))
    return tuple(
        WithheldQuota(promise.owner, promise.flavor, promise.value - share.value, promise.value)
        for promise, share in zip(promises, shares, strict=True)
        if promise.flavor in chosen and share.value < promise.value != amount.UNLIMITED
    )


def _shown_name(holder: Holder) -> str:
    name = holder.metadata.name
    return f"Cohort {name}" if isinstance(holder, Cohort) else name


def _stock(picture: Picture, resource: str, flavors: Sequence[str]) -> dict[_Group, ResourceStock]:
    """Return what nodes have, by who selects them."""
    selecting: dict[str, list[str]] = {}
    exists: dict[str, int] = {}
    sick: dict[str, int] = {}
    for name in flavors:
        flavor = picture.flavors[name]
        for facts, part in picture.nodes_of(flavor):
            if picture.repelling(flavor, facts.name) is None:
                selecting.setdefault(facts.name, []).append(name)
                exists[facts.name] = {**part.units, **costs.virtual(part.worth)}.get(resource, 0)
                worth = capacity.worth_of(facts, part.sick, picture.catalogue)
                sick[facts.name] = {**part.sick, **costs.virtual(worth)}.get(resource, 0)
    outside = _outside(picture, resource) if resources.is_device(resource) else _NOTHING
    stock: dict[_Group, ResourceStock] = {}
    for node, group in selecting.items():
        usable, whole = stock.get(tuple(group), ResourceStock(0, 0))
        has = max(0, exists[node] - outside.get(node, 0))
        stock[tuple(group)] = ResourceStock(usable + has, whole + exists[node] + sick[node])
    return stock


_NOTHING: Final[Mapping[str, int]] = {}


def _outside(picture: Picture, resource: str) -> Mapping[str, int]:
    """Return what pods of no queue hold, by node, as far as pods could be read."""
    outside: dict[str, int] = {}
    for pod in picture.pods:
        if pod.spec.node_name and not is_admitted(pod):
            try:
                has = pod_objects.held_gpus(pod).get(resource, 0)
            except InvalidValueError:
                continue  # of such a pod it is not known
            outside[pod.spec.node_name] = outside.get(pod.spec.node_name, 0) + has
    return outside


def _in_turn(
    picture: Picture, resource: str, chosen: AbstractSet[str], flavors: Sequence[str]
) -> list[tuple[int, Holder]]:
    """Return what has nominal quota in the order in which the guard hands out what exists.

    Each has its rank: from the highest one is taken first what is sick.

    Set on a ClusterQueue, it is in force in all of its Cohort tree. Trees without it come first,
    and Cohorts after ClusterQueues.

    Args:
        picture: of the cluster.
        resource: of the quota.
        chosen: flavors; the guard is set on all ClusterQueues with quota of these, too.
        flavors: those with quota of the resource.
    """
    parents = {cohort.metadata.name: cohort.spec.parent_name or "" for cohort in picture.cohorts}

    def tree(holder: Holder) -> tuple[str, str]:
        if isinstance(holder, Cohort):
            return "Cohort", top_of(holder.metadata.name, parents)
        top = top_of(holder.spec.cohort_name, parents)
        return ("Cohort", top) if top else ("ClusterQueue", holder.metadata.name)

    guarded = {
        tree(queue)
        for queue in picture.cluster_queues
        if queue.metadata.annotation(names.CAPACITY_GUARD) == names.CAPACITY_GUARD_ENFORCE
        or _nominal(queue, resource, chosen)
    }
    holders: list[Holder] = [*picture.cluster_queues, *picture.cohorts]
    ranked = (
        (2 * (tree(holder) in guarded) + isinstance(holder, Cohort), holder)
        for holder in holders
        if _nominal(holder, resource, flavors)
    )
    return sorted(ranked, key=lambda entry: (entry[0], entry[1].metadata.name))


def _nominal(holder: Holder, resource: str, flavors: Container[str]) -> dict[str, int]:
    """Return nominal and surge quota of a resource by flavor, without zeros."""
    nominal = {
        flavor.name: values.amount_or_zero(resource, quota.nominal_quota)
        for group in holder.spec.resource_groups or ()
        for flavor in group.flavors
        if flavor.name in flavors
        for quota in flavor.resources
        if quota.name == resource
    }
    if not isinstance(holder, Cohort):
        for pair, value in surge_quota(holder).items():
            if pair.resource == resource and pair.flavor in flavors:
                nominal[pair.flavor] = nominal.get(pair.flavor, 0) + value
    return {flavor: value for flavor, value in nominal.items() if value}
