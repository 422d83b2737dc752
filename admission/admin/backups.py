"""Queues, reservations and usage records in a file, and back from it into a cluster.

The file has one JSON object a line, which kubectl reads as it is. The first and the last are empty
Lists; they tell the version of the form, and how many objects there are, so that a file that was
cut off is refused.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from admission.base import clock as clocks
from admission.base import names
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.kube import errors, resources
from admission.kube.api import Api, Document, every_served
from admission.kube.apply import Applied, Effect
from admission.kube.resources import Resource

ORDER: Final = (
    resources.TOPOLOGIES,
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.COHORTS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
    resources.WORKLOADS,
    resources.CONFIG_MAPS,
)
"""What is saved, each before what names it."""

_SELECTORS: Final = {resources.CONFIG_MAPS: names.USAGE_LABEL}
"""The label of the objects of a kind that are ours; of other kinds all are saved."""

_WITH_STATUS: Final = frozenset(
    {resources.WORKLOADS, resources.LOCAL_QUEUES, resources.ADMISSION_CHECKS}
)
"""Kinds of which the status tells more than can be found out again."""
_MARK: Final = "gpuAdmissionBackup"
_FORMAT: Final = 1
_KEPT: Final = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers")


class BackupError(AdmissionError):
    """A file that is no whole backup, or cannot be brought back now."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a file holds, in order.

    Attributes:
        documents: objects without what only the API server writes.
    """

    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An object of the file that was not brought back.

    Attributes:
        kind: its kind.
        namespace: its namespace.
        name: its name.
        why: it was not.
    """

    kind: str
    namespace: str
    name: str
    why: str


def save(api: Api, path: Path, clock: Clock) -> int:
    """Write all queues, Workloads and usage records to a new file; return how many they are.

    What is being deleted is not saved.

    Raises:
        BackupError: the file exists.
        KubeError: the API server refused.
        OSError: the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    if path.exists():
        raise BackupError(f"{path} exists: name a file that does not")
    count = 0
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_line({"format": _FORMAT, "at": clocks.to_wire(clock.now())}))
            for document in _documents(api):
                file.write(f"{json.dumps(document)}\n")
                count += 1
            file.write(_line({"format": _FORMAT, "objects": count}))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def read(path: Path) -> Backup:
    """Return the content of a backup file.

    Raises:
        BackupError: it is no backup, of another version, cut off, or holds other kinds.
        OSError: it cannot be read.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BackupError(f"{path}: is not a backup of gpu-admission: {error}") from error
    first = _mark(_parsed(path, 1, lines[0])) if lines else None
    if first is None:
        raise BackupError(f"{path}: line 1: is not a backup of gpu-admission: no {_MARK}")
    if first.get("format") != _FORMAT:
        raise BackupError(
            f"{path}: line 1: {_MARK}.format: {first.get('format')!r}: this program reads "
            f"{_FORMAT} only; use the version that wrote it"
        )
    documents = [_parsed(path, number, line) for number, line in enumerate(lines[1:], start=2)]
    last = _mark(documents[-1]) if documents else None
    if last is None or last.get("objects") != len(documents) - 1:
        raise BackupError(
            f"{path}: was cut off: the last line must say how many objects come before it"
        )
    for number, document in enumerate(documents[:-1], start=2):
        _check(path, number, document)
    return Backup(tuple(documents[:-1]))


def restore(api: Api, backup: Backup, left_out: Callable[[LeftOut], None]) -> Iterator[Applied]:
    """Create what a backup holds and does not exist, with its status.

    A Workload whose owner is gone would hold quota for nobody; it is left out, and so is what
    belongs to a namespace that is gone.

    Args:
        api: the cluster; nothing may decide there yet.
        backup: what was read.
        left_out: told of each object that was not brought back.

    Raises:
        KubeError: the API server refused.
    """
    for document in backup.documents:
        resource, metadata = _resource(document), document["metadata"]
        assert resource is not None
        why = _without_owner(api, metadata)
        effect = Effect.ABSENT if why else _create(api, resource, document)
        if effect is Effect.ABSENT:
            left_out(
                LeftOut(
                    kind=document["kind"],
                    namespace=metadata.get("namespace", ""),
                    name=metadata["name"],
                    why=why or "its namespace does not exist",
                )
            )
            continue
        yield Applied(
            kind=document["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            effect=effect,
        )


def refuse_running(api: Api, namespace: str, clock: Clock) -> None:
    """Raise an error if a controller leads, which would decide on half of what was saved.

    Raises:
        BackupError: it does.
        KubeError: the API server refused.
    """
    try:
        spec = api.get(resources.LEASES, names.LEASE_NAME, namespace).get("spec") or {}
    except errors.NotFoundError:
        return
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    seconds = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    if holder and renewed and clock.now() < clocks.from_wire(renewed) + seconds:
        raise BackupError(
            f"a controller is running ({holder} holds the Lease {namespace}/{names.LEASE_NAME}) "
            "and would decide before everything is restored; stop it, and try again"
        )


def _create(api: Api, resource: Resource, document: Document) -> Effect:
    """Create an object, and write its status if it has none; ABSENT without its namespace."""
    status = document.get("status")
    body = {key: value for key, value in document.items() if key != "status"}
    metadata = body["metadata"]
    effect = Effect.CREATED
    try:
        created = api.create(resource, body, metadata.get("namespace", ""))
    except errors.AlreadyExistsError:
        created = api.get(resource, metadata["name"], metadata.get("namespace", ""))
        effect = Effect.UNCHANGED
    except errors.NotFoundError:
        return Effect.ABSENT
    if status and not created.get("status"):
        api.replace(resource, {**created, "status": status}, subresource="status")
        effect = Effect.CREATED if effect is Effect.CREATED else Effect.CONFIGURED
    return effect


def _without_owner(api: Api, metadata: Mapping[str, Any]) -> str:
    """Return which owner of an object is gone; empty if all are there."""
    for reference in metadata.get("ownerReferences") or ():
        resource = resources.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            continue  # the API server looks after owners of kinds that we do not know
        text = f"{reference['kind']} {reference['name']}"
        try:
            owner = api.get(resource, reference["name"], metadata.get("namespace", ""))
        except errors.NotFoundError:
            return f"its owner, {text}, does not exist"
        if owner["metadata"]["uid"] != reference["uid"]:
            return f"its owner, {text}, was deleted, and another one has its name"
    return ""


def _documents(api: Api) -> Iterator[Document]:
    for resource in ORDER:
        saved = [
            _saved(resource, item)
            for item in every_served(api, resource, label_selector=_SELECTORS.get(resource, ""))
            if not _is_leaving(item)
        ]
        yield from (document for _, document in sorted(saved, key=lambda pair: pair[0]))


def _saved(resource: Resource, item: Document) -> tuple[tuple[str, str, str], Document]:
    """Return the saved part of an object, and its place, which keeps the order of Workloads."""
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in _KEPT if metadata.get(key)}
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": kept}
    sections = set(item) - {"apiVersion", "kind", "metadata", "status"}
    document |= {key: item[key] for key in sorted(sections)}
    if resource in _WITH_STATUS and item.get("status"):
        document["status"] = item["status"]
    place = metadata.get("creationTimestamp", ""), metadata.get("namespace", ""), metadata["name"]
    return place, document


def _is_leaving(item: Document) -> bool:
    return "deletionTimestamp" in item["metadata"]


def _line(mark: Mapping[str, Any]) -> str:
    return f"{json.dumps({'apiVersion': 'v1', 'kind': 'List', _MARK: mark, 'items': []})}\n"


def _mark(document: Document) -> Mapping[str, Any] | None:
    reason = document.get(_MARK)
    return reason if isinstance(reason, dict) else None


def _parsed(path: Path, number: int, line: str) -> Document:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise BackupError(
            f"{path}: line {number}: was cut off, or is not a backup of gpu-admission: {error}"
        ) from error
    if not isinstance(document, dict):
        raise BackupError(f"{path}: line {number}: must be an object")
    return document


def _resource(document: Document) -> Resource | None:
    resource = resources.of_kind(str(document.get("apiVersion")), str(document.get("kind")))
    return resource if resource in ORDER else None


def _check(path: Path, number: int, document: Document) -> None:
    kind = f"{document.get('apiVersion')} {document.get('kind')}"
    resource = _resource(document)
    if resource is None:
        kinds = ", ".join(resource.kind for resource in ORDER)
        raise BackupError(f"{path}: line {number}: {kind}: must be one of {kinds}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise BackupError(f"{path}: line {number}: {kind}: metadata.name: must be given")
    label = _SELECTORS.get(resource)
    if label is not None and label not in (metadata.get("labels") or {}):
        raise BackupError(
            f"{path}: line {number}: {kind} {metadata['name']}: must have the label {label}"
        )
