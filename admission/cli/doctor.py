"""Commands ``doctor`` and ``must-gather``: what is wrong in a cluster, and what mends it."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import click

from admission.base.clock import SystemClock
from admission.cli import asking, options, output, tables
from admission.config import reading
from admission.config.derived import Settings
from admission.kube.client import Client
from admission.run import connection
from admission.run.doctor import checks, gathering, looking
from admission.run.doctor.findings import Diagnosis, Finding, Severity

_TIMEOUT_SECONDS: Final = 30.0
_NOT_LOOKED: Final = 3
_HEADS: Final = {
    Severity.ERROR: "Does not work",
    Severity.WARNING: "May not work",
}


@click.command(
    epilog="""\b
Examples:
  gpu-admission doctor
  gpu-admission doctor --kubeconfig admin.kubeconfig --context production
  gpu-admission doctor --config config.yaml -o json
  gpu-admission doctor || gpu-admission must-gather
"""
)
@output.kubeconfig_option
@asking.context_option
@options.config_option
@output.output_option
def doctor(
    kubeconfig: str | None, context: str | None, config_file: Path | None, form: str
) -> None:
    """Find what is wrong in a cluster with gpu-admission, and say what mends it.

    Reads the cluster with the rights of the kubeconfig and changes nothing; one pod is created as
    a dry run, which the API server checks and does not store. What may not be read is named, and
    everything else is checked all the same. Takes the configuration file of an installation whose
    webhook runs outside the cluster, if it has one.

    Exit code: 0 no error was found, 1 one was, 2 the command line is wrong, 3 no error was found,
    and some checks could not look.
    """
    with _asked(kubeconfig, context, config_file) as (api, settings):
        found = checks.diagnose(looking.look(api, settings, SystemClock()))
    if form == "json":
        output.print_json(found.document())
    else:
        asking.say(_lines(found, tables.width()))
    if found.of(Severity.ERROR):
        sys.exit(output.FAILED)
    if found.unseen:
        sys.exit(_NOT_LOOKED)


@click.command(
    "must-gather",
    epilog="""\b
Examples:
  gpu-admission must-gather
  gpu-admission must-gather --kubeconfig admin.kubeconfig --out case-17.tar.gz
""",
)
@output.kubeconfig_option
@asking.context_option
@options.config_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A new file. Default: gpu-admission-must-gather-TIME.tar.gz in this directory.",
)
def must_gather(
    kubeconfig: str | None, context: str | None, config_file: Path | None, out: Path | None
) -> None:
    """Pack what somebody else needs to help into one file, without secrets.

    Holds what doctor found, queues, flavors, Workloads, nodes, GPU pods, what is installed, events
    and logs. No Secret is read; values of variables, command lines and other programs' annotations
    of pods are taken out, and so is what looks like a credential. Names of users, namespaces and
    images stay: look through it before you hand it on.
    """
    with _asked(kubeconfig, context, config_file) as (api, settings):
        clock = SystemClock()
        picture = looking.look(api, settings, clock)
        found = checks.diagnose(picture)
        files = gathering.gather(api, picture, found)
        path = out or Path(f"gpu-admission-must-gather-{clock.now():%Y%m%dT%H%M%SZ}.tar.gz")
        gathering.write(path, files, picture.now)
    click.echo(_verdict(found), err=True)
    click.echo(f"{path}: {tables.counted(len(files), 'file')}, {path.stat().st_size:,} bytes")


@contextmanager
def _asked(
    kubeconfig: str | None, context: str | None, config_file: Path | None
) -> Iterator[tuple[Client, Settings | None]]:
    settings = None
    if config_file is not None:
        with output.reported(options.CONFIG_ADVICE):
            settings = reading.load_logged(config_file)
    with output.reported():
        target = connection.Target(kubeconfig, context)
        api = target.connect(connections=1, timeout_seconds=_TIMEOUT_SECONDS)
        with closing(api):
            yield api, settings


def _lines(found: Diagnosis, most: int) -> Iterator[str]:
    yield from tables.sentence(_verdict(found), most)
    for severity, head in _HEADS.items():
        findings = found.of(severity)
        if findings:
            yield ""
            yield f"{head}:"
        for _, one in findings:
            yield from _finding(one, most)
    if found.unseen:
        yield ""
        yield "Could not look:"
        for checked in found.unseen:
            yield from tables.sentence(f"  {checked.check}: {checked.unseen}", most, "    ")


def _verdict(found: Diagnosis) -> str:
    errors, warnings = found.of(Severity.ERROR), found.of(Severity.WARNING)
    total = tables.counted(len(found.checked) - len(found.unseen), "check")
    parts = [
        tables.counted(len(listed), noun)
        for listed, noun in ((errors, "error"), (warnings, "warning"))
        if listed
    ]
    text = f"{' and '.join(parts)} found" if parts else "Nothing wrong found"
    unseen = (
        f"; {tables.counted(len(found.unseen), 'check')} could not look" if found.unseen else ""
    )
    return f"{text} by {total}{unseen}."


def _finding(one: Finding, most: int) -> Iterator[str]:
    yield from tables.sentence(f"  {one.kind} {tables.listed(one.names)}", most, "    ")
    yield from tables.sentence(f"    {one.what}.", most, "    ")
    yield from tables.sentence(f"    mend: {one.mend}", most, "          ")
