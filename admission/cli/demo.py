"""Command ``demo``: a whole system without a cluster, to look at."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from typing import Final

import click
import rich.console
import rich.live
import rich.table
import rich.text

from admission.cli import output, tables
from admission.run import signals
from admission.sandbox.demo import scenario, stage
from admission.sandbox.demo.display_state import DisplayState, Sight
from admission.sandbox.demo.stage import DemoMoment
from admission.sandbox.system import Sandbox

_STYLES: Final = {
    DisplayState.WAITING: "yellow",
    DisplayState.ADMITTED: "cyan",
    DisplayState.RUNNING: "green",
    DisplayState.DONE: "dim",
}
_EVENTS_SHOWN: Final = 3
_LINE: Final = 100
"""Width of a line where nothing limits it, as in a pipe."""
_INDENT: Final = " " * 7


@click.command(
    epilog="""\b
Examples:
  gpu-admission demo
  gpu-admission demo --keep     # then: kubectl --kubeconfig PATH get pods -A
"""
)
@click.option("--keep", is_flag=True, help="Go on with new pods at the end, until Ctrl-C.")
def demo(keep: bool) -> None:
    """Show GPU pods being admitted, rewritten, made to wait, refused, and released.

    Two teams share A100s and borrow from each other; one also has H100s. A third team has one
    budget of GPU memory and slices for an A100, its MIG slices and an H100, which becomes
    unhealthy. The demo starts the real webhook with TLS and the real controller on an embedded
    API server; it needs no cluster. It ends by itself within a minute.
    """
    signals.exit_on_terminate()
    clock = output.clock()
    with output.reported("the log of the processes is part of the message"):
        output.console().print("starting webhook (TLS) and controller on an embedded store ...")
        with Sandbox(clock) as sandbox:
            if keep:
                _tell_link(sandbox)
            moments = stage.play(sandbox, clock)
            last = _show_live(moments) if output.console().is_terminal else _show_lines(moments)
            _summarise(last)
            if keep:
                _tell_kept(sandbox)
                with contextlib.suppress(KeyboardInterrupt):
                    stage.go_on(sandbox, clock)


def _show_live(moments: Iterator[DemoMoment]) -> DemoMoment:
    with rich.live.Live(console=output.console(), auto_refresh=False) as live:
        last = None
        for last in moments:
            live.update(_view(last), refresh=True)
    assert last is not None
    return last


def _show_lines(moments: Iterator[DemoMoment]) -> DemoMoment:
    """One line for each change, where the output is no terminal."""
    seen: dict[str, Sight] = {}
    warned = happened = 0
    last = None
    for last in moments:
        for text in last.events[happened:]:
            _say(last, text)
        happened = len(last.events)
        for text in last.warnings[warned:]:
            _say(last, f"warning to the user of {text}")
        warned = len(last.warnings)
        for sight in last.sights:
            if seen.get(sight.pod) != sight:
                seen[sight.pod] = sight
                _say(last, _line(sight))
    assert last is not None
    return last


def _say(moment: DemoMoment, text: str) -> None:
    """Print a sentence in lines that are no wider than the terminal."""
    for line in tables.sentence(f"{moment.seconds:5.1f}s {text}", _width(), _INDENT):
        click.echo(line)


def _width() -> int:
    return tables.width() or _LINE


def _line(sight: Sight) -> str:
    styles = {
        DisplayState.WAITING: f": {sight.why}" if sight.why else "",
        DisplayState.ADMITTED: f" on {sight.flavor}, injected {sight.given}",
        DisplayState.RUNNING: f" on {sight.flavor}, injected {sight.given}",
        DisplayState.DONE: "",
    }
    return f"{sight.pod} {sight.state} ({sight.asks}){styles[sight.state]}"


def _view(moment: DemoMoment) -> rich.console.Group:
    """Return the queues and the pods, each as a table."""
    return rich.console.Group(_queues(moment), _table(moment))


def _queues(moment: DemoMoment) -> rich.table.Table:
    table = rich.table.Table(expand=True)
    table.add_column("queue", no_wrap=True)
    table.add_column("used of its own quota", ratio=1, no_wrap=True)
    table.add_column("waiting", justify="right", no_wrap=True)
    for queue in moment.queues:
        table.add_row(queue.name, queue.used, str(queue.waiting))
    return table


def _table(moment: DemoMoment) -> rich.table.Table:
    """Few lines for each pod: what is higher than the terminal is cut off at its end."""
    warning_lines = [f"kubectl would print: Warning: {text}" for text in moment.warnings[-1:]]
    lines = [f"{moment.seconds:.1f} s", *moment.events[-_EVENTS_SHOWN:], *warning_lines]
    title = rich.text.Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
    table = rich.table.Table(title=title, title_justify="left", title_style="", expand=True)
    for heading in ("pod", "asks", "state", "flavor"):
        table.add_column(heading, no_wrap=True)
    table.add_column("injected, or why it waits", ratio=1)
    for sight in moment.sights:
        given_text = rich.text.Text(sight.given, no_wrap=True, overflow="ellipsis")
        table.add_row(
            sight.pod,
            sight.asks,
            rich.text.Text(sight.state, style=_STYLES[sight.state]),
            sight.flavor,
            sight.why or given_text,
        )
    return table


def _summarise(moment: DemoMoment) -> None:
    done = [sight for sight in moment.sights if sight.state is DisplayState.DONE]
    waiting = [sight for sight in moment.sights if sight.state is DisplayState.WAITING]
    rewritten = [sight for sight in moment.sights if "(asked: " in sight.asks]
    summary = (
        f"{len(done)} of {len(moment.sights)} pods were admitted, ran and gave their GPUs back "
        f"within {moment.seconds:.0f} s; {len(rewritten)} were rewritten to MIG slices; "
        f"{moment.refused} more was refused at creation."
    )
    for line in ("", *tables.sentence(summary, _width())):
        output.console().print(line)
    output.console().print("One budget of GPU memory and slices, whatever the GPU:")
    for sight in moment.sights:
        if sight.worth:
            output.console().print(f"  {sight.pod}: {sight.asks} on {sight.worth}")
    for sight in waiting:
        for line in tables.sentence(f"{sight.pod}: {sight.why}", _width(), "  "):
            output.console().print(line)


def _tell_link(sandbox: Sandbox) -> None:
    output.console().print(f"watch it in a browser: {sandbox.dashboard_url}", soft_wrap=True)


def _ask(sandbox: Sandbox, *command: str) -> str:
    """Return a command that asks the demo, as it was started itself."""
    return shlex.join([*_program(), *command, "--kubeconfig", str(sandbox.kubeconfig)])


def _program() -> list[str]:
    return sys.orig_argv[:3] if sys.argv[0].endswith("__main__.py") else sys.argv[:1]


def _tell_kept(sandbox: Sandbox) -> None:
    output.console().print(
        f"\nthe same pods come again and again, and run longer; Ctrl-C ends it. In each round "
        f"{scenario.WAITS} waits for others, and {scenario.WAITS_FOR_SICK} for a sick GPU, for "
        f"about a minute; {scenario.NEVER_FITS} never starts. Who is admitted or gone when you "
        "look comes again within two minutes. In another terminal:\n"
        f"  {_ask(sandbox, 'top')}\n"
        f"  {_ask(sandbox, 'why', scenario.WAITS, '-n', scenario.WAITS_IN)}\n"
        f"  {_ask(sandbox, 'why', scenario.WAITS_FOR_SICK, '-n', scenario.SICK_IN)}\n"
        f"where they name a command that begins with kubectl gpu, it is here:\n"
        f"  {shlex.join(_program())} ... --kubeconfig {sandbox.kubeconfig}\n"
        "doctor and install are for a real cluster: nothing is installed in this one.\n"
        f"  kubeconfig {sandbox.kubeconfig}\n  webhook    {sandbox.webhook_url}\n"
        f"  controller {sandbox.metrics_url}/metrics\n"
        f"  dashboard  {sandbox.dashboard_url}",
        soft_wrap=True,
    )
