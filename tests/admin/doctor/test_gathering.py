"""The bundle holds what helps, and nothing that is secret."""

import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from admission.admin.doctor import checks, gathering, redacting
from admission.admin.doctor import picture as pictures
from admission.base import names
from admission.kube import errors, resources
from admission.sandbox.store import Store
from tests.admin.doctor.clusters import SYSTEM, Broken
from tests.builders.pods import make_pod

PLANTED = "hunter2-Zm9vYmFy"
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
KEY = f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "planted",
    [
        f"password={PLANTED}",
        f"DB_PASSWORD: {PLANTED}",
        f'{{"api_key": "{PLANTED}"}}',
        f"--token {PLANTED}",
        f"--client-secret={PLANTED} --more",
        f"passphrase = 'two words {PLANTED}'",
        f"https://user:{PLANTED}@example.com/x",
        f"Authorization: Bearer {PLANTED}",
        KEY,
        f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED} and no end",
        f"hf_{PLANTED.replace('-', '')}",
    ],
)
def test_what_looks_like_a_credential_is_taken_out_of_texts(planted: str) -> None:
    left = redacting.text(f"before {planted}\nafter")
    assert PLANTED not in left
    assert PLANTED.replace("-", "") not in left
    assert left.startswith("before ")


def test_a_service_account_token_is_taken_out() -> None:
    assert redacting.text(f"got {JWT} back") == "got REDACTED back"


@pytest.mark.parametrize(
    "text",
    [
        "Secret gpu-admission-system/gpu-admission-webhook-tls holds no ca.crt",
        "pods is forbidden: User alice cannot list resource pods",
        "3 more GPUs of team-a, at https://127.0.0.1:9443/mutate",
    ],
)
def test_what_helps_stays(text: str) -> None:
    assert redacting.text(text) == text


def test_what_users_write_into_pods_is_taken_out() -> None:
    env = [
        {"name": "HARMLESS", "value": PLANTED},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "db", "key": "x"}}},
    ]
    probe = {"httpGet": {"httpHeaders": [{"name": "X", "value": PLANTED}]}}
    pod = make_pod(
        gpus=1,
        labels={names.QUEUE_LABEL: "default", "example.com/token": PLANTED},
        annotations={"example.com/note": PLANTED, names.ADMITTED_REQUESTS: "digest"},
        container={"env": env, "args": ["run", PLANTED], "livenessProbe": probe},
    )
    found = redacting.document(pod)
    assert PLANTED not in json.dumps(found)
    main = found["spec"]["containers"][0]
    assert main["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert [one["name"] for one in main["env"]] == ["HARMLESS", "NVIDIA_VISIBLE_DEVICES", "REF"]
    assert main["env"][1]["value"] == "all"
    assert main["env"][2] == env[2]
    assert found["metadata"]["labels"][names.QUEUE_LABEL] == "default"
    assert found["metadata"]["annotations"][names.ADMITTED_REQUESTS] == "digest"


def test_our_own_command_lines_stay_without_credentials() -> None:
    arguments = ["controller", "--config=/etc/c.yaml", "--token", PLANTED, f"--password={PLANTED}"]
    pod = make_pod(namespace=SYSTEM, container={"args": arguments})
    kept = redacting.document(pod)["spec"]["containers"][0]["args"]
    assert kept[:3] == ["controller", "--config=/etc/c.yaml", "--token"]
    assert PLANTED not in json.dumps(kept)


class Server(Store):
    """A store with pages."""

    def __init__(self, logs: str) -> None:
        super().__init__()
        self._logs = logs

    def text(self, path: str) -> str:
        if path == "/version":
            return '{"gitVersion": "v1.36.0"}'
        if "previous" in path:
            raise errors.make(400, "no previous container")
        return self._logs

    @override
    def get(self, resource: Any, *arguments: Any, **more: Any) -> Any:
        assert resource is not resources.SECRETS
        return super().get(resource, *arguments, **more)

    @override
    def list(self, resource: Any, *arguments: Any, **more: Any) -> Any:
        assert resource is not resources.SECRETS
        return super().list(resource, *arguments, **more)


def _gathered(server: Server, broken: Broken) -> dict[str, bytes]:
    picture = broken.picture()
    return dict(gathering.gather(server, picture, checks.diagnose(picture)))


def test_the_bundle_holds_what_helps_and_no_secret(tmp_path: Path) -> None:
    broken, server = Broken(), Server(f"started\ntoken={PLANTED}\n")
    pod = broken.add(pictures.OWN_PODS, "webhook-1", SYSTEM)
    pod["spec"] = {"containers": [{"name": "webhook", "env": [{"name": "A", "value": PLANTED}]}]}
    server.create(resources.NAMESPACES, {"metadata": {"name": "team"}})
    waits = make_pod("waits", namespace="team", gpus=1, container={"args": [PLANTED]})
    server.create(resources.PODS, waits)
    server.create(resources.PODS, make_pod("other", namespace="team"))
    secret = {"metadata": {"name": "s", "namespace": "team"}, "stringData": {"a": PLANTED}}
    server.create(resources.SECRETS, secret)
    files = _gathered(server, broken)
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    path = tmp_path / "case.tar.gz"
    gathering.write(path, files, moment)
    assert path.stat().st_mode & 0o077 == 0
    with tarfile.open(path) as archive:
        content = {
            one.name.removeprefix("case/"): archive.extractfile(one).read()  # type: ignore[union-attr]
            for one in archive.getmembers()
        }
    assert content == files
    assert PLANTED.encode() not in b"".join(content.values())
    assert content["logs/webhook-1-webhook.log"] == b"started\ntoken=REDACTED\n"
    assert json.loads(content["versions.json"])["kubernetes"]["gitVersion"] == "v1.36.0"
    assert json.loads(content["doctor.json"])["kind"] == "Diagnosis"
    pods = json.loads(content["objects/gpu-pods.json"])
    assert [one["metadata"]["name"] for one in pods] == ["waits"]
    for name in ("objects/clusterqueues.kueue.x-k8s.io.json", "events.json", "README.txt"):
        assert name in content
    with pytest.raises(FileExistsError):
        gathering.write(path, files, moment)


def test_the_bundle_is_bounded_and_says_what_had_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken()
    pod = broken.add(pictures.OWN_PODS, "webhook-1", SYSTEM)
    pod["spec"] = {"containers": [{"name": "webhook"}]}
    usual = sum(map(len, _gathered(Server(""), broken).values()))
    monkeypatch.setattr(gathering, "MOST_BYTES", usual + 1000)
    files = _gathered(Server("x" * 5000), broken)
    assert sum(map(len, files.values())) <= usual + 1000
    assert "logs/webhook-1-webhook.log" not in files
    assert b"logs/webhook-1-webhook.log: no room for 5000 bytes" in files["left-out.txt"]
