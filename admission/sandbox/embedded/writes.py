"""Creates, updates and deletes in the embedded store.

Reviews run outside the lock, as they may be slow and may read the store; the write then holds
only if the object is still the one that was reviewed, else it starts again.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from admission.base import clock
from admission.base.clock import Clock
from admission.kube import resources
from admission.kube.api import Document
from admission.sandbox.embedded import (
    garbage,
    journal,
    metadata,
    pods,
    priority,
    refusals,
    reviews,
)
from admission.sandbox.embedded.journal import Key, ObjectJournal, Stored
from admission.sandbox.embedded.kinds import ResourceTreatment
from admission.sandbox.embedded.reviews import WebhookCaller, Write, WriteOperation

Change = Callable[[Document], Document]

_ATTEMPTS: Final = 5
_STATUS: Final = "status"


class Writes:
    """Creates, changes and deletes objects by the rules of their kinds."""

    def __init__(
        self,
        journal: ObjectJournal,
        kinds: dict[resources.Resource, ResourceTreatment],
        clock_: Clock,
        rng: random.Random,
        reviewers: Sequence[WebhookCaller],
        warn: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._kinds = kinds
        self._clock = clock_
        self._rng = rng
        self._reviewers = reviewers
        self._warn = warn

    def create(
        self, kind: ResourceTreatment, document: Document, user: str, *, dry_run: bool = False
    ) -> Stored:
        """Store a new object; a dry run only returns what would be stored, without a version."""
        resource, meta = kind.resource, document["metadata"]
        self._check_namespace(kind, meta.get("namespace", ""), meta.get("name", ""))
        if meta.get("resourceVersion"):
            raise refusals.internal("resourceVersion should not be set on objects to be created")
        metadata.wipe(document)
        kind.initial(document)
        if resource == resources.PODS:
            priority.resolve(self._journal, document)
        write = Write(
            resource=resource, operation=WriteOperation.CREATE, user=user, old=None,
            namespace=meta.get("namespace", ""), name=meta.get("name", ""), dry_run=dry_run,
        )  # fmt: skip
        document = self._settled(kind, self._mutated(kind, write, self._settled(kind, document)))
        metadata.name(document, self._rng)
        name = document["metadata"].get("name", "")
        broken = (*metadata.creation_rules(resource, document), *kind.rules(document, None))
        if broken:
            raise refusals.invalid(resource, name, broken)
        self._validate(write, document)
        return self._insert(kind, document, dry_run=dry_run)

    def update(
        self,
        kind: ResourceTreatment,
        key: Key,
        change: Change,
        subresource: str,
        user: str,
        *,
        dry_run: bool = False,
    ) -> Stored:
        """Change an object; return the version that holds then, old if nothing changed.

        A dry run changes nothing and returns what would be stored, under the old version.

        Raises:
            ConflictError: a precondition failed, or the object changed all the time.
        """
        if subresource not in {"", _STATUS} or (subresource and not kind.status):
            raise refusals.not_served(kind.resource)
        for _ in range(_ATTEMPTS):
            old = self._require(kind, key)
            done = self._update_once(kind, old, change, subresource, user, dry_run=dry_run)
            if done is not None:
                return done
        raise refusals.conflict(kind.resource, key.name)

    def delete(
        self,
        kind: ResourceTreatment,
        key: Key,
        user: str,
        *,
        uid: str = "",
        resource_version: str = "",
        orphan: bool = False,
        dry_run: bool = False,
    ) -> None:
        """Delete an object, or mark it as deleted while finalizers hold it.

        A dry run only checks and reviews.
        """
        stored = self._require(kind, key)
        self._check_preconditions(kind, stored, uid, resource_version)
        write = Write(
            resource=kind.resource, operation=WriteOperation.DELETE, user=user,
            namespace=key.namespace, name=key.name, old=stored.document(), dry_run=dry_run,
        )  # fmt: skip
        self._mutated(kind, write, None)
        self._validate(write, None)
        if dry_run:
            return
        with self._journal.lock:
            stored = self._require(kind, key)
            self._check_preconditions(kind, stored, uid, resource_version)
            if orphan:
                garbage.orphan(self._journal, stored.uid)
            self._remove(kind.resource, key)

    # ------------------------------------------------------------------------------- creation

    def _check_namespace(self, kind: ResourceTreatment, namespace: str, name: str) -> None:
        if not kind.resource.namespaced:
            return
        if self._journal.get(resources.NAMESPACES, Key("", namespace)) is None:
            raise refusals.not_found(resources.NAMESPACES, namespace)
        if garbage.is_terminating(self._journal, namespace):
            raise refusals.namespace_ending(kind.resource, name, namespace)

    def _insert(self, kind: ResourceTreatment, document: Document, *, dry_run: bool) -> Stored:
        now = clock.to_wire(self._clock.now())
        metadata.stamp(document, self._rng, now, generation=kind.generation)
        if kind.resource == resources.PODS and document["spec"].get("schedulingGates"):
            document["status"]["conditions"] = [pods.gated_condition(now)]
        stored_metadata = document["metadata"]
        with self._journal.lock:
            self._check_namespace(
                kind, stored_metadata.get("namespace", ""), stored_metadata["name"]
            )
            key = Key(stored_metadata.get("namespace", ""), stored_metadata["name"])
            if self._journal.get(kind.resource, key) is not None:
                raise refusals.already_exists(kind.resource, stored_metadata["name"])
            if dry_run:
                return journal.encode(document, journal.UNSTORED)
            stored = self._journal.put(kind.resource, document)
            if stored.owners and not garbage.has_owner(self._journal, stored):
                self._remove(kind.resource, key)
            return stored

    # --------------------------------------------------------------------------------- update

    def _update_once(
        self,
        kind: ResourceTreatment,
        stored: Stored,
        change: Change,
        subresource: str,
        user: str,
        *,
        dry_run: bool,
    ) -> Stored | None:
        """One attempt; None if the object changed meanwhile.

        A change that names a version then fails by itself at the next attempt.
        """
        old = stored.document()
        new = change(stored.document())
        self._check_version(kind, new, old)
        new = self._merge_parts(kind, new, old, subresource)
        if not subresource:
            new = self._reviewed(kind, new, old, user, dry_run=dry_run)
        if new == old:
            return stored
        if dry_run:
            return journal.encode(new, stored.version)
        with self._journal.lock:
            if self._journal.get(kind.resource, stored.key) is stored:
                return self._commit(kind, new, stored)
        return None

    def _check_version(self, kind: ResourceTreatment, new: Document, old: Document) -> None:
        """Checks identity and resourceVersion."""
        meta, was = new["metadata"], old["metadata"]
        if meta.get("name", was["name"]) != was["name"]:
            raise refusals.bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL "
                f"({was['name']})"
            )
        if meta.get("namespace", was.get("namespace")) != was.get("namespace"):
            raise refusals.bad_request(
                "the namespace of the object does not match the namespace on the URL"
            )
        if meta.get("resourceVersion", was["resourceVersion"]) != was["resourceVersion"]:
            raise refusals.conflict(kind.resource, was["name"])
        broken = tuple(metadata.update_rules(new, old))
        if broken:
            raise refusals.invalid(kind.resource, was["name"], broken)

    def _merge_parts(
        self, kind: ResourceTreatment, new: Document, old: Document, subresource: str
    ) -> Document:
        """Puts the written part beside the part that this write may not touch."""
        new = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"]}
        if subresource and kind.custom:
            new = {**old, "status": new.get("status")}
        elif subresource:
            new = {**old, "metadata": new["metadata"], "status": new.get("status")}
        elif kind.status:
            new = {**new, "status": old.get("status")}
        if new.get("status") is None:
            new.pop("status", None)
        new["metadata"] = metadata.tidy(new["metadata"])
        for key in ("name", "namespace", "resourceVersion"):
            if key in old["metadata"]:
                new["metadata"][key] = old["metadata"][key]
        metadata.keep_system_fields(new, old)
        settled = self._settled(kind, new)
        if subresource:
            broken = kind.rules(settled, old) if kind.custom else ()
            if broken:
                raise refusals.invalid(kind.resource, old["metadata"]["name"], broken)
        return settled

    def _reviewed(
        self, kind: ResourceTreatment, new: Document, old: Document, user: str, *, dry_run: bool
    ) -> Document:
        write = Write(
            resource=kind.resource, operation=WriteOperation.UPDATE, user=user, old=old,
            namespace=old["metadata"].get("namespace", ""), name=old["metadata"]["name"],
            dry_run=dry_run,
        )  # fmt: skip
        new = self._settled(kind, self._mutated(kind, write, new))
        broken = kind.rules(new, old)
        if broken:
            raise refusals.invalid(kind.resource, write.name, broken)
        if kind.generation:
            metadata.bump_generation(new, old)
        self._validate(write, new)
        return new

    def _commit(self, kind: ResourceTreatment, new: Document, stored: Stored) -> Stored:
        deleted = metadata.is_deleting(new) and not new["metadata"].get("finalizers")
        if deleted and kind.resource != resources.NAMESPACES:
            self._take_out(kind.resource, stored.key)
            return stored
        return self._journal.put(kind.resource, new)

    # ------------------------------------------------------------------------------- deletion

    def _remove(self, resource: resources.Resource, key: Key) -> None:
        """Deletes now or, if finalizers hold the object, marks it; caller holds the lock."""
        stored = self._journal.get(resource, key)
        if stored is None:
            return
        document = stored.document()
        if resource == resources.NAMESPACES:
            self._terminate(document, key)
        elif document["metadata"].get("finalizers"):
            self._mark(resource, document)
        else:
            self._take_out(resource, key)

    def _mark(self, resource: resources.Resource, document: Document) -> None:
        meta = document["metadata"]
        if metadata.is_deleting(document):
            return
        meta["deletionTimestamp"] = clock.to_wire(self._clock.now())
        meta["deletionGracePeriodSeconds"] = 0
        if "generation" in meta:
            meta["generation"] += 1
        self._journal.put(resource, document)

    def _terminate(self, document: Document, key: Key) -> None:
        if not metadata.is_deleting(document):
            document["metadata"]["deletionTimestamp"] = clock.to_wire(self._clock.now())
            document["status"] = {"phase": "Terminating"}
            self._journal.put(resources.NAMESPACES, document)
        if garbage.empty_namespace(self._journal, self._remove, key.name):
            self._finish_namespace(key.name)

    def _take_out(self, resource: resources.Resource, key: Key) -> None:
        gone = self._journal.remove(resource, key)
        garbage.collect(self._journal, self._remove, gone.uid)
        if key.namespace and garbage.is_terminating(self._journal, key.namespace):
            self._finish_namespace(key.namespace)

    def _finish_namespace(self, namespace: str) -> None:
        key = Key("", namespace)
        is_known = self._journal.get(resources.NAMESPACES, key) is not None
        if is_known and garbage.is_empty(self._journal, namespace):
            gone = self._journal.remove(resources.NAMESPACES, key)
            garbage.collect(self._journal, self._remove, gone.uid)

    # --------------------------------------------------------------------------------- shared

    def _require(self, kind: ResourceTreatment, key: Key) -> Stored:
        stored = self._journal.get(kind.resource, key)
        if stored is None:
            raise refusals.not_found(kind.resource, key.name)
        return stored

    def _check_preconditions(
        self, kind: ResourceTreatment, stored: Stored, uid: str, resource_version: str
    ) -> None:
        if uid and uid != stored.uid:
            raise refusals.conflict(
                kind.resource,
                stored.key.name,
                f"the UID in the precondition ({uid}) does not match the UID in record "
                f"({stored.uid}). The object might have been deleted and then recreated",
            )
        if resource_version and resource_version != str(stored.version):
            raise refusals.conflict(
                kind.resource,
                stored.key.name,
                f"the ResourceVersion in the precondition ({resource_version}) does not match the "
                f"ResourceVersion in record ({stored.version}). The object might have been "
                "modified",
            )

    def _settled(self, kind: ResourceTreatment, document: Document) -> Document:
        """The document as the server reads it: without nulls, with defaults."""
        if not kind.custom:
            document = metadata.without_nulls(document)
        kind.defaults(document)
        return document

    def _mutated(
        self, kind: ResourceTreatment, write: Write, document: Document | None
    ) -> Document:
        done = reviews.run(self._reviewers, write, document, mutating=True, warn=self._warn)
        if done is not None and kind.resource.namespaced:
            done["metadata"].setdefault("namespace", write.namespace)
        return done if done is not None else {}

    def _validate(self, write: Write, document: Document | None) -> None:
        reviews.run(self._reviewers, write, document, mutating=False, warn=self._warn)
