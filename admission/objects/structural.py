"""What an API server does with an object and its structural schema: defaults, pruning, limits.

For the embedded store. CEL rules (``x-kubernetes-validations``) are not evaluated here; formats
are, where a schema of this project names one.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{defaulting,pruning,listtype} and
pkg/apiserver/validation.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.objects import limits, markers
from admission.objects.limits import Schema

_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def defaults(schema: Schema, document: dict[str, Any]) -> None:
    """Drops nulls, which no field of ours allows, then sets missing defaults; in place.

    A default applies only where the object around it exists: an absent ``spec`` stays absent.
    """
    _drop_nulls(schema, document)
    _default(schema, document)


def prune(schema: Schema, document: dict[str, Any]) -> None:
    """Removes fields that the schema does not know; in place.

    ``apiVersion``, ``kind`` and the whole ``metadata`` of the object itself stay.
    """
    known = schema.get("properties", {})
    for key in document.keys() - _META:
        if key in known:
            _prune(known[key], document[key])
        elif not _is_open(schema):
            del document[key]


def errors(schema: Schema, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Every broken limit in the API server's words, such as ``spec.count: Required value``.

    First types and limits in the order of the schema, then items of sets and list-maps that
    stand twice.
    """
    return (*limits.violations(schema, document), *_repeated(schema, document, ""))


def _child(schema: Schema, key: str) -> Schema | None:
    """The schema of a member of an object; None if the object cannot have it."""
    found = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else None


def _drop_nulls(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        for key in list(value):
            child = _child(schema, key)
            if value[key] is None and child is not None and "default" not in child:
                del value[key]
            elif child is not None:
                _drop_nulls(child, value[key])
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _drop_nulls(schema["items"], item)


def _default(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        for key, child in schema.get("properties", {}).items():
            if "default" in child and value.get(key) is None:
                value[key] = copy.deepcopy(child["default"])
        for key, member in value.items():
            _default(_child(schema, key) or {}, member)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _default(schema["items"], item)


def _prune(schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        for key in list(value):
            child = _child(schema, key)
            if child is not None:
                _prune(child, value[key])
            elif schema.get("type") == "object" and not _is_open(schema):
                del value[key]
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _prune(schema["items"], item)


def _is_open(schema: Schema) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True


def _repeated(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            step = f".{key}" if key in schema.get("properties", {}) else f"[{key}]"
            yield from _repeated(_child(schema, key) or {}, member, path + step)
    elif isinstance(value, list):
        for index in _second_positions(_identities(schema, value)):
            shown = _identities(schema, value)[index]
            yield f"{path.removeprefix('.')}[{index}]: Duplicate value: {shown}"
        for index, item in enumerate(value):
            yield from _repeated(schema.get("items", {}), item, f"{path}[{index}]")


def _identities(schema: Schema, items: list[Any]) -> list[str]:
    """Return what tells the items apart, as JSON; nothing for an atomic list."""
    match schema.get(markers.LIST_TYPE):
        case "set":
            return [_compact(item) for item in items]
        case "map":
            keys = schema[markers.LIST_MAP_KEYS]
            return [_compact(_part(item, keys)) for item in items]
        case _:
            return []


def _part(item: Any, keys: list[str]) -> dict[str, Any]:
    return {k: item[k] for k in keys if k in item} if isinstance(item, Mapping) else {}


def _second_positions(identities: list[str]) -> Iterator[int]:
    """Where a value stands for the second time; a third time is not told again."""
    seen: dict[str, int] = {}
    for index, identity in enumerate(identities):
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:  # noqa: PLR2004  # the second occurrence, as the docstring says
            yield index


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
