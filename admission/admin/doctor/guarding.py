"""Whose nominal quota the capacity guard takes, or would take.

Of queues on which it is in force, their conditions tell it (`in_force`). `taken` tells what it
would take, were it set on all that promise a resource. It hands out what exists as
`admission.controller.devices.capacity_guard` does;
tests/admin/doctor/test_guarding.py compares both.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final, NamedTuple

from admission.admin.doctor import picture as pictures
from admission.admin.doctor.picture import Picture, is_admitted
from admission.answers import existing_quota
from admission.answers.queue_problems import Holder, top_of
from admission.base import amount, names
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorResource
from admission.gpu import capacity, costs
from admission.gpu.nodes import NodeFacts
from admission.objects import pods as pod_objects
from admission.objects import values
from admission.objects.cluster_queue import surge_quota
from admission.objects.cohort import Cohort
from admission.scheduling import handing_out
from admission.scheduling.handing_out import Promise, ResourceStock

_Group = tuple[str, ...]
"""Flavors that select the same nodes, sorted."""
_ByNode = Mapping[str, Mapping[str, int]]
"""Devices by the name of a node and their own."""


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


class QuotaInForce(NamedTuple):
    """Nominal quota of a ClusterQueue that the guard holds to what exists.

    Attributes:
        holder: name of the ClusterQueue.
        share: what of it counts; None where the controller has not said it yet.
        nominal: all of it.
    """

    holder: str
    share: int | None
    nominal: int


def in_force(picture: Picture, pair: FlavorResource) -> tuple[QuotaInForce, ...]:
    """Return the ClusterQueues of whose quota not all counts, as their conditions say it.

    Args:
        picture: of the cluster; the guard is in force on all with quota of the flavor.
        pair: the quota.
    """
    listed = []
    for queue in sorted(picture.cluster_queues, key=lambda queue: queue.metadata.name):
        nominal = _nominal(queue, pair.resource, {pair.flavor}).get(pair.flavor, 0)
        if not nominal or nominal == amount.UNLIMITED:
            continue
        stated = existing_quota.stated(queue)
        if stated is None:
            listed.append(QuotaInForce(queue.metadata.name, None, nominal))
        elif pair in stated and stated[pair].share < nominal:
            listed.append(QuotaInForce(queue.metadata.name, stated[pair].share, nominal))
    return tuple(listed)


def _shown_name(holder: Holder) -> str:
    name = holder.metadata.name
    return f"Cohort {name}" if isinstance(holder, Cohort) else name


def _stock(picture: Picture, resource: str, flavors: Sequence[str]) -> dict[_Group, ResourceStock]:
    """Return what nodes have, by who selects them.

    A node counts for the flavors whose pods tolerate its taints. Where none does, it counts for
    all that select it with what admitted pods hold, and what is sick as the node is cordoned or
    not ready.
    """
    in_use, outside = _on_nodes(picture)
    stock: dict[_Group, ResourceStock] = {}
    for facts, part in picture.gpu_nodes:
        selecting = sorted(
            name
            for name, flavor in picture.flavors.items()
            if pictures.selects(flavor, facts.labels)
        )
        takers = _takers(picture, selecting, facts.name)
        group = tuple(name for name in takers or selecting if name in flavors)
        if not group:
            continue
        used, others_use, sick = (
            _valued(picture, facts, devices, resource)
            for devices in (
                in_use.get(facts.name, _NOTHING),
                outside.get(facts.name, _NOTHING),
                part.sick if takers or picture.has_state_taint(facts.name) else _NOTHING,
            )
        )
        exists = {**part.units, **costs.virtual(part.worth)}.get(resource, 0) if takers else 0
        left = max(0, exists - others_use)
        on_sick = max(0, used - left)
        usable, whole = stock.get(group, ResourceStock(0, 0))
        stock[group] = ResourceStock(
            usable + max(left, used), whole + exists + on_sick + max(0, sick - on_sick)
        )
    return stock


def _valued(picture: Picture, facts: NodeFacts, devices: Mapping[str, int], resource: str) -> int:
    """Return how much of a resource devices of a node are."""
    if not devices:
        return 0
    worth = capacity.worth_of(facts, devices, picture.catalogue)
    return {**devices, **costs.virtual(worth)}.get(resource, 0)


_NOTHING: Final[Mapping[str, int]] = {}


def _takers(picture: Picture, selecting: Iterable[str], node: str) -> list[str]:
    """Return the flavors whose pods tolerate the taints of a node."""
    takers = []
    for name in selecting:
        with suppress(InvalidValueError):  # of such a flavor nothing is admitted
            if picture.repelling(picture.flavors[name], node) is None:
                takers.append(name)
    return takers


def _on_nodes(picture: Picture) -> tuple[_ByNode, _ByNode]:
    """Return the devices that pods of queues hold, and other pods, as far as they can be read."""
    in_use: dict[str, Counter[str]] = {}
    outside: dict[str, Counter[str]] = {}
    for pod in picture.pods:
        if pod.spec.node_name:
            with suppress(InvalidValueError):  # of such a pod it is not known
                sums = in_use if is_admitted(pod) else outside
                devices = pod_objects.held_gpus(pod)
                sums.setdefault(pod.spec.node_name, Counter()).update(devices)
    return in_use, outside


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
