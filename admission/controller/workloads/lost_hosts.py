"""Workloads of which an assigned host is lost: it is replaced, or they are evicted.

So it is with one that has no host at all: it was made anew for an owner that runs.
A host is lost once its node is gone; or once its node is not ready, or has a taint that the pods
do not tolerate for ever, and none of them goes on there. Time alone decides nothing (ADR 0272).
Source: kueue pkg/controller/tas/node_controller.go, with its default gates.
Differs: hosts that are lost at the same time are replaced, too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from admission.base import conditions, events, names
from admission.base.clock import Clock
from admission.base.conditions import Text
from admission.base.names import ChargeKey, PodSetName, WorkloadKey
from admission.controller.workloads import evictions, statuses
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    RequestResult,
    Result,
    WritePurpose,
)
from admission.objects.workload import Workload, has_domains
from admission.reasons import added_conditions, kueue
from admission.scheduling.model import PodDomains
from admission.scheduling.state import SchedulerState
from admission.scheduling.topology.domains import ToldPods

_REVERTED: Final = frozenset({Result.CONFLICT, Result.GONE, Result.REFUSED, Result.DROPPED})
"""What came of a write that took no effect."""
_WRITES: Final = frozenset({WritePurpose.REPLACE_HOSTS, WritePurpose.EVICT})


def _unknown(key: WorkloadKey, node: str) -> bool:  # noqa: ARG001  # the form of a hook
    """Take that pods go on everywhere."""
    return True


def _none_told(key: WorkloadKey) -> tuple[ToldPods, bool]:  # noqa: ARG001  # the form of a hook
    """Take that no pod has a domain, or waits for one."""
    return {}, False


class _Decision(NamedTuple):
    """What was decided about a version of a Workload.

    Attributes:
        version: of the Workload.
        domains: where its pods are from now on, by pod set.
        eviction: why it is evicted; None where it goes on.
    """

    version: str
    domains: Mapping[PodSetName, PodDomains]
    eviction: Text | None = None


class LostHosts:
    """Workloads with a host that may be lost, and what is written about them.

    Attributes:
        goes_on: tells whether a pod of a Workload runs on a node, and is not being deleted.
        told: see `RunningPods.told`.
    """

    def __init__(
        self,
        state: SchedulerState,
        clock: Clock,
        take_again: Callable[[WorkloadKey], object],
    ) -> None:
        """Know of no Workload.

        Args:
            state: places pods.
            clock: the present.
            take_again: has the state take a Workload as it is stored.
        """
        self.goes_on: Callable[[WorkloadKey, str], bool] = _unknown
        self.told: Callable[[WorkloadKey], tuple[ToldPods, bool]] = _none_told
        self._state = state
        self._clock = clock
        self._take_again = take_again
        self._suspected: dict[ChargeKey, None] = {}
        self._unassigned: dict[WorkloadKey, None] = {}
        """Those of which some pods run, and for the others there was no domain."""
        self._version = -1
        self._decided: dict[WorkloadKey, _Decision] = {}
        """What was decided and is not written yet."""
        self._looked_at: WorkloadKey | None = None
        """The Workload about which `decide` has looked in this turn."""

    def on_turn(self) -> None:
        """Take that another Workload may be looked at, or the same one again."""
        self._looked_at = None

    def take_shaken(self) -> tuple[ChargeKey, ...]:
        """Return the Workloads to look at, as nodes have changed: theirs, or any they wait for."""
        shaken = self._state.take_shaken()
        self._suspected.update(dict.fromkeys(shaken))
        version = self._state.places.ledger.version
        if not self._unassigned or version == self._version:
            return shaken
        self._version = version
        return (*shaken, *self._unassigned)

    def of_pod(self, key: WorkloadKey) -> Iterable[WorkloadKey]:
        """Return the Workload to look at, if any, as a pod of it has left a node."""
        return (key,) if key in self._suspected else ()

    def is_undecided(self, workload: Workload) -> bool:
        """Return whether `decide` has to look at a Workload before anything is written."""
        key = workload.key()
        if self._looked_at == key or self._is_decided(workload):
            return False
        is_placed_by_us = self._state.has_topologies and _has_quota(workload)
        return (
            key in self._suspected
            or key in self._unassigned
            or (is_placed_by_us and self._state.lacks_domains(key))
        )

    def _is_decided(self, workload: Workload) -> bool:
        decision = self._decided.get(workload.key())
        return decision is not None and decision.version == workload.metadata.resource_version

    def decide(self, workload: Workload) -> None:
        """Decide where pods of a Workload go on that lost their hosts; nowhere: to evict it."""
        key = self._looked_at = workload.key()
        self._decided.pop(key, None)
        if self._state.has_topologies and self._assign(workload):
            return
        if key not in self._suspected:
            return
        if not _concerns(workload):
            del self._suspected[key]
            return
        away = self._state.away_hosts(key)
        if not away:
            del self._suspected[key]
        lost = [gone.host for gone in away if not (gone.node and self.goes_on(key, gone.node))]
        if not lost:
            return
        is_replaced = self._state.replace_hosts(key, lost, self._now_us())
        self._decide(workload, None if is_replaced else kueue.no_replacement(lost))

    def _assign(self, workload: Workload) -> bool:
        """Assign domains to a Workload without, whose pods wait for them; return if decided.

        It is evicted where there are none, unless some of its pods run: these go on.
        """
        key = workload.key()
        self._unassigned.pop(key, None)
        if not (_has_quota(workload) and self._state.lacks_domains(key)):
            return False
        pods, is_waiting = self.told(key)
        if not is_waiting:
            return False
        is_assigned = self._state.assign_domains(key, pods, self._now_us())
        if is_assigned is None:
            return False
        if not is_assigned and any(pods.values()):
            self._unassigned[key] = None
            return False
        self._decide(workload, None if is_assigned else added_conditions.NO_DOMAIN_ANEW)
        return True

    def _decide(self, workload: Workload, eviction: Text | None) -> None:
        """Remember what was decided about a Workload until it is written."""
        key, version = workload.key(), workload.metadata.resource_version
        domains = self._state.domains(key) if eviction is None else {}
        self._decided[key] = _Decision(version, domains, eviction)

    def _now_us(self) -> int:
        return int(self._clock.now().timestamp() * 1_000_000)

    def next_request(self, workload: Workload) -> ApiRequest | None:
        """Return the write of what was decided about a Workload, or None for none."""
        decision = self._decided.get(workload.key())
        if decision is None or decision.version != workload.metadata.resource_version:
            return None
        if decision.eviction is not None:
            status = evictions.evict(workload, decision.eviction, self._clock.now())
            announced = (events.evicted(*decision.eviction),)
            return api_requests.set_workload_status(
                workload, WritePurpose.EVICT, status, announced
            )
        status = statuses.replace_domains(workload, decision.domains)
        return api_requests.set_workload_status(workload, WritePurpose.REPLACE_HOSTS, status)

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take what came of a write; call before the answer is seen."""
        if outcome.request.operation not in _WRITES or outcome.result not in _REVERTED:
            return
        decision = self._decided.pop(key, None)
        if decision is not None:
            self._suspected[key] = None
            if decision.eviction is None:
                self._take_again(key)

    def forget(self, key: WorkloadKey) -> None:
        """Take that a Workload is gone."""
        self._suspected.pop(key, None)
        self._unassigned.pop(key, None)
        self._decided.pop(key, None)


def _concerns(workload: Workload) -> bool:
    """Return whether hosts of a Workload may be replaced.

    Not those of pods that were told theirs and are made by nobody again, and not where the
    scheduler places the pods.
    """
    controller = workload.metadata.controller()
    is_pod = controller is not None and (controller.api_version, controller.kind) == ("v1", "Pod")
    return (
        has_domains(workload)
        and not (is_pod and workload.status.is_true(conditions.ADMITTED))
        and _has_quota(workload)
    )


def _has_quota(workload: Workload) -> bool:
    """Return whether a Workload has quota and goes on, and does not grow."""
    status = workload.status
    return (
        not workload.metadata.deletion_timestamp
        and not workload.metadata.annotation(names.ELASTIC_JOB)
        and status.is_true(conditions.QUOTA_RESERVED)
        and not status.is_true(conditions.EVICTED)
        and not status.is_true(conditions.FINISHED)
    )
