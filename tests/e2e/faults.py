"""What users notice of a fault of one replica: failed reviews, and how long nobody is admitted."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from admission.base.clock import SystemClock, to_wire
from tests.controlplane import waiting
from tests.controlplane.kubelet import PodProcess
from tests.controlplane.rest import RestError
from tests.e2e.charted import COMPONENTS, DEPLOYMENTS, WEBHOOK, Charted, Reviews

_QUIET_SECONDS: Final = 3.0
"""Under load before a fault, and after the last thing that it may have changed."""
_LASTS_SECONDS: Final = 30.0
"""How long a replica is frozen or cut off."""

Fault = Callable[[Charted], Iterator[None]]


@dataclass(frozen=True, slots=True)
class Noticed:
    """What a fault came to.

    Attributes:
        reviews: how many were asked for while it was looked.
        failed: how many of them failed.
        late: how many failed because they took longer than the API server waits.
        answered_after: seconds from the fault until the last failed review had ended; 0 if none
            failed.
        admitted_after: seconds from the fault until a pod was admitted that was created then, and
            created again until the API server took it.
    """

    reviews: int
    failed: int
    late: int
    answered_after: float
    admitted_after: float


def notice(system: Charted, namespace: str, fault: Fault) -> Noticed:
    """Have a fault happen under reviews, repair it, and return what was noticed.

    Args:
        system: with all replicas up; they are up again afterwards.
        namespace: has a queue with quota left.
        fault: does something to a replica, and undoes it after the first yield.
    """
    clock, pause = SystemClock(), threading.Event()
    with Reviews(system, namespace, threads=8, pause_seconds=0.5) as reviews:
        pause.wait(_QUIET_SECONDS)
        began = clock.monotonic()
        with contextmanager(fault)(system):
            admitted = _admission(system, namespace) - began
        system.wait_rolled_out()
        system.wait_drained()
        system.wait_leader()
        pause.wait(_QUIET_SECONDS)
    failed = reviews.failed
    return Noticed(
        reviews=len(reviews.answers),
        failed=len(failed),
        late=sum(one.is_late for one in failed),
        answered_after=round(failed[-1].ended - began, 2) if failed else 0.0,
        admitted_after=round(admitted, 2),
    )


def _admission(system: Charted, namespace: str) -> float:
    """Create a pod, wait until it runs and delete it; return when it ran, in monotonic seconds."""
    name, clock = "probe", SystemClock()

    def is_created() -> bool:
        with suppress(RestError, OSError):
            system.create_pod(namespace, name)
        return system.api.answers(f"/api/v1/namespaces/{namespace}/pods/{name}")

    waiting.until(is_created, what="a pod created")
    system.wait_running(namespace, name)
    ended = clock.monotonic()
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    system.api.delete(path)
    waiting.until(lambda: system.api.lacks(path), what="the pod gone")
    return ended


# -------------------------------------------------------------------------------------- the faults


def _killed(choose: Callable[[Charted], PodProcess]) -> Fault:
    def fault(system: Charted) -> Iterator[None]:
        pod = choose(system)
        restarts = pod.restarts
        pod.signal(signal.SIGKILL)
        yield
        waiting.until(lambda: pod.restarts > restarts, what="the container started again")

    return fault


def _frozen(choose: Callable[[Charted], PodProcess]) -> Fault:
    def fault(system: Charted) -> Iterator[None]:
        with choose(system).frozen(), _lasting():
            yield

    return fault


def _cut_off(choose: Callable[[Charted], PodProcess]) -> Fault:
    def fault(system: Charted) -> Iterator[None]:
        with choose(system).cut_off(), _lasting():
            yield

    return fault


@contextmanager
def _lasting() -> Iterator[None]:
    """Last for some time at least, whatever the block does."""
    clock = SystemClock()
    until = clock.monotonic() + _LASTS_SECONDS
    yield
    threading.Event().wait(max(0.0, until - clock.monotonic()))


def restart_all(system: Charted) -> Iterator[None]:
    """Replace all pods, as `kubectl rollout restart` does."""
    now = to_wire(SystemClock().now())
    template = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}}
    for component in COMPONENTS:
        path = f"{DEPLOYMENTS}/gpu-admission-{component}"
        system.api.patch(path, {"spec": {"template": template}})
    yield


def _webhook(system: Charted) -> PodProcess:
    return system.kubelet.pods(WEBHOOK)[0]


def _leader(system: Charted) -> PodProcess:
    return system.wait_leader()


kill_webhook: Final = _killed(_webhook)
kill_leader: Final = _killed(_leader)

FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {
        "all pods replaced": restart_all,
        "webhook killed": kill_webhook,
        "webhook frozen": _frozen(_webhook),
        "webhook cut off": _cut_off(_webhook),
        "leader killed": kill_leader,
        "leader frozen": _frozen(_leader),
        "leader cut off": _cut_off(_leader),
    }
)
"""What may happen to one replica of two, and what an administrator does to all."""
