"""Queues and hand-made Workloads on a real API server, and what their conditions say."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from admission.base import names
from tests.builders.metadata import make_condition
from tests.builders.queues import make_check
from tests.builders.workloads import make_pod_set, make_workload
from tests.controlplane import waiting
from tests.controlplane.rest import Json, RestError
from tests.integration.installed import KUEUE, Installed

API_VERSION = "kueue.x-k8s.io/v1beta2"

Told = tuple[str, str, str]
"""Status, reason and message of a condition."""


def create(system: Installed, plural: str, kind: str, name: str, spec: Json, ns: str = "") -> Json:
    """Creates an object of ours."""
    metadata = {"name": name, **({"namespace": ns} if ns else {})}
    return system.api.post(
        path(plural, ns=ns),
        {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec},
    )


def path(plural: str, name: str = "", ns: str = "") -> str:
    """Path of a collection, or of an object."""
    scope = f"/namespaces/{ns}" if ns else ""
    return f"{KUEUE}{scope}/{plural}" + (f"/{name}" if name else "")


def edit(system: Installed, plural: str, name: str, spec: Json, ns: str = "") -> Json:
    """Changes members of a spec."""
    return system.api.patch(path(plural, name, ns), {"spec": spec})


def get_or_none(system: Installed, where: str) -> Json | None:
    """An object; None where there is none."""
    try:
        return system.api.get(where)
    except RestError as error:
        if error.status == 404:
            return None
        raise


def status_of(system: Installed, plural: str, name: str, ns: str = "") -> Json:
    """Status of an object."""
    found: Json = system.api.get(path(plural, name, ns)).get("status", {})
    return found


def condition(document: Json, kind: str) -> Told | None:
    """A condition of a stored object."""
    for one in document.get("status", {}).get("conditions", []):
        if one["type"] == kind:
            return one["status"], one["reason"], one["message"]
    return None


def await_condition(
    system: Installed, where: str, kind: str, wanted: Callable[[Told], bool] | Told
) -> Told:
    """Waits until a condition is as wanted; the condition."""
    last: list[Told | None] = [None]

    def look() -> Told | None:
        last[0] = found = condition(system.api.get(where), kind)
        if found is None:
            return None
        is_wanted = wanted(found) if callable(wanted) else found == wanted
        return found if is_wanted else None

    try:
        return waiting.until(look, what=f"{kind} of {where}")
    except TimeoutError:
        assert last[0] == wanted, f"{kind} of {where}"
        raise


def history(system: Installed, plural: str, name: str, ns: str, since: str) -> list[Json]:
    """Every version of an object after a resourceVersion, as a watch tells them.

    A watch may lag behind what a read shows; it is repeated until it does not.
    """
    where = (
        f"{path(plural, ns=ns)}?watch=true&resourceVersion={since}&timeoutSeconds=1"
        f"&fieldSelector=metadata.name={name}"
    )
    newest = system.api.get(path(plural, name, ns))["metadata"]["resourceVersion"]
    found: list[Json] = []

    def is_whole() -> bool:
        events: Iterable[Json] = map(json.loads, system.api.text("GET", where).splitlines())
        found[:] = [one["object"] for one in events if one["type"] in {"ADDED", "MODIFIED"}]
        return newest in {since, *(one["metadata"]["resourceVersion"] for one in found)}

    waiting.until(is_whole, what=f"version {newest} in a watch")
    return found


def told(versions: Iterable[Json], kind: str) -> list[Told]:
    """What a condition said, version after version, without repetitions."""
    found = [one for version in versions if (one := condition(version, kind)) is not None]
    return [one for place, one in enumerate(found) if not place or found[place - 1] != one]


def gpu_quota(flavor: str, quota: int, **limits: int) -> Json:
    """A flavor of a resource group."""
    numbers = {"name": names.GPU_RESOURCE, "nominalQuota": quota, **limits}
    return {"name": flavor, "resources": [numbers]}


def gpu_group(*flavors: Json) -> Json:
    """A resource group of GPUs."""
    return {"coveredResources": [names.GPU_RESOURCE], "flavors": list(flavors)}


def add_check(
    system: Installed, name: str, *, controller: str = "example.com/budget", active: bool = True
) -> None:
    """An admission check as its controller keeps it."""
    system.api.post(path("admissionchecks"), make_check(name, controller))
    said = ("True", "Active", "") if active else ("False", "Broken", "")
    status = {"conditions": [make_condition("Active", *said)]}
    system.api.patch(f"{path('admissionchecks', name)}/status", {"status": status})


def asking_for(*checks: str) -> Json:
    """Spec members of a ClusterQueue that asks for admission checks."""
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": one} for one in checks]}}


def add_workload(
    system: Installed, ns: str, name: str, *, queue: str = "default", gpus: int = 1, **spec: Any
) -> Json:
    """A Workload that no pod or Job owns; as it was created."""
    workload = make_workload(name, make_pod_set(gpus=gpus), namespace=ns, queue=queue, **spec)
    return system.api.post(path("workloads", ns=ns), workload)


def await_admitted(system: Installed, ns: str, name: str) -> None:
    """Waits until a Workload is admitted."""
    await_condition(
        system,
        path("workloads", name, ns),
        "Admitted",
        ("True", "Admitted", "The workload is admitted"),
    )


def await_reserved(system: Installed, ns: str, name: str) -> Json:
    """Waits until a Workload holds quota and waits for its checks; the Workload."""
    where = path("workloads", name, ns)
    await_condition(
        system,
        where,
        "Admitted",
        ("False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready"),
    )
    return system.api.get(where)


def finish(system: Installed, ns: str, name: str) -> None:
    """Reports the end of a Workload as a job framework does."""
    where = path("workloads", name, ns)
    ended = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "done",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    found = system.api.get(where)["status"].get("conditions", [])
    system.api.patch(f"{where}/status", {"status": {"conditions": [*found, ended]}})
