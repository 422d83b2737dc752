"""Plays scheduler and kubelet: what is no longer gated gets a node, runs, and ends in time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api, Document

PodKey = tuple[str, str]
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Kubelet:
    """Runs pods of a store.

    Args:
        api: where the pods are.
        run_seconds: how long each pod runs, by namespace and name; any other runs until it is
            deleted.
    """

    def __init__(self, api: Api, run_seconds: Mapping[PodKey, float]) -> None:
        self._api = api
        self._run_seconds = run_seconds
        self._started: dict[PodKey, float] = {}

    def tick(self, now: float) -> None:
        """Start and end what is due at a moment of the monotonic clock."""
        pods = self._api.list(resources.PODS).items
        for pod in pods:
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            phase = _phase(pod)
            if phase == "Pending" and not pod["spec"].get("schedulingGates"):
                self._started[key] = now
                self._bind(pod, pods)
                self._set(pod, {"phase": "Running"})
            elif phase == "Running" and key in self._run_seconds and self._is_over(key, now):
                self._set(pod, {"phase": "Succeeded"})

    def _is_over(self, key: PodKey, now: float) -> bool:
        return now - self._started.setdefault(key, now) >= self._run_seconds[key]

    def _bind(self, pod: Document, pods: Iterable[Document]) -> None:
        """Put a pod on the first node that takes it; one that no node takes runs on none."""
        for node in self._api.list(resources.NODES).items:
            name = node["metadata"]["name"]
            on_node = (other for other in pods if other["spec"].get("nodeName") == name)
            if _takes(node, pod, on_node):
                pod["spec"]["nodeName"] = name
                metadata, change = pod["metadata"], patches.merge({"spec": {"nodeName": name}})
                with suppress(errors.NotFoundError):
                    self._api.patch(
                        resources.PODS, metadata["name"], change, metadata["namespace"]
                    )
                return

    def _set(self, pod: Document, status: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        with suppress(errors.NotFoundError):
            self._api.patch(
                resources.PODS,
                metadata["name"],
                patches.merge({"status": status}),
                metadata["namespace"],
                subresource="status",
            )


def _phase(pod: Document) -> str:
    phase: str = pod.get("status", {}).get("phase", "Pending")
    return phase


def _takes(node: Document, pod: Document, on_node: Iterable[Document]) -> bool:
    """Return whether a node has the labels that a pod selects, and enough free devices."""
    labels = node["metadata"].get("labels", {})
    if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items():
        return False
    held: Counter[str] = Counter()
    for other in on_node:
        if _phase(other) not in _ENDED:
            held.update(_devices(other))
    capacity = node.get("status", {}).get("allocatable", {})
    return all(
        int(capacity.get(device, 0)) - held[device] >= count
        for device, count in _devices(pod).items()
    )


def _devices(pod: Document) -> Counter[str]:
    """Return how many devices a pod asks for: what has a domain in its name."""
    devices: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        limits = container.get("resources", {}).get("limits", {})
        devices.update({name: int(count) for name, count in limits.items() if "/" in name})
    return devices
