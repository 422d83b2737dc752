"""Checks of nodes against flavors and quota: whether the promised GPUs exist."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import yaml

from admission.admin import gpuconfigs, operators
from admission.admin.doctor import guarding
from admission.admin.doctor import picture as pictures
from admission.admin.doctor.findings import DoctorFinding, error, warning
from admission.admin.doctor.picture import Picture, name_of
from admission.answers import queue_problems, quota_use
from admission.answers.queue_problems import Holder
from admission.base import amount, names
from admission.base.names import FlavorResource
from admission.gpu import capabilities, costs, migparted, nodes, pluginconfig, resources
from admission.gpu.nodes import Layout, NodeFacts
from admission.gpu.resources import plain_name
from admission.kube import resources as kinds
from admission.kube.api import Document
from admission.objects import nodes as node_objects
from admission.objects import resource_claim, values, views
from admission.objects.cluster_queue import ClusterQueue, surge_quota
from admission.objects.cohort import Cohort
from admission.objects.resource_claim import DeviceClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import ResourceGroupSpec

_PLUGIN_CONFIG: Final = "nvidia.com/device-plugin.config"
_MIG_CONFIG: Final = "nvidia.com/mig.config"
_CHANGING: Final = ("pending", "rebooting")
_BY_VARIABLE: Final = "envvar"
_STRATEGY: Final = "DEVICE_LIST_STRATEGY"
_FORBIDS: Final = ("NoSchedule", "NoExecute")
_LIFECYCLE: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_MOST: Final = 4
_READY: Final = "Ready"
_JOINS_SECONDS: Final = 120.0


# ------------------------------------------------------------------------------ quota and nodes


def _nominal(picture: Picture) -> dict[FlavorResource, int]:
    """Return the nominal quota of GPUs by flavor and resource, of all queues and Cohorts."""
    nominal: dict[FlavorResource, int] = {}
    for groups in _groups(picture):
        for group in groups:
            for flavor in group.flavors:
                for resource in flavor.resources:
                    if quota_use.is_gpu(resource.name):
                        pair = FlavorResource(
                            names.FlavorName(flavor.name), names.ResourceName(resource.name)
                        )
                        value = values.amount_or_zero(resource.name, resource.nominal_quota)
                        nominal[pair] = amount.add(nominal.get(pair, 0), value)
    return dict(sorted(nominal.items()))


def _groups(picture: Picture) -> Iterator[tuple[ResourceGroupSpec, ...]]:
    for queue in picture.cluster_queues:
        yield queue.spec.resource_groups or ()
    for cohort in picture.cohorts:
        yield cohort.spec.resource_groups or ()


def _with_quota(picture: Picture, pair: FlavorResource) -> list[ClusterQueue]:
    """Return the ClusterQueues with nominal quota of a flavor."""
    return [queue for queue in picture.cluster_queues if _has_quota(queue, pair)]


def _has_quota(holder: Holder, pair: FlavorResource) -> bool:
    return any(
        flavor.name == pair.flavor
        and any(
            r.name == pair.resource and values.amount_or_zero(r.name, r.nominal_quota)
            for r in flavor.resources
        )
        for group in holder.spec.resource_groups or ()
        for flavor in group.flavors
    )


def _queues_of(picture: Picture, pair: FlavorResource) -> str:
    """Return the ClusterQueues with nominal quota of a flavor, for a sentence."""
    return shown(queue.metadata.name for queue in _with_quota(picture, pair))


def _are_guarded(picture: Picture, pair: FlavorResource) -> bool:
    """Return whether all quota of a flavor is held to what exists; that of Cohorts never is."""
    return not _cohorts_with_quota(picture, pair) and all(
        map(_is_guarded, _with_quota(picture, pair))
    )


def _is_guarded(queue: ClusterQueue) -> bool:
    return queue.metadata.annotation(names.CAPACITY_GUARD) == names.CAPACITY_GUARD_ENFORCE


def _cohorts_with_quota(picture: Picture, pair: FlavorResource) -> list[Cohort]:
    """Return the Cohorts with nominal quota of a flavor of their own."""
    return [cohort for cohort in picture.cohorts if _has_quota(cohort, pair)]


def _promising(picture: Picture, pair: FlavorResource) -> str:
    """Return what has nominal quota of a flavor: ClusterQueues, and Cohorts after them."""
    parts = [_queues_of(picture, pair)]
    parts += [f"Cohort {each.metadata.name}" for each in _cohorts_with_quota(picture, pair)]
    return ", ".join(filter(None, parts))


def _limiting(picture: Picture, pairs: Iterable[FlavorResource]) -> str:
    """Return how to limit the quota of ClusterQueues to what exists; empty where all is limited.

    The quota of Cohorts cannot be limited so.
    """
    listed = tuple(pairs)
    queues = {
        queue.metadata.name: queue.metadata.annotation(names.CAPACITY_GUARD)
        for pair in listed
        for queue in _with_quota(picture, pair)
        if not _is_guarded(queue)
    }
    if not queues:
        return ""
    overwrite = " --overwrite" if any(queues.values()) else ""
    return (
        f"; or limit the quota to what exists{_taking(picture, listed)}: "
        f"kubectl annotate clusterqueue {' '.join(queues)} "
        f"{names.CAPACITY_GUARD}={names.CAPACITY_GUARD_ENFORCE}{overwrite}"
    )


def _taking(picture: Picture, pairs: Sequence[FlavorResource]) -> str:
    """Return whose nominal quota that would take, in brackets; empty for nobody's.

    Args:
        picture: of the cluster.
        pairs: flavors of one resource, at least one.
    """
    resource = pairs[0].resource
    text = partial(quota_use.amount_text, resource)
    parts = [
        f"{lost.holder} {text(lost.taken)} of {text(lost.nominal)}"
        f"{f' of flavor {lost.flavor}' if len(pairs) > 1 else ''}"
        for lost in guarding.taken(picture, resource, [pair.flavor for pair in pairs])
    ]
    if not parts:
        return ""
    return (
        f" (this takes nominal quota of {resource} from "
        f"{', '.join(parts)}: also of what they use within it)"
    )


def quota(picture: Picture) -> Iterator[DoctorFinding]:
    """The quota of a flavor is not more than its nodes have."""
    for pair, promised in _nominal(picture).items():
        flavor = picture.flavors.get(pair.flavor)
        flavor_nodes = picture.nodes_of(flavor) if flavor is not None else ()
        if not flavor_nodes or not promised or promised == amount.UNLIMITED:
            continue
        healthy = sick = 0
        reasons: dict[str, dict[str, int]] = {}
        cordoned: dict[str, int] = {}
        for facts, part in flavor_nodes:
            offered = {**part.units, **costs.virtual(part.worth)}.get(pair.resource, 0)
            unusable = part.sick.get(pair.resource, 0)
            taint = picture.repelling(flavor, facts.name) if flavor is not None else None
            if facts.unschedulable:
                sick += offered + unusable
                if offered + unusable:
                    cordoned[facts.name] = offered + unusable
            elif taint is not None:
                sick += offered + unusable
                reason = f"pods do not tolerate the taint {taint.key}:{taint.effect}"
                if taint.key in node_objects.STATES and part.reasons:
                    reason = ", ".join(part.reasons)
                if offered + unusable:
                    reasons.setdefault(reason, {})[facts.name] = offered + unusable
            else:
                healthy += offered
                sick += unusable
                if unusable:
                    reason = ", ".join(part.reasons) or _FEWER
                    reasons.setdefault(reason, {})[facts.name] = unusable
        if cordoned:
            reasons["cordoned"] = cordoned
        if not healthy and not sick:
            continue  # `offered` says so
        if promised <= healthy:
            continue
        text = partial(quota_use.amount_text, pair.resource)
        shown_reasons = [
            f"{text(sum(on.values()))} on {shown(on)} ({reason})" for reason, on in reasons.items()
        ]
        why = (
            f"; {text(sick)} more cannot be used: {shown(shown_reasons)}"
            if sick and shown_reasons
            else ""
        )
        uncordon = (
            "uncordon the nodes whose maintenance is over (kubectl uncordon NODE); else "
            if cordoned
            else ""
        )
        if _are_guarded(picture, pair):
            gone = promised - healthy - sick
            nowhere = f"; {text(gone)} more are on no node: nodes are gone" if gone > 0 else ""
            yield from _held_to_what_exists(
                picture, pair, f"its nodes have {text(healthy)}{why}{nowhere}", uncordon
            )
            continue
        problem = (
            f"queues promise {text(promised)} {pair.resource} of it, its nodes have "
            f"{text(healthy)}{why}: pods beyond that wait for a node"
        )
        mend = (
            f"{uncordon}lower the nominalQuota in {_promising(picture, pair)}, "
            f"or add nodes{_limiting(picture, [pair])}"
        )
        yield warning("ResourceFlavor", pair.flavor, problem, mend)
    yield from _quota_of_same_nodes(picture)
    yield from _quota_of_all_nodes(picture)


def _held_to_what_exists(
    picture: Picture, pair: FlavorResource, why: str, uncordon: str
) -> Iterator[DoctorFinding]:
    """Yield the ClusterQueues whose quota the capacity guard holds below the nominal one.

    What counts of it is what the controller says; ``?`` where it has not said it yet.

    Args:
        picture: of the cluster.
        pair: the quota, all of which is guarded.
        why: what its nodes have, and why no more.
        uncordon: what to do first; empty for nothing.
    """
    text = partial(quota_use.amount_text, pair.resource)
    cut = guarding.in_force(picture, pair)
    if not cut:
        return
    queues = tuple(each.holder for each in cut)
    amounts = [
        f"{each.holder} {'?' if each.share is None else text(each.share)} of {text(each.nominal)}"
        for each in cut
    ]
    problem = (
        f"the capacity guard holds the nominal quota of {pair.resource} in flavor {pair.flavor} "
        f"to what exists: {shown(amounts)}; {why}"
    )
    mend = (
        f"{uncordon}repair or add nodes: the quota counts again by itself; which are sick: "
        f"kubectl gpu top --by hostname. If they do not come back, lower the nominalQuota: "
        f"kubectl edit clusterqueue {queues[0]}"
    )
    yield warning("ClusterQueue", queues, problem, mend)


def _quota_of_same_nodes(picture: Picture) -> Iterator[DoctorFinding]:
    """Yield flavors that select the same nodes, and together promise more than these have."""
    promises: dict[str, dict[str, int]] = {}
    for pair, promised in _nominal(picture).items():
        if promised and pair.flavor in picture.flavors:
            promises.setdefault(pair.resource, {})[pair.flavor] = promised
    for resource, by_flavor in promises.items():
        for flavors, has in _joined(picture, resource, by_flavor):
            promised = sum(by_flavor[flavor] for flavor in flavors)
            is_bounded = all(by_flavor[flavor] != amount.UNLIMITED for flavor in flavors)
            if len(flavors) < 2 or not has:  # noqa: PLR2004
                continue
            pairs = [
                FlavorResource(names.FlavorName(flavor), names.ResourceName(resource))
                for flavor in flavors
            ]
            text = partial(quota_use.amount_text, resource)
            beyond = (
                f"queues promise {text(promised)} {resource} of these flavors together, their "
                f"nodes have {text(has)}"
            )
            within = "a pod of one flavor takes what the quota of the other promises"
            problem = (
                f"it selects nodes that {shown(flavors[1:])} selects too: "
                f"{beyond if is_bounded and promised > has else within}"
            )
            mend = (
                "have each node selected by one flavor (spec.nodeLabels), or lower the "
                f"nominalQuota{_limiting(picture, pairs)}"
            )
            yield warning("ResourceFlavor", flavors[0], problem, mend)


def _quota_of_all_nodes(picture: Picture) -> Iterator[DoctorFinding]:
    """Yield flavors with quota that select all nodes, those of flavors without quota, too.

    Where each flavor has quota of the resource, `_quota_of_same_nodes` tells it.
    """
    flavors_by_resource: dict[str, set[str]] = {}
    for pair, promised in _nominal(picture).items():
        if promised:
            flavors_by_resource.setdefault(pair.resource, set()).add(pair.flavor)
    rivals: dict[str, set[str]] = {}
    for resource, with_quota in flavors_by_resource.items():
        for name in with_quota:
            flavor = picture.flavors.get(name)
            if flavor is not None and not flavor.spec.node_labels:
                rivals.setdefault(name, set()).update(
                    other.metadata.name
                    for other in picture.flavors.values()
                    if other.spec.node_labels
                    and other.metadata.name not in with_quota
                    and any(resource in part.units for _, part in picture.nodes_of(other))
                )
    for name, without_quota in sorted(rivals.items()):
        if without_quota:
            problem = (
                "it has no nodeLabels, so it selects all nodes, those of "
                f"{shown(sorted(without_quota))} too: its pods may start on any of them"
            )
            mend = (
                f"set spec.nodeLabels to labels of its nodes: kubectl edit resourceflavor {name}; "
                "they are shown by: kubectl get nodes --show-labels"
            )
            yield warning("ResourceFlavor", name, problem, mend)


def _joined(
    picture: Picture, resource: str, flavors: Iterable[str]
) -> Iterator[tuple[list[str], int]]:
    """Yield the flavors whose nodes overlap, sorted, and how much of a resource the nodes have."""
    joined: list[tuple[set[str], dict[str, int]]] = []
    for name in sorted(flavors):
        members, has = {name}, {
            facts.name: {**part.units, **costs.virtual(part.worth)}.get(resource, 0)
            for facts, part in picture.nodes_of(picture.flavors[name])
            if picture.repelling(picture.flavors[name], facts.name) is None
        }  # fmt: skip
        apart = []
        for other_flavors, had in joined:
            if had.keys() & has.keys():
                members, has = members | other_flavors, {**had, **has}
            else:
                apart.append((other_flavors, had))
        joined = [*apart, (members, has)]
    for members, has in joined:
        yield sorted(members), sum(has.values())


def offered(picture: Picture) -> Iterator[DoctorFinding]:
    """The nodes of a flavor offer the resources for which queues have quota of it."""
    yield from _misspelled(picture)
    for pair, promised in _nominal(picture).items():
        flavor = picture.flavors.get(pair.flavor)
        if flavor is None or not promised or not resources.is_device(pair.resource):
            continue
        selected = [node for node in picture.nodes if _is_selected(flavor, node)]
        has: set[str] = set()
        for facts, part in picture.nodes_of(flavor):
            has |= {*facts.allocatable, *facts.capacity, *part.units, *part.sick}
        if not selected or pair.resource in has:
            continue
        text = f"queues have quota for its {pair.resource}, but its {len(selected)} node(s) offer "
        text += f"{shown(sorted(has))} only" if has else "no GPU at all"
        text += ": admitted pods stay pending"
        mend = (
            f"in spec.resourceGroups of {_queues_of(picture, pair)}, name what the nodes offer; "
            f"annotate flavors of shared or MIG devices ({names.FLAVOR_SHARING}, "
            f"{names.MIG_PROFILE}); docs/guides/mig-memory-and-shares.md"
            if has
            else "check whether the device plugin runs on these nodes: kubectl get pods -A -o wide"
        )
        yield error("ResourceFlavor", pair.flavor, text, mend)


def _misspelled(picture: Picture) -> Iterator[DoctorFinding]:
    """Yield the quota of resources whose name nobody offers, and that resembles another one."""
    holders: tuple[Holder, ...] = (*picture.cluster_queues, *picture.cohorts)
    on_nodes = {
        resource
        for node in picture.nodes
        for resource in (*(node.status.allocatable or ()), *(node.status.capacity or ()))
    }
    for holder in holders:
        kind = "Cohort" if isinstance(holder, Cohort) else "ClusterQueue"
        name = holder.metadata.name
        for problem in queue_problems.misspelled(holder):
            yield error(kind, name, problem.text, problem.mend)
        in_use = on_nodes | queue_problems.resources_of_others(holder, holders)
        for problem in queue_problems.resembling_resource(holder, in_use):
            yield warning(kind, name, problem.text, problem.mend)


def flavors_without_nodes(picture: Picture) -> Iterator[DoctorFinding]:
    """Every flavor selects nodes that exist."""
    for name, flavor in sorted(picture.flavors.items()):
        labels = flavor.spec.node_labels or {}
        if labels and not any(_is_selected(flavor, node) for node in picture.nodes):
            selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            text = f"no node has its nodeLabels ({selector}): admitted pods stay pending"
            mend = (
                f"compare with: kubectl get nodes -L {','.join(sorted(labels))}; correct "
                "spec.nodeLabels. Nothing is wrong if an autoscaler adds such nodes on demand"
            )
            yield warning("ResourceFlavor", name, text, mend)


def nodes_without_flavor(picture: Picture) -> Iterator[DoctorFinding]:
    """Every node with GPUs belongs to a flavor of which a queue has quota, for all that it has."""
    yield from _beyond_quota(picture)
    flavors_with_quota = {pair.flavor for pair, promised in _nominal(picture).items() if promised}
    lost: dict[str, list[NodeFacts]] = {}
    for facts, _ in picture.gpu_nodes:
        selecting = [
            flavor for flavor in picture.flavors.values() if pictures.selects(flavor, facts.labels)
        ]
        if not any(flavor.metadata.name in flavors_with_quota for flavor in selecting):
            product = facts.labels.get(names.GPU_PRODUCT_LABEL, "")
            lost.setdefault(product, []).append(facts)
    for product, lost_nodes in sorted(lost.items()):
        device_counts: dict[str, int] = {}
        for facts in lost_nodes:
            for resource, count in nodes.devices_of(facts).items():
                device_counts[resource] = device_counts.get(resource, 0) + count
        amounts = ", ".join(
            f"{count} {resource}" for resource, count in sorted(device_counts.items())
        )
        label = f"{{{names.GPU_PRODUCT_LABEL}: {product}}}" if product else "{KEY: VALUE}"
        text = f"no queue has quota for their GPUs ({amounts or 'none allocatable'})"
        mend = (
            f"create a ResourceFlavor with spec.nodeLabels {label}, and quota of it in a "
            "ClusterQueue; both are proposed by: gpu-admission init"
        )
        yield warning("Node", tuple(sorted(node.name for node in lost_nodes)), text, mend)


def _beyond_quota(picture: Picture) -> Iterator[DoctorFinding]:
    """Yield flavors whose nodes have more than the queues promise, as after a team was removed."""
    promises = _with_surge(picture)
    by_resource: dict[str, list[str]] = {}
    counted: dict[str, set[str]] = {}
    for pair, promised in promises.items():
        if pair.flavor in picture.flavors and promised:
            by_resource.setdefault(pair.resource, []).append(pair.flavor)
            counted.setdefault(pair.flavor, set()).add(pair.resource)
    for resource, listed in by_resource.items():
        for flavors, has in _joined(picture, resource, listed):
            if _are_counted_twice(set().union(*(counted[flavor] for flavor in flavors))):
                continue
            promised = sum(
                promises[FlavorResource(names.FlavorName(flavor), names.ResourceName(resource))]
                for flavor in flavors
            )
            if promised >= has:
                continue
            text = partial(quota_use.amount_text, resource)
            flavor = FlavorResource(names.FlavorName(flavors[0]), names.ResourceName(resource))
            problem = (
                f"{text(has - promised)} {resource} are in no queue's quota, so no queue gives "
                f"them out: its nodes have {text(has)}, queues promise {text(promised)}"
            )
            mend = (
                f"raise the nominalQuota in {_promising(picture, flavor)}, or divide all GPUs "
                "anew, with --team NAME for each team: gpu-admission init --team NAME. Nothing is "
                "wrong if they are kept for pods without a queue"
            )
            yield warning("ResourceFlavor", tuple(flavors), problem, mend)


def _with_surge(picture: Picture) -> dict[FlavorResource, int]:
    """Return nominal and surge quota of GPUs by flavor and resource."""
    promises = _nominal(picture)
    for queue in picture.cluster_queues:
        for pair, value in surge_quota(queue).items():
            if quota_use.is_gpu(pair.resource):
                promises[pair] = amount.add(promises.get(pair, 0), value)
    return promises


def _are_counted_twice(counted: AbstractSet[str]) -> bool:
    """Return whether the same GPUs are promised under several names, as with GPU memory."""
    return len(counted) > 1 and any(map(resources.is_virtual, counted))


def taints(picture: Picture) -> Iterator[DoctorFinding]:
    """Pods that get a flavor tolerate the taints of its nodes."""
    by_name = {node.metadata.name: node for node in picture.nodes}
    for name, flavor in sorted(picture.flavors.items()):
        nodes_by_taint: dict[tuple[str, str, str], list[str]] = {}
        flavor_nodes = picture.nodes_of(flavor)
        for facts, _ in flavor_nodes:
            for taint in by_name[facts.name].spec.taints or ():
                if _is_in_the_way(picture, flavor, taint):
                    identity = (taint.key, taint.value, taint.effect)
                    nodes_by_taint.setdefault(identity, []).append(facts.name)
        for (key, value, effect), on in sorted(nodes_by_taint.items()):
            text = (
                f"{len(on)} of its nodes ({shown(on)}) have the taint {key}={value}:{effect}, "
                "which the flavor does not tolerate: its pods stay pending unless they tolerate "
                "it themselves"
            )
            users = [
                queue.metadata.name
                for queue in picture.cluster_queues
                for group in queue.spec.resource_groups or ()
                if any(quota.name == name for quota in group.flavors)
            ]
            whose = f" of ClusterQueue {shown(users)}" if users else ""
            mend = (
                f"add to spec.tolerations of the flavor: {{key: {key}, operator: Exists, "
                f"effect: {effect}}}; then all pods{whose} that get it may start on these nodes"
            )
            if len(on) < len(flavor_nodes):
                mend += (
                    ", unless another flavor or a selector keeps them on others. If the nodes are "
                    "for some teams only, this flavor opens them to all of these queues"
                )
            else:
                mend += (
                    ". Or add the taint to spec.nodeTaints, so that only pods that tolerate it "
                    "get the flavor"
                )
            yield warning("ResourceFlavor", name, text, mend)


def _is_in_the_way(picture: Picture, flavor: ResourceFlavor, taint: views.Taint) -> bool:
    if taint.effect not in _FORBIDS or taint.key.startswith(_LIFECYCLE):
        return False
    if taint.key in node_objects.LEAVING:
        return False  # the node is about to be removed
    if taint.key == picture.settings.gpu.toleration_key:
        return False  # the webhook has GPU pods tolerate it
    if any(node_taint.key == taint.key for node_taint in flavor.spec.node_taints or ()):
        return False
    return not any(_tolerates(toleration, taint) for toleration in flavor.spec.tolerations or ())


def _tolerates(toleration: views.Toleration, taint: views.Taint) -> bool:
    if toleration.effect not in {"", taint.effect}:
        return False
    if toleration.key not in {"", taint.key}:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _is_selected(flavor: ResourceFlavor, node: views.Node) -> bool:
    return pictures.selects(flavor, node.metadata.labels or {})


def ready(picture: Picture) -> Iterator[DoctorFinding]:
    """Every node with GPUs is Ready."""
    by_name = {node.metadata.name: node for node in picture.nodes}
    nodes_by_reason: dict[str, list[str]] = {}
    for facts, _ in picture.gpu_nodes:
        if facts.ready:
            continue
        node = by_name[facts.name]
        ready = next(
            (condition for condition in node.status.conditions or () if condition.type == _READY),
            None,
        )
        since = ready.last_transition_time if ready else node.metadata.creation_timestamp
        if since and picture.age_seconds(since) <= _JOINS_SECONDS:
            continue
        why = ready.message or ready.reason if ready else ""
        nodes_by_reason.setdefault(why.removesuffix("."), []).append(facts.name)
    for why, on in sorted(nodes_by_reason.items()):
        text = (
            f"not Ready ({why or 'it does not say why'}): no new pod starts there, and pods on "
            "them may not run but keep their quota until they have ended"
        )
        mend = (
            f"kubectl describe node {min(on)}; check the kubelet and the container runtime on it. "
            "If a node is certainly off and does not come back: kubectl delete node NODE"
        )
        yield warning("Node", tuple(sorted(on)), text, mend)


def sick(picture: Picture) -> Iterator[DoctorFinding]:
    """The GPUs of every node that is Ready and not cordoned are healthy."""
    nodes_by_problem: dict[str, list[str]] = {}
    for facts, part in picture.gpu_nodes:
        # What is told by checks of their own: not Ready, and MIG layouts that are not applied.
        if not part.sick or not facts.ready or facts.unschedulable:
            continue
        if nodes.layout(facts, picture.catalogue).invalid:
            continue
        lost = ", ".join(f"{count} {name}" for name, count in sorted(part.sick.items()))
        why = [reason for reason in part.reasons if not reason.startswith(_OF_LABEL)]
        reason_text = "; ".join(why or part.reasons) or _FEWER
        nodes_by_problem.setdefault(f"{lost} cannot be used: {reason_text}", []).append(facts.name)
    for problem, on in sorted(nodes_by_problem.items()):
        mend = (
            f"see what is wrong: kubectl describe node {min(on)}, and nvidia-smi on the node; "
            f"until it is repaired, let nothing new start there: kubectl cordon {min(on)}"
        )
        yield warning("Node", tuple(sorted(on)), problem, mend)


_FEWER: Final = "the device plugin offers fewer than the node has"

_OF_LABEL: Final = "label "
"""How a reason begins that is about a label of the node and not about its GPUs."""


def products(picture: Picture) -> Iterator[DoctorFinding]:
    """The labels of every node with GPUs say which product they are."""
    findings = sorted(
        facts.name
        for facts, _ in picture.gpu_nodes
        if facts.published is None
        and names.GPU_PRODUCT_LABEL not in facts.labels
        and nodes.layout(facts, picture.catalogue).product is None
    )
    if findings:
        text = (
            f"they have GPUs and no label {names.GPU_PRODUCT_LABEL}: flavors that select a "
            "product do not take them, and quota of GPU memory and slices does not count them"
        )
        mend = (
            "check that GPU feature discovery runs on them: kubectl get pods -A -o wide "
            f"--field-selector spec.nodeName={findings[0]}; or label them: kubectl label node "
            f"{findings[0]} {names.GPU_PRODUCT_LABEL}=PRODUCT"
        )
        yield warning("Node", tuple(findings), text, mend)


def uncounted(picture: Picture) -> Iterator[DoctorFinding]:
    """Every kind of GPU that nodes or DeviceClasses offer is counted."""
    managed = resources.managed(picture.settings.gpu.managed_resources)
    offered: dict[str, list[str]] = {}
    for node in picture.nodes:
        for name, amount_text in (node.status.allocatable or {}).items():
            if _is_gpu_name(name) and not managed.matches(name) and str(amount_text) != "0":
                offered.setdefault(name, []).append(node.metadata.name)
    mend = "in the configuration, then: gpu-admission install --config FILE"
    for name, on in sorted(offered.items()):
        text = f"they offer {name}, which is not counted: pods take it outside of quota"
        yield warning("Node", tuple(sorted(on)), text, f"add {name} to managedResources {mend}")
    mappings = picture.settings.transformations().device_classes
    for view in picture.device_classes:
        device_class = resource_claim.device_class(view, mappings)
        name = view.metadata.name
        if device_class is None and _may_hand_out_gpus(view):
            text = (
                "it may hand out GPUs, and nothing in it says so: a pod with a queue that claims "
                "from it waits, and one without a queue gets GPUs outside of quota"
            )
            step = f"map it to a resource under resources.deviceClassMappings {mend}"
            yield warning("DeviceClass", name, text, step)
        elif device_class is not None and device_class.unclear and not device_class.is_sliced:
            text = f"what it hands out is not counted: {device_class.unclear}"
            step = f"write its selector so, or map it under resources.deviceClassMappings {mend}"
            yield warning("DeviceClass", name, text, step)


_GPU_WORD: Final = re.compile(r"(?<![a-z])gpus?(?![a-z])", re.IGNORECASE)


def _is_gpu_name(name: str) -> bool:
    """Return whether a name of an extended resource says that it is about GPUs."""
    return "/" in name and _GPU_WORD.search(name) is not None and not resources.is_virtual(name)


def _may_hand_out_gpus(view: DeviceClass) -> bool:
    """Return whether a class that is not counted names GPUs, or takes any device."""
    texts = [selector.cel.expression for selector in view.spec.selectors or ()]
    named = (view.metadata.name, view.spec.extended_resource_name or "", *texts)
    return not texts or any(map(_GPU_WORD.search, named))


# ------------------------------------------------------------------------------- MIG and sharing


def layouts(picture: Picture) -> Iterator[DoctorFinding]:
    """The MIG layout of every node is applied."""
    states: dict[tuple[str, bool], list[str]] = {}
    for node in picture.nodes:
        name, labels = node.metadata.name, node.metadata.labels or {}
        shape = nodes.layout(NodeFacts(name=name, labels=labels), picture.catalogue)
        state = labels.get(names.MIG_CONFIG_STATE_LABEL, "")
        if shape.invalid and names.GPU_PRODUCT_LABEL in labels:
            states.setdefault((shape.invalid, state in _CHANGING), []).append(name)
    for (why, is_changing), names_of_nodes in sorted(states.items()):
        text = f"{why}: their GPUs are not counted"
        if is_changing:
            mend = (
                "wait; if it lasts, read the log of the MIG manager on these nodes: "
                "kubectl logs -n NAMESPACE -l app=nvidia-mig-manager"
            )
            yield warning("Node", tuple(names_of_nodes), text, mend)
        else:
            mend = (
                f"set the label {_MIG_CONFIG} to a configuration that fits the GPUs "
                "(gpu-admission gpu check-config FILE), and see the log of the MIG manager"
            )
            yield error("Node", tuple(names_of_nodes), text, mend)


def labels(picture: Picture) -> Iterator[DoctorFinding]:
    """The labels of a node give the number of devices that it offers."""
    nodes_by_problem: dict[str, list[str]] = {}
    for facts, part in picture.gpu_nodes:
        if part.mismatched and facts.ready:
            for reason in part.reasons:
                if reason.startswith("label "):
                    nodes_by_problem.setdefault(reason, []).append(facts.name)
    for reason, on in sorted(nodes_by_problem.items()):
        text = f"{reason}: the labels are old, or the device plugin is configured differently"
        mend = (
            "restart the device plugin and GPU feature discovery on these nodes, and compare with "
            f"the configuration that the labels {_PLUGIN_CONFIG} and {_MIG_CONFIG} choose"
        )
        yield warning("Node", tuple(on), text, mend)


def annotations(picture: Picture) -> Iterator[DoctorFinding]:
    """The annotations of a flavor about its GPUs agree with its nodes."""
    for name, flavor in sorted(picture.flavors.items()):
        nodes_by_problem: dict[str, list[str]] = {}
        for facts, _ in picture.nodes_of(flavor):
            shape = nodes.layout(facts, picture.catalogue)
            for text in _differences(picture, flavor, facts, shape):
                nodes_by_problem.setdefault(text, []).append(facts.name)
        for text, on in sorted(nodes_by_problem.items()):
            yield error(
                "ResourceFlavor",
                name,
                f"{text} ({shown(on)}): pods are rewritten and charged for the wrong GPUs",
                "correct the annotation, or select other nodes: kubectl edit resourceflavor "
                f"{name}",
            )


def _differences(
    picture: Picture, flavor: ResourceFlavor, facts: NodeFacts, shape: Layout
) -> Iterator[str]:
    annotation = flavor.metadata.annotation
    product = picture.catalogue.find(annotation(names.FLAVOR_PRODUCT))
    if product is not None and shape.product is not None and product != shape.product:
        yield f"{names.FLAVOR_PRODUCT} says {product.name}, nodes have {shape.product.name}"
    sharing = capabilities.normal_sharing(annotation(names.FLAVOR_SHARING))
    if sharing and shape.sharing and sharing != shape.sharing:
        yield f"{names.FLAVOR_SHARING} says {sharing}, nodes share by {shape.sharing}"
    replicas = annotation(names.FLAVOR_REPLICAS)
    has = max(shape.replicas.values(), default=1)
    if replicas.isdecimal() and shape.replicas and int(replicas) != has:
        yield f"{names.FLAVOR_REPLICAS} says {replicas}, nodes give {has} shares of a GPU"
    profile = annotation(names.MIG_PROFILE)
    offers = {nodes.profile_of(plain_name(resource)) for resource in facts.allocatable} | {
        shape.profile
    }
    cut = offers - {""}
    if profile and cut and profile not in cut:
        yield f"{names.MIG_PROFILE} says {profile}, nodes are cut into {shown(sorted(cut))}"


def plugin_configs(picture: Picture) -> Iterator[DoctorFinding]:
    """Configurations of MIG and sharing are valid, and nodes follow the ones that they choose."""
    configurations = dict(_configurations(picture))
    yield from _of_configurations(picture, configurations)
    for label, part, setting in (
        (_PLUGIN_CONFIG, "sharing", "the device plugin"),
        (_MIG_CONFIG, "mig-configs", "the MIG manager"),
    ):
        choices = _choices(configurations, part)
        wrong: dict[str, list[str]] = {}
        for facts, _ in picture.gpu_nodes:
            chosen = facts.labels.get(label, "")
            if chosen and choices and chosen not in choices:
                wrong.setdefault(chosen, []).append(facts.name)
        for chosen, on in sorted(wrong.items()):
            text = f"label {label} chooses {chosen}, which no configuration of {setting} has"
            mend = f"kubectl label node NODE --overwrite {label}=NAME; there are {shown(choices)}"
            yield error("Node", tuple(on), text, mend)
    yield from _not_taken(picture, configurations)


def _configurations(picture: Picture) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield each configuration in a ConfigMap of a GPU operator, by ConfigMap and key."""
    for config_map in picture.of(kinds.CONFIG_MAPS):
        for key, text in sorted((config_map.get("data") or {}).items()):
            try:
                content = yaml.safe_load(text) if isinstance(text, str) else None
            except yaml.YAMLError:
                continue
            if isinstance(content, Mapping) and _is_of_gpus(content):
                yield (name_of(config_map), key), content


def _is_of_gpus(content: Mapping[str, Any]) -> bool:
    return "mig-configs" in content or ("version" in content and "sharing" in content)


def _of_configurations(
    picture: Picture, configurations: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[DoctorFinding]:
    is_shared = any(pair.resource.endswith(".shared") for pair in _nominal(picture)) or any(
        flavor.metadata.annotation(names.FLAVOR_SHARING) for flavor in picture.flavors.values()
    )
    chosen = {facts.labels.get(_MIG_CONFIG, "") for facts, _ in picture.gpu_nodes}
    for (place, key), content in configurations.items():
        listed = (
            migparted.check(content, picture.catalogue)
            if "mig-configs" in content
            else pluginconfig.check(content)
        )
        for configuration in listed:
            if configuration.rule == "T1" and is_shared:
                continue  # queues give the shared name, or pods are rewritten to it
            in_use = "mig-configs" not in content or any(
                name and configuration.field.startswith(f"mig-configs.{name}[") for name in chosen
            )
            text = f"data[{key}]: {configuration.field}: {configuration.text}"
            mend = (
                f"kubectl edit configmap -n {place.partition('/')[0]} {place.partition('/')[2]}; "
                "check the new file first: gpu-admission gpu check-config FILE"
            )
            yield (error if in_use else warning)("ConfigMap", place, text, mend)


def _choices(configurations: Mapping[tuple[str, str], Mapping[str, Any]], part: str) -> list[str]:
    """Return what nodes may choose: keys of ConfigMaps, or names inside of configurations."""
    listed: set[str] = set()
    for (_, key), content in configurations.items():
        if part == "mig-configs" and isinstance(content.get(part), Mapping):
            listed |= set(map(str, content[part]))
        elif part in content and part != "mig-configs":
            listed.add(key)
    return sorted(listed)


def _not_taken(
    picture: Picture, configurations: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[DoctorFinding]:
    """Nodes that share otherwise than the configuration that they choose."""
    shares = {key: pluginconfig.read(content) for (_, key), content in configurations.items()}
    wrong: dict[str, list[str]] = {}
    for facts, _ in picture.gpu_nodes:
        chosen = facts.labels.get(_PLUGIN_CONFIG, "")
        if chosen not in shares or "mig-configs" in _content_of(configurations, chosen):
            continue
        has = nodes.layout(facts, picture.catalogue).replicas.get(names.GPU_RESOURCE, 1)
        expected = shares[chosen].replicas.get(names.GPU_RESOURCE, 1)
        if has != expected:
            text = (
                f"the configuration {chosen} makes {expected} shares of a GPU, "
                f"the labels say {has}"
            )
            wrong.setdefault(text, []).append(facts.name)
    for text, on in sorted(wrong.items()):
        mend = "restart the device plugin and GPU feature discovery on these nodes; see their logs"
        yield error("Node", tuple(on), f"{text}: quota counts the wrong number of GPUs", mend)


def _content_of(
    configurations: Mapping[tuple[str, str], Mapping[str, Any]], chosen: str
) -> Mapping[str, Any]:
    return next((content for (_, key), content in configurations.items() if key == chosen), {})


# ----------------------------------------------------------------------------- ways around quota


def visible_devices(picture: Picture) -> Iterator[DoctorFinding]:
    """No node gives GPUs to a container that sets a variable instead of requesting them."""
    daemons = picture.of(operators.DAEMON_SETS)
    for daemon in daemons:
        if not _is_device_plugin(daemon):
            continue
        list_strategies = set(_settings_of(daemon, _STRATEGY, "--device-list-strategy"))
        strategies = {part for text in list_strategies for part in text.split(",")} or {
            _BY_VARIABLE
        }
        if _BY_VARIABLE not in strategies:
            continue
        count = len(picture.gpu_nodes)
        text = (
            "it hands out GPUs through the variable NVIDIA_VISIBLE_DEVICES, so on its "
            f"{count} node(s) a container that sets it sees every GPU without requesting one"
        )
        mend = (
            f"set {_STRATEGY}=volume-mounts (or cdi-cri) for the device plugin, and "
            "accept-nvidia-visible-devices-envvar-when-unprivileged=false for the container "
            f"toolkit; keep namespaces on {names.BYPASS_LABEL}=deny"
        )
        yield warning("DaemonSet", name_of(daemon), text, mend)


def _is_device_plugin(daemon_set: Document) -> bool:
    containers = daemon_set["spec"]["template"]["spec"].get("containers") or ()
    words = " ".join(str(container.get("image", "")) for container in containers)
    return "k8s-device-plugin" in words or "nvidia-device-plugin" in str(name_of(daemon_set))


def _settings_of(daemon_set: Document, variable: str, flag: str) -> Iterator[str]:
    for container in daemon_set["spec"]["template"]["spec"].get("containers") or ():
        for env in container.get("env") or ():
            if env["name"] == variable and env.get("value"):
                yield env["value"]
        for argument in (*(container.get("command") or ()), *(container.get("args") or ())):
            if argument.startswith(f"{flag}="):
                yield argument.partition("=")[2]


def limits(picture: Picture) -> Iterator[DoctorFinding]:
    """LimitRanges and ResourceQuotas on GPUs have the effect that their authors expect."""
    documents = (*picture.of(kinds.LIMIT_RANGES), *picture.of(kinds.RESOURCE_QUOTAS))
    for document in documents:
        for checked in gpuconfigs.check_documents([document], picture.catalogue):
            for finding in checked.findings:
                kind, place = document["kind"], name_of(document)
                text = f"{finding.field}: {finding.text}"
                mend = (
                    f"kubectl edit {kind.lower()} -n {document['metadata']['namespace']} "
                    f"{document['metadata']['name']}"
                )
                yield warning(kind, place, text, mend)


def shown(listed: Iterable[str]) -> str:
    """Return the first few of a list, and how many more there are."""
    every = list(listed)
    text = ", ".join(every[:_MOST])
    return f"{text} and {len(every) - _MOST} more" if len(every) > _MOST else text
