"""Stops that the controller holds back: who waits, and letting all of them go."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from admission.base import clock as clocks
from admission.base import conditions, events, names, patches
from admission.base.clock import Clock
from admission.kube import errors, resources
from admission.kube.api import Api, Document, every


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A pod or Job that runs and is to be stopped.

    Attributes:
        kind: Pod or Job; Workload where it has no owner.
        namespace: its namespace.
        name: its name.
        why: it is to be stopped.
    """

    kind: str
    namespace: str
    name: str
    why: str


def held_back(api: Api) -> list[HeldBack]:
    """Return what is held back, in order of namespace, kind and name.

    A Workload says so of its owner in a condition. An owner without Workload has an event, which
    the API server forgets after an hour; one that is gone, or being deleted, is left out.

    Raises:
        KubeError: the API server refused.
    """
    held_back_stops: dict[tuple[str, str, str], HeldBack] = {}
    with_workload: set[str] = set()
    for workload in every(api, resources.WORKLOADS):
        owner = _controller(workload["metadata"])
        with_workload.add(owner.get("uid", ""))
        if why := _why(workload):
            stop = HeldBack(
                kind=owner.get("kind", resources.WORKLOADS.kind),
                namespace=workload["metadata"]["namespace"],
                name=owner.get("name", workload["metadata"]["name"]),
                why=why,
            )
            held_back_stops[stop.namespace, stop.kind, stop.name] = stop
    for stop in _owners(api, with_workload):
        held_back_stops[stop.namespace, stop.kind, stop.name] = stop
    return [held_back_stops[key] for key in sorted(held_back_stops)]


def allow(api: Api, namespace: str, seconds: float, clock: Clock) -> str:
    """Let everything go that is held back until so many seconds from now; return until when.

    Args:
        api: the cluster.
        namespace: of the installation.
        seconds: for how many seconds.
        clock: source of time.

    Raises:
        KubeError: the API server refused; who may is who may change that namespace.
    """
    until = clocks.to_wire(clock.now() + timedelta(seconds=seconds))
    change = {"metadata": {"annotations": {names.STOPS_ALLOWED_UNTIL: until}}}
    api.patch(resources.NAMESPACES, namespace, patches.merge(change))
    return until


def _why(workload: Document) -> str:
    """Return why the owner of a Workload is to be stopped; empty where nothing is held back."""
    for condition in (workload.get("status") or {}).get("conditions") or ():
        if condition["type"] == conditions.STOP_HELD_BACK and condition["status"] == "True":
            return str(condition["message"])
    return ""


def _controller(metadata: dict[str, Any]) -> dict[str, Any]:
    owner_references = metadata.get("ownerReferences") or ()
    return next((reference for reference in owner_references if reference.get("controller")), {})


def _owners(api: Api, with_workload: Container[str]) -> Iterator[HeldBack]:
    event_documents = every(
        api, resources.EVENTS, field_selector=f"reason={events.STOP_HELD_BACK}"
    )
    for event in event_documents:
        regarding = event.get("regarding") or {}
        resource = resources.of_kind(regarding.get("apiVersion", ""), regarding.get("kind", ""))
        if resource is None or regarding.get("uid") in with_workload:
            continue
        try:
            owner = api.get(resource, regarding["name"], regarding["namespace"])
        except errors.NotFoundError:
            continue
        metadata = owner["metadata"]
        is_other = metadata["uid"] != regarding.get("uid")
        has_ended = (owner.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        if not (is_other or has_ended or "deletionTimestamp" in metadata or _is_suspended(owner)):
            yield HeldBack(
                kind=regarding["kind"],
                namespace=metadata["namespace"],
                name=metadata["name"],
                why=event.get("note", ""),
            )


def _is_suspended(owner: Document) -> bool:
    return bool((owner.get("spec") or {}).get("suspend"))
