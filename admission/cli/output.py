"""How commands speak: people get tables and sentences, machines get JSON, failures get advice."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import click
import rich.console

from admission.base.errors import AdmissionError

FAILED: Final = 1
USAGE: Final = 2

console: Final = rich.console.Console(highlight=False, soft_wrap=True)

output_option: Final[Callable[[Any], Any]] = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
kubeconfig_option: Final[Callable[[Any], Any]] = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    envvar="KUBECONFIG",
    help="Path of the kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the pod's account.",
)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=2, default=str))


def fail(message: str, advice: str = "") -> NoReturn:
    """Ends the command with exit code 1, a message, and what to do next."""
    click.echo(f"error: {message}", err=True)
    if advice:
        click.echo(f"hint: {advice}", err=True)
    sys.exit(FAILED)


@contextmanager
def reported(advice: str = "") -> Iterator[None]:
    """Turns the program's own exceptions into a message and exit code 1."""
    try:
        yield
    except AdmissionError as error:
        fail(str(error), advice)
    except OSError as error:
        fail(str(error), advice)
