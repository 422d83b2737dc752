"""Other writers of Workloads and checks: they use server-side apply on the status."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tests.builders.queues import make_check
from tests.builders.workloads import make_pod_set, make_workload
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration.installed import KUEUE, Installed

APPLY = "application/apply-patch+yaml"
API_VERSION = "kueue.x-k8s.io/v1beta2"

Json = dict[str, Any]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 - another writer's clock


def condition(kind: str, status: str, reason: str, message: str = "by another writer") -> Json:
    """A condition as another writer sets it now."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
    }


def check(name: str, state: str, message: str = "", **more: Any) -> Json:
    """State of an admission check as its controller sets it now."""
    return {"name": name, "state": state, "message": message, "lastTransitionTime": now(), **more}


class Workloads:
    """Workloads of one namespace, seen and written as by another controller."""

    def __init__(self, system: Installed, namespace: str) -> None:
        self.api = system.api
        self.namespace = namespace
        self.path = f"{KUEUE}/namespaces/{namespace}/workloads"

    def create(self, name: str, gpus: int = 1, count: int = 1, **changes: Any) -> Json:
        """A Workload made by hand; ``changes`` are of its metadata and spec."""
        pod_set = make_pod_set("main", count, gpus=gpus, **changes.pop("pod_set", {}))
        document = make_workload(name, pod_set, namespace="", queue="default", **changes)
        return self.api.post(self.path, document)

    def get(self, name: str) -> Json:
        return self.api.get(f"{self.path}/{name}")

    def exists(self, name: str) -> bool:
        try:
            self.get(name)
        except RestError as error:
            if error.status != 404:
                raise
            return False
        return True

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.path}/{name}")

    def patch(self, name: str, spec: Mapping[str, Any]) -> Json:
        """Changes the spec, as a person does."""
        return self.api.patch(f"{self.path}/{name}", {"spec": dict(spec)})

    def apply(self, name: str, manager: str, **status: Any) -> Json:
        """Applies members of the status as a field manager, by force."""
        document = {
            "apiVersion": API_VERSION,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": self.namespace},
            "status": status,
        }
        query = f"fieldManager={quote(manager)}&force=true"
        return self.api.patch(f"{self.path}/{name}/status?{query}", document, APPLY)

    def say(self, name: str, manager: str, *conditions: Json) -> Json:
        """Applies conditions as a field manager."""
        return self.apply(name, manager, conditions=list(conditions))

    def condition(self, name: str, kind: str) -> Json:
        """A condition; empty where there is none."""
        found = self.get(name).get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def said(self, name: str, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        found = self.condition(name, kind)
        return found.get("status", ""), found.get("reason", "")

    def wait(self, name: str, kind: str, status: str, reason: str = "") -> Json:
        """Waits until a condition is so; the condition."""

        def look() -> Json | None:
            found = self.condition(name, kind)
            is_so = found.get("status") == status and reason in {"", found.get("reason")}
            return found if is_so else None

        what = f"Workload {self.namespace}/{name}: {kind}={status} {reason}"
        return waiting.until(look, what=what)

    def checks(self, name: str) -> dict[str, Json]:
        """States of the admission checks by name."""
        found = self.get(name).get("status", {}).get("admissionChecks", [])
        return {one["name"]: one for one in found}

    def clear(self, name: str) -> None:
        """Ends an eviction as a job controller does that has stopped its pods.

        It is the field manager kueue-admission, and sends all that it owns: no admission.
        """
        found = self.get(name)
        evicted = self.condition(name, "Evicted")
        kept = [
            one
            for one in found["status"]["conditions"]
            if one["type"] not in {"QuotaReserved", "Admitted", "Requeued"}
        ]
        again = "True" if evicted["reason"] == "Preempted" else "False"
        self.say(
            name,
            "kueue-admission",
            *kept,
            condition("QuotaReserved", "False", "PendingEvaluation", evicted["message"]),
            condition("Admitted", "False", "NoReservation", "The workload has no reservation"),
            condition("Requeued", again, evicted["reason"], evicted["message"]),
        )


def reserved(system: Installed, queue: str) -> str:
    """What the ClusterQueue says is reserved of its first resource."""
    status = system.api.get(f"{KUEUE}/clusterqueues/{queue}").get("status", {})
    found = status.get("flavorsReservation") or [{"resources": [{"total": "0"}]}]
    total: str = found[0]["resources"][0]["total"]
    return total


def wait_told(system: Installed, ns: str, kind: str, reason: str, note: str | None = None) -> None:
    """Waits until an event is told about an object of a kind, with any note if none is given."""
    where = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"

    def look() -> bool:
        found = [one for one in system.api.get(where)["items"] if one["reason"] == reason]
        return any(
            one["regarding"]["kind"] == kind and note in {None, one["note"]} for one in found
        )

    waiting.until(look, what=f"event {reason} on a {kind}")


def wait_reserved(system: Installed, queue: str, amount: int) -> None:
    waiting.until(
        lambda: reserved(system, queue) == str(amount),
        what=f"{amount} reserved in ClusterQueue {queue}",
    )


def stop(system: Installed, path: str, policy: str) -> None:
    """Sets the stopPolicy of a queue."""
    system.api.patch(f"{KUEUE}/{path}", {"spec": {"stopPolicy": policy}})


class Check:
    """An admission check with its external controller."""

    def __init__(self, system: Installed, name: str, *, active: bool | None = True) -> None:
        self._api = system.api
        self.name = name
        self.path = f"{KUEUE}/admissionchecks"
        self._api.post(self.path, make_check(name, "example.com/checker"))
        if active is not None:
            self.set_active(active=active)

    def set_active(self, *, active: bool) -> None:
        status = "True" if active else "False"
        found = condition("Active", status, "Active" if active else "NoBudget")
        document = {
            "apiVersion": API_VERSION,
            "kind": "AdmissionCheck",
            "metadata": {"name": self.name},
            "status": {"conditions": [found]},
        }
        query = "fieldManager=example.com%2Fchecker&force=true"
        self._api.patch(f"{self.path}/{self.name}/status?{query}", document, APPLY)

    def answer(
        self, workloads: Workloads, name: str, state: str, message: str = "", **more: Any
    ) -> None:
        """Says how the check stands for a Workload."""
        workloads.apply(
            name,
            f"example.com/{self.name}",
            admissionChecks=[check(self.name, state, message, **more)],
        )


def active(system: Installed, queue: str) -> Json:
    """Condition Active of a ClusterQueue."""
    status = system.api.get(f"{KUEUE}/clusterqueues/{queue}").get("status", {})
    found = [one for one in status.get("conditions", []) if one["type"] == "Active"]
    return found[0] if found else {}


def wait_inactive(system: Installed, queue: str, reason: str) -> str:
    """Waits until a ClusterQueue is inactive for a reason; the message."""

    def look() -> Json | None:
        found = active(system, queue)
        return found if found.get("reason") == reason else None

    what = f"ClusterQueue {queue} inactive: {reason}"
    message: str = waiting.until(look, what=what)["message"]
    return message
