"""Whether pods select nodes with the labels of a flavor.

Source: kueue pkg/scheduler/flavorassigner (flavorSelector), k8s.io/component-helpers
scheduling/corev1/nodeaffinity.
"""

from collections.abc import Iterable, Mapping

from admission.base.selectors import Requirement

Affinity = tuple[tuple[Requirement, ...], ...]
"""Alternatives of required node affinity, each a conjunction."""


def are_selected(
    labels: Mapping[str, str], node_selector: Mapping[str, str], affinity: Affinity | None
) -> bool:
    """Return whether pods may run on nodes with these labels, whatever other labels these have.

    Args:
        labels: that all nodes of a flavor have.
        node_selector: labels that the nodes of the pods must have.
        affinity: required node affinity of the pods; None where there is none.
    """
    for key, value in node_selector.items():
        if key in labels and labels[key] != value:
            return False
    if affinity is None:
        return True
    terms = (_about(term, labels) for term in affinity)
    return not affinity or any(
        all(requirement.matches(labels) for requirement in term) for term in terms
    )


def contradicted(
    labels: Mapping[str, str], node_selector: Mapping[str, str], affinity: Affinity | None
) -> dict[str, str]:
    """Return the labels of a flavor that keep pods off its nodes, by key; empty where none does.

    Of alternatives of an affinity, the one counts that the fewest labels contradict.

    Args:
        labels: that all nodes of a flavor have.
        node_selector: labels that the nodes of the pods must have.
        affinity: required node affinity of the pods; None where there is none.
    """
    keys = {key for key, value in node_selector.items() if labels.get(key, value) != value}
    terms = [
        {
            requirement.key
            for requirement in _about(term, labels)
            if not requirement.matches(labels)
        }
        for term in affinity or ()
    ]
    keys |= min(terms, key=len, default=set())
    return {key: labels[key] for key in sorted(keys)}


def _about(term: Iterable[Requirement], labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    return tuple(requirement for requirement in term if requirement.key in labels)
