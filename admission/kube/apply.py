"""Server-side apply of documents, and what it changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from admission.base import patches
from admission.base.errors import InvalidValueError
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.kube.resources import Resource

_REPEATS: Final = 3

T = TypeVar("T")


class Effect(Enum):
    """The result of applying a document."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A document's identity and what became of it."""

    kind: str
    namespace: str
    name: str
    effect: Effect


def apply(
    api: Api,
    document: Mapping[str, Any],
    *,
    field_manager: str = patches.DEFAULT_FIELD_MANAGER,
    force: bool = True,
) -> Effect:
    """Make the server's object have the fields of the document.

    Args:
        api: the API server.
        document: a whole object with apiVersion, kind and metadata.name; its fields become ours.
        field_manager: name of the field manager.
        force: take over fields that others own; without it they are a ConflictError.

    Raises:
        InvalidValueError: the document is of a kind that is not known.
        ApiError: the server refused.
    """
    resource, name, namespace = locate(document)
    before = _version(api, resource, name, namespace)
    answer = settled(
        lambda: api.patch(
            resource,
            name,
            patches.apply(document),
            namespace,
            field_manager=field_manager,
            force=force,
            into=_Identified,
        )
    )
    if before is None:
        return Effect.CREATED
    same = before == (answer.metadata.uid, answer.metadata.resource_version)
    return Effect.UNCHANGED if same else Effect.CONFIGURED


def delete(api: Api, document: Mapping[str, Any], *, propagation: str | None = None) -> Effect:
    """Delete the document's object; one that is absent, or of a kind not served, is ABSENT.

    Raises:
        InvalidValueError: the document is of a kind that is not known.
        ApiError: the server refused.
    """
    resource, name, namespace = locate(document)
    try:
        settled(lambda: api.delete(resource, name, namespace, propagation=propagation))
    except errors.NotFoundError:
        return Effect.ABSENT
    return Effect.DELETED


def apply_all(
    api: Api,
    documents: Iterable[Mapping[str, Any]],
    *,
    field_manager: str = patches.DEFAULT_FIELD_MANAGER,
    force: bool = True,
) -> Iterator[Applied]:
    """Apply documents one after the other, in their order, and yield the effect of each."""
    for document in documents:
        yield _applied(document, apply(api, document, field_manager=field_manager, force=force))


def delete_all(api: Api, documents: Iterable[Mapping[str, Any]]) -> Iterator[Applied]:
    """Delete documents one after the other, in their order, and yield the effect of each."""
    for document in documents:
        yield _applied(document, delete(api, document))


def settled(write: Callable[[], T]) -> T:
    """Send a write again, up to three times, while nobody knows whether it took effect.

    A creation that took effect raises AlreadyExistsError when it is sent again, a deletion
    NotFoundError.

    Raises:
        KubeError: the server refused, or gave no answer to the last one either.
    """
    for _ in range(_REPEATS):
        try:
            return write()
        except errors.KubeError as error:
            if not error.outcome_unknown:
                raise
    return write()


def locate(document: Mapping[str, Any]) -> tuple[Resource, str, str]:
    """Return the resource, name and namespace of a document.

    Raises:
        InvalidValueError: its kind is not known, or it has no name.
    """
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    resource = resources.of_kind(api_version, kind)
    if resource is None:
        raise InvalidValueError(f"{api_version} {kind}", "no kind that this program can apply")
    metadata = document.get("metadata") or {}
    if not metadata.get("name"):
        raise InvalidValueError(kind, "metadata.name: a document that is applied needs a name")
    return resource, metadata["name"], metadata.get("namespace", "")


def _applied(document: Mapping[str, Any], effect: Effect) -> Applied:
    metadata = document["metadata"]
    return Applied(
        kind=document["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        effect=effect,
    )


class _Identity(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str


class _Identified(msgspec.Struct):
    metadata: _Identity


def _version(api: Api, resource: Resource, name: str, namespace: str) -> tuple[str, str] | None:
    try:
        metadata = api.get(resource, name, namespace, into=_Identified).metadata
    except errors.NotFoundError:
        return None
    return metadata.uid, metadata.resource_version
