"""Shells, and kubectl, complete the commands; forms of output that every command has."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from admission.cli import completion, kubectl, main, named, output, tables
from admission.kube import resources
from admission.objects import crds
from admission.sandbox.store import Store
from tests.builders.pods import make_pod
from tests.builders.queues import make_local_queue
from tests.builders.workloads import make_workload
from tests.cli import served
from tests.cli.served import KUBECONFIG
from tests.controlplane.waiting import PATIENCE_SECONDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("program", "name"), [(main.main, "gpu-admission"), (kubectl.main, "kubectl-gpu")]
)
def test_the_script_of_a_shell_completes_the_program(
    shell: str, program: click.Command, name: str
) -> None:
    done = CliRunner().invoke(program, ["completion", shell], prog_name="gpu-admission")
    assert done.exit_code == 0
    assert name in done.stdout
    assert f"_{name.upper().replace('-', '_')}_COMPLETE" in done.stdout


def words(*typed: str) -> list[str]:
    """What kubectl is told may follow some words, and what to do where there is nothing."""
    done = CliRunner().invoke(kubectl.main, ["complete", "--", *typed])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("wh",), ["who\t", "why\t", ":4"]),
        (("top", "--all-r"), ["--all-resources\t", ":4"]),
        (("who", "x", "--kind", "co"), ["cohort", ":4"]),
        (("top", "-o", "y"), ["yaml", ":4"]),
        (("doctor", "--kubeconfig", ""), [":0"]),
        (("queue", "--all-n"), ["--all-namespaces", ":4"]),
    ],
)
def test_kubectl_is_told_what_may_follow(typed: tuple[str, ...], told: list[str]) -> None:
    found = words(*typed)
    assert [one.partition("\t")[0] for one in found] == [one.partition("\t")[0] for one in told]


def test_kubectl_is_told_every_command_and_none_that_is_hidden() -> None:
    found = {one.partition("\t")[0] for one in words("")}
    assert found >= {"completion", "doctor", "queue", "top", "usage", "who", "why"}
    assert "complete" not in found


def test_the_program_for_kubectl_answers_as_the_command_does() -> None:
    code = f"from {completion.__name__} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "wh"],
        capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.stdout.splitlines() == words("wh")


def test_the_script_for_kubectl_passes_every_word_on() -> None:
    done = CliRunner().invoke(kubectl.main, ["completion", "kubectl"])
    assert done.stdout.startswith("#!/bin/sh\n")
    assert 'exec kubectl-gpu complete -- "$@"' in done.stdout


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """Every command that is no group, by how it is typed."""
    if not isinstance(command, click.Group):
        return {" ".join(path): command}
    context = click.Context(command)
    found: dict[str, click.Command] = {}
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        found |= leaves(inner, (*path, name))
    return found


def test_whatever_prints_json_prints_yaml() -> None:
    forms = {
        name: next(one for one in command.params if one.name == "form")
        for name, command in {**leaves(main.main), **leaves(kubectl.main)}.items()
        if any(one.name == "form" for one in command.params)
    }
    assert {"top", "why", "doctor", "init", "break-glass on"} <= forms.keys()
    lacking = {
        name
        for name, option in forms.items()
        if not {"json", "yaml"} <= set(option.type.choices)  # type: ignore[attr-defined]
    }
    assert lacking == set()


def test_yaml_is_the_document_of_json() -> None:
    @click.command()
    @output.output_option
    def command(form: str) -> None:
        assert form == "json"
        output.print_json({"b": 1, "a": ["ä", None]})

    told = CliRunner().invoke(command, ["-o", "yaml"]).stdout
    assert yaml.safe_load(told) == {"b": 1, "a": ["ä", None]}
    assert told.startswith("b: 1\n")


def test_wide_tables_are_not_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    @click.command()
    @output.table_option
    def command(form: str) -> None:
        assert form == "text"
        click.echo(tables.width())

    assert CliRunner().invoke(command, ["-o", "wide"]).stdout == "0\n"
    assert CliRunner().invoke(command, []).stdout == "40\n"


# ----------------------------------------------------------------------------- names of objects

KINDS = resources.BUILT_IN + resources.CUSTOM


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a cluster with queues, nodes, pods and a Workload; its namespace is team."""
    store = Store(crds=crds.documents())
    for resource, names_of in (
        (resources.CLUSTER_QUEUES, ["research", "serving"]),
        (resources.COHORTS, ["all-teams"]),
        (resources.NODES, ["gpu-0"]),
        (resources.NAMESPACES, ["team", "test", "lab"]),
    ):
        for name in names_of:
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            store.create(resource, {**head, "metadata": {"name": name}, "spec": {}})
    for namespace in ("team", "lab"):
        queue = make_local_queue("default", "research", namespace)
        store.create(resources.LOCAL_QUEUES, queue, namespace)
        store.create(
            resources.PODS, make_pod(f"train-{namespace}", namespace=namespace), namespace
        )
    workload = make_workload("job-train-1f2e3", namespace="team", queue="default")
    store.create(resources.WORKLOADS, workload, "team")
    with served.served(store, KINDS, tmp_path_factory.mktemp("completion")) as path:
        yield str(path)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("top", ""), ["all-teams", "research", "serving"]),
        (("top", "re"), ["research"]),
        (("queue", ""), ["default", "lab/default", "research", "serving"]),
        (("queue", "lab/"), ["lab/default"]),
        (("queue", "-n", "lab", "def"), ["default"]),
        (("who", "g"), ["gpu-0"]),
        (("why", "train"), ["train-team"]),
        (("why", "-n", "lab", "train"), ["train-lab"]),
        (("why", "wo"), ["workload/"]),
        (("why", "workload/j"), ["workload/job-train-1f2e3"]),
        (("why", "clusterqueue/"), ["clusterqueue/research", "clusterqueue/serving"]),
        (("why", "unknown/"), []),
        (("top", "-n", "te"), ["team", "test"]),
        (("doctor", "--context", ""), ["here", "there"]),
    ],
)
def test_names_of_objects_are_completed(
    typed: tuple[str, ...], told: list[str], kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert words(*typed) == [*told, ":4"]


def test_a_kubeconfig_that_is_typed_is_the_one_that_is_asked(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert words("top", "--kubeconfig", kubeconfig, "s") == ["serving", ":4"]


@pytest.mark.parametrize("typed", [("why", "train"), ("top", ""), ("doctor", "--context", "")])
def test_where_nobody_answers_nothing_is_completed_and_nothing_is_said(
    typed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for text in ("", "contexts: 4", KUBECONFIG.format(url="http://127.0.0.1:1")):
        path = tmp_path / "kubeconfig"
        path.write_text(text)
        monkeypatch.setenv("KUBECONFIG", str(path))
        done = CliRunner().invoke(kubectl.main, ["complete", "--", *typed])
        assert done.exit_code == 0
        assert done.stderr == ""
        told = done.stdout.splitlines()
        assert told in ([":4"], ["here", "there", ":4"])


def test_a_server_that_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(named, "WAIT_SECONDS", 0.05)
    silent = socket.create_server(("127.0.0.1", 0))
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(url=f"http://127.0.0.1:{silent.getsockname()[1]}"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    with silent:
        assert words("top", "") == [":4"]


def test_all_namespaces_and_one_exclude_each_other(kubeconfig: str) -> None:
    for typed in (["-A", "-n", "lab"], ["-n", "lab", "-A"]):
        done = CliRunner().invoke(kubectl.main, ["top", *typed, "--kubeconfig", kubeconfig])
        assert done.exit_code == 2
        assert "exclude each other" in done.stderr
    done = CliRunner().invoke(kubectl.main, ["queue", "-A", "--kubeconfig", kubeconfig])
    assert done.exit_code == 0, done.output
