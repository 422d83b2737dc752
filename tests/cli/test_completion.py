"""Shells, and kubectl, complete the commands; forms of output that every command has."""

import subprocess
import sys

import click
import pytest
import yaml
from click.testing import CliRunner

from admission.cli import completion, kubectl, main, output, tables
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
        (("top", "--all"), ["--all-resources\t", ":4"]),
        (("who", "x", "--as", "co"), ["cohort", ":4"]),
        (("top", "-o", "y"), ["yaml", ":4"]),
        (("doctor", "--kubeconfig", ""), [":0"]),
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
