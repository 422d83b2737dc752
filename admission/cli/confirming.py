"""Questions at a terminal before much is changed."""

import sys

import click


def has_terminal() -> bool:
    """Return whether somebody can be asked: input, output and errors are a terminal."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def confirm(question: str) -> None:
    """Ask whether to go on, where the default is no.

    Raises:
        Abort: somebody said no.
    """
    click.confirm(question, abort=True, err=True)
