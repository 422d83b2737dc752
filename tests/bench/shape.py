"""The loads of Kueue's own scalability runs: Workloads over cohorts of equal queues.

Source: kueue test/performance/scheduler/configs (baseline, large-scale, tas: generator.yaml).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.bench import racks

NOMINAL_CPU: Final = 20
BORROWING_CPU: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """Equal Workloads of each queue.

    Attributes:
        name: of the class.
        count: Workloads per queue.
        interval_ms: between two of them.
        runtime_ms: from admission to end.
        priority: of the Workload.
        cpu: that its pods ask for together.
        pods: equal pods of each Workload.
        topology: what its pods ask of the topology, by field; nothing for most.
    """

    name: str
    count: int
    interval_ms: int
    runtime_ms: int
    priority: int
    cpu: int
    pods: int = 1
    topology: tuple[tuple[str, str | int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Queues and what comes to each.

    Attributes:
        cohorts: their number.
        queues_per_cohort: queues of each.
        classes: of Workloads.
        is_spread: whether each queue has a namespace of its own.
        has_racks: whether its flavor places pods in racks; see `racks`.
        is_even: whether the queues take turns within an interval; else they come at once.
    """

    cohorts: int
    queues_per_cohort: int
    classes: tuple[Class, ...]
    is_spread: bool = False
    has_racks: bool = False
    is_even: bool = False

    def slowed(self, factor: int) -> "Shape":
        """Return the shape with intervals and run times multiplied, and its queues by turns.

        The queues are as contended as before, and the API server has less to do in a second.
        """
        return replace(
            self,
            classes=tuple(
                replace(
                    slowed,
                    interval_ms=slowed.interval_ms * factor,
                    runtime_ms=slowed.runtime_ms * factor,
                )
                for slowed in self.classes
            ),
            is_even=True,
        )

    def scaled(self, scale: float) -> "Shape":
        """Return the shape with fewer queues, of which each has its whole load."""
        return replace(self, queues_per_cohort=max(1, round(self.queues_per_cohort * scale)))

    def queues(self) -> Iterator[tuple[str, str]]:
        """Cohort and name of each queue."""
        for cohort in range(self.cohorts):
            for number in range(self.queues_per_cohort):
                yield f"cohort-{cohort}", f"shape-{cohort}-{number}"


BASELINE: Final = Shape(
    cohorts=5,
    queues_per_cohort=6,
    classes=(
        Class(name="small", count=350, interval_ms=100, runtime_ms=200, priority=50, cpu=1),
        Class(name="medium", count=100, interval_ms=500, runtime_ms=500, priority=100, cpu=5),
        Class(name="large", count=50, interval_ms=1200, runtime_ms=1000, priority=200, cpu=20),
    ),
)
"""15,000 Workloads in 30 queues."""
LARGE: Final = Shape(
    cohorts=10,
    queues_per_cohort=100,
    classes=(
        Class(name="small", count=35, interval_ms=60, runtime_ms=150, priority=50, cpu=1),
        Class(name="medium", count=11, interval_ms=300, runtime_ms=350, priority=100, cpu=5),
        Class(name="large", count=4, interval_ms=700, runtime_ms=700, priority=200, cpu=20),
    ),
    is_spread=True,
)
"""50,000 Workloads in 1,000 queues of as many namespaces."""


def _in_racks() -> Iterator[Class]:
    """Yield the classes of `BASELINE`, each in three: one rack, one if possible, slices."""
    for of, pods, counts, size in zip(
        BASELINE.classes,
        (2, 4, 8),
        ((120, 120, 110), (34, 33, 33), (17, 17, 16)),
        (1, 2, 4),
        strict=True,
    ):
        requests: dict[str, tuple[tuple[str, str | int], ...]] = {
            "required": (("required", racks.RACK),),
            "preferred": (("preferred", racks.RACK),),
            "sliced": (("podSetSliceRequiredTopology", racks.RACK), ("podSetSliceSize", size)),
        }
        for (name, topology), count in zip(requests.items(), counts, strict=True):
            yield replace(of, name=f"{of.name}-{name}", count=count, pods=pods, topology=topology)


RACKS: Final = Shape(cohorts=5, queues_per_cohort=6, classes=tuple(_in_racks()), has_racks=True)
"""15,000 Workloads of 2 to 8 pods in 30 queues, on 640 nodes in 10 racks."""
SHAPES: Final = {"baseline": BASELINE, "large": LARGE, "racks": RACKS}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A Workload that is to come.

    Attributes:
        due_ms: after the start.
        name: unique.
        queue: its LocalQueue.
        of: its class.
    """

    due_ms: int
    name: str
    queue: str
    of: Class


def arrivals(names: Sequence[str], scale: float = 1.0, shape: Shape = BASELINE) -> list[Arrival]:
    """All Workloads in the order in which they come.

    Args:
        names: of the queues.
        scale: multiplies the count of every class.
        shape: says what comes to a queue.
    """
    found = [
        Arrival(
            index * one.interval_ms
            + (one.interval_ms * number // len(names) if shape.is_even else 0),
            f"{name}-{one.name}-{index}",
            name,
            one,
        )
        for number, name in enumerate(names)
        for one in shape.classes
        for index in range(max(1, round(one.count * scale)))
    ]
    return sorted(found, key=lambda arrival: (arrival.due_ms, arrival.name))


def cluster_queue(cohort: str, name: str, flavor: str) -> dict[str, Any]:
    """A ClusterQueue of the shape."""
    quota = {"name": "cpu", "nominalQuota": NOMINAL_CPU, "borrowingLimit": BORROWING_CPU}
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": flavor, "resources": [quota]}],
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerPriority",
            },
        },
    }


SINGLE: Final = Class(name="single", count=1, interval_ms=0, runtime_ms=0, priority=0, cpu=1)
"""A Workload of one pod, where it is no matter what it asks for."""


def workload(name: str, queue: str, of: Class = SINGLE) -> dict[str, Any]:
    """A Workload of equal pods, as somebody makes it by hand."""
    requests = {"cpu": f"{1000 * of.cpu // of.pods}m"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    spec = {"containers": [container], "restartPolicy": "Never"}
    pod_set: dict[str, Any] = {"name": "main", "count": of.pods, "template": {"spec": spec}}
    if of.topology:
        pod_set["topologyRequest"] = dict(of.topology)
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "queueName": queue,
            "priority": of.priority,
            "podSets": [pod_set],
        },
    }
