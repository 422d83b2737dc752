"""Pods of a Workload that run on nodes of other flavors than it was given."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from admission.scheduling.decisions import Admit
from admission.scheduling.model import PodSetAssignment

Labels = Mapping[str, str]


class PodOnNode(NamedTuple):
    """A pod that runs.

    Attributes:
        pod_set: its pod set.
        selected: the node labels that it selects.
        labels: of its node.
    """

    pod_set: str
    selected: Labels
    labels: Labels

    def is_in(self, node_labels: Labels) -> bool:
        """Return whether it is in a flavor with these node labels.

        Who selects one of them was given the flavor by that, whatever became of the node.
        """
        is_selected = any(key in self.selected for key in node_labels)
        return is_selected or node_labels.items() <= self.labels.items()


def elsewhere(
    workload: Workload,
    pods: Iterable[PodOnNode],
    flavors: Mapping[str, ResourceFlavor],
    charge_on: Callable[[dict[str, str]], Admit | None],
) -> tuple[PodSetAssignment, ...]:
    """Return the pods in other flavors than they were given, by pod set and flavors, sorted.

    Args:
        workload: that was admitted.
        pods: those of its pods that its quota is for and that have a node.
        flavors: by name.
        charge_on: returns what all pods of the Workload are charged for on a node with labels.
    """
    admission = workload.status.admission
    assigned = () if admission is None else admission.pod_set_assignments or ()
    flavors_of = {each.name: each.flavors or {} for each in assigned}
    labels_of = {name: view.spec.node_labels or {} for name, view in flavors.items()}
    telling = {key for labels in labels_of.values() for key in labels}
    counts = Counter(
        (pod.pod_set, tuple((key, pod.labels[key]) for key in sorted(telling & pod.labels.keys())))
        for pod in pods
        if not all(
            pod.is_in(labels_of.get(name, {})) for name in flavors_of.get(pod.pod_set, {}).values()
        )
    )
    parts: dict[tuple[str, tuple[tuple[str, str], ...]], PodSetAssignment] = {}
    for (pod_set, labels), count in counts.items():
        admit = charge_on(dict(labels))
        charged = () if admit is None else admit.pod_sets
        whole = next((each for each in charged if each.name == pod_set), None)
        if whole is None or not whole.count:
            continue
        on_node = {r: name for r, name in whole.flavors.items() if r in flavors_of[pod_set]}
        if on_node == flavors_of[pod_set]:
            continue
        key = pod_set, tuple(sorted(on_node.items()))
        before = parts.get(key)
        total = count if before is None else before.count + count
        usage = {r: whole.usage.get(r, 0) // whole.count * total for r in on_node}
        parts[key] = PodSetAssignment(name=whole.name, count=total, flavors=on_node, usage=usage)
    return tuple(parts[key] for key in sorted(parts))
