"""Where the server is, who we are, and which namespace is meant where none is named."""

import base64
import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config

import admission.kube
from admission.kube import (
    credentials,
    errors,
    kubeconfig,
    packaged,
    resources,
    service_account,
)
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


def test_a_file_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "gone")
    says = re.escape(f": {gone} does not exist")
    with pytest.raises(errors.ConfigurationError, match=f"no kubeconfig{says}"):
        credentials.namespace(gone)
    monkeypatch.setenv("KUBECONFIG", gone)
    with pytest.raises(errors.ConfigurationError, match=f"the default kubeconfig{says}"):
        packaged.from_kubeconfig(None, None)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the service account in a pod."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, text in (("token", "first\n"), ("ca.crt", "authority"), ("namespace", "team\n")):
        (folder / name).write_text(text)
    monkeypatch.setattr(service_account, "_FOLDER", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


def test_in_a_pod_it_is_the_pods_own(account: Path) -> None:
    assert credentials.namespace() == "team"
    (account / "namespace").unlink()
    assert credentials.namespace() == "default"


@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1", "api.internal"])
def test_in_a_pod_the_access_is_that_which_the_package_finds(
    account: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    ours = facts(credentials.load(connections=3))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    found = Configuration()
    incluster_config.load_incluster_config(found)  # type: ignore[no-untyped-call]
    header = packaged.Authorization(found, FakeClock())
    theirs = facts(credentials._endpoint(packaged.pool(found, 3), found.host, 3, header))
    assert str(ours.pop("authorization")).lower() == theirs.pop("authorization")
    assert ours == theirs


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ("token", "token cannot be read (no such file or directory)"),
        ("ca.crt", "ca.crt cannot be read (no such file or directory)"),
        ("KUBERNETES_SERVICE_PORT", "the environment lacks KUBERNETES_SERVICE_PORT"),
    ],
)
def test_what_a_pod_lacks_is_named(
    account: Path, monkeypatch: pytest.MonkeyPatch, lacks: str, says: str
) -> None:
    monkeypatch.delenv(lacks, raising=False)
    (account / lacks).unlink(missing_ok=True)
    with pytest.raises(errors.ConfigurationError, match=re.escape(says)):
        credentials.load(connections=1)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff"], ids=repr)
def test_a_token_that_is_no_text_is_an_error(account: Path, content: bytes) -> None:
    (account / "token").write_bytes(content)
    with pytest.raises(errors.ConfigurationError, match=r"token (is empty|cannot be read)"):
        credentials.load(connections=1)


def test_a_token_that_expired_or_was_revoked_is_read_again_from_its_file(
    server: FaultyServer, tmp_path: Path, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet writes another one; a process that kept the first would be refused for ever."""
    clock, token = FakeClock(), account / "token"
    monkeypatch.setattr(credentials, "SystemClock", lambda: clock)
    in_pod = credentials.load(connections=1).authorization
    endpoint = dataclasses.replace(server.endpoint(tmp_path), authorization=in_pod)
    client = Client(Transport(endpoint, "test"))
    refused = faulty.Json(faulty.status(401, "Unauthorized", "Unauthorized"), 401)
    found = faulty.Json(faulty.thing("a", 1))
    server.answers += [found, refused, found, found]

    client.get(resources.CONFIG_MAPS, "a", "ns")
    token.write_text("second")
    with pytest.raises(errors.UnauthorizedError):
        client.get(resources.CONFIG_MAPS, "a", "ns")
    clock.advance(61)
    client.get(resources.CONFIG_MAPS, "a", "ns")
    token.unlink()
    clock.advance(61)
    client.get(resources.CONFIG_MAPS, "a", "ns")
    client.close()

    sent = [one.headers["Authorization"] for one in server.requests]
    assert sent == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


def written(
    folder: Path, *, user: Any = None, cluster: Any = None, cluster_name: str = "c", **context: str
) -> str:
    """Path of a kubeconfig with one context."""
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).write_text(name)
    server = {"server": "https://10.0.0.1:6443", **(cluster or {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": cluster_name, "user": "u", **context}}
        ],
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return str(file)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PLAIN = {
    "token": {"user": {"token": "secret"}},
    "nobody": {},
    "client certificate": {"user": {"client-certificate": "tls.crt", "client-key": "tls.key"}},
    "client certificate inside": {
        "user": {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")}
    },
    "data before a file": {
        "user": {"client-certificate-data": encoded("cert"), "client-certificate": "tls.crt"}
    },
    "authority": {"cluster": {"certificate-authority": "ca.crt"}},
    "authority inside": {"cluster": {"certificate-authority-data": encoded("ca")}},
    "no verification": {"cluster": {"insecure-skip-tls-verify": True}},
    "another name": {"cluster": {"tls-server-name": "kubernetes.default"}},
    "below a path": {"cluster": {"server": "https://rancher.test/k8s/clusters/c-1/"}},
    "a name without a port": {"cluster": {"server": "https://api.test"}},
    "without TLS": {
        "user": {"token": "secret", "client-certificate": "tls.crt"},
        "cluster": {"server": "http://127.0.0.1:8080"},
    },
    "a namespace": {"namespace": "team"},
}


@pytest.mark.parametrize("given", PLAIN.values(), ids=PLAIN)
def test_a_plain_kubeconfig_gives_what_the_package_makes_of_it(
    given: dict[str, Any], tmp_path: Path
) -> None:
    file = written(tmp_path, **given)
    assert kubeconfig.read(file, None) is not None
    ours = credentials.load(file, connections=3)
    theirs = credentials._packaged(file, None, 3)
    assert facts(ours) == facts(theirs)
    assert credentials.namespace(file) == (packaged.namespace(file, None) or "default")


def facts(endpoint: credentials.Endpoint) -> dict[str, Any]:
    """What decides about a connection; files by their content, as their names are made up."""
    pool = endpoint.pool
    found = {
        name: getattr(pool, name, None) for name in ("scheme", "host", "port", *credentials._TLS)
    }
    files = {"ca_certs", "cert_file", "key_file"}
    texts = {name: Path(str(found[name])).read_text() for name in files if found[name]}
    assert pool.pool is not None
    return {
        **found,
        **dict.fromkeys(files),
        **texts,
        "options": pool.conn_kw,
        "size": pool.pool.maxsize,
        "prefix": endpoint.prefix,
        "authorization": endpoint.authorization(),
        "connect": endpoint.connect is not None,
        "connections": endpoint.connections,
    }


NOT_PLAIN = {
    "a plugin": {"user": {"exec": {"command": "aws", "apiVersion": "client/v1"}}},
    "a provider": {"user": {"auth-provider": {"name": "oidc"}}},
    "a token file": {"user": {"tokenFile": "token"}},
    "a password": {"user": {"username": "u", "password": "p"}},
    "somebody else": {"user": {"token": "secret", "as": "root"}},
    "a proxy": {"cluster": {"proxy-url": "http://proxy.test"}},
    "no such file": {"cluster": {"certificate-authority": "nowhere"}},
    "an empty text": {"user": {"token": ""}},
    "a number": {"user": {"token": 7}},
    "no base64": {"user": {"client-key-data": "a"}},
    "no such cluster": {"user": {"token": "secret"}, "cluster_name": "another"},
}


@pytest.mark.parametrize("given", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_the_package_reads_what_is_not_plain(given: dict[str, Any], tmp_path: Path) -> None:
    assert kubeconfig.read(written(tmp_path, **given), None) is None


def test_the_package_reads_several_files(tmp_path: Path) -> None:
    first = written(tmp_path, user={"token": "secret"})
    second = tmp_path / "second"
    second.write_text(Path(first).read_text())
    assert kubeconfig.read(f"{first}:{tmp_path / 'nowhere'}", None) is not None
    assert kubeconfig.read(f"{first}:{second}", None) is None


@pytest.mark.parametrize(
    ("exempt", "is_used"),
    [
        ("", True),
        ("10.0.0.1", False),
        ("10.0.0.1:6443", False),
        ("other.test, 10.0.0.0/8", False),
        ("10.0.1.0/24", True),
        ("*", False),
        ("nonsense/33", True),
    ],
)
def test_a_proxy_of_the_environment_stands_between_unless_the_server_is_exempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exempt: str, is_used: bool
) -> None:
    file = written(tmp_path, user={"token": "secret"})
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", exempt)
    endpoint = credentials.load(file, connections=1)
    assert (endpoint.connect is None) is is_used
    if is_used:
        assert endpoint.pool.proxy is not None
        assert endpoint.pool.proxy.host == "proxy.test"
        login = base64.b64encode(b"user:pass").decode()
        assert endpoint.pool.proxy_headers["proxy-authorization"] == f"Basic {login}"


def test_a_proxy_of_another_kind_is_an_error_that_keeps_its_password(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:pass@proxy.test")
    says = re.escape("socks5://proxy.test; only http")
    with pytest.raises(errors.ConfigurationError, match=says) as found:
        credentials.load(connections=1)
    assert "pass" not in str(found.value)


def test_without_the_package_a_plugin_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = {"exec": {"command": "aws", "apiVersion": "client/v1"}}
    file = written(tmp_path, user=plugin)
    monkeypatch.delitem(sys.modules, "admission.kube.packaged")
    monkeypatch.delattr(admission.kube, "packaged")
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    for ask in (lambda one: credentials.load(one, connections=1), credentials.namespace):
        with pytest.raises(errors.ConfigurationError, match="pip install kubernetes"):
            ask(file)
        with pytest.raises(errors.ConfigurationError, match="gone does not exist"):
            ask(str(tmp_path / "gone"))


def test_files_of_a_client_key_are_for_nobody_else(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")}
    plain = kubeconfig.read(written(tmp_path, user=user), None)
    assert plain is not None
    assert plain.key_file is not None
    assert Path(plain.key_file).stat().st_mode & 0o077 == 0
    assert "key" not in repr(plain).replace("kubeconfig", "")


FORKS = """
import os, sys
from pathlib import Path
from admission.kube import kubeconfig

found = kubeconfig.read(sys.argv[1], None)
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
print(found.ca_file, Path(found.ca_file).read_text())
"""


def test_the_end_of_a_forked_process_leaves_the_files_of_its_parent(tmp_path: Path) -> None:
    file = written(tmp_path, cluster={"certificate-authority-data": encoded("ca")})
    done = subprocess.run(
        [sys.executable, "-c", FORKS, file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    path, content = done.stdout.split()
    assert content == "ca"
    assert not Path(path).exists(), "the process itself removes it"


def test_the_default_is_what_kubectl_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, user={"token": "secret"}, namespace="team")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", file)
    assert credentials.namespace() == "team"
    assert credentials.load(connections=1).authorization() == "Bearer secret"


def test_where_there_is_no_kubeconfig_at_all_that_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    said = "~/.kube/config does not exist, and KUBECONFIG names no other file"
    assert kubeconfig.missing(None) == said
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text("")
    assert kubeconfig.missing(None) == ""
