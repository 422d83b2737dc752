"""Command ``owners check``: what is read from an object whose kind is a row."""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import yaml

from admission.base import structs
from admission.cli import options, output
from admission.config import reading
from admission.config.derived import Settings
from admission.objects.owner_rows import Row
from admission.owners import integrations, row_owner
from admission.owners.row_owner import OwnerPodSet, RowDocument, RowOwner

_METADATA: Final = {"uid": "check", "resourceVersion": "1", "namespace": "default"}


_AS_DOCUMENT: Final = structs.converter(RowDocument)


@dataclass(frozen=True)
class ShownPodSet:
    """A pod set as it would be in the Workload.

    Attributes:
        name: its name.
        count: its pods.
        path: where its template stands.
        limits: what each of its pods is limited to, by resource; of containers alone.
    """

    name: str
    count: int
    path: str
    limits: dict[str, str]


@dataclass(frozen=True)
class ShownOwner:
    """What is read from one object.

    Attributes:
        kind: API version and kind.
        name: of the object.
        framework: name of its kind in ``integrations.frameworks``.
        problem: why nothing can be read; empty when all is well.
        suspended: whether it is held.
        active: whether its status says that pods run.
        ready: whether its status says that all of them are ready.
        finished: how its status says that it has ended; empty if it does not.
        pod_sets: its pod sets, in order.
    """

    kind: str
    name: str
    framework: str = ""
    problem: str = ""
    suspended: bool = False
    active: bool = False
    ready: bool = False
    finished: str = ""
    pod_sets: tuple[ShownPodSet, ...] = field(default=())


@click.group()
def owners() -> None:
    """Check configured owner kinds against sample objects.

    Needs no cluster.
    """


@owners.command(
    epilog="""\b
Examples:
  gpu-admission owners check config.yaml -f trainingrun.yaml
  kubectl get pytorchjob train -o yaml | gpu-admission owners check config.yaml -f - -o json
"""
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-f", "--filename", "sample", type=click.File(encoding="utf-8"), required=True,
    help="Manifest of one or more objects; - is standard input.",
)  # fmt: skip
@output.output_option
def check(file: Path, sample: Any, form: str) -> None:
    """Show what gpu-admission reads from sample objects, with the configuration FILE.

    The exit code is 1 if the file is wrong, if the kind of an object is not configured, or if an
    object lacks a field that its configuration names.
    """
    with output.reported(options.CONFIG_ADVICE):
        settings = reading.load(file).settings
    try:
        documents = [
            document for document in yaml.safe_load_all(sample.read()) if document is not None
        ]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{sample.name}: invalid YAML: {error}") from error
    results = [_read(document, settings) for document in documents]
    if form == "json":
        output.print_json([asdict(result) for result in results])
    else:
        for result in results:
            _show(result)
    if not results or any(result.problem for result in results):
        sys.exit(output.FAILED)


def _read(document: Any, settings: Settings) -> ShownOwner:
    if not isinstance(document, dict):
        return ShownOwner("?", "?", problem="this document is not an object")
    version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    metadata = document.get("metadata")
    name = str(metadata.get("name")) if isinstance(metadata, dict) else "?"
    kind_name = f"{version} {kind}"
    rows = integrations.rows_of(settings)
    row = next((row for row in rows if (row.api_version, row.kind) == (version, kind)), None)
    if row is None:
        known_kinds = ", ".join(f"{row_.api_version} {row_.kind}" for row_ in rows)
        return ShownOwner(
            kind_name, name, problem=f"this kind is not configured; known are {known_kinds}"
        )
    try:
        return _of(row, document, kind_name, name)
    except msgspec.ValidationError as error:
        return ShownOwner(kind_name, name, row.framework, problem=str(error))


def _of(row: Row, document: dict[str, Any], kind_name: str, name: str) -> ShownOwner:
    whole = {**document, "metadata": {**document["metadata"], **_METADATA}}
    view = row_owner.read(row, _AS_DOCUMENT(whole))
    owner = RowOwner(row, view)
    if not view.pod_sets:
        return ShownOwner(
            kind_name, name, row.framework, problem="none of the paths leads to a pod set"
        )
    end = owner.finished()
    return ShownOwner(
        kind_name,
        name,
        row.framework,
        suspended=owner.is_held(),
        active=owner.is_active(),
        ready=owner.is_ready(),
        finished="" if end is None else f"{end.reason}: {end.message}",
        pod_sets=tuple(_pod_set(pod_set) for pod_set in view.pod_sets),
    )


def _pod_set(requested: OwnerPodSet) -> ShownPodSet:
    limits: dict[str, str] = {}
    for container in (requested.raw.get("spec") or {}).get("containers") or ():
        for resource, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            before = limits.get(resource)
            limits[resource] = f"{before} + {amount}" if before else str(amount)
    return ShownPodSet(requested.name, requested.count, requested.path.text, limits)


def _show(result: ShownOwner) -> None:
    title = f"{result.kind} {result.name}: {result.problem or result.framework}"
    for line in (title, *(f"  {line}" for line in _lines(result))):
        output.console().print(output.one_line(line))


def _lines(result: ShownOwner) -> Iterator[str]:
    if result.problem:
        return
    yield "suspended" if result.suspended else "not suspended: the webhook suspends it in a queue"
    for pod_set in result.pod_sets:
        limits = ", ".join(f"{name} {amount}" for name, amount in sorted(pod_set.limits.items()))
        each = f", each limited to {limits}" if limits else ""
        yield f"pod set {pod_set.name}: {pod_set.count} pods from {pod_set.path}{each}"
    runs = "pods run" if result.active else "no pods run"
    yield f"status: {runs}, {'ready' if result.ready else 'not ready'}"
    if result.finished:
        yield f"status: ended, {result.finished}"
