"""Owners of one kind as last seen, by the key that a Workload of ours has, or would have."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from admission.base.names import WorkloadKey
from admission.controller.seeing.informers import key_of
from admission.controller.seeing.object_cache import NamedCache, ObjectCache, version
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import prebuilt, slices
from admission.owners.framework import Document, Integration, Owner, View


@dataclass(slots=True)
class _Whole(Generic[Document]):
    """What is kept whole of an owner until its Workload is made from it, or adopted.

    Attributes:
        document: the owner.
        named: the Workload that the owner names.
    """

    document: Document | None = None
    named: dict[str, Any] | None = None


class Subject(NamedTuple):
    """The objects of an owner that belong to one Workload key.

    Attributes:
        key: the key.
        owner: the owner that the key is looked at for; None where it is gone.
        workload: the Workload of that key; None where there is none.
        beside: the owner whose second Workload it is; None for every other Workload.
    """

    key: WorkloadKey
    owner: Owner | None
    workload: Workload | None
    beside: Owner | None = None


class OwnerIndex(Generic[View, Document]):
    """All owners of one kind that are ours."""

    def __init__(
        self,
        integration: Integration[View, Document],
        workloads: WorkloadIndex,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        forget: Callable[[WorkloadKey], None],
    ) -> None:
        """Prepare an empty index.

        Args:
            integration: the kind.
            workloads: all Workloads.
            look_at: is told which Workloads to look at again.
            forget: is told that the owner of a key is gone, or may name another Workload.
        """
        self._integration = integration
        self._kind = integration.kind
        self._workloads = workloads
        self._look_at = look_at
        self._forget = forget
        self._views: ObjectCache[WorkloadKey, View] = ObjectCache()
        self._in = self._views.index(lambda key, _: (key.namespace,))
        self._whole: dict[WorkloadKey, _Whole[Document]] = {}
        self._naming = prebuilt.PrebuiltNames()

    def named(self) -> NamedCache:
        """Declare an index by namespace and name, before there is any owner; return it."""
        return self._views, self._views.unique(lambda _, view: key_of(view))

    def get(self, key: WorkloadKey) -> View | None:
        """Return the owner whose Workload of ours has, or would have, a key."""
        return self._views.get(key)

    def may_have(self, key: WorkloadKey, controller: views.OwnerReference | None) -> bool:
        """Return whether `subject` may return something; it costs little.

        Args:
            key: the key.
            controller: the controller of the Workload of that key; None for none.
        """
        return key in self._views.by_key or (
            controller is not None and self._kind.is_of(controller)
        )

    def subject(self, key: WorkloadKey) -> Subject | None:
        """Return the objects under a key, or None if the key is not of this kind.

        An owner that names its Workload has two keys: that of the Workload once it has adopted
        it, and the one that a Workload of ours would have.
        """
        view, workload = self._views.get(key), self._workloads.get(key)
        owner = None if view is None else self._integration.owner(view)
        owner_key = None if workload is None else self._kind.owner_key(workload)
        if workload is None or owner_key is None:
            return None if owner is None else Subject(key, owner, workload)
        controlling = view if owner_key == key else self._views.get(owner_key)
        is_slice = controlling is not None and self._is_slice(workload, controlling)
        if (
            controlling is not None
            and not is_slice
            and self._kind.has_beside(workload, controlling)
        ):
            return Subject(key, owner, workload, self._integration.owner(controlling))
        if (
            owner is None
            and controlling is not None
            and (is_slice or prebuilt.is_adopted(workload, controlling))
        ):
            owner = self._integration.owner(controlling)
        is_its = owner is not None or self._kind.owns(workload)
        return Subject(key, owner, workload) if is_its else None

    def _is_slice(self, workload: Workload, owner: View) -> bool:
        """Return whether a Workload is a slice of an owner that may change its size.

        One that asks for other pods than the slice before it is none: somebody else made it. So is
        one of which the predecessor is not there, unless it was admitted.
        """
        before = workload.replaces()
        if before is None or self._integration.owner(owner).grows() is None:
            return False
        if not workload.is_pending():
            return True
        predecessor = self._workloads.get(before)
        first = self._kind.key_of(owner)
        is_its = predecessor is not None and self._workloads.first(before) == first
        was_admitted = self._workloads.current(first) == workload.key()
        return was_admitted or (
            is_its and predecessor is not None and slices.is_alike(workload, predecessor)
        )

    def named_by(self, owner: views.Object) -> Workload | None:
        """Return the objects under the name of a Workload that an owner gives."""
        named = self._kind.prebuilt_key(owner)
        return None if named is None else self._workloads.get(named)

    def may_name(self, named: WorkloadKey) -> bool:
        """Return whether `naming` has something to do for a Workload that is there."""
        return named in self._whole or named in self._naming

    def naming(self, named: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Return the keys to look at of owners that name a Workload, which is here now or gone."""
        if self._workloads.get(named) is not None:
            self.drop_document(named)
        owners_naming = self._naming.owners(named)
        for key in owners_naming:
            self._workloads.doubt_absence(key)
        return owners_naming

    def of_namespace(self, namespace: str) -> tuple[WorkloadKey, ...]:
        """Return the keys of the owners in a namespace."""
        return self._in.keys(namespace)

    # ------------------------------------------------------------------------------- seeing

    def on_update(self, document: views.Object) -> View | None:
        """Take a sight of an owner: whole as watched, or as an answer.

        Returns:
            Its parts; None for an old sight, and for an object without our label.
        """
        key = self._kind.key_of(document)
        before = self._views.get(key)
        if before is not None and version(document) <= version(before):
            return None
        if not self._kind.includes(document.metadata):
            self.on_delete(document)
            return None
        view = self._integration.view(document)
        if not self._views.put(key, view):
            return None
        named = self._kind.prebuilt_key(view)
        if before is not None and self._kind.prebuilt_key(before) != named:
            self._forget_name(key, before)
        self._naming.add(named, key)
        if named is not None:
            self._look_at((named,))
        wants_workload = self._wants_workload(view) and not self._has_workload(key, view)
        if isinstance(document, self._integration.document) and wants_workload:
            self._whole.setdefault(key, _Whole()).document = document
        else:
            self.drop_document(key)
        self._look_at(self.keys_of(key))
        return view

    def reread(self, key: WorkloadKey, view: View) -> None:
        """Take another reading of an owner that is known: what it depends on has changed."""
        self._views.reread(key, view)
        self._look_at(self.keys_of(key))

    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        """Take the news that an owner is gone, or its label is.

        Args:
            gone: the owner.
            for_good: it does not exist any more. Else a later version with the label may come
                again; an answer that is older than the news is not one.
        """
        key = self._kind.key_of(gone)
        before = self._views.get(key)
        newest = before if before is not None and version(before) > version(gone) else gone
        self._views.remove(key, gone.metadata.uid, None if for_good else newest)
        self._whole.pop(key, None)
        if before is not None:
            self._forget_name(key, before)
        self._workloads.doubt_absence(key)
        self._forget(key)
        self._look_at(self.keys_of(key))

    def keys_of(self, key: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Return the key of an owner, and those of the slices that it has or had."""
        slices_ = (slice_.key() for slice_ in self._workloads.slices(key))
        return (key, *(other for other in slices_ if other != key))

    def _wants_workload(self, view: View) -> bool:
        owner = self._integration.owner(view)
        return owner.is_held() and owner.finished() is None

    def _has_workload(self, key: WorkloadKey, owner: View) -> bool:
        named = self.named_by(owner)
        if named is not None and prebuilt.is_adopted(named, owner):
            return True
        return self._workloads.get(key) is not None

    def _forget_name(self, key: WorkloadKey, owner: View) -> None:
        """Forget which Workload an owner names that is gone, or may name another one."""
        named = self._kind.prebuilt_key(owner)
        if named is None:
            return
        self._naming.remove(named, key)
        self._forget(named)
        self._look_at((named, *self._naming.owners(named)))

    # ------------------------------------------------------------------- what was read whole

    def document_of(self, key: WorkloadKey) -> Document | None:
        """Return an owner whole, as it was last seen, or None if it is to be read."""
        view, whole = self._views.get(key), self._whole.get(key)
        if view is None or whole is None or whole.document is None:
            return None
        return whole.document if version(whole.document) >= version(view) else None

    def keep_document(self, key: WorkloadKey, document: Document) -> None:
        """Keep an owner whole until its Workload is made from it; never an older version."""
        view = self._views.get(key)
        if view is None or document.metadata.uid != view.metadata.uid:
            return
        if version(document) >= version(view):
            self._whole.setdefault(key, _Whole()).document = document

    def drop_document(self, key: WorkloadKey) -> None:
        """Forget an owner whole: its Workload is made, or it has changed."""
        whole = self._whole.get(key)
        if whole is not None:
            whole.document = None
            if whole.named is None:
                del self._whole[key]

    def named_document(self, key: WorkloadKey) -> dict[str, Any] | None:
        """Return whole the Workload that the owner of a key names, as far as it was read."""
        whole = self._whole.get(key)
        return None if whole is None else whole.named

    def keep_named(self, key: WorkloadKey, document: dict[str, Any]) -> None:
        """Keep whole the Workload that the owner of a key names."""
        if self._views.get(key) is not None:
            self._whole.setdefault(key, _Whole()).named = document

    def drop_named(self, key: WorkloadKey) -> None:
        """Forget whole the Workload that the owner of a key names: it has changed."""
        whole = self._whole.get(key)
        if whole is not None:
            whole.named = None
            if whole.document is None:
                del self._whole[key]
