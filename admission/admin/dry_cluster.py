"""A cluster in which nothing is stored: what a command would write is kept beside it, and seen.

A server-side dry run alone is not enough for a sequence of writes: what the first would create is
not there for the second, and a wait for a CustomResourceDefinition would not end.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from typing_extensions import override

from admission.base import patches
from admission.base.patches import Patch, PatchType
from admission.kube import decoding, errors, resources
from admission.kube.api import DOCUMENT, Api, Document, Page, T, WatchStream
from admission.kube.resources import Resource

_OF_SERVER: Final = frozenset({"managedFields", "resourceVersion", "generation"})
"""Metadata in which an object differs after a write that changes nothing that it says."""
_ESTABLISHED: Final = {"conditions": [{"type": "Established", "status": "True"}]}
_REVIEWS: Final = frozenset({resources.SELF_SUBJECT_REVIEWS})
"""Kinds that are asked by creating them; nothing of them is stored."""
_UID: Final = "dry-run"

_Key = tuple[Resource, str, str]


class DryCluster(Api):
    """What an API server has, and over it what would have been written.

    Only an apply asks the server, as a dry run: it alone knows what would differ. Other writes
    change what is kept here, since policies that would be gone by then could refuse them. Lists
    and watches show what the server has.
    """

    def __init__(self, api: Api) -> None:
        """Nothing is written yet.

        Args:
            api: the cluster.
        """
        self._api = api
        self._dry = api.dry_run()
        self._written: dict[_Key, Document | None] = {}
        self._writes = 0

    @override
    def dry_run(self) -> Api:
        return self

    @override
    def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T] = DOCUMENT
    ) -> T:
        key = (resource, namespace, name)
        if key not in self._written:
            return self._api.get(resource, name, namespace, into=into)
        document = self._written[key]
        if document is None:
            raise errors.NotFoundError(404, "NotFound", f"{resource.plural} {name!r} not found")
        return _as(document, into)

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
        return self._api.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_=continue_,
            into=into,
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
        if resource in _REVIEWS:
            return self._api.create(
                resource, obj, namespace, field_manager=field_manager, into=into
            )
        name = obj["metadata"]["name"]
        namespace = namespace or obj["metadata"].get("namespace", "")
        if self._present(resource, name, namespace) is not None:
            raise errors.AlreadyExistsError(
                409, "AlreadyExists", f"{resource.plural} {name!r} already exists"
            )
        return _as(self._keep(resource, name, namespace, obj), into)

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
        metadata = obj["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        self.get(resource, name, namespace)
        return _as(self._keep(resource, name, namespace, obj), into)

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
        is_apply = patch.type is PatchType.APPLY
        present = self._present(resource, name, namespace)
        change = msgspec.json.decode(patch.body)
        if is_apply and (resource, namespace, name) not in self._written:
            try:
                after = self._dry.patch(
                    resource, name, patch, namespace,
                    subresource=subresource, field_manager=field_manager, force=force,
                )  # fmt: skip
            except errors.NotFoundError:  # its namespace or its kind would have been created
                after = change
            if present is not None and _content(after) == _content(present):
                return _as(present, into)
            return _as(self._keep(resource, name, namespace, after), into)
        if present is None and not is_apply:
            raise errors.NotFoundError(404, "NotFound", f"{resource.plural} {name!r} not found")
        # What JSON and strategic patches change is read by nobody afterwards.
        merged = present or {}
        if patch.type in {PatchType.MERGE, PatchType.APPLY}:
            merged = _merged(merged, change)
        return _as(self._keep(resource, name, namespace, merged), into)

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
        self.get(resource, name, namespace)
        self._written[resource, namespace, name] = None

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
        return self._api.watch(
            resource,
            namespace,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            label_selector=label_selector,
            field_selector=field_selector,
            bookmarks=bookmarks,
            into=into,
        )

    def _present(self, resource: Resource, name: str, namespace: str) -> Document | None:
        try:
            return self.get(resource, name, namespace)
        except errors.NotFoundError:
            return None

    def _keep(
        self, resource: Resource, name: str, namespace: str, document: Mapping[str, Any]
    ) -> Document:
        """Keep an object as it would be: in a version of its own, a CRD as established."""
        self._writes += 1
        kept = copy.deepcopy(dict(document))
        metadata = {"uid": _UID} | kept["metadata"]
        kept["metadata"] = metadata | {"resourceVersion": f"{_UID}-{self._writes}"}
        if resource == resources.CRDS:
            kept["status"] = _ESTABLISHED
        self._written[resource, namespace, name] = kept
        return kept


def _as(document: Document, into: type[T]) -> T:
    return decoding.one(msgspec.json.encode(document), into)


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object says, without what the server counts."""
    metadata = document["metadata"]
    kept = {key: value for key, value in metadata.items() if key not in _OF_SERVER}
    return {**document, "metadata": kept}


def _merged(document: Any, change: Any) -> Any:
    """Return a document with a merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
