"""What is to be seen of a pod at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from admission.base import conditions, names
from admission.kube import resources
from admission.kube.api import Api, Document

_OF_EVERY_POD: Final = "node.kubernetes.io/"


class DisplayState(StrEnum):
    """Where a pod is in its life."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One pod as people see it.

    Attributes:
        pod: namespace and name.
        asks: what it asks for now, and what it asked for where that was rewritten.
        state: where it is.
        flavor: what it was admitted to, and as what it is counted where that is no device;
            empty while it waits.
        worth: the same, of a pod that is counted in GPU memory and slices; else empty.
        given: node selector and tolerations that were injected.
        why: the reason on the pod while it waits.
    """

    pod: str
    asks: str
    state: DisplayState
    flavor: str = ""
    worth: str = ""
    given: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class QueueSight:
    """A ClusterQueue as people see it.

    Attributes:
        name: of the ClusterQueue.
        used: what is used of its own quota, by flavor: ``a100 8/8, h100 4/4``.
        waiting: how many Workloads wait.
    """

    name: str
    used: str
    waiting: int


def look_at_queues(api: Api) -> list[QueueSight]:
    """Return all ClusterQueues, by name."""
    queues = api.list(resources.CLUSTER_QUEUES).items
    return [
        _queue(queue) for queue in sorted(queues, key=lambda queue: str(queue["metadata"]["name"]))
    ]


def _queue(queue: Document) -> QueueSight:
    status = queue.get("status", {})
    used = {
        (flavor["name"], resource["name"]): resource.get("total", "0")
        for flavor in status.get("flavorsReservation", [])
        for resource in flavor.get("resources", [])
    }
    parts = [
        f"{flavor['name']} {used.get((flavor['name'], resource['name']), '0')}"
        f"/{resource['nominalQuota']}"
        for group in queue["spec"].get("resourceGroups", [])
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    ]
    return QueueSight(
        queue["metadata"]["name"], ", ".join(parts), status.get("pendingWorkloads", 0)
    )


def look(api: Api) -> list[Sight]:
    """Return all pods: those of the demo in the order in which they came, then others by name."""
    workloads = {
        workload["metadata"]["ownerReferences"][0]["uid"]: workload
        for workload in api.list(resources.WORKLOADS).items
    }
    pods = sorted(api.list(resources.PODS).items, key=_order)
    return [_sight(pod, workloads.get(pod["metadata"]["uid"])) for pod in pods]


def _sight(pod: Document, workload: Document | None) -> Sight:
    metadata, spec = pod["metadata"], pod["spec"]
    phase = pod.get("status", {}).get("phase", "Pending")
    gated = bool(spec.get("schedulingGates"))
    flavors, worth = _flavors(workload)
    state = {"Running": DisplayState.RUNNING, "Succeeded": DisplayState.DONE}.get(
        phase, DisplayState.WAITING if gated else DisplayState.ADMITTED
    )
    return Sight(
        pod=f"{metadata['namespace']}/{metadata['name']}",
        asks=_asks(pod),
        state=state,
        flavor="" if gated else f"{flavors} ({worth})" if worth else flavors,
        worth="" if gated or not worth else f"{flavors}: {worth}",
        given="" if gated else _given(spec),
        why=_why(pod) if gated else "",
    )


def is_of_demo(pod: Document) -> bool:
    """Return whether a pod was created by the demo, and not by somebody who tries it out."""
    return names.DEMO_ORDER in pod["metadata"].get("annotations", {})


def _order(pod: Document) -> tuple[bool, int, str, str]:
    metadata = pod["metadata"]
    order = int(metadata["annotations"][names.DEMO_ORDER]) if is_of_demo(pod) else 0
    return not is_of_demo(pod), order, metadata["namespace"], metadata["name"]


def _asks(pod: Document) -> str:
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    text = ", ".join(f"{count} {name}" for name, count in sorted(requests.items()) if count != "0")
    rewritten = names.ORIGINAL_RESOURCES in pod["metadata"].get("annotations", {})
    return f"{text} (asked: {names.GPU_RESOURCE})" if rewritten else text


def _flavors(workload: Document | None) -> tuple[str, str]:
    """The assigned flavors, and what is taken of them in GPU memory and slices, if anything."""
    admission: Mapping[str, Any] = (workload or {}).get("status", {}).get("admission") or {}
    assigned = admission.get("podSetAssignments", [])
    flavors = ", ".join(
        sorted({name for assignment in assigned for name in assignment["flavors"].values()})
    )
    usage = {
        name: amount
        for assignment in assigned
        for name, amount in assignment["resourceUsage"].items()
    }
    if names.GPU_MEMORY not in usage:
        return flavors, ""
    slices = usage[names.GPU_SLICES]
    return flavors, f"{usage[names.GPU_MEMORY]}, {slices} slice{'s' if slices != '1' else ''}"


def _given(spec: Mapping[str, Any]) -> str:
    selector = [f"{key}={value}" for key, value in sorted(spec.get("nodeSelector", {}).items())]
    tolerations = [
        f"tolerates {toleration.get('key', '*')}"
        for toleration in spec.get("tolerations", [])
        if not toleration.get("key", "").startswith(_OF_EVERY_POD)
    ]
    return ", ".join((*selector, *dict.fromkeys(tolerations)))


def _why(pod: Document) -> str:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == conditions.POD_ADMITTED:
            message: str = condition["message"]
            return message
    return ""
