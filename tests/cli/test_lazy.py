"""``--help`` and ``--version`` of both programs import no command, and nothing that is heavy."""

import importlib
import subprocess
import sys

import click
import pytest

from admission.cli import kubectl, main
from admission.cli.lazy import Lazy

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
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "gpu" in done.stdout
    imported = set(done.stderr.split())
    assert "admission.cli.lazy" in imported
    assert imported & set(HEAVY) == set()
    assert not [
        name
        for name in imported
        if name.startswith(("admission.run", "admission.install", "admission.kube"))
    ]


@pytest.mark.parametrize(
    ("name", "lazy"), [*main.COMMANDS.items(), *kubectl.COMMANDS.items()], ids=str
)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str, lazy: Lazy) -> None:
    module, _, attribute = lazy.place.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert (command.name, command.get_short_help_str(limit=200)) == (name, lazy.summary)


@pytest.mark.parametrize(
    "module", sorted(lazy.place.partition(":")[0] for lazy in kubectl.COMMANDS.values())
)
def test_questions_import_nothing_that_only_other_commands_need(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    imported = set(done.stdout.split())
    assert module in imported
    others = {"flask", "gunicorn", "cryptography", "jsonpatch", "prometheus_client", "rich"}
    assert imported & others == set()
    assert not [
        one for one in imported if one.startswith(("admission.config", "admission.install"))
    ]
