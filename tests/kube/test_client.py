"""The real client: what is sent, what is retried, and what an error says."""

import dataclasses
import socket
import traceback
from pathlib import Path

import msgspec
import pytest
from prometheus_client import REGISTRY

from admission.base import patches
from admission.kube import credentials, errors, resources
from admission.kube.client import Client
from admission.kube.transport import Transport
from admission.objects import views
from tests.controlplane.waiting import PATIENCE_SECONDS, until
from tests.kube import faulty
from tests.kube.faulty import FaultyServer, Json, thing

MAPS = resources.CONFIG_MAPS
POD = {"metadata": {"name": "a", "namespace": "ns"}}


def test_a_patch_names_its_type_its_manager_and_its_owner(server: FaultyServer, tmp_path: Path):
    server.answers += [Json(thing("a", 1))] * 3
    client = server.client(tmp_path)
    client.patch(MAPS, "a", patches.merge({"data": None}), "ns")
    client.patch(MAPS, "a", patches.json_patch([{"op": "remove", "path": "/data"}]), "ns")
    client.patch(MAPS, "a", patches.apply(POD), "ns", field_manager="other", force=True)
    client.close()
    merge, json, apply = server.requests
    assert [r.headers["Content-Type"] for r in server.requests] == [
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
    assert msgspec.json.decode(merge.body) == {"data": None}
    assert msgspec.json.decode(json.body) == [{"op": "remove", "path": "/data"}]
    assert merge.query == {"fieldManager": "gpu-admission"}
    assert apply.query == {"fieldManager": "other", "force": "true"}
    assert {r.headers["Authorization"] for r in server.requests} == {"Bearer secret-token"}


def test_a_new_object_says_what_it_is(server: FaultyServer, tmp_path: Path):
    server.answers += [Json(thing("a", 1))]
    client = server.client(tmp_path)
    client.create(MAPS, {"metadata": {"name": "a"}, "data": msgspec.Raw(b'{"x":"y"}')}, "ns")
    client.close()
    assert msgspec.json.decode(server.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"x": "y"},
    }


def test_a_deletion_carries_its_preconditions(server: FaultyServer, tmp_path: Path):
    server.answers += [Json({"kind": "Status", "status": "Success"})] * 2
    client = server.client(tmp_path)
    client.delete(MAPS, "a", "ns", uid="u", grace_period_seconds=0, propagation="Orphan")
    client.delete(MAPS, "a", "ns")
    client.close()
    assert [msgspec.json.decode(request.body) for request in server.requests] == [
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u"},
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Orphan",
        },
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    ]


def busy(code: int, seconds: str | None = "2") -> Json:
    headers = {"Retry-After": seconds} if seconds else {}
    return Json(faulty.status(code, "TooManyRequests", "later"), code, headers)


def throttled() -> float:
    """How many requests of this process were turned away."""
    return REGISTRY.get_sample_value("gpu_admission_requests_throttled_total") or 0


def test_429_is_sent_again_after_the_wait_that_the_server_asks_for(
    server: FaultyServer, tmp_path: Path
):
    waits: list[float] = []
    server.answers += [busy(429), busy(429, "0"), Json(thing("a", 7))]
    client = server.client(tmp_path, sleep=waits.append)
    before = throttled()
    changed = client.patch(MAPS, "a", patches.merge({}), "ns", into=views.Object)
    client.close()
    assert changed.metadata.resource_version == "7"
    assert waits == [2, 0]
    assert throttled() - before == 2


def test_429_is_given_up_where_the_wait_is_longer_than_the_call_may_take(
    server: FaultyServer, tmp_path: Path
):
    server.answers += [busy(429, "60")]
    client = server.client(tmp_path)
    with pytest.raises(errors.TooManyRequestsError) as refused:
        client.patch(MAPS, "a", patches.merge({}), "ns")
    client.close()
    assert refused.value.retry_after == 60
    assert not refused.value.outcome_unknown


def test_503_is_sent_again_for_reads_only(server: FaultyServer, tmp_path: Path):
    waits: list[float] = []
    server.answers += [busy(503), Json(thing("a", 1)), busy(503)]
    client = server.client(tmp_path, sleep=waits.append)
    client.get(MAPS, "a", "ns")
    assert waits == [2]
    with pytest.raises(errors.ServerError) as refused:
        client.patch(MAPS, "a", patches.merge({}), "ns")
    client.close()
    assert refused.value.retry_after == 2
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        (faulty.Broken(thing("a", 1)), True),
        (faulty.Silence(), True),
        (Json(faulty.status(500, "InternalError", "etcd"), 500), True),
        (Json(faulty.status(504, "Timeout", "slow"), 504), True),
        (Json(faulty.status(409, "Conflict", "no"), 409), False),
        (Json(faulty.status(503, "ServiceUnavailable", "no"), 503), False),
    ],
    ids=["reset", "time-out", "500", "504", "409", "503"],
)
def test_a_write_tells_whether_its_outcome_is_unknown(
    server: FaultyServer, tmp_path: Path, answer: faulty.Answer, unknown: bool
):
    server.answers += [answer, answer]
    is_silent = isinstance(answer, faulty.Silence)
    client = server.client(tmp_path, timeout_seconds=0.5 if is_silent else PATIENCE_SECONDS)
    with pytest.raises(errors.KubeError) as failed:
        client.patch(MAPS, "a", patches.merge({}), "ns")
    assert failed.value.outcome_unknown is unknown
    with pytest.raises(errors.KubeError) as read:
        client.get(MAPS, "a", "ns")
    assert not read.value.outcome_unknown
    client.close()
    until(lambda: len(server.requests) == 2, what="both requests seen")


def test_a_refused_connection_is_a_known_outcome(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    file = tmp_path / "kubeconfig"
    file.write_text(faulty.KUBECONFIG.format(url=url))
    client = Client.connect(str(file))
    with pytest.raises(errors.TransportError) as failed:
        client.create(MAPS, POD)
    assert not failed.value.outcome_unknown
    refused = f"connection refused by {url.removeprefix('http://')}"
    assert str(failed.value) == refused
    with pytest.raises(errors.TransportError) as failed:
        client.watch(MAPS, "ns", resource_version="1", timeout_seconds=1)
    assert str(failed.value) == refused


NO_ANSWERS: dict[str, tuple[faulty.Answer, str]] = {
    "silence": (faulty.Silence(), "no answer from {} in time"),
    "a reset": (
        faulty.Broken({"kind": "ConfigMap"}),
        "connection closed by {} before its answer ended",
    ),
}


@pytest.mark.parametrize(("answer", "error"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_request_without_an_answer_names_the_server_and_what_became_of_it(
    server: FaultyServer, tmp_path: Path, answer: faulty.Answer, error: str
):
    server.answers += [answer]
    is_silent = isinstance(answer, faulty.Silence)
    client = server.client(tmp_path, timeout_seconds=0.2 if is_silent else PATIENCE_SECONDS)
    with pytest.raises(errors.TransportError) as failed:
        client.get(MAPS, "a", "ns")
    client.close()
    assert str(failed.value) == error.format(server.url.removeprefix("http://"))


def test_an_answer_that_is_no_status_is_not_quoted(server: FaultyServer, tmp_path: Path):
    server.answers += [faulty.Raw(b"<html>password=hunter2</html>", 502)]
    client = server.client(tmp_path)
    with pytest.raises(errors.ServerError) as failed:
        client.get(MAPS, "a", "ns")
    client.close()
    assert str(failed.value) == "HTTP 502 without a Status object"


def test_a_long_message_is_cut(server: FaultyServer, tmp_path: Path):
    server.answers += [Json(faulty.status(400, "BadRequest", "x" * 10_000), 400)]
    client = server.client(tmp_path)
    with pytest.raises(errors.BadRequestError) as failed:
        client.get(MAPS, "a", "ns")
    client.close()
    assert len(str(failed.value)) == errors.MESSAGE_LIMIT


def test_an_answer_that_does_not_fit_is_no_failed_write(server: FaultyServer, tmp_path: Path):
    server.answers += [Json({"metadata": {"name": 7}})]
    client = server.client(tmp_path)
    with pytest.raises(errors.DecodeError) as failed:
        client.patch(MAPS, "a", patches.merge({}), "ns", into=views.Object)
    client.close()
    assert not failed.value.outcome_unknown


def test_warnings_are_passed_on(server: FaultyServer, tmp_path: Path):
    told: list[str] = []
    header = '299 - "unknown field \\"spec.x\\""'
    server.answers += [Json(thing("a", 1), headers={"Warning": header})]
    client = server.client(tmp_path, warn=told.append)
    client.get(MAPS, "a", "ns")
    client.close()
    assert told == ['unknown field "spec.x"']


def test_tokens_never_show(server: FaultyServer, tmp_path: Path):
    endpoint = server.endpoint(tmp_path)
    assert endpoint.authorization() == "Bearer secret-token"
    assert "secret-token" not in repr(endpoint)


def test_a_token_that_cannot_be_sent_does_not_show(server: FaultyServer, tmp_path: Path):
    endpoint = server.endpoint(tmp_path)
    broken = dataclasses.replace(endpoint, authorization=lambda: "Bearer sec\nret")
    client = Client(Transport(broken, "test"))
    with pytest.raises(errors.TransportError) as failed:
        client.create(MAPS, POD)
    client.close()
    shown = "".join(traceback.format_exception(failed.value))
    assert "sec\\nret" not in shown
    assert not failed.value.outcome_unknown


@pytest.mark.parametrize("text", ["", "kind: [", "apiVersion: v1\nkind: Config\n"])
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str):
    file = tmp_path / "broken"
    file.write_text(text)
    with pytest.raises(errors.KubeConfigurationError, match="broken"):
        credentials.load(str(file), connections=1)


def test_a_missing_kubeconfig_is_named(tmp_path: Path):
    with pytest.raises(errors.KubeConfigurationError, match="nowhere"):
        credentials.load(str(tmp_path / "nowhere"), connections=1)
