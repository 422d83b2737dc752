"""Commands ``stops`` and ``stops allow``: pods and Jobs whose stop is held back."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from typing_extensions import override

from admission.admin import stops as held_stops
from admission.base import durations, names
from admission.base.errors import InvalidValueError
from admission.cli import clusters, options, output, tables, targets
from admission.config import reading
from admission.run.connection import ApiServerTarget

_LONGEST_US: Final = 24 * 3600 * 10**6
_LIST_ADVICE: Final = "your user needs the right to list Workloads and events in all namespaces"
_ALLOW_ADVICE: Final = "your user needs the right to change the namespace of the installation"


class _Duration(click.ParamType[float]):
    name = "duration"

    @override
    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        try:
            microseconds = durations.parse(value)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)
        if not 0 < microseconds <= _LONGEST_US:
            self.fail(f"{value!r}: must be above 0s and at most 24h", param, ctx)
        return microseconds / 10**6


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  gpu-admission stops
  gpu-admission stops -o json
  gpu-admission stops allow --for 10m
""",
)
@clusters.cluster_options
@output.output_option
@click.pass_context
def stops(called: click.Context, target: ApiServerTarget, form: str) -> None:
    """Show pods and Jobs that are to be stopped, but whose stop is held back.

    Stops beyond maxStopsPerMinute of the configuration file are held back. Preemption, the stop
    policy of a queue, and Workloads with active: false are not limited.
    """
    if called.invoked_subcommand is not None:
        called.obj = target
        return
    with clusters.connected(target, _LIST_ADVICE) as api:
        held_back = held_stops.held_back(api)
    if form == "json":
        output.print_json([asdict(stop) for stop in held_back])
        return
    for stop in held_back:
        title = f"{stop.kind}/{stop.name} -n {stop.namespace}: {stop.why}"
        output.console().print(output.one_line(title))
    allowed = clusters.again("gpu-admission stops allow --for 10m")
    hint = f"; carry them out with: {allowed}" if held_back else ""
    count = tables.counted(len(held_back), "stop") if held_back else "no stops"
    output.console().print(f"{count} held back{hint}")


@stops.command(
    epilog="""\b
Examples:
  gpu-admission stops allow
  gpu-admission stops allow --for 1h --kubeconfig admin.kubeconfig
"""
)
@clusters.cluster_options
@options.config_option
@click.option(
    "--for",
    "seconds",
    type=_Duration(),
    default="10m",
    show_default=True,
    help="For how long no stop is held back; at most 24h.",
)
@output.output_option
@click.pass_obj
def allow(
    command_target: ApiServerTarget,
    target: ApiServerTarget,
    config_file: Path | None,
    seconds: float,
    form: str,
) -> None:
    """Carry out all stops that are held back, and hold none back for a while.

    Writes the annotation gpu-admission.dev/stops-allowed-until to the namespace of the
    installation. Pass the configuration file of the installation, if it had one.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
    chosen = targets.chosen(
        target.kubeconfig or command_target.kubeconfig, target.context or command_target.context
    )
    with clusters.connected(chosen, _ALLOW_ADVICE) as api:
        until = held_stops.allow(api, settings.namespace, seconds, output.clock())
    if form == "json":
        output.print_json({"namespace": settings.namespace, names.STOPS_ALLOWED_UNTIL: until})
    else:
        output.console().print(f"stops are allowed until {until}")
