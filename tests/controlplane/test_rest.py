"""The client of tests repeats what changed nothing, and nothing else."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from urllib3 import HTTPHeaderDict

from tests.controlplane.credentials import Credentials
from tests.controlplane.rest import Rest, RestError

Answer = tuple[int, HTTPHeaderDict, str]

CALLED = 'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: '
LATE = f'{CALLED}Post "https://127.0.0.1:1/mutate?timeout=5s": context deadline exceeded'
ABSENT = f"{CALLED}dial tcp 127.0.0.1:1: connect: connection refused"


def answering(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: tuple[HTTPStatus, str]
) -> Rest:
    """A client whose server gives those answers, one after the other."""
    client = Rest(1, Credentials(folder).ca_file)
    coming: Iterator[Answer] = iter(
        [(int(status), HTTPHeaderDict(), text) for status, text in answers]
    )
    monkeypatch.setattr(client, "_ask", lambda *_: next(coming))
    return client


def test_a_request_whose_review_came_too_late_is_sent_again_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = (HTTPStatus.INTERNAL_SERVER_ERROR, LATE)
    client = answering(tmp_path, monkeypatch, late, late, (HTTPStatus.CREATED, "{}"))
    assert client.post("/api/v1/namespaces/default/pods", {}) == {}
    assert client.late_reviews == 2


def test_a_review_that_is_always_late_is_an_error_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [(HTTPStatus.INTERNAL_SERVER_ERROR, LATE)] * 5
    client = answering(tmp_path, monkeypatch, *answers)
    with pytest.raises(RestError, match="context deadline exceeded"):
        client.post("/api/v1/namespaces/default/pods", {})


@pytest.mark.parametrize("text", [ABSENT, "etcdserver: context deadline exceeded"])
def test_another_error_of_the_server_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    client = answering(tmp_path, monkeypatch, (HTTPStatus.INTERNAL_SERVER_ERROR, text))
    with pytest.raises(RestError):
        client.post("/api/v1/namespaces/default/pods", {})
    assert client.late_reviews == 0
