"""Policies in the API server: what only the controller may change of pods and Jobs.

Quota is counted by a few marks on pods and on the pod templates of Jobs, and held back by a gate.
Whoever may edit pods could take them off, or run more pods of a Job than were admitted. The
policies refuse that. They trust whoever may write the status of Workloads: the controller, under
whatever account it runs, and cluster administrators (ADR 0114).

The expressions use what Kubernetes 1.30 has. They look keys up, and look through annotations of
pods only where those change, up to `webhooks.MOST` of them (ADR 0113).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from admission.base import names
from admission.config.settings import Settings
from admission.install import admission_policies
from admission.install.admission_policies import Document, listed
from admission.install.webhooks import MOST, quote
from admission.kube import resources
from admission.owners import integrations

PODS_POLICY: Final = "gpu-admission-protect-pods"
NEW_PODS_POLICY: Final = "gpu-admission-protect-new-pods"
JOBS_POLICY: Final = "gpu-admission-protect-jobs"

LABELS: Final = (
    names.MANAGED_LABEL,
    names.PODSET_LABEL,
    names.LOCAL_QUEUE_NAME_LABEL,
    names.CLUSTER_QUEUE_NAME_LABEL,
)
"""Labels of a pod by which its GPUs are counted."""

ANNOTATIONS: Final = (names.WORKLOAD_ANNOTATION,)
"""Annotations of a pod by which its GPUs are counted, besides those of `OWN_PREFIX`."""

OWN_PREFIX: Final = f"{names.OWN_DOMAIN}/"
"""Annotations of a pod that begin like this are ours, but for `REQUESTS`."""

REQUESTS: Final = (names.MIG_PROFILE, names.GPU_MEMORY)
"""Annotations by which users ask for GPUs; also with ``.<container>`` behind them. They are read
when the pod is created, so a later change has no effect."""

_TRUSTED: Final = "variables.trusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """A CEL expression that must hold for whoever is not trusted, and what a refusal says."""

    expression: str
    message: str


def documents(settings: Settings) -> list[Document]:
    """Return the policies, each followed by its binding.

    Args:
        settings: the managed namespaces.
    """
    return [
        document
        for policy in (_new_pods(settings), _pods(settings), _jobs(settings))
        for document in (policy, admission_policies.binding(policy["metadata"]["name"], ["Deny"]))
    ]


def _new_pods(settings: Settings) -> Document:
    """The marks of a release come with no pod that somebody makes by hand."""
    marks = [("labels", label) for label in LABELS if label != names.MANAGED_LABEL] + [
        ("annotations", annotation) for annotation in ANNOTATIONS
    ]
    makers = sorted({user for kind in integrations.HELD for user in kind.pod_makers})
    checks = [
        _Check(
            expression=f"request.userInfo.username in [{listed(makers)}]",
            message="Only the controller may set the labels and annotations by which a pod's GPUs "
            f"are charged to a queue: {', '.join(key for _, key in marks)}. Leave them out",
        )
    ]
    marked = " || ".join(_has(f"object.metadata.{member}", key) for member, key in marks)
    return _policy(
        NEW_PODS_POLICY, "", ["pods"], checks, settings,
        condition={"name": "bears-a-mark", "expression": marked}, operation="CREATE",
    )  # fmt: skip


def _pods(settings: Settings) -> Document:
    gate = f"dyn({{'name': {quote(names.ADMISSION_GATE)}}})"
    gated_before = f"{gate} in dyn({_or_empty('oldObject.spec.schedulingGates', '[]')})"
    gated = f"{gate} in dyn({_or_empty('object.spec.schedulingGates', '[]')})"
    checks = [
        *(_kept("labels", label) for label in LABELS),
        *(_kept("annotations", annotation) for annotation in ANNOTATIONS),
        _own_annotations(),
        _Check(
            expression=f"!({gated_before}) || {gated}",
            message=f"Only the controller may take off the gate {names.ADMISSION_GATE}, when it "
            "admits the pod. To run the pod without a queue, use a namespace that is not managed",
        ),
    ]
    counted = [
        _has(f"{one}.metadata.{member}", key)
        for member, keys in (("labels", LABELS), ("annotations", ANNOTATIONS))
        for key in keys
        for one in ("oldObject", "object")
    ]
    held_for_a_parent = f"({gated_before})"  # such a pod has no label yet
    return _policy(
        PODS_POLICY, "", ["pods", "pods/status"], checks, settings,
        condition={"name": "is-counted", "expression": " || ".join([*counted, held_for_a_parent])},
    )  # fmt: skip


def _kept(member: str, key: str) -> _Check:
    """A label or annotation that is there stays as it is, and is not added."""
    before, after = (_value(f"{one}.metadata.{member}", key) for one in ("oldObject", "object"))
    return _Check(
        expression=f"{before} == {after}",
        message=f"Only the controller may change the {member.removesuffix('s')} {key}: the pod's "
        "GPUs are charged to a queue by it. To give the quota back, delete the pod",
    )


def _own_annotations() -> _Check:
    """Our annotations stay; of a pod with too many to look through, all of them."""
    new, old = "object.metadata.annotations", "oldObject.metadata.annotations"
    own = f"k.startsWith({quote(OWN_PREFIX)})"
    asking = " || ".join(
        f"k == {quote(key)} || k.startsWith({quote(f'{key}.')})" for key in REQUESTS
    )

    def kept(one: str, other: str) -> str:
        same = f"(has({other}) && k in {other} && {other}[k] == {one}[k])"
        every = f"{one}.all(k, !{own} || {asking} || {same})"
        return f"(!has({one}) || (size({one}) <= {MOST} && {every}))"

    unchanged = f"has({old}) == has({new}) && (!has({new}) || {old} == {new})"
    return _Check(
        expression=f"({unchanged}) || ({kept(old, new)} && {kept(new, old)})",
        message=f"Only the controller may change annotations that begin with {OWN_PREFIX}: they "
        "say what the pod got at its creation. To ask for something else, create a new pod",
    )


def _jobs(settings: Settings) -> Document:
    marks = "spec.template.metadata.annotations"
    before, after = (
        f"(has({one}.spec.template.metadata) ? "
        f"{_value(f'{one}.{marks}', names.WORKLOAD_ANNOTATION)} : '')"
        for one in ("oldObject", "object")
    )
    runs_before = f"!{_or_empty('oldObject.spec.suspend', 'false')}"
    runs = f"!{_or_empty('object.spec.suspend', 'false')}"
    pods_before, pods = map(_pods_at_a_time, ("oldObject", "object"))
    checks = [
        _Check(
            expression=f"{after} == '' || {after} == {before}",
            message=f"Only the controller may set the annotation {names.WORKLOAD_ANNOTATION} of "
            "the pod template: it lets pods start. Leave it out",
        ),
        _Check(
            expression=f"{after} == '' || !({runs}) || {runs_before}",
            message="The Job waits to be admitted again. Leave spec.suspend as it is: the "
            "controller starts the Job then",
        ),
        _Check(
            expression=f"{after} == '' || !({runs}) || {pods} <= {pods_before}",
            message="More pods than were admitted would run. Set spec.suspend to true in the same "
            "update: the Job starts again when it is admitted with all of them",
        ),
        _Check(
            expression=f"{_replacement('oldObject')} != 'Failed' || "
            f"{_replacement('object')} == 'Failed'",
            message="More pods than were admitted would run while old ones end. Leave "
            "spec.podReplacementPolicy at Failed",
        ),
    ]
    queued = " || ".join(
        _has(f"{one}.metadata.labels", names.QUEUE_LABEL) for one in ("oldObject", "object")
    )
    return _policy(
        JOBS_POLICY, "batch", ["jobs"], checks, settings,
        condition={"name": "has-a-queue", "expression": queued},
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ CEL


def _pods_at_a_time(job: str) -> str:
    """How many pods of a Job run at a time at most."""
    parallelism, completions = (f"{job}.spec.{field}" for field in ("parallelism", "completions"))
    parallelism = _or_empty(parallelism, "1")
    fewer = f"has({completions}) && {completions} < {parallelism}"
    return f"({fewer} ? {completions} : {parallelism})"


def _replacement(job: str) -> str:
    """When a Job makes a pod in the place of another."""
    return _or_empty(f"{job}.spec.podReplacementPolicy", "''")


def _has(path: str, key: str) -> str:
    return f"(has({path}) && {quote(key)} in {path})"


def _value(path: str, key: str) -> str:
    """The value of a key, and an empty text where there is none."""
    return f"({_has(path, key)} ? {path}[{quote(key)}] : '')"


def _or_empty(path: str, empty: str) -> str:
    return f"(has({path}) ? {path} : {empty})"


# ------------------------------------------------------------------------------------ documents


def _policy(
    name: str,
    group: str,
    plurals: Sequence[str],
    checks: Iterable[_Check],
    settings: Settings,
    *,
    condition: Document,
    operation: str = "UPDATE",
) -> Document:
    workloads = resources.WORKLOADS
    trusted = (
        f"authorizer.group({quote(workloads.group)}).resource({quote(workloads.plural)})"
        ".subresource('status').namespace(request.namespace).check('update').allowed()"
    )
    return admission_policies.policy(
        name,
        [admission_policies.rule(group, plurals, [operation])],
        [
            {
                "expression": f"({one.expression}) || {_TRUSTED}",
                "message": one.message,
                "reason": "Forbidden",
            }
            for one in checks
        ],
        namespaces=settings.gpu.managed_namespaces,
        conditions=[condition],
        variables=[{"name": "trusted", "expression": trusted}],
    )
