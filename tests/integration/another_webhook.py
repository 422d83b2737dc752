"""A mutating webhook of somebody else that comes after ours, as service meshes have.

It adds to each new pod the container that an annotation of the pod holds, as JSON, and writes what
a second one holds; and, when a pod or a Job is changed, what a third one holds, as policy engines
do.
"""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from admission.base.clock import SystemClock
from certs import files
from tests.controlplane.rest import Rest

CONTAINER: Final = "example.com/add-container"
"""The annotation."""
ON_CREATE: Final = "example.com/write-on-create"
"""Another one: members by path, which are written whatever is there."""
ON_UPDATE: Final = "example.com/add-on-update"
"""The third one: members by path, which are added where they are missing."""
_PATH: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def _patch(request: dict[str, Any]) -> list[dict[str, Any]]:
    pod = request["object"]  # or a Job
    annotations = pod["metadata"]["annotations"]
    if request["operation"] == "CREATE":
        written = json.loads(annotations.get(ON_CREATE, "{}"))
        patch = [{"op": "add", "path": path, "value": value} for path, value in written.items()]
        if CONTAINER in annotations:
            container = json.loads(annotations[CONTAINER])
            patch.append({"op": "add", "path": "/spec/containers/-", "value": container})
        return patch
    wanted = json.loads(annotations.get(ON_UPDATE, "{}"))
    return [
        {"op": "add", "path": path, "value": value}
        for path, value in wanted.items()
        if not _has(pod, path.strip("/").split("/"))
    ]


def _has(found: Any, steps: list[str]) -> bool:
    for step in steps:
        found = found[int(step)] if isinstance(found, list) else found.get(step)
        if found is None:
            return False
    return True


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @override
    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = _patch(request)
        response = {
            "uid": request["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps({**review, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def another_webhook(api: Rest, folder: Path) -> Iterator[None]:
    """Serve the webhook and have the API server ask it about new pods."""
    pair = files.ensure(folder, ["127.0.0.1"], SystemClock().now())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        api.post(_PATH, _configuration(server.server_address[1], pair.ca.read_bytes()))
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(port: int, ca: bytes) -> dict[str, Any]:
    keys = " || ".join(
        f"{json.dumps(key)} in object.metadata.annotations"
        for key in (CONTAINER, ON_CREATE, ON_UPDATE)
    )
    asked = f"has(object.metadata.annotations) && ({keys})"
    webhook = {
        "name": "zz.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(ca).decode(),
        },
        "rules": [
            {
                "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": [plural], "scope": "Namespaced",
            }
            for group, plural in (("", "pods"), ("batch", "jobs"))
        ],
        "matchConditions": [{"name": "asked", "expression": asked}],
    }  # fmt: skip
    return {"metadata": {"name": "zz-example"}, "webhooks": [webhook]}
