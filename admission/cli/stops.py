"""Commands ``stops`` and ``stops allow``: pods and Jobs whose stop is held back."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from typing_extensions import override

from admission.base import durations, names
from admission.base.clock import SystemClock
from admission.base.errors import InvalidValueError
from admission.cli import options, output
from admission.config import reading
from admission.kube.client import Client
from admission.run import connection
from admission.run import stops as held_stops

_TIMEOUT_SECONDS: Final = 30.0
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
@output.kubeconfig_option
@output.output_option
@click.pass_context
def stops(context: click.Context, kubeconfig: str | None, form: str) -> None:
    """Show pods and Jobs that are to be stopped, but whose stop is held back.

    Stops beyond maxStopsPerMinute of the configuration file are held back. Preemption, the stop
    policy of a queue, and Workloads with active: false are not limited.
    """
    if context.invoked_subcommand is not None:
        context.obj = kubeconfig
        return
    with output.reported(_LIST_ADVICE), closing(_connect(kubeconfig)) as api:
        found = held_stops.held_back(api)
    if form == "json":
        output.print_json([asdict(one) for one in found])
        return
    for one in found:
        told = f"{one.kind}/{one.name} -n {one.namespace}: {one.why}"
        output.console().print(output.one_line(told))
    count = len(found) or "no"
    hint = "; carry them out with: gpu-admission stops allow --for 10m" if found else ""
    output.console().print(f"{count} stop(s) held back{hint}")


@stops.command(
    epilog="""\b
Examples:
  gpu-admission stops allow
  gpu-admission stops allow --for 1h --kubeconfig admin.kubeconfig
"""
)
@output.kubeconfig_option
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
    given: str | None, kubeconfig: str | None, config_file: Path | None, seconds: float, form: str
) -> None:
    """Carry out all stops that are held back, and hold none back for a while.

    Writes the annotation gpu-admission.dev/stops-allowed-until to the namespace of the
    installation. Pass the configuration file of the installation, if it had one.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load_logged(config_file)
    with output.reported(_ALLOW_ADVICE), closing(_connect(kubeconfig or given)) as api:
        until = held_stops.allow(api, settings.namespace, seconds, SystemClock())
    if form == "json":
        output.print_json({"namespace": settings.namespace, names.STOPS_ALLOWED_UNTIL: until})
    else:
        output.console().print(f"stops are allowed until {until}")


def _connect(kubeconfig: str | None) -> Client:
    return connection.Target(kubeconfig).connect(connections=1, timeout_seconds=_TIMEOUT_SECONDS)
