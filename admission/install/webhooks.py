"""The webhook configurations as documents: which requests the API server sends for review.

Everything else never leaves the API server: the conditions are CEL that it evaluates itself, so a
pod that asks for no managed resource and carries none of our keys does not notice the webhook,
whether it runs or not. The expressions use what Kubernetes 1.30 has, and guard every optional
field, because an expression that fails counts as a failed webhook. They look at each member of a
collection of a user's only up to `MOST` members; a larger one is sent for review (ADR 0113).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.namespaces import NAME_LABEL, ManagedNamespaces
from admission.base.selectors import Requirement
from admission.gpu import resources
from admission.gpu.resources import ManagedResources
from admission.install import kindhooks
from admission.owners import integrations
from admission.owners.review import HeldKind
from admission.webhook import owners, pods

MUTATING_NAME: Final = "gpu-admission-mutating-webhook-configuration"
VALIDATING_NAME: Final = "gpu-admission-validating-webhook-configuration"
MUTATING_WEBHOOK: Final = "mpod.kb.io"
VALIDATING_WEBHOOK: Final = "vpod.kb.io"
CLAIM_MUTATING_WEBHOOK: Final = "mclaim.kb.io"
CLAIM_VALIDATING_WEBHOOK: Final = "vclaim.kb.io"

TIMEOUT_SECONDS: Final = 5
OPTIONAL_TIMEOUT_SECONDS: Final = 2
"""For objects that the API server creates all the same, if there is no answer."""
KEY_PREFIXES: Final = (f"{names.KUEUE_GROUP}/", f"{names.OWN_DOMAIN}/")
"""Labels and annotations that are ours begin like this."""
MOST: Final = 500
"""Members of one map or list that an expression looks at one by one. The API server's time for
that grows with their square: 20,000 labels took it 13 s."""

Document = dict[str, Any]


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
    managed = resources.managed(managed_resources)
    selector = _namespace_selector(namespaces)
    not_ours = _condition("not-from-the-controller", _is_not_from(service_account))

    def at(name: str, path: str) -> Document:
        return _webhook(name, at_path(client_config, path))

    mutating = {
        **at(MUTATING_WEBHOOK, pods.KIND.mutate_path()),
        "namespaceSelector": selector,
        "rules": [_pods(["CREATE"])],
        "reinvocationPolicy": "IfNeeded",
        "matchConditions": [not_ours, _condition("concerns-us", concerns("object", managed))],
    }
    validating = {
        **at(VALIDATING_WEBHOOK, pods.KIND.validate_path()),
        "namespaceSelector": selector,
        "rules": [_pods(["CREATE", "UPDATE"])],
        "matchConditions": [
            not_ours,
            _condition("concerns-us", _either(lambda pod: concerns(pod, managed))),
            _condition("changes-what-we-judge", changes()),
        ],
    }
    of_claims = _claim_webhooks(at, selector, not_ours, managed)
    of_owners = [
        _owner_webhooks(at, selector, not_ours, managed, one) for one in integrations.HELD
    ]
    return [
        _document(
            "MutatingWebhookConfiguration",
            MUTATING_NAME,
            [
                mutating,
                *(mutating for mutating, _, _ in of_owners),
                *kindhooks.mutating(at, not_ours),
                of_claims[0],
                *(of_children for _, _, of_children in of_owners),
            ],
        ),
        _document(
            "ValidatingWebhookConfiguration",
            VALIDATING_NAME,
            [
                validating,
                *(validating for _, validating, _ in of_owners),
                *kindhooks.validating(at, not_ours),
                of_claims[1],
            ],
        ),
    ]


def _claim_webhooks(
    at: Callable[[str, str], Document],
    selector: Document,
    not_ours: Document,
    managed: ManagedResources,
) -> tuple[Document, Document]:
    """The webhooks of new pods that ask by claim alone, which may be for a network card.

    Nothing in such a pod tells what for, so it is created if there is no answer, see ADR 0084.
    """
    common = {
        "namespaceSelector": selector,
        "rules": [_pods(["CREATE"])],
        "failurePolicy": "Ignore",
        "timeoutSeconds": OPTIONAL_TIMEOUT_SECONDS,
        "matchConditions": [
            not_ours,
            _condition("asks-by-claim", asks_by_claim("object")),
            _condition("asks-by-claim-alone", f"!({concerns('object', managed)})"),
        ],
    }
    mutating = {**at(CLAIM_MUTATING_WEBHOOK, pods.KIND.mutate_path()), **common}
    validating = {**at(CLAIM_VALIDATING_WEBHOOK, pods.KIND.validate_path()), **common}
    return {**mutating, "reinvocationPolicy": "IfNeeded"}, validating


def _owner_webhooks(
    at: Callable[[str, str], Document],
    selector: Document,
    not_ours: Document,
    managed: ManagedResources,
    held: HeldKind,
) -> tuple[Document, Document, Document]:
    """The webhooks of a kind of owners: mutating, validating, and mutating of children.

    The last is for new objects that are only sent because an owner controls them. They ask for no
    GPU and name no queue, so they are created if there is no answer (ADR 0100).
    """
    name, kind = held.kind.name.lower(), owners.named(held)

    def test(variable: str) -> str:
        return owner_concerns(variable, managed, held)

    mutating = {
        **at(f"m{name}.kb.io", kind.mutate_path()),
        "namespaceSelector": selector,
        "rules": [_owners(held, ["CREATE"])],
        "reinvocationPolicy": "IfNeeded",
        "matchConditions": [not_ours, _condition("concerns-us", test("object"))],
    }
    validating = {
        **at(f"v{name}.kb.io", kind.validate_path()),
        "namespaceSelector": selector,
        "rules": [_owners(held, ["CREATE", "UPDATE"])],
        "matchConditions": [not_ours, _condition("concerns-us", _either(test))],
    }
    of_children = {
        **at(f"mchild{name}.kb.io", kind.mutate_path()),
        "namespaceSelector": selector,
        "rules": [_owners(held, ["CREATE"])],
        "reinvocationPolicy": "IfNeeded",
        "failurePolicy": "Ignore",
        "timeoutSeconds": OPTIONAL_TIMEOUT_SECONDS,
        "matchConditions": [
            not_ours,
            _condition("has-a-job-as-its-controller", _is_child("object")),
            _condition("concerns-us-in-nothing-else", f"!({test('object')})"),
        ],
    }
    return mutating, validating, of_children


def concerns(variable: str, managed: ManagedResources) -> str:
    """CEL: the pod asks for a managed resource by name, or carries a key of ours."""
    spec = f"{variable}.spec"
    is_managed = names_managed("r", managed)
    asks = " || ".join(
        _any_or_many(f"c.resources.{member}", "r", is_managed) for member in ("requests", "limits")
    )
    container = f"has(c.resources) && ({asks})"
    containers = [
        _any_or_many(f"{spec}.{member}", "c", container)
        for member in ("containers", "initContainers")
    ]
    metadata = [
        _any_or_many(f"{variable}.metadata.{member}", "k", _is_our_key("k"))
        for member in ("labels", "annotations")
    ]
    return " || ".join([*containers, *metadata])


def asks_by_claim(variable: str) -> str:
    """CEL: the pod asks for devices by ResourceClaim."""
    claims = f"{variable}.spec.resourceClaims"
    return f"has({claims}) && size({claims}) > 0"


def changes() -> str:
    """CEL: a new pod, or an update of gates, selector, tolerations or a key of ours."""
    fields = [
        f"{_or_empty('object', field, empty)} != {_or_empty('oldObject', field, empty)}"
        for field, empty in (
            ("schedulingGates", "[]"),
            ("nodeSelector", "{}"),
            ("tolerations", "[]"),
        )
    ]
    keys = [
        _differs(f"{one}.metadata.{member}", f"{other}.metadata.{member}")
        for member in ("labels", "annotations")
        for one, other in (("object", "oldObject"), ("oldObject", "object"))
    ]
    return " || ".join(["request.operation != 'UPDATE'", *fields, *keys])


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


def _either(test: Callable[[str], str]) -> str:
    new, old = test("object"), test("oldObject")
    return f"(object != null && ({new})) || (oldObject != null && ({old}))"


def names_managed(variable: str, managed: ManagedResources) -> str:
    """CEL: the variable holds the name of a managed resource."""
    tests = [f"{variable}.startsWith({quote(prefix)})" for prefix in managed.prefixes]
    if managed.exact:
        listed = ", ".join(quote(name) for name in sorted(managed.exact))
        tests.insert(0, f"{variable} in [{listed}]")
    return " || ".join(tests) or "false"


def _is_our_key(variable: str) -> str:
    return " || ".join(f"{variable}.startsWith({quote(prefix)})" for prefix in KEY_PREFIXES)


def _differs(one: str, other: str) -> str:
    """CEL: some key of ours stands in ``one`` and not, or with another value, in ``other``.

    If ``one`` has many keys: something differs.
    """
    same = f"has({other}) && k in {other} && {other}[k] == {one}[k]"
    some = f"{one}.exists(k, ({_is_our_key('k')}) && !({same}))"
    equal = f"has({other}) && {other} == {one}"
    return f"(has({one}) && (size({one}) > {MOST} ? !({equal}) : {some}))"


def _any_or_many(collection: str, variable: str, condition: str) -> str:
    """CEL: some member meets the condition, or there are more than an expression looks at."""
    some = f"{collection}.exists({variable}, {condition})"
    return f"(has({collection}) && (size({collection}) > {MOST} || {some}))"


def _or_empty(variable: str, field: str, empty: str) -> str:
    path = f"{variable}.spec.{field}"
    return f"(has({path}) ? {path} : {empty})"


def _is_not_from(user: str) -> str:
    return f"request.userInfo.username != {quote(user)}"


def quote(text: str) -> str:
    """A CEL string literal; its escapes are those of JSON."""
    return msgspec.json.encode(text).decode()


def _condition(name: str, expression: str) -> Document:
    return {"name": name, "expression": expression}


def at_path(client_config: Mapping[str, Any], path: str) -> Document:
    """The client configuration with the path, which stands in the URL or beside the service."""
    config = dict(client_config)
    if "url" in config:
        config["url"] = config["url"].rstrip("/") + path
    else:
        config["service"] = {**config["service"], "path": path}
    return config


def _webhook(name: str, client_config: Document) -> Document:
    """A webhook that is sent nothing yet."""
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "rules": [],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def _pods(operations: list[str]) -> Document:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": ["pods"],
        "scope": "Namespaced",
    }


def _owners(held: HeldKind, operations: list[str]) -> Document:
    return {
        "apiGroups": [held.group],
        "apiVersions": [held.version],
        "operations": operations,
        "resources": [held.plural],
        "scope": "Namespaced",
    }


def _namespace_selector(namespaces: ManagedNamespaces) -> Document:
    """The LabelSelector that chooses the managed namespaces."""
    by_name = Requirement(NAME_LABEL, "NotIn", namespaces.unmanaged)
    return {"matchExpressions": [one.document() for one in (by_name, *namespaces.requirements)]}


def _document(kind: str, name: str, webhooks: list[Document]) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }
