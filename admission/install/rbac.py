"""Who may do what: roles of the program's own service accounts and of people.

One table is the source of ``install`` and of ``deploy/``. Source: kueue config/components/rbac
for the roles of people; the program's own roles list what its code asks for, no more.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from admission.base import names
from admission.install import cabundles
from admission.kube import resources
from admission.owners import integrations
from admission.owners.review import HeldKind

CONTROLLER_ACCOUNT: Final = "gpu-admission-controller"
CERTIFICATES_ROLE: Final = "gpu-admission-controller-certificates"
TLS_SECRET: Final = "gpu-admission-webhook-tls"  # noqa: S105 - its name
WEBHOOK_ACCOUNT: Final = "gpu-admission-webhook"
METRICS_AUTH: Final = "gpu-admission-metrics-auth-role"
METRICS_READER: Final = "gpu-admission-metrics-reader"
FRONT_PROXY_READER: Final = "gpu-admission-visibility-auth-reader"

_RBAC: Final = "rbac.authorization.k8s.io"
_API_VERSION: Final = f"{_RBAC}/v1"
_READ: Final = ("get", "list", "watch")
_FOLLOW: Final = ("list", "watch")
_EDIT: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_KUEUE: Final = names.KUEUE_GROUP
_WORKLOADS: Final = f"workloads.{_KUEUE}"


class _Rule(NamedTuple):
    """What may be done; to all objects where no names are given."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


# Who asks, and whether they may: for pending workloads and for metrics.
_ACCESS_RULES: Final = (
    _Rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
    _Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)


def _on_owners(held: HeldKind) -> tuple[_Rule, ...]:
    """Owners are started and stopped, and their status forgets when they started."""
    return (
        # "delete" where objectRetentionPolicies say so.
        _Rule(held.group, (held.plural,), ("delete", *_READ, "patch")),
        _Rule(held.group, (f"{held.plural}/status",), ("patch",)),
        _Rule(held.group, (f"{held.plural}/finalizers",), ("update",)),
    )


# "get" where a write that met a conflict reads the object, else objects are only followed.
_CONTROLLER_RULES: Final = (
    _Rule("", ("limitranges", "nodes"), _FOLLOW),
    # A policy lets it change one label only, see `admission.install.scope`.
    _Rule("", ("namespaces",), (*_FOLLOW, "patch")),
    _Rule("node.k8s.io", ("runtimeclasses",), _FOLLOW),
    _Rule("scheduling.koordinator.sh", ("devices",), _FOLLOW),
    _Rule(
        "resource.k8s.io",
        ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
        _FOLLOW,
    ),
    _Rule("", ("pods",), ("delete", "get", "list", "patch", "watch")),
    _Rule("", ("pods/status",), ("patch",)),
    # A Workload blocks the deletion of the pod that owns it, which the admission plugin
    # OwnerReferencesPermissionEnforcement allows to those who may set the pod's finalizers.
    _Rule("", ("pods/finalizers",), ("update",)),
    _Rule("events.k8s.io", ("events",), ("create", "patch")),
    *(rule for held in integrations.HELD for rule in _on_owners(held)),
    _Rule("scheduling.k8s.io", ("priorityclasses",), _FOLLOW),
    _Rule(_KUEUE, ("workloadpriorityclasses",), _FOLLOW),
    # Their finalizers are metadata of the object itself.
    _Rule(
        _KUEUE,
        ("admissionchecks", "clusterqueues", "resourceflavors", "topologies"),
        (*_READ, "patch"),
    ),
    _Rule(_KUEUE, ("cohorts", "localqueues"), _READ),
    _Rule(
        _KUEUE,
        ("clusterqueues/status", "cohorts/status", "localqueues/status"),
        ("update",),
    ),
    _Rule(_KUEUE, ("workloads",), ("create", "delete", "get", "list", "patch", "watch")),
    _Rule(_KUEUE, ("workloads/status",), ("patch", "update")),
    # Asked before a running pod is stopped because its Workload is gone.
    _Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("get",), (_WORKLOADS,)),
    *_ACCESS_RULES,
)
# Creation cannot be limited to a name: the name is not known to the authorizer then.
_CERTIFICATE_RULES: Final = tuple(
    _Rule(resource.group, (resource.plural,), ("get", "patch"), listed)
    for resource, listed in cabundles.NAMES.items()
)
"""A policy lets it change the caBundle only, see `admission.install.scope`."""
_CERTIFICATE_NAMESPACE_RULES: Final = (_Rule("", ("secrets",), ("get", "patch"), (TLS_SECRET,)),)
_CONTROLLER_NAMESPACE_RULES: Final = (
    _Rule("coordination.k8s.io", ("leases",), ("create",)),
    _Rule("coordination.k8s.io", ("leases",), ("get", "patch", *_FOLLOW), (names.LEASE_NAME,)),
)
_WEBHOOK_RULES: Final = (
    _Rule("", ("limitranges", "namespaces", "resourcequotas"), _FOLLOW),
    _Rule(
        _KUEUE,
        ("clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloadpriorityclasses"),
        _FOLLOW,
    ),
    # Whether the API server accepts the certificate that is served.
    *(
        _Rule(one.group, (one.plural,), ("get",), cabundles.NAMES[one])
        for one in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    ),
)


class _Kind(NamedTuple):
    """Whose roles may edit and view objects of a kind, by the letters of `_AGGREGATE`."""

    name: str
    group: str
    plural: str
    editors: str
    viewers: str
    has_status: bool


_PEOPLE: Final = (
    _Kind("clusterqueue", _KUEUE, "clusterqueues", "a", "am", has_status=True),
    _Kind("cohort", _KUEUE, "cohorts", "a", "am", has_status=False),
    _Kind("resourceflavor", _KUEUE, "resourceflavors", "a", "am", has_status=False),
    _Kind("topology", _KUEUE, "topologies", "a", "am", has_status=False),
    _Kind("localqueue", _KUEUE, "localqueues", "a", "auk", has_status=True),
    _Kind("workload", _KUEUE, "workloads", "a", "auk", has_status=True),
    *(
        _Kind(held.kind.name.lower(), held.group, held.plural, "au", "auk", has_status=True)
        for held in integrations.HELD
    ),
)
# Name, whose lists of pending workloads, who may read them.
_PENDING: Final = (
    ("pending-workloads-cq-viewer", "clusterqueues", "ak"),
    ("pending-workloads-lq-viewer", "localqueues", "auk"),
)
# a = batch-admin, u = batch-user, k = Kubernetes' own view, edit and admin roles, m = Kubernetes'
# admin role only.
_AGGREGATE: Final = {
    "a": (f"{names.AGGREGATION_PREFIX}batch-admin",),
    "u": (f"{names.AGGREGATION_PREFIX}batch-user",),
    "m": (f"{_RBAC}/aggregate-to-admin",),
    "k": tuple(f"{_RBAC}/aggregate-to-{role}" for role in ("view", "edit", "admin")),
}


def documents(
    namespace: str = names.SYSTEM_NAMESPACE, *, rotates: bool = True
) -> list[dict[str, Any]]:
    """Service accounts, roles and bindings, in the order in which they are applied.

    Args:
        namespace: of the program.
        rotates: whether the controller renews the webhook's certificates.
    """
    rotation = certificates(namespace) if rotates else []
    return [*_accounts(namespace), *rotation, *_people()]


def certificates(namespace: str) -> list[dict[str, Any]]:
    """Return the role with which the controller renews the webhook's certificates, bound."""
    name = CERTIFICATES_ROLE
    role = {
        "apiVersion": _API_VERSION,
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": [_rule(rule) for rule in _CERTIFICATE_NAMESPACE_RULES],
    }
    account = CONTROLLER_ACCOUNT
    return [
        _cluster_role(name, {}, _CERTIFICATE_RULES),
        _binding("ClusterRoleBinding", "ClusterRole", account, namespace, name),
        role,
        _binding("RoleBinding", "Role", account, namespace, name),
    ]


def _accounts(namespace: str) -> Iterable[dict[str, Any]]:
    for account, rules in (
        (CONTROLLER_ACCOUNT, _CONTROLLER_RULES),
        (WEBHOOK_ACCOUNT, _WEBHOOK_RULES),
    ):
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace},
        }
        yield _cluster_role(account, {}, rules)
        yield _binding("ClusterRoleBinding", "ClusterRole", account, namespace)
    yield {
        "apiVersion": _API_VERSION,
        "kind": "Role",
        "metadata": {"name": CONTROLLER_ACCOUNT, "namespace": namespace},
        "rules": [_rule(rule) for rule in _CONTROLLER_NAMESPACE_RULES],
    }
    yield _binding("RoleBinding", "Role", CONTROLLER_ACCOUNT, namespace)
    yield _front_proxy_reader(namespace)
    yield from _of_metrics(namespace)


def _of_metrics(namespace: str) -> Iterable[dict[str, Any]]:
    """Lets the webhook find out who reads metrics, and a role for those who may."""
    yield _cluster_role(METRICS_AUTH, {}, _ACCESS_RULES)
    yield {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": METRICS_AUTH},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": METRICS_AUTH},
        "subjects": [_account(WEBHOOK_ACCOUNT, namespace)],
    }
    yield {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": METRICS_READER},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }


def _front_proxy_reader(namespace: str) -> dict[str, Any]:
    """Lets the controller read by what the API server is known when it passes requests on."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "RoleBinding",
        "metadata": {"name": FRONT_PROXY_READER, "namespace": "kube-system"},
        "roleRef": {
            "apiGroup": _RBAC,
            "kind": "Role",
            "name": "extension-apiserver-authentication-reader",
        },
        "subjects": [_account(CONTROLLER_ACCOUNT, namespace)],
    }


def _people() -> Iterable[dict[str, Any]]:
    for role in ("batch-admin", "batch-user"):
        yield {
            "apiVersion": _API_VERSION,
            "kind": "ClusterRole",
            "metadata": {"name": f"gpu-admission-{role}-role"},
            "aggregationRule": {
                "clusterRoleSelectors": [
                    {"matchLabels": {f"{names.AGGREGATION_PREFIX}{role}": "true"}}
                ]
            },
        }
    for kind in _PEOPLE:
        for what, verbs, groups in (
            ("editor", _EDIT, kind.editors),
            ("viewer", _READ, kind.viewers),
        ):
            rules = [_Rule(kind.group, (kind.plural,), verbs)]
            if kind.has_status:
                rules.append(_Rule(kind.group, (f"{kind.plural}/status",), ("get",)))
            yield _role_of_people(f"{kind.name}-{what}", groups, rules)
    for name, plural, groups in _PENDING:
        rule = _Rule(names.VISIBILITY_GROUP, (f"{plural}/pendingworkloads",), _READ)
        yield _role_of_people(name, groups, [rule])


def _role_of_people(name: str, groups: str, rules: Iterable[_Rule]) -> dict[str, Any]:
    labels = {label: "true" for group in groups for label in _AGGREGATE[group]}
    return _cluster_role(f"gpu-admission-{name}-role", {names.ROLE_LABEL: name, **labels}, rules)


def _cluster_role(name: str, labels: dict[str, str], rules: Iterable[_Rule]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "rules": [_rule(rule) for rule in rules],
    }


def _rule(rule: _Rule) -> dict[str, Any]:
    document = {
        "apiGroups": [rule.group],
        "resources": list(rule.resources),
        "verbs": list(rule.verbs),
    }
    return document | ({"resourceNames": list(rule.names)} if rule.names else {})


def _binding(
    kind: str, role_kind: str, account: str, namespace: str, role: str = ""
) -> dict[str, Any]:
    """Gives the account the role; that of its own name where none is named."""
    scope = {"namespace": namespace} if kind == "RoleBinding" else {}
    return {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": {"name": role or account, **scope},
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role or account},
        "subjects": [_account(account, namespace)],
    }


def _account(name: str, namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
