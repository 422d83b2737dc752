"""Where the server is, who we are, and which namespace is meant where none is named."""

import base64
import dataclasses
import io
import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config

import admission.kube
from admission.base.clock import to_wire
from admission.kube import (
    credential_plugin,
    credentials,
    errors,
    kubeconfig,
    packaged,
    resources,
    service_account,
)
from admission.kube.client import Client
from admission.kube.impersonation import Identity
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
    with pytest.raises(errors.KubeConfigurationError):
        credentials.namespace(str(file))


def test_a_file_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "gone")
    says = re.escape(f": {gone} does not exist")
    with pytest.raises(errors.KubeConfigurationError, match=f"no kubeconfig{says}"):
        credentials.namespace(gone)
    monkeypatch.setenv("KUBECONFIG", gone)
    with pytest.raises(errors.KubeConfigurationError, match=f"the default kubeconfig{says}"):
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
    header = packaged.PackagedAuthorization(found, FakeClock())
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
    with pytest.raises(errors.KubeConfigurationError, match=re.escape(says)):
        credentials.load(connections=1)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff"], ids=repr)
def test_a_token_that_is_no_text_is_an_error(account: Path, content: bytes) -> None:
    (account / "token").write_bytes(content)
    with pytest.raises(errors.KubeConfigurationError, match=r"token (is empty|cannot be read)"):
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
    "a password": {"user": {"username": "u", "password": "p"}},
    "a proxy": {"cluster": {"proxy-url": "http://proxy.test"}},
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
    "a provider": ({"user": {"auth-provider": {"name": "oidc"}}}, "auth-provider"),
    "no such file": ({"cluster": {"certificate-authority": "nowhere"}}, "nowhere does not exist"),
    "an empty text": ({"user": {"token": ""}}, "token is empty or no text"),
    "a number": ({"user": {"token": 7}}, "token is empty or no text"),
    "no base64": ({"user": {"client-key-data": "a"}}, "client-key-data is no base64"),
    "no such cluster": ({"cluster_name": "another"}, "it has no cluster another"),
    "a plugin of another version": (
        {"user": {"exec": {"command": "aws", "apiVersion": "client/v1"}}},
        "the plugin aws has the apiVersion 'client/v1'",
    ),
    "a plugin without a command": ({"user": {"exec": {}}}, "its exec has no command"),
}


@pytest.mark.parametrize(("given", "says"), NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_the_package_reads_what_is_not_plain(
    given: dict[str, Any], says: str, tmp_path: Path
) -> None:
    file = written(tmp_path, **given)
    assert kubeconfig.read(file, None) is None
    assert says in kubeconfig.problem(file, None)


def test_whoever_a_kubeconfig_acts_as_is_in_the_headers_of_every_request(tmp_path: Path) -> None:
    acting = {
        "as": "ada",
        "as-groups": ["ml", "admins"],
        "as-uid": "u-1",
        "as-user-extra": {"example.com/reason": ["test"]},
    }
    endpoint = credentials.load(written(tmp_path, user={"token": "t", **acting}), connections=1)
    assert endpoint.identity is not None
    assert list(endpoint.identity.headers()) == [
        ("Impersonate-User", "ada"),
        ("Impersonate-Group", "ml"),
        ("Impersonate-Group", "admins"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Extra-example.com%2Freason", "test"),
    ]
    assert endpoint.authorization() == "Bearer t"


def test_whom_a_caller_names_counts_before_whom_the_kubeconfig_does(tmp_path: Path) -> None:
    file = written(tmp_path, user={"token": "t", "as": "ada"})
    bob = Identity(user="bob")
    assert credentials.load(file, identity=bob, connections=1).identity == bob


@pytest.mark.parametrize(
    "members",
    [
        {"as-groups": ["ml"]},
        {"as-uid": "u-1"},
        {"as-user-extra": {"reason": ["test"]}},
        {"as": "ada", "as-groups": "ml"},
        {"as": "ada", "auth-provider": {"name": "oidc"}},
        {"as": "ada", "client-certificate": "nowhere"},
    ],
)
def test_nobody_acts_with_other_rights_than_the_kubeconfig_says(
    members: dict[str, Any], tmp_path: Path
) -> None:
    """The package leaves impersonation out, and the user's own rights would be used."""
    file = written(tmp_path, user={"token": "secret", **members})
    with pytest.raises(errors.KubeConfigurationError, match=r"the user u .* has as") as raised:
        credentials.load(file, connections=1)
    assert "secret" not in str(raised.value)


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    files = [
        written(folders[0], user={"token": "first"}, cluster_name="other"),
        written(folders[1], user={"client-certificate": "tls.crt"}, namespace="unused"),
    ]
    document = yaml.safe_load(Path(files[0]).read_text())
    document["clusters"] = []
    Path(files[0]).write_text(yaml.safe_dump(document))
    document = yaml.safe_load(Path(files[1]).read_text())
    document["clusters"][0]["name"] = "other"
    document["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    Path(files[1]).write_text(yaml.safe_dump(document))
    several = f"{files[0]}:{tmp_path / 'nowhere'}:{files[1]}"
    ours = credentials.load(several, connections=3)
    assert facts(ours) == facts(credentials._packaged(several, None, 3))
    assert ours.authorization() == "Bearer first"
    assert credentials.namespace(several) == "default"
    assert ours.pool.ca_certs == str(folders[1] / "ca.crt")  # type: ignore[attr-defined]


def test_a_token_file_is_read_again_as_it_ages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, token = FakeClock(), tmp_path / "token"
    monkeypatch.setattr(credentials, "SystemClock", lambda: clock)
    file = written(tmp_path, user={"tokenFile": "token", "token": "old"})
    with pytest.raises(errors.KubeConfigurationError, match=r"token file .*: .* cannot"):
        credentials.load(file, connections=1)
    token.write_text("first\n")
    header = credentials.load(file, connections=1).authorization
    assert header() == "Bearer first"
    token.write_text("second\n")
    clock.advance(61)
    assert header() == "Bearer second"


def test_the_proxy_of_a_cluster_stands_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    file = written(tmp_path, cluster={"proxy-url": "http://proxy.test:3128"})
    endpoint = credentials.load(file, connections=1)
    assert endpoint.pool.proxy is not None
    assert endpoint.pool.proxy.url == "http://proxy.test:3128"


PLUGIN = """#!{python}
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
json.dump([info, sys.argv[1:], os.environ["REGION"]], open({told!r}, "w"))
json.dump(
    dict(apiVersion=info["apiVersion"], kind="ExecCredential", status=json.load(open({status!r}))),
    sys.stdout,
)
"""


def plugin(folder: Path, *, version: str = "v1", **status: str) -> dict[str, Any]:
    """A user with a plugin that answers with a status, and writes down what it was told."""
    program = folder / "sign-in"
    answer = folder / "status.json"
    answer.write_text(json.dumps(status))
    program.write_text(
        PLUGIN.format(python=sys.executable, told=str(folder / "told.json"), status=str(answer))
    )
    program.chmod(0o755)
    return {
        "exec": {
            "apiVersion": f"client.authentication.k8s.io/{version}",
            "command": "./sign-in",
            "args": ["get-token", "--cluster", "c"],
            "env": [{"name": "REGION", "value": "eu"}],
            "interactiveMode": "Never",
            "provideClusterInfo": True,
            "installHint": "Install it\n with the tool of your cloud.",
        }
    }


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_is_run_for_a_token_and_told_of_the_cluster(version: str, tmp_path: Path) -> None:
    cluster = {
        "certificate-authority": "ca.crt",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}],
    }
    user = plugin(tmp_path, version=version, token="first")
    file = written(tmp_path, user=user, cluster=cluster)
    assert credentials.namespace(file) == "default"
    assert not (tmp_path / "told.json").exists(), "nothing is run to name a namespace"
    assert credentials.load(file, connections=1).authorization() == "Bearer first"
    info, arguments, region = json.loads((tmp_path / "told.json").read_text())
    assert (arguments, region) == (["get-token", "--cluster", "c"], "eu")
    assert info == {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://10.0.0.1:6443",
                "certificate-authority-data": encoded("ca.crt"),
                "config": {"a": 1},
            },
        },
    }


def test_a_plugin_is_run_again_when_its_token_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(credentials, "SystemClock", lambda: clock)
    expires = to_wire(clock.now() + timedelta(minutes=10))
    user = plugin(tmp_path, token="first", expirationTimestamp=expires)
    header = credentials.load(written(tmp_path, user=user), connections=1).authorization
    (tmp_path / "status.json").write_text(json.dumps({"token": "second"}))
    assert header() == "Bearer first"
    clock.advance(601)
    assert header() == "Bearer second"


def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    user = plugin(tmp_path, clientCertificateData="cert", clientKeyData="key")
    endpoint = credentials.load(written(tmp_path, user=user), connections=1)
    assert endpoint.authorization() is None
    given = facts(endpoint)
    assert (given["cert_file"], given["key_file"]) == ("cert", "key")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": "./nowhere"}, "no such file or directory"),
        ({"command": "false"}, "exit code 1"),
        ({"command": "sleep", "args": ["60"]}, "no answer within 0.1 seconds"),
        ({"command": "echo"}, "its answer is no ExecCredential of"),
        ({"interactiveMode": "Always"}, "it has to ask the user"),
    ],
)
def test_a_plugin_that_gives_nothing_is_an_error_with_its_hint(
    change: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    if change.get("command") == "sleep":
        monkeypatch.setattr(credential_plugin, "_MOST_SECONDS", 0.1)
    user = plugin(tmp_path, token="secret")
    user["exec"] |= change
    expected = rf"the plugin .* of the kubeconfig: {re.escape(says)}.*\. Install it with the tool"
    with pytest.raises(errors.KubeConfigurationError, match=expected):
        credentials.load(written(tmp_path, user=user), connections=1)


def test_an_answer_without_a_credential_is_not_quoted(tmp_path: Path) -> None:
    user = plugin(tmp_path, clientKeyData="secret")
    with pytest.raises(errors.KubeConfigurationError, match="is no ExecCredential") as failure:
        credentials.load(written(tmp_path, user=user), connections=1)
    assert "secret" not in str(failure.value)


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
    says = re.escape("socks5://proxy.test is of another kind; only http")
    with pytest.raises(errors.KubeConfigurationError, match=says) as found:
        credentials.load(connections=1)
    assert "pass" not in str(found.value)


def test_the_url_of_a_proxy_that_cannot_be_read_keeps_its_password(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pa/ss@proxy.test:3128")
    with pytest.raises(errors.KubeConfigurationError, match="URL of the proxy cannot") as found:
        credentials.load(connections=1)
    assert "pa/ss" not in str(found.value)


def test_a_proxy_without_a_scheme_is_one_of_http(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
    endpoint = credentials.load(connections=1)
    assert endpoint.pool.proxy is not None
    assert endpoint.pool.proxy.url == "http://proxy.test:3128"


def test_a_kubeconfig_in_which_no_context_is_chosen_serves_one_that_is_named(
    tmp_path: Path,
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("current-context: here", 'current-context: ""'))
    assert credentials.namespace(str(file), context="here") == "team"


def test_a_variable_without_a_value_is_an_empty_text_for_a_plugin(tmp_path: Path) -> None:
    user = plugin(tmp_path, token="secret")
    user["exec"]["env"] = [{"name": "REGION"}]
    endpoint = credentials.load(written(tmp_path, user=user), connections=1)
    assert endpoint.authorization() == "Bearer secret"


def test_without_the_package_it_is_said_what_a_kubeconfig_has_that_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, user={"auth-provider": {"name": "oidc"}})
    monkeypatch.delitem(sys.modules, "admission.kube.packaged")
    monkeypatch.delattr(admission.kube, "packaged")
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    for ask in (lambda one: credentials.load(one, connections=1), credentials.namespace):
        with pytest.raises(errors.KubeConfigurationError, match="it has auth-provider, which"):
            ask(file)
        with pytest.raises(errors.KubeConfigurationError, match="gone does not exist"):
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
