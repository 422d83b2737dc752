"""What the controller may not do although its role lets it: roles know no fields.

The controller patches pods, Jobs, a label of namespaces, the kinds that it holds by a finalizer,
and the caBundle of what leads API servers to us. Policies in the API
server limit each of these writes to the fields that the controller's code changes, and keep it out
of the excluded namespaces. See docs/adr/0083-the-controllers-account-changes-few-fields.md.

The policies apply to the controller's service account only: every other request is compared with
one name. Expressions treat objects as ``dyn``, so that they hold for fields of later versions.

Lists and maps of a user's are looked through up to `webhooks.MOST` members (ADR 0113).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.base import conditions, names
from admission.config.settings import Settings
from admission.controllers.queues import finalizers
from admission.install import admission_policies, rbac
from admission.install.admission_policies import listed
from admission.install.webhooks import KEY_PREFIXES, MOST, quote
from admission.kube import resources

_NAME: Final = rbac.CONTROLLER_ACCOUNT
_HELD: Final = sorted(one.plural for one in finalizers.RESOURCES.values())
_GATES: Final = (names.ADMISSION_GATE, names.TOPOLOGY_GATE)
_OF_HELD: Final = (names.MANAGED_LABEL, names.QUEUE_LABEL)
"""Labels of every pod that a review has held."""
_MAINTAINED: Final = ("generation", "managedFields", "resourceVersion")
"""Members of an object's metadata that the API server sets itself."""
_CONDITIONS: Final = (conditions.POD_ADMITTED, conditions.TERMINATION_TARGET)
"""Types of the conditions that the controller writes on pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """One CEL expression, and what a refusal says."""

    expression: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """Limits of some requests of the controller.

    Attributes:
        suffix: of the policy's name.
        group: API group of the resources.
        resources: plural names, with their subresource.
        operations: UPDATE, DELETE.
        checks: all of them must hold.
        scope: Namespaced or Cluster.
    """

    suffix: str
    group: str
    resources: Sequence[str]
    operations: Sequence[str] = ("UPDATE",)
    checks: Sequence[_Check]
    scope: str = "Namespaced"


def documents(settings: Settings) -> list[dict[str, Any]]:
    """The policies, each followed by its binding."""
    account = f"system:serviceaccount:{settings.namespace}:{_NAME}"
    unmanaged = settings.gpu.managed_namespaces.unmanaged
    return [
        document
        for policy in (
            _queues(),
            *_pods(unmanaged),
            *_jobs(unmanaged),
            _namespaces(),
            *(_bundles() if settings.certificates.rotate else ()),
        )
        for document in _documents(policy, account)
    ]


# ------------------------------------------------------------------------------------- policies


def _queues() -> _Policy:
    return _Policy(
        suffix="",
        group=names.KUEUE_GROUP,
        resources=_HELD,
        scope="Cluster",
        checks=[
            _Check(
                expression=_same("spec"),
                message="the controller may change finalizers here, and no spec",
            )
        ],
    )


def _pods(unmanaged: Iterable[str]) -> Iterable[_Policy]:
    # A namespace may be excluded while pods wait there: they are still released.
    excluded = f"!(request.namespace in [{listed(unmanaged)}]) || {_is_gated('oldObject')}"
    namespace = _Check(
        expression=excluded, message="the controller may change no pod of an excluded namespace"
    )
    # Gates can only be taken off, so it is enough to count them: there may be thousands.
    ours = (
        f"({_has_gate('oldObject', one)} && !{_has_gate('object', one)} ? 1 : 0)" for one in _GATES
    )
    kept = f"size({_gates('oldObject')}) - size({_gates('object')}) == {' + '.join(ours)}"
    yield _Policy(
        suffix="-pods",
        group="",
        resources=["pods"],
        checks=[
            namespace,
            _Check(
                expression=_is_gated("oldObject"),
                message="the controller may change a pod only while the gate "
                f"{names.ADMISSION_GATE} holds it",
            ),
            _Check(
                expression=_same_but("spec", ("nodeSelector", "schedulingGates", "tolerations")),
                message="the controller may change scheduling gates, node selector and "
                "tolerations of a pod, and nothing else of its spec",
            ),
            _Check(
                expression=kept,
                message="the controller may not take off scheduling gates of others",
            ),
            *_metadata(),
        ],
    )
    yield _pod_status(namespace)
    yield _Policy(
        suffix="-pod-deletion",
        group="",
        resources=["pods"],
        operations=("DELETE",),
        checks=[
            namespace,
            _Check(
                expression=" || ".join(_has_our_key(part) for part in ("labels", "annotations")),
                message="the controller may delete pods with labels or annotations of "
                f"{names.KUEUE_GROUP} only",
            ),
        ],
    )


def _pod_status(namespace: _Check) -> _Policy:
    others = f"filter(c, !(c.type in [{listed(_CONDITIONS)}]))"
    return _Policy(
        suffix="-pod-status",
        group="",
        resources=["pods/status"],
        checks=[
            namespace,
            _Check(
                expression=f"{_same_but('status', ('conditions',))} && "
                f"{_conditions('object')}.{others} == {_conditions('oldObject')}.{others}",
                message=f"the controller may write the conditions {' and '.join(_CONDITIONS)} of "
                "a pod's status, and nothing else of it",
            ),
            _unchanged_metadata(),
        ],
    )


def _jobs(unmanaged: Iterable[str]) -> Iterable[_Policy]:
    namespace = _Check(
        expression=f"!(request.namespace in [{listed(unmanaged)}])",
        message="the controller may change no Job of an excluded namespace",
    )
    counts = ("completions", "parallelism", "suspend", "template")
    scheduling = ("nodeSelector", "tolerations")
    yield _Policy(
        suffix="-jobs",
        group="batch",
        resources=["jobs"],
        checks=[
            namespace,
            _Check(
                expression=f"{_same_but('spec', counts)} && "
                f"{_same_but('spec.template', ('metadata', 'spec'))} && "
                f"{_same_but('spec.template.spec', scheduling)} && "
                f"{_same_but('spec.template.metadata', ('annotations', 'labels'))}",
                message="the controller may change suspend, parallelism and completions of a Job, "
                "and labels, annotations, node selector and tolerations of its pod template, and "
                "nothing else of its spec",
            ),
            *_metadata(),
        ],
    )
    yield _Policy(
        suffix="-job-status",
        group="batch",
        resources=["jobs/status"],
        checks=[
            namespace,
            _Check(
                expression=f"{_same_but('status', ('startTime',))} && "
                "(!has(object.status) || !has(object.status.startTime) || "
                f"{_same('status.startTime')})",
                message="the controller may remove startTime from a Job's status, and change "
                "nothing else of it",
            ),
            _unchanged_metadata(),
        ],
    )
    labels = "oldObject.metadata.labels"
    yield _Policy(
        suffix="-job-deletion",
        group="batch",
        resources=["jobs"],
        operations=("DELETE",),
        checks=[
            namespace,
            _Check(
                expression=f"has({labels}) && {quote(names.QUEUE_LABEL)} in {labels}",
                message=f"the controller may delete Jobs with the label {names.QUEUE_LABEL} only",
            ),
        ],
    )


def _namespaces() -> _Policy:
    """The controller says of a namespace whether it has a LocalQueue."""
    new, old = "object.metadata.labels", "oldObject.metadata.labels"

    def kept(one: str, other: str) -> str:
        same = f"(has({other}) && k in {other} && {other}[k] == {one}[k])"
        every = f"{one}.all(k, k == {quote(names.HAS_QUEUE_LABEL)} || {same})"
        return f"(!has({one}) || (size({one}) <= {MOST} && {every}))"

    return _Policy(
        suffix="-namespaces",
        group="",
        resources=[resources.NAMESPACES.plural],
        scope="Cluster",
        checks=[
            _Check(
                expression=f"{_same('spec')} && {_same_but('metadata', ('labels', *_MAINTAINED))} "
                f"&& {kept(old, new)} && {kept(new, old)}",
                message=f"the controller may change the label {names.HAS_QUEUE_LABEL} of a "
                "namespace, and nothing else of it",
            )
        ],
    )


def _bundles() -> Iterable[_Policy]:
    """The controller writes a caBundle, and nothing else of the objects that hold one."""

    def same_but_bundle(new: str, old: str) -> str:
        config = (f"{new}.clientConfig", f"{old}.clientConfig")
        return f"{_equal(new, old, ('clientConfig',))} && {_equal(*config, ('caBundle',))}"

    hooks = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    listed = "object.webhooks.map(w, w.name) == oldObject.webhooks.map(w, w.name)"
    pairs = f"oldObject.webhooks.exists(o, o.name == w.name && {same_but_bundle('w', 'o')})"
    of_hooks = (
        "has(object.webhooks) == has(oldObject.webhooks) && (!has(object.webhooks) || "
        f"({listed} && object.webhooks.all(w, {pairs})))"
    )
    conversion = "spec.conversion.webhook"
    of_crds = (
        f"{_same_but('spec', ('conversion',))} && {_same_but('spec.conversion', ('webhook',))} && "
        f"has(object.{conversion}) == has(oldObject.{conversion}) && (!has(object.{conversion}) ||"
        f" ({same_but_bundle(f'object.{conversion}', f'oldObject.{conversion}')}))"
    )
    for suffix, kinds, expression in (
        ("-webhooks", hooks, of_hooks),
        ("-crds", (resources.CRDS,), of_crds),
        ("-apiservices", (resources.API_SERVICES,), _same_but("spec", ("caBundle",))),
    ):
        yield _Policy(
            suffix=suffix,
            group=kinds[0].group,
            resources=[one.plural for one in kinds],
            scope="Cluster",
            checks=[
                _Check(
                    expression=expression,
                    message="the controller may change the caBundle here, and nothing else",
                ),
                _unchanged_metadata(),
            ],
        )


def _metadata() -> Iterable[_Check]:
    """Keys of others may be added, as admission checks say; they are not changed or removed."""
    yield _Check(
        expression=_same_but("metadata", ("annotations", "labels", *_MAINTAINED)),
        message="the controller may change labels and annotations, and no other metadata",
    )
    for member in ("annotations", "labels"):
        new, old = f"object.metadata.{member}", f"oldObject.metadata.{member}"
        kept = f"(has({new}) && k in {new} && {new}[k] == {old}[k])"
        # An object with more was made so by a user; the controller cannot get there.
        few = f"(!has({new}) || size({new}) <= {MOST})"
        every = f"{old}.all(k, {_is_our_key('k')} || {kept})"
        yield _Check(
            expression=f"!has({old}) || size({old}) > {MOST} || ({few} && {every})",
            message=f"the controller may not change {member} of others",
        )


def _unchanged_metadata() -> _Check:
    return _Check(
        expression=_same_but("metadata", _MAINTAINED),
        message="the controller may change no metadata here",
    )


# ------------------------------------------------------------------------------------------ CEL


def _same(path: str) -> str:
    """A member of the object, which may be absent, is as it was."""
    new, old = f"object.{path}", f"oldObject.{path}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def _same_but(path: str, members: Iterable[str]) -> str:
    """Every member of an object is as it was, but for the named ones; it may be absent."""
    *above, _ = path.split(".")

    def all_in(one: str, other: str) -> str:
        mine, theirs = f"dyn({one}.{path})", f"{other}.{path}"
        equal = f"has({theirs}) && k in dyn({theirs}) && dyn({theirs})[k] == {mine}[k]"
        every = f"{mine}.all(k, k in [{listed(members)}] || ({equal}))"
        parents = [f"!has({one}.{'.'.join(above[: n + 1])})" for n in range(len(above))]
        return f"({' || '.join([*parents, f'!has({one}.{path})', every])})"

    return f"{all_in('object', 'oldObject')} && {all_in('oldObject', 'object')}"


def _equal(new: str, old: str, members: Iterable[str]) -> str:
    """Two objects that are there have the same members but for the named ones."""
    others = f"k in [{listed(members)}]"
    changed = f"(k in dyn({old}) && dyn({old})[k] == dyn({new})[k])"
    return (
        f"dyn({new}).all(k, {others} || {changed}) && dyn({old}).all(k, {others} || k in"
        f" dyn({new}))"
    )


def _conditions(variable: str) -> str:
    path = f"{variable}.status.conditions"
    return f"(has({variable}.status) && has({path}) ? {path} : [])"


def _is_gated(variable: str) -> str:
    return _has_gate(variable, names.ADMISSION_GATE)


def _has_gate(variable: str, gate: str) -> str:
    return f"(dyn({{'name': {quote(gate)}}}) in dyn({_gates(variable)}))"


def _gates(variable: str) -> str:
    path = f"{variable}.spec.schedulingGates"
    return f"(has({path}) ? {path} : [])"


def _has_our_key(member: str) -> str:
    path = f"oldObject.metadata.{member}"
    one = f"{path}.exists(k, {_is_our_key('k')})"
    held = f"[{listed(_OF_HELD)}].exists(k, k in {path})"
    return f"(has({path}) && (size({path}) > {MOST} ? {held} : {one}))"


def _is_our_key(variable: str) -> str:
    tests = (f"{variable}.startsWith({quote(prefix)})" for prefix in KEY_PREFIXES)
    return f"({' || '.join(tests)})"


# ------------------------------------------------------------------------------------ documents


def _documents(policy: _Policy, account: str) -> Iterable[dict[str, Any]]:
    name = f"{_NAME}{policy.suffix}"
    by_controller = {
        "name": "by-the-controller",
        "expression": f"request.userInfo.username == {quote(account)}",
    }
    requests = admission_policies.rule(
        policy.group, policy.resources, policy.operations, version="*", scope=policy.scope
    )
    yield admission_policies.policy(
        name,
        [requests],
        [
            {"expression": one.expression, "message": one.message, "reason": "Forbidden"}
            for one in policy.checks
        ],
        conditions=[by_controller],
    )
    yield admission_policies.binding(name, ["Deny"])
