"""An installation that files share, each of which leaves it as it found it.

What a file leaves behind is deleted at its end, as an administrator would, and then looked for:
objects, quota in the controller's metrics, errors in the logs. Whatever is left fails that file by
name, and the next file gets a new installation.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.controlplane import waiting
from tests.controlplane.rest import MERGE, Json, Rest, RestError
from tests.integration import snapshot

_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NOT_OBJECTS_OF_FILES: Final = frozenset({"events", "leases", "componentstatuses"})
_MADE_IN_EACH_NAMESPACE: Final = (
    ("serviceaccounts", "default"),
    ("configmaps", "kube-root-ca.crt"),
)
_ENDED_LATE: Final = frozenset({"jobs", "pods"})
"""In a namespace that ends, pods hold quota for their grace period, or until their Job is gone."""
_NOW: Final = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_DRIFT: Final = "gpu_admission_ledger_drift"
_QUOTA: Final = re.compile(
    r"^(?:kueue_(?:reserving_active|admitted_active|pending)_workloads|gpu_admission_ledger_drift)"
    r"(?:\{[^}]*\})? (?!0(?:\.0)?$)\S+$",
    re.MULTILINE,
)


class _Kind(NamedTuple):
    """A resource that the API server has objects of.

    Attributes:
        root: path of its group and version.
        plural: its name in paths.
        is_namespaced: whether its objects are in namespaces.
    """

    root: str
    plural: str
    is_namespaced: bool


_NAMESPACES: Final = _Kind("/api/v1", "namespaces", is_namespaced=False)


class _Object(NamedTuple):
    """An object that is stored.

    Attributes:
        path: where it is.
        plural: resource of its kind.
        document: the object.
    """

    path: str
    plural: str
    document: Json

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its id, which another object of its name does not have."""
        return str(self.document["metadata"]["uid"])

    @property
    def namespace(self) -> str:
        """The namespace that it is in, or is; empty for other objects of the cluster."""
        space = self.name if self.is_namespace else ""
        return str(self.document["metadata"].get("namespace", space))

    @property
    def is_namespace(self) -> bool:
        """Whether it is a namespace."""
        return self.path == f"/api/v1/namespaces/{self.name}"

    @property
    def foreign_finalizers(self) -> set[str]:
        """Finalizers of neither Kubernetes nor the product."""
        finalizers = self.document["metadata"].get("finalizers", ())
        return {name for name in finalizers if name.startswith("example.com/")}

    @property
    def is_ending(self) -> bool:
        """Whether its deletion has begun."""
        return "deletionTimestamp" in self.document["metadata"]


def _kinds(api: Rest) -> list[_Kind]:
    """Everything that can be listed and deleted, in the order of the API server."""
    listed = []
    for root in ("/api", "/apis"):
        for group in api.get(root, accept=_DISCOVERY)["items"]:
            version = group["versions"][0]
            parts = (root, group.get("metadata", {}).get("name", ""), version["version"])
            listed += [
                _Kind("/".join(filter(None, parts)), kind["resource"], kind["scope"] != "Cluster")
                for kind in version["resources"]
                if {"list", "delete"} <= set(kind["verbs"])
                and kind["resource"] not in _NOT_OBJECTS_OF_FILES
            ]
    return listed


class Shared:
    """One installation, and what is in it while no file uses it.

    Attributes:
        system: the installation.
        is_clean: whether the last file left nothing behind.
    """

    def __init__(self, folder: Path, *, whole: bool) -> None:
        self._opened = ExitStack()
        self._whole = whole
        self.is_clean = True
        with ExitStack() as opened:
            self.system = opened.enter_context(snapshot.started(folder, whole=whole))
            stored = self._objects(_kinds(self.system.api))
            self._kept = frozenset(kept.path for kept in stored)
            self._opened = opened.pop_all()
        self._log_begins = 0

    def close(self) -> None:
        """Stops it."""
        self._opened.close()

    def begin(self) -> None:
        """Remembers where the log of the next file begins."""
        self._log_begins = self.system.log.stat().st_size

    def end(self, expected: Collection[str] = ()) -> list[str]:
        """Deletes what the file left, and returns what is left all the same.

        Args:
            expected: events of errors that the file has the product log.
        """
        problems = []
        if self.system.process is None or self.system.process.poll() is not None:
            problems.append("its processes do not run")
        else:
            problems += self._deleted()
            problems += self._quota()
        problems += self._errors(expected)
        self.is_clean = not problems
        return problems

    def _objects(self, kinds: Iterable[_Kind]) -> Iterator[_Object]:
        for root, plural, is_namespaced in kinds:
            try:
                items = self.system.api.get(f"{root}/{plural}")["items"]
            except RestError as refused:
                if refused.status == HTTPStatus.NOT_FOUND:  # the kind itself was deleted
                    continue
                raise
            for document in items:
                metadata = document["metadata"]
                scope = f"/namespaces/{metadata['namespace']}" if is_namespaced else ""
                yield _Object(f"{root}{scope}/{plural}/{metadata['name']}", plural, document)

    def _left(self, kinds: Iterable[_Kind]) -> list[_Object]:
        """Objects that were not there before the file."""
        objects = list(self._objects(kinds))
        ending = set()
        if self._whole:  # the controller-manager ends namespaces, in seconds
            spaces = self._objects([_NAMESPACES])
            ending = {space.name for space in spaces if space.is_ending}
        return [
            stored
            for stored in objects
            if stored.path not in self._kept
            and (stored.namespace not in ending or stored.plural in _ENDED_LATE)
            and (stored.plural, stored.name) not in _MADE_IN_EACH_NAMESPACE
        ]

    def _deleted(self) -> list[str]:
        """Deletes what is there beyond what is kept; the paths of what does not go."""
        every = _kinds(self.system.api)
        left = self._left(every)
        asked: set[str] = set()

        def is_gone() -> bool:
            full = {stored.namespace for stored in left if not stored.is_namespace}
            for stored in left:
                if stored.is_namespace and stored.name in full:
                    continue  # once it is empty
                if stored.is_namespace and stored.is_ending:
                    # No controller-manager does it here.
                    body = {**stored.document, "spec": {}}
                    self._ask("PUT", f"{stored.path}/finalize", body)
                elif stored.is_ending and stored.foreign_finalizers:
                    self._remove_foreign_finalizers(stored)
                elif stored.uid not in asked or not stored.is_ending:
                    # Once more where it is ending already, for the grace period that it had.
                    self._ask("DELETE", stored.path, _NOW)
                    asked.add(stored.uid)
            plurals = {stored.plural for stored in left}
            left[:] = self._left([kind for kind in every if kind.plural in plurals])
            left[:] = left or self._left(every)
            return not left

        try:
            waiting.until(is_gone)
        except TimeoutError:
            return sorted(stored.path for stored in left)
        return []

    def _remove_foreign_finalizers(self, stored: _Object) -> None:
        """Takes off finalizers that the file put on; those of the product go by themselves."""
        kept = set(stored.document["metadata"]["finalizers"]) - stored.foreign_finalizers
        self._ask("PATCH", stored.path, {"metadata": {"finalizers": sorted(kept)}})

    def _ask(self, method: str, path: str, body: Json) -> None:
        """Sends a request that may come too late, or be sent again."""
        content_type = MERGE if method == "PATCH" else "application/json"
        try:
            self.system.api.text(method, path, body, content_type)
        except RestError as refused:
            if refused.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                raise

    def _quota(self) -> list[str]:
        """What the controller still counts, as its metrics say."""
        page = ""

        def is_zero() -> bool:
            nonlocal page
            _, page = self.system.page(self.system.metrics_url, "/metrics")
            return bool(page) and not _QUOTA.search(page)

        try:
            waiting.until(is_zero)
        except TimeoutError:
            return [f"metric {found}" for found in _QUOTA.findall(page)] or ["no metrics"]
        return []

    def _errors(self, expected: Collection[str]) -> list[str]:
        """Errors in the log of the file, other than those with these events."""
        with self.system.log.open(errors="replace") as log:
            log.seek(self._log_begins)
            lines = log.read().splitlines()
        return [f"log: {line[:300]}" for line in lines if _is_error(line, expected)]


def _is_error(line: str, expected: Collection[str]) -> bool:
    if line.startswith("Traceback"):
        return True
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return False
    if not isinstance(entry, dict) or entry.get("event") in expected:
        return False
    return entry.get("level") in {"error", "critical"}
