"""A command that cannot do its work says so in one line, with the next step, and ends."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from admission.cli import kubectl, main
from admission.kube import resources
from admission.sandbox.rest import StoreServer
from admission.sandbox.store import Store
from tests.controlplane import forked

SERVE = {
    "webhook": ["webhook", "--bind", "{}", "--cert-dir", "{folder}/certs"],
    "controller": ["controller", "--metrics-bind", "{}", "--no-leader-election"],
    "run": [
        "run", "--bind", "{}", "--metrics-bind", "127.0.0.1:0", "--cert-dir", "{folder}/certs",
        "--no-leader-election",
    ],
}  # fmt: skip
ONCE = {
    "install": ["install", "--webhook-url", "https://127.0.0.1:9443", "--cert-dir", "{folder}/c"],
    "uninstall": ["uninstall", "--yes"],
    "why": ["why", "train", "-n", "team"],
}
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: store, user: me}}}}]
clusters: [{{name: store, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {{token: none}}}}]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    made = StoreServer(Store(), resources.BUILT_IN + resources.CUSTOM)
    yield made
    made.stop()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    stderr: str


def run(name: str, folder: Path, kubeconfig: str, address: str = "127.0.0.1:0") -> Ended:
    """Runs a command; one that serves in a process of its own, since it takes over signals."""
    given = {**SERVE, **ONCE}[name]
    words = [*(one.format(address, folder=folder) for one in given), "--kubeconfig", kubeconfig]
    if name in ONCE:
        program = kubectl.main if name == "why" else main.main
        result = CliRunner().invoke(program, words)
        return Ended(result.exit_code, result.stderr)
    done = forked.run([*forked.PROGRAM, *words])
    return Ended(done.returncode, done.stderr)


def told(ended: Ended) -> tuple[str, str]:
    """The error and the hint, which are all that it says besides the cluster that is meant.

    What serves says them in one line of its log.
    """
    assert ended.code == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("cluster: ")]
    if lines[0].startswith("{"):
        (line,) = map(json.loads, lines)
        assert line["event"] == "cannot start"
        return f"error: {line['error']}", f"hint: {line['next']}"
    error, hint = lines
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    return error, hint


def kubeconfig(folder: Path, url: str) -> str:
    file = folder / "kubeconfig"
    file.write_text(KUBECONFIG.format(url=url))
    return str(file)


@pytest.mark.parametrize("name", list(SERVE))
def test_a_busy_address_ends_the_command_at_once(
    name: str, tmp_path: Path, server: StoreServer
) -> None:
    """And the controller of the same ``run`` is never started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error, hint = told(run(name, tmp_path, kubeconfig(tmp_path, server.url), address))
    assert error == f"error: cannot listen on {address}: address already in use"
    assert "another process uses this address" in hint
    assert f"--{'metrics-bind' if name == 'controller' else 'bind'}" in hint


@pytest.mark.parametrize("name", [*SERVE, *ONCE])
@pytest.mark.parametrize("content", [None, "not: [a kubeconfig", "{}"],
                         ids=["missing", "no YAML", "empty"])  # fmt: skip
def test_a_kubeconfig_that_cannot_be_used_ends_every_command(
    name: str, content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    error, hint = told(run(name, tmp_path, str(file)))
    assert error.startswith(f"error: no access to an API server from {file}: ")
    assert "kubectl config view" in hint


@pytest.mark.parametrize("name", list(ONCE))
def test_an_api_server_that_does_not_answer_ends_what_runs_once(name: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        error, hint = told(run(name, tmp_path, kubeconfig(tmp_path, url)))
    assert error == f"error: connection refused by {url.removeprefix('http://')}"
    assert "kubectl get --raw /readyz" in hint
