"""Prebuilt Workloads: an owner names one instead of getting one made.

The name is an annotation or, where that is absent, a label. Such a Workload is adopted: it gets
its owner for a controller, and from then on what it stands for is no longer read from it.
Source: kueue pkg/controller/jobframework/reconciler.go (ensureOneWorkload,
EnsurePrebuiltWorkloadOwnership, EquivalentToWorkload) and pkg/util/equality/podset.go.
"""

from collections.abc import Mapping
from typing import Any, Final

from admission.base import names, quantity
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.objects import views
from admission.objects.workload import Workload
from admission.reasons import added_conditions, kueue

_CONTAINERS: Final = ("containers", "initContainers")
_AMOUNTS: Final = frozenset({"requests", "limits"})


class PrebuiltNames:
    """The prebuilt Workload of each owner, by the key that a Workload of ours would have."""

    def __init__(self) -> None:
        self._owners: dict[WorkloadKey, set[WorkloadKey]] = {}

    def add(self, named: WorkloadKey | None, owner_key: WorkloadKey) -> None:
        """Record that an owner names a Workload, or none."""
        if named is not None:
            self._owners.setdefault(named, set()).add(owner_key)

    def remove(self, named: WorkloadKey | None, owner_key: WorkloadKey) -> None:
        """Record that an owner is gone, or may name another Workload."""
        if named is not None and named in self._owners:
            self._owners[named].discard(owner_key)
            if not self._owners[named]:
                del self._owners[named]

    def __contains__(self, named: object) -> bool:
        """Return whether an owner names a Workload."""
        return named in self._owners

    def owners(self, named: WorkloadKey) -> tuple[WorkloadKey, ...]:
        """Return all owners that name a Workload, sorted."""
        owner_keys = self._owners.get(named)
        return () if owner_keys is None else tuple(sorted(owner_keys))


def key_of(owner: views.Object) -> WorkloadKey | None:
    """Return the identity of the Workload that an owner names; or None if it names none."""
    metadata, key = owner.metadata, names.PREBUILT_WORKLOAD
    name = metadata.annotation(key) or metadata.label(key)
    return WorkloadKey(metadata.namespace, name) if name else None


def is_marked(workload: Workload) -> bool:
    """Return whether it bears the mark of the owner that controls it."""
    controller = workload.metadata.controller()
    return controller is not None and (
        workload.metadata.label(names.JOB_UID_LABEL) == controller.uid
    )


def is_adopted(workload: Workload, owner: views.Object) -> bool:
    """Return whether it is the one that the owner names and has adopted."""
    is_its = workload.metadata.label(names.JOB_UID_LABEL) == owner.metadata.uid
    return is_its and is_marked(workload) and _key(workload) == key_of(owner)


def _key(workload: Workload) -> WorkloadKey:
    return WorkloadKey(workload.metadata.namespace, workload.metadata.name)


def may_adopt(workload: Workload, owner: views.Object) -> bool:
    """Return whether an owner may take a Workload: nobody else uses it, nobody deletes it."""
    return _used(workload, owner) is None and not workload.metadata.deletion_timestamp


def _used(workload: Workload, owner: views.Object) -> Text | None:
    """Return that an object besides an owner uses a Workload, or None.

    The Workload of a group of pods has no controller, and may have no owner for a while. An owner
    that is not the controller is who made it.
    """
    metadata, key = workload.metadata, _key(workload).text()
    controller = metadata.controller()
    if controller is not None and controller.uid != owner.metadata.uid:
        return added_conditions.prebuilt_is_controlled(key, controller.kind, controller.name)
    return added_conditions.prebuilt_is_of_pods(key) if workload.is_of_group() else None


def missing(
    key: WorkloadKey, workload: Workload | None, owner: views.Object, pod: str = ""
) -> Text:
    """Return why an owner has no Workload though it names one.

    Args:
        key: identity of the named one.
        workload: what is there under that name.
        owner: the owner.
        pod: name of a pod that runs with the named one; empty for none.
    """
    if workload is None:
        return kueue.prebuilt_not_found(key.text())
    used = _used(workload, owner)
    if used is not None:
        return used
    if pod:
        return added_conditions.prebuilt_is_of_pods(key.text(), pod)
    return added_conditions.prebuilt_is_deleted(key.text())


def adoption(
    document: Mapping[str, Any],
    owner: Mapping[str, Any],
    metadata_: views.ObjectMeta,
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    """Return the changes with which a Workload gets its owner.

    From then on it is of the user who created the owner, and counts for his caps.

    Args:
        document: the Workload.
        owner: reference to the owner, as its controller.
        metadata_: metadata of the owner.
        annotations: what is recorded with it.
    """
    metadata, requester = document["metadata"], metadata_.annotation(names.REQUESTER)
    if requester:
        annotations = {**annotations, names.REQUESTER: requester}
    references = metadata.get("ownerReferences") or ()
    changes: dict[str, Any] = {
        "labels": {names.JOB_UID_LABEL: owner["uid"]},
        "ownerReferences": [
            *(reference for reference in references if reference["uid"] != owner["uid"]),
            owner,
        ],
    }
    if annotations:
        changes["annotations"] = dict(annotations)
    return {"metadata": changes}


def asks_alike(document_: Mapping[str, Any], spec: Mapping[str, Any], *, started: bool) -> bool:
    """Return whether two pod specs have the same containers and tolerations.

    Args:
        document_: of the Workload.
        spec: of its owner.
        started: the owner may have got tolerations since; they are passed over.
    """
    fields = _CONTAINERS if started else (*_CONTAINERS, "tolerations")
    return all(_plain(document_.get(field)) == _plain(spec.get(field)) for field in fields)


def _plain(value: Any) -> Any:
    """Return a document without what is empty, and with amounts as numbers."""
    if isinstance(value, list):
        return [_plain(member) for member in value] or None
    if not isinstance(value, dict):
        return None if value == "" else value  # 0 and False are something
    members = {
        key: _amounts(member) if key in _AMOUNTS and isinstance(member, dict) else _plain(member)
        for key, member in value.items()
    }
    return {key: member for key, member in members.items() if member is not None} or None


def _amounts(amounts: Mapping[str, Any]) -> dict[str, int] | None:
    return {key: quantity.parse_nano(str(amount)) for key, amount in amounts.items()} or None
