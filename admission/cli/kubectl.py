"""``kubectl gpu``: questions about pods, asked beside kubectl."""

from collections.abc import Iterable
from importlib import metadata
from typing import Any, Final

import click
from typing_extensions import override

from admission.cli.lazy import Lazy, LazyGroup

EXITS: Final = """\b
Exit codes:
  0  answered
  1  no answer: there is no such object, or the API server refused or was not reached
  2  the command line is wrong
"""
COMMANDS: Final = {
    "queue": Lazy("admission.cli.queue:queue", "Show who waits in a queue, at which place."),
    "top": Lazy(
        "admission.cli.top:top", "Show quota and its use, by ClusterQueue, Cohort and flavor."
    ),
    "usage": Lazy("admission.cli.usage:usage", "Show how much GPU-time was used, by whom."),
    "who": Lazy(
        "admission.cli.who:who",
        "Show who holds quota: in all queues, or of a namespace, node, queue, cohort or user.",
    ),
    "why": Lazy(
        "admission.cli.why:why",
        "Say where something stands: admitted and on what, or waiting, why, and what to do.",
    ),
}
_PLUGIN: Final = {
    **COMMANDS,
    "complete": Lazy("admission.cli.completion:complete", "", hidden=True),
    "completion": Lazy(
        "admission.cli.completion:completion",
        "Print a script that completes these commands in a shell.",
    ),
    "doctor": Lazy(
        "admission.cli.doctor:doctor",
        "Find problems of gpu-admission in a cluster, and say how to fix them.",
    ),
}
"""What is a command of the plugin; those above are commands of `gpu-admission` as they are."""
_DISTRIBUTIONS: Final = ("kubectl-gpu", "gpu-admission")
"""The two that have the plugin."""
_PACKAGES_ADVICE: Final = (
    "Install the wheel of the release with its extra:"
    " pip install './kubectl_gpu-VERSION-py3-none-any.whl[doctor]'; or, where the package"
    " gpu-admission is installed: gpu-admission doctor"
)


def plugin_commands() -> Iterable[Lazy]:
    """Return where the commands of the plugin are."""
    return _PLUGIN.values()


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or context.resilient_parsing:
        return
    installed = next(
        distribution
        for name in _DISTRIBUTIONS
        for distribution in metadata.distributions(name=name)
    )
    click.echo(f"kubectl gpu, version {installed.version}")
    context.exit()


class _Plugin(LazyGroup):
    """A command that kubectl calls: it names itself as its users do."""

    @override
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        return super().make_context("kubectl gpu", args, parent, **extra)

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from admission.cli import main  # noqa: PLC0415 - it imports this module

        if args[0] in main.COMMANDS and args[0] not in _PLUGIN:
            ctx.fail(f"'{args[0]}' is a command of gpu-admission: gpu-admission {args[0]}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Plugin,
    lazy=_PLUGIN,
    packages_advice=_PACKAGES_ADVICE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"""\b
Examples:
  kubectl gpu why train-0 -n research
  kubectl gpu top
  kubectl gpu queue research
  kubectl gpu who gpu-node-3
  kubectl gpu usage --since 7d
  kubectl gpu doctor

{EXITS}""",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Ask about GPU quota."""
