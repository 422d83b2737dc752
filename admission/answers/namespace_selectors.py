"""Namespaces that a ClusterQueue does not select, and the commands after which it does."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from admission.answers.queue_problems import QueueProblem
from admission.objects import values
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.views import LabelSelector

_SELECTOR: Final = "/spec/namespaceSelector"


def not_selected(queue: ClusterQueue, labels: Mapping[str, str]) -> Iterator[QueueProblem]:
    """Yield of a LocalQueue that its ClusterQueue does not select its namespace.

    Args:
        queue: the ClusterQueue.
        labels: of the namespace.
    """
    selector = values.selector(queue.spec.namespace_selector)
    if selector is None or not selector(labels):
        yield QueueProblem(
            f"its pods wait forever: the namespaceSelector of ClusterQueue {queue.metadata.name}"
            " does not select the namespace",
            "have it select the namespace; the command is printed by: gpu-admission doctor",
        )


def next_step(queue: ClusterQueue, namespace: str, labels: Mapping[str, str]) -> str:
    """Return the commands after which a ClusterQueue selects a namespace.

    A label that the namespace has is added to the selector, as its name cannot be changed and
    other queues may select by it. A label that it does not have is given to it.

    Args:
        queue: the ClusterQueue, which has a selector.
        namespace: its name.
        labels: its labels.
    """
    selector = queue.spec.namespace_selector or LabelSelector()
    patch: list[dict[str, object]] = []
    commands: list[str] = []
    moved: list[dict[str, object]] = []
    for key, value in sorted((selector.match_labels or {}).items()):
        if key not in labels:
            commands.append(f"kubectl label namespace {namespace} {key}={value}")
        elif labels[key] != value:
            name = key.replace("~", "~0").replace("/", "~1")
            patch.append({"op": "remove", "path": f"{_SELECTOR}/matchLabels/{name}"})
            moved.append({"key": key, "operator": "In", "values": [value, labels[key]]})
    for index, requirement in enumerate(values.requirements(selector.match_expressions or ())):
        key, place = requirement.key, f"{_SELECTOR}/matchExpressions/{index}/values"
        if requirement.matches(labels):
            continue
        match requirement.operator:
            case "In" if key in labels:
                patch.append({"op": "add", "path": f"{place}/-", "value": labels[key]})
            case "In" | "Exists":
                value = next(iter(requirement.values), "")
                commands.append(f"kubectl label namespace {namespace} {key}={value}")
            case "NotIn" if len(requirement.values) > 1:
                at = requirement.values.index(labels[key])
                patch.append({"op": "remove", "path": f"{place}/{at}"})
            case _:
                return (
                    f"kubectl edit clusterqueue {queue.metadata.name}; change "
                    f"spec.namespaceSelector so that it selects {namespace} ({{}}: all)"
                )
    if moved and selector.match_expressions:
        end = f"{_SELECTOR}/matchExpressions/-"
        patch += [{"op": "add", "path": end, "value": expression} for expression in moved]
    elif moved:
        patch.append({"op": "add", "path": f"{_SELECTOR}/matchExpressions", "value": moved})
    if patch:
        change = json.dumps(patch, separators=(",", ":"))
        commands.append(
            f"kubectl patch clusterqueue {queue.metadata.name} --type=json -p '{change}'"
        )
    return " && ".join(commands)
