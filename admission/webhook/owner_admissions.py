"""Which owners exist, and with which Workloads they were admitted: what makers are trusted for.

Whoever may create service accounts in the namespace of an operator can act as its account. So a
pod that such an account makes passes as one of an owner only where the API server has this owner,
and its pod templates bear the mark of that admission (ADR 0134).
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from admission.base import logs
from admission.base.clock import Clock
from admission.kube import errors
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners.review import HeldKind, Mark, Reviewed

ASK_SECONDS: Final = 0.5
"""How long one question may take, while other reviews wait."""
_SHARE: Final = 0.05
"""Part of the time that questions may take in the long run: reviews wait meanwhile."""
_MOST_SECONDS: Final = 1.0
"""What of that may gather while nobody asks."""

Ask = Callable[[HeldKind, str, str], Reviewed | None]
"""Reads an owner of a kind by namespace and name; None where there is none. Raises `KubeError`."""
_NONE: Final[frozenset[Mark]] = frozenset()
_log = logs.get("owners")


def resource_of(held_kind: HeldKind) -> Resource:
    """Return where the objects of a kind are."""
    kind = held_kind.kind
    return Resource(kind.group, kind.version, kind.plural, kind.name)


def of_templates(owner: Reviewed) -> frozenset[Mark]:
    """Return what the pod templates of an owner say that was admitted."""
    try:
        return frozenset(mark for template in owner.templates() for mark in template.marks)
    except msgspec.ValidationError:
        return _NONE  # a field that no schema holds: its pods are held one by one


class OwnerAdmissions:
    """Owners as they are watched, by UID; what is not there is asked for, within a bound.

    Writers replace whole mappings, so reviews on another thread read without a lock.
    """

    def __init__(self, clock: Clock, ask: Ask | None = None) -> None:
        """Prepare an empty index.

        Args:
            clock: measures how long questions take.
            ask: see `Ask`; None: what is not watched is not known.
        """
        self._write = threading.Lock()
        self._known: dict[str, Mapping[str, frozenset[Mark]]] = {}
        """Admissions by UID, by the framework of the kind."""
        self._clock = clock
        self._ask = ask
        self._left = _MOST_SECONDS
        self._left_at = clock.monotonic()

    # ------------------------------------------------------------------------------- writers

    def replace(self, kind: HeldKind, owners: Iterable[views.Object]) -> None:
        """Take a complete list of the owners of a kind."""
        listed = {owner.metadata.uid: of_templates(owner) for owner in owners}  # type: ignore[arg-type]
        with self._write:
            self._known[kind.framework] = listed

    def upsert(self, kind: HeldKind, owner: views.Object) -> None:
        """Take one owner as it is now."""
        uid, marks = owner.metadata.uid, of_templates(owner)  # type: ignore[arg-type]
        with self._write:
            owners_known = self._known.get(kind.framework, {})
            if owners_known.get(uid) != marks:
                self._known[kind.framework] = {**owners_known, uid: marks}

    def delete(self, kind: HeldKind, owner: views.Object) -> None:
        """Take the deletion of one owner."""
        uid = owner.metadata.uid
        with self._write:
            owners_known = self._known.get(kind.framework, {})
            self._known[kind.framework] = {
                owner_uid: m for owner_uid, m in owners_known.items() if owner_uid != uid
            }

    # ------------------------------------------------------------------------------- readers

    def of(
        self, kind: HeldKind, namespace: str, owner: views.OwnerReference, marks: frozenset[Mark]
    ) -> frozenset[Mark] | None:
        """Return the admissions of an owner; None where there is no such owner, as far as known.

        Args:
            kind: the kind of the owner.
            namespace: of the owner.
            owner: names it.
            marks: those that are sought. The API server is asked where one is not known.
        """
        marks_known = self._known.get(kind.framework, {}).get(owner.uid)
        if marks_known is not None and marks <= marks_known:
            return marks_known
        now = self._clock.monotonic()
        gathered = self._left + _SHARE * (now - self._left_at)
        self._left, self._left_at = min(_MOST_SECONDS, gathered), now
        if self._ask is None or self._left <= 0:
            return marks_known
        try:
            owner_read = self._ask(kind, namespace, owner.name)
        except errors.KubeError as error:
            _log.warning("owner not read", kind=kind.kind.name, error=str(error))
            return marks_known
        finally:
            self._left_at = self._clock.monotonic()
            self._left -= self._left_at - now
        if owner_read is None or owner_read.metadata.uid != owner.uid:
            return None
        return of_templates(owner_read)
