"""What the pods of a pod set ask of nodes, read from their template."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from admission.base import structs
from admission.gpu import resources
from admission.objects import resource_claim, values, views
from admission.scheduling.model import NodeTerm, PodNeeds, Spread

_AS_SELECTOR = structs.converter(views.LabelSelector)


def of_template(
    spec: views.PodSpec,
    labels: Mapping[str, str],
    requests: Mapping[str, int],
    priority: int | None,
    volumes: Iterable[tuple[NodeTerm, ...]] = (),
) -> PodNeeds:
    """Return what one pod of a template asks of a node, besides selector and tolerations.

    Args:
        spec: of the template.
        labels: of the template; they tell which constraints are about pods of its own kind.
        requests: what the scheduler reserves for one pod, canonical units.
        priority: by which the scheduler lets the pods preempt others; None where it does not.
        volumes: where the nodes are from which its volumes can be reached, of each volume.
    """
    affinity = spec.affinity or views.Affinity()
    requests_ = tuple(
        sorted((str(name), amount) for name, amount in requests.items() if amount > 0)
    )
    return PodNeeds(
        requests=requests_,
        devices=tuple(name for name, _ in requests_ if resources.is_device(name)),
        terms=_terms(spec.affinity),
        volumes=tuple(dict.fromkeys(volumes)),
        together=_by_pods(affinity.pod_affinity, labels),
        apart=_by_pods(affinity.pod_anti_affinity, labels),
        spread=tuple(sorted(_spread(spec.topology_spread_constraints or (), labels))),
        is_known=not resource_claim.concerned(spec),
        priority=priority,
    )


def _terms(affinity: views.Affinity | None) -> tuple[NodeTerm, ...] | None:
    node = None if affinity is None else affinity.node_affinity
    if node is None or node.required is None:
        return None
    return terms_of(node.required)


def terms_of(selector: views.NodeSelector) -> tuple[NodeTerm, ...]:
    """Return the alternatives of which a node has to meet one."""
    return tuple(
        NodeTerm(
            values.requirements(term.match_expressions or ()),
            values.requirements(term.match_fields or ()),
        )
        for term in selector.node_selector_terms
    )


def _by_pods(affinity: views.PodAffinity | None, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the labels of nodes by which pods are with pods of their own kind, or not, sorted."""
    keys: set[str] = set()
    for term in (affinity.required or ()) if affinity is not None else ():
        selector = values.selector(term.label_selector)
        is_elsewhere = term.namespaces or term.namespace_selector is not None
        if selector is not None and not is_elsewhere and selector(labels):
            keys.add(term.topology_key)
    return tuple(sorted(keys))


def common_domains(
    templates: Sequence[tuple[views.PodSpec, Mapping[str, str]]],
) -> frozenset[str]:
    """Return the labels of nodes by which the pods of all templates must be with each other.

    Each of the templates has a required affinity that selects the pods of all of them.

    Args:
        templates: spec and labels of each.
    """
    keys = [
        frozenset(_by_pods(spec.affinity.pod_affinity if spec.affinity else None, labels))
        for spec, _ in templates
        for _, labels in templates
    ]
    return frozenset.intersection(*keys) if keys else frozenset()


def selects_pods(spec: views.PodSpec) -> bool:
    """Return whether a template has constraints about pods that it selects by their labels."""
    affinity = spec.affinity or views.Affinity()
    return bool(
        affinity.pod_affinity or affinity.pod_anti_affinity or spec.topology_spread_constraints
    )


def _spread(constraints: Iterable[Any], labels: Mapping[str, str]) -> Iterator[Spread]:
    """Yield the constraints that must hold and count pods of this kind."""
    for constraint in constraints:
        if not isinstance(constraint, dict):
            continue
        skew, key = constraint.get("maxSkew"), constraint.get("topologyKey")
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
            continue
        if not isinstance(skew, int) or not isinstance(key, str):
            continue
        if _is_selected(constraint.get("labelSelector"), labels):
            yield Spread(key, skew)


def _is_selected(document: Any, labels: Mapping[str, str]) -> bool:
    """Return whether a selector selects labels; one that is missing or unreadable does not."""
    try:
        selector = None if document is None else values.selector(_AS_SELECTOR(document))
    except msgspec.ValidationError:
        return False
    return selector is not None and selector(labels)
