"""(e), (g), (racks) Workloads made by hand, in the shapes of Kueue's own runs; see `shape`."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from tests.bench import figures, metrics, processes, racks, runner, shape
from tests.bench.figures import Figures
from tests.bench.stage import helper
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.integration.installed import Installed

_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_FLAVOR: Final = "shape"
_SHAPES: Final = {"e": "baseline", "g": "large", "racks": "racks"}
_PROBE: Final = "probe"
_CYCLES: Final = "kueue_admission_attempt_duration_seconds"
_PERCENTS: Final = (50, 99)
_IDLE_SECONDS: Final = 10.0
_DELETED_SECONDS: Final = 300


class HandmadeStage(Protocol):
    """A cluster with a controller that admits Workloads."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def installed(self) -> Installed: ...

    def controller_alone(self) -> AbstractContextManager[None]:
        """The controller runs, and nothing is reviewed, inside the block."""
        ...

    def pids(self) -> Mapping[str, tuple[int, ...]]:
        """Processes of each program that runs now, the control plane's too."""
        ...

    def settle(self) -> str:
        """Waits until nobody writes any more; the API server's metrics then."""
        ...

    def controller_metrics(self) -> str:
        """The controller's metrics; empty where they are not read."""
        ...


class Handmade:
    """Measures the part on a stage without webhooks.

    Args:
        stage: where; it serves no older version of Workloads.
        scale: multiplies the number of Workloads, in (g) of queues.
        say: tells of progress.
        part: ``e``, ``g`` or ``racks``.
        slower: multiplies intervals and run times.
    """

    def __init__(
        self,
        stage: HandmadeStage,
        scale: float,
        say: Callable[[str], None],
        part: str = "e",
        slower: int = 1,
    ) -> None:
        self._stage = stage
        self._slower = slower
        self._part = part
        self._shape_name = _SHAPES[part]
        self._shape = shape.SHAPES[self._shape_name]
        self._scale = scale
        if self._shape.is_spread:
            self._shape, self._scale = self._shape.scaled(scale), 1.0
        self._say = say
        self._queues = tuple(name for _, name in self._shape.queues())
        if self._shape.has_racks:
            racks.create(stage.cluster, _FLAVOR)
        else:
            stage.installed.add_flavor(_FLAVOR)
        for cohort, name in self._shape.queues():
            self._add_cluster_queue(shape.cluster_queue(cohort, name, _FLAVOR))
        probe = shape.cluster_queue("", _PROBE, _FLAVOR)
        probe["spec"] |= {"stopPolicy": "Hold"}
        del probe["spec"]["cohortName"]
        del probe["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"]
        self._add_cluster_queue(probe)

    def run(self, runs: int) -> Figures:
        """The medians of all runs."""
        found = []
        for number in range(1, runs + 1):
            self._say(f"({self._part}) run {number} of {runs}")
            namespace, queues = self._add_namespaces()
            found.append(self._once(namespace, queues))
            seconds, rate = found[-1]["wall_seconds"], found[-1]["workloads_per_second"]
            self._say(f"({self._part}) {seconds} s, {rate}/s")
            for one in {namespace, *queues.values()} if number < runs else ():
                self._remove(one)
        return figures.median(found)

    def _add_cluster_queue(self, document: dict[str, Any]) -> None:
        self._stage.cluster.api.post(f"{_KUEUE}/clusterqueues", document)

    def _add_namespaces(self) -> tuple[str, dict[str, str]]:
        """A namespace with the probe, and the namespace of the LocalQueue of each ClusterQueue."""
        stage = self._stage
        namespace = stage.cluster.create_namespace("handmade")
        stage.installed.add_local_queue(namespace, _PROBE, _PROBE)
        queues = dict.fromkeys(self._queues, namespace)
        for name in self._queues:
            if self._shape.is_spread:
                queues[name] = stage.cluster.create_namespace(name)
            stage.installed.add_local_queue(queues[name], name, name)
        return namespace, queues

    def _once(self, namespace: str, queues: dict[str, str]) -> Figures:
        """One run of a fresh controller."""
        with self._stage.controller_alone():
            for name, of_queue in queues.items():
                self._stage.installed.wait_active(of_queue, name)
            return self._measured(namespace, queues)

    def _measured(self, namespace: str, queues: dict[str, str]) -> Figures:
        stage, cluster = self._stage, self._stage.cluster
        load = runner.Load(
            port=cluster.port,
            ca_file=str(cluster.ca_file),
            token=cluster.admin_token,
            namespace=namespace,
            queues=queues,
            shape=self._shape_name,
            scale=self._scale,
            slower=self._slower,
            idle_seconds=_IDLE_SECONDS,
            probe=_PROBE,
        )
        before, controller = stage.settle(), stage.controller_metrics()
        pids = stage.pids()
        cpu = {name: processes.cpu_seconds(found) for name, found in pids.items()}
        answer = helper("tests.bench.runner", msgspec.json.encode(load))
        report = msgspec.convert(answer, runner.Report)
        used = {
            name: round(processes.cpu_seconds(found) - cpu[name], 1)
            for name, found in pids.items()
        }
        after = stage.settle()
        counted = metrics.writes(before, after, report.writes)
        return {
            **summary(report, len(queues)),
            "cpu_seconds": {**used, "driver": round(report.cpu_seconds, 1)},
            "peak_mib": {name: processes.peak_mib(found) for name, found in pids.items()},
            **_writes(counted, finished(report)),
            **_since(controller, stage.controller_metrics(), report),
        }

    def _remove(self, namespace: str) -> None:
        """Leaves nothing behind that a later run would have to carry along."""
        path = f"{_KUEUE}/namespaces/{namespace}"
        for kind in ("workloads", "localqueues"):
            waiting.until(
                partial(self._is_empty, f"{path}/{kind}"),
                what=f"no {kind} left",
                within_seconds=_DELETED_SECONDS,
            )

    def _is_empty(self, path: str) -> bool:
        with suppress(TimeoutError):  # there may be many; what was begun goes on
            self._stage.cluster.api.delete(path)
        return not self._stage.cluster.api.get(f"{path}?limit=1")["items"]


def finished(report: runner.Report) -> int:
    """Workloads of the load; all of them finished."""
    return sum(len(values) for values in report.admission_seconds.values())


def summary(report: runner.Report, queues: int) -> Figures:
    """What the driver saw of so many queues."""
    count = finished(report)
    quota = queues * shape.NOMINAL_CPU
    return {
        "workloads": count,
        "wall_seconds": round(report.wall_seconds, 1),
        "workloads_per_second": round(count / report.wall_seconds, 1),
        "all_created_seconds": round(report.created_seconds, 1),
        "mean_seconds_to_admission": {
            name: round(statistics.mean(values), 2)
            for name, values in sorted(report.admission_seconds.items())
        },
        "average_use_of_quota_percent": round(
            100 * report.held_cpu_seconds / quota / report.wall_seconds, 1
        ),
        "fitting_wait": {
            f"{name}_s": round(figures.percentile(report.fitting_waits, percent), 3)
            for name, percent in (("p50", 50), ("p99", 99), ("max", 100))
        }
        if report.fitting_waits
        else {},
        "evictions": report.evictions,
        "queue_status_age": {
            "idle": _ages(report.idle_ages),
            "under load": _ages(report.loaded_ages),
        },
    }


def _ages(found: Mapping[str, Sequence[float]]) -> Figures:
    """Median and greatest age by kind, in seconds; a kind that was never written has none."""
    return {
        f"{kind} {name}": round(figures.percentile(values, percent), 2)
        for kind, values in sorted(found.items())
        if values
        for name, percent in (("p50_s", 50), ("max_s", 100))
    }


def _writes(counted: Mapping[str, int], workloads: int) -> Figures:
    shares = figures.per(counted, workloads)
    return {"writes_per_workload": {"total": round(sum(counted.values()) / workloads, 2)} | shares}


def _since(before: str, after: str, report: runner.Report) -> Figures:
    """What the controller counted between two readings: its cycles and its writes."""
    cycles, seconds = metrics.quantiles(before, after, _CYCLES, _PERCENTS)
    return {
        "cycles": {"count": cycles}
        | {f"p{percent}_ms_at_most": round(1e3 * value, 1) for percent, value in seconds.items()},
        "controller_writes": _purposes(before, after, report),
    }


def _purposes(before: str, after: str, report: runner.Report) -> Figures:
    return {
        purpose: {
            "per_workload": round(count / finished(report), 3),
            "mean_ms": round(1e3 * seconds / count, 1),
        }
        for purpose, count, seconds in metrics.purposes(before, after)
    }
