"""How the store treats the objects of each resource: subresources, generation, defaults, rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.base.namespaces import NAME_LABEL
from admission.kube import resources
from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.objects import structural
from admission.sandbox.embedded import pods
from admission.sandbox.embedded.refusals import RefusalCause


def _no_defaults(_document: Document) -> None:
    """Leaves a document as it is."""


def _no_rules(_document: Document, _old: Document | None) -> tuple[RefusalCause, ...]:
    """Finds nothing wrong."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTreatment:
    """The treatment of one resource.

    Attributes:
        resource: whose objects these are.
        custom: served from a CustomResourceDefinition.
        status: has a status subresource, so that other writes leave the status alone.
        generation: has metadata.generation.
        unconditional: a replace without resourceVersion overwrites.
        fields: what field selectors may ask for, besides name and namespace.
        initial: called on creation before anything else; wipes what a client may not set.
        defaults: sets defaults in place, on every write, also after each mutating review.
        rules: broken rules of a new document, given the old one (None on creation).
    """

    resource: Resource
    custom: bool = False
    status: bool = False
    generation: bool = False
    unconditional: bool = True
    fields: tuple[str, ...] = ()
    initial: Callable[[Document], None] = _no_defaults
    defaults: Callable[[Document], None] = _no_defaults
    rules: Callable[[Document, Document | None], tuple[RefusalCause, ...]] = _no_rules


def _active(document: Document) -> None:
    """What the API server gives a new namespace."""
    metadata = document["metadata"]
    labels = metadata.setdefault("labels", {})
    labels.setdefault(NAME_LABEL, metadata.get("name", ""))
    document["spec"] = {"finalizers": ["kubernetes"]}
    document["status"] = {"phase": "Active"}


def _without_status(document: Document) -> None:
    document.pop("status", None)


_BUILT_IN: Final = {
    resources.PODS: ResourceTreatment(
        resource=resources.PODS,
        status=True,
        generation=True,
        fields=pods.SELECTABLE_FIELDS,
        initial=pods.initial,
        defaults=pods.defaults,
        rules=pods.rules,
    ),
    resources.NAMESPACES: ResourceTreatment(
        resource=resources.NAMESPACES, status=True, initial=_active
    ),
    resources.NODES: ResourceTreatment(
        resource=resources.NODES, status=True, fields=("spec.unschedulable",)
    ),
    resources.EVENTS: ResourceTreatment(
        resource=resources.EVENTS, fields=("reason", "regarding.name", "regarding.uid")
    ),
}  # fmt: skip
_WITH_STATUS: Final = frozenset({
    resources.DEPLOYMENTS, resources.REPLICA_SETS, resources.JOBS, resources.CRDS,
})  # fmt: skip
_WITH_GENERATION: Final = frozenset({resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS})


def built_in() -> dict[Resource, ResourceTreatment]:
    """Return what every API server serves."""
    return {resource: _built_in(resource) for resource in resources.BUILT_IN}


def _built_in(resource: Resource) -> ResourceTreatment:
    built_in = _BUILT_IN.get(resource)
    if built_in is not None:
        return built_in
    status = resource in _WITH_STATUS
    initial = _without_status if status else _no_defaults
    generation = status or resource in _WITH_GENERATION
    return ResourceTreatment(
        resource=resource, status=status, generation=generation, initial=initial
    )


def custom(documents: Iterable[Mapping[str, Any]]) -> dict[Resource, ResourceTreatment]:
    """Return what CustomResourceDefinitions add: the storage version of each."""
    kinds = (_custom(document["spec"]) for document in documents)
    return {kind.resource: kind for kind in kinds}


def _custom(spec: Mapping[str, Any]) -> ResourceTreatment:
    version = next(version for version in spec["versions"] if version["storage"])
    names = spec["names"]
    resource = Resource(
        spec["group"], version["name"], names["plural"], names["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )  # fmt: skip
    schema = version["schema"]["openAPIV3Schema"]
    status = "status" in version.get("subresources", {})

    def defaults(document: Document) -> None:
        structural.prune(schema, document)
        structural.defaults(schema, document)

    def rules(document: Document, _old: Document | None) -> tuple[RefusalCause, ...]:
        # The server validates the fields that it knows of metadata by itself.
        shown = {key: value for key, value in document.items() if key != "metadata"}
        errors = structural.errors(schema, {**shown, "metadata": {}})
        return tuple(RefusalCause(*line.split(": ", 1)) for line in errors)

    return ResourceTreatment(
        resource=resource,
        custom=True,
        status=status,
        generation=True,
        unconditional=False,
        initial=_without_status if status else _no_defaults,
        defaults=defaults,
        rules=rules,
    )
