"""Commands ``doctor`` and ``must-gather``: what is wrong in a cluster, and how to fix it."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import click

from admission.admin.doctor import checks, gathering, looking
from admission.admin.doctor.findings import Diagnosis, DoctorFinding, Severity
from admission.cli import asking, clusters, options, output, tables, targets
from admission.config import reading
from admission.config.derived import Settings
from admission.kube.client import Client

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
@clusters.context_option
@options.config_option
@output.output_option
def doctor(
    kubeconfig: str | None, context: str | None, config_file: Path | None, form: str
) -> None:
    """Find problems of gpu-admission in a cluster, and say how to fix them.

    Reads the cluster with the rights of the kubeconfig and changes nothing. Creates one pod as a
    dry run, which the API server checks but does not store. Checks that need what you may not
    read are listed; all others run. If the webhook runs outside the cluster with a configuration
    file, pass that file.

    Exit code: 0 if no error was found, 1 if an error was found, 2 if the command line is wrong, 3
    if no error was found but some checks could not be made.
    """
    with _asked(kubeconfig, context, config_file) as (api, settings):
        diagnosis = checks.diagnose(looking.look(api, settings, output.clock()))
    if form == "json":
        output.print_json(diagnosis.document())
    else:
        asking.say(_lines(diagnosis, tables.width()))
    if diagnosis.of(Severity.ERROR):
        sys.exit(output.FAILED)
    if diagnosis.unseen:
        sys.exit(_NOT_LOOKED)


@click.command(
    "must-gather",
    epilog="""\b
Examples:
  gpu-admission must-gather
  gpu-admission must-gather --kubeconfig admin.kubeconfig --out case-17.tar.gz
  gpu-admission must-gather -o json
""",
)
@output.kubeconfig_option
@clusters.context_option
@options.config_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to create. Default: gpu-admission-must-gather-TIME.tar.gz in this directory.",
)
@output.output_option
def must_gather(
    kubeconfig: str | None,
    context: str | None,
    config_file: Path | None,
    out: Path | None,
    form: str,
) -> None:
    """Collect data for a support request in one file, without secrets.

    Contains the findings of doctor, queues, flavors, Workloads, nodes, GPU pods, the installed
    objects, events and logs. Holds no Secret. Removes values of environment variables, command
    lines, other programs' annotations of pods, and whatever looks like a credential. Names of
    users, namespaces and images remain: check the file before you pass it on.
    """
    with _asked(kubeconfig, context, config_file) as (api, settings):
        clock = output.clock()
        picture = looking.look(api, settings, clock)
        diagnosis = checks.diagnose(picture)
        files = gathering.gather(api, picture, diagnosis)
        path = out or Path(f"gpu-admission-must-gather-{clock.now():%Y%m%dT%H%M%SZ}.tar.gz")
        gathering.write(path, files, picture.now)
    click.echo(_verdict(diagnosis), err=True)
    size = path.stat().st_size
    if form == "json":
        output.print_json({"path": str(path), "files": len(files), "bytes": size})
    else:
        click.echo(f"{path}: {tables.counted(len(files), 'file')}, {size:,} bytes")


@contextmanager
def _asked(
    kubeconfig: str | None, context: str | None, config_file: Path | None
) -> Iterator[tuple[Client, Settings | None]]:
    settings = None
    if config_file is not None:
        with output.reported(options.CONFIG_ADVICE):
            settings = reading.load_logged(config_file)
    with output.reported():
        target = targets.chosen(kubeconfig, context)
        api = target.connect(connections=1, timeout_seconds=_TIMEOUT_SECONDS)
        with closing(api):
            yield api, settings


def _lines(diagnosis: Diagnosis, limit: int) -> Iterator[str]:
    yield from tables.sentence(_verdict(diagnosis), limit)
    if _is_nothing_readable(diagnosis):
        yield from tables.sentence(f"next: {_STEP_OF_MEMBERS}", limit, "  ")
        return
    for severity, head in _HEADS.items():
        findings = diagnosis.of(severity)
        if findings:
            yield ""
            yield f"{head}:"
        for _, finding in findings:
            yield from _finding(finding, limit)
    if diagnosis.unseen:
        yield ""
        yield "Could not check:"
        for checked in diagnosis.unseen:
            yield from tables.sentence(f"  {checked.check}: {checked.unseen}", limit, "    ")


def _is_nothing_readable(diagnosis: Diagnosis) -> bool:
    """Return whether nothing was checked, for want of rights."""
    return len(diagnosis.unseen) == len(diagnosis.checked) and any(
        checked.unseen.startswith("you may not ") for checked in diagnosis.unseen
    )


_STEP_OF_MEMBERS: Final = (
    "why something of yours waits: kubectl gpu why NAME -n NAMESPACE; who waits: "
    "kubectl gpu queue -n NAMESPACE; which checks there are: -o json"
)


def _verdict(diagnosis: Diagnosis) -> str:
    errors, warnings = diagnosis.of(Severity.ERROR), diagnosis.of(Severity.WARNING)
    if _is_nothing_readable(diagnosis):
        return "Nothing was checked: doctor is for administrators; your user may read none of it."
    if diagnosis.unseen and len(diagnosis.unseen) == len(diagnosis.checked):
        unseen = tables.counted(len(diagnosis.unseen), "check")
        return f"Nothing was checked: {unseen} could not be made."
    total = tables.counted(len(diagnosis.checked) - len(diagnosis.unseen), "check")
    parts = [
        tables.counted(len(listed), noun)
        for listed, noun in ((errors, "error"), (warnings, "warning"))
        if listed
    ]
    text = f"{' and '.join(parts)} found" if parts else "Nothing wrong found"
    unseen = (
        f"; {tables.counted(len(diagnosis.unseen), 'check')} could not be made"
        if diagnosis.unseen
        else ""
    )
    return f"{text} by {total}{unseen}."


def _finding(finding: DoctorFinding, limit: int) -> Iterator[str]:
    yield from tables.sentence(f"  {finding.kind} {tables.listed(finding.names)}", limit, "    ")
    yield from tables.sentence(f"    {finding.what}.", limit, "    ")
    yield from tables.sentence(f"    fix: {finding.mend}", limit, "         ")
