"""Policies in the API server against ways around quota that no request for GPUs shows.

They are ValidatingAdmissionPolicies: they cost other pods microseconds and work while the
webhook is down. What happens is the namespace's choice, by its label
``gpu-admission.dev/bypass``: ``deny``, ``deny-strict``, ``warn`` or ``audit``. Where it says
nothing, the settings say it, for namespaces with a LocalQueue and for those without.

One more policy refuses namespace labels of ours with a value that means nothing: a misspelled
``deny`` would only warn, and nobody would notice.

The rules are those of ``admission.gpu.bypass``, in CEL: what surely reaches GPUs, what may reach
them (``deny-strict``), and what is worth a warning. The expressions use what Kubernetes 1.30 has,
and guard every optional field, because one that fails counts as broken. A pod with more members
in a list or map than they look at is objected to as a whole.

What a container loads with ``envFrom`` stands in no pod. So the key is refused where it is
written: in ConfigMaps and Secrets.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from admission.base import names
from admission.base.namespaces import (
    AUDIT,
    BYPASS_CHOICES,
    DENY,
    DENY_STRICT,
    WARN,
    ManagedNamespaces,
)
from admission.config.settings import ModeSettings, NamespaceMode, Settings
from admission.gpu import bypass, resources
from admission.install import admission_policies, rbac, webhooks
from admission.install.admission_policies import Document, listed
from admission.install.webhooks import MOST, quote
from admission.owners import integrations

CREATE_POLICY: Final = "gpu-admission-bypass-create"
UPDATE_POLICY: Final = "gpu-admission-bypass-update"
DEBUG_POLICY: Final = "gpu-admission-bypass-debug"
RESIZE_POLICY: Final = "gpu-admission-bypass-resize"
STRICT_POLICY: Final = "gpu-admission-bypass-strict"
STRICT_DEBUG_POLICY: Final = "gpu-admission-bypass-strict-debug"
NOTICE_POLICY: Final = "gpu-admission-bypass-notice"
SOURCES_POLICY: Final = "gpu-admission-bypass-sources"
CLAIMS_POLICY: Final = "gpu-admission-claims"
ENFORCE_POLICY: Final = "gpu-admission-enforce"
LABELS_POLICY: Final = "gpu-admission-bypass-labels"

LABEL_VALUES: Final[Mapping[str, Sequence[str]]] = {
    names.BYPASS_LABEL: BYPASS_CHOICES,
    names.ENFORCE_LABEL: ("true", "false"),
}
"""Labels of a namespace that mean something here, and their values."""

_NODES: Final = "system:nodes"
_RUNNING: Final = ("containers", "initContainers")
_DEBUGGING: Final = ("ephemeralContainers",)
_GATES: Final = "spec.schedulingGates"
_CLAIM_TEXT: Final = (
    "spec.resourceClaims: the pod must be held until it is known whether its claims are for GPUs,"
    " because the namespace enforces queues, and gpu-admission did not answer: create the pod"
    " again in a minute"
)
_ENFORCE_TEXT: Final = (
    "spec.schedulingGates: the namespace enforces queues, so a pod that asks for GPUs is held"
    f" until it is admitted. Let the label {names.QUEUE_LABEL} name a LocalQueue and name no node;"
    " where it was so, gpu-admission did not answer: create the pod again in a minute"
)
_ALL_VARIABLES: Final = f"{', '.join(bypass.VARIABLES[:-1])} and {bypass.VARIABLES[-1]}"
_OF_CONTAINER: Final = ("env", "envFrom", "volumeMounts", "resources.limits", "resources.requests")
"""Lists and maps of a container that rules look through."""


@dataclass(frozen=True, slots=True)
class _Reaction:
    """What becomes of what a policy objects to.

    Attributes:
        name: distinguishes the bindings of one policy.
        actions: of a binding.
        choices: of a namespace that want this.
    """

    name: str
    actions: Sequence[str]
    choices: Sequence[str]


_SURE: Final = (
    _Reaction("deny", ("Deny", "Audit"), (DENY, DENY_STRICT)),
    _Reaction("warn", ("Warn", "Audit"), (WARN,)),
    _Reaction("audit", ("Audit",), (AUDIT,)),
)
_STRICT: Final = (_Reaction("deny", ("Deny", "Audit"), (DENY_STRICT,)),)
_NOTICE: Final = (
    _Reaction("warn", ("Warn", "Audit"), (DENY, DENY_STRICT, WARN)),
    _Reaction("audit", ("Audit",), (AUDIT,)),
)
"""Each choice leaves a mark in the audit log."""


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
    by_others = _not_by(sorted({account, *users}))
    created = (_many_of_new_pod(), _devices(bypass.DEVICE_PATHS))
    debugged = (_many_of_debugging(), _devices(bypass.DEVICE_PATHS))
    new_debugger = f"!({_is_old_debugger()})"
    policies = (
        _Policy(
            CREATE_POLICY, _on_create(cel), _SURE, [_not_by_node()],
            variables=created,
        ),
        _Policy(
            UPDATE_POLICY, [_cdi("object", "oldObject")], _SURE, [by_others], "UPDATE",
            variables=[_many(_many_changed("metadata.annotations"))],
        ),
        _Policy(
            DEBUG_POLICY, _surely_showing(cel, _DEBUGGING, new_debugger), _SURE, [], "UPDATE",
            "pods/ephemeralcontainers", variables=debugged,
        ),
        _Policy(
            RESIZE_POLICY, _on_resize(cel), _SURE, [], "UPDATE", "pods/resize",
            variables=[_many_of_resized()],
        ),
        _Policy(
            STRICT_POLICY,
            [_from_elsewhere(cel, _RUNNING), *_maybe_showing(cel, _RUNNING)],
            _STRICT,
            [_not_by_node()],
            variables=(_many_of_new_pod(), _directories()),
        ),
        _Policy(
            STRICT_DEBUG_POLICY, _maybe_showing(cel, _DEBUGGING, new_debugger), _STRICT, [],
            "UPDATE", "pods/ephemeralcontainers",
            variables=(_many_of_debugging(), _directories()),
        ),
        _Policy(
            NOTICE_POLICY, [_from_elsewhere(cel, _RUNNING), _hiding(cel)], _NOTICE,
            [_not_by_node()], variables=[_many_of_new_pod()], tells_many=False,
        ),
    )  # fmt: skip
    namespaces, modes = settings.gpu.managed_namespaces, settings.gpu.effective_modes
    about_pods = [one for policy in policies for one in policy.documents(namespaces, modes)]
    return [
        *about_pods,
        *_about_sources(namespaces, modes),
        *_about_queues(cel, namespaces, modes),
        *_about_labels(),
    ]


def leftovers(settings: Settings) -> list[Document]:
    """Return the bindings that installations with other modes have, enough to delete them."""
    wanted = {one["metadata"]["name"] for one in documents(settings)}
    found = {}
    for one, other in itertools.permutations(BYPASS_CHOICES, 2):
        modes = ModeSettings(
            with_queue=NamespaceMode(bypass=one, enforce=True),
            without_queue=NamespaceMode(bypass=other),
        )
        swapped = ModeSettings(with_queue=modes.without_queue, without_queue=modes.with_queue)
        for chosen_modes in (modes, swapped):
            gpu = settings.gpu.model_copy(update={"modes": chosen_modes})
            for document in documents(settings.model_copy(update={"gpu": gpu})):
                found[document["metadata"]["name"]] = document
    return [found[name] for name in sorted(found.keys() - wanted)]


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


@dataclass(frozen=True, slots=True)
class _Policy:
    """Rules about requests for pods, and what becomes of what they find.

    Attributes:
        name: of the policy.
        rules: what is objected to.
        reactions: what becomes of it.
        conditions: which requests are looked at.
        operation: CREATE or UPDATE.
        resource: pods or a subresource.
        variables: parts of the rules; one of them is ``many``.
        tells_many: whether a pod with more than is looked through is objected to.
    """

    name: str
    rules: Sequence[_Rule]
    reactions: Sequence[_Reaction]
    conditions: Sequence[Document]
    operation: str = "CREATE"
    resource: str = "pods"
    variables: Sequence[Document] = ()
    tells_many: bool = True

    def documents(self, namespaces: ManagedNamespaces, modes: ModeSettings) -> Iterable[Document]:
        """Return the policy, followed by its bindings."""
        yield admission_policies.policy(
            self.name,
            [admission_policies.rule("", [self.resource], [self.operation])],
            [*([_validation(_TOO_MANY)] if self.tells_many else ()), *map(_in_few, self.rules)],
            namespaces=namespaces,
            conditions=self.conditions,
            variables=self.variables,
        )
        yield from _bindings(self.name, self.reactions, modes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cel:
    """CEL that depends on the managed resources.

    Attributes:
        managed: expression over ``r``: it names a managed resource.
    """

    managed: str

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "_Cel":
        return cls(managed=f"({webhooks.names_managed('r', resources.managed(patterns))})")

    def asks(self, container: str) -> str:
        """The container asks for GPUs, by name or by claim."""
        implicit = f"r.startsWith({quote(resources.IMPLICIT_CLASS_PREFIX)})"
        amounts = f"{container}.resources"
        limits = _exists(f"{amounts}.limits", "r", f"{implicit} || {self._counts('limits')}")
        requests = _exists(f"{amounts}.requests", "r", self._counts("requests"))
        claims = f"(has({amounts}.claims) && size({amounts}.claims) > 0)"
        return f"(has({amounts}) && ({limits} || {requests} || {claims}))"

    def asks_by_name(self) -> str:
        """The new pod asks for GPUs by name, or for more than is looked through."""
        amounts = " || ".join(
            f"(has(c.resources.{kind}) && (size(c.resources.{kind}) > {MOST}"
            f" || c.resources.{kind}.exists(r, {self._counts(kind)})))"
            for kind in ("limits", "requests")
        )
        asks = f"has(c.resources) && ({amounts})"
        lists = (f"object.spec.{member}" for member in _RUNNING)
        return " || ".join(
            f"(has({one}) && (size({one}) > {MOST} || {one}.exists(c, {asks})))" for one in lists
        )

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
        *_surely_showing(cel, _RUNNING),
        _cdi(),
        _Rule(
            offenders=f"({has_node} ? ({asking}) : [])",
            before="spec.nodeName is set beside the GPU requests of container",
            text=bypass.NODE_TEXT,
        ),
    ]


def _is_old_debugger() -> str:
    """An ephemeral container that was there before: it is not blamed on this user."""
    old = "oldObject.spec.ephemeralContainers"
    return f"has({old}) && {old}.exists(o, o.name == c.name)"


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


def _surely_showing(cel: _Cel, members: Sequence[str], also: str = "true") -> list[_Rule]:
    return [
        _showing(cel, members, also),
        _prefixed(members, also),
        _device_paths(members, "gives access to GPU devices", also),
        _device_mounts(members, also),
    ]


def _maybe_showing(cel: _Cel, members: Sequence[str], also: str = "true") -> list[_Rule]:
    return [
        _legacy(cel, members, also),
        _privileged(members, also),
        _device_paths(members, "may give access to GPU devices", also),
    ]


def _showing(cel: _Cel, members: Iterable[str], also: str) -> _Rule:
    literal = f"has(e.value) && !(e.value in [{listed(bypass.SHOWS_NOTHING)}])"
    told = _exists("c.env", "e", f"{_is_variable()} && (({literal}) || ({_is_told()}))")
    elsewhere = _exists("c.env", "e", f"{_is_variable()} && has(e.valueFrom)")
    return _Rule(
        offenders=_names(members, f"{also} && ({told} || ({elsewhere} && !{cel.asks('c')}))"),
        before="environment of container",
        text=f"{_ALL_VARIABLES} show GPUs beyond what the container asks for; {bypass.REMOVE}",
    )


def _from_elsewhere(cel: _Cel, members: Iterable[str]) -> _Rule:
    """Beside a request, which may have been what somebody meant to repeat."""
    elsewhere = f"{_is_variable()} && has(e.valueFrom) && !({_is_told()})"
    return _Rule(
        offenders=_names(members, f"{_exists('c.env', 'e', elsewhere)} && {cel.asks('c')}"),
        before="environment of container",
        text=f"{_ALL_VARIABLES} from a ConfigMap or Secret may show GPUs beyond what the container"
        f" asks for; {bypass.REMOVE}",
    )


def _is_variable() -> str:
    return f"e.name in [{listed(bypass.VARIABLES)}]"


def _is_told() -> str:
    """The value comes from the pod itself, or from a file that its containers write."""
    unknown = " || ".join(f"has(e.valueFrom.{one})" for one in bypass.UNKNOWN_SOURCES)
    return f"has(e.valueFrom) && !({unknown})"


def _prefixed(members: Iterable[str], also: str) -> _Rule:
    """No key of a ConfigMap is one of the variables, but with a prefix it may become one."""
    can = " || ".join(f"{quote(name)}.startsWith(f.prefix)" for name in bypass.VARIABLES)
    found = _exists("c.envFrom", "f", f"has(f.prefix) && f.prefix != '' && ({can})")
    return _Rule(
        offenders=_names(members, f"{also} && {found}"),
        before="envFrom of container",
        text=f"with this prefix a key can become {bypass.VISIBLE_DEVICES}; use another prefix",
    )


def _hiding(cel: _Cel) -> _Rule:
    nothing = (
        f"!has(e.valueFrom) && (!has(e.value) || e.value in [{listed(bypass.SHOWS_NOTHING)}])"
    )
    hides = _exists("c.env", "e", f"e.name == {quote(bypass.VISIBLE_DEVICES)} && {nothing}")
    return _Rule(
        offenders=_names(_RUNNING, f"{hides} && {cel.asks('c')}"),
        before=f"{bypass.VISIBLE_DEVICES} of container",
        text="hides the GPUs that the container asks for; remove it",
    )


def _legacy(cel: _Cel, members: Iterable[str], also: str) -> _Rule:
    has_version = _exists("c.env", "e", f"e.name == {quote(bypass.LEGACY_VARIABLE)}")
    says = _exists("c.env", "e", f"e.name == {quote(bypass.VISIBLE_DEVICES)}")
    return _Rule(
        offenders=_names(members, f"{also} && {has_version} && !{says} && !{cel.asks('c')}"),
        before=f"{bypass.LEGACY_VARIABLE} of container",
        text=f"shows all GPUs to some images; set {bypass.VISIBLE_DEVICES}=void beside it",
    )


def _privileged(members: Iterable[str], also: str) -> _Rule:
    context = "c.securityContext"
    is_so = f"has({context}) && has({context}.privileged) && {context}.privileged"
    return _Rule(
        offenders=_names(members, f"{also} && {is_so}"),
        before="securityContext.privileged of container",
        text="a privileged container sees every device of the node; leave it out",
    )


def _device_paths(members: Iterable[str], what: str, also: str) -> _Rule:
    mounted = "m.name in variables.devices"
    return _Rule(
        offenders=_names(members, f"{also} && {_exists('c.volumeMounts', 'm', mounted)}"),
        before="a host path of devices in container",
        text=f"{what}; {bypass.ASK}",
    )


def _device_mounts(members: Iterable[str], also: str) -> _Rule:
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


def _many_of_new_pod() -> Document:
    return _many(
        _many_members("object.metadata.annotations", "object.spec.volumes"),
        *(_many_of_containers(f"object.spec.{one}") for one in _RUNNING),
    )


def _many_of_debugging() -> Document:
    return _many(
        _many_members("oldObject.spec.ephemeralContainers", "object.spec.volumes"),
        *(_many_of_containers(f"object.spec.{one}") for one in _DEBUGGING),
    )


def _many_of_resized() -> Document:
    return _many(
        *(
            _many_of_containers(f"{one}.spec.{member}", variable)
            for one, variable in (("object", "c"), ("oldObject", "o"))
            for member in _RUNNING
        )
    )


def _devices(paths: Sequence[str]) -> Document:
    """Names of the volumes that are host paths which begin like one of these."""
    return _volumes(_any_path(paths, ""))


def _directories() -> Document:
    """Names of the volumes that are in a directory of devices, or hold one."""
    inside = _any_path(bypass.DEVICE_DIRECTORIES, "(/|$)")
    above = sorted(
        {
            str(parent)
            for directory in bypass.DEVICE_DIRECTORIES
            for parent in PurePosixPath(directory).parents
            if parent.name
        }
    )
    return _volumes(f"{inside}|{_any_path(above, '/*$')}|^(/+[.])*/+[.]?$")


def _volumes(pattern: str) -> Document:
    volumes = "object.spec.volumes"
    found = f"{volumes}.filter(v, has(v.hostPath) && v.hostPath.path.matches({quote(pattern)}))"
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


def _in_few(rule: _Rule) -> Document:
    """The validation of a rule, for pods that all rules look through.

    The API server evaluates the message also where there is nothing to say.
    """
    return _validation(
        replace(rule, offenders=f"(size(variables.many) > 0 ? [] : {rule.offenders})")
    )


def _about_sources(namespaces: ManagedNamespaces, modes: ModeSettings) -> Iterable[Document]:
    """The policy on ConfigMaps and Secrets; what stands there already is left alone."""
    new, old = "object.data", "oldObject.data"
    kept = f"oldObject != null && has({old}) && k in {old} && {old}[k] == {new}[k]"
    found = f"[{listed(bypass.VARIABLES)}].filter(k, has({new}) && k in {new} && !({kept}))"
    rule = _Rule(
        offenders=found,
        before="data:",
        text="shows GPUs to every container that loads it with envFrom; remove the key, and"
        " request GPUs in resources.limits",
    )
    yield admission_policies.policy(
        SOURCES_POLICY,
        [admission_policies.rule("", ["configmaps", "secrets"], ["CREATE", "UPDATE"])],
        [_validation(rule)],
        namespaces=namespaces,
    )
    yield from _bindings(SOURCES_POLICY, _SURE, modes)


def _about_queues(
    cel: _Cel, namespaces: ManagedNamespaces, modes: ModeSettings
) -> Iterable[Document]:
    """The policies on pods that ask for GPUs in namespaces that enforce queues.

    The webhook refuses such a pod, or gives it a gate. One without was created while the webhook
    did not answer, or while it knew nothing of the mode.
    """
    gated = f"has(object.{_GATES}) && size(object.{_GATES}) <= {MOST} && {_gated('object')}"
    not_of_owner = {"name": "not-of-an-admitted-job", "expression": _is_not_of_admitted_owner()}
    for name, text, conditions in (
        (
            CLAIMS_POLICY,
            _CLAIM_TEXT,
            [
                {"name": "asks-by-claim", "expression": webhooks.asks_by_claim("object")},
                {"name": "names-no-node", "expression": "!has(object.spec.nodeName)"},
            ],
        ),
        (
            ENFORCE_POLICY,
            _ENFORCE_TEXT,
            [{"name": "asks-by-name", "expression": cel.asks_by_name()}],
        ),
    ):
        yield admission_policies.policy(
            name,
            [admission_policies.rule("", ["pods"], ["CREATE"])],
            [{"expression": gated, "message": text, "reason": "Forbidden"}],
            namespaces=namespaces,
            conditions=[_not_by_node(), *conditions, not_of_owner],
        )
        for where, expressions in chosen(
            names.ENFORCE_LABEL,
            ["true"],
            with_queue=modes.with_queue.enforce,
            without_queue=modes.without_queue.enforce,
        ):
            yield admission_policies.binding(
                name,
                ["Deny", "Audit"],
                choice=where.removeprefix("-"),
                selector={"matchExpressions": expressions},
            )


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


def _bindings(
    policy: str, reactions: Iterable[_Reaction], modes: ModeSettings
) -> Iterable[Document]:
    for reaction in reactions:
        for where, expressions in chosen(
            names.BYPASS_LABEL,
            reaction.choices,
            with_queue=modes.with_queue.bypass in reaction.choices,
            without_queue=modes.without_queue.bypass in reaction.choices,
        ):
            yield admission_policies.binding(
                policy,
                reaction.actions,
                choice=f"{reaction.name}{where}",
                selector={"matchExpressions": expressions},
            )


def chosen(
    label: str, choices: Sequence[str], *, with_queue: bool, without_queue: bool
) -> Iterable[tuple[str, list[Document]]]:
    """Return the selectors that together choose the namespaces for which a choice holds.

    Args:
        label: by which namespaces choose.
        choices: those of its values that are meant.
        with_queue: whether namespaces with a LocalQueue that choose nothing are meant.
        without_queue: likewise those without one.

    Returns:
        Each with what distinguishes the names of the bindings.
    """
    others = [value for value in LABEL_VALUES[label] if value not in choices]
    if with_queue and without_queue:
        yield "", [{"key": label, "operator": "NotIn", "values": others}]
        return
    yield "", [{"key": label, "operator": "In", "values": list(choices)}]
    unsaid = {"key": label, "operator": "NotIn", "values": list(LABEL_VALUES[label])}
    if with_queue:
        yield "-with-queue", [unsaid, {"key": names.HAS_QUEUE_LABEL, "operator": "Exists"}]
    if without_queue:
        absent = {"key": names.HAS_QUEUE_LABEL, "operator": "DoesNotExist"}
        yield "-without-queue", [unsaid, absent]
