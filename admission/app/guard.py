"""Policies in the API server against ways around quota that no request for GPUs shows.

They are ValidatingAdmissionPolicies: they cost other pods microseconds and work while the
webhook is down. What happens is the namespace's choice, by its label
``gpu-admission.dev/bypass``: ``deny``, ``warn`` (where it says nothing else) or ``audit``.

One more policy refuses namespace labels of ours with a value that means nothing: a misspelled
``deny`` would only warn, and nobody would notice.

The rules are those of ``admission.gpu.bypass`` that surely reach GPUs, in CEL. The expressions
use what Kubernetes 1.30 has, and guard every optional field, because one that fails counts as
broken. A pod with more members in a list or map than they look at is objected to as a whole.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.app import admission_policies, rbac
from admission.app.admission_policies import Document, listed
from admission.base import names
from admission.base.namespaces import ManagedNamespaces
from admission.gpu import bypass, resources
from admission.owners import integrations
from admission.settings import Settings
from admission.webhook import configuration
from admission.webhook.configuration import MOST, quote

DENY: Final = "deny"
WARN: Final = "warn"
AUDIT: Final = "audit"

CREATE_POLICY: Final = "gpu-admission-bypass-create"
UPDATE_POLICY: Final = "gpu-admission-bypass-update"
DEBUG_POLICY: Final = "gpu-admission-bypass-debug"
RESIZE_POLICY: Final = "gpu-admission-bypass-resize"
CLAIMS_POLICY: Final = "gpu-admission-claims"
LABELS_POLICY: Final = "gpu-admission-bypass-labels"

LABEL_VALUES: Final[Mapping[str, Sequence[str]]] = {
    names.BYPASS_LABEL: (DENY, WARN, AUDIT),
    names.ENFORCE_LABEL: ("true", "false"),
}
"""Labels of a namespace that mean something here, and their values."""

_NODES: Final = "system:nodes"
_RUNNING: Final = ("containers", "initContainers")
_DEBUGGING: Final = ("ephemeralContainers",)
_GATES: Final = "spec.schedulingGates"
_CLAIM_TEXT: Final = (
    "spec.resourceClaims: the pod must be held until it is known whether its claims are for GPUs,"
    f" because the namespace has the label {names.ENFORCE_LABEL}=true, and gpu-admission did not"
    " answer: create the pod again in a minute"
)
_SHOWS: Final = "shows GPUs to containers that ask for none"
_OF_CONTAINER: Final = ("env", "volumeMounts", "resources.limits", "resources.requests")
"""Lists and maps of a container that rules look through."""


def documents(settings: Settings, users: Iterable[str] = ()) -> list[Document]:
    """The policies, each followed by its bindings.

    Args:
        settings: the managed resources, the managed namespaces and our own namespace.
        users: whose updates are not looked at, besides those of the controller's service account:
            the user of a controller that runs outside the cluster. It writes on pods what
            admission checks ask for.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    cel = _Cel.of(settings.gpu.managed_resources)
    account = f"system:serviceaccount:{settings.namespace}:{rbac.CONTROLLER_ACCOUNT}"
    trusted = sorted({account, *users})
    namespaces = settings.gpu.managed_namespaces
    by_others = _not_by(trusted)
    debugged, resized = "pods/ephemeralcontainers", "pods/resize"
    policies = (
        _policy(
            CREATE_POLICY,
            "CREATE",
            "pods",
            namespaces,
            _on_create(cel),
            _not_by_node(),
            variables=[
                _many(
                    _many_members("object.metadata.annotations", "object.spec.volumes"),
                    *(_many_of_containers(f"object.spec.{one}") for one in _RUNNING),
                ),
                _devices(),
            ],
        ),
        _policy(
            UPDATE_POLICY,
            "UPDATE",
            "pods",
            namespaces,
            [_cdi("object", "oldObject")],
            by_others,
            variables=[_many(_many_changed("metadata.annotations"))],
        ),
        _policy(
            DEBUG_POLICY,
            "UPDATE",
            debugged,
            namespaces,
            _on_debug(cel),
            variables=[
                _many(
                    _many_members("oldObject.spec.ephemeralContainers", "object.spec.volumes"),
                    *(_many_of_containers(f"object.spec.{one}") for one in _DEBUGGING),
                ),
                _devices(),
            ],
        ),
        _policy(
            RESIZE_POLICY,
            "UPDATE",
            resized,
            namespaces,
            _on_resize(cel),
            variables=[
                _many(
                    *(
                        _many_of_containers(f"{one}.spec.{member}", variable)
                        for one, variable in (("object", "c"), ("oldObject", "o"))
                        for member in _RUNNING
                    )
                )
            ],
        ),
    )
    about_pods = [
        document for policy in policies for document in (policy, *_bindings(policy["metadata"]))
    ]
    return [*about_pods, *_about_claims(namespaces), *_about_labels()]


# -------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One way around quota.

    Attributes:
        offenders: CEL: a list of names or keys; empty = nothing to object.
        before: what the message says before the offenders.
        text: what they do and what to do instead.
    """

    offenders: str
    before: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cel:
    """CEL that depends on the managed resources.

    Attributes:
        managed: expression over ``r``: it names a managed resource.
    """

    managed: str

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "_Cel":
        return cls(managed=f"({configuration.names_managed('r', resources.managed(patterns))})")

    def asks(self, container: str) -> str:
        """The container asks for GPUs, by name or by claim."""
        implicit = f"r.startsWith({quote(resources.IMPLICIT_CLASS_PREFIX)})"
        amounts = f"{container}.resources"
        limits = _exists(f"{amounts}.limits", "r", f"{implicit} || {self._counts('limits')}")
        requests = _exists(f"{amounts}.requests", "r", self._counts("requests"))
        claims = f"(has({amounts}.claims) && size({amounts}.claims) > 0)"
        return f"(has({amounts}) && ({limits} || {requests} || {claims}))"

    def _counts(self, kind: str) -> str:
        return f"({self.managed} && string(c.resources.{kind}[r]) != '0')"


_TOO_MANY: Final = _Rule(
    offenders="variables.many",
    before="too many to look through:",
    text=f"at most {MOST} members of a list or map are looked through for ways to reach GPUs"
    " outside of any request; use fewer",
)


def _on_create(cel: _Cel) -> list[_Rule]:
    asking = _names(_RUNNING, cel.asks("c"))
    has_node = "(has(object.spec.nodeName) && object.spec.nodeName != '')"
    return [
        _showing(cel, _RUNNING),
        _device_paths(_RUNNING),
        _device_mounts(_RUNNING),
        _cdi(),
        _Rule(
            offenders=f"({has_node} ? ({asking}) : [])",
            before="spec.nodeName is set beside the GPU requests of container",
            text=bypass.NODE_TEXT,
        ),
    ]


def _on_debug(cel: _Cel) -> list[_Rule]:
    """Only containers that this update adds: an older one is not blamed on this user."""
    old = "oldObject.spec.ephemeralContainers"
    new = f"!(has({old}) && {old}.exists(o, o.name == c.name))"
    return [
        _showing(cel, _DEBUGGING, new),
        _device_paths(_DEBUGGING, new),
        _device_mounts(_DEBUGGING, new),
    ]


def _on_resize(cel: _Cel) -> list[_Rule]:
    offenders = []
    for member in _RUNNING:
        differs = " || ".join(
            _differing(one, other, kind, cel.managed)
            for kind in ("requests", "limits")
            for one, other in (("c", "o"), ("o", "c"))
        )
        found = f"oldObject.spec.{member}.exists(o, o.name == c.name && ({differs}))"
        offenders.append(_filtered(member, found))
    text = bypass.RESIZE_TEXT
    return [_Rule(offenders=" + ".join(offenders), before="resources of container", text=text)]


def _showing(cel: _Cel, members: Iterable[str], also: str = "true") -> _Rule:
    harmless = ", ".join(quote(value) for value in bypass.SHOWS_NOTHING)
    value = f"has(e.valueFrom) || (has(e.value) && !(e.value in [{harmless}]))"
    shows = _exists("c.env", "e", f"e.name == {quote(bypass.VISIBLE_DEVICES)} && ({value})")
    return _Rule(
        offenders=_names(members, f"{also} && {shows} && !{cel.asks('c')}"),
        before=f"{bypass.VISIBLE_DEVICES} of container",
        text=f"{_SHOWS}; {bypass.ASK}",
    )


def _device_paths(members: Iterable[str], also: str = "true") -> _Rule:
    mounted = "m.name in variables.devices"
    return _Rule(
        offenders=_names(members, f"{also} && {_exists('c.volumeMounts', 'm', mounted)}"),
        before="a host path below /dev in container",
        text=f"gives access to GPU devices; {bypass.ASK}",
    )


def _device_mounts(members: Iterable[str], also: str = "true") -> _Rule:
    path = quote(_any_path((bypass.DEVICE_MOUNTS,), "(/|$)"))
    mounted = _exists("c.volumeMounts", "m", f"m.mountPath.matches({path})")
    return _Rule(
        offenders=_names(members, f"{also} && {mounted}"),
        before=f"a mount below {bypass.DEVICE_MOUNTS} in container",
        text=f"selects GPUs outside of any request; {bypass.ASK}",
    )


def _cdi(new: str = "object", old: str = "") -> _Rule:
    prefixes = " || ".join(f"k.startsWith({quote(prefix)})" for prefix in bypass.CDI_KEYS)
    vendor = f"{new}.metadata.annotations[k].contains({quote(bypass.CDI_VENDOR)})"
    return _Rule(
        offenders=_changed_keys(new, old, f"({prefixes}) && {vendor}"),
        before="metadata.annotations:",
        text=f"injects GPUs into a container outside of any request; {bypass.ASK}",
    )


# ---------------------------------------------------------------------------------- variables


def _many(*lists: str) -> Document:
    """What has more members than rules look at; nothing is looked for in such a pod."""
    return {"name": "many", "expression": " + ".join(lists)}


def _many_members(*paths: str) -> str:
    return " + ".join(
        f"(has({path}) && size({path}) > {MOST} ? [{quote(path.partition('.')[2])}] : [])"
        for path in paths
    )


def _many_of_containers(path: str, variable: str = "c") -> str:
    """The list of containers itself, or those of its containers that have too much of something.

    Args:
        path: of a list of containers.
        variable: that stands for a container.
    """
    found = " || ".join(
        f"({f'has({variable}.resources) && ' if '.' in member else ''}"
        f"has({variable}.{member}) && size({variable}.{member}) > {MOST})"
        for member in _OF_CONTAINER
    )
    names_of = f"{path}.filter({variable}, {found}).map(c, 'container ' + c.name)"
    return f"{_many_members(path)} + (has({path}) && size({path}) <= {MOST} ? {names_of} : [])"


def _many_changed(path: str) -> str:
    new, old = f"object.{path}", f"oldObject.{path}"
    large = " || ".join(f"(has({one}) && size({one}) > {MOST})" for one in (new, old))
    return f"({_differs(path)} && ({large}) ? [{quote(path)}] : [])"


def _devices() -> Document:
    """Names of the volumes that are GPU devices of the node."""
    path, volumes = quote(_any_path(bypass.DEVICE_PATHS, "")), "object.spec.volumes"
    found = f"{volumes}.filter(v, has(v.hostPath) && v.hostPath.path.matches({path}))"
    return {
        "name": "devices",
        "expression": f"(size(variables.many) == 0 && has({volumes}) ?"
        f" {found}.map(v, v.name) : [])",
    }


# ---------------------------------------------------------------------------------------- CEL


def _exists(collection: str, variable: str, condition: str) -> str:
    """Some item meets the condition; an absent collection has none."""
    return f"(has({collection}) && {collection}.exists({variable}, {condition}))"


def _filtered(member: str, condition: str) -> str:
    """Names of the containers ``c`` of one list of the pod that meet the condition."""
    path = f"object.spec.{member}"
    return f"(has({path}) ? {path}.filter(c, {condition}).map(c, c.name) : [])"


def _names(members: Iterable[str], condition: str) -> str:
    return " + ".join(_filtered(member, condition) for member in members)


def _has_key(variable: str) -> str:
    path = f"{variable}.metadata.annotations"
    return f"has({path}) && k in {path}"


def _changed_keys(new: str, old: str, condition: str) -> str:
    """Annotations ``k`` of ``new`` that meet the condition and are not the same in ``old``."""
    path = f"{new}.metadata.annotations"
    is_there = f"has({path})"
    if old:
        before = f"{old}.metadata.annotations[k]"
        condition = f"({condition}) && !({_has_key(old)} && {before} == {path}[k])"
        is_there += f" && {_differs('metadata.annotations')}"
    return f"({is_there} ? {path}.filter(k, {condition}) : [])"


def _differs(path: str) -> str:
    """A list or map, which may be absent, is not as it was: told without a look at members."""
    new, old = f"object.{path}", f"oldObject.{path}"
    return f"(has({new}) != has({old}) || (has({new}) && {new} != {old}))"


def _gated(variable: str) -> str:
    gates = f"{variable}.{_GATES}"
    return _exists(gates, "g", f"g.name == {quote(names.ADMISSION_GATE)}")


def _differing(one: str, other: str, kind: str, managed: str) -> str:
    """Some managed amount of ``one`` is another in ``other``; a missing one is 0."""
    mine, theirs = f"{one}.resources.{kind}", f"{other}.resources.{kind}"
    known = f"has({other}.resources) && has({theirs}) && r in {theirs}"
    amount = f"({known} ? string({theirs}[r]) : '0')"
    differs = f"{managed} && string({mine}[r]) != {amount}"
    return f"(has({one}.resources) && {_exists(mine, 'r', differs)})"


def _any_path(paths: Sequence[str], end: str) -> str:
    """A regular expression for host paths that begin like one of these, however written."""
    written = (
        "".join(rf"(/+\.)*/+{re.escape(part)}" for part in path.strip("/").split("/"))
        for path in paths
    )
    return f"^({'|'.join(written)}){end}"


# ---------------------------------------------------------------------------------- documents


def _not_by_node() -> Document:
    """Nodes create mirror pods, which are bound already."""
    expression = f"!request.userInfo.groups.exists(g, g == {quote(_NODES)})"
    return {"name": "not-by-a-node", "expression": expression}


def _not_by(users: Iterable[str]) -> Document:
    expression = f"!(request.userInfo.username in [{listed(users)}])"
    return {"name": "not-by-the-controller", "expression": expression}


def _policy(
    name: str,
    operation: str,
    resource: str,
    namespaces: ManagedNamespaces,
    rules: Iterable[_Rule],
    *conditions: Document,
    variables: Iterable[Document] = (),
) -> Document:
    return admission_policies.policy(
        name,
        [admission_policies.rule("", [resource], [operation])],
        [_validation(_TOO_MANY), *map(_in_few, rules)],
        namespaces=namespaces,
        conditions=conditions,
        variables=variables,
    )


def _in_few(rule: _Rule) -> Document:
    """The validation of a rule, for pods that all rules look through.

    The API server evaluates the message also where there is nothing to say.
    """
    return _validation(
        replace(rule, offenders=f"(size(variables.many) > 0 ? [] : {rule.offenders})")
    )


def _about_claims(namespaces: ManagedNamespaces) -> Iterable[Document]:
    """The policy on pods that ask by claim, in namespaces that enforce queues.

    The webhook gives such a pod a gate. One without was created while the webhook did not answer.
    """
    gated = f"has(object.{_GATES}) && size(object.{_GATES}) <= {MOST} && {_gated('object')}"
    yield admission_policies.policy(
        CLAIMS_POLICY,
        [admission_policies.rule("", ["pods"], ["CREATE"])],
        [{"expression": gated, "message": _CLAIM_TEXT, "reason": "Forbidden"}],
        namespaces=namespaces,
        conditions=[
            _not_by_node(),
            {"name": "asks-by-claim", "expression": configuration.asks_by_claim("object")},
            {"name": "names-no-node", "expression": "!has(object.spec.nodeName)"},
            {"name": "not-of-an-admitted-job", "expression": _is_not_of_admitted_owner()},
        ],
    )
    enforced = {"matchLabels": {names.ENFORCE_LABEL: "true"}}
    yield admission_policies.binding(CLAIMS_POLICY, ["Deny", "Audit"], selector=enforced)


def _is_not_of_admitted_owner() -> str:
    makers = listed(sorted({user for held in integrations.HELD for user in held.pod_makers}))
    annotations = "object.metadata.annotations"
    marked = f"has({annotations}) && {quote(names.WORKLOAD_ANNOTATION)} in {annotations}"
    return f"!(request.userInfo.username in [{makers}] && {marked})"


def _about_labels() -> Iterable[Document]:
    """The policy on labels of namespaces; a value that stands there already is left alone."""
    validations = [
        {
            "expression": f"!({_has_label('object', key)}) || {_label('object', key)} in"
            f" [{listed(values)}] || (oldObject != null &&"
            f" {_has_label('oldObject', key)} &&"
            f" {_label('oldObject', key)} == {_label('object', key)})",
            "message": f"metadata.labels[{key}]: supported values: {', '.join(values)}",
            "reason": "Invalid",
        }
        for key, values in LABEL_VALUES.items()
    ]
    namespaces = admission_policies.rule("", ["namespaces"], ["CREATE", "UPDATE"], scope="Cluster")
    yield admission_policies.policy(LABELS_POLICY, [namespaces], validations)
    yield admission_policies.binding(LABELS_POLICY, ["Deny", "Audit"])


def _has_label(variable: str, key: str) -> str:
    path = f"{variable}.metadata.labels"
    return f"has({path}) && {quote(key)} in {path}"


def _label(variable: str, key: str) -> str:
    return f"{variable}.metadata.labels[{quote(key)}]"


def _validation(rule: _Rule) -> Document:
    offenders = f"({rule.offenders}).join(', ')"
    before, after = quote(f"{rule.before} "), quote(f": {rule.text}")
    return {
        "expression": f"size({rule.offenders}) == 0",
        "message": f"{rule.before.removesuffix(':')}: {rule.text}",
        "messageExpression": f"{before} + {offenders} + {after}",
        "reason": "Forbidden",
    }


def _bindings(policy: Document) -> Iterable[Document]:
    """One for each choice of a namespace; every one leaves a mark in the audit log."""
    for choice, actions, expression in (
        (DENY, ["Deny", "Audit"], {"operator": "In", "values": [DENY]}),
        (WARN, ["Warn", "Audit"], {"operator": "NotIn", "values": [AUDIT, DENY]}),
        (AUDIT, ["Audit"], {"operator": "In", "values": [AUDIT]}),
    ):
        selector = {"matchExpressions": [{"key": names.BYPASS_LABEL, **expression}]}
        yield admission_policies.binding(policy["name"], actions, choice=choice, selector=selector)
