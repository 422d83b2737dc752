"""What the program asks of an API server: the one interface of the real and the embedded one.

Every read takes ``into``, the type that the answer is decoded to; without it a plain document.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeAlias

from typing_extensions import TypeVar

from admission.base import patches
from admission.base.patches import Patch
from admission.kube.errors import NotFoundError
from admission.kube.resources import Resource

Document: TypeAlias = dict[str, Any]
"""A JSON object with ``apiVersion``, ``kind`` and ``metadata``."""

T = TypeVar("T", default=Document)

DOCUMENT: Any = dict
"""Default of ``into``: plain documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """An object that could not be decoded: what is known of it, and why.

    Attributes:
        namespace: its namespace; empty for cluster-scoped objects.
        name: its name; empty if not even that could be read.
        resource_version: its version; may be empty.
        error: what the decoder complained of.
        deleted: it is gone (events only).
        raw: the object as it came.
    """

    namespace: str
    name: str
    resource_version: str
    error: str
    deleted: bool = False
    raw: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: objects in order of namespace and name.
        resource_version: the moment the list shows; a watch goes on from here.
        continue_: token of the next page; empty on the last.
        undecodable: objects that did not fit ``into``, left out of the items.
    """

    items: tuple[T, ...]
    resource_version: str
    continue_: str = ""
    undecodable: tuple[Undecodable, ...] = ()


class EventType(Enum):
    """Kind of a watch event; the value is the wire text."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent(Generic[T]):
    """One change.

    Attributes:
        type: what happened. ERROR is never the server's (that is raised as an ApiError): it is an
            object of this event that did not fit ``into``.
        resource_version: the version to go on from.
        object: the object after the change; before it for DELETED; None for BOOKMARK and ERROR.
        undecodable: set for ERROR.
    """

    type: EventType
    resource_version: str
    object: T | None = None
    undecodable: Undecodable | None = None


class WatchStream(Iterator[WatchEvent[T]], Protocol[T]):
    """Changes as they come; ends when the server ends it or the time is over."""

    def close(self) -> None:
        """End the stream at once; any thread may call it, any number of times."""
        ...


class Api(Protocol):
    """An API server.

    Every method raises `admission.kube.errors.ApiError` when the server refuses and
    `admission.kube.errors.TransportError` when no usable answer came. All are thread-safe.
    ``namespace`` is empty for cluster-scoped resources, and for "all" in list and watch.
    """

    def dry_run(self) -> "Api":
        """Return the same server for writes that are checked and answered, and not stored."""
        ...

    def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T] = DOCUMENT
    ) -> T:
        """Read one object."""
        ...

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        into: type[T] = DOCUMENT,
    ) -> Page[T]:
        """Read a collection, or a page of at most ``limit`` objects (0: all).

        Raises:
            GoneError: the continue token is too old; list again from the start.
        """
        ...

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        into: type[T] = DOCUMENT,
    ) -> T:
        """Create an object; an empty namespace takes that of its metadata."""
        ...

    def replace(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        into: type[T] = DOCUMENT,
    ) -> T:
        """Write a whole object; its metadata.resourceVersion, if any, is the precondition."""
        ...

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        force: bool = False,
        into: type[T] = DOCUMENT,
    ) -> T:
        """Change an object. ``force`` takes fields over from other managers (apply only)."""
        ...

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete an object, if its uid and version are those given.

        Args:
            resource: kind of the object.
            name: its name.
            namespace: its namespace.
            uid: precondition; empty for none.
            resource_version: precondition; empty for none.
            grace_period_seconds: None for the object's own.
            propagation: Background, Foreground or Orphan; None for the resource's default.
        """
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: float,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        into: type[T] = DOCUMENT,
    ) -> WatchStream[T]:
        """Return changes after a version, until the server ends the stream or the time is over.

        Raises:
            GoneError: the version is too old; list again. Raised by the call or while iterating,
                as every other ApiError.
        """
        ...


PAGE: Final = 500
"""Objects of a page: a longer one holds up the server and other threads."""


def every(
    api: Api,
    resource: Resource,
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    page_size: int = PAGE,
    into: type[T] = DOCUMENT,
) -> Iterator[T]:
    """Yield every object of a collection, page by page; those that cannot be decoded are left out.

    Args:
        api: the API server.
        resource: the kind.
        namespace: of the objects; empty for every namespace.
        label_selector: of the objects.
        field_selector: of the objects.
        page_size: objects of a page.
        into: see `Api.list`.

    Raises:
        NotFoundError: the kind is not served.
        KubeError: a page could not be had.
    """
    token = ""
    while True:
        page = api.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=page_size,
            continue_=token,
            into=into,
        )
        yield from page.items
        token = page.continue_
        if not token:
            return


def every_served(
    api: Api,
    resource: Resource,
    *,
    namespace: str = "",
    label_selector: str = "",
    into: type[T] = DOCUMENT,
) -> Iterator[T]:
    """Yield what `every` yields; nothing where the kind is not served."""
    with suppress(NotFoundError):
        yield from every(
            api, resource, namespace=namespace, label_selector=label_selector, into=into
        )
