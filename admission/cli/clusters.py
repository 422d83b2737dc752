"""The cluster that a command works on: its options, the connection, and commands for it."""

import functools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import click
from click.core import ParameterSource

from admission.cli import named, output, targets
from admission.kube.client import Client
from admission.run.connection import ApiServerTarget

_TIMEOUT_SECONDS: Final = 65.0
"""An API server with much to do gives up after 60 s by itself, and says so."""
_OPTIONS: Final = ("kubeconfig", "context")
"""Parameters that say which cluster is meant, also to the next command."""

_context_option: Final[Callable[[Any], Any]] = click.option(
    "--context",
    shell_complete=named.contexts,
    help="Context of the kubeconfig. Default: its current one.",
)


def context_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the context, and of whom it acts as."""
    wrapped: Callable[..., Any] = _context_option(targets.identity_options(command))
    return wrapped


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of its cluster; it gets them as one argument `target`."""

    @functools.wraps(command)
    def with_target(
        *arguments: Any, kubeconfig: str | None, context: str | None, **values: Any
    ) -> Any:
        return command(*arguments, target=targets.chosen(kubeconfig, context), **values)

    wrapped: Callable[..., Any] = output.kubeconfig_option(context_option(with_target))
    return wrapped


@contextmanager
def connected(target: ApiServerTarget, advice: str = "") -> Iterator[Client]:
    """Say which cluster is meant and connect to it; what fails ends the command.

    Args:
        target: of the options.
        advice: what to do next where an error itself suggests nothing better.
    """
    with output.reported(advice):
        click.echo(f"cluster: {output.one_line(target.place())}", err=True)
        with closing(target.connect(connections=1, timeout_seconds=_TIMEOUT_SECONDS)) as api:
            yield api


def again(command: str) -> str:
    """Return a command to type next, for the cluster that the present one was told to use."""
    typed = [word for option in _typed_again() for word in option]
    return shlex.join([*shlex.split(command), *typed]) if typed else command


def repeated(text: str) -> str:
    """Return a text whose commands have the options of the cluster that were typed.

    A command ends at punctuation, or at the end of the text. One that names a cluster itself, as
    those of `again` do, keeps what it has. One that the text leaves to an administrator is not
    run as the user of --as.
    """
    typed = _typed_again()
    if not typed:
        return text
    of_cluster = _pairs(_typed())

    def completed(match: re.Match[str]) -> str:
        is_left = _LEAVES_TO_ADMINISTRATOR.search(text, 0, match.start())
        return _with(match[0], of_cluster if is_left else typed)

    return _COMMAND.sub(completed, text)


_LEAVES_TO_ADMINISTRATOR: Final = re.compile(
    r"\badministrator\b(?:(?![.;] | or ).)*$", re.IGNORECASE | re.DOTALL
)
"""The begin of a sentence or clause whose command somebody else has to run."""


_COMMAND: Final = re.compile(
    r"\b(?:kubectl (?:annotate|apply|auth|config|cordon|create|delete|describe|drain|edit|get|gpu"
    r"|label|logs|patch|port-forward|rollout|scale|uncordon|version|wait)"
    r"|gpu-admission (?:break-glass|doctor|init|install|migrate|must-gather|stops|uninstall))\b"
    r"(?:(?<![.,:]) +(?!(?:#|>|&&|2>&1)(?:\s|$))"
    r"""(?:'[^'\n]*'|"[^"\n]*"|[^\s'"`;|()])+)*"""
)
"""A command of kubectl, or of this program for a cluster, with the punctuation that ends it."""


def _with(text: str, typed: Sequence[tuple[str, str]]) -> str:
    """Return a command, and what ends it, with the options that it does not have."""
    command = text.rstrip(".,:")
    words = command.split()
    missing = [word for option in typed if option[0] not in words for word in option]
    options = f" {shlex.join(missing)}" if missing else ""
    return f"{command}{options}{text[len(command) :]}"


def _typed_again() -> list[tuple[str, str]]:
    """Return the options of the cluster, and of whom to act as, that were typed."""
    return _pairs([*_typed(), *targets.typed()])


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))


def _typed() -> list[str]:
    """Return the options of the cluster that were typed; the environment stays as it is."""
    options = dict[str, str]()
    context = click.get_current_context(silent=True)
    while context is not None:
        for name in _OPTIONS:
            typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            if typed and name not in options:
                options[name] = context.params[name]
        context = context.parent
    return [part for name in _OPTIONS if name in options for part in (f"--{name}", options[name])]
