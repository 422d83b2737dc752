"""Command ``completion``: what a shell needs to complete these commands.

kubectl asks a program ``kubectl_complete-gpu`` on the PATH what may follow ``kubectl gpu``, and
takes one answer a line, then a number that says what to do where there is none.
Source: k8s.io/kubectl pkg/cmd/plugin (plugin_completion.go), cobra's ShellCompDirective.
"""

import sys
from typing import Final

import click
from click import shell_completion

_PROGRAMS: Final = {"kubectl gpu": "kubectl-gpu"}
_FOR_KUBECTL: Final = "kubectl"
_NO_FILES: Final = ":4"
_FILES: Final = ":0"
_SCRIPT: Final = """\
#!/bin/sh
# What kubectl completes after `kubectl gpu`: save it as kubectl_complete-gpu on the PATH.
exec kubectl-gpu complete -- "$@"
"""


@click.command(
    epilog="""\b
Examples:
  source <(gpu-admission completion bash)
  gpu-admission completion zsh > "${fpath[1]}/_gpu-admission"
  gpu-admission completion fish > ~/.config/fish/completions/gpu-admission.fish
  kubectl gpu completion kubectl > ~/.local/bin/kubectl_complete-gpu
  chmod +x ~/.local/bin/kubectl_complete-gpu
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", _FOR_KUBECTL]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes these commands in a shell.

    With kubectl it is the program that kubectl 1.26 and later asks about `kubectl gpu`; a package
    of gpu-admission brings it along.
    """
    if shell == _FOR_KUBECTL:
        click.echo(_SCRIPT, nl=False)
        return
    root = context.find_root()
    program = _PROGRAMS.get(root.info_name or "", root.info_name or "gpu-admission")
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root.command, {}, program, variable).source())


@click.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def complete(context: click.Context, words: tuple[str, ...]) -> None:
    """Print what may follow some words, as kubectl reads it; the last word is not complete."""
    answer(context.find_root().command, words)


def answer(command: click.Command, words: tuple[str, ...]) -> None:
    """Print what may follow some words of a command; the last one is not complete."""
    *before, incomplete = words or ("",)
    shell = shell_completion.ShellComplete(command, {}, "kubectl gpu", "")
    found = shell.get_completions(list(before), incomplete)
    plain = [one for one in found if one.type == "plain"]
    for one in plain:
        click.echo(f"{one.value}\t{one.help}" if one.help else one.value)
    click.echo(_NO_FILES if plain or not found else _FILES)


def main() -> None:
    """Answer kubectl: the program ``kubectl_complete-gpu``."""
    from admission.cli import kubectl  # noqa: PLC0415 - it has this module's commands

    answer(kubectl.main, tuple(sys.argv[1:]))
