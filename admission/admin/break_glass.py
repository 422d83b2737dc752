"""Open the glass: what holds or refuses new pods is taken away, kept, and put back later.

It needs nothing but the API server. See docs/adr/0214-what-is-let-run-outside-of-quota.md.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from admission.admin import bypass_policies, holding, manifests, outside_quota
from admission.admin.rendering import Document
from admission.base import clock as clocks
from admission.base import names, patches
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.config.derived import Settings
from admission.kube import apply, errors, resources
from admission.kube.api import Api, every_served
from admission.kube.apply import Applied, Effect
from admission.owners import integrations

RECORD: Final = "gpu-admission-break-glass"
"""The ConfigMap that keeps what was taken away."""

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
    """Whether new pods pass without quota.

    Attributes:
        since: when the glass was broken, as RFC 3339; empty where it is whole.
        outside: what was let run outside of quota and has not ended, sorted: pods as
            namespace/name, owners as namespace/kind/name.
        is_whole: whether all kinds of owners could be read.
        taken_away: what is kept until the glass is closed.
    """

    since: str = ""
    outside: tuple[str, ...] = ()
    is_whole: bool = True
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
    present = list(_present(api, settings))
    record = _record(api, settings.namespace)
    since = clocks.to_wire(clock.now()) if record is None else record["data"][_SINCE]
    earlier = [] if record is None else json.loads(record["data"][_KEPT])
    gates = {_identity(gate): _as_made(gate) for gate in (*earlier, *present)}
    kept = [gates[place] for place in sorted(gates)]
    namespace = settings.namespace
    config_map = {**identity(namespace), "data": {_SINCE: since, _KEPT: json.dumps(kept)}}
    with suppress(errors.AlreadyExistsError):
        apply.settled(partial(api.create, resources.CONFIG_MAPS, config_map, namespace))
    patch = patches.merge(config_map)
    apply.settled(partial(api.patch, resources.CONFIG_MAPS, RECORD, patch, namespace))
    yield from apply.delete_all(api, present)


def identity(namespace: str) -> Document:
    """Return which object keeps what was taken away."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": namespace},
    }


def close_gates(api: Api, settings: Settings) -> Iterator[Applied]:
    """Put back what `open_gates` took away; what is there meanwhile stays as it is.

    Raises:
        BreakGlassError: nothing is kept: the glass is whole.
        KubeError: the API server refused.
    """
    record = _record(api, settings.namespace)
    if record is None:
        raise BreakGlassError("the glass is not broken: nothing was taken away")
    for document in json.loads(record["data"][_KEPT]):
        resource, name, namespace = apply.locate(document)
        effect = Effect.CREATED
        try:
            apply.settled(partial(api.create, resource, document, namespace))
        except errors.AlreadyExistsError:
            effect = Effect.UNCHANGED
        yield Applied(kind=resource.kind, namespace=namespace, name=name, effect=effect)
    apply.delete(api, identity(settings.namespace))


def is_broken(api: Api, namespace: str) -> bool:
    """Return whether something is taken away that `close_gates` would put back."""
    return _record(api, namespace) is not None


def status(api: Api, settings: Settings) -> Status:
    """Return whether the glass is broken, and what runs outside of quota.

    Args:
        api: the cluster.
        settings: the namespace of the installation, and the kinds that are held.

    Raises:
        KubeError: the API server refused.
    """
    record = _record(api, settings.namespace)
    outside = [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in every_served(api, resources.PODS)
        if names.OUTSIDE_QUOTA in (pod["metadata"].get("annotations") or {})
        and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]
    is_whole = True
    try:
        for kind, metadata in outside_quota.let_run(api, integrations.kinds_of(settings)):
            outside.append(f"{metadata.namespace}/{kind.lower()}/{metadata.name}")
    except errors.ApiError:  # the rest is worth telling
        is_whole = False
    return Status(
        since="" if record is None else record["data"][_SINCE],
        outside=tuple(sorted(outside)),
        is_whole=is_whole,
        taken_away=() if record is None else tuple(json.loads(record["data"][_KEPT])),
    )


def _present(api: Api, settings: Settings) -> Iterator[Document]:
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
        return api.get(resources.CONFIG_MAPS, RECORD, namespace)
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
