"""Which cluster a command works on: chosen by a context, named, and kept in the next commands."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from admission.cli import main, targets
from admission.cli.clusters import again, repeated
from admission.kube import resources
from admission.objects import crds
from admission.sandbox.store import Store
from tests.cli.served import served

SERVE = {"controller", "run", "webhook"}
"""Commands that go on until they are stopped: their cluster is in their arguments or their pod."""


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that asks a cluster, by the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if any(option.name == "kubeconfig" for option in command.params):
            yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


ASKING = {path: one for path, one in commands(main.main) if path not in SERVE}


@pytest.mark.parametrize("path", ASKING)
def test_a_command_that_asks_a_cluster_takes_a_context(path: str) -> None:
    assert "context" in {option.name for option in ASKING[path].params}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    store = Store(crds=crds.documents())
    with served(store, resources.BUILT_IN + resources.CUSTOM, tmp_path) as path:
        yield path


CHANGING = {
    "break-glass status": ["break-glass", "status"],
    "init": ["init"],
    "install": ["install", "--mode", "warn", "-o", "json"],
    "migrate kueue": ["migrate", "kueue"],
    "migrate resourcequota": ["migrate", "resourcequota"],
    "migrate storage": ["migrate", "storage"],
    "stops": ["stops"],
    "stops allow": ["stops", "allow"],
    "uninstall": ["uninstall", "--yes"],
}


@pytest.mark.parametrize("arguments", CHANGING.values(), ids=CHANGING)
def test_a_command_that_changes_a_cluster_names_it_first(
    arguments: list[str], kubeconfig: Path
) -> None:
    chosen = ["--kubeconfig", str(kubeconfig), "--context", "there"]
    told = CliRunner().invoke(main.main, [*arguments, *chosen]).stderr.splitlines()
    named = [line for line in told if line.startswith("cluster: ")]
    assert len(named) == 1, told
    assert named[0].startswith("cluster: there (http://127.0.0.1:")


def test_a_next_command_goes_to_the_same_cluster() -> None:
    shown = list[str]()

    @click.group()
    @click.option("--kubeconfig")
    @click.option("--context")
    def outer(**_: str) -> None:
        """Says nothing."""

    @outer.command()
    @click.option("--kubeconfig", envvar="KUBECONFIG")
    @click.option("--context")
    def inner(**_: str) -> None:
        shown.append(again("kubectl wait -p '{\"a\": 1}'"))

    run = CliRunner(env={"KUBECONFIG": "of-the-shell"})
    run.invoke(outer, ["--context", "prod", "inner", "--kubeconfig", "my file"])
    run.invoke(outer, ["inner"])
    first = """kubectl wait -p '{"a": 1}' --kubeconfig 'my file' --context prod"""
    assert shown == [first, "kubectl wait -p '{\"a\": 1}'"]


TYPED = "--kubeconfig 'a b' --context there"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait", "wait"),
        ("who: kubectl gpu who cq -n ml", "who: kubectl gpu who cq -n ml {}"),
        (
            "see: kubectl get pods,jobs -n ml; or ask",
            "see: kubectl get pods,jobs -n ml {}; or ask",
        ),
        ("run kubectl get nodes, then wait.", "run kubectl get nodes {}, then wait."),
        ("ask (kubectl gpu top) or wait", "ask (kubectl gpu top {}) or wait"),
        ("kubectl gpu why job/NAME.", "kubectl gpu why job/NAME {}."),
        (
            """say: kubectl patch workload w -p '{"spec": {"active": true}}'""",
            """say: kubectl patch workload w -p '{"spec": {"active": true}}' {}""",
        ),
        ("kubectl get cq -o yaml > FILE", "kubectl get cq -o yaml {} > FILE"),
        ("kubectl gpu top --context here", "kubectl gpu top --context here --kubeconfig 'a b'"),
        ("see gpu-admission doctor", "see gpu-admission doctor {}"),
        ("see gpu-admission --help", "see gpu-admission --help"),
    ],
)
def test_commands_in_a_text_are_for_the_same_cluster(text: str, expected: str) -> None:
    @click.command
    @click.option("--kubeconfig")
    @click.option("--context")
    def command(**_: str) -> None:
        click.echo(repeated(text))
        click.echo(repeated(repeated(text)))

    line = ["--kubeconfig", "a b", "--context", "there"]
    told = CliRunner().invoke(command, line).output.splitlines()
    assert told == [expected.replace("{}", TYPED)] * 2
    assert CliRunner().invoke(command).output.splitlines() == [text] * 2


@pytest.mark.parametrize(
    ("text", "is_for_user"),
    [
        ("see kubectl gpu top", True),
        ("ask an administrator to repair nodes; which are sick: kubectl gpu top", True),
        ("ask an administrator to make it, or use another: kubectl get localqueues", True),
        ("An administrator sees it. Who waits: kubectl gpu queue", True),
        ("An administrator makes them: gpu-admission init --team NAME", False),
        ("an administrator lets you read it: kubectl create rolebinding usage --user NAME", False),
        ("it is served once an administrator runs: gpu-admission install --visibility", False),
        ("ask an administrator, who sees why: kubectl gpu why clusterqueue/q", False),
    ],
)
def test_a_command_of_an_administrator_is_not_run_as_the_user_of_the_present_one(
    text: str, is_for_user: bool
) -> None:
    @click.command
    @click.option("--context")
    @targets.identity_options
    def command(**_: str) -> None:
        click.echo(repeated(repeated(text)))

    told = CliRunner().invoke(command, ["--context", "there", "--as", "dan"]).output.strip()
    assert told == f"{text} --context there{' --as dan' if is_for_user else ''}"
