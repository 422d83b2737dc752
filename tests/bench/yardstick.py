"""The bare loop that the system is measured against: the same writes, and nothing else.

For each gated pod: create the Workload, write its status, take the gate off; when the pod is gone,
delete the Workload. No quota, no queue, no state. It uses the system's own client and as many
threads as the controller has writers, so what it reaches is what those writes allow.

Prints ``ready`` once it watches; ends with its standard input.
"""

import queue
import sys
import threading
from typing import Any, Final

import msgspec

from admission.base import names, patches
from admission.base.clock import SystemClock, to_wire
from admission.config.gpu import Controller
from admission.kube import resources
from admission.kube.client import Client
from admission.kube.reflector import Deleted, Reflector, Replaced, Upserted

_TRUE: Final = (("QuotaReserved", "QuotaReserved"), ("Admitted", "Admitted"))


class _Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Gated(msgspec.Struct, rename="camel", frozen=True, gc=False):
    scheduling_gates: list[msgspec.Raw] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


Job = tuple[bool, _Pod]
"""Whether the pod came or went, and the pod."""


class Loop:
    """Watches pods and writes."""

    def __init__(self, client: Client, threads: int) -> None:
        self._client = client
        self._clock = SystemClock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._seen: set[str] = set()
        self._gates = msgspec.json.Decoder(_Gated)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        self.reflector: Reflector[_Pod] = Reflector(
            client,
            resources.PODS,
            _Pod,
            self._see,
            clock=self._clock,
            label_selector=f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}",
        )

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self.reflector.start()

    def _see(self, change: Replaced[_Pod] | Upserted[_Pod] | Deleted[_Pod]) -> None:
        if isinstance(change, Deleted):
            self._jobs.put((False, change.object))
            return
        for pod in change.items if isinstance(change, Replaced) else (change.object,):
            if (
                pod.metadata.uid not in self._seen
                and self._gates.decode(pod.spec).scheduling_gates
            ):
                self._seen.add(pod.metadata.uid)
                self._jobs.put((True, pod))

    def _work(self) -> None:
        while True:
            came, pod = self._jobs.get()
            if came:
                self._admit(pod)
            else:
                self._client.delete(
                    resources.WORKLOADS, _workload_name(pod), pod.metadata.namespace
                )

    def _admit(self, pod: _Pod) -> None:
        namespace = pod.metadata.namespace
        made = self._client.create(resources.WORKLOADS, _workload(pod), namespace, into=_Answer)
        self._client.patch(
            resources.WORKLOADS,
            made.metadata.name,
            patches.merge(_status(pod, made.metadata, to_wire(self._clock.now()))),
            namespace,
            subresource="status",
            into=_Answer,
        )
        self._client.patch(
            resources.PODS,
            pod.metadata.name,
            patches.merge(_release(pod)),
            namespace,
            into=_Answer,
        )


def _workload_name(pod: _Pod) -> str:
    return f"pod-{pod.metadata.name}-{pod.metadata.uid[:5]}"


def _queue(pod: _Pod) -> str:
    return pod.metadata.labels.get(names.QUEUE_LABEL, "")


def _workload(pod: _Pod) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    pod_set = {"name": names.DEFAULT_PODSET, "count": 1, "template": {"spec": pod.spec}}
    return {
        "metadata": {
            "name": _workload_name(pod),
            "namespace": pod.metadata.namespace,
            "labels": {names.JOB_UID_LABEL: pod.metadata.uid},
            "ownerReferences": [owner],
        },
        "spec": {"queueName": _queue(pod), "podSets": [pod_set], "priority": 0},
    }


def _status(pod: _Pod, made: _Meta, now: str) -> dict[str, Any]:
    assignment = {
        "name": names.DEFAULT_PODSET,
        "count": 1,
        "flavors": {names.GPU_RESOURCE: "bench"},
        "resourceUsage": {names.GPU_RESOURCE: "1"},
    }
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": reason,
            "message": f"Quota reserved in ClusterQueue {_queue(pod)}",
            "lastTransitionTime": now,
            "observedGeneration": 1,
        }
        for type_, reason in _TRUE
    ]
    return {
        "metadata": {"resourceVersion": made.resource_version, "uid": made.uid},
        "status": {
            "admission": {"clusterQueue": _queue(pod), "podSetAssignments": [assignment]},
            "conditions": conditions,
        },
    }


def _release(pod: _Pod) -> dict[str, Any]:
    labels = {
        names.PODSET_LABEL: names.DEFAULT_PODSET,
        names.LOCAL_QUEUE_NAME_LABEL: _queue(pod),
        names.CLUSTER_QUEUE_NAME_LABEL: _queue(pod),
    }
    return {
        "metadata": {
            "resourceVersion": pod.metadata.resource_version,
            "uid": pod.metadata.uid,
            "labels": labels,
            "annotations": {names.WORKLOAD_ANNOTATION: _workload_name(pod)},
        },
        "spec": {"schedulingGates": [], "nodeSelector": {"nvidia.com/gpu.product": "A100"}},
    }


def main(kubeconfig: str) -> None:
    """Runs until standard input ends."""
    settings = Controller()
    client = Client.connect(
        kubeconfig,
        connections=settings.writers + 2,
        timeout_seconds=settings.request_timeout.total_seconds(),
    )
    loop = Loop(client, settings.writers)
    loop.start()
    pause = threading.Event()
    while not loop.reflector.has_synced:
        pause.wait(0.01)
    print("ready", flush=True)
    sys.stdin.read()
    loop.reflector.stop()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1])
