"""Open the glass: what holds or refuses new pods is taken away, kept, and put back later.

It needs nothing but the API server. See docs/adr/0214-what-is-let-run-outside-of-quota.md.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from admission.admin import bypass_policies, holding, manifests, passing
from admission.admin.passing import Passing
from admission.admin.rendering import Document
from admission.base import clock as clocks
from admission.base import patches
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.config.derived import Settings
from admission.kube import apply, errors, resources
from admission.kube.api import Api, every, every_served
from admission.kube.apply import Applied, Effect
from admission.objects import broken_glass, views
from admission.objects.broken_glass import BrokenTime
from admission.owners import integrations

NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that have not ended."""

_KEPT: Final = "kept.json"
_SINCE: Final = "since"
_WRITTEN_BY_SERVER: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
)
_HOLDING_POLICIES: Final = frozenset(
    {
        bypass_policies.ENFORCE_POLICY,
        bypass_policies.CLAIMS_POLICY,
        holding.PODS_POLICY,
        holding.JOBS_POLICY,
    }
)
"""Their bindings refuse pods without a gate, and hold pods and Jobs that nobody reviewed."""


class BreakGlassError(AdmissionError):
    """The glass is not in a state in which this can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Whether new pods pass without quota, and what has passed and has not ended.

    Attributes:
        since: when the glass was broken, as RFC 3339; empty where it is whole.
        let_run: what an administrator let run, sorted.
        created_meanwhile: pods with GPUs that were created without admission while the glass was
            broken, now or before, and have not ended, sorted.
        broken_before: when it was broken before, the oldest first; None where that cannot be
            read.
        reads_all_kinds: whether all kinds of owners could be read.
        taken_away: what is kept until the glass is closed.
    """

    since: str = ""
    let_run: tuple[Passing, ...] = ()
    created_meanwhile: tuple[Passing, ...] = ()
    broken_before: tuple[BrokenTime, ...] | None = ()
    reads_all_kinds: bool = True
    taken_away: tuple[Document, ...] = ()


def open_gates(api: Api, settings: Settings, clock: Clock) -> Iterator[Applied]:
    """Take away what holds or refuses new pods, and keep it; what is done is not done again.

    These are the webhook configurations, the policies that refuse pods without a gate, and those
    that hold what nobody reviews.

    Args:
        api: the cluster.
        settings: of the installation.
        clock: says since when.

    Raises:
        KubeError: the API server refused.
    """
    present = list(gates(api, settings))
    record = _record(api, settings.namespace)
    since = clocks.to_wire(clock.now()) if record is None else record["data"][_SINCE]
    earlier = [] if record is None else json.loads(record["data"][_KEPT])
    kept_gates = {_identity(gate): _as_made(gate) for gate in (*earlier, *present)}
    kept = [kept_gates[place] for place in sorted(kept_gates)]
    namespace = settings.namespace
    config_map = {**identity(namespace), "data": {_SINCE: since, _KEPT: json.dumps(kept)}}
    with suppress(errors.AlreadyExistsError):
        apply.settled(partial(api.create, resources.CONFIG_MAPS, config_map, namespace))
    patch = patches.merge(config_map)
    apply.settled(partial(api.patch, resources.CONFIG_MAPS, broken_glass.RECORD, patch, namespace))
    yield from apply.delete_all(api, present)


def identity(namespace: str) -> Document:
    """Return which object keeps what was taken away."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": broken_glass.RECORD, "namespace": namespace},
    }


def close_gates(api: Api, settings: Settings) -> Iterator[Applied]:
    """Put back what `open_gates` took away; what is there meanwhile stays as it is.

    When the glass was broken is kept: pods of that time go on outside of quota.

    Raises:
        BreakGlassError: nothing is kept: the glass is whole.
        KubeError: the API server refused.
    """
    record = _record(api, settings.namespace)
    if record is None:
        raise BreakGlassError("the glass is not broken: nothing was taken away")
    whole_since = opened = _created(record)
    for document in json.loads(record["data"][_KEPT]):
        resource, name, namespace = apply.locate(document)
        effect = Effect.CREATED
        try:
            gate = apply.settled(partial(api.create, resource, document, namespace))
        except errors.AlreadyExistsError:
            effect = Effect.UNCHANGED
            gate = api.get(resource, name, namespace)
        whole_since = max(whole_since, _created(gate))
        yield Applied(kind=resource.kind, namespace=namespace, name=name, effect=effect)
    for gate in gates(api, settings):  # also those that were put back otherwise
        whole_since = max(whole_since, _created(gate))
    _keep_time(api, settings.namespace, BrokenTime(begin=opened, end=whole_since))
    apply.delete(api, identity(settings.namespace))


def _created(document: Document) -> datetime:
    """Return when an object was created, by the API server's own clock: pods bear its time."""
    return clocks.from_wire(document["metadata"]["creationTimestamp"])


def _keep_time(api: Api, namespace: str, time: BrokenTime) -> None:
    """Add a time to those that are kept; one that began at the same moment is replaced."""
    before = _broken_before(api, namespace)
    times = [*(each for each in before or () if each.begin != time.begin), time]
    config_map = broken_glass.times_document(namespace, times)
    with suppress(errors.AlreadyExistsError):
        apply.settled(partial(api.create, resources.CONFIG_MAPS, config_map, namespace))
    patch = patches.merge(config_map)
    apply.settled(partial(api.patch, resources.CONFIG_MAPS, broken_glass.TIMES, patch, namespace))


def _broken_before(api: Api, namespace: str) -> tuple[BrokenTime, ...] | None:
    """Return when the glass was broken before; None where what is kept cannot be read."""
    try:
        return broken_glass.times(api.get(resources.CONFIG_MAPS, broken_glass.TIMES, namespace))
    except errors.NotFoundError:
        return ()
    except ValueError:  # it must not keep the glass broken, nor anybody from seeing the rest
        return None


def is_broken(api: Api, namespace: str) -> bool:
    """Return whether something is taken away that `close_gates` would put back."""
    return _record(api, namespace) is not None


def status(api: Api, settings: Settings, listed_pods: Iterable[views.Pod]) -> Status:
    """Return whether the glass is broken, and what runs, or will run, without quota.

    Args:
        api: the cluster.
        settings: the namespace of the installation, and the kinds that are held.
        listed_pods: all pods that have not ended; see `list_pods`.

    Raises:
        KubeError: the API server refused.
    """
    record = _record(api, settings.namespace)
    listed_pods = tuple(listed_pods)
    let_run = list(passing.let_run_pods(listed_pods))
    reads_all_kinds = True
    try:
        let_run += passing.let_run_owners(api, integrations.kinds_of(settings))
    except errors.ApiError:  # the rest is worth telling
        reads_all_kinds = False
    before = _broken_before(api, settings.namespace)
    times = [*(before or ()), *([] if record is None else [BrokenTime(begin=_created(record))])]
    created = passing.created_within(listed_pods, times, settings.managed_namespaces)
    return Status(
        since="" if record is None else record["data"][_SINCE],
        let_run=_sorted(let_run),
        created_meanwhile=_sorted(created),
        broken_before=before,
        reads_all_kinds=reads_all_kinds,
        taken_away=() if record is None else tuple(json.loads(record["data"][_KEPT])),
    )


def list_pods(api: Api) -> Iterator[views.Pod]:
    """Yield the pods that have not ended.

    Raises:
        KubeError: the API server refused.
    """
    return every(api, resources.PODS, field_selector=NOT_ENDED, into=views.Pod)


def _sorted(passed: Iterable[Passing]) -> tuple[Passing, ...]:
    return tuple(sorted(passed, key=lambda each: each.label))


def gates(api: Api, settings: Settings) -> Iterator[Document]:
    """Yield what `open_gates` would take away.

    Raises:
        KubeError: the API server refused.
    """
    place = manifests.service_reference(settings)
    for document in manifests.webhook_configurations(place, settings):
        resource, name, _ = apply.locate(document)
        try:
            yield {**_identified(document), **api.get(resource, name)}
        except errors.NotFoundError:
            continue
    versions = resources.versions(resources.MUTATING_POLICY_BINDINGS)
    for resource in (resources.VALIDATING_POLICY_BINDINGS, *versions):
        served = list(every_served(api, resource))
        for binding in served:
            if binding["spec"].get("policyName") in _HOLDING_POLICIES:
                identity = {"apiVersion": resource.api_version, "kind": resource.kind}
                yield {**identity, **binding}
        if served and resource in versions:
            return  # the same objects in another version


def _record(api: Api, namespace: str) -> Document | None:
    try:
        return api.get(resources.CONFIG_MAPS, broken_glass.RECORD, namespace)
    except errors.NotFoundError:
        return None


def _identity(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _identified(document: Document) -> Document:
    return {"apiVersion": document["apiVersion"], "kind": document["kind"]}


def _as_made(document: Document) -> dict[str, Any]:
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in _WRITTEN_BY_SERVER
    }
    return {key: value for key, value in document.items() if key != "status"} | {
        "metadata": metadata
    }
