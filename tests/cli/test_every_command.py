"""Rules of all commands of both programs: forms of output, the cluster, and completion."""

from collections.abc import Iterator
from typing import Final

import click
import pytest
from click.testing import CliRunner

from admission.cli import kubectl, main
from tests.cli.test_completion import leaves

COMMANDS: Final = {
    **{f"gpu-admission {name}": found for name, found in leaves(main.main).items()},
    **{f"kubectl gpu {name}": found for name, found in leaves(kubectl.main).items()},
}
SERVES: Final = frozenset(
    {"gpu-admission controller", "gpu-admission run", "gpu-admission webhook"}
)
"""They run in pods, and have a kubeconfig only where somebody tries them out."""
PRINTS_ITS_OWN: Final = frozenset(
    {
        "gpu-admission completion",
        "gpu-admission config",  # a configuration file
        "gpu-admission demo",
        "gpu-admission manifests",  # documents for kubectl
        "kubectl gpu complete",
        "kubectl gpu completion",
    }
)
"""What they print is a file of a form of its own."""
FREE: Final = {
    "--as": "a user, which is no object",
    "--as-group": "a group, which is no object",
    "--image": "a name in a registry",
    "--kueue-deployment": "in a namespace that is not known while it is typed",
    "--team": "a new name",
    "--webhook-url": "an address",
}
"""Options with a text that nothing is known about."""


def params(command: click.Command) -> Iterator[click.Parameter]:
    """What takes a value."""
    for param in command.params:
        if not (isinstance(param, click.Option) and (param.is_flag or param.count)):
            yield param


def test_there_are_commands_of_both_programs() -> None:
    assert {"gpu-admission doctor", "kubectl gpu why"} <= COMMANDS.keys()
    assert COMMANDS.keys() >= SERVES | PRINTS_ITS_OWN


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SERVES - PRINTS_ITS_OWN))
def test_a_command_prints_json_and_yaml(name: str) -> None:
    forms = [param for param in COMMANDS[name].params if "-o" in param.opts]
    assert len(forms) == 1
    assert isinstance(forms[0].type, click.Choice)
    assert {"text", "json", "yaml"} <= {*forms[0].type.choices}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_that_asks_a_cluster_takes_a_context(name: str) -> None:
    opts = {opt for param in COMMANDS[name].params for opt in param.opts}
    assert ("--context" in opts) is ("--kubeconfig" in opts and name not in SERVES)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - SERVES))
def test_every_value_that_something_is_known_about_is_completed(name: str) -> None:
    """Names by `admission.cli.named`, choices and paths by click; durations, numbers are free."""
    lacking = [
        param.opts[0]
        for param in params(COMMANDS[name])
        if type(param.type) is click.types.StringParamType
        and param._custom_shell_complete is None
        and param.opts[0] not in FREE
    ]
    assert lacking == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_a_command_has_an_example_that_names_it(name: str) -> None:
    command = COMMANDS[name]
    if command.hidden or name in SERVES:
        return
    words = name.removeprefix("gpu-admission ").removeprefix("kubectl gpu ")
    typed = {f"{program} {words}" for program in ("gpu-admission", "kubectl gpu")}
    assert any(one in (command.epilog or "") for one in typed)


def test_what_is_free_is_an_option_of_some_command() -> None:
    opts = {opt for command in COMMANDS.values() for param in command.params for opt in param.opts}
    assert opts >= FREE.keys()


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("break-glass", "release", "po"), ["pod"]),
        (("gpu", "profiles", "--product", "a100-8"), ["A100-80GB"]),
    ],
)
def test_what_needs_no_server_is_completed_without_one(
    typed: tuple[str, ...], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    env = {
        "_GPU_ADMISSION_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("gpu-admission", *typed)), "COMP_CWORD": str(len(typed)),
    }  # fmt: skip
    done = CliRunner().invoke(
        main.main, [], prog_name="gpu-admission", env=env, complete_var="_GPU_ADMISSION_COMPLETE"
    )
    found = [line.partition(",")[2] for line in done.stdout.splitlines()]
    assert found == told, done.output
