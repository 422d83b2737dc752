"""An API server in memory: the embedded store.

Behaves like the real one within its scope: list in pages, get, create, replace, merge and JSON
patch, delete, watch with bookmarks and 410, status subresource, resourceVersion conflicts,
finalizers, owner garbage collection, namespaces, CRD defaults and limits, the rules for updates
of pods, and admission reviews. Server-side apply is refused; CEL rules are not evaluated;
deletion has no grace period; there is no authorization.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Self

from typing_extensions import override

from admission.base import patches
from admission.base.clock import Clock, SystemClock
from admission.base.patches import Patch
from admission.kube import decoding, resources
from admission.kube.api import DOCUMENT, Api, Document, Page, T, WatchStream
from admission.kube.resources import Resource
from admission.sandbox.embedded import (
    kinds,
    metadata,
    patching,
    priority,
    refusals,
    selection,
    watching,
)
from admission.sandbox.embedded.garbage import ORPHAN
from admission.sandbox.embedded.journal import Key, ObjectJournal, Stored
from admission.sandbox.embedded.kinds import ResourceTreatment
from admission.sandbox.embedded.paging import ListPages
from admission.sandbox.embedded.reviews import WebhookCaller
from admission.sandbox.embedded.writes import Writes

ADMIN: Final = "system:admin"
_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_HISTORY: Final = 10_000


def _ignore(warning: str) -> None:
    """Drops a warning."""


class Store(Api):
    """The embedded API server; every method may be called from any thread.

    Attributes:
        reviewers: the webhooks that writes pass, in order; may be changed at any time.
    """

    def __init__(
        self,
        *,
        crds: Iterable[Mapping[str, Any]] = (),
        reviewers: Iterable[WebhookCaller] = (),
        clock: Clock | None = None,
        rng: random.Random | None = None,
        warn: Callable[[str], None] = _ignore,
        history: int = _HISTORY,
    ) -> None:
        """Starts with the namespaces and priority classes that every cluster has.

        Args:
            crds: CustomResourceDefinition documents of what is served beside the built-in kinds;
                usually ``admission.objects.crds.documents()``.
            reviewers: webhooks, mutating ones run first.
            clock: source of timestamps and watch time-outs.
            rng: source of uids and generated names; seed it for repeatable runs.
            warn: gets each warning of a reviewer, as kubectl would print it.
            history: changes kept per resource for watches that start in the past.
        """
        self.reviewers: Final = list(reviewers)
        self._clock = clock or SystemClock()
        self._kinds: Final = kinds.built_in() | kinds.custom(crds)
        self._journal: Final = ObjectJournal(self._kinds, history)
        self._pages: Final = ListPages()
        self._user = ADMIN
        self._is_dry = False
        # Uids and generated names are no secrets.
        rng = rng or random.Random()  # noqa: S311
        self._writes = Writes(self._journal, self._kinds, self._clock, rng, self.reviewers, warn)
        for name in _FIRST_NAMESPACES:
            self.create(resources.NAMESPACES, {"metadata": {"name": name}})
        for document in priority.system_classes():
            self.create(resources.PRIORITY_CLASSES, document)

    def as_user(self, name: str) -> Self:
        """Return the same store, for another user of admission reviews (``userInfo.username``)."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._user = name  # noqa: SLF001  # a copy of ourselves
        return other

    @override
    def dry_run(self) -> Self:
        other = self.as_user(self._user)
        other._is_dry = True  # noqa: SLF001  # a copy of ourselves
        return other

    def compact(self) -> None:
        """Forget history: watches from a past version and continue tokens get 410."""
        self._journal.compact()
        self._pages.forget()

    @override
    def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T] = DOCUMENT
    ) -> T:
        kind = self._kind(resource)
        stored = self._journal.get(kind.resource, _key(kind, namespace, name))
        if stored is None:
            raise refusals.not_found(resource, name)
        return decoding.one(stored.raw, into)

    @override
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
        kind = self._kind(resource)
        is_wanted = selection.wanted(label_selector, field_selector, kind.fields)
        if continue_:
            listed, version = self._pages.rest(continue_)
        else:
            everything, version = self._journal.snapshot(kind.resource, namespace)
            listed = tuple(stored for stored in everything if is_wanted(stored))
        shown, token = self._pages.split(listed, version, limit)
        items, undecodable = decoding.many((stored.raw for stored in shown), into)
        return Page(
            items=items,
            resource_version=str(version),
            continue_=token,
            undecodable=undecodable,
        )

    @override
    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        into: type[T] = DOCUMENT,
    ) -> T:
        kind = self._kind(resource)
        document = _own_copy(resource, obj)
        metadata.locate(resource, document, namespace)
        stored = self._writes.create(kind, document, self._user, dry_run=self._is_dry)
        return decoding.one(stored.raw, into)

    @override
    def replace(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = patches.DEFAULT_FIELD_MANAGER,
        into: type[T] = DOCUMENT,
    ) -> T:
        kind = self._kind(resource)
        copy = _own_copy(resource, obj)
        meta = copy["metadata"]
        key = _key(kind, meta.get("namespace", ""), meta.get("name", ""))

        def change(old: Document) -> Document:
            uid = old["metadata"]["uid"]
            if meta.get("uid", uid) != uid:
                why = (
                    f"Precondition failed: UID in precondition: {meta['uid']}, UID in object "
                    f"meta: {uid}"
                )
                raise refusals.conflict(resource, key.name, why)
            if not meta.get("resourceVersion") and not kind.unconditional:
                broken = refusals.invalid_value(
                    "metadata.resourceVersion", 0, "must be specified for an update"
                )
                raise refusals.invalid(resource, key.name, (broken,))
            return _own_copy(resource, copy)

        stored = self._writes.update(
            kind, key, change, subresource, self._user, dry_run=self._is_dry
        )
        return decoding.one(stored.raw, into)

    @override
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
        kind = self._kind(resource)
        key = _key(kind, namespace, name)
        patching.check(patch)

        def change(old: Document) -> Document:
            return patching.apply(patch, old)

        stored = self._writes.update(
            kind, key, change, subresource, self._user, dry_run=self._is_dry
        )
        return decoding.one(stored.raw, into)

    @override
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
        kind = self._kind(resource)
        self._writes.delete(
            kind,
            _key(kind, namespace, name),
            self._user,
            uid=uid,
            resource_version=resource_version,
            orphan=propagation == ORPHAN,
            dry_run=self._is_dry,
        )

    @override
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
        kind = self._kind(resource)
        selected = selection.wanted(label_selector, field_selector, kind.fields)
        version = _start(resource_version)
        initial: tuple[Stored, ...] = ()
        if not version:
            initial, version = self._journal.snapshot(kind.resource, "")
        return watching.Stream(
            self._journal,
            self._clock,
            kind.resource,
            version=version,
            initial=initial,
            selection=lambda stored: namespace in {"", stored.key.namespace} and selected(stored),
            timeout_seconds=timeout_seconds,
            bookmarks=bookmarks,
            into=into,
        )

    def _kind(self, resource: Resource) -> ResourceTreatment:
        kind = self._kinds.get(resource if not resource.part else replace(resource, part=""))
        if kind is None:
            raise refusals.not_served(resource)
        return kind


def _key(kind: ResourceTreatment, namespace: str, name: str) -> Key:
    return Key(namespace if kind.resource.namespaced else "", name)


def _own_copy(resource: Resource, obj: Mapping[str, Any]) -> Document:
    """A document that shares nothing with the caller's, in JSON's own types."""
    return metadata.complete(resource, decoding.copy(obj))


def _start(resource_version: str) -> int:
    """The version to watch from; 0 (as an empty text) means: tell first what there is."""
    if not resource_version.isascii() or not (resource_version or "0").isdigit():
        raise refusals.bad_request(f'resourceVersion: Invalid value: "{resource_version}"')
    return int(resource_version or "0")
