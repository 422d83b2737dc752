"""Differences between what a step should show and what it shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from admission.base import quantity


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs; ``step`` -1 is before the first step."""

    case: str
    step: int
    field: str
    expected: Any
    got: Any

    def text(self) -> str:
        """Three lines for people."""
        place = "before step 0" if self.step < 0 else f"step {self.step}"
        lines = (f"    expected {self.expected!r}", f"    got      {self.got!r}")
        return "\n".join((f"{self.case} {place}: {self.field}", *lines))


def differences(
    case: str, step: int, expected: Mapping[str, Any], got: Mapping[str, Any], *, messages: bool
) -> Iterator[Difference]:
    """Every field of one step that differs.

    Args:
        case: identity of the case.
        step: number of the step.
        expected: the recorded observation; all of its fields are compared.
        got: ours.
        messages: whether texts count, too.
    """
    wanted = _normal(expected, messages=messages)
    found = _normal(got, messages=messages)
    _forgive_empty_reasons(wanted, found)
    for field, left, right in _walk("", wanted, found):
        yield Difference(case, step, field, left, right)


def _normal(step: Mapping[str, Any], *, messages: bool) -> dict[str, Any]:
    """A copy with quantities as integers and, unless asked for, without texts."""
    shown = {key: value for key, value in step.items() if key != "reserved"}
    if "reserved" in step:
        shown["reserved"] = {n: _reserved(one) for n, one in step["reserved"].items()}
    for field in ("evicted", "pending"):
        if field in step:
            shown[field] = {
                name: {
                    k: str(v)
                    for k, v in one.items()
                    if messages or k != "message" or one.get("reason") == ""
                }
                for name, one in step[field].items()
            }
    return shown


def _reserved(one: Mapping[str, Any]) -> dict[str, Any]:
    pod_sets = {
        name: {
            "count": found["count"],
            "flavors": dict(found.get("flavors") or {}),
            "resourceUsage": {
                resource: value
                if isinstance(value, int)
                else quantity.to_canonical(resource, value)
                for resource, value in (found.get("resourceUsage") or {}).items()
            },
        }
        for name, found in one["podSets"].items()
    }
    return {"clusterQueue": one["clusterQueue"], "podSets": pod_sets}


def _forgive_empty_reasons(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Kueue can compute an empty reason, which no API server accepts: only its text counts."""
    for name, one in wanted.get("pending", {}).items():
        if one.get("reason") == "" and name in found["pending"]:
            one["reason"] = found["pending"][name]["reason"]
            if "message" not in found["pending"][name]:
                one.pop("message", None)


def _walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            yield from _walk(f"{path}.{key}" if path else key, left.get(key), right.get(key))
    elif not _equal(left, right):
        yield path, left, right


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        return not left and not right
    return bool(left == right)
