"""Rules of ResourceFlavors. Source: kueue pkg/webhooks/resourceflavor_webhook.go."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from admission.base import syntax
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.objects import views
from admission.objects.resource_flavor import ResourceFlavor
from admission.policy.kinds import marks, metadata, rules
from admission.policy.kinds.rules import Finding, Row, Rule, Syntax

_SPEC: Final = FieldPath.of("spec")
_TAINTS: Final = _SPEC.child("nodeTaints")

Taint = tuple[FieldPath, views.Taint, bool]
"""Path, the taint, and whether its key and effect stood before."""


def _taint_key(taint: Taint) -> Iterable[FieldError]:
    path, found, _ = taint
    return syntax.label_key(path.child("key"), found.key)


def _taint_value(taint: Taint) -> Iterable[Finding]:
    path, found, _ = taint
    errors = metadata.label_value_errors(found.value)
    if errors:
        yield Finding(path.child("value"), found.value, {"errors": ";".join(errors)})


def _repeated_taint(taint: Taint) -> Iterable[Finding]:
    path, found, is_repeated = taint
    if is_repeated:
        yield Finding(path, _shown(found))


def _shown(taint: views.Taint) -> dict[str, Any]:
    members = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {name: text for name, text in members.items() if text or name != "value"}


TAINTS: Final[tuple[Row[Taint], ...]] = (
    Syntax("ResourceFlavor 2", _taint_key),
    Rule("ResourceFlavor 3", ErrorType.INVALID, "{errors}", _taint_value),
    Rule(
        "ResourceFlavor 4", ErrorType.DUPLICATE, "taints must be unique by key and effect pair",
        _repeated_taint,
    ),
)  # fmt: skip
"""Each taint."""


def _labels(flavor: ResourceFlavor) -> Iterator[FieldError]:
    return metadata.labels(_SPEC.child("nodeLabels"), flavor.spec.node_labels)


def _taints(flavor: ResourceFlavor) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(flavor.spec.node_taints or ()):
        identity = (taint.key, taint.effect)
        yield from rules.errors(TAINTS, (_TAINTS.index(index), taint, identity in seen))
        seen.add(identity)


def _tolerations(flavor: ResourceFlavor) -> Iterator[FieldError]:
    return metadata.toleration_keys(_SPEC.child("tolerations"), flavor.spec.tolerations)


RULES: Final[tuple[Row[ResourceFlavor], ...]] = (
    Syntax("ResourceFlavor 1", _labels),
    Syntax("ResourceFlavor 2-4", _taints),  # the rows of TAINTS
    Syntax("ResourceFlavor 5", _tolerations),
)


def errors(old: ResourceFlavor | None, new: ResourceFlavor) -> list[FieldError]:
    """Errors of a ResourceFlavor; ``old`` is None on creation."""
    return rules.errors(RULES, new) + marks.errors(marks.RESOURCE_FLAVOR, old, new)
