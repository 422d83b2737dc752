"""Quantities of pod templates in custom resources: numbers with a fraction become text.

Kubernetes' own types take ``cpu: 0.5`` and have it as text from then on. The schema of a custom
resource does not take it, and is asked after the reviews.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final

from admission.base.fielderrors import FieldPath
from admission.base.patches import Operation
from admission.objects import owner_rows as rows
from admission.objects.owner_rows import Member

_QUANTITIES: Final = (
    "spec.overhead",
    *(
        f"spec.{where}resources.{amounts}"
        for where in ("", "containers[*].", "initContainers[*].")
        for amounts in ("requests", "limits")
    ),
)


def with_text(template: dict[str, Any], paths: Sequence[str] = _QUANTITIES) -> dict[str, Any]:
    """Return a pod template without numbers that have a fraction.

    Args:
        template: the template, or another object.
        paths: paths of its quantities.

    Raises:
        msgspec.ValidationError: something on the way is no object, or no list.
    """
    if not any(_fractions(Member(FieldPath(), template), paths)):
        return template
    changed = copy.deepcopy(template)
    for path in paths:
        for amounts in rows.find(changed, path):
            amounts.value.update(_as_text(amounts.value))
    return changed


def write_text(member: Member, paths: Sequence[str] = _QUANTITIES) -> Iterator[Operation]:
    """Yield the operations after which a pod template has no numbers that have a fraction.

    Args:
        member: the template, or another object, with its path.
        paths: paths of its quantities.

    Raises:
        msgspec.ValidationError: something on the way is no object, or no list.
    """
    for path, text in _fractions(member, paths):
        yield {"op": "replace", "path": path.pointer(), "value": text}


def _fractions(member: Member, paths: Sequence[str]) -> Iterator[tuple[FieldPath, str]]:
    for path in paths:
        for amounts in rows.find(member.value, path, member.path):
            for name, text in _as_text(amounts.value).items():
                yield amounts.path.key(name), text


def _as_text(amounts: Any) -> dict[str, str]:
    if not isinstance(amounts, dict):
        return {}
    return {name: str(value) for name, value in amounts.items() if isinstance(value, float)}
