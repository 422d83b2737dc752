"""The dashboard of Ray, which KubeRay asks about the job: its pods run nothing here.

KubeRay asks a Service by its name in the cluster. It comes here as to an HTTP proxy.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from typing_extensions import override

from tests.controlplane.rest import Json


@contextmanager
def proxy(pods: Callable[[str], list[Json]]) -> Iterator[str]:
    """Serve the dashboards of all namespaces; the URL of the proxy.

    A job runs until a pod of its namespace has succeeded: the pod that submitted it.

    Args:
        pods: lists the pods of a namespace.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            _service, namespace, *_ = (url.hostname or "").split(".")
            phases = [one["status"].get("phase") for one in pods(namespace)]
            has_ended = "Succeeded" in phases
            status = "SUCCEEDED" if has_ended else "RUNNING"
            message = "Job finished successfully." if has_ended else "Job is currently running."
            job = url.path.rpartition("/")[2]
            body = {"status": status, "message": message, "submission_id": job}
            self._answer(body)

        def do_POST(self) -> None:
            self._answer({"stopped": True})

        def _answer(self, body: Json) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, *_: object) -> None:
            """Tell nothing of requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
