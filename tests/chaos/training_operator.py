"""A stand-in for the training operator: it makes the pods of PyTorchJobs that are not suspended.

It keeps nothing between two looks, so that a store that was put back confuses it no more than it
does the real one.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from admission.base.clock import SystemClock, to_wire
from tests.controlplane.rest import Json, Rest, RestError

USER: Final = "system:serviceaccount:kubeflow:training-operator"
GROUP: Final = "kubeflow.org"
PYTORCHJOBS: Final = f"/apis/{GROUP}/v1/pytorchjobs"
JOB_LABEL: Final = "training.kubeflow.org/job-name"
ROLE_LABEL: Final = "training.kubeflow.org/replica-type"
_PERIOD_SECONDS: Final = 0.3
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class TrainingOperator:
    """Looks at everything again and again, in a thread of its own."""

    def __init__(self, rest: Rest, fault: Callable[[str], None]) -> None:
        """Prepare it.

        Args:
            rest: requests of `USER`.
            fault: takes a text about a bug of the stand-in.
        """
        self._rest = rest
        self._fault = fault
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="training-operator", daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def stop(self) -> None:
        """End it; return once it has ended."""
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopping.wait(_PERIOD_SECONDS):
            try:
                self.look()
            except (OSError, RestError):
                continue  # a server is down
            except Exception as bug:
                self._fault(f"training operator: {bug!r}")
                raise

    def look(self) -> None:
        """Do for each PyTorchJob what is to be done now."""
        jobs = self._rest.get(PYTORCHJOBS)["items"]
        pods: defaultdict[str, list[Json]] = defaultdict(list)
        for pod in self._rest.get(f"/api/v1/pods?labelSelector={JOB_LABEL}")["items"]:
            for owner in pod["metadata"].get("ownerReferences") or ():
                pods[owner["uid"]].append(pod)
        for job in jobs:
            if "deletionTimestamp" not in job["metadata"]:
                with suppress(RestError):  # the webhook is down, or it changed meanwhile
                    self._reconcile(job, pods[job["metadata"]["uid"]])

    def _reconcile(self, job: Json, pods: list[Json]) -> None:
        said = {one["type"] for one in _conditions(job) if one["status"] == "True"}
        if "Succeeded" in said:
            return
        is_suspended = bool(job["spec"].get("runPolicy", {}).get("suspend"))
        known = {one["metadata"]["name"]: one for one in pods}
        wanted = {} if is_suspended else {one["metadata"]["name"]: one for one in _pods(job)}
        namespace = job["metadata"]["namespace"]
        for name, pod in known.items():
            is_wanted = name in wanted and pod["status"].get("phase") != "Failed"
            if not is_wanted and "deletionTimestamp" not in pod["metadata"]:
                self._rest.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
        for name, pod in wanted.items():
            if name not in known and self._is_current(job):
                self._rest.post(f"/api/v1/namespaces/{namespace}/pods", pod)
        phases = Counter(known[name]["status"].get("phase") for name in wanted if name in known)
        state = "Running" if phases["Running"] == len(wanted) else "Created"
        if is_suspended:
            state = "Suspended"
        elif wanted and phases["Succeeded"] == len(wanted):
            state = "Succeeded"
        active = Counter(
            one["metadata"]["labels"][ROLE_LABEL]
            for one in known.values()
            if one["status"].get("phase") not in _ENDED
        )
        self._say(job, state, {role: {"active": count} for role, count in sorted(active.items())})

    def _is_current(self, job: Json) -> bool:
        """Return whether a job is still as it was seen: watches of the real one lag by little."""
        metadata = job["metadata"]
        now = self._rest.get(_path(job))["metadata"]
        return all(now.get(key) == metadata.get(key) for key in ("uid", "generation"))

    def _say(self, job: Json, state: str, replicas: Json) -> None:
        before = job.get("status") or {}
        last = [one["type"] for one in _conditions(job) if one["status"] == "True"]
        # A merge patch takes a member away where its value is none.
        gone = {role: None for role in before.get("replicaStatuses") or {} if role not in replicas}
        if last == [state] and not gone and before.get("replicaStatuses", {}) == replicas:
            return
        now = to_wire(SystemClock().now())
        condition = {"type": state, "status": "True", "message": "", "lastTransitionTime": now}
        status = {"conditions": [condition], "replicaStatuses": {**replicas, **gone}}
        self._rest.patch(f"{_path(job)}/status", {"status": status})


def _path(job: Json) -> str:
    metadata = job["metadata"]
    return f"/apis/{GROUP}/v1/namespaces/{metadata['namespace']}/pytorchjobs/{metadata['name']}"


def _conditions(job: Json) -> list[Json]:
    found: list[Json] = (job.get("status") or {}).get("conditions") or []
    return found


def _pods(job: Json) -> Iterator[Json]:
    """Yield the pods that a job wants."""
    metadata = job["metadata"]
    owner = {
        "apiVersion": f"{GROUP}/v1", "kind": "PyTorchJob", "name": metadata["name"],
        "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    for role, replicas in job["spec"]["pytorchReplicaSpecs"].items():
        template = replicas["template"]
        given = template.get("metadata") or {}
        marks = {JOB_LABEL: metadata["name"], ROLE_LABEL: role}
        for index in range(replicas.get("replicas", 1)):
            yield {
                "metadata": {
                    **given,
                    "name": f"{metadata['name']}-{role.lower()}-{index}",
                    "labels": {**(given.get("labels") or {}), **marks},
                    "ownerReferences": [owner],
                },
                "spec": template["spec"],
            }
