"""What another version did to work that it found, judged from the API alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from admission.base import names
from tests.chaos import invariants
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration.installed import KUEUE
from tests.upgrade import record, scene, stored
from tests.upgrade.stored import Stored

_DECISIONS: Final = ("Admitted", "QuotaReserved", "Evicted", "Finished")


def lost(before: Mapping[str, Json], api: Rest) -> list[str]:
    """What runs otherwise, or was decided otherwise, than before.

    A pod that was gated may be released meanwhile; one that ran has to run on as it was.
    """
    return [*_pods(before, api), *_workloads(before, api), *_owners(before, api)]


def over_quota(api: Rest) -> list[str]:
    """What is above a limit: by what Workloads hold, and by what pods do that are not gated."""
    queues, workloads = (
        api.get(f"{KUEUE}/{plural}")["items"] for plural in ("clusterqueues", "workloads")
    )
    found = invariants.over_quota(queues, workloads)
    for namespace, most in scene.LIMITS.items():
        pods = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        held = sum(map(_gpus, pods))
        if held > most:
            found.append(f"namespace {namespace} holds {held} GPUs, {most} are allowed")
    return found


def _gpus(pod: Json) -> int:
    """Whole GPUs that a pod may use."""
    if pod["spec"].get("schedulingGates") or pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return 0
    return sum(
        int(container.get("resources", {}).get("limits", {}).get(names.GPU_RESOURCE, 0))
        for container in pod["spec"]["containers"]
    )


def is_gated(pod: Json) -> bool:
    """Whether our gate holds a pod."""
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] == names.ADMISSION_GATE for gate in gates)


def name_of(document: Json) -> str:
    """The name of an object."""
    return str(document["metadata"]["name"])


def is_true(document: Json, type_: str) -> bool:
    """Whether an object has a condition that is true."""
    return stored.condition(document, type_).get("status") == "True"


def _now(api: Rest, kind: Stored, document: Json) -> Json:
    """An object as it is now; nothing where it is gone, or another one has its name."""
    try:
        found = api.get(kind.object_path(document))
    except RestError:
        return {}
    return found if found["metadata"]["uid"] == document["metadata"]["uid"] else {}


def _pods(before: Mapping[str, Json], api: Rest) -> Iterator[str]:
    for pod in stored.of(before, stored.PODS):
        if is_gated(pod):
            continue
        now, name = _now(api, stored.PODS, pod), name_of(pod)
        if not now:
            yield f"pod {name} is gone"
        elif now["spec"] != pod["spec"]:
            yield f"pod {name} has another spec"
        elif ("deletionTimestamp" in now["metadata"]) != ("deletionTimestamp" in pod["metadata"]):
            yield f"pod {name} was deleted"
        elif now["status"]["phase"] != pod["status"]["phase"]:
            yield f"pod {name} was {pod['status']['phase']}, is {now['status']['phase']}"


def _workloads(before: Mapping[str, Json], api: Rest) -> Iterator[str]:
    for workload in stored.of(before, stored.WORKLOADS):
        now, name = _now(api, stored.WORKLOADS, workload), name_of(workload)
        if not now:
            yield f"Workload {name} is gone"
            continue
        admission = workload["status"].get("admission")
        if admission and now["status"].get("admission") != admission:
            yield f"Workload {name} has another admission"
        for type_ in _DECISIONS:
            was, is_ = stored.condition(workload, type_), stored.condition(now, type_)
            if was.get("status") == "True" and is_ != was:
                yield f"Workload {name}: {type_} was {was}, is {is_}"


def _owners(before: Mapping[str, Json], api: Rest) -> Iterator[str]:
    for kind in (stored.JOBS, *record.ROWS):
        for owner in stored.of(before, kind):
            if _now(api, kind, owner).get("spec") != owner["spec"]:
                yield f"{owner['kind']} {name_of(owner)} has another spec"
