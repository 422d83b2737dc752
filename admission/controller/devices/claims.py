"""The ResourceClaims, templates and DeviceClasses that are watched, and who asks for them.

What a Workload already holds is recorded in its status, and stays, whatever becomes of these.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from admission.base import clock as clocks
from admission.base.names import POD_CLAIM_NAME, WorkloadKey
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Informer
from admission.gpu import claims
from admission.gpu.claims import GpuDeviceClass
from admission.gpu.resources import ManagedResources
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import resource_claim, views
from admission.objects.resource_claim import Devices, Generated, ObjectKey, Sought
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner

WATCHED: Final[Mapping[Resource, type[views.Object]]] = {
    resources.DEVICE_CLASSES: resource_claim.DeviceClass,
    resources.RESOURCE_CLAIMS: resource_claim.ResourceClaim,
    resources.RESOURCE_CLAIM_TEMPLATES: resource_claim.ResourceClaimTemplate,
}
"""What is watched where it is served, and as what."""

_MOST_KEPT: Final = 1024
"""Different specs that are kept for the sake of equal ones; those of one template are alike."""

Specs = dict[ObjectKey, resource_claim.ClaimSpec]


class Allocations(Protocol):
    """A component that follows what is allocated to claims."""

    def on_claim_update(self, claim: resource_claim.ResourceClaim) -> None:
        """Take a ResourceClaim as it is now."""
        ...

    def on_claim_delete(self, claim: views.Object) -> None:
        """Handle the deletion of a ResourceClaim."""
        ...


class DeviceInventory(Allocations, Protocol):
    """A component that knows the devices that exist."""

    def allocated_by(self, claim: resource_claim.ResourceClaim) -> dict[str, int]:
        """Return the GPUs that a ResourceClaim was given, by resource."""
        ...


class Claims:
    """Claims and classes, and which Workloads depend on each.

    Attributes:
        informers: by resource; what a watch of it must be told to.
        workload_of: returns the key of the Workload of a pod from the one that the Workload of
            the pod alone would have.
        allocations: are told of ResourceClaims, too.
    """

    workload_of: Callable[[WorkloadKey], WorkloadKey]

    def __init__(
        self, mappings: Mapping[str, str], managed: ManagedResources, inventory: DeviceInventory
    ) -> None:
        """Knows no object, and the classes that are built in or mapped.

        Args:
            mappings: resources by the name of the DeviceClass that is counted as such.
            managed: names of resources that are counted, whatever class answers them.
            inventory: knows the devices.
        """
        self.workload_of = lambda key: key
        self._inventory = inventory
        self.allocations: tuple[Allocations, ...] = (inventory,)
        self._allocated: dict[ObjectKey, dict[str, int]] = {}
        self._mappings = mappings
        self._managed = managed
        self._claims: Specs = {}
        self._templates: Specs = {}
        self._kept: dict[resource_claim.ClaimSpec, resource_claim.ClaimSpec] = {}
        self._classes: dict[str, GpuDeviceClass] = {}
        self._others: dict[str, None] = {}
        self._generated: dict[str, dict[ObjectKey, Generated]] = {}
        """Claims that were made from a template, by the uid of their pod."""
        self._known = self._gathered()
        self._names: dict[WorkloadKey, frozenset[ObjectKey]] = {}
        self._users: dict[ObjectKey, dict[WorkloadKey, None]] = {}
        self._stale: dict[WorkloadKey, None] = {}
        self._changed = False
        self._made: dict[ObjectKey, datetime] = {}
        """When each claim and template was made; of two with one name, the later time."""
        self._pods: dict[ObjectKey, str] = {}
        """The uid of the pod of each of them."""
        self.informers: Mapping[Resource, Informer[Any]] = {
            resources.DEVICE_CLASSES: Informer("DeviceClass", self._see_class, self._lose_class),
            resources.RESOURCE_CLAIMS: Informer(
                "ResourceClaim", self._see_claim, self._lose_claim, slim=True
            ),
            resources.RESOURCE_CLAIM_TEMPLATES: Informer(
                "ResourceClaimTemplate",
                self._see_template,
                lambda view: self._drop(self._templates, view),
                slim=True,
            ),
        }

    @property
    def known(self) -> Devices:
        """Return the classes, claims and templates as last seen."""
        return self._known

    def on_workload_update(self, view: Workload) -> None:
        """Record what a Workload depends on."""
        specs = [pod_set.template.spec for pod_set in view.spec.pod_sets or ()]
        key = view.key()
        if not any(map(resource_claim.concerned, specs)):
            self.on_workload_delete(key)
            return
        names = frozenset(
            (key.namespace, name) for spec in specs for name in resource_claim.names_in(spec)
        )
        if self._names.get(key) != names:
            self.on_workload_delete(key)
            self._names[key] = names
            for name in names:
                self._users.setdefault(name, {})[key] = None

    def on_workload_delete(self, key: WorkloadKey) -> None:
        """Forget a Workload."""
        for name in self._names.pop(key, ()):
            users = self._users[name]
            del users[key]
            if not users:
                del self._users[name]

    def concern(self, key: WorkloadKey) -> bool:
        """Return whether a Workload names claims or templates."""
        return bool(self._names.get(key))

    def changed_since(self, key: WorkloadKey, moment: datetime) -> bool:
        """Return whether a claim or template that a Workload names is gone, or may be another one.

        Times of objects are whole seconds: one of the same second may be.
        """
        moments = (self._made.get(name) for name in self._names.get(key, ()))
        return any(made_at is None or made_at >= moment for made_at in moments)

    def has_outgrown(self, view: Workload) -> bool:
        """Return whether a claim made for the pod of a Workload asks for more than its template.

        A user may delete such a claim and make another one in its place.
        """
        specs = (pod_set.template.spec for pod_set in view.spec.pod_sets or ())
        return any(resource_claim.outgrown(view.metadata, spec, self._known) for spec in specs)

    def sought(self, pod: views.Pod) -> Sought:
        """Return whether a pod asks for anything that is counted."""
        namespace = pod.metadata.namespace
        return resource_claim.sought(pod.spec, namespace, self._known, self._managed)

    def take_changed(self) -> bool:
        """Return whether anything is other than at the last call."""
        changed, self._changed = self._changed, False
        return changed

    def take_stale(self) -> Mapping[WorkloadKey, None]:
        """Return Workloads to be translated again for what has changed since, oldest first."""
        stale, self._stale = self._stale, {}
        return stale

    def _see_claim(self, view: resource_claim.ResourceClaim) -> None:
        for allocation in self.allocations:
            allocation.on_claim_update(view)
        self._note_made(view)
        self._put(self._claims, view, view.spec)
        self._see_allocated(view)
        self._see_generated(view)

    def _see_template(self, view: resource_claim.ResourceClaimTemplate) -> None:
        self._note_made(view)
        self._put(self._templates, view, view.spec.spec)

    def _note_made(self, view: views.Object) -> None:
        key, text = informers.key_of(view), view.metadata.creation_timestamp
        if text:
            created_at = clocks.from_wire(text)
            self._made[key] = max(created_at, self._made.get(key, created_at))

    def _see_generated(self, view: resource_claim.ResourceClaim) -> None:
        """Notes a claim that was made, or pretends to have been made, for a claim of a pod."""
        name = view.metadata.annotation(POD_CLAIM_NAME)
        for owner in view.metadata.owner_references or ():
            if name and owner.kind == "Pod":
                key = informers.key_of(view)
                self._generated.setdefault(owner.uid, {})[key] = Generated(name, view.spec)
                self._pods[key] = owner.uid
                pod = views.ObjectMeta(namespace=key[0], name=owner.name, uid=owner.uid)
                pod_key = pod_owner.KIND.key_of(views.Object(metadata=pod))
                self._stale[self.workload_of(pod_key)] = None
                self._changed = True

    def _see_allocated(self, view: resource_claim.ResourceClaim) -> None:
        key, allocated = informers.key_of(view), self._inventory.allocated_by(view)
        if allocated != self._allocated.get(key, {}):
            self._allocated[key] = allocated
            self._touch(key)

    def _lose_claim(self, view: views.Object) -> None:
        for allocation in self.allocations:
            allocation.on_claim_delete(view)
        self._drop(self._claims, view)
        key = informers.key_of(view)
        self._allocated.pop(key, None)
        uid = self._pods.pop(key, None)
        if uid is not None:
            self._generated[uid].pop(key, None)
            if not self._generated[uid]:
                del self._generated[uid]

    def _see_class(self, view: resource_claim.DeviceClass) -> None:
        name, device_class_ = view.metadata.name, resource_claim.device_class(view, self._mappings)
        if device_class_ is None and name not in self._others:
            self._others[name] = None
            self._changed = True
        self._set_class(name, device_class_)

    def _lose_class(self, view: views.Object) -> None:
        self._others.pop(view.metadata.name, None)
        self._set_class(view.metadata.name, None)

    def _set_class(self, name: str, device_class_: GpuDeviceClass | None) -> None:
        if self._classes.get(name) == device_class_:
            return
        if device_class_ is None:
            del self._classes[name]
        else:
            self._classes[name] = device_class_
        self._changed = True
        self._known = self._gathered()
        self._stale.update(dict.fromkeys(self._names))

    def _gathered(self) -> Devices:
        return Devices(
            classes=claims.known_classes(self._classes.values(), self._mappings),
            claims=self._claims,
            others=self._others,
            templates=self._templates,
            generated=self._generated,
            allocated=self._allocated,
        )

    def _put(self, into: Specs, view: views.Object, spec: resource_claim.ClaimSpec) -> None:
        key = informers.key_of(view)
        if into.get(key) != spec:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            into[key] = self._kept.setdefault(spec, spec)
            self._touch(key)

    def _drop(self, into: Specs, view: views.Object) -> None:
        key = informers.key_of(view)
        into.pop(key, None)
        if key not in self._claims and key not in self._templates:
            self._made.pop(key, None)
        self._touch(key)

    def _touch(self, key: ObjectKey) -> None:
        """A claim and a template of one name are not told apart: one more look does no harm."""
        self._stale.update(self._users.get(key, {}))
        self._changed = True
