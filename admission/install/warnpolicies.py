"""Policies in the API server that warn about what this program leaves without effect.

They are ValidatingAdmissionPolicies with the action Warn: kubectl prints their sentence and the
object is stored all the same. They cost no request to the webhook, work while it is down, and
one that fails is ignored. The sentence says first what holds, then what to do (ADR 0092).

The expressions use what Kubernetes 1.30 has. They look through lists and maps of a user's up to
`webhooks.MOST` members, and say nothing about larger ones.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from admission.base import names
from admission.base.namespaces import ManagedNamespaces
from admission.config.settings import Settings
from admission.gpu import foreign, resources
from admission.gpu.foreign import Foreign
from admission.install import admission_policies, webhooks
from admission.install.admission_policies import Document
from admission.install.webhooks import MOST, quote
from admission.owners import integrations

APPS_POLICY: Final = "gpu-admission-warn-queue-label-apps"
OWNERS_POLICY: Final = "gpu-admission-warn-queue-label"
POD_NAMES_POLICY: Final = "gpu-admission-warn-gpu-names"
TEMPLATE_NAMES_POLICY: Final = "gpu-admission-warn-gpu-names-templates"
QUEUE_FIELDS_POLICY: Final = "gpu-admission-warn-clusterqueue-fields"
FLAVOR_FIELDS_POLICY: Final = "gpu-admission-warn-resourceflavor-fields"

APPS: Final = ("deployments", "statefulsets")
OWNERS: Final[Sequence[tuple[str, tuple[str, ...]]]] = (
    ("jobset.x-k8s.io", ("jobsets",)),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",)),
    ("ray.io", ("rayclusters", "rayjobs", "rayservices")),
    (
        "kubeflow.org",
        ("jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"),
    ),
    ("trainer.kubeflow.org", ("trainjobs",)),
    ("workload.codeflare.dev", ("appwrappers",)),
    ("sparkoperator.k8s.io", ("sparkapplications",)),
)
"""Kinds besides Deployment and StatefulSet whose queue label Kueue reads; none need exist here."""

_QUEUE: Final = quote(names.QUEUE_LABEL)
_GUIDE: Final = "docs/limits-of-support.md"
_OF_TEMPLATES: Final = ("apps/v1", "batch/v1")
"""Versions of controllers whose users were warned about the template already."""
_TEMPLATED: Final = ("daemonsets", "deployments", "replicasets", "statefulsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Warning:
    """A sentence, and when it is said.

    Attributes:
        unless: CEL: nothing is to be said.
        text: CEL: the sentence.
        message: the sentence for where that CEL fails.
    """

    unless: str
    text: str
    message: str


def documents(settings: Settings) -> list[Document]:
    """The policies, each followed by its binding.

    Args:
        settings: the managed resources and the managed namespaces.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    namespaces = settings.managed_namespaces
    managed = resources.managed(settings.gpu.managed_resources)
    is_managed = webhooks.names_managed("r", managed)
    found = (
        _policy(
            APPS_POLICY, [_rule("apps", APPS, "UPDATE")], [_label_of_app()],
            conditions=[_labelled()], namespaces=namespaces,
        ),
        _policy(
            OWNERS_POLICY, list(_rules_of_owners()), [_label_of_owner()],
            conditions=[_labelled(), _not_owned()], namespaces=namespaces,
        ),
        _policy(
            POD_NAMES_POLICY, [_rule("", ["pods"])], _gpu_names(is_managed),
            conditions=[_asks_elsewhere("object", is_managed), _not_owned(_OF_TEMPLATES)],
            variables=_variables("object"), namespaces=namespaces,
        ),
        _policy(
            TEMPLATE_NAMES_POLICY, [_rule("apps", _TEMPLATED), _rule("batch", ["jobs"])],
            _gpu_names(is_managed),
            conditions=[_asks_elsewhere("object.spec.template", is_managed), _not_owned()],
            variables=_variables("object.spec.template"), namespaces=namespaces,
        ),
        _policy(
            QUEUE_FIELDS_POLICY,
            [_rule(names.KUEUE_GROUP, ["clusterqueues"], "UPDATE", scope="Cluster")],
            [_without_effect("concurrentAdmissionPolicy", "flavors are tried in their order")],
        ),
        _policy(
            FLAVOR_FIELDS_POLICY,
            [_rule(names.KUEUE_GROUP, ["resourceflavors"], "UPDATE", scope="Cluster")],
            [_without_effect("topologyName", "quota is given without looking at racks or blocks")],
        ),
    )  # fmt: skip
    return [
        document
        for policy in found
        for document in (policy, admission_policies.binding(policy["metadata"]["name"], ["Warn"]))
    ]


# ------------------------------------------------------------------------------------ queue labels


def _rules_of_owners() -> Iterable[Document]:
    """Changes of the owners whose queue label is not read: those that are not held as a whole."""
    held = {(one.group, one.plural) for one in integrations.HELD}
    for group, plurals in OWNERS:
        unread = [plural for plural in plurals if (group, plural) not in held]
        if unread:
            yield _rule(group, unread, "UPDATE")


def _label_of_app() -> _Warning:
    labels = "object.spec.template.metadata.labels"
    return _Warning(
        unless=(
            "has(object.spec.template.metadata) && "
            f"has({labels}) && {_QUEUE} in {labels} && {labels}[{_QUEUE}] != ''"
        ),
        text=(
            f"'Not queued: the label {names.QUEUE_LABEL} of a ' + request.kind.kind +"
            " ' is not read, so its pods do not go through queue ' +"
            f" object.metadata.labels[{_QUEUE}] + '. Set the label in"
            " spec.template.metadata.labels: each pod is then admitted by itself."
            f" See {_GUIDE}'"
        ),
        message=f"Not queued: set {names.QUEUE_LABEL} in spec.template.metadata.labels",
    )


def _label_of_owner() -> _Warning:
    return _Warning(
        unless="false",
        text=(
            f"'Not queued: the label {names.QUEUE_LABEL} of a ' + request.kind.kind +"
            " ' is not read, so its pods do not go through queue ' +"
            f" object.metadata.labels[{_QUEUE}] + '. Set the label in each of its pod templates:"
            " each pod is then admitted by itself, so a part of them may start before the rest."
            f" See {_GUIDE}'"
        ),
        message=f"Not queued: set {names.QUEUE_LABEL} in each of the pod templates",
    )


def _labelled() -> Document:
    """The object names a queue, and did not name it before."""
    new, old = "object.metadata.labels", "oldObject.metadata.labels"
    kept = (
        f"oldObject != null && has({old}) && {_QUEUE} in {old}"
        f" && {old}[{_QUEUE}] == {new}[{_QUEUE}]"
    )
    expression = f"has({new}) && {_QUEUE} in {new} && {new}[{_QUEUE}] != '' && !({kept})"
    return {"name": "names-a-queue", "expression": expression}


def _not_owned(versions: Sequence[str] = ()) -> Document:
    """Nobody reads what a controller is warned about.

    Args:
        versions: API versions of the controllers that are meant; none stands for all.
    """
    owners = "object.metadata.ownerReferences"
    of = f" && o.apiVersion in [{', '.join(map(quote, versions))}]" if versions else ""
    is_owner = f"{owners}.exists(o, has(o.controller) && o.controller{of})"
    owned = f"has({owners}) && (size({owners}) > {MOST} || {is_owner})"
    return {"name": "not-made-by-a-controller", "expression": f"!({owned})"}


# --------------------------------------------------------------------------------------- GPU names


def _gpu_names(is_managed: str) -> list[_Warning]:
    return [
        _annotated(row) if row.is_annotation else _requested(row, is_managed)
        for row in foreign.TABLE
    ]


def _requested(row: Foreign, is_managed: str) -> _Warning:
    """A resource that no quota counts; a pod with a queue is counted whatever it asks for."""
    found = _limits(row.pattern, is_managed)
    asking = f"variables.containers.filter(c, {_has_limits()} && size({found}) > 0)"
    listed = f"{asking}.map(c, ({found}).join(', ') + ' of container ' + c.name).join('; ')"
    text = f" ({row.vendor}: {row.unit}) is not counted by any quota. {_mend(row)}"
    return _Warning(
        unless=f"variables.queued || size({asking}) == 0",
        text=f"'Outside quota: ' + {listed} + {quote(text)}",
        message=f"Outside quota: {row.examples[0]}{text}",
    )


def _annotated(row: Foreign) -> _Warning:
    found = f"variables.annotations.filter(k, {_matches('k', [row.pattern])})"
    text = f" ({row.vendor}: {row.unit}) is not counted by any quota. {_mend(row)}"
    return _Warning(
        unless=f"size({found}) == 0",
        text=f"'Outside quota: annotation ' + {found}.join(', ') + {quote(text)}",
        message=f"Outside quota: annotation {row.examples[0]}{text}",
    )


def _mend(row: Foreign) -> str:
    return f"{row.mend.value[:1].upper()}{row.mend.value[1:]}. See {_GUIDE}"


def _variables(pod: str) -> list[Document]:
    """What the sentences about GPU names look at.

    Args:
        pod: path of the pod, or of the template of pods.
    """
    annotations = f"{pod}.metadata.annotations"
    containers = [f"{pod}.spec.{member}" for member in ("containers", "initContainers")]
    queued = " || ".join(
        f"(has({one}.metadata) && has({one}.metadata.labels) && {_QUEUE} in {one}.metadata.labels)"
        for one in dict.fromkeys([pod, "object"])
    )
    has_annotations = f"has({pod}.metadata) && {_has_few(annotations)}"
    return [
        {
            "name": "containers",
            "expression": " + ".join(f"({_has_few(one)} ? {one} : [])" for one in containers),
        },
        {
            "name": "annotations",
            "expression": f"{has_annotations} ? {annotations}.map(k, k) : []",
        },
        {"name": "queued", "expression": queued},
    ]


def _asks_elsewhere(pod: str, is_managed: str) -> Document:
    """Some name of the table stands in the pod; all other pods are done with here."""
    named = [row.pattern for row in foreign.TABLE if not row.is_annotation]
    keys = [row.pattern for row in foreign.TABLE if row.is_annotation]
    asks = f"c, {_has_limits()} && c.resources.limits.exists(r, {_foreign(named, is_managed)})"
    annotations = f"{pod}.metadata.annotations"
    containers = [f"{pod}.spec.{member}" for member in ("containers", "initContainers")]
    expression = " || ".join(f"({_has_few(one)} && {one}.exists({asks}))" for one in containers)
    expression += (
        f" || (has({pod}.metadata) && {_has_few(annotations)}"
        f" && {annotations}.exists(k, {_matches('k', keys)}))"
    )
    return {"name": "asks-in-other-words", "expression": expression}


def _limits(pattern: str, is_managed: str) -> str:
    return f"c.resources.limits.filter(r, {_foreign([pattern], is_managed)})"


def _foreign(patterns: Iterable[str], is_managed: str) -> str:
    return f"{_matches('r', patterns)} && !({is_managed})"


def _has_limits() -> str:
    return f"has(c.resources) && {_has_few('c.resources.limits')}"


def _has_few(collection: str) -> str:
    return f"has({collection}) && size({collection}) <= {MOST}"


def _matches(variable: str, patterns: Iterable[str]) -> str:
    return f"{variable}.matches({quote('^(' + '|'.join(patterns) + ')$')})"


# ------------------------------------------------------------------------------------------ fields


def _without_effect(field: str, holds: str) -> _Warning:
    new, old = f"object.spec.{field}", f"oldObject.spec.{field}"
    return _Warning(
        unless=f"!has({new}) || (oldObject != null && has({old}))",
        text=quote(f"Without effect: spec.{field} is not supported, {holds}. See {_GUIDE}"),
        message=f"Without effect: spec.{field} is not supported, {holds}",
    )


# --------------------------------------------------------------------------------------- documents


def _policy(
    name: str,
    rules: list[Document],
    warnings: Iterable[_Warning],
    *,
    conditions: Iterable[Document] = (),
    variables: Iterable[Document] = (),
    namespaces: ManagedNamespaces | None = None,
) -> Document:
    return admission_policies.policy(
        name,
        rules,
        [
            {
                "expression": one.unless,
                "message": re.sub(r"\s+", " ", one.message),
                "messageExpression": one.text,
                "reason": "Invalid",
            }
            for one in warnings
        ],
        fails=False,
        namespaces=namespaces,
        conditions=conditions,
        variables=variables,
    )


def _rule(
    group: str, plurals: Iterable[str], *operations: str, scope: str = "Namespaced"
) -> Document:
    version = "v1" if group in {"", "apps", "batch"} else "*"
    return admission_policies.rule(
        group, plurals, ["CREATE", *operations], version=version, scope=scope
    )
