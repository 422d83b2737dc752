"""Whose nominal quota the capacity guard would take, were it set on all that promise a resource.

It hands out what exists as `admission.controller.devices.capacity_guard` does, by the order of
names; tests/admin/doctor/test_guarding.py compares both.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from admission.admin.doctor.picture import Picture, is_admitted
from admission.answers.queue_problems import Holder, top_of
from admission.base import amount, names
from admission.base.errors import InvalidValueError
from admission.gpu import costs, resources
from admission.objects import pods as pod_objects
from admission.objects import values
from admission.objects.cluster_queue import surge_quota
from admission.objects.cohort import Cohort

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
    left = _left(picture, resource, promised)
    groups = sorted(left, key=lambda group: (len(group), group))
    lost = []
    for holder in _in_turn(picture, resource, chosen, promised):
        for flavor, nominal in _nominal(holder, resource, promised).items():
            share = 0
            for group in groups:
                if flavor in group:
                    part = min(nominal - share, left[group])
                    share += part
                    left[group] -= part
            if flavor in chosen and share < nominal != amount.UNLIMITED:
                name = holder.metadata.name
                shown_name = f"Cohort {name}" if isinstance(holder, Cohort) else name
                lost.append(WithheldQuota(shown_name, flavor, nominal - share, nominal))
    return tuple(lost)


def _left(picture: Picture, resource: str, flavors: Sequence[str]) -> dict[_Group, int]:
    """Return what exists on nodes and is not held outside of queues, by who selects them."""
    selecting: dict[str, list[str]] = {}
    exists: dict[str, int] = {}
    for name in flavors:
        flavor = picture.flavors[name]
        for facts, part in picture.nodes_of(flavor):
            if picture.repelling(flavor, facts.name) is None:
                selecting.setdefault(facts.name, []).append(name)
                exists[facts.name] = {**part.units, **costs.virtual(part.worth)}.get(resource, 0)
    outside = _outside(picture, resource) if resources.is_device(resource) else _NOTHING
    left: dict[_Group, int] = {}
    for node, group in selecting.items():
        has = max(0, exists[node] - outside.get(node, 0))
        left[tuple(group)] = left.get(tuple(group), 0) + has
    return left


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
) -> list[Holder]:
    """Return what has nominal quota in the order in which the guard hands out what exists.

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
    return sorted(
        (holder for holder in holders if _nominal(holder, resource, flavors)),
        key=lambda holder: (
            tree(holder) in guarded, isinstance(holder, Cohort), holder.metadata.name,
        ),
    )  # fmt: skip


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
