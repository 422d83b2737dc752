"""Pods that leave their node though neither their owner nor a queue asked for it.

Of a pod without an owner that a drain evicts nothing is left, not even its Workload. So an event
says where it ran and why it left, on the pod and on what controls it.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.base import conditions, events
from admission.base.clock import Clock
from admission.base.events import Event, Events
from admission.controller.writing import api_requests
from admission.kube import resources
from admission.objects import views

_JOB: Final = (resources.JOBS.api_version, resources.JOBS.kind)
_MOST: Final = 1000
_NEWS_SECONDS: Final = 60.0
"""What is older was told by an earlier leader."""


@dataclass(frozen=True, slots=True)
class _Disruption:
    """An event that is to be recorded, and since when, by the monotonic clock."""

    regarding: Mapping[str, Any]
    event: Event
    at: float


class Disruptions:
    """Notes pods that are disrupted; who leads tells of them."""

    def __init__(self, clock: Clock) -> None:
        """Begin with nothing to tell.

        Args:
            clock: source of time.
        """
        self._clock = clock
        self._untold: deque[_Disruption] = deque(maxlen=_MOST)
        self._of_jobs: dict[str, int] = {}
        """Disrupted pods by the UID of their Job, the last one last."""

    def note(self, before: views.Pod, pod: views.Pod) -> None:
        """Take a pod that runs, as it was and as it is now."""
        disruption = _disruption(pod)
        if disruption is None or _disruption(before) is not None or not pod.spec.node_name:
            return
        now = self._clock.monotonic()
        facts = pod.spec.node_name, disruption.reason, disruption.message
        regarding = api_requests.reference(resources.PODS, pod.metadata)
        self._untold.append(_Disruption(regarding, events.disrupted(*facts), now))
        owner = pod.metadata.controller()
        if owner is None:
            return
        of_owner = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "namespace": pod.metadata.namespace,
            "name": owner.name,
            "uid": owner.uid,
        }
        event = events.pod_disrupted(*facts)
        if (owner.api_version, owner.kind) == _JOB:
            event = events.pod_of_job_disrupted(event, self._count(owner.uid))
        self._untold.append(_Disruption(of_owner, event, now))

    def _count(self, job: str) -> int:
        """Return how many pods of a Job were disrupted with this one; the oldest are forgotten."""
        count = self._of_jobs.pop(job, 0) + 1
        self._of_jobs[job] = count
        if len(self._of_jobs) > _MOST:
            del self._of_jobs[next(iter(self._of_jobs))]
        return count

    def tell(self, recorder: Events) -> None:
        """Record what was noted since the last call."""
        now = self._clock.monotonic()
        while self._untold:
            untold = self._untold.popleft()
            if now - untold.at < _NEWS_SECONDS:
                recorder.event(untold.regarding, untold.event)


def _disruption(pod: views.Pod) -> views.PodCondition | None:
    """Return why a pod is disrupted; None where it is not."""
    return next(
        (
            condition
            for condition in pod.status.conditions or ()
            if condition.type == conditions.DISRUPTION_TARGET and condition.status == "True"
        ),
        None,
    )
