"""``--help`` and ``--version`` of both programs import no command, and nothing that is heavy."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from admission.cli import kubectl, main
from admission.cli.lazy import Lazy
from tests.controlplane.waiting import PATIENCE_SECONDS

HEAVY = (
    "cryptography", "flask", "gunicorn", "jsonpatch", "kubernetes", "msgspec", "prometheus_client",
    "pydantic", "rich", "structlog", "urllib3", "yaml",
)  # fmt: skip
PROGRAM = """
import sys
from {module} import main
sys.argv = ["program", {argument!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


@pytest.mark.parametrize("argument", ["--help", "--version"])
@pytest.mark.parametrize("module", ["admission.cli.main", "admission.cli.kubectl"])
def test_help_imports_nothing_heavy(module: str, argument: str) -> None:
    code = PROGRAM.format(module=module, argument=argument)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert "gpu" in done.stdout
    imported = set(done.stderr.split())
    assert "admission.cli.lazy" in imported
    assert imported & set(HEAVY) == set()
    assert not [
        name
        for name in imported
        if name.startswith(("admission.run", "admission.admin", "admission.kube"))
    ]


@pytest.mark.parametrize(
    ("name", "lazy"), [*main.COMMANDS.items(), *kubectl.COMMANDS.items()], ids=str
)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str, lazy: Lazy) -> None:
    module, _, attribute = lazy.place.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert (command.name, command.get_short_help_str(limit=200)) == (name, lazy.summary)


SLOW = {
    "asyncio", "cryptography", "flask", "gunicorn", "jinja2", "jsonpatch", "kubernetes",
    "oauthlib", "prometheus_client", "pydantic", "requests", "rich", "structlog", "websocket",
    "werkzeug",
}  # fmt: skip
"""What no question needs: 0.2 s of imports and more."""
ASK = """
import sys
from admission.kube.client import Client

def ask(*_, **__):
    print(*sys.modules, sep="\\n", file=sys.stderr)
    sys.exit(7)

Client._call = ask
from {module} import main
sys.argv = ["program", *{arguments!r}]
main()
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: none}}]
"""
QUESTIONS = {
    "why": ["why", "pod"],
    "top": ["top"],
    "queue": ["queue"],
    "usage": ["usage"],
    "who": ["who", "node"],
}


@pytest.mark.parametrize("module", ["admission.cli.kubectl", "admission.cli.main"])
@pytest.mark.parametrize("name", kubectl.COMMANDS)
def test_a_question_imports_nothing_slow_before_its_first_request(
    name: str, module: str, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    arguments = [*QUESTIONS[name], "--kubeconfig", str(kubeconfig)]
    environment = {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(module=module, arguments=arguments)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS, env=environment,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    imported = set(done.stderr.split())
    assert "admission.kube.transport" in imported
    assert imported & SLOW == set()
    assert not [
        one
        for one in imported
        if one.startswith(("admission.config", "admission.controller", "admission.admin"))
    ]
    assert ("admission.answers.subjects" in imported) == (name == "why"), (
        "only why takes any object by its name"
    )
