"""Commands that are imported when they run: ``--help`` of the program needs none of them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem
from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is.

    Attributes:
        place: module and attribute, as ``admission.cli.config:config``.
        summary: its line in the list of commands; a test holds it to the command's own.
        hidden: whether it is left out of that list.
    """

    place: str
    summary: str
    hidden: bool = False


class LazyGroup(click.Group):
    """A group whose commands are imported one by one."""

    def __init__(
        self, *args: Any, lazy: Mapping[str, Lazy], packages_advice: str = "", **options_: Any
    ) -> None:
        """Make it.

        Args:
            args: as for `click.Group`.
            lazy: the commands by name.
            packages_advice: what to do where a package is missing that a command imports; empty
                where all packages are always installed.
            options_: as for `click.Group`.
        """
        super().__init__(*args, **options_)
        self._lazy = lazy
        self._packages_advice = packages_advice

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._lazy)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy_command = self._lazy.get(cmd_name)
        if lazy_command is None:
            return None
        module, _, attribute = lazy_command.place.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if not self._packages_advice or package == __package__.partition(".")[0]:
                raise
            raise click.ClickException(
                f"{cmd_name} needs the Python package {package}, which is not installed here."
                f" {self._packages_advice}."
            ) from None
        assert isinstance(command, click.Command)
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name].summary) for name in self._shown()])

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return names of commands and options; click would import every command for it."""
        names = [
            CompletionItem(name, help=self._lazy[name].summary)
            for name in self._shown()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _shown(self) -> list[str]:
        return sorted(name for name, command in self._lazy.items() if not command.hidden)
