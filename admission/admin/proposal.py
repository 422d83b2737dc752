"""Flavors and queues for the nodes of a cluster: nodes and teams in, objects out.

Nodes that offer the same GPUs under the same resource name are one flavor. Its ``nodeLabels`` are
the fewest labels that tell its nodes from all others that offer this name. Everything else that
pods ask for, such as cpu and memory, is quota of one flavor without labels. What every decision
rests on is said in a comment of the object, and in notes. Nothing is read or written here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from admission.base import names, quantity
from admission.base.errors import AdmissionError
from admission.gpu import capacity, nodes, resources, topology_labels
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import HealthPolicy
from admission.gpu.nodes import Layout, NodeFacts
from admission.gpu.products import Product
from admission.objects import nodes as node_objects
from admission.objects import views
from admission.objects.resource_flavor import ResourceFlavor

Document = dict[str, Any]
Amounts = Mapping[str, int]
_Key = tuple[str, str]
"""A flavor and a resource."""


class ProposalError(AdmissionError):
    """What is asked for cannot be proposed."""


ANY_NODE: Final = "any-node"
"""The flavor of cpu, memory and whatever else is no GPU."""

COHORT: Final = "gpus"
TOPOLOGY: Final = "gpu-nodes"
EVERYBODY: Final = "everybody"
"""The one ClusterQueue where no teams are named."""

_MOST_GROUPS: Final = 16
_MOST_LISTED: Final = 64
_MOST_LABELS: Final = 8
_SHOWN_NODES: Final = 5

_HARD: Final = ("NoSchedule", "NoExecute")
_OF_STATE: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/",
)
"""Taints that say how a node is, not who may use it."""

_GKE_PRODUCT_LABEL: Final = "cloud.google.com/gke-accelerator"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
"""Tells kinds of machines apart where nothing says which GPUs they have."""
_TELLING: Final = (
    names.MIG_STRATEGY_LABEL,
    "nvidia.com/mig.config",
    "nvidia.com/device-plugin.config",
    names.GKE_SHARING_LABEL,
    names.GKE_REPLICAS_LABEL,
    "cloud.google.com/gke-gpu-partition-size",
    names.GPU_MEMORY_LABEL,
)
"""Labels that tell nodes with the same product label apart, in the order of preference."""

_SILENT: Final = re.compile(
    r"^((beta\.|topology\.|failure-domain\.beta\.)?kubernetes\.io/|feature\.node\.kubernetes\.io/"
    r"|node\.kubernetes\.io/|node-role\.kubernetes\.io/|nvidia\.com/|gpu-admission\.dev/)"
    r"|hostname|gpu-health$"
)
"""Labels that are of one node, or that change: not for telling kinds of nodes apart."""

_NO_QUOTA: Final = re.compile(r"^(pods$|attachable-volumes-)")
"""Resources of nodes that pods do not request."""

_UNKNOWN_GB: Final = 40
"""Memory of a GPU that nothing is known of, for the order: after the large, before the small."""

_UNITS: Final = {quantity.CPU: 1000}
_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node, as far as quota cares.

    Attributes:
        facts: what it says of its GPUs.
        allocatable: canonical amounts of all its resources.
        taints: of its spec.
    """

    facts: NodeFacts
    allocatable: Amounts = field(default_factory=dict)
    taints: tuple[views.Taint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A team that gets a ClusterQueue.

    Attributes:
        name: of the ClusterQueue.
        namespaces: namespaces that get a LocalQueue.
        gpus: GPUs that it gets; None for an equal part of what others leave.
        of_flavors: how many of these it gets of each flavor; empty for some of each.
    """

    name: str
    namespaces: tuple[str, ...]
    gpus: int | None = None
    of_flavors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """Nodes that offer the same GPUs under the same name.

    Attributes:
        name: of the ResourceFlavor.
        resource: under which its nodes offer the GPUs.
        amount: how many of it are healthy now.
        labels: nodeLabels.
        annotations: what the labels do not say.
        tolerations: of the taints that keep other pods from GPU nodes.
        taints: others; a pod has to tolerate them itself.
        text: what it is, for people.
        nodes: their names.
    """

    name: str
    resource: str
    amount: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    tolerations: tuple[Document, ...]
    taints: tuple[Document, ...]
    text: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """The capacity that is divided between teams.

    Attributes:
        flavors: of GPUs, in the order in which a queue tries them.
        others: cpu, memory and the like of all nodes that pods of the queues may use.
        notes: what was left out or is in doubt, and what to do.
        levels: labels that say how close the nodes of the flavors are to each other, the widest
            first, with how many values each has; empty where they say nothing.
    """

    flavors: tuple[Flavor, ...]
    others: Amounts
    notes: tuple[str, ...]
    levels: Mapping[str, int] = field(default_factory=dict)

    def amounts(self) -> dict[tuple[str, str], int]:
        """Return everything by flavor and resource."""
        amounts = {(flavor.name, flavor.resource): flavor.amount for flavor in self.flavors}
        return amounts | {(ANY_NODE, name): amount for name, amount in self.others.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamShare:
    """What a ClusterQueue has of its own.

    Attributes:
        team: the team that gets it; a team without namespaces stands for everybody.
        amounts: by flavor and resource; missing = 0.
        why: explanation of the figures.
    """

    team: Team
    amounts: Mapping[tuple[str, str], int]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A proposed object, and why it is proposed.

    Attributes:
        document: the object.
        why: explanation for people, one or more lines.
    """

    document: Document
    why: str

    @property
    def identity(self) -> str:
        """Kind, name and namespace, as kubectl takes them."""
        metadata = self.document["metadata"]
        where = f" -n {metadata['namespace']}" if "namespace" in metadata else ""
        return f"{self.document['kind']}/{metadata['name']}{where}"


# ------------------------------------------------------------------------------------- nodes


@dataclass(frozen=True, order=True, slots=True)
class _Traits:
    """What nodes of one flavor have in common.

    Attributes:
        label: their product label, or whatever label names a product; of an unknown product all
            that tells nodes apart, as nodes of one flavor are to have the same GPUs.
        profile: under the strategy ``single``, and of MIG names.
        sharing: ``time-slicing``, ``mps`` or empty.
        replicas: shares of each device.
        taints: key, value and effect of those that pods tolerate themselves.
    """

    label: str
    profile: str
    sharing: str
    replicas: int
    taints: tuple[tuple[str, str, str], ...]


@dataclass(slots=True)
class _Pool:
    """Nodes with the same traits that offer one resource name."""

    resource: str
    traits: _Traits
    shape: Layout
    members: list[ClusterNode] = field(default_factory=list)
    amount: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.facts.name for member in self.members)

    @property
    def order(self) -> tuple[bool, bool, int, str, _Traits]:
        """Whole GPUs first, then MIG instances, then shares; each from the largest memory on."""
        product, profile = self.shape.product, self.traits.profile
        mig_profile = product.find(profile) if product is not None and profile else None
        memory = (
            mig_profile.memory_gb if mig_profile else product.memory_gb if product else _UNKNOWN_GB
        )
        return bool(self.traits.sharing), bool(profile), -memory, self.resource, self.traits


def supply(
    nodes: Iterable[ClusterNode],
    catalogue: Catalogue,
    policy: HealthPolicy,
    toleration_key: str = names.GPU_TAINT_KEY,
    existing: Iterable[ResourceFlavor] = (),
) -> Supply:
    """Return the capacity of nodes.

    Args:
        nodes: all nodes.
        catalogue: of GPU products.
        policy: what counts as sick.
        toleration_key: taint key that GPU pods tolerate.
        existing: flavors in the cluster; one that selects the nodes goes on giving them its name.
    """
    all_nodes = sorted(nodes, key=lambda node: node.facts.name)
    keys = frozenset({toleration_key or names.GPU_TAINT_KEY, names.GPU_TAINT_KEY})
    notes: list[str] = []
    pools: dict[tuple[str, _Traits], _Pool] = {}
    for node in all_nodes:
        _take(node, pools, notes, catalogue, policy, keys)
    ordered = sorted(pools.values(), key=lambda other: other.order)
    selected: list[tuple[_Pool, dict[str, str]]] = []
    for pool in ordered:
        labels = _selector(pool, [other for other in ordered if other is not pool], notes)
        if labels is not None:
            selected.append((pool, labels))
    selected = _bounded(selected, notes)
    flavor_names = _kept_names([pool for pool, _ in selected], pools.values(), existing)
    whole = {pool.resource for pool, _ in selected if not pool.traits.sharing}
    flavors = tuple(
        _flavor(name, pool, labels, keys, is_chosen=pool.resource in whole)
        for name, (pool, labels) in zip(flavor_names, selected, strict=True)
    )
    amounts = _others(all_nodes, [pool for pool, _ in selected], keys)
    lacking = [name for name, total in amounts.items() if not total]
    if lacking and flavors:
        listed = " and ".join(lacking)
        notes.append(
            f"no node that can be used reports {listed}: the quota of {listed} is 0, and a pod "
            f"that requests {listed} never starts; write the nominalQuota of it into the "
            "ClusterQueues, or run init again once nodes report it: kubectl describe node"
        )
    members = [member.facts.labels for pool, _ in selected for member in pool.members]
    return Supply(flavors=flavors, others=amounts, notes=tuple(notes), levels=_levels(members))


def _levels(nodes: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Return the levels that all nodes have, unless all are in one domain but for their host."""
    common = set[str].intersection(*(set(labels) for labels in nodes)) if nodes else set[str]()
    counts = {
        level: len({labels[level] for labels in nodes}) for level in topology_labels.levels(common)
    }
    is_divided = any(n > 1 for level, n in counts.items() if level != topology_labels.HOSTNAME)
    return counts if is_divided else {}


def _take(
    node: ClusterNode,
    pools: dict[tuple[str, _Traits], _Pool],
    notes: list[str],
    catalogue: Catalogue,
    policy: HealthPolicy,
    keys: frozenset[str],
) -> None:
    """Put the GPUs of a node into their pools, and say what of it does not count."""
    facts = node.facts
    key = _product_key(facts.labels, catalogue)
    if key and (product := _product(key, facts.labels[key], catalogue)) is not None:
        labels = {**facts.labels, names.GPU_PRODUCT_LABEL: product.name}
        shape = nodes.layout(replace(facts, labels=labels), catalogue)
    else:
        shape = nodes.layout(facts, catalogue)
    part = capacity.of_node(facts, catalogue, policy)
    leaving = next((taint.key for taint in node.taints if taint.key in node_objects.LEAVING), "")
    if leaving and (part.units or part.sick):
        notes.append(f"node {facts.name} is left out: taint {leaving} says that it is removed")
        return
    if not part.units and not part.sick:
        if shape.invalid:
            notes.append(f"node {facts.name} is left out: {shape.invalid}")
        return
    if shape.invalid:
        notes.append(f"node {facts.name} is left out until its GPUs are set up: {shape.invalid}")
        return
    if part.reasons:
        lost = ", ".join(f"{amount} {name}" for name, amount in sorted(part.sick.items()))
        does = f"{lost} not counted: " if lost else ""
        notes.append(f"node {facts.name}: {does}{'; '.join(part.reasons)}")
    for resource in sorted({*part.units, *part.sick}):
        traits = _traits(node, resource, shape, keys, key)
        pool = pools.setdefault((resource, traits), _Pool(resource, traits, shape))
        pool.members.append(node)
        pool.amount += part.units.get(resource, 0)


def _product_key(labels: Mapping[str, str], catalogue: Catalogue) -> str:
    """Return the label that names a product; empty where NVIDIA's own does, or none.

    Clouds and schedulers have labels of their own. Whatever the label is called, its value is a
    name that the catalogue knows.
    """
    if labels.get(names.GPU_PRODUCT_LABEL):
        return ""
    return next((key for key in sorted(labels) if _product(key, labels[key], catalogue)), "")


_ABOUT_GPUS: Final = re.compile(r"gpu|accelerator", re.IGNORECASE)
"""Labels of which a short name such as ``a10g`` is a GPU, and not a kind of machine."""


def _product(key: str, value: str, catalogue: Catalogue) -> Product | None:
    """Return the product that a label names; None for none."""
    match = catalogue.find(value)
    if match is None and _ABOUT_GPUS.search(key):
        return catalogue.find_loosely(value)
    return match


def _traits(
    node: ClusterNode, resource: str, shape: Layout, keys: frozenset[str], product_key: str
) -> _Traits:
    labels = node.facts.labels
    label_keys = (*_product_keys(resource), product_key)
    label = next((labels[key] for key in label_keys if labels.get(key)), "")
    if shape.product is None and not label:
        label = ",".join(f"{key}={labels[key]}" for key in sorted(labels) if _tells(key))
    is_gpu = resources.plain_name(resource) == names.GPU_RESOURCE
    replicas = shape.divisor(resource)
    return _Traits(
        label=label,
        profile=shape.profile if is_gpu else nodes.profile_of(resource),
        sharing=shape.sharing if replicas > 1 else "",
        replicas=replicas,
        taints=tuple(
            sorted(
                (taint.key, taint.value, taint.effect)
                for taint in _lasting(node)
                if not _is_of_gpus(taint, keys)
            )
        ),
    )


def _tells(key: str) -> bool:
    """Return whether a label may tell kinds of nodes apart."""
    return key == _INSTANCE_TYPE or not _SILENT.search(key)


def _product_keys(resource: str) -> tuple[str, ...]:
    resource_key = f"{resources.plain_name(resource)}.product"
    return tuple(dict.fromkeys((resource_key, names.GPU_PRODUCT_LABEL, _GKE_PRODUCT_LABEL)))


def _lasting(node: ClusterNode) -> list[views.Taint]:
    """Taints that keep pods away, and that say who may use the node."""
    return [
        taint
        for taint in node.taints
        if taint.effect in _HARD and not taint.key.startswith(_OF_STATE)
    ]


def _is_of_gpus(taint: views.Taint, keys: frozenset[str]) -> bool:
    """Return whether a taint only keeps pods without GPUs away."""
    return taint.key in keys or taint.value == "gpu"


def _selector(
    pool: _Pool, other_pools: Iterable[_Pool], notes: list[str]
) -> dict[str, str] | None:
    """The labels of a pool that no other node with this resource name has together.

    None where there are none: then nobody could say which nodes a pod would get.
    """
    rivals = [
        (member, frozenset(other.traits.taints))
        for other in other_pools
        if other.resource == pool.resource
        for member in other.members
    ]
    common = _common(pool)
    named = [key for key, value in common.items() if value == pool.traits.label]
    identity = [key for key in (*_product_keys(pool.resource), *named) if key in common]
    plain = resources.plain_name(pool.resource)
    telling = [f"{plain}.replicas", f"{plain}.sharing-strategy", *_TELLING]
    rest = sorted(key for key in common if _tells(key))
    candidates = [key for key in (*identity, *telling, *rest) if key in common]
    chosen = {key: common[key] for key in candidates[:1]}
    left = [(rival, taints) for rival, taints in rivals if _has(rival, chosen)]
    for key in candidates[1:]:
        still = [(rival, taints) for rival, taints in left if _has(rival, {key: common[key]})]
        if len(still) < len(left) and len(chosen) < _MOST_LABELS:
            chosen[key], left = common[key], still
    # Taints that pods of this flavor do not tolerate keep them away, too.
    reached = [rival for rival, taints in left if taints <= frozenset(pool.traits.taints)]
    if chosen and not reached:
        return chosen
    rival_names = _listed(rival.facts.name for rival in reached) or "other nodes"
    notes.append(
        f"{_listed(pool.names)} left out with {pool.amount} {pool.resource}: no label tells them "
        f"from {rival_names}; label them, for example: "
        f"kubectl label node {pool.names[0]} pool=NAME"
    )
    return None


def _common(pool: _Pool) -> dict[str, str]:
    first, *rest = (member.facts.labels for member in pool.members)
    return {
        key: first[key]
        for key in sorted(first)
        if first[key] and all(other.get(key) == first[key] for other in rest)
    }


def _has(node: ClusterNode, labels: Mapping[str, str]) -> bool:
    return all(node.facts.labels.get(key) == value for key, value in labels.items())


def _listed(node_names: Iterable[str]) -> str:
    """Some names in full, the others as their number."""
    shown = list(node_names)
    hidden = len(shown) - _SHOWN_NODES
    text = ", ".join(shown[:_SHOWN_NODES])
    return f"{text} and {hidden} more" if hidden > 0 else text


def _bounded(
    selected: Sequence[tuple[_Pool, dict[str, str]]], notes: list[str]
) -> list[tuple[_Pool, dict[str, str]]]:
    """Without what a ClusterQueue cannot hold: 16 groups, of which one is cpu and memory."""
    kept: list[tuple[_Pool, dict[str, str]]] = []
    counts: dict[str, int] = {}
    for pool, labels in selected:
        fits = pool.resource in counts or len(counts) < _MOST_GROUPS - 1
        if fits and counts.get(pool.resource, 0) < _MOST_LISTED:
            counts[pool.resource] = counts.get(pool.resource, 0) + 1
            kept.append((pool, labels))
        else:
            notes.append(
                f"{_listed(pool.names)} left out with {pool.amount} {pool.resource}: a "
                f"ClusterQueue holds {_MOST_GROUPS} resource groups of {_MOST_LISTED} flavors"
            )
    return kept


def _flavor(
    name: str,
    pool: _Pool,
    labels: Mapping[str, str],
    keys: frozenset[str],
    *,
    is_chosen: bool,
) -> Flavor:
    """Return the flavor of a pool.

    Args:
        name: its name.
        pool: its nodes.
        labels: that select them.
        keys: of taints that GPU pods tolerate.
        is_chosen: whether whole GPUs have the same resource name, so that a pod gets shares only
            if it says so.
    """
    traits = pool.traits
    seen = {
        (t.key, t.effect)
        for member in pool.members
        for t in _lasting(member)
        if _is_of_gpus(t, keys)
    }
    return Flavor(
        name=name,
        resource=pool.resource,
        amount=pool.amount,
        labels=dict(labels),
        annotations=_annotations(pool, labels),
        tolerations=tuple(
            {"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(seen)
        ),
        taints=(
            *(
                {"key": key, "value": value, "effect": effect} if value else
                {"key": key, "effect": effect}
                for key, value, effect in traits.taints
            ),
            *([_shares(traits.sharing)] if traits.sharing and is_chosen else []),
        ),
        text=_text(pool),
        nodes=pool.names,
    )  # fmt: skip


def _shares(sharing: str) -> Document:
    """Return the taint of a flavor, and of no node, that only who wants shares tolerates."""
    return {"key": names.FLAVOR_SHARING, "value": sharing, "effect": "NoSchedule"}


def _annotations(pool: _Pool, labels: Mapping[str, str]) -> dict[str, str]:
    """What nodeLabels do not say.

    A profile is said where ``nvidia.com/gpu`` is one, only: a flavor that says it answers pods
    that ask for a GPU without more, and these are to get a whole one where there is any.
    """
    traits, product = pool.traits, pool.shape.product
    annotations: dict[str, str] = {}
    if names.GPU_PRODUCT_LABEL not in labels and product is not None and not product.estimated:
        annotations[names.FLAVOR_PRODUCT] = product.name
    if traits.profile and resources.plain_name(pool.resource) == names.GPU_RESOURCE:
        annotations[names.MIG_PROFILE] = traits.profile
    if traits.sharing:
        annotations[names.FLAVOR_SHARING] = traits.sharing
        annotations[names.FLAVOR_REPLICAS] = str(traits.replicas)
    return annotations


def _text(pool: _Pool) -> str:
    traits, product = pool.traits, pool.shape.product
    title = product.name if product is not None else traits.label or "GPUs of an unknown product"
    if traits.profile:
        title = f"MIG instances {traits.profile} of {title}"
    if traits.sharing:
        title = f"{title}, each shared by {traits.replicas} ({traits.sharing})"
    return title


# -------------------------------------------------------------------------------- flavor names


def _flavor_names(pools: Sequence[_Pool]) -> list[str]:
    """Return a name for each pool: as short as it can be while no two are the same."""
    short_names = _told_apart([_short(pool) for pool in pools], [_long(pool) for pool in pools])
    short_names = _told_apart(
        short_names, [f"{_long(pool)}-{_slug(_last(pool.resource))}" for pool in pools]
    )
    counts: dict[str, int] = {}
    numbered = []
    for name in short_names:
        counts[name] = counts.get(name, 0) + 1
        numbered.append(name if counts[name] == 1 else f"{name}-{counts[name]}")
    return numbered


def _kept_names(
    pools: Sequence[_Pool], all_pools: Iterable[_Pool], existing: Iterable[ResourceFlavor]
) -> list[str]:
    """Return a name for each pool: that of a flavor in the cluster which selects just its nodes.

    A new name is made where there is none such. So a team goes on getting GPUs by the name that it
    has used, also when its nodes get a taint, or when other nodes come that are called alike.

    Args:
        pools: of the flavors, in their order.
        all_pools: these, and those that are left out.
        existing: flavors in the cluster.
    """
    flavor_names = _flavor_names(pools)
    by_name = {flavor.metadata.name: flavor for flavor in existing}
    free = {name: by_name[name] for name in sorted(by_name.keys() - set(flavor_names))}
    rivals = tuple(all_pools)
    for place, pool in enumerate(pools):
        if flavor_names[place] in by_name:
            continue
        for name, flavor in free.items():
            if _stands_for(flavor, pool, rivals):
                flavor_names[place] = name
                del free[name]
                break
    return flavor_names


def _stands_for(flavor: ResourceFlavor, pool: _Pool, all_pools: Iterable[_Pool]) -> bool:
    """Return whether a flavor selects the nodes of a pool, and no others with its resource."""
    labels, stated = flavor.spec.node_labels or {}, flavor.metadata.annotations or {}
    expected = _annotations(pool, labels)
    return (
        bool(labels)
        and all(stated.get(key) == expected.get(key) for key in _OF_DEVICES)
        and all(
            _has(member, labels) is (other is pool)
            for other in all_pools
            if other.resource == pool.resource
            for member in other.members
        )
    )


_OF_DEVICES: Final = (names.MIG_PROFILE, names.FLAVOR_SHARING, names.FLAVOR_REPLICAS)
"""Annotations without which a flavor is not one of the devices of a pool."""


def _told_apart(short: Sequence[str], longer: Sequence[str]) -> list[str]:
    return [
        name if short.count(name) == 1 and name != ANY_NODE else other
        for name, other in zip(short, longer, strict=True)
    ]


def _short(pool: _Pool) -> str:
    product = pool.shape.product
    return _named(product.name if product is not None else pool.traits.label, pool)


def _long(pool: _Pool) -> str:
    return _named(pool.traits.label.partition("-MIG-")[0], pool)


def _named(model: str, pool: _Pool) -> str:
    traits = pool.traits
    parts = [model.removesuffix("-SHARED") or "gpu", traits.profile]
    if traits.sharing:
        parts.append(f"{traits.sharing}-{traits.replicas}")
    parts += [value or _last(key) for key, value, _ in traits.taints]
    return _slug("-".join(part for part in parts if part))


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _slug(text: str) -> str:
    """A text as a name of an object."""
    lowered = re.sub(r"[^a-z0-9.-]+", "-", text.lower().replace("+", "."))
    return re.sub(r"[.-]{2,}", "-", lowered).strip("-.")[:100].strip("-.")


# ------------------------------------------------------------------------------- other resources


def _others(
    nodes: Iterable[ClusterNode], pools: Iterable[_Pool], keys: frozenset[str]
) -> dict[str, int]:
    """What is no GPU, of the nodes that can be used: cpu and memory first, always both."""
    used = {name for pool in pools for name in pool.names}
    total = {quantity.CPU: 0, "memory": 0}
    for node in nodes:
        facts = node.facts
        is_kept = any(not _is_of_gpus(taint, keys) for taint in _lasting(node))
        if not facts.ready or facts.unschedulable or (is_kept and facts.name not in used):
            continue
        for name, amount in sorted(node.allocatable.items()):
            if amount > 0 and not resources.is_device(name) and not _NO_QUOTA.search(name):
                total[name] = total.get(name, 0) + amount
    return dict(list(total.items())[:_MOST_LISTED])


# ---------------------------------------------------------------------------------------- shares


def divided(total: int, parts: int, unit: int = 1) -> list[int]:
    """Return a total in parts, as equal as whole units allow; the first ones get the rest.

    What is less than a unit goes to the first.
    """
    units, rest = divmod(total, unit)
    if units < parts:
        units, rest, unit = total, 0, 1
    base, remainder = divmod(units, parts)
    portions = [(base + (place < remainder)) * unit for place in range(parts)]
    portions[0] += rest
    return portions


def unit_of(resource: str) -> int:
    """Return the unit in which a resource is divided: whole cores, MiB, or single devices."""
    return _BYTES if quantity.is_bytes(resource) else _UNITS.get(resource, 1)


def shares(supply: Supply, teams: Sequence[Team]) -> tuple[list[TeamShare], dict[_Key, int]]:
    """Return what each team gets, and what is left, which the Cohort lends to all.

    A team with a number gets this part of everything, and as many whole GPUs as the number says;
    teams without one get equal parts of the rest. Who names flavors gets so many of each of them,
    and of everything but whole GPUs the same part as with a number.

    Raises:
        ProposalError: the teams are to get more GPUs than there are, or of a flavor that is none.
    """
    numbered = [team for team in teams if team.gpus is not None]
    if not numbered:
        return equal_shares(supply, teams), {}
    total = sum(flavor.amount for flavor in supply.flavors if _is_whole(flavor))
    total_asked = sum(team.gpus or 0 for team in numbered)
    if total_asked > total:
        listing = ", ".join(f"{team.name} {team.gpus}" for team in numbered)
        raise ProposalError(
            f"the teams are to get {total_asked} GPUs ({listing}); the nodes have {total}"
        )
    left = supply.amounts()
    shares_by_team: dict[str, TeamShare] = {}
    parts = {
        key: _in_ratio(
            amount, [*(team.gpus or 0 for team in numbered), total - total_asked], key[1]
        )
        for key, amount in left.items()
    }
    parts |= _of_whole_gpus(supply, numbered)
    for place, team in enumerate(numbered):
        amounts = {key: part[place] for key, part in parts.items()}
        of_flavors = ", ".join(f"{count} {name}" for name, count in team.of_flavors.items())
        why = (
            f"{f'{of_flavors}: ' if of_flavors else ''}{team.gpus} of {total} GPUs, and the same "
            "part of everything else."
        )
        shares_by_team[team.name] = TeamShare(team=team, amounts=amounts, why=why)
    rest = {key: part[-1] for key, part in parts.items()}
    unnumbered = [team for team in teams if team.gpus is None]
    if unnumbered:
        remaining = replace(
            supply,
            flavors=tuple(
                replace(flavor, amount=rest[flavor.name, flavor.resource])
                for flavor in supply.flavors
            ),
            others={name: rest[ANY_NODE, name] for name in supply.others},
        )
        numbered_names = ", ".join(team.name for team in numbered)
        whole = f"what is left beside {numbered_names}"
        shares_by_team |= {
            share.team.name: share for share in equal_shares(remaining, unnumbered, whole)
        }
        rest = {}
    return [shares_by_team[team.name] for team in teams], rest


def _of_whole_gpus(supply: Supply, numbered: Sequence[Team]) -> dict[_Key, list[int]]:
    """Return what each team gets of flavors of whole GPUs, in their order, and last what is left.

    What teams name by flavor is taken off first; the others get some of each flavor that is left.

    Args:
        supply: what there is.
        numbered: teams with a number.

    Raises:
        ProposalError: a flavor is none of whole GPUs, or has fewer than the teams are to get.
    """
    whole = {flavor.name: flavor for flavor in supply.flavors if _is_whole(flavor)}
    taken = dict.fromkeys(whole, 0)
    for team in numbered:
        for name, count in team.of_flavors.items():
            if name not in whole:
                proposed_flavors = ", ".join(whole) or "none"
                raise ProposalError(
                    f"team {team.name}: no flavor {name} of whole GPUs is proposed; these are: "
                    f"{proposed_flavors}"
                )
            taken[name] += count
    for name, count in taken.items():
        if count > whole[name].amount:
            raise ProposalError(
                f"the teams are to get {count} GPUs of flavor {name}; its nodes have "
                f"{whole[name].amount}"
            )
    left = [replace(flavor, amount=flavor.amount - taken[name]) for name, flavor in whole.items()]
    plain = [0 if team.of_flavors else team.gpus or 0 for team in numbered]
    weights = [*plain, sum(flavor.amount for flavor in left) - sum(plain)]
    parts = {
        (flavor.name, flavor.resource): _in_ratio(flavor.amount, weights, flavor.resource)
        for flavor in left
    }
    _fill_up(parts, plain, left)
    for flavor in left:
        part = parts[flavor.name, flavor.resource]
        for place, team in enumerate(numbered):
            part[place] += team.of_flavors.get(flavor.name, 0)
    return parts


def _fill_up(
    parts: Mapping[_Key, list[int]], numbers: Sequence[int], flavors: Sequence[Flavor]
) -> None:
    """Give each team whole GPUs of what is left until it has its number.

    Its parts were rounded down. Of the flavors of which something is left, it gets one more of
    those first that were rounded most; ties go by the order of the flavors.

    Args:
        parts: what each team gets by flavor and resource, in their order, and last what is left.
        numbers: how many GPUs each team gets.
        flavors: of whole GPUs.
    """
    total = sum(flavor.amount for flavor in flavors)
    for place, gpus in enumerate(numbers):
        by_rest = sorted(flavors, key=lambda flavor: -(flavor.amount * gpus % max(1, total)))
        missing = gpus - sum(parts[flavor.name, flavor.resource][place] for flavor in flavors)
        for flavor in by_rest * missing:
            part = parts[flavor.name, flavor.resource]
            if missing and part[-1]:
                part[place] += 1
                part[-1] -= 1
                missing -= 1


def _is_whole(flavor: Flavor) -> bool:
    """Return whether a flavor is of whole GPUs, which people count teams' parts in."""
    return names.FLAVOR_SHARING not in flavor.annotations and (
        flavor.resource == names.GPU_RESOURCE and names.MIG_PROFILE not in flavor.annotations
    )


def _in_ratio(total: int, weights: Sequence[int], resource: str) -> list[int]:
    """Return a total in parts as weights say, in whole units; the last one gets the rest."""
    unit, weight = unit_of(resource), sum(weights)
    if not weight:
        return [0] * (len(weights) - 1) + [total]
    parts = [total * weight_ // weight // unit * unit for weight_ in weights[:-1]]
    return [*parts, total - sum(parts)]


def equal_shares(
    supply: Supply, teams: Sequence[Team], whole: str = "everything that the nodes have"
) -> list[TeamShare]:
    """Return a supply, divided equally between teams; without teams it is everybody's.

    Args:
        supply: what is divided.
        teams: who gets a part.
        whole: what the supply is, in words.
    """
    if not teams:
        everybody = Team(name=EVERYBODY, namespaces=())
        why = "Everything that the nodes have. Without --team, all share one queue."
        return [TeamShare(team=everybody, amounts=supply.amounts(), why=why)]
    amounts: list[dict[tuple[str, str], int]] = [{} for _ in teams]
    turn = 0  # whose turn it is to get more
    for key, total in supply.amounts().items():
        parts = divided(total, len(teams), unit_of(key[1]))
        for place, part in enumerate(parts):
            amounts[(turn + place) % len(teams)][key] = part
        turn += sum(part > parts[-1] for part in parts)
    why = (
        f"One of {len(teams)} equal shares of {whole}; the remainder goes to the teams in turn."
        if len(teams) > 1
        else f"{whole[:1].upper()}{whole[1:]}."
    )
    return [
        TeamShare(team=team, amounts=amount, why=why)
        for team, amount in zip(teams, amounts, strict=True)
    ]


# --------------------------------------------------------------------------------------- objects


def objects(
    supply: Supply,
    shares: Sequence[TeamShare],
    *,
    left_over: Mapping[tuple[str, str], int] | None = None,
    missing: Iterable[str] = (),
) -> tuple[Proposed, ...]:
    """Return the objects, in the order in which they are applied; none without GPUs.

    Args:
        supply: what there is.
        shares: a ClusterQueue each.
        left_over: quota that is nobody's own, which the Cohort lends to all.
        missing: namespaces that have to be made.
    """
    if not supply.flavors:
        return ()
    return (
        *_namespaces(shares, set(missing)),
        *_topology(supply.levels),
        *(_resource_flavor(flavor) for flavor in supply.flavors),
        _any_node(),
        _cohort(supply, left_over or {}),
        *(_cluster_queue(supply, share) for share in shares),
        *_local_queues(shares),
    )


def _namespaces(shares: Iterable[TeamShare], missing: set[str]) -> Iterator[Proposed]:
    for share in shares:
        for namespace in share.team.namespaces:
            if namespace in missing:
                document = {
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}
                }  # fmt: skip
                yield Proposed(
                    document=document, why=f"Of {share.team.name}; it does not exist yet."
                )


def _topology(levels: Mapping[str, int]) -> Iterator[Proposed]:
    if not levels:
        return
    counts = ", ".join(f"{count} {_last(level)}" for level, count in levels.items())
    why = (
        f"How close the nodes are to each other, by labels that all of them have: {counts}.\nIt "
        "has no effect until a flavor names it in spec.topologyName. Then Jobs can ask for one\n"
        "of these domains; see the guide about topology before you do that."
    )
    spec: Document = {"levels": [{"nodeLabel": level} for level in levels]}
    yield Proposed(document=_kueue("Topology", {"name": TOPOLOGY}, spec), why=why)


def _resource_flavor(flavor: Flavor) -> Proposed:
    metadata: Document = {"name": flavor.name}
    if flavor.annotations:
        metadata["annotations"] = dict(flavor.annotations)
    spec: Document = {"nodeLabels": dict(flavor.labels)}
    if flavor.taints:
        spec["nodeTaints"] = [dict(taint) for taint in flavor.taints]
    if flavor.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in flavor.tolerations]
    why = f"{flavor.text}: {flavor.amount} {flavor.resource} on {_listed(flavor.nodes)}."
    if flavor.taints:
        kept = ", ".join(f"{taint['key']}={taint.get('value', '')}" for taint in flavor.taints)
        why += f"\nOnly pods that tolerate {kept} get this flavor."
    if any(taint["key"] == names.FLAVOR_SHARING for taint in flavor.taints):
        why += (
            "\nA share is no whole GPU under the same name, so nobody gets one unasked. The taint "
            "is of the flavor\nonly, no node has it; a pod asks for shares with the toleration "
            f"{names.FLAVOR_SHARING}."
        )
    return Proposed(document=_kueue("ResourceFlavor", metadata, spec), why=why)


def _any_node() -> Proposed:
    why = (
        "cpu, memory and other resources that are not GPUs, on any node. It has no nodeLabels, so "
        "it does not decide where a pod runs."
    )
    return Proposed(document=_kueue("ResourceFlavor", {"name": ANY_NODE}, {}), why=why)


def _cohort(supply: Supply, left_over: Mapping[tuple[str, str], int]) -> Proposed:
    why = "ClusterQueues of one cohort lend each other the quota that they do not use."
    spec: Document = {}
    if any(left_over.values()):
        spec["resourceGroups"] = _groups(supply, lambda key: left_over.get(key, 0))
        why += (
            "\nIts own quota is what the nodes have beyond the quota of the queues; every queue "
            "can borrow it."
        )
    return Proposed(document=_kueue("Cohort", {"name": COHORT}, spec), why=why)


def _cluster_queue(supply: Supply, share: TeamShare) -> Proposed:
    team = share.team
    selector: Document = {}
    if team.namespaces:
        quota_spec = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": list(team.namespaces),
        }
        selector = {"matchExpressions": [quota_spec]}
    spec = {
        "cohortName": COHORT,
        "namespaceSelector": selector,
        "preemption": {"reclaimWithinCohort": "Any"},
        "flavorFungibility": {"whenCanPreempt": "MayStopSearch"},
        "resourceGroups": _groups(supply, lambda key: share.amounts.get(key, 0)),
    }
    why = (
        f"{share.why}\nOthers can borrow unused quota; the queue takes it back when it needs it "
        "(reclaimWithinCohort).\nFlavors are tried in this order. A pod whose nodeSelector names "
        "a product gets only that one;\nany other takes back what the queue has lent of the first "
        "flavor, even where the next\nis free (whenCanPreempt: MayStopSearch; TryNextFlavor "
        "preempts nobody while another\nflavor is free)."
    )
    return Proposed(document=_kueue("ClusterQueue", {"name": team.name}, spec), why=why)


def _groups(supply: Supply, amount: Callable[[tuple[str, str]], int]) -> list[Document]:
    """One group for each GPU resource, with its flavors, then one for everything else."""
    by_resource: dict[str, list[str]] = {}
    for flavor in supply.flavors:
        by_resource.setdefault(flavor.resource, []).append(flavor.name)
    groups = [
        {
            "coveredResources": [resource],
            "flavors": [
                {"name": name, "resources": [_quota(resource, amount((name, resource)))]}
                for name in flavors
            ],
        }
        for resource, flavors in by_resource.items()
    ]
    quotas = [_quota(name, amount((ANY_NODE, name))) for name in supply.others]
    any_node = {"name": ANY_NODE, "resources": quotas}
    return [*groups, {"coveredResources": list(supply.others), "flavors": [any_node]}]


def _quota(resource: str, amount: int) -> Document:
    text = quantity.from_canonical(resource, amount)
    return {"name": resource, "nominalQuota": int(text) if text.isdecimal() else text}


def _local_queues(shares: Iterable[TeamShare]) -> Iterator[Proposed]:
    for share in shares:
        for namespace in share.team.namespaces:
            metadata = {"name": names.DEFAULT_LOCAL_QUEUE, "namespace": namespace}
            spec = {"clusterQueue": share.team.name}
            why = f"GPU pods in {namespace} that name no queue use this one."
            yield Proposed(document=_kueue("LocalQueue", metadata, spec), why=why)


def _kueue(kind: str, metadata: Document, spec: Document) -> Document:
    document: Document = {
        "apiVersion": f"{names.KUEUE_GROUP}/v1beta2", "kind": kind, "metadata": metadata
    }  # fmt: skip
    return {**document, "spec": spec}
