"""Which namespace is meant where none is named."""

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Self

import pytest
from kubernetes.config import incluster_config
from typing_extensions import override

from admission.kube import credentials, errors, resources
from admission.kube.client import Client
from admission.kube.transport import Transport
from tests.clocks import FakeClock
from tests.kube import faulty
from tests.kube.faulty import FaultyServer

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u, namespace: team}}
- {name: there, context: {cluster: c, user: u}}
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(("context", "namespace"), [(None, "team"), ("there", "default")])
def test_it_is_that_of_the_context(tmp_path: Path, context: str | None, namespace: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    assert credentials.namespace(str(file), context=context) == namespace


@pytest.mark.parametrize("text", ["", "current-context: [", "a: b"], ids=repr)
def test_a_file_that_is_no_kubeconfig_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(errors.ConfigurationError):
        credentials.namespace(str(file))


def test_in_a_pod_it_is_the_pods_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "namespace"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(credentials, "_NAMESPACE_FILE", file)
    assert credentials.namespace() == "default"
    file.write_text("team\n")
    assert credentials.namespace() == "team"


class Today(dt.datetime):
    """The clock of the package that reads the token."""

    later = dt.timedelta()

    @classmethod
    @override
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return super().now(tz) + cls.later


def test_a_token_that_expired_or_was_revoked_is_read_again_from_its_file(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet writes another one; a process that kept the first would be refused for ever."""
    token, authority, clock = tmp_path / "token", tmp_path / "ca.crt", FakeClock()
    token.write_text("first")
    authority.write_text("not looked at")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr(dt, "datetime", Today)
    monkeypatch.setattr(credentials, "SystemClock", lambda: clock)
    in_pod = credentials.load(connections=1).authorization
    endpoint = dataclasses.replace(server.endpoint(tmp_path), authorization=in_pod)
    client = Client(Transport(endpoint, "test"))
    refused = faulty.Json(faulty.status(401, "Unauthorized", "Unauthorized"), 401)
    found = faulty.Json(faulty.thing("a", 1))
    server.answers += [found, refused, found]

    client.get(resources.CONFIG_MAPS, "a", "ns")
    token.write_text("second")
    with pytest.raises(errors.UnauthorizedError):
        client.get(resources.CONFIG_MAPS, "a", "ns")
    monkeypatch.setattr(Today, "later", dt.timedelta(seconds=61))
    clock.advance(61)
    client.get(resources.CONFIG_MAPS, "a", "ns")
    client.close()

    sent = [one.headers["Authorization"].lower() for one in server.requests]
    assert sent == ["bearer first", "bearer first", "bearer second"]
