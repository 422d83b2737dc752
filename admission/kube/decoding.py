"""From encoded objects to the types that callers ask for, one by one where one is broken."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, cast

import msgspec

from admission.base import structs
from admission.kube import errors
from admission.kube.api import EventType, Page, T, Undecodable, WatchEvent
from admission.kube.resources import Resource

Decoded = TypeVar("Decoded")


class ObjectHead(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """The metadata of an object, which can be read even if the rest cannot."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Headed(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectHead = ObjectHead()


_HEADS = structs.decoder(_Headed)
_BROKEN: Final = structs.UNREADABLE  # ValidationError is a DecodeError
_DEEPEST: Final = 100
"""Levels of objects and lists; no field that is read is nested as deep."""
_PART: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def head(raw: bytes | msgspec.Raw) -> ObjectHead:
    """Name and version of an encoded object; empty where they cannot be read."""
    try:
        return decode(_HEADS, raw).metadata
    except _BROKEN:
        return ObjectHead()


def decode(decoder: msgspec.json.Decoder[Decoded], raw: bytes | msgspec.Raw) -> Decoded:
    """Decode JSON; what is nested so deep that the stack does not hold it is read as null.

    An API server stores whatever a user nests in a field without schema. One such object must not
    keep all others of its kind from being read.

    Raises:
        msgspec.DecodeError: it does not fit the type.
        UnicodeDecodeError: a text of it is no UTF-8.
    """
    try:
        return decoder.decode(raw)
    except RecursionError:
        return decoder.decode(_shallow(bytes(raw)))


def _shallow(raw: bytes) -> bytes:
    """Return encoded JSON with null in the place of what is nested too deep."""
    kept, depth, begin = [], 0, 0
    for match in _PART.finditer(raw):
        part = match.group()
        if part in b"{[":
            depth += 1
            if depth == _DEEPEST + 1:
                kept.append(raw[begin : match.start()])
        elif part in b"}]":
            if depth == _DEEPEST + 1:
                kept.append(b"null")
                begin = match.end()
            depth -= 1
    return b"".join((*kept, raw[begin:]))


def copy(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy in JSON's own types; members may be structs or ``msgspec.Raw``."""
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return copied


def one(raw: bytes | msgspec.Raw, into: type[T]) -> T:
    """Decode an object.

    Raises:
        DecodeError: it does not fit the type.
    """
    try:
        return decode(structs.decoder(into), raw)
    except _BROKEN as error:
        identity = head(raw)
        where = f"{identity.namespace}/{identity.name}" if identity.namespace else identity.name
        raise errors.DecodeError(f"{where}: {error}") from error


class Partial(Protocol):
    """A type of which lists and watches bring most objects as a smaller type.

    Attributes:
        part: the smaller type.
    """

    part: ClassVar[type[Any]]

    @staticmethod
    def is_wanted_whole(part: Any) -> bool:
        """Return whether an object, as the smaller type, is brought whole."""
        ...


def _reader(into: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """Return what decodes an object of a list or a watch; see `Partial`."""
    whole = structs.decoder(into)
    if not hasattr(into, "part"):
        return partial(decode, whole)
    partly: type[Partial] = cast(Any, into)
    part = structs.decoder(partly.part)

    def read(raw: bytes | msgspec.Raw) -> Any:
        value = decode(part, raw)
        return decode(whole, raw) if partly.is_wanted_whole(value) else value

    return read


def many(
    raws: Iterable[bytes | msgspec.Raw], into: type[T]
) -> tuple[tuple[T, ...], tuple[Undecodable, ...]]:
    """Decode objects; those that do not fit are reported beside the rest."""
    read = _reader(into)
    good: list[T] = []
    bad: list[Undecodable] = []
    for raw in raws:
        try:
            good.append(read(raw))
        except _BROKEN as error:
            bad.append(_undecodable(raw, error))
    return tuple(good), tuple(bad)


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Collection(msgspec.Struct, Generic[T], frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = None


def page(raw: bytes, resource: Resource, into: type[T]) -> Page[T]:
    """Decode a list; plain documents get the apiVersion and kind that typed lists leave out.

    Raises:
        DecodeError: it is no list at all.
    """
    items: tuple[Any, ...] = ()
    collection: _Collection[Any]
    undecodable: tuple[Undecodable, ...] = ()
    try:
        of_items = msgspec.Raw if hasattr(into, "part") else into
        collection = decode(structs.decoder(cast(Any, _Collection[of_items])), raw)  # type: ignore[valid-type]
        items = collection.items or ()
    except _BROKEN:
        of_items = msgspec.Raw
        collection = one(raw, _Collection[msgspec.Raw])
    if of_items is msgspec.Raw:
        items, undecodable = many(collection.items or (), into)
    if into is dict:
        for item in items:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
    return Page(
        items=items,
        resource_version=collection.metadata.resource_version,
        continue_=collection.metadata.continue_,
        undecodable=undecodable,
    )


def event(kind: EventType, raw: bytes | msgspec.Raw, into: type[T]) -> WatchEvent[T]:
    """Return a watch event around an encoded object; ERROR if it does not fit the type."""
    if kind is EventType.BOOKMARK:
        return WatchEvent(type=kind, resource_version=head(raw).resource_version)
    try:
        object_ = _reader(into)(raw)
    except _BROKEN as error:
        bad = _undecodable(raw, error, deleted=kind is EventType.DELETED)
        version = head(raw).resource_version
        return WatchEvent(type=EventType.ERROR, resource_version=version, undecodable=bad)
    metadata = getattr(object_, "metadata", None) or head(raw)
    version = metadata.resource_version
    return WatchEvent(type=kind, resource_version=version, object=object_)


def _undecodable(
    raw: bytes | msgspec.Raw, error: Exception, *, deleted: bool = False
) -> Undecodable:
    identity = head(raw)
    return Undecodable(
        namespace=identity.namespace,
        name=identity.name,
        resource_version=identity.resource_version,
        error=str(error),
        deleted=deleted,
        raw=bytes(raw),
    )
