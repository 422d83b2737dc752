"""Stands in for Kueue's manager: each replica reviews pods, and the leader decides.

It goes by a Lease as client-go's candidates do, has pods that a queue may hold wait behind the
gate, and as leader admits those that fit in the quota for GPUs of the only ClusterQueue. It knows
no more of Kueue's rules. As a program: ``--config FILE``, with the members of Kueue's
configuration that a manager needs to start.
"""

import argparse
import base64
import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from typing_extensions import override

from admission.base import names
from admission.base.clock import SystemClock, from_wire, to_wire_micro
from admission.objects import views
from admission.owners import pod as pod_owner
from admission.owners.workload import PriorityClasses
from tests.builders.workloads import make_admission
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration.applied import condition
from tests.integration.installed import KUEUE

NAMESPACE: Final = "kueue-system"
LEASE: Final = (
    f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{names.KUEUE_LEASE_NAME}"
)
_LEASE_SECONDS: Final = 15
_LOOK_SECONDS: Final = 0.5
_ENDED: Final = ("Succeeded", "Failed")
_CONFLICTS: Final = (404, 409)


class Candidate:
    """Takes the Lease when it is free or too old, and renews it."""

    def __init__(self, api: Rest, name: str) -> None:
        self._api = api
        self._name = name
        self._clock = SystemClock()

    def leads(self) -> bool:
        """Try to have the Lease, and return whether it is this process's."""
        now = self._clock.now()
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": to_wire_micro(now),
        }
        try:
            if self._api.lacks(LEASE):
                metadata = {"name": names.KUEUE_LEASE_NAME}
                self._api.post(LEASE.rpartition("/")[0], {"metadata": metadata, "spec": spec})
                return True
            found = self._api.get(LEASE)
            holder, said = found["spec"].get("holderIdentity") or "", found["spec"]
            if holder not in {"", self._name}:
                lasts = timedelta(seconds=said["leaseDurationSeconds"])
                if now < from_wire(said["renewTime"]) + lasts:
                    return False
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            self._api.patch(LEASE, {"metadata": version, "spec": spec})
        except RestError as error:
            if error.status not in _CONFLICTS:
                raise
            return False
        return True


class Decider:
    """Admits pods as far as there is quota."""

    def __init__(self, api: Rest) -> None:
        self._api = api

    def look(self) -> None:
        """Release what fits, the oldest first, and let go of what has ended."""
        selector = f"labelSelector={names.MANAGED_LABEL}%3D{names.MANAGED_VALUE}"
        found = self._api.get(f"/api/v1/pods?{selector}")["items"]
        by_age = sorted(
            found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"])
        )
        free = self._quota() - sum(map(_gpus, filter(_is_released, found)))
        for pod in by_age:
            if pod["status"].get("phase") in _ENDED or "deletionTimestamp" in pod["metadata"]:
                self._let_go(pod)
            elif not _is_released(pod):
                workload = self._workload(pod)
                if _gpus(pod) <= free:
                    self._admit(pod, workload)
                    free -= _gpus(pod)

    def _quota(self) -> int:
        quota = 0
        for queue in self._api.get(f"{KUEUE}/clusterqueues")["items"]:
            (group,) = queue["spec"]["resourceGroups"]
            quota = int(group["flavors"][0]["resources"][0]["nominalQuota"])
        return quota

    def _workload(self, pod: Json) -> str:
        """Have a Workload of the pod, and return its path."""
        view = msgspec.convert(pod, views.Pod)
        whole = msgspec.convert(pod, views.PodDocument)
        document = pod_owner.build(view, whole, PriorityClasses(workload={}, pod={}))
        document["metadata"]["finalizers"] = [names.RESOURCE_IN_USE]
        path = f"{KUEUE}/namespaces/{view.metadata.namespace}/workloads"
        with suppress(RestError):  # it is there already
            self._api.post(path, document)
        return f"{path}/{document['metadata']['name']}"

    def _admit(self, pod: Json, workload: str) -> None:
        metadata = pod["metadata"]
        conditions = [
            condition(kind, "True", kind, "said by Kueue")
            for kind in ("QuotaReserved", "Admitted")
        ]
        (flavor,) = self._api.get(f"{KUEUE}/resourceflavors")["items"]
        (queue,) = self._api.get(f"{KUEUE}/clusterqueues")["items"]
        admission = make_admission(
            queue["metadata"]["name"], flavor["metadata"]["name"], _gpus(pod)
        )
        status = {"conditions": conditions, "admission": admission}
        self._api.patch(f"{workload}/status", {"status": status})
        change = {
            "metadata": {
                "labels": {names.PODSET_LABEL: "main"},
                "annotations": {names.WORKLOAD_ANNOTATION: workload.rpartition("/")[2]},
                "resourceVersion": metadata["resourceVersion"],
            },
            "spec": {
                "schedulingGates": None,
                "nodeSelector": flavor["spec"].get("nodeLabels"),
                "tolerations": [
                    *pod["spec"].get("tolerations", ()), *flavor["spec"].get("tolerations", ())
                ],
            },
        }  # fmt: skip
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._api.patch(path, change)

    def _let_go(self, pod: Json) -> None:
        metadata = pod["metadata"]
        left = [one for one in metadata.get("finalizers", ()) if one != names.KUEUE_POD_FINALIZER]
        if len(left) == len(metadata.get("finalizers", ())):
            return
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._api.patch(path, {"metadata": {"finalizers": left}})


def _is_released(pod: Json) -> bool:
    return not pod["spec"].get("schedulingGates") and pod["status"].get("phase") not in _ENDED


def _gpus(pod: Json) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"].get("limits", {}).get(names.GPU_RESOURCE, 0))


def review(request: Json, *, mutates: bool) -> Json:
    """Answer a review: new pods wait behind the gate, everything else is as it was."""
    answer: Json = {"uid": request["uid"], "allowed": True}
    if mutates and request["kind"]["kind"] == "Pod":
        changes = list(_changes(request["object"]))
        patch = base64.b64encode(json.dumps(changes).encode()).decode()
        answer |= {"patchType": "JSONPatch", "patch": patch}
    return answer


def _changes(pod: Json) -> Iterator[Json]:
    metadata, spec = pod["metadata"], pod["spec"]
    labels = {"kueue.x-k8s.io/queue-name": "default", **(metadata.get("labels") or {})}
    labels[names.MANAGED_LABEL] = names.MANAGED_VALUE
    finalizers = {*(metadata.get("finalizers") or ()), names.KUEUE_POD_FINALIZER}
    gates = {one["name"] for one in spec.get("schedulingGates") or ()} | {names.ADMISSION_GATE}
    yield {"op": "add", "path": "/metadata/labels", "value": labels}
    yield {"op": "add", "path": "/metadata/finalizers", "value": sorted(finalizers)}
    value = [{"name": one} for one in sorted(gates)]
    yield {"op": "add", "path": "/spec/schedulingGates", "value": value}


class _Handler(BaseHTTPRequestHandler):
    """Answers probes and reviews."""

    def do_GET(self) -> None:
        self._answer(b"ok")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        made = {
            "apiVersion": asked["apiVersion"],
            "kind": asked["kind"],
            "response": review(asked["request"], mutates="mutating" in self.path),
        }
        self._answer(json.dumps(made).encode())

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Be silent."""


def _serve(port: int, certificates: Path | None = None) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _connected() -> Rest:
    """Requests with the account of the pod, as `Kubelet` mounts it."""
    account = Path(os.environ["CONTAINER_ACCOUNT"])
    port = int(os.environ["KUBERNETES_SERVICE_PORT"])
    return Rest(port, account / "ca.crt", (account / "token").read_text())


def main() -> None:
    """Run until it is told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args()
    config = yaml.safe_load(options.config.read_text())
    webhook = config["webhook"]
    _serve(webhook["port"], Path(webhook["certDir"]))
    _serve(int(config["health"]["healthProbeBindAddress"].rpartition(":")[2]))
    api = _connected()
    candidate = Candidate(api, os.environ["HOSTNAME"])
    decider = Decider(api)
    pause = threading.Event()
    while not pause.wait(_LOOK_SECONDS):
        try:
            if candidate.leads():
                decider.look()
        except (RestError, OSError) as error:
            print(error, flush=True)


if __name__ == "__main__":
    main()
