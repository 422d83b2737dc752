"""How fast the engine decides, without any cluster: ``python -m tests.bench.engine``.

Every case runs in a process of its own, so that peak memory is its own. Engine time is the time
spent in calls of the State, in CPU seconds; building the values is not counted.
"""

import argparse
import gc
import heapq
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    LocalQueueKey,
    PodSetName,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.scheduling import model
from admission.scheduling.decisions import CycleResult
from admission.scheduling.state import SchedulerState
from tests.bench import shape

CPU: Final = ResourceName("cpu")
MEMORY: Final = ResourceName("memory")
SECOND_US: Final = 1_000_000
DEFAULT = FlavorName("default")
EVERYBODY: Final = model.Selector()


# ------------------------------------------------------------------------------------ building


def queue(
    name: str,
    *,
    cohort: str | None = None,
    flavors: Sequence[str] = (DEFAULT,),
    quota: model.ResourceQuota,
    preemption: model.Preemption | None = None,
    weight: int = model.DEFAULT_WEIGHT,
) -> model.ClusterQueue:
    """A ClusterQueue with the same cpu quota in every flavor."""
    quotas = tuple(model.FlavorQuotas(name=FlavorName(f), resources={CPU: quota}) for f in flavors)
    return model.ClusterQueue(
        name=ClusterQueueName(name),
        cohort=None if cohort is None else CohortName(cohort),
        resource_groups=(model.ResourceGroup(covered_resources=(CPU,), flavors=quotas),),
        preemption=preemption or model.Preemption(),
        fair_weight=weight,
        namespace_selector=EVERYBODY,
    )


def workload(
    name: str, queue_name: str, cpu: int, *, priority: int = 0, created_us: int = 0, **more: Any
) -> model.Workload:
    """A workload of one pod."""
    pod_set = model.PodSet(name=PodSetName("main"), requests={CPU: cpu}, **more)
    return model.Workload(
        key=WorkloadKey("default", name),
        uid=Uid(name),
        queue=LocalQueueKey("default", queue_name),
        priority=priority,
        created_us=created_us,
        pod_sets=(pod_set,),
    )


def add_queue(state: SchedulerState, value: model.ClusterQueue) -> None:
    """The ClusterQueue, and a LocalQueue of the same name."""
    state.set_cluster_queue(value)
    key = LocalQueueKey("default", value.name)
    state.set_local_queue(model.LocalQueue(key=key, cluster_queue=value.name))


def new_state(
    config: model.Config | None = None, flavors: Sequence[str] = (DEFAULT,)
) -> SchedulerState:
    """A State with flavors and a namespace."""
    state = SchedulerState(config)
    state.set_namespace("default", {})
    for name in flavors:
        state.set_resource_flavor(model.ResourceFlavor(name=FlavorName(name)))
    return state


# ----------------------------------------------------------------------------------- measuring


@dataclass
class Meter:
    """Times the calls of a State.

    Attributes:
        cycles: seconds of each cycle that had heads.
        events: seconds of everything else.
        decisions: verdicts so far; admissions among them are ``admitted``.
    """

    state: SchedulerState
    cycles: list[float] = field(default_factory=list)
    events: float = 0.0
    decisions: int = 0
    admitted: int = 0

    def cycle(self, now_us: int) -> CycleResult:
        """One timed cycle."""
        start = time.process_time()
        result = self.state.run_cycle(now_us)
        took = time.process_time() - start
        if result.admitted or result.waiting:
            self.cycles.append(took)
        else:
            self.events += took
        self.decisions += len(result.admitted) + len(result.waiting)
        self.admitted += len(result.admitted)
        return result

    def event(self, call: Callable[..., None], *arguments: Any) -> None:
        """One timed change."""
        start = time.process_time()
        call(*arguments)
        self.events += time.process_time() - start

    def finish(self, key: WorkloadKey, now_us: int) -> None:
        """A workload ends and is deleted."""
        self.event(self.state.drop_workload, key, now_us)

    def release(self, key: WorkloadKey, now_us: int) -> None:
        """An evicted workload gives its quota back and queues again."""
        known = self.state.workload(key)
        assert known is not None
        self.event(self.state.set_workload, replace(known, reservation=None), now_us)

    def observe(self, result: CycleResult, now_us: int) -> None:
        """The writes of a cycle come back as watch events."""
        for admit in result.admitted:
            known = self.state.workload(admit.workload)
            assert known is not None
            self.event(self.state.set_workload, replace(known, eviction=None), now_us)
        for evict in result.evicted:
            known = self.state.workload(evict.workload)
            assert known is not None
            gone = model.Eviction(reason=evict.why.reason, since_us=now_us)
            left = replace(known, eviction=gone, preempted_by=evict.preempted_by)
            self.event(self.state.set_workload, left, now_us)

    def figures(self, skip: int = 0, **more: Any) -> dict[str, Any]:
        """What is printed; the first ``skip`` cycles are left out of the percentiles."""
        times = sorted(self.cycles[skip:]) or [0.0]
        total = sum(self.cycles) + self.events
        return {
            "decisions": self.decisions,
            "admitted": self.admitted,
            "cycles": len(self.cycles),
            "engine_seconds": round(total, 3),
            "decisions_per_second": round(self.decisions / total) if total else 0,
            "microseconds_per_decision": round(1e6 * total / max(1, self.decisions), 1),
            "p50_ms": round(1e3 * times[len(times) // 2], 3),
            "p99_ms": round(1e3 * times[min(len(times) - 1, len(times) * 99 // 100)], 3),
            "max_ms": round(1e3 * times[-1], 3),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            **more,
        }


# ---------------------------------------------------------------------------------------- cases


def baseline() -> dict[str, Any]:
    """(a) 5 cohorts of 6 queues, 500 workloads each, run to their end in simulated time."""
    state = new_state()
    policies = model.Preemption(
        within_cluster_queue=model.PreemptionPolicy.LOWER_PRIORITY,
        reclaim_within_cohort=model.PreemptionPolicy.ANY,
    )
    own = model.ResourceQuota(
        nominal=shape.NOMINAL_CPU * 1000, borrowing_limit=shape.BORROWING_CPU * 1000
    )
    names = list(shape.BASELINE.queues())
    for cohort, name in names:
        add_queue(state, queue(name, cohort=cohort, quota=own, preemption=policies))
    meter = Meter(state)
    runtime: dict[WorkloadKey, int] = {}
    events: list[tuple[int, int, str, Any]] = []
    for arrival in shape.arrivals([name for _, name in names]):
        of, at = arrival.of, arrival.due_ms * 1000
        one = workload(
            arrival.name, arrival.queue, of.cpu * 1000, priority=of.priority, created_us=at
        )
        runtime[one.workload_key] = of.runtime_ms * 1000
        heapq.heappush(events, (at, len(events), "create", one))
    serial = len(events)
    now_us = 0
    while events:
        now_us = max(now_us, events[0][0])
        while events and events[0][0] <= now_us:
            _, _, kind, what = heapq.heappop(events)
            _happen(meter, kind, what, now_us)
        while state.has_work(now_us):
            result = meter.cycle(now_us)
            meter.observe(result, now_us)
            for admit in result.admitted:
                serial += 1
                end = now_us + runtime[admit.workload]
                heapq.heappush(events, (end, serial, "finish", (admit.workload, now_us)))
            for evict in result.evicted:
                serial += 1
                heapq.heappush(events, (now_us + 10_000, serial, "release", evict.workload))
            if not result.admitted and not result.evicted:
                break
    return meter.figures(simulated_seconds=round(now_us / SECOND_US))


def _happen(meter: Meter, kind: str, what: Any, now_us: int) -> None:
    if kind == "create":
        meter.event(meter.state.set_workload, what, now_us)
        return
    if kind == "release":
        known = meter.state.workload(what)
        if known is not None and known.reservation is not None and known.eviction is not None:
            meter.release(what, now_us)
        return
    key, reserved_us = what
    known = meter.state.workload(key)
    if known is None or known.reservation is None or known.reservation.reserved_us != reserved_us:
        return
    meter.finish(key, now_us)


def crowd() -> dict[str, Any]:
    """(b) 1,000 queues in 10 cohorts, 50,000 pending; then workloads end a few at a time."""
    state = new_state(model.Config(heads_per_cycle=200))
    own = model.ResourceQuota(nominal=8_000)
    names = [f"queue-{i}" for i in range(1000)]
    for index, name in enumerate(names):
        add_queue(state, queue(name, cohort=f"cohort-{index % 10}", quota=own))
    meter = Meter(state)
    for index in range(50_000):
        size = (1 + index * 7919 % 6) * 1000
        one = workload(
            f"w{index}", names[index % 1000], size, priority=index % 5, created_us=index
        )
        meter.event(state.set_workload, one, 0)
    gc.freeze()  # as the controller does once it has listed everything
    now_us = SECOND_US
    first = len(_drain(meter, now_us))
    for step in range(100):
        now_us += SECOND_US
        running = [k for name in names[step % 10 :: 97] for k in workloads(state, name)[:2]]
        for key in running:
            meter.finish(key, now_us)
        for k in range(10):
            size = (1 + (step + k) * 31 % 6) * 1000
            name = names[(step * 13 + k) % 1000]
            one = workload(f"n{step}-{k}", name, size, created_us=now_us)
            meter.event(state.set_workload, one, now_us)
        _drain(meter, now_us)
    return meter.figures(skip=first, fill_cycles=first)


def workloads(state: SchedulerState, name: str) -> list[WorkloadKey]:
    """Workloads that hold quota in a queue."""
    holders = state.forest.queues[ClusterQueueName(name)].workloads.values()
    return [holder.workload_key for holder in holders]


def _drain(meter: Meter, now_us: int) -> list[CycleResult]:
    """Cycles until nobody is left to be tried."""
    results = []
    while meter.state.has_work(now_us):
        results.append(meter.cycle(now_us))
        meter.observe(results[-1], now_us)
    return results


def flavors() -> dict[str, Any]:
    """(c) One queue of 200 flavors, workloads that may run in some of them only."""
    names = [f"flavor-{index:03}" for index in range(200)]
    state = new_state(flavors=())
    for index, name in enumerate(names):
        labels = {"pool": str(index // 20), "zone": str(index % 4)}
        taints = (model.Taint(key="gpu", value="yes", effect="NoSchedule"),) if index % 2 else ()
        flavor = model.ResourceFlavor(
            name=FlavorName(name), node_labels=labels, node_taints=taints
        )
        state.set_resource_flavor(flavor)
    own = model.ResourceQuota(nominal=10_000)
    add_queue(state, queue("wide", flavors=names, quota=own))
    meter = Meter(state)
    for index in range(3000):
        size = (1 + index % 3) * 1000
        chosen = {"pool": str(index % 10)} if index % 3 else {}
        one = workload(f"w{index}", "wide", size, created_us=index, node_selector=chosen)
        meter.event(state.set_workload, one, 0)
    _drain(meter, SECOND_US)
    return meter.figures()


def storm() -> dict[str, Any]:
    """(d) Workloads that need 1,000 victims each: of their own queue, then of other queues."""
    state = new_state()
    any_lower = model.Preemption(
        within_cluster_queue=model.PreemptionPolicy.LOWER_PRIORITY,
        reclaim_within_cohort=model.PreemptionPolicy.ANY,
    )
    million = model.ResourceQuota(nominal=1_000_000)
    nothing = model.ResourceQuota(nominal=0)
    add_queue(state, queue("alone", quota=million, preemption=any_lower))
    add_queue(state, queue("owner", cohort="c", quota=million, preemption=any_lower))
    for index in range(10):
        add_queue(state, queue(f"guest-{index}", cohort="c", quota=nothing))
    meter = Meter(state)
    now_us = SECOND_US
    for index in range(1000):
        for target in ("alone", f"guest-{index % 10}"):
            one = workload(f"{target}-{index}", target, 1000, created_us=index)
            meter.event(state.set_workload, one, now_us)
    _drain(meter, now_us)
    filled = len(meter.cycles)
    evicted = 0
    for repeat in range(20):
        now_us += SECOND_US
        big = [
            workload(f"{name}-big-{repeat}", name, 1_000_000, priority=100, created_us=now_us)
            for name in ("alone", "owner")
        ]
        for one in big:
            meter.event(state.set_workload, one, now_us)
        result = meter.cycle(now_us)
        evicted += len(result.evicted)
        for one in big:
            meter.event(state.drop_workload, one.key, now_us)
    return meter.figures(skip=filled, victims_chosen=evicted)


def fair() -> dict[str, Any]:
    """(e) Fair sharing over 500 queues in 5 cohorts below one root."""
    state = new_state(model.Config(fair_sharing=model.FairSharing(), heads_per_cycle=None))
    for index in range(5):
        state.set_cohort(
            model.Cohort(name=CohortName(f"cohort-{index}"), parent=CohortName("root"))
        )
    own = model.ResourceQuota(nominal=4_000)
    names = [f"queue-{i}" for i in range(500)]
    policies = model.Preemption(reclaim_within_cohort=model.PreemptionPolicy.ANY)
    for index, name in enumerate(names):
        cohort = f"cohort-{index % 5}"
        weight = model.DEFAULT_WEIGHT * (1 + index % 3)
        value = queue(name, cohort=cohort, quota=own, weight=weight, preemption=policies)
        add_queue(state, value)
    meter = Meter(state)
    for index in range(5000):
        size = (1 + index * 7919 % 4) * 1000
        one = workload(f"w{index}", names[index * index % 500], size, created_us=index)
        meter.event(state.set_workload, one, 0)
    now_us = SECOND_US
    for _ in range(20):
        now_us += SECOND_US
        result = meter.cycle(now_us)
        meter.observe(result, now_us)
        for evict in result.evicted:
            meter.release(evict.workload, now_us)
    return meter.figures()


CASES: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "a": baseline,
    "b": crowd,
    "c": flavors,
    "d": storm,
    "e": fair,
}


def profile(case: str) -> None:
    """Prints the dearest functions of a case."""
    import cProfile  # noqa: PLC0415 -- only for this
    import pstats  # noqa: PLC0415 -- only for this

    profiler = cProfile.Profile()
    profiler.runcall(CASES[case])
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.bench.engine", description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), help="only this one, in this process")
    parser.add_argument("--json", action="store_true", help="one JSON document per case")
    parser.add_argument(
        "--profile", action="store_true", help="the dearest functions, with --case"
    )
    options = parser.parse_args(arguments)
    if options.case and options.profile:
        profile(options.case)
        return 0
    if options.case:
        _show(options.case, CASES[options.case](), as_json=options.json)
        return 0
    for case in CASES:
        command = [sys.executable, "-m", "tests.bench.engine", "--case", case, "--json"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        _show(case, json.loads(output), as_json=options.json)
    return 0


def _show(case: str, figures: dict[str, Any], *, as_json: bool) -> None:
    summary = (CASES[case].__doc__ or "").splitlines()[0]
    if as_json:
        print(json.dumps({"case": case, "summary": summary, **figures}))
        return
    print(summary)
    for name in figures.keys() - {"case", "summary"}:
        print(f"  {name.replace('_', ' '):28}{figures[name]:>12,}")


if __name__ == "__main__":
    sys.exit(main())
