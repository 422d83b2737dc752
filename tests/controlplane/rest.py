"""A small client of the API server for fixtures and assertions, not the client under test."""

import json
import ssl
import threading
from base64 import b64decode
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml
from urllib3 import HTTPHeaderDict, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

Json = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

_TIMEOUT_SECONDS: Final = 30.0
_KEPT_CONNECTIONS: Final = 4
_BUSY_TRIES: Final = 10
_REVIEW_TRIES: Final = 5
_LONGEST_WAIT_SECONDS: Final = 2.0


class RestError(Exception):
    """The API server refused.

    Attributes:
        status: HTTP status.
        body: the answer as it came.
    """

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body}")
        self.status = status
        self.body = body


class Rest:
    """Requests to one HTTPS server on 127.0.0.1, on connections that are kept; for any thread.

    Attributes:
        late_reviews: requests that were refused because a webhook did not answer in time, and
            sent again. A starved machine answers late; a test that waits for no other process
            may demand 0.
    """

    def __init__(
        self,
        port: int,
        ca_file: Path,
        token: str = "",
        *,
        kubeconfig: Path | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._context = ssl.create_default_context(cafile=str(ca_file))
        if kubeconfig is not None:
            token = self._read(kubeconfig)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._headers |= headers or {}
        self.late_reviews = 0
        # Nothing is sent twice by itself: a test counts what it created.
        self._pool = HTTPSConnectionPool(
            "127.0.0.1",
            port,
            ssl_context=self._context,
            timeout=_TIMEOUT_SECONDS,
            retries=False,
            maxsize=_KEPT_CONNECTIONS,
        )

    def _read(self, kubeconfig: Path) -> str:
        """The kubeconfig's token; its client certificate, if it has one, is shown instead."""
        user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        if certificate := user.get("client-certificate-data"):
            # The ssl module takes certificates from files only.
            pair = kubeconfig.with_suffix(".pem")
            pair.touch(mode=0o600)
            pair.write_bytes(b64decode(certificate) + b64decode(user["client-key-data"]))
            self._context.load_cert_chain(pair)
        return str(user.get("token", ""))

    def text(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
    ) -> str:
        """The answer's text.

        A server that has just started sheds load for a second; like every client of Kubernetes
        this one then asks again, after the wait that the server names. A request whose review
        came too late changed nothing; it is sent again, and counted.

        Raises:
            RestError: the status is 400 or above.
            OSError: no connection.
        """
        content, _ = self._answer(method, path, body, content_type, accept)
        return content

    def post_warned(self, path: str, body: Json) -> tuple[Json, list[str]]:
        """Creates an object; the object and the texts of the API server's warnings."""
        content, headers = self._answer("POST", path, body, "application/json")
        warnings = headers.getlist("Warning")
        return _object(content), [json.loads(text.split(" ", 2)[2]) for text in warnings]

    def _answer(
        self, method: str, path: str, body: Any, content_type: str, accept: str = ""
    ) -> tuple[str, HTTPHeaderDict]:
        tries = 0
        while True:
            status, headers, content = self._ask(method, path, body, content_type, accept)
            retry_after = float(headers.get("Retry-After", 0))
            tries += 1
            if _is_review_late(status, content) and tries < _REVIEW_TRIES:
                self.late_reviews += 1
                continue
            busy = status == HTTPStatus.TOO_MANY_REQUESTS and tries < _BUSY_TRIES
            if not (busy and 0 < retry_after <= _LONGEST_WAIT_SECONDS):
                break
            threading.Event().wait(retry_after)
        if status >= 400:
            raise RestError(method, path, status, content)
        return content, headers

    def _ask(
        self, method: str, path: str, body: Any, content_type: str, accept: str
    ) -> tuple[int, HTTPHeaderDict, str]:
        """Status, headers and text of one request."""
        headers = {**self._headers, "Content-Type": content_type}
        if accept:
            headers["Accept"] = accept
        payload = None if body is None else json.dumps(body)
        try:
            answer = self._pool.request(method, path, payload, headers=headers)
        except HTTPError as failure:
            raise ConnectionError(f"{method} {path}: {failure!r}") from failure
        return answer.status, answer.headers, answer.data.decode()

    def get(self, path: str, *, accept: str = "") -> Json:
        """Reads an object or a list, in the form that ``accept`` names if it does."""
        return _object(self.text("GET", path, accept=accept))

    def post(self, path: str, body: Json) -> Json:
        """Creates an object."""
        return _object(self.text("POST", path, body))

    def put(self, path: str, body: Json) -> Json:
        """Replaces an object."""
        return _object(self.text("PUT", path, body))

    def patch(self, path: str, body: Any, content_type: str = MERGE) -> Json:
        """Patches an object; a merge patch unless ``content_type`` says otherwise."""
        return _object(self.text("PATCH", path, body, content_type))

    def delete(self, path: str, options: Json | None = None) -> Json:
        """Deletes an object or a collection."""
        return _object(self.text("DELETE", path, options))

    def lacks(self, path: str) -> bool:
        """Whether it says that there is nothing at a path; no other error says so."""
        try:
            self.get(path)
        except RestError as error:
            return error.status == HTTPStatus.NOT_FOUND
        return False

    def answers(self, path: str) -> bool:
        """Whether a GET is answered with a status below 400 now."""
        try:
            self.text("GET", path)
        except (OSError, RestError):
            return False
        return True


def _is_review_late(status: int, content: str) -> bool:
    """Whether a webhook that was called did not answer in time."""
    return (
        status == HTTPStatus.INTERNAL_SERVER_ERROR
        and "failed calling webhook" in content
        and ("context deadline exceeded" in content or "Client.Timeout exceeded" in content)
    )


def _object(text: str) -> Json:
    value = json.loads(text)
    assert isinstance(value, dict), "the API server answers with objects"
    return value
