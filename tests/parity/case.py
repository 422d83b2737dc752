"""One parity case run on the state: steps in, observations out.

Reads only a case's input (``start``, ``fairSharing``, ``objects``, ``steps[].op`` and operands);
what was expected is compared elsewhere.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from admission.base import clock
from admission.base.conditions import WaitReason
from admission.base.names import (
    FlavorResource,
    WorkloadKey,
)
from admission.objects import cluster_queue, cohort, local_queue, resource_flavor, values, workload
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from admission.reasons import kueue
from admission.scheduling import fairshare, model, quota
from admission.scheduling.decisions import Admit, CycleResult, Evict, PodSetAssignment
from admission.scheduling.hierarchy import QuotaNode
from admission.scheduling.state import SchedulerState

Document = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_US = 1_000_000
DEFAULT_STRATEGIES = (
    model.FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,
    model.FairStrategy.LESS_THAN_INITIAL_SHARE,
)


def config_of(case: Mapping[str, Any]) -> model.Config:
    """The settings that a case asks for."""
    sharing = case["fairSharing"]
    if sharing is None:
        return model.Config()
    named = tuple(model.FairStrategy(name) for name in sharing["preemptionStrategies"])
    return model.Config(fair_sharing=model.FairSharing(strategies=named or DEFAULT_STRATEGIES))


@dataclass(slots=True)
class Run:
    """A case in progress.

    Attributes:
        pending: the condition QuotaReserved=False of each waiting workload that has one.
    """

    case: Mapping[str, Any]
    state: SchedulerState = field(init=False)
    pending: dict[str, Document] = field(default_factory=dict)
    _evicted_why: dict[str, str] = field(default_factory=dict)
    _start_us: int = field(init=False)

    def __post_init__(self) -> None:
        self.state = SchedulerState(config_of(self.case))
        self._start_us = values.microseconds(self.case["start"], "start") or 0
        self.state.set_namespace("default", {})
        for document in self.case["objects"]:
            self._load(document)

    def observations(self) -> Iterator[Document]:
        """What is seen before the first step, then after every step."""
        yield self._queues(self._start_us) | {"quota": self.quota()}
        for index, step in enumerate(self.case["steps"]):
            yield self._step(step, self._start_us + index * SECOND_US)

    def _load(self, document: Document) -> None:
        match document["kind"]:
            case "ResourceFlavor":
                flavor = msgspec.convert(document, ResourceFlavor)
                self.state.set_resource_flavor(resource_flavor.scheduling_value(flavor))
            case "Cohort":
                self.state.set_cohort(cohort.scheduling_value(msgspec.convert(document, Cohort)))
            case "ClusterQueue":
                queue = msgspec.convert(document, ClusterQueue)
                self.state.set_cluster_queue(cluster_queue.scheduling_value(queue))
            case "LocalQueue":
                local = msgspec.convert(document, LocalQueue)
                self.state.set_local_queue(local_queue.scheduling_value(local))
            case _:
                self._load_workload(document)

    def _load_workload(self, document: Document) -> None:
        view = msgspec.convert(document, Workload)
        evicted = view.status.condition("Evicted")
        if evicted is not None:
            self._evicted_why[view.metadata.name] = evicted.message
        self.state.set_workload(workload.scheduling_value(view))

    def _step(self, step: Document, now_us: int) -> Document:
        match step["op"]:
            case "cycle":
                return self._cycle(now_us)
            case "finish":
                self._change(step["workload"], now_us, lambda one: replace(one, finished=True))
            case "release":
                self._release(step["workload"], now_us)
            case _:
                self._create(step["object"], now_us)
        return self._queues(now_us)

    def _create(self, document: Document, now_us: int) -> None:
        created = clock.to_wire(_EPOCH + timedelta(microseconds=now_us))
        self._load(document | {"metadata": document["metadata"] | {"creationTimestamp": created}})

    def _release(self, name: str, now_us: int) -> None:
        message = self._evicted_why.get(
            name, ""
        )  # none where this engine departed from the record
        self.pending[name] = {"reason": WaitReason.PENDING_EVALUATION, "message": message}
        self._change(name, now_us, lambda one: replace(one, reservation=None))

    def _change(
        self, name: str, now_us: int, edit: Callable[[model.Workload], model.Workload]
    ) -> None:
        """Shows the state a workload as it would be after a write."""
        known = self.state.workload(WorkloadKey("default", name))
        assert known is not None
        self.state.set_workload(edit(known), now_us)

    def _cycle(self, now_us: int) -> Document:
        result = self.state.run_cycle(now_us)
        for admit in result.admitted:
            self.pending.pop(admit.workload.name, None)
            self._change(admit.workload.name, now_us, lambda one: replace(one, eviction=None))
        for evict in result.evicted:
            self._evict(evict, now_us)
        for wait in result.waiting:
            self.pending[wait.workload.name] = {
                "reason": wait.reason,
                "message": kueue.message(wait.why),
            }
        return self._queues(now_us) | self._decisions(result)

    def _evict(self, evict: Evict, now_us: int) -> None:
        self._evicted_why[evict.workload.name] = kueue.message(evict.why)
        eviction = model.Eviction(reason=evict.why.reason, since_us=now_us)
        self._change(
            evict.workload.name,
            now_us,
            lambda one: replace(one, eviction=eviction, preempted_by=evict.preempted_by),
        )

    def _decisions(self, result: CycleResult) -> Document:
        return {
            "reserved": {one.workload.name: _reserved(one) for one in result.admitted},
            "evicted": {
                one.workload.name: {
                    "reason": one.why.reason,
                    "preemptionReason": one.preemption_reason,
                    "message": kueue.message(one.why),
                }
                for one in result.evicted
            },
            "pending": {name: dict(found) for name, found in self.pending.items()},
            "quota": self.quota(),
        }

    def _queues(self, now_us: int) -> Document:
        names = sorted(self.state.forest.queues)
        active = {name: self.state.active_order(name, now_us) for name in names}
        every = {name: self.state.pending_order(name) for name in names}
        return {
            "active": {name: [key.name for key in active[name]] for name in names},
            "inadmissible": {
                name: sorted(k.name for k in every[name] if k not in active[name])
                for name in names
            },
        }

    def quota(self) -> Document:
        """The numbers of the quota trees."""
        self.state.forest.refresh()
        forest = self.state.forest
        fair = self.state.config.fair_sharing is not None
        shown_queues: Document = {}
        for queue_name, queue in forest.queues.items():
            flavors: Document = {}
            for fr in queue.quotas:
                flavors.setdefault(fr.flavor, {})[fr.resource] = {
                    "usage": queue.usage.get(fr, 0),
                    "available": max(0, quota.available(queue, fr)),
                    "potentialAvailable": quota.potential(queue, fr),
                }
            shown_queues[queue_name] = {"flavors": flavors} | _share(queue, fair=fair)
        shown_cohorts = {
            name: {"subtreeQuota": _nested(node.subtree), "usage": _nested(node.usage)}
            | _share(node, fair=fair)
            for name, node in forest.cohorts.items()
        }
        return {"clusterQueues": shown_queues, "cohorts": shown_cohorts}


def _share(node: QuotaNode, *, fair: bool) -> Document:
    if not fair:
        return {}
    value = fairshare.of(node).value()
    return {"weightedShare": "Infinity" if value == math.inf else value}


def _nested(amounts: Mapping[FlavorResource, int]) -> Document:
    found: Document = {}
    for fr, value in amounts.items():
        if value:
            found.setdefault(fr.flavor, {})[fr.resource] = value
    return found


def _reserved(admit: Admit) -> Document:
    pod_sets = {one.name: _pod_set(one) for one in admit.pod_sets}
    return {"clusterQueue": admit.cluster_queue, "podSets": pod_sets}


def _pod_set(one: PodSetAssignment) -> Document:
    return {"count": one.count, "flavors": dict(one.flavors), "resourceUsage": dict(one.usage)}
