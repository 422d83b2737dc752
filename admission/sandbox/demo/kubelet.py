"""Plays scheduler and kubelet: what is no longer gated runs, and ends when its time is over."""

from collections.abc import Mapping
from typing import Any

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api, Document

PodKey = tuple[str, str]


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
        for pod in self._api.list(resources.PODS).items:
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            phase = pod.get("status", {}).get("phase", "Pending")
            if phase == "Pending" and not pod["spec"].get("schedulingGates"):
                self._started[key] = now
                self._set(pod, {"phase": "Running"})
            elif phase == "Running" and key in self._run_seconds and self._is_over(key, now):
                self._set(pod, {"phase": "Succeeded"})

    def _is_over(self, key: PodKey, now: float) -> bool:
        return now - self._started.setdefault(key, now) >= self._run_seconds[key]

    def _set(self, pod: Document, status: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        try:
            self._api.patch(
                resources.PODS,
                metadata["name"],
                patches.merge({"status": status}),
                metadata["namespace"],
                subresource="status",
            )
        except errors.NotFoundError:
            return
