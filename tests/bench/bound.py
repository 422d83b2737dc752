"""What 50,000 pods that run cost the controller: ``python -m tests.bench.bound``.

The core takes lists and changes as its reflectors decode them; no API server is asked. Half of the
pods are single pods with a Workload each, half are pods of Jobs of 100. Time is CPU time, and
that of the list includes making the objects; memory is the peak.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from admission.base import names
from admission.config.derived import Settings
from admission.controller import core, watched
from admission.controller.assembly import cores
from admission.controller.assembly.basis import Installation
from admission.controller.core import Core
from admission.controller.queues.workload_metrics import KueueMetrics
from admission.kube import decoding, resources
from admission.kube.reflector import Replaced, Upserted
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners import batch_job, integrations
from admission.owners import pod as pod_owner
from admission.scheduling.state import SchedulerState
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue, reviewed
from tests.clocks import FakeClock

PODS: Final = 50_000
_OF_JOB: Final = 100
_CHANGES: Final = 2_000
_SINCE: Final = "2026-01-01T00:00:00Z"


class _Nobody:
    """A writer that sends nothing, and takes events."""

    def submit(self, write: object) -> None:
        """Leave a write open."""

    def event(self, regarding: object, event: object) -> None:
        """Take an event."""


def measure(pods: int) -> dict[str, float]:
    """Return seconds of CPU and MiB."""
    decides = _core()
    before = _mib()
    listing = _seconds(lambda: _list(decides, pods))
    deciding = _seconds(decides.step)
    memory = _mib() - before
    changed = [_pod(index, pods, version=10 * pods + index) for index in range(_CHANGES)]

    def change() -> None:
        for resource_, found in changed:
            into = watched.WATCHED[resource_]
            one = decoding.one(json.dumps(found).encode(), into)
            decides.receive(core.WatchMessage(resource_, Upserted(one)))
        decides.step()

    changing = _seconds(change)
    counting = _seconds(decides.present.counted)
    usage = decides.present.counted().sums[names.ClusterQueueName("gpus")]
    assert sum(usage.values()) == pods, usage
    return {
        "pods": pods,
        "list_seconds": round(listing, 2),
        "first_step_seconds": round(deciding, 2),
        "mib": round(memory, 1),
        "microseconds_per_change": round(changing / _CHANGES * 1e6, 1),
        "milliseconds_of_core_per_audit": round(2 * counting * 1000, 1),
    }


def _core() -> Core:
    nobody: Any = _Nobody()
    made = cores.make(
        Installation(
            state=SchedulerState(),
            writer=nobody,
            events=nobody,
            clock=FakeClock(),
            settings=Settings(),
            accounting=KueueMetrics(),
        )
    ).core
    made.receive(core.LeaderStarted())
    return made


def _list(decides: Core, pods: int) -> None:
    own = [_pod(index, pods, version=index + 1) for index in range(pods)]
    of_owners = [found for resource_, found in own if resource_ is resources.RELEASED_PODS]
    listed: dict[Resource, Sequence[dict[str, Any]]] = {
        resources.NAMESPACES: [make_namespace()],
        resources.RESOURCE_FLAVORS: [reviewed(make_flavor("a100"))],
        resources.CLUSTER_QUEUES: [reviewed(make_cluster_queue(quota=pods))],
        resources.LOCAL_QUEUES: [make_local_queue()],
        resources.NODES: [{"metadata": {"name": f"n{n}", "uid": f"n{n}"}} for n in range(100)],
        resources.JOBS: [_job(index) for index in range(len(of_owners) // _OF_JOB)],
        resources.PODS: [found for resource_, found in own if resource_ is resources.PODS],
        resources.RELEASED_PODS: of_owners,
        resources.WORKLOADS: list(_workloads(own)),
    }
    rows = watched.rows(integrations.DEFAULT)
    for resource_ in watched.awaited(integrations.DEFAULT):
        into = {**watched.WATCHED, **watched.OPTIONAL, **rows}[resource_]
        items = tuple(
            decoding.one(json.dumps(found).encode(), into) for found in listed.get(resource_, ())
        )
        decides.receive(core.WatchMessage(resource_, Replaced(items, (), str(20 * pods))))


def _pod(index: int, pods: int, version: int) -> tuple[Resource, dict[str, Any]]:
    is_single = index < pods // 2
    name, uid = f"pod-{index}", f"uid-{index}"
    metadata: dict[str, Any] = {
        "name": name, "namespace": "ml", "uid": uid, "resourceVersion": str(version),
        "creationTimestamp": _SINCE,
    }  # fmt: skip
    labels = {
        names.PODSET_LABEL: "main",
        names.LOCAL_QUEUE_NAME_LABEL: "team-a",
        names.CLUSTER_QUEUE_NAME_LABEL: "gpus",
    }
    if is_single:
        labels |= {names.MANAGED_LABEL: "true", names.QUEUE_LABEL: "team-a"}
        seen = views.Object(metadata=views.ObjectMeta(namespace="ml", name=name, uid=uid))
        of = pod_owner.KIND.key_of(seen).name
    else:
        of = _key_of_job((index - pods // 2) // _OF_JOB)
    metadata |= {"labels": labels, "annotations": {names.WORKLOAD_ANNOTATION: of}}
    return (
        resources.PODS if is_single else resources.RELEASED_PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**_spec(), "nodeName": f"n{index % 100}"},
            "status": {"phase": "Running"},
        },
    )


def _spec() -> dict[str, Any]:
    amounts = {names.GPU_RESOURCE: "1"}
    container = {"name": "main", "image": "train", "resources": {"requests": amounts}}
    return {"containers": [container], "nodeSelector": {"pool": "a100"}}


def _job_metadata(index: int) -> dict[str, Any]:
    return {"name": f"job-{index}", "namespace": "ml", "uid": f"job-uid-{index}"}


def _key_of_job(index: int) -> str:
    metadata = views.ObjectMeta(**_job_metadata(index))
    return batch_job.KIND.key_of(views.Object(metadata=metadata)).name


def _job(index: int) -> dict[str, Any]:
    marks = {"annotations": {names.WORKLOAD_ANNOTATION: _key_of_job(index)}}
    labels = {names.QUEUE_LABEL: "team-a"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_job_metadata(index), "labels": labels, "resourceVersion": "1"},
        "spec": {
            "parallelism": _OF_JOB,
            "completions": _OF_JOB,
            "suspend": False,
            "template": {"metadata": marks, "spec": _spec()},
        },
        "status": {"active": _OF_JOB, "ready": _OF_JOB, "startTime": _SINCE},
    }


def _workloads(pods: Sequence[tuple[Resource, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    counts: dict[str, tuple[int, dict[str, Any]]] = {}
    for resource_, pod in pods:
        metadata = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"]}
        owner |= {"uid": metadata["uid"], "controller": True}
        if resource_ is resources.RELEASED_PODS:
            index = (int(metadata["name"].split("-")[1]) - len(pods) // 2) // _OF_JOB
            owner |= {"apiVersion": "batch/v1", "kind": "Job", **_job_metadata(index)}
            owner.pop("namespace")
        of = metadata["annotations"][names.WORKLOAD_ANNOTATION]
        counts[of] = (counts.get(of, (0, owner))[0] + 1, owner)
    for name, (count, owner) in counts.items():
        told = {"status": "True", "reason": "x", "message": "", "lastTransitionTime": _SINCE}
        yield {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": name, "namespace": "ml", "uid": f"wl-{name}", "resourceVersion": "1",
                "generation": 1, "creationTimestamp": _SINCE, "ownerReferences": [owner],
            },
            "spec": {
                "queueName": "team-a",
                "podSets": [{"name": "main", "count": count, "template": {"spec": _spec()}}],
            },
            "status": {
                "conditions": [{"type": kind, **told} for kind in ("QuotaReserved", "Admitted")],
                "admission": {
                    "clusterQueue": "gpus",
                    "podSetAssignments": [
                        {
                            "name": "main",
                            "count": count,
                            "flavors": {names.GPU_RESOURCE: "a100"},
                            "resourceUsage": {names.GPU_RESOURCE: str(count)},
                        }
                    ],
                },
            },
        }  # fmt: skip


def _seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def _mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bound", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help=f"how many; default {PODS}")
    print(json.dumps(measure(parser.parse_args().pods), indent=2))


if __name__ == "__main__":
    main()
