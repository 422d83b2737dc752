"""What the controller knows of an owner: the kind it is of, and what every owner can do.

An owner is an object that asks for pods: a pod, a batch/v1 Job. `Integration` has all that the
controller needs for one kind of them. What only some owners can do is an optional ability: a
Protocol of its own, which the owner returns itself for, or None.
Source: kueue pkg/controller/jobframework/interface.go.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.base.patches import Patch
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import prebuilt, workload
from admission.owners.injection import Injection
from admission.owners.workload import PriorityClasses

View = TypeVar("View", bound=views.Object)
Document = TypeVar("Document", bound=views.Object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of owner.

    Attributes:
        api_version: of its objects, such as ``batch/v1``.
        name: of the kind, such as ``Job``.
        plural: its resource, such as ``jobs``.
        label: without this label an object is not ours.
        label_value: the value that the label must have; empty for any.
        is_deleted_to_stop: an eviction deletes the owner, so its quota is given back once it is
            on its way. Else an eviction suspends it.
        has_condition: a condition of ours on the owner says what its Workload waits for. Else
            events on the owner tell of its Workload.
        takes_preferences: its pods, or their template, may be given nodes that they prefer when
            it starts.
    """

    api_version: str
    name: str
    plural: str
    label: str
    label_value: str = ""
    is_deleted_to_stop: bool
    has_condition: bool
    takes_preferences: bool = False

    @property
    def selector(self) -> str:
        """The label selector of the objects that are ours."""
        return f"{self.label}={self.label_value}" if self.label_value else self.label

    def includes(self, metadata: views.ObjectMeta) -> bool:
        """Return whether an object of this kind is ours."""
        value = metadata.label(self.label)
        return value == self.label_value if self.label_value else bool(value)

    def key_of(self, owner: views.Object) -> WorkloadKey:
        """Return the identity that a Workload of ours has, or would have, for an owner."""
        metadata = owner.metadata
        name = workload.name_for(self.name, self.group, metadata.name, metadata.uid)
        return WorkloadKey(metadata.namespace, name)

    def prebuilt_key(self, owner: views.Object) -> WorkloadKey | None:
        """Return the identity of the Workload that an owner names, or None if we make it."""
        named = prebuilt.key_of(owner)
        return None if named is None or named == self.key_of(owner) else named

    def owner_key(self, workload_: Workload) -> WorkloadKey | None:
        """Return the identity that we give to the Workload of the owner that controls this one.

        None if no owner of this kind controls it.
        """
        controller = workload_.metadata.controller()
        if controller is None or not self.is_of(controller):
            return None
        name = workload.name_for(self.name, self.group, controller.name, controller.uid)
        return WorkloadKey(workload_.metadata.namespace, name)

    def has_beside(self, workload: Workload, owner: views.Object) -> bool:
        """Return whether a Workload that an owner controls is a second one.

        Somebody made it in the owner's name. It stands for no pods, and would hold quota for them.
        """
        key = WorkloadKey(workload.metadata.namespace, workload.metadata.name)
        is_its = key in {self.key_of(owner), self.prebuilt_key(owner)}
        return not self.is_deleted_to_stop and not is_its

    def owns(self, workload: Workload) -> bool:
        """Return whether a Workload was made for its owner of this kind, or adopted by it.

        So were slices that replace another one.
        """
        key = self.owner_key(workload)
        is_other = key is not None and key.name != workload.metadata.name
        return key is not None and (
            not is_other or prebuilt.is_marked(workload) or workload.replaces() is not None
        )

    def reference(self, metadata: views.ObjectMeta) -> dict[str, Any]:
        """Return the reference to an owner as the controller of its Workload."""
        return {
            "apiVersion": self.api_version,
            "kind": self.name,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version of the API."""
        return self.api_version.rpartition("/")[2]

    def is_of(self, owner: views.OwnerReference) -> bool:
        """Return whether a reference names an owner of this kind."""
        return owner.kind == self.name and owner.api_version == self.api_version


class Owner(Protocol):
    """One owner, as last seen."""

    @property
    def kind(self) -> Kind:
        """The kind it is of."""
        ...

    @property
    def view(self) -> views.Object:
        """The object itself."""
        ...

    @property
    def pod_sets(self) -> tuple[str, ...]:
        """Names of its pod sets."""
        ...

    def is_held(self) -> bool:
        """Return whether it is kept from running: gated or suspended."""
        ...

    def is_active(self) -> bool:
        """Return whether pods of a held owner still run."""
        ...

    def is_ending(self) -> bool:
        """Return whether it is being deleted while its pods may still run."""
        return False

    def is_ready(self) -> bool:
        """Return whether all its pods are ready, or have succeeded."""
        ...

    def finished(self) -> Text | None:
        """Return how it has ended, or None while it has not."""
        ...

    def was_admitted(self) -> bool:
        """Return whether it runs because the Workload that we made for it was admitted.

        Only the controller can write what tells so (ADR 0114).
        """
        ...

    def missing_workload(self) -> Text:
        """Return why it is stopped when it runs without ever having been admitted."""
        ...

    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> Patch:
        """Return the patch that lets it run with what its admission gives its pods.

        Args:
            workload: its Workload.
            injections: what the pods of each pod set get, by its name.

        Raises:
            InjectionConflictError: it contradicts what is given.
        """
        ...

    def stands_for(self, workload: Workload) -> bool:
        """Return whether a Workload that it has adopted has its pod sets and time limit."""
        ...

    def places_otherwise(self, workload: Workload) -> bool:  # noqa: ARG002
        """Return whether it asks for other nodes than a Workload that was made for it.

        Kubernetes lets people change where a pod may go as long as a gate holds it.
        """
        return False

    def terminates(self) -> "Terminates | None":
        """Return it as an owner that is deleted to stop it, or None."""
        return None

    def reclaims(self) -> "Reclaims | None":
        """Return it as an owner with pods that never run again, or None."""
        return None

    def restores(self) -> "Restores | None":
        """Return it as an owner that is started and stopped again and again, or None."""
        return None

    def resizes(self) -> "Resizes | None":
        """Return it as an owner whose pod sets may change while it is held, or None."""
        return None

    def grows(self) -> "Grows | None":
        """Return it as an owner whose number of pods may change while it runs, or None."""
        return None

    def gathers(self) -> "Gathers | None":
        """Return it as an owner that consists of pods that come one by one, or None."""
        return None

    def suspends(self) -> "Suspends | None":
        """Return it as an owner whose pods another controller makes while it runs, or None."""
        return None

    def delegates(self) -> "Delegates | None":
        """Return it as an owner whose pod templates stand in another object, or None."""
        return None

    def prepares(self) -> "Prepares | None":
        """Return it as an owner that gets what its admission gives before it starts, or None."""
        return None


class Terminates(Protocol):
    """An owner that is deleted to stop it, and says why before."""

    def termination(self, text: Text, now: datetime) -> Patch | None:
        """Return the patch of its status that says why it is deleted, or None if it says so."""
        ...


class Reclaims(Protocol):
    """An owner with pods that will never run again, while others run."""

    def reclaimable(self, workload: Workload) -> Mapping[str, int]:
        """Return how many pods of each pod set will never run again, by its name."""
        ...

    def pods_ended(self, workload: Workload) -> Mapping[str, int]:
        """Return how many pods of each pod set have ended, by its name.

        They are more than the reclaimable ones where its controller may run some again.
        """
        ...


class Restores(Protocol):
    """An owner that is suspended to stop it, and restored to what it was before it started."""

    def is_injected(self) -> bool:
        """Return whether it carries what an admission gave it."""
        ...

    def lacks_injection(self) -> bool:
        """Return whether it runs without what an admission adds, because somebody else started it.

        Its pods wait, as they do not carry the mark of an admission.
        """
        ...

    def suspend(self) -> Patch:
        """Return the patch that stops it."""
        ...

    def reset(self) -> Patch | None:
        """Return the patch of its status that forgets when it started, or None.

        While there is one it may not be restored.
        """
        ...

    def restore(self, workload: Workload | None) -> Patch:
        """Return the patch that takes out what an admission gave it."""
        ...


class Resizes(Protocol):
    """An owner whose pod sets may change while it is held, or differ from those it asked for."""

    def has_other_pods(self, workload: Workload) -> bool:
        """Return whether the Workload asks for other pods, or another number."""
        ...

    def has_other_count(self, workload: Workload) -> bool:
        """Return whether it runs with another number of pods than it may (partial admission)."""
        ...

    def asks_otherwise(self, workload: Workload) -> bool:
        """Return whether the Workload asks for other pods, or in another queue."""
        ...

    def waits_otherwise(self, workload: Workload) -> bool:
        """Return whether time limit or admission gates differ from the Workload's."""
        ...


class Grows(Protocol):
    """An owner whose number of pods may change while it runs: each pod has a gate.

    Its pods are released one by one, as many as its Workload has quota for. For more of them
    another Workload is made, which replaces the first when it is admitted.
    """

    def asked(self) -> Mapping[str, int]:
        """Return how many pods it is to have, by the name of the pod set."""
        ...

    def revision(self) -> str:
        """Return a value that differs for each size that it has had.

        The name of the Workload that asks for it depends on that.
        """
        ...


class Gathers(Protocol):
    """An owner that consists of pods: they come one by one, and each is started and stopped.

    Its Workload stands for all of them.
    """

    def refusal(self, workload: Workload) -> Text | None:
        """Return why a Workload is not its own though it has the name, or None if it is."""
        ...

    def missing(self) -> Text | None:
        """Return why its Workload cannot be made of the pods that are there, or None if it can."""
        ...

    def asks_otherwise(self, workload: Workload) -> bool:
        """Return whether the pods, which are complete, ask for something else."""
        ...

    def excess(self, workload: Workload | None) -> views.Pod | None:
        """Return a pod that waits and is one too many, or None."""
        ...

    def unrecorded(self, workload: Workload) -> Mapping[str, Any] | None:
        """Return the metadata of the Workload that are to change for its pods, or None.

        They say which pods there are, and remember those that may be gone.
        """
        ...

    def waiting(self, workload: Workload) -> tuple[Text, bool] | None:
        """Return the condition about missing pods for the Workload, and whether any are missing.

        None where it says so already, or has nothing to say.
        """
        ...

    def is_short(self, workload: Workload) -> bool:
        """Return whether it lacks pods before its first one was started."""
        ...

    def begins_anew(self) -> bool:
        """Return whether its Workload, where it has ended, gives way to one for pods that wait."""
        ...

    def may_start(self, workload: Workload) -> bool:
        """Return whether a pod waits for which the admitted Workload has room."""
        ...

    def to_start(self, workload: Workload) -> views.Pod:
        """Return the first of them; `Owner.start` is its patch."""
        ...

    def pod_set_to_start(self, workload: Workload) -> str:
        """Return the name of the pod set to which the first of them belongs."""
        ...

    def to_stop(self) -> Iterable[views.Pod]:
        """Return the pods that were started, and neither ended nor are being deleted."""
        ...


class Suspends(Protocol):
    """An owner whose pods another controller makes, which may be late to see it suspended."""

    def is_stopped(self) -> bool:
        """Return whether that controller has seen that the suspended owner was stopped."""
        ...

    def as_starting(self) -> Owner:
        """Return it as one whose controller may still make pods, though it is suspended."""
        ...

    def with_earlier_pods(self) -> Owner:
        """Return it as one that has gated pods which were made before it was admitted.

        They never run: they lack what the admission gives. Its controller deletes them while it is
        suspended.
        """
        ...

    def let_go(self) -> Workload | None:
        """Return the requests of an admitted owner that runs, or None if it does not run.

        It is a Workload that is nowhere stored, with the labels of the pod templates in its pod
        sets.
        """
        ...


class Delegates(Protocol):
    """An owner whose pod templates stand in an object that its controller makes of it.

    It has no pod sets while that object was not seen. It is held until then.
    """

    def marks_secondaries(self) -> bool:
        """Return whether that object gets the label by which it is seen."""
        ...

    def lacks_secondary(self) -> Text:
        """Return why there is no Workload for it though it waits."""
        ...


class Prepares(Protocol):
    """An owner that starts with two writes, as what its pods get may change only while it is held.

    The first gives its pods what its admission gives them; `Owner.start` is the second.
    """

    def is_restored_first(self) -> bool:
        """Return whether it is unknown what its pods ask for until it is restored."""
        ...

    def preparation(self, workload: Workload, injections: Mapping[str, Injection]) -> Patch | None:
        """Return the patch that gives its pods what its admission gives, or None if they get it.

        Args:
            workload: its Workload.
            injections: what the pods of each pod set get, by its name.

        Raises:
            InjectionConflictError: it contradicts what is given.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Secondary(Generic[View, Document]):
    """Objects that the controller of an owner makes of it, and that tell of its pods.

    The owner is their controller by reference. The controller of this program lists and watches
    them, keeps what `read` returns, and reads the owner again when one of them changes. It does
    not ask who made them: that is for a review of their kind, or for `joined`, which may believe
    only those that the owner's status names.

    Attributes:
        resource: where they are.
        selector: label selector of those that are made of owners of the kind.
        document: type that they are decoded into.
        read: returns what is kept of an object, from the object and what is kept of it so far;
            with `is_replaced` also of the object before it. None for the first. Raises
            ``msgspec.ValidationError`` where the object is not one of its kind.
        joined: returns an owner with what is kept of its objects, which are in the order of their
            names.
        is_replaced: an owner has one such object at a time, and the last one counts until its
            controller makes another, also when it is gone.
    """

    resource: Resource
    selector: str
    document: type[views.Object]
    read: Callable[[Any, Any], views.Object]
    joined: Callable[[View | Document, tuple[Any, ...]], Document]
    is_replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration(Generic[View, Document]):
    """One kind of owner: how it is read, and what its Workload is made from.

    Attributes:
        kind: the kind.
        document: type of an object as watched; whole, so that a Workload can be made from it.
        answer: type of an object as the answer to a write; may be less than whole.
        view: returns the parts of a document or answer that decisions depend on. Raises
            ``msgspec.ValidationError`` where the object is not one of its kind.
        owner: returns an object as an owner.
        build: returns the document of its Workload from the object, the same whole, the priority
            classes and the keys of the labels that the Workload takes over. Of an owner that
            `Resizes` it has the annotation ``names.TEMPLATE_DIGEST``. Raises
            ``MissingPriorityClassError``.
        adopt: returns the changes with which a Workload becomes that of an owner that names it,
            from the owner, the same whole, and the Workload whole. None if the Workload asks for
            something else.
        secondary: objects that its controller makes of it and that tell of its pods; None where
            the owner says all by itself.
    """

    kind: Kind
    document: type[Document]
    answer: type[views.Object]
    view: Callable[[Any], View]
    owner: Callable[[View], Owner]
    build: Callable[[View, Document, PriorityClasses, Iterable[str]], dict[str, Any]]
    adopt: Callable[[View, Document, Mapping[str, Any]], dict[str, Any] | None]
    secondary: Secondary[View, Document] | None = None
