"""Owners whose pods another controller creates, which may see late that they were stopped."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from typing_extensions import override

from admission.base import clock as clocks
from admission.base import events
from admission.base.names import WorkloadKey
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners.index import Subject
from admission.controller.watched_owners.owner_writes import Decide, OwnerContext, Owners
from admission.controller.watched_owners.secondaries import OwnerOfSecondary, Secondaries
from admission.controller.writing.api_requests import ApiRequest, WritePurpose
from admission.objects import views
from admission.owners.framework import Delegates, Document, Integration, Owner, View
from admission.reasons import kueue

_CONFIRMS: Final = timedelta(seconds=10)
"""So long the controller of an owner may take to say that it has seen it stopped."""
_MAKES: Final = timedelta(seconds=10)
"""So long it may take to make the object that describes its pods, before the owner says so."""


class HeldOwners(Owners[View, Document]):
    """Owners of one kind that are held as a whole."""

    def __init__(self, integration: Integration[View, Document], context: OwnerContext) -> None:
        """Prepare an empty index; see `Owners`.

        Args:
            integration: the kind.
            context: what owners of every kind work with.
        """
        self._as_owner, self._as_held = integration.owner, integration.view
        declared = integration.secondary
        self._secondaries: Secondaries[View, Document] | None = None
        if declared is not None:
            self._secondaries = Secondaries(declared, integration.kind)
            integration = replace(integration, view=self._view)
        integration = replace(integration, owner=self._owner)
        super().__init__(integration, context)
        self._stopped_at: dict[str, datetime] = {}
        """When owners were first seen stopped whose controller may not have seen it, by UID."""
        self._earlier: dict[str, set[WorkloadKey]] = {}
        """Gated pods that were made before their owner was admitted, by its UID."""
        if declared is not None:
            resource = declared.resource
            informer = Informer(resource.kind, self._on_secondary, self._on_secondary_delete)
            self.informers = {**self.informers, resource: informer}

    # ------------------------------------------------------------ objects that are made of them

    def _view(self, document: Any) -> View:
        """Return an owner with what the objects tell that its controller made of it."""
        if self._secondaries is None or not isinstance(document, self.integration.document):
            return self._as_held(document)
        return self._as_held(self._secondaries.joined(document))

    def _on_secondary(self, document: views.Object) -> None:
        assert self._secondaries is not None
        self._read_again(self._secondaries.on_update(document))

    def _on_secondary_delete(self, gone: views.Object) -> None:
        assert self._secondaries is not None
        self._read_again(self._secondaries.on_delete(gone, self._has))

    def _has(self, owner: OwnerOfSecondary) -> bool:
        view = self.index.get(owner.key)
        return view is not None and view.metadata.uid == owner.uid

    def _read_again(self, owners: Iterable[OwnerOfSecondary]) -> None:
        """Read owners again: objects that tell of their pods have changed."""
        for owner in owners:
            view = self.index.get(owner.key)
            if view is None or view.metadata.uid != owner.uid or self._secondaries is None:
                continue
            read = self._as_held(self._secondaries.joined(view))
            self.index.reread(owner.key, read)
            self._tell_running(owner.key, read)

    # ------------------------------------------------------------------------------- seeing

    @override
    def on_update(self, document: views.Object) -> None:
        super().on_update(document)
        key = self._kind.key_of(document)
        view = self.index.get(key)
        if view is not None and view.metadata.uid == document.metadata.uid:
            self._tell_running(key, view)

    def _tell_running(self, key: WorkloadKey, view: View) -> None:
        """Report what a running owner asks for, or that it does not run."""
        self._note_stopped(view)
        suspends = self._as_owner(view).suspends()
        if suspends is not None:
            self._running.on_owner_update(key, suspends.let_go())

    @override
    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        super().on_delete(gone, for_good=for_good)
        self._running.on_owner_update(self._kind.key_of(gone), None)
        self._stopped_at.pop(gone.metadata.uid, None)
        if self._secondaries is not None:
            self._secondaries.forget_owner(gone.metadata.uid)

    def on_earlier_pod(
        self, pod: WorkloadKey, owner: views.OwnerReference, *, waits: bool
    ) -> None:
        """Take whether a gated pod waits that was made before its owner was admitted.

        Args:
            pod: the key of the pod.
            owner: its controller, of whatever kind.
            waits: whether it does now.
        """
        if not self._kind.is_of(owner) or waits == (pod in self._earlier.get(owner.uid, ())):
            return
        pods = self._earlier.setdefault(owner.uid, set())
        if waits:
            pods.add(pod)
        else:
            pods.remove(pod)
        key = self._key_of_owner(pod.namespace, owner)
        if not pods:
            del self._earlier[owner.uid]
            view = self.index.get(key)
            if view is not None and view.metadata.uid == owner.uid:
                self._note_stopped(view)
        self._look_at((key,))

    def _key_of_owner(self, namespace: str, owner: views.OwnerReference) -> WorkloadKey:
        metadata = views.ObjectMeta(namespace=namespace, name=owner.name, uid=owner.uid)
        return self._kind.key_of(views.Object(metadata=metadata))

    def is_held(self, namespace: str, owner: views.OwnerReference) -> bool:
        """Return whether an owner is there that has a queue: its pods wait for it."""
        if not self._kind.is_of(owner):
            return False
        owner_ = self.index.get(self._key_of_owner(namespace, owner))
        is_managed = self._configuration.manages(namespace)
        return owner_ is not None and owner_.metadata.uid == owner.uid and is_managed

    def _owner(self, view: View) -> Owner:
        """Return an owner; it counts as running until its controller knows that it was stopped.

        A start that is taken back at once may never be seen by that controller, so that it says
        nothing: then the time decides. Nor may it see an owner stopped that is started again at
        once: then the pods of the first start stay, so these have to be gone before.
        """
        owner = self._as_owner(view)
        suspends, uid = owner.suspends(), view.metadata.uid
        if suspends is not None and uid in self._earlier and owner.grows() is None:
            return suspends.with_earlier_pods()
        if suspends is None or not self._is_unconfirmed(owner):
            return owner
        now = self._clock.now()
        due = self._stopped_at.get(uid, now) + _CONFIRMS
        return suspends.as_starting() if now < due else owner

    def _is_unconfirmed(self, owner: Owner) -> bool:
        """Return whether the controller of a stopped owner may not have seen it stopped."""
        suspends = owner.suspends()
        return suspends is not None and owner.is_held() and not suspends.is_stopped()

    def _note_stopped(self, view: View) -> None:
        """Note since when an owner is stopped whose controller may not have seen it."""
        owner, uid = self._as_owner(view), view.metadata.uid
        if uid in self._earlier and owner.grows() is None:
            return
        if self._is_unconfirmed(owner):
            self._stopped_at.setdefault(uid, self._clock.now())
        else:
            self._stopped_at.pop(uid, None)

    @override
    def next_request(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        owner = subject.owner
        delegates = None if owner is None or owner.pod_sets else owner.delegates()
        is_left = subject.beside is not None or self._is_left_alone(subject)
        if owner is None or delegates is None or is_left:
            return self._next_of_described(subject, decide)
        if subject.workload is not None:
            return decide(subject.key, subject.workload)
        is_over = owner.finished() is not None
        return None if is_over else self._without_secondary(subject.key, owner, delegates)

    def _without_secondary(
        self, key: WorkloadKey, owner: Owner, delegates: Delegates
    ) -> ApiRequest | None:
        """Hold an owner until the object is seen that describes its pods; say so after a while."""
        restores = owner.restores()
        if restores is not None and not owner.is_held():
            announced = (events.stopped(kueue.WORKLOAD_MISSING.message),)
            changes = restores.suspend()
            return self._patch(key, owner, WritePurpose.STOP_OWNER, changes, announced=announced)
        if restores is not None and not delegates.marks_secondaries():
            return self._patch(key, owner, WritePurpose.RESTORE_OWNER, restores.restore(None))
        now, created = self._clock.now(), owner.view.metadata.creation_timestamp
        due = now if created is None else clocks.from_wire(created) + _MAKES
        if now < due:
            self._draft.look_again_at(due)
        else:
            self._events.lacks_pods(key, owner.view, delegates.lacks_secondary())
        return None

    def _next_of_described(self, subject: Subject, decide: Decide) -> ApiRequest | None:
        request, owner = super().next_request(subject, decide), subject.owner
        if request is None and owner is not None and owner.view.metadata.uid in self._stopped_at:
            now, since = self._clock.now(), self._stopped_at[owner.view.metadata.uid]
            if now < since + _CONFIRMS:
                self._draft.look_again_at(since + _CONFIRMS)
        return request
