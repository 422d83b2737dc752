"""A stand-in for the controller of an admission check: it answers every Workload that asks.

Most are let in; some have to try again, and some are refused until their Workload is activated.
"""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Final

from admission.base.clock import SystemClock, to_wire
from tests.controlplane.rest import Json, Rest, RestError

CHECK: Final = "budget"
CONTROLLER: Final = "chaos.test/budget"
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
_APPLY: Final = "application/apply-patch+yaml"
_PERIOD_SECONDS: Final = 0.5
_STATES: Final = (*("Ready",) * 8, "Retry", "Rejected")


class Budget:
    """Looks at the Workloads of a namespace again and again, in a thread of its own."""

    def __init__(
        self, rest: Rest, namespace: str, rng: random.Random, fault: Callable[[str], None]
    ) -> None:
        """Prepare it.

        Args:
            rest: requests of an administrator.
            namespace: of the Workloads.
            rng: draws the answers.
            fault: takes a text about a bug of the stand-in.
        """
        self._rest = rest
        self._path = f"{_KUEUE}/namespaces/{namespace}/workloads"
        self._namespace = namespace
        self._rng = rng
        self._fault = fault
        self._is_generous = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="budget", daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def stop(self) -> None:
        """End it; return once it has ended."""
        self._stopping.set()
        self._thread.join(60)

    def let_all_in(self) -> None:
        """Refuse nobody any more."""
        self._is_generous.set()

    def _run(self) -> None:
        while not self._stopping.wait(_PERIOD_SECONDS):
            try:
                self.look()
            except (OSError, RestError):
                continue  # a server is down, or a Workload has just gone
            except Exception as bug:
                self._fault(f"budget: {bug!r}")
                raise

    def look(self) -> None:
        """Answer each Workload that asks."""
        for workload in self._rest.get(self._path)["items"]:
            for check in _asking(workload):
                self._answer(workload["metadata"]["name"], check["name"])

    def _answer(self, workload: str, check: str) -> None:
        state = "Ready" if self._is_generous.is_set() else self._rng.choice(_STATES)
        said = {
            "name": check, "state": state, "message": "made up",
            "lastTransitionTime": to_wire(SystemClock().now()),
        }  # fmt: skip
        document = {
            "apiVersion": _API_VERSION,
            "kind": "Workload",
            "metadata": {"name": workload, "namespace": self._namespace},
            "status": {"admissionChecks": [said]},
        }
        query = "fieldManager=chaos.test%2Fbudget&force=true"
        self._rest.patch(f"{self._path}/{workload}/status?{query}", document, _APPLY)


def activate(rest: Rest) -> None:
    """Say that the check is active, as its controller does."""
    now = to_wire(SystemClock().now())
    active = {
        "type": "Active", "status": "True", "reason": "Active", "message": "made up",
        "lastTransitionTime": now,
    }  # fmt: skip
    document = {
        "apiVersion": _API_VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": CHECK},
        "status": {"conditions": [active]},
    }
    query = "fieldManager=chaos.test%2Fbudget&force=true"
    rest.patch(f"{_KUEUE}/admissionchecks/{CHECK}/status?{query}", document, _APPLY)


def _asking(workload: Json) -> Iterator[Json]:
    """Yield the checks of a Workload that wait for an answer; none before it has quota."""
    status = workload.get("status") or {}
    has_quota = any(
        (one["type"], one["status"]) == ("QuotaReserved", "True")
        for one in status.get("conditions") or ()
    )
    for check in status.get("admissionChecks") or ():
        if has_quota and check["state"] == "Pending":
            yield check
