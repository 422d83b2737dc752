"""Whether two parts of an object mean the same, as the API server's clients see it.

Source: k8s.io/apimachinery pkg/api/equality (Semantic): nothing, null, an empty collection and an
object with nothing in it are equal, and so are two writings of one quantity.
"""

from typing import Any, Final

from admission.policy.kinds import quantities

_QUANTITIES: Final = frozenset({"requests", "limits", "overhead", "resourceUsage", "capacity"})
"""Members whose values are quantities by resource name."""


def same(left: Any, right: Any) -> bool:
    """Return whether the two documents are equal."""
    return left == right or _same(left, right)


def _same(left: Any, right: Any) -> bool:
    if _is_empty(left) and _is_empty(right):
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_same_member(key, left.get(key), right.get(key)) for key in left | right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            same(one, other) for one, other in zip(left, right, strict=True)
        )
    return bool(left == right)


def _same_member(key: str, left: Any, right: Any) -> bool:
    if same(left, right):
        return True
    if key not in _QUANTITIES or not isinstance(left, dict) or not isinstance(right, dict):
        return False
    return left.keys() == right.keys() and all(_same_amount(left[k], right[k]) for k in left)


def _same_amount(left: Any, right: Any) -> bool:
    return quantities.nano(left) == quantities.nano(right)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value is None or value == []
