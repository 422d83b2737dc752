"""ResourceFlavor: one kind of hardware, selected by the labels of its nodes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

from admission.base import fielderrors, names, syntax
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.base.names import FlavorName
from admission.gpu import capabilities as capabilities_of_gpus
from admission.gpu import mig_profile_names as profile_names
from admission.gpu.capabilities import FlavorCapabilities
from admission.objects import markers, rule_checks, values, views
from admission.objects.fields import SUBDOMAIN, Timestamp
from admission.objects.markers import CelRule
from admission.objects.rule_checks import Row, RuleBreach, Syntax
from admission.objects.viewbase import Object, View
from admission.scheduling import model

_EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
_EFFECT_MESSAGE = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
_TAINT_RULES = markers.rules(
    CelRule(f"self.all(taint, taint.effect in {_EFFECTS})", _EFFECT_MESSAGE)
)
"""Rule ``Taint 1`` of docs/reference/rules.md."""


TOLERATION_RULES = markers.rules(
    CelRule(
        "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    CelRule(
        "self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    CelRule(
        "self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    CelRule(
        "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    CelRule(f"self.all(t, !has(t.effect) || t.effect in {_EFFECTS})", _EFFECT_MESSAGE),
)
"""Rules ``Toleration 1`` to ``Toleration 5`` of docs/reference/rules.md, in that order.

Source: kueue apis/kueue/v1beta2/resourceflavor_types.go. The guards with ``has`` let a toleration
without key or effect be refused by a rule instead of failing the expression.
"""


class FlavorTaint(views.Taint, frozen=True, kw_only=True):
    """A taint of a node."""

    time_added: Timestamp | None = None
    """When the taint was added."""


class ResourceFlavorSpec(View, frozen=True, kw_only=True):
    """Which nodes belong to the flavor."""

    rules: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)",
            "at least one nodeLabel is required when topology is set",
        ),
        *(
            CelRule(
                f"!has(oldSelf.topologyName) || (has(self.{field}) == has(oldSelf.{field})"
                f" && (!has(self.{field}) || self.{field} == oldSelf.{field}))",
                f"{field} are immutable when topologyName is set",
            )
            for field in ("nodeLabels", "tolerations")
        ),
        CelRule(
            "!has(oldSelf.topologyName)"
            " || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            "topologyName is immutable when topologyName is set",
        ),
    )

    node_labels: Annotated[dict[str, str], markers.map_atomic(at_most=8)] | None = None
    """Labels that all nodes of the flavor carry. Pods that get the flavor select these nodes."""

    node_taints: (
        Annotated[tuple[FlavorTaint, ...], markers.list_atomic(at_most=8), _TAINT_RULES] | None
    ) = None
    """Taints of the flavor's nodes. Only workloads that tolerate them may use the flavor."""

    tolerations: (
        Annotated[tuple[views.Toleration, ...], markers.list_atomic(at_most=8), TOLERATION_RULES]
        | None
    ) = None
    """Tolerations that pods get together with the flavor."""

    topology_name: Annotated[str, SUBDOMAIN] = ""
    """The Topology by which pods are placed on the flavor's nodes."""


class ResourceFlavor(Object, frozen=True, kw_only=True):
    """One kind of hardware that quota is counted in."""

    spec: ResourceFlavorSpec = ResourceFlavorSpec()
    """Which nodes belong to the flavor."""


def scheduling_value(view: ResourceFlavor) -> model.ResourceFlavor:
    """Return a ResourceFlavor as a value of scheduling."""
    spec = view.spec
    return model.ResourceFlavor(
        name=FlavorName(view.metadata.name),
        node_labels=dict(spec.node_labels or {}),
        node_taints=values.taints(spec.node_taints or ()),
        tolerations=values.tolerations(spec.tolerations or ()),
        topology=spec.topology_name,
        placement=_placement(view.metadata.annotation(names.PLACEMENT)),
        spare_nodes=_spare_nodes(view.metadata.annotation(names.SPARE_NODES)),
    )


def _placement(text: str) -> model.Enforcement | None:
    """Return what an annotation says; None where it says nothing that is known."""
    return next((enforcement for enforcement in model.Enforcement if enforcement == text), None)


def _spare_nodes(text: str) -> model.SpareNodes | None:
    """Return what an annotation ``LEVEL=COUNT`` says; None where it does not have that form."""
    level, _, number = text.partition("=")
    count = syntax.whole_number(number.strip())
    return model.SpareNodes(level.strip(), count) if level.strip() and count else None


def capabilities(
    flavor: ResourceFlavor, resources: Iterable[str], ceilings: Mapping[str, int]
) -> FlavorCapabilities:
    """Return the GPU capabilities of a flavor in one queue.

    Args:
        flavor: the flavor.
        resources: what the queue covers with it.
        ceilings: the most that one Workload may ever get, by resource; missing = no limit.
    """
    metadata, labels = flavor.metadata, flavor.spec.node_labels or {}
    product = metadata.annotation(names.FLAVOR_PRODUCT) or labels.get(names.GPU_PRODUCT_LABEL, "")
    return FlavorCapabilities(
        name=metadata.name,
        product=product,
        resources=frozenset(resources),
        profile=metadata.annotation(names.MIG_PROFILE),
        sharing=metadata.annotation(names.FLAVOR_SHARING),
        replicas=_count(metadata.annotation(names.FLAVOR_REPLICAS), 1),
        fail_above_one=_flag(metadata.annotations or {}, names.FAIL_ABOVE_ONE),
        gpus_per_node=_count(labels.get(names.GPU_COUNT_LABEL, ""), 0),
        ceilings=ceilings,
    )


def is_count(text: str) -> bool:
    """Return whether a text is a whole number from 1."""
    return bool(syntax.whole_number(text))


def _count(text: str, otherwise: int) -> int:
    return syntax.whole_number(text) or otherwise


def _flag(annotations: Mapping[str, str], key: str) -> bool | None:
    return annotations[key] == "true" if key in annotations else None


# ------------------------------------------------------------------------------- validation
# Source: kueue pkg/webhooks/resourceflavor_webhook.go.


def _whole_number(path: FieldPath, value: str) -> Iterator[FieldError]:
    if not is_count(value):
        yield fielderrors.invalid(path, value, "must be a whole number, 1 or more")


def _spares(path: FieldPath, value: str) -> Iterator[FieldError]:
    spare = _spare_nodes(value)
    if spare is None:
        yield fielderrors.invalid(
            path, value, "must be LEVEL=COUNT, such as example.com/rack=2, with a COUNT from 1 on"
        )
    else:
        yield from syntax.label_key(path, spare.level)


def _profile(path: FieldPath, value: str) -> Iterator[FieldError]:
    try:
        problem = profile_names.refuse_compute_instance(profile_names.parse(value))
    except InvalidValueError as error:
        problem = error.rule
    if problem:
        yield fielderrors.invalid(path, value, problem)


_ANNOTATIONS: Final[Mapping[str, rule_checks.Check]] = {
    names.MIG_PROFILE: _profile,
    names.FLAVOR_SHARING: rule_checks.word(*capabilities_of_gpus.SHARING_NAMES),
    names.FLAVOR_REPLICAS: _whole_number,
    names.FAIL_ABOVE_ONE: rule_checks.word("true", "false"),
    names.SPARE_NODES: _spares,
    names.PLACEMENT: rule_checks.word(*(str(enforcement) for enforcement in model.Enforcement)),
}
"""Annotations of a ResourceFlavor, each with its rule."""

_SPEC: Final = FieldPath.of("spec")
_TAINTS: Final = _SPEC.child("nodeTaints")

CheckedTaint = tuple[FieldPath, views.Taint, bool]
"""Path, the taint, and whether its key and effect stood before."""


def _taint_key(taint: CheckedTaint) -> Iterable[FieldError]:
    path, view, _ = taint
    return syntax.label_key(path.child("key"), view.key)


def _taint_value(taint: CheckedTaint) -> Iterable[RuleBreach]:
    path, view, _ = taint
    errors = rule_checks.label_value_errors(view.value)
    if errors:
        yield RuleBreach(path.child("value"), view.value, {"errors": ";".join(errors)})


def _repeated_taint(taint: CheckedTaint) -> Iterable[RuleBreach]:
    path, view, is_repeated = taint
    if is_repeated:
        yield RuleBreach(path, _shown(view))


def _shown(taint: views.Taint) -> dict[str, Any]:
    members = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {name: text for name, text in members.items() if text or name != "value"}


TAINTS: Final[tuple[Row[CheckedTaint], ...]] = (
    Syntax("ResourceFlavor 2", _taint_key),
    rule_checks.Rule("ResourceFlavor 3", ErrorType.INVALID, "{errors}", _taint_value),
    rule_checks.Rule(
        "ResourceFlavor 4", ErrorType.DUPLICATE, "taints must be unique by key and effect pair",
        _repeated_taint,
    ),
)  # fmt: skip
"""Each taint."""


def _label_rules(flavor: ResourceFlavor) -> Iterator[FieldError]:
    return rule_checks.labels(_SPEC.child("nodeLabels"), flavor.spec.node_labels)


def _taint_rules(flavor: ResourceFlavor) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(flavor.spec.node_taints or ()):
        identity = (taint.key, taint.effect)
        yield from rule_checks.errors(TAINTS, (_TAINTS.index(index), taint, identity in seen))
        seen.add(identity)


def _toleration_rules(flavor: ResourceFlavor) -> Iterator[FieldError]:
    return rule_checks.toleration_keys(_SPEC.child("tolerations"), flavor.spec.tolerations)


RULES: Final[tuple[Row[ResourceFlavor], ...]] = (
    Syntax("ResourceFlavor 1", _label_rules),
    Syntax("ResourceFlavor 2-4", _taint_rules),  # the rows of TAINTS
    Syntax("ResourceFlavor 5", _toleration_rules),
)


def errors(old: ResourceFlavor | None, new: ResourceFlavor) -> list[FieldError]:
    """Errors of a ResourceFlavor; ``old`` is None on creation."""
    return rule_checks.errors(RULES, new) + rule_checks.annotation_errors(_ANNOTATIONS, old, new)
