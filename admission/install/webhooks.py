"""The webhook configurations as documents: which requests the API server sends for review.

They are the template ``webhooks``. What is CEL about the pod templates of an owner is put together
here, because it follows from where the owner's kind has them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.namespaces import NAME_LABEL, ManagedNamespaces
from admission.base.selectors import Requirement
from admission.gpu import resources
from admission.gpu.resources import ManagedResources
from admission.install import rendering
from admission.install.rendering import Document
from admission.owners import integrations
from admission.owners.review import HeldKind
from admission.webhook import owners

MUTATING_NAME: Final = "gpu-admission-mutating-webhook-configuration"
VALIDATING_NAME: Final = "gpu-admission-validating-webhook-configuration"
MOST: Final = 500
"""Members of one map or list that an expression looks at one by one. The API server's time for
that grows with their square: 20,000 labels took it 13 s."""


def documents(
    client_config: Mapping[str, Any],
    managed_resources: Iterable[str],
    namespaces: ManagedNamespaces,
    service_account: str,
) -> list[Document]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        client_config: ``url`` without a path, or ``service``; and ``caBundle``.
        managed_resources: resource names, or prefixes that end in ``*``.
        namespaces: those from which requests are sent.
        service_account: user name of the controller, whose own writes are not reviewed.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    values: dict[str, Any] = {
        "namespace_selector": _namespace_selector(namespaces),
        "controller": quote(service_account),
    }
    managed = resources.managed(managed_resources)
    owned = [_of_owner(held, managed, values) for held in integrations.HELD]
    found = rendering.documents(
        "webhooks",
        **values,
        concerns_us=concerns("object", managed),
        old_concerns_us=concerns("oldObject", managed),
        owners_mutating=[mutating for mutating, _, _ in owned],
        owners_validating=[validating for _, validating, _ in owned],
        children_mutating=[children for _, _, children in owned],
    )
    for document in found:
        for webhook in document["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = at_path(client_config, path)
    return found


def _of_owner(
    held: HeldKind, managed: ManagedResources, values: Mapping[str, Any]
) -> tuple[Document, Document, Document]:
    """The webhooks of a kind of owners: mutating, validating, and mutating of children."""
    kind = owners.named(held)
    mutating, validating, children = rendering.documents(
        "webhooks-owner",
        **values,
        name=held.kind.name.lower(),
        group=held.group,
        version=held.version,
        plural=held.plural,
        mutate_path=kind.mutate_path(),
        validate_path=kind.validate_path(),
        concerns_us=owner_concerns("object", managed, held),
        old_concerns_us=owner_concerns("oldObject", managed, held),
        is_child=_is_child("object"),
    )
    return mutating, validating, children


def concerns(pod: str, managed: ManagedResources) -> str:
    """CEL: the pod asks for a managed resource by name, or carries a key of ours."""
    (found,) = rendering.documents(
        "webhooks-concerns", pod=pod, managed=names_managed("r", managed)
    )
    expression: str = found["expression"]
    return expression


def owner_concerns(variable: str, managed: ManagedResources, held: HeldKind) -> str:
    """CEL: the owner has a queue label, or its pods would concern us."""
    labels = f"{variable}.metadata.labels"
    queued = f"(has({labels}) && {quote(names.QUEUE_LABEL)} in {labels})"
    templates = (_at(variable, path, managed) for path in held.templates)
    return f"{queued} || {' || '.join(templates)}"


def _at(variable: str, path: str, managed: ManagedResources) -> str:
    """CEL: a pod template at the path in the object would concern us."""
    outer, many, inner = path.partition("[*].")
    if not many:
        return concerns(f"{variable}.{path}", managed)
    return _any_or_many(f"{variable}.{outer}", "m", _at("m", inner, managed))


def _is_child(variable: str) -> str:
    """CEL: an owner that is held as a whole controls it."""
    controllers = f"{variable}.metadata.ownerReferences"
    is_held = " || ".join(
        f"has(o.controller) && o.controller && o.kind == '{held.kind.name}'"
        f" && o.apiVersion == '{held.kind.api_version}'"
        for held in integrations.HELD
    )
    return _any_or_many(controllers, "o", is_held)


def names_managed(variable: str, managed: ManagedResources) -> str:
    """CEL: the variable holds the name of a managed resource."""
    tests = [f"{variable}.startsWith({quote(prefix)})" for prefix in managed.prefixes]
    if managed.exact:
        listed = ", ".join(quote(name) for name in sorted(managed.exact))
        tests.insert(0, f"{variable} in [{listed}]")
    return " || ".join(tests) or "false"


def _any_or_many(collection: str, variable: str, condition: str) -> str:
    """CEL: some member meets the condition, or there are more than an expression looks at."""
    some = f"{collection}.exists({variable}, {condition})"
    return f"(has({collection}) && (size({collection}) > {MOST} || {some}))"


def quote(text: str) -> str:
    """A CEL string literal; its escapes are those of JSON."""
    return msgspec.json.encode(text).decode()


def at_path(client_config: Mapping[str, Any], path: str) -> Document:
    """The client configuration with the path, which stands in the URL or beside the service."""
    config = dict(client_config)
    if "url" in config:
        config["url"] = config["url"].rstrip("/") + path
    else:
        config["service"] = {**config["service"], "path": path}
    return config


def _namespace_selector(namespaces: ManagedNamespaces) -> Document:
    """The LabelSelector that chooses the managed namespaces."""
    by_name = Requirement(NAME_LABEL, "NotIn", namespaces.unmanaged)
    return {"matchExpressions": [one.document() for one in (by_name, *namespaces.requirements)]}
