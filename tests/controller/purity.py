"""Whether deriving a plan changes nothing: it gives the same again, and leaves the core as it is.

Every world of these tests checks each plan for the first, and now and then for the second, as
that looks at everything that the core has.
"""

from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from admission.base.names import WorkKey
from admission.controller.assembly.cores import CoreParts
from admission.controller.plans import PlanDraft, ReconcilePlan

_EVERY = 97
"""Of so many plans one is compared with everything that the core has."""
_MEMOIZED = {
    "GroupIndex": {"_made"},
    "ServingGroups": {"_groups", "_keys"},
    "RunningPods": {"_tellings"},
}
"""What follows from the rest, and is kept until that changes: attributes by class."""
_PLAIN = (str, bytes, int, float, bool, type(None))
_IMMUTABLE = tuple(f"admission.{name}" for name in ("objects", "sandbox", "config", "base.logs"))
_plans = count(1)


def guard(parts: CoreParts) -> None:
    """Have each plan of a core derived twice, and fail where that makes a difference."""
    reconciler = parts.reconciling.reconciler
    derive = reconciler.reconcile

    def checked(key: WorkKey) -> ReconcilePlan:
        is_compared = next(_plans) % _EVERY == 0
        before = fingerprints(parts) if is_compared else {}
        plan = derive(key)
        if is_compared:
            after = fingerprints(parts)
            changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
            if changed:  # an exception of other kinds would be taken as that of an odd object
                pytest.fail(f"deriving the plan of {key} changes {sorted(changed)}")
        again = derive(key)
        if again != plan:
            pytest.fail(f"deriving the plan of {key} again gives {again} after {plan}")
        return plan

    reconciler.reconcile = checked  # type: ignore[method-assign]


def fingerprints(parts: CoreParts) -> dict[str, int]:
    """Return a number for each path of attributes and members below parts that may change."""
    prints: dict[str, int] = {}
    seen: set[int] = set()
    to_visit: deque[tuple[str, Any]] = deque(_attributes("", parts))
    while to_visit:
        path, value = to_visit.popleft()
        if isinstance(value, (*_PLAIN, PlanDraft)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            members = tuple((_identity(key), _identity(member)) for key, member in value.items())
            prints[path] = prints.get(path, 0) ^ hash((id(value), members))
            to_visit.extend((f"{path}[]", member) for member in value.values())
        elif isinstance(value, (list, deque, set)):
            identities = (_identity(member) for member in value)
            ordered = frozenset(identities) if isinstance(value, set) else tuple(identities)
            prints[path] = prints.get(path, 0) ^ hash((id(value), ordered))
            to_visit.extend((f"{path}[]", member) for member in value)
        elif isinstance(value, (tuple, frozenset)):
            to_visit.extend((f"{path}[]", member) for member in value)
        elif _is_visited(value):
            memoized = _MEMOIZED.get(type(value).__name__, set())
            for name, member in _attributes(path, value):
                if name.rpartition(".")[2] in memoized:
                    continue
                prints[name] = prints.get(name, 0) ^ hash((id(value), _identity(member)))
                to_visit.append((name, member))
    return prints


def _identity(value: Any) -> object:
    """Return what tells a value from another one in its place."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        return tuple(map(_identity, value))
    return id(value)


def _is_visited(value: object) -> bool:
    module = type(value).__module__
    is_recorded = type(value).__name__ == "RecordedEvents"
    return is_recorded or (module.startswith("admission.") and not module.startswith(_IMMUTABLE))


def _attributes(path: str, value: object) -> Iterator[tuple[str, Any]]:
    names = list(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        slots = getattr(base, "__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    prefix = f"{path}." if path else ""
    for name in names:
        if hasattr(value, name) and name != "_clock":
            yield f"{prefix}{name}", getattr(value, name)
