"""The webhook configurations as documents: which requests the API server sends for review.

They are the template ``webhooks``. What is CEL about the pod templates of an owner is put together
here, because it follows from where the owner's kind has them.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from admission.admin import rendering
from admission.admin.rendering import Document
from admission.base import names
from admission.base.namespaces import NAME_LABEL, ManagedNamespaces
from admission.base.selectors import Requirement
from admission.gpu import resources
from admission.gpu.resources import ManagedResources
from admission.owners import batch_job_review, integrations
from admission.owners.framework import Kind
from admission.owners.integrations import Kinds
from admission.owners.review import HeldKind
from admission.owners.serving import ServingKind
from admission.webhook import reviewing
from admission.webhook.kinds import KEYS_PATH

UNGATED: Final = "vungated.kb.io"
"""Refuses what has no gate and is not reviewed, where the API server holds the rest."""
_FAIL: Final = "Fail"
_IGNORE: Final = "Ignore"
MOST: Final = 500
"""Members of one map or list that an expression looks at one by one. The API server's time for
that grows with their square: 20,000 labels took it 13 s."""


def documents(
    client_config: Mapping[str, Any],
    managed_resources: Iterable[str],
    namespaces: ManagedNamespaces,
    service_account: str,
    kinds: Kinds = integrations.DEFAULT,
    *,
    holds: bool = False,
) -> list[Document]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        client_config: ``url`` without a path, or ``service``; and ``caBundle``.
        managed_resources: resource names, or prefixes that end in ``*``.
        namespaces: those from which requests are sent.
        service_account: user name of the controller, whose own writes are not reviewed.
        kinds: of owners that are served.
        holds: whether the API server holds pods and Jobs while the webhook does not answer.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    values: dict[str, Any] = {
        "namespace_selector": _namespace_selector(namespaces),
        "controller": quote(service_account),
        "field_manager": quote(names.FIELD_MANAGER),
    }
    managed = resources.managed(managed_resources)
    parents = [kind for kind in kinds.held if kind.holds_children]
    ungated = rendering.documents("webhooks-ungated", **values, **quota_needs(managed, kinds))
    serving = [_of_serving(kind, managed, values) for kind in kinds.serving]
    owned = [
        _of_owner(kind, managed, {**values, "failure": _failure(kind, holds=holds)}, parents)
        for kind in kinds.held
    ]
    documents_ = rendering.documents(
        "webhooks",
        **values,
        pod_failure=_IGNORE if holds else _FAIL,
        ungated=ungated if holds else [],
        concerns_us=concerns("object", managed),
        new_concerns_us=new_concerns("object", managed),
        old_concerns_us=concerns("oldObject", managed),
        asks_by_class=asks_by_class(managed),
        keys_path=KEYS_PATH,
        keys_rules=[
            *(_keys_rule(kind.kind) for kind in kinds.held if kind.templates),
            *(_keys_rule(kind.kind) for kind in kinds.serving if kind.templates),
        ],
        owners_mutating=[
            *(mutating for mutating, *_ in owned),
            *(mutating for mutating, _ in serving),
        ],
        owners_validating=[
            document
            for (_, validating, protecting, _, _), kind in zip(owned, kinds.held, strict=True)
            for document in (validating, *((protecting,) if kind.changes else ()))
        ]
        + [validating for _, validating in serving],
        children_mutating=[
            children
            for (*_, children, _), kind in zip(owned, kinds.held, strict=True)
            if kind.holds_children
        ],
        waiting_mutating=[
            waiting
            for (*_, waiting), kind in zip(owned, kinds.held, strict=True)
            if kind.tells_start
        ],
    )
    for document in documents_:
        for webhook in document["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = at_path(client_config, path)
    return documents_


def _keys_rule(kind: Kind) -> Document:
    """The rule that sends new owners of a kind."""
    return {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE"],
        "resources": [kind.plural],
        "scope": "Namespaced",
    }


def quota_needs(managed: ManagedResources, kinds: Kinds) -> dict[str, str]:
    """Return CEL about new pods: whether they need quota, and whether their owner has it."""
    asks, *_ = _concerns("object", managed)
    makers = ", ".join(map(quote, kinds.makers))
    needs, of_admitted = rendering.documents("needs-quota", asks=asks, pod_makers=makers)
    return {"needs_quota": needs["expression"], "of_admitted_owner": of_admitted["expression"]}


def _failure(kind: HeldKind, *, holds: bool) -> str:
    """What becomes of an owner while nobody reviews it; only Jobs are suspended without us."""
    return _IGNORE if holds and kind is batch_job_review.HELD else _FAIL


def _of_owner(
    held_kind: HeldKind,
    managed: ManagedResources,
    values: Mapping[str, Any],
    parents: Iterable[HeldKind],
) -> tuple[Document, Document, Document, Document, Document]:
    """The webhooks of a kind: mutating, validating, protecting, of children and of what waits."""
    kind = reviewing.owner_kind(held_kind)
    mutating, validating, protecting, children, waiting = rendering.documents(
        "webhooks-owner",
        **values,
        name=held_kind.kind.name.lower(),
        group=held_kind.kind.group,
        version=held_kind.kind.version,
        plural=held_kind.kind.plural,
        mutate_path=kind.mutate_path(),
        validate_path=kind.validate_path(),
        protect_path=kind.protect_path(),
        concerns_us=owner_concerns("object", managed, held_kind),
        old_concerns_us=owner_concerns("oldObject", managed, held_kind),
        is_child=_is_child("object", parents),
        was_admitted=_was_admitted("oldObject", held_kind),
    )
    return mutating, validating, protecting, children, waiting


def _of_serving(
    serving_kind: ServingKind, managed: ManagedResources, values: Mapping[str, Any]
) -> tuple[Document, Document]:
    """The webhooks of a kind that serves: mutating and validating."""
    kind = reviewing.owner_kind(serving_kind)
    mutating, validating = rendering.documents(
        "webhooks-serving",
        **values,
        name=serving_kind.webhook_name,
        group=serving_kind.kind.group,
        version=serving_kind.kind.version,
        plural=serving_kind.kind.plural,
        mutate_path=kind.mutate_path(),
        validate_path=kind.validate_path(),
        concerns_us=owner_concerns("object", managed, serving_kind),
        old_concerns_us=owner_concerns("oldObject", managed, serving_kind),
    )
    return mutating, validating


def asks_by_class(managed: ManagedResources) -> str:
    """Return CEL: ResourceClaims or DeviceClasses decide what a new pod takes."""
    (condition,) = rendering.documents("asks-by-class", managed=names_managed("r", managed))
    return str(condition["expression"])


def concerns(pod: str, managed: ManagedResources) -> str:
    """Return CEL: the pod asks for a resource that we manage, or carries a key of ours."""
    spec, metadata, _ = _concerns(pod, managed)
    return f"{spec} || {metadata}"


def new_concerns(pod: str, managed: ManagedResources) -> str:
    """Return CEL: as `concerns`, or the pod carries what an earlier admission left."""
    return " || ".join(_concerns(pod, managed))


def _concerns(pod: str, managed: ManagedResources) -> list[str]:
    """CEL about a pod's spec, about its metadata, and about what an admission left on it.

    Spec and metadata have to be there.
    """
    is_of_class = f"r.startsWith({quote(names.IMPLICIT_CLASS_PREFIX)})"
    is_managed = f"{names_managed('r', managed)} || {is_of_class}"
    concerns = rendering.documents("webhooks-concerns", pod=pod, managed=is_managed)
    return [concern["expression"] for concern in concerns]


def owner_concerns(variable: str, managed: ManagedResources, kind: HeldKind | ServingKind) -> str:
    """Return CEL: the owner has a queue label, or its pods would concern us."""
    labels = f"{variable}.metadata.labels"
    queued = f"(has({labels}) && {quote(names.QUEUE_LABEL)} in {labels})"
    if not kind.templates:
        return "true"  # its pod templates may stand anywhere
    templates = (_at(variable, path, partial(_asks, managed)) for path in kind.templates)
    return f"{queued} || {' || '.join(templates)}"


def _asks(managed: ManagedResources, template: str) -> str:
    """CEL: pods of a template would concern us."""
    spec, metadata, _ = _concerns(template, managed)
    return f"((has({template}.spec) && ({spec})) || (has({template}.metadata) && ({metadata})))"


def _was_admitted(variable: str, kind: HeldKind) -> str:
    """CEL: a pod template has the mark of an admission."""
    return " || ".join(_at(variable, path, _is_marked) for path in kind.templates) or "false"


def _is_marked(template: str) -> str:
    above = f"{template}.metadata"
    mark = quote(names.WORKLOAD_ANNOTATION)
    return f"has({above}) && has({above}.annotations) && {mark} in {above}.annotations"


def _at(variable: str, path: str, judged: Callable[[str], str]) -> str:
    """CEL: a pod template at the path in the object is judged so."""
    outer, many, inner = path.partition("[*].")
    steps = outer.split(".")
    above = [f"{variable}.{'.'.join(steps[: at + 1])}" for at in range(len(steps))]
    if many:
        guards = "".join(f"has({part}) && " for part in above[:-1])
        return f"({guards}{_any_or_many(above[-1], 'm', _at('m', inner, judged))})"
    guards = " && ".join(f"has({part})" for part in above)
    return f"({guards} && ({judged(above[-1])}))"


def _is_child(variable: str, parents: Iterable[HeldKind]) -> str:
    """CEL: an owner that is held as a whole controls it."""
    controllers = f"{variable}.metadata.ownerReferences"
    is_held = " || ".join(
        f"has(o.controller) && o.controller && o.kind == '{parent.kind.name}'"
        f" && o.apiVersion == '{parent.kind.api_version}'"
        for parent in parents
    )
    return _any_or_many(controllers, "o", is_held)


def names_managed(variable: str, managed: ManagedResources) -> str:
    """Return CEL: the variable holds the name of a managed resource."""
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
    """Return a CEL string literal; its escapes are those of JSON."""
    return msgspec.json.encode(text).decode()


def at_path(client_config: Mapping[str, Any], path: str) -> Document:
    """Return the client configuration with the path, in the URL or beside the service."""
    config = dict(client_config)
    if "url" in config:
        config["url"] = config["url"].rstrip("/") + path
    else:
        config["service"] = {**config["service"], "path": path}
    return config


def _namespace_selector(namespaces: ManagedNamespaces) -> Document:
    """The LabelSelector that chooses the managed namespaces."""
    by_name = Requirement(NAME_LABEL, "NotIn", namespaces.unmanaged)
    return {
        "matchExpressions": [
            requirement.document() for requirement in (by_name, *namespaces.requirements)
        ]
    }
