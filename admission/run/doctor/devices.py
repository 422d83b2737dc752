"""Checks of nodes against flavors and quota: whether the promised GPUs exist."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import yaml

from admission.base import amount, names
from admission.base.names import FlavorResource
from admission.gpu import capabilities, costs, migparted, nodes, pluginconfig, resources
from admission.gpu.nodes import Layout, NodeFacts
from admission.gpu.resources import plain_name
from admission.install import operators
from admission.kube import resources as kinds
from admission.kube.api import Document
from admission.objects import nodes as node_objects
from admission.objects import resource_claim, values, views
from admission.objects.resource_claim import DeviceClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import ResourceGroup
from admission.run import gpuconfigs
from admission.run.doctor import picture as pictures
from admission.run.doctor.findings import Finding, error, warning
from admission.run.doctor.picture import Picture, name_of
from admission.visibility import quota_use

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
    found: dict[FlavorResource, int] = {}
    for groups in _groups(picture):
        for group in groups:
            for flavor in group.flavors:
                for one in flavor.resources:
                    if quota_use.is_gpu(one.name):
                        pair = FlavorResource(
                            names.FlavorName(flavor.name), names.ResourceName(one.name)
                        )
                        value = values.amount_or_zero(one.name, one.nominal_quota)
                        found[pair] = amount.add(found.get(pair, 0), value)
    return dict(sorted(found.items()))


def _groups(picture: Picture) -> Iterator[tuple[ResourceGroup, ...]]:
    for queue in picture.cluster_queues:
        yield queue.spec.resource_groups or ()
    for cohort in picture.cohorts:
        yield cohort.spec.resource_groups or ()


def _queues_of(picture: Picture, pair: FlavorResource) -> str:
    """Return the ClusterQueues with quota of a flavor, for a sentence."""
    found = [
        one.metadata.name
        for one in picture.cluster_queues
        if any(
            flavor.name == pair.flavor and any(r.name == pair.resource for r in flavor.resources)
            for group in one.spec.resource_groups or ()
            for flavor in group.flavors
        )
    ]
    return shown(found)


def quota(picture: Picture) -> Iterator[Finding]:
    """The quota of a flavor is not more than its nodes have."""
    for pair, promised in _nominal(picture).items():
        flavor = picture.flavors.get(pair.flavor)
        found = picture.nodes_of(flavor) if flavor is not None else ()
        if not found or not promised or promised == amount.UNLIMITED:
            continue
        healthy = sick = 0
        reasons: dict[str, list[str]] = {}
        for facts, part in found:
            offered = {**part.units, **costs.virtual(part.worth)}
            taint = picture.repelling(flavor, facts.name) if flavor is not None else None
            if taint is not None:
                sick += offered.get(pair.resource, 0)
                reason = f"pods do not tolerate the taint {taint.key}:{taint.effect}"
                reasons.setdefault(reason, []).append(facts.name)
                continue
            healthy += offered.get(pair.resource, 0)
            sick += part.sick.get(pair.resource, 0)
            for reason in part.reasons if pair.resource in part.sick else ():
                reasons.setdefault(reason, []).append(facts.name)
        if not healthy and not sick:
            continue  # `offered` says so
        if promised <= healthy:
            continue
        text = partial(quota_use.amount_text, pair.resource)
        told = [f"{reason} ({shown(on)})" for reason, on in reasons.items()]
        why = f"; {text(sick)} more cannot be used: {shown(told)}" if sick and told else ""
        what = (
            f"queues promise {text(promised)} {pair.resource} of it, its nodes have "
            f"{text(healthy)}{why}: pods admitted beyond that wait for a node"
        )
        mend = (
            f"lower the nominalQuota in {_queues_of(picture, pair) or 'the Cohorts'}, add nodes, "
            f"or limit the quota to what exists: kubectl annotate clusterqueue QUEUE "
            f"{names.CAPACITY_GUARD}={names.CAPACITY_GUARD_ENFORCE}"
        )
        yield warning("ResourceFlavor", pair.flavor, what, mend)
    yield from _quota_of_same_nodes(picture)


def _quota_of_same_nodes(picture: Picture) -> Iterator[Finding]:
    """Yield flavors that select the same nodes, and together promise more than these have."""
    promises: dict[str, dict[str, int]] = {}
    for pair, promised in _nominal(picture).items():
        if promised and pair.flavor in picture.flavors:
            promises.setdefault(pair.resource, {})[pair.flavor] = promised
    for resource, by_flavor in promises.items():
        for flavors, has in _joined(picture, resource, by_flavor):
            promised = sum(by_flavor[one] for one in flavors)
            is_bounded = all(by_flavor[one] != amount.UNLIMITED for one in flavors)
            if len(flavors) < 2 or not has:  # noqa: PLR2004
                continue
            text = partial(quota_use.amount_text, resource)
            beyond = (
                f"queues promise {text(promised)} {resource} of these flavors together, their "
                f"nodes have {text(has)}"
            )
            within = "a pod of one flavor takes what the quota of the other promises"
            what = (
                f"it selects nodes that {shown(flavors[1:])} selects too: "
                f"{beyond if is_bounded and promised > has else within}"
            )
            mend = (
                "have each node selected by one flavor (spec.nodeLabels), lower the nominalQuota, "
                "or limit the quota to what exists: kubectl annotate clusterqueue QUEUE "
                f"{names.CAPACITY_GUARD}={names.CAPACITY_GUARD_ENFORCE}"
            )
            yield warning("ResourceFlavor", flavors[0], what, mend)


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
        for others, had in joined:
            if had.keys() & has.keys():
                members, has = members | others, {**had, **has}
            else:
                apart.append((others, had))
        joined = [*apart, (members, has)]
    for members, has in joined:
        yield sorted(members), sum(has.values())


def offered(picture: Picture) -> Iterator[Finding]:
    """The nodes of a flavor offer the resources for which queues have quota of it."""
    for pair, promised in _nominal(picture).items():
        flavor = picture.flavors.get(pair.flavor)
        if flavor is None or not promised or not resources.is_device(pair.resource):
            continue
        selected = [one for one in picture.nodes if _is_selected(flavor, one)]
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


def flavors_without_nodes(picture: Picture) -> Iterator[Finding]:
    """Every flavor selects nodes that exist."""
    for name, flavor in sorted(picture.flavors.items()):
        labels = flavor.spec.node_labels or {}
        if labels and not any(_is_selected(flavor, one) for one in picture.nodes):
            wanted = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            text = f"no node has its nodeLabels ({wanted}): admitted pods stay pending"
            mend = (
                f"compare with: kubectl get nodes -L {','.join(sorted(labels))}; correct "
                "spec.nodeLabels. Nothing is wrong if an autoscaler adds such nodes on demand"
            )
            yield warning("ResourceFlavor", name, text, mend)


def nodes_without_flavor(picture: Picture) -> Iterator[Finding]:
    """Every node with GPUs belongs to a flavor of which a queue has quota."""
    given = {pair.flavor for pair in _nominal(picture)}
    lost: dict[str, list[NodeFacts]] = {}
    for facts, _ in picture.gpu_nodes:
        of = [one for one in picture.flavors.values() if pictures.selects(one, facts.labels)]
        if not any(one.metadata.name in given for one in of):
            product = facts.labels.get(names.GPU_PRODUCT_LABEL, "")
            lost.setdefault(product, []).append(facts)
    for product, found in sorted(lost.items()):
        held: dict[str, int] = {}
        for facts in found:
            for resource, count in nodes.devices_of(facts).items():
                held[resource] = held.get(resource, 0) + count
        amounts = ", ".join(f"{count} {resource}" for resource, count in sorted(held.items()))
        label = f"{{{names.GPU_PRODUCT_LABEL}: {product}}}" if product else "{KEY: VALUE}"
        text = f"no queue has quota for their GPUs ({amounts or 'none allocatable'})"
        mend = (
            f"create a ResourceFlavor with spec.nodeLabels {label}, and quota of it in a "
            "ClusterQueue; both are proposed by: gpu-admission init"
        )
        yield warning("Node", tuple(sorted(one.name for one in found)), text, mend)


def taints(picture: Picture) -> Iterator[Finding]:
    """Pods that get a flavor tolerate the taints of its nodes."""
    by_name = {one.metadata.name: one for one in picture.nodes}
    for name, flavor in sorted(picture.flavors.items()):
        found: dict[tuple[str, str, str], list[str]] = {}
        for facts, _ in picture.nodes_of(flavor):
            for taint in by_name[facts.name].spec.taints or ():
                if _is_in_the_way(picture, flavor, taint):
                    identity = (taint.key, taint.value, taint.effect)
                    found.setdefault(identity, []).append(facts.name)
        for (key, value, effect), on in sorted(found.items()):
            text = (
                f"{len(on)} of its nodes ({shown(on)}) have the taint {key}={value}:{effect}, "
                "which the flavor does not tolerate: its pods stay pending unless they tolerate "
                "it themselves"
            )
            mend = (
                f"add to spec.tolerations of the flavor: {{key: {key}, operator: Exists, "
                f"effect: {effect}}}; or to spec.nodeTaints, so that only pods that tolerate the "
                "taint get the flavor"
            )
            yield warning("ResourceFlavor", name, text, mend)


def _is_in_the_way(picture: Picture, flavor: ResourceFlavor, taint: views.Taint) -> bool:
    if taint.effect not in _FORBIDS or taint.key.startswith(_LIFECYCLE):
        return False
    if taint.key in node_objects.LEAVING:
        return False  # the node is about to be removed
    if taint.key == picture.settings.gpu.toleration_key:
        return False  # the webhook has GPU pods tolerate it
    if any(one.key == taint.key for one in flavor.spec.node_taints or ()):
        return False
    return not any(_tolerates(one, taint) for one in flavor.spec.tolerations or ())


def _tolerates(toleration: views.Toleration, taint: views.Taint) -> bool:
    if toleration.effect not in {"", taint.effect}:
        return False
    if toleration.key not in {"", taint.key}:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _is_selected(flavor: ResourceFlavor, node: views.Node) -> bool:
    return pictures.selects(flavor, node.metadata.labels or {})


def ready(picture: Picture) -> Iterator[Finding]:
    """Every node with GPUs is Ready."""
    by_name = {one.metadata.name: one for one in picture.nodes}
    found: dict[str, list[str]] = {}
    for facts, _ in picture.gpu_nodes:
        if facts.ready:
            continue
        node = by_name[facts.name]
        said = next((one for one in node.status.conditions or () if one.type == _READY), None)
        since = said.last_transition_time if said else node.metadata.creation_timestamp
        if since and picture.age_seconds(since) <= _JOINS_SECONDS:
            continue
        why = said.message or said.reason if said else ""
        found.setdefault(why.removesuffix("."), []).append(facts.name)
    for why, on in sorted(found.items()):
        text = (
            f"not Ready ({why or 'it does not say why'}): no new pod starts there, and pods on "
            "them may not run but keep their quota until they have ended"
        )
        mend = (
            f"kubectl describe node {min(on)}; check the kubelet and the container runtime on it. "
            "If a node is certainly off and does not come back: kubectl delete node NODE"
        )
        yield warning("Node", tuple(sorted(on)), text, mend)


def sick(picture: Picture) -> Iterator[Finding]:
    """The GPUs of every node that is Ready and not cordoned are healthy."""
    found: dict[str, list[str]] = {}
    for facts, part in picture.gpu_nodes:
        # What is told by checks of their own: not Ready, and MIG layouts that are not applied.
        if not part.sick or not facts.ready or facts.unschedulable:
            continue
        if nodes.layout(facts, picture.catalogue).invalid:
            continue
        lost = ", ".join(f"{count} {name}" for name, count in sorted(part.sick.items()))
        why = [one for one in part.reasons if not one.startswith(_OF_LABEL)]
        said = "; ".join(why) or "the device plugin offers fewer than the node has"
        found.setdefault(f"{lost} cannot be used: {said}", []).append(facts.name)
    for what, on in sorted(found.items()):
        mend = (
            f"see what is wrong: kubectl describe node {min(on)}, and nvidia-smi on the node; "
            f"until it is repaired, let nothing new start there: kubectl cordon {min(on)}"
        )
        yield warning("Node", tuple(sorted(on)), what, mend)


_OF_LABEL: Final = "label "
"""How a reason begins that is about a label of the node and not about its GPUs."""


def products(picture: Picture) -> Iterator[Finding]:
    """The labels of every node with GPUs say which product they are."""
    found = sorted(
        facts.name
        for facts, _ in picture.gpu_nodes
        if facts.published is None
        and names.GPU_PRODUCT_LABEL not in facts.labels
        and nodes.layout(facts, picture.catalogue).product is None
    )
    if found:
        text = (
            f"they have GPUs and no label {names.GPU_PRODUCT_LABEL}: flavors that select a "
            "product do not take them, and quota of GPU memory and slices does not count them"
        )
        mend = (
            "check that GPU feature discovery runs on them: kubectl get pods -A -o wide "
            f"--field-selector spec.nodeName={found[0]}; or label them: kubectl label node "
            f"{found[0]} {names.GPU_PRODUCT_LABEL}=PRODUCT"
        )
        yield warning("Node", tuple(found), text, mend)


def uncounted(picture: Picture) -> Iterator[Finding]:
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
        known = resource_claim.device_class(view, mappings)
        name = view.metadata.name
        if known is None and _may_hand_out_gpus(view):
            text = (
                "it may hand out GPUs, and nothing in it says so: a pod with a queue that claims "
                "from it waits, and one without a queue gets GPUs outside of quota"
            )
            step = f"map it to a resource under resources.deviceClassMappings {mend}"
            yield warning("DeviceClass", name, text, step)
        elif known is not None and known.unclear and not known.is_sliced:
            text = f"what it hands out is not counted: {known.unclear}"
            step = f"write its selector so, or map it under resources.deviceClassMappings {mend}"
            yield warning("DeviceClass", name, text, step)


_GPU_WORD: Final = re.compile(r"(?<![a-z])gpus?(?![a-z])", re.IGNORECASE)


def _is_gpu_name(name: str) -> bool:
    """Return whether a name of an extended resource says that it is about GPUs."""
    return "/" in name and _GPU_WORD.search(name) is not None and not resources.is_virtual(name)


def _may_hand_out_gpus(view: DeviceClass) -> bool:
    """Return whether a class that is not counted names GPUs, or takes any device."""
    texts = [one.cel.expression for one in view.spec.selectors or ()]
    named = (view.metadata.name, view.spec.extended_resource_name or "", *texts)
    return not texts or any(map(_GPU_WORD.search, named))


# ------------------------------------------------------------------------------- MIG and sharing


def layouts(picture: Picture) -> Iterator[Finding]:
    """The MIG layout of every node is applied."""
    states: dict[tuple[str, bool], list[str]] = {}
    for one in picture.nodes:
        name, labels = one.metadata.name, one.metadata.labels or {}
        shape = nodes.layout(NodeFacts(name=name, labels=labels), picture.catalogue)
        state = labels.get(names.MIG_CONFIG_STATE_LABEL, "")
        if shape.invalid and names.GPU_PRODUCT_LABEL in labels:
            states.setdefault((shape.invalid, state in _CHANGING), []).append(name)
    for (why, is_changing), found in sorted(states.items()):
        text = f"{why}: their GPUs are not counted"
        if is_changing:
            mend = (
                "wait; if it lasts, read the log of the MIG manager on these nodes: "
                "kubectl logs -n NAMESPACE -l app=nvidia-mig-manager"
            )
            yield warning("Node", tuple(found), text, mend)
        else:
            mend = (
                f"set the label {_MIG_CONFIG} to a configuration that fits the GPUs "
                "(gpu-admission gpu check-config FILE), and see the log of the MIG manager"
            )
            yield error("Node", tuple(found), text, mend)


def labels(picture: Picture) -> Iterator[Finding]:
    """The labels of a node give the number of devices that it offers."""
    found: dict[str, list[str]] = {}
    for facts, part in picture.gpu_nodes:
        if part.mismatched and facts.ready:
            for reason in part.reasons:
                if reason.startswith("label "):
                    found.setdefault(reason, []).append(facts.name)
    for reason, on in sorted(found.items()):
        text = f"{reason}: the labels are old, or the device plugin is configured differently"
        mend = (
            "restart the device plugin and GPU feature discovery on these nodes, and compare with "
            f"the configuration that the labels {_PLUGIN_CONFIG} and {_MIG_CONFIG} choose"
        )
        yield warning("Node", tuple(on), text, mend)


def annotations(picture: Picture) -> Iterator[Finding]:
    """The annotations of a flavor about its GPUs agree with its nodes."""
    for name, flavor in sorted(picture.flavors.items()):
        found: dict[str, list[str]] = {}
        for facts, _ in picture.nodes_of(flavor):
            shape = nodes.layout(facts, picture.catalogue)
            for text in _differences(picture, flavor, facts, shape):
                found.setdefault(text, []).append(facts.name)
        for text, on in sorted(found.items()):
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
    said = flavor.metadata.annotation
    product = picture.catalogue.find(said(names.FLAVOR_PRODUCT))
    if product is not None and shape.product is not None and product != shape.product:
        yield f"{names.FLAVOR_PRODUCT} says {product.name}, nodes have {shape.product.name}"
    sharing = capabilities.normal_sharing(said(names.FLAVOR_SHARING))
    if sharing and shape.sharing and sharing != shape.sharing:
        yield f"{names.FLAVOR_SHARING} says {sharing}, nodes share by {shape.sharing}"
    replicas = said(names.FLAVOR_REPLICAS)
    has = max(shape.replicas.values(), default=1)
    if replicas.isdecimal() and shape.replicas and int(replicas) != has:
        yield f"{names.FLAVOR_REPLICAS} says {replicas}, nodes give {has} shares of a GPU"
    profile = said(names.MIG_PROFILE)
    offers = {nodes.profile_of(plain_name(one)) for one in facts.allocatable} | {shape.profile}
    cut = offers - {""}
    if profile and cut and profile not in cut:
        yield f"{names.MIG_PROFILE} says {profile}, nodes are cut into {shown(sorted(cut))}"


def plugin_configs(picture: Picture) -> Iterator[Finding]:
    """Configurations of MIG and sharing are valid, and nodes follow the ones that they choose."""
    found = dict(_configurations(picture))
    yield from _of_configurations(picture, found)
    for label, part, what in (
        (_PLUGIN_CONFIG, "sharing", "the device plugin"),
        (_MIG_CONFIG, "mig-configs", "the MIG manager"),
    ):
        known = _choices(found, part)
        wrong: dict[str, list[str]] = {}
        for facts, _ in picture.gpu_nodes:
            chosen = facts.labels.get(label, "")
            if chosen and known and chosen not in known:
                wrong.setdefault(chosen, []).append(facts.name)
        for chosen, on in sorted(wrong.items()):
            text = f"label {label} chooses {chosen}, which no configuration of {what} has"
            mend = f"kubectl label node NODE --overwrite {label}=NAME; there are {shown(known)}"
            yield error("Node", tuple(on), text, mend)
    yield from _not_taken(picture, found)


def _configurations(picture: Picture) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield each configuration in a ConfigMap of a GPU operator, by ConfigMap and key."""
    for one in picture.of(kinds.CONFIG_MAPS):
        for key, text in sorted((one.get("data") or {}).items()):
            try:
                content = yaml.safe_load(text) if isinstance(text, str) else None
            except yaml.YAMLError:
                continue
            if isinstance(content, Mapping) and _is_of_gpus(content):
                yield (name_of(one), key), content


def _is_of_gpus(content: Mapping[str, Any]) -> bool:
    return "mig-configs" in content or ("version" in content and "sharing" in content)


def _of_configurations(
    picture: Picture, found: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[Finding]:
    is_shared = any(pair.resource.endswith(".shared") for pair in _nominal(picture)) or any(
        one.metadata.annotation(names.FLAVOR_SHARING) for one in picture.flavors.values()
    )
    chosen = {facts.labels.get(_MIG_CONFIG, "") for facts, _ in picture.gpu_nodes}
    for (place, key), content in found.items():
        listed = (
            migparted.check(content, picture.catalogue)
            if "mig-configs" in content
            else pluginconfig.check(content)
        )
        for one in listed:
            if one.rule == "T1" and is_shared:
                continue  # queues give the shared name, or pods are rewritten to it
            in_use = "mig-configs" not in content or any(
                name and one.field.startswith(f"mig-configs.{name}[") for name in chosen
            )
            text = f"data[{key}]: {one.field}: {one.text}"
            mend = (
                f"kubectl edit configmap -n {place.partition('/')[0]} {place.partition('/')[2]}; "
                "check the new file first: gpu-admission gpu check-config FILE"
            )
            yield (error if in_use else warning)("ConfigMap", place, text, mend)


def _choices(found: Mapping[tuple[str, str], Mapping[str, Any]], part: str) -> list[str]:
    """Return what nodes may choose: keys of ConfigMaps, or names inside of configurations."""
    listed: set[str] = set()
    for (_, key), content in found.items():
        if part == "mig-configs" and isinstance(content.get(part), Mapping):
            listed |= set(map(str, content[part]))
        elif part in content and part != "mig-configs":
            listed.add(key)
    return sorted(listed)


def _not_taken(
    picture: Picture, found: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[Finding]:
    """Nodes that share otherwise than the configuration that they choose."""
    shares = {key: pluginconfig.read(content) for (_, key), content in found.items()}
    wrong: dict[str, list[str]] = {}
    for facts, _ in picture.gpu_nodes:
        chosen = facts.labels.get(_PLUGIN_CONFIG, "")
        if chosen not in shares or "mig-configs" in _content_of(found, chosen):
            continue
        has = nodes.layout(facts, picture.catalogue).replicas.get(names.GPU_RESOURCE, 1)
        wanted = shares[chosen].replicas.get(names.GPU_RESOURCE, 1)
        if has != wanted:
            text = (
                f"the configuration {chosen} makes {wanted} shares of a GPU, the labels say {has}"
            )
            wrong.setdefault(text, []).append(facts.name)
    for text, on in sorted(wrong.items()):
        mend = "restart the device plugin and GPU feature discovery on these nodes; see their logs"
        yield error("Node", tuple(on), f"{text}: quota counts the wrong number of GPUs", mend)


def _content_of(
    found: Mapping[tuple[str, str], Mapping[str, Any]], chosen: str
) -> Mapping[str, Any]:
    return next((content for (_, key), content in found.items() if key == chosen), {})


# ----------------------------------------------------------------------------- ways around quota


def visible_devices(picture: Picture) -> Iterator[Finding]:
    """No node gives GPUs to a container that sets a variable instead of requesting them."""
    daemons = picture.of(operators.DAEMON_SETS)
    for one in daemons:
        if not _is_device_plugin(one):
            continue
        said = set(_settings_of(one, _STRATEGY, "--device-list-strategy"))
        strategies = {part for text in said for part in text.split(",")} or {_BY_VARIABLE}
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
        yield warning("DaemonSet", name_of(one), text, mend)


def _is_device_plugin(daemon_set: Document) -> bool:
    containers = daemon_set["spec"]["template"]["spec"].get("containers") or ()
    words = " ".join(str(one.get("image", "")) for one in containers)
    return "k8s-device-plugin" in words or "nvidia-device-plugin" in str(name_of(daemon_set))


def _settings_of(daemon_set: Document, variable: str, flag: str) -> Iterator[str]:
    for one in daemon_set["spec"]["template"]["spec"].get("containers") or ():
        for env in one.get("env") or ():
            if env["name"] == variable and env.get("value"):
                yield env["value"]
        for argument in (*(one.get("command") or ()), *(one.get("args") or ())):
            if argument.startswith(f"{flag}="):
                yield argument.partition("=")[2]


def limits(picture: Picture) -> Iterator[Finding]:
    """LimitRanges and ResourceQuotas on GPUs have the effect that their authors expect."""
    documents = (*picture.of(kinds.LIMIT_RANGES), *picture.of(kinds.RESOURCE_QUOTAS))
    for one in documents:
        for checked in gpuconfigs.check_documents([one], picture.catalogue):
            for found in checked.findings:
                kind, place = one["kind"], name_of(one)
                text = f"{found.field}: {found.text}"
                mend = (
                    f"kubectl edit {kind.lower()} -n {one['metadata']['namespace']} "
                    f"{one['metadata']['name']}"
                )
                yield warning(kind, place, text, mend)


def shown(found: Iterable[str]) -> str:
    """Return the first few of a list, and how many more there are."""
    every = list(found)
    text = ", ".join(every[:_MOST])
    return f"{text} and {len(every) - _MOST} more" if len(every) > _MOST else text
