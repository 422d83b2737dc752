"""Garbage collection: deletes dependents of deleted owners, and the content of namespaces.

A real cluster does this in the background within a second or so; here it is one step with the
deletion. Foreground deletion is treated as background.

Source: k8s.io/kubernetes pkg/controller/{garbagecollector,namespace}.
"""

from collections.abc import Callable
from typing import Final

from admission.kube import resources
from admission.kube.resources import Resource
from admission.sandbox.embedded.journal import Key, ObjectJournal, Stored

Delete = Callable[[Resource, Key], None]

ORPHAN: Final = "Orphan"


def collect(journal: ObjectJournal, delete: Delete, owner_uid: str) -> None:
    """Delete what an object that is gone owned alone; the rest only loses the reference."""
    for resource, key in journal.dependents(owner_uid):
        stored = journal.get(resource, key)
        if stored is None:
            continue
        if has_owner(journal, stored):
            _disown(journal, resource, stored)
        else:
            delete(resource, key)


def orphan(journal: ObjectJournal, owner_uid: str) -> None:
    """Take the references to an owner off its dependents, so that they stay."""
    for resource, key in journal.dependents(owner_uid):
        stored = journal.get(resource, key)
        if stored is not None:
            _disown(journal, resource, stored, without=owner_uid)


def has_owner(journal: ObjectJournal, stored: Stored) -> bool:
    """Return whether at least one of its owners exists."""
    return any(journal.owner(uid) is not None for uid in stored.owners)


def _disown(journal: ObjectJournal, resource: Resource, stored: Stored, without: str = "") -> None:
    document = stored.document()
    kept = [
        reference
        for reference in document["metadata"].get("ownerReferences", [])
        if reference["uid"] != without and (without or journal.owner(reference["uid"]))
    ]
    document["metadata"]["ownerReferences"] = kept
    if not kept:
        del document["metadata"]["ownerReferences"]
    journal.put(resource, document)


def empty_namespace(journal: ObjectJournal, delete: Delete, namespace: str) -> bool:
    """Delete what lives in a namespace; return whether nothing is left."""
    for resource in tuple(journal.resources()):
        if resource.namespaced:
            for stored in journal.snapshot(resource, namespace)[0]:
                delete(resource, stored.key)
    return is_empty(journal, namespace)


def is_empty(journal: ObjectJournal, namespace: str) -> bool:
    """Return whether nothing lives in a namespace."""
    return not any(
        journal.snapshot(resource, namespace)[0]
        for resource in journal.resources()
        if resource.namespaced
    )


def is_terminating(journal: ObjectJournal, namespace: str) -> bool:
    """Return whether a namespace exists and is being deleted."""
    stored = journal.get(resources.NAMESPACES, Key("", namespace))
    return stored is not None and "deletionTimestamp" in stored.document()["metadata"]
