"""What an API server does with an object and its structural schema: defaults, pruning, limits.

For the embedded store. CEL rules (``x-kubernetes-validations``) are not evaluated here; formats
are, where a schema of this project names one.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{defaulting,pruning,listtype} and
pkg/apiserver/validation.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from admission.objects import markers

Schema = Mapping[str, Any]

_INT64: Final = 2**63
_RANGES: Final = {"int32": 2**31, "int64": _INT64}
_NUMBER: Final = frozenset({"integer", "number"})
# How the server names a value where a format is expected.
_GO_FORMATS: Final = {"integer": "int64", "number": "float64", "boolean": "", "object": ""}
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


def violations(schema: Schema, document: Any, path: str = "") -> Iterator[str]:
    """Every broken type or limit below ``path``, in the order of the schema."""
    type_ = _type_of(document)
    wrong = tuple(_wrong_type(schema, document, type_, path))
    yield from wrong
    if type_ in _NUMBER:
        yield from _number(schema, document, path)
    elif type_ == "string" and not wrong:
        yield from _text(schema, document, path)
    elif type_ == "array" and not wrong:
        yield from _array(schema, document, path)
    if "enum" in schema and document not in schema["enum"]:
        supported = ", ".join(_shown(member) for member in schema["enum"])
        yield _line(path, "Unsupported value", _shown(document), f"supported values: {supported}")
    if type_ == "object" and not wrong:
        yield from _object(schema, document, path)


def _wrong_type(schema: Schema, value: Any, type_: str, path: str) -> Iterator[str]:
    if schema.get(markers.INT_OR_STRING):
        if type_ not in {"integer", "string"}:
            yield _type_line(path, "integer,string", type_)
            yield f'<nil>: Invalid value: "": "{path}" must validate at least one schema (anyOf)'
            yield _type_line(path, "integer", type_)
        return
    expected = schema.get("type", type_)
    if type_ == expected or (type_ == "number" and expected == "integer" and value.is_integer()):
        return
    if type_ == "integer" and expected == "number":
        return
    if "format" in schema and type_ in _GO_FORMATS:
        yield _type_line(path, schema["format"], _GO_FORMATS[type_])
    else:
        yield _type_line(path, expected, type_)


def _type_line(path: str, expected: str, type_: str) -> str:
    shown = _shown(type_)
    return _line(
        path, "Invalid value", shown, f"{_in_body(path)}must be of type {expected}: {shown}"
    )


def _type_of(value: Any) -> str:  # one line per JSON type
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _text(schema: Schema, text: str, path: str) -> Iterator[str]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength", 0)
    pattern = schema.get("pattern")
    shown, where = _shown(text), _in_body(path)
    if longest is not None and len(text) > longest:
        detail = f"may not be more than {longest} {'byte' if longest == 1 else 'bytes'}"
        yield f"{path or '<nil>'}: Too long: {detail}"
    elif len(text) < shortest:
        yield _line(
            path, "Invalid value", shown, f"{where}should be at least {shortest} chars long"
        )
    elif pattern is not None and not _compiled(pattern).search(text):
        yield _line(path, "Invalid value", shown, f"{where}should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_time(text):
        detail = f"{where}must be of type date-time: {shown}"
        yield _line(path, "Invalid value", shown, detail)


def _number(schema: Schema, number: float, path: str) -> Iterator[str]:
    bound = _RANGES.get(schema.get("format", ""))
    if bound is not None and not (-bound <= number < bound and number == int(number)):
        kind = f"{schema['type']} with format {schema['format']}"
        yield f'<nil>: Invalid value: "": Checked value must be of type {kind} in {path}'
        if not -_INT64 <= number < _INT64:
            # The server reads it as a float, which is no integer in its eyes.
            yield _type_line(path, schema["format"], "float64")
    shown, where = _shown(number), _in_body(path)
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if highest is not None and number > highest:
        detail = f"{where}should be less than or equal to {highest}"
        yield _line(path, "Invalid value", shown, detail)
    if lowest is not None and number < lowest:
        detail = f"{where}should be greater than or equal to {lowest}"
        yield _line(path, "Invalid value", shown, detail)


def _array(schema: Schema, items: list[Any], path: str) -> Iterator[str]:
    for index, item in enumerate(items):
        yield from violations(schema.get("items", {}), item, f"{path}[{index}]")
    fewest = schema.get("minItems", 0)
    if len(items) < fewest:
        detail = f"{_in_body(path)}should have at least {fewest} items"
        yield _line(path, "Invalid value", str(len(items)), detail)
    yield from _too_many(len(items), schema.get("maxItems"), path)


def _object(schema: Schema, members: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _too_many(len(members), schema.get("maxProperties"), path)
    properties = schema.get("properties", {})
    open_to = schema.get("additionalProperties")
    if isinstance(open_to, Mapping):
        for key in sorted(members.keys() - properties.keys()):
            yield from violations(open_to, members[key], f"{path}.{key}")
    for key, child in properties.items():
        if key in members:
            yield from violations(child, members[key], f"{path}.{key}" if path else key)
    for key in schema.get("required", ()):
        if key not in members:
            yield f"{path}.{key}: Required value".removeprefix(".")


def _too_many(count: int, limit: int | None, path: str) -> Iterator[str]:
    if limit is not None and count > limit:
        detail = f"must have at most {limit} {'item' if limit == 1 else 'items'}"
        yield _line(path, "Too many", str(count), detail)


def _line(path: str, kind: str, shown: str, detail: str) -> str:
    return f"{path or '<nil>'}: {kind}: {shown}: {detail}"


def _in_body(path: str) -> str:
    return f"{path} in body "


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A Go pattern in Python: flags stand first, and ``$`` is the very end of the text."""
    flags = re.IGNORECASE if "(?i)" in pattern else re.NOFLAG
    body = pattern.replace("(?i)", "")
    if body.endswith("$"):
        body = f"{body[:-1]}\\Z"
    return re.compile(body, flags | re.ASCII)


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
    properties = schema.get("properties", {})
    for key in document.keys() - _META:
        if key in properties:
            _prune(properties[key], document[key])
        elif not _is_open(schema):
            del document[key]


def errors(schema: Schema, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Every broken limit in the API server's words, such as ``spec.count: Required value``.

    First types and limits in the order of the schema, then items of sets and list-maps that
    stand twice.
    """
    return (*violations(schema, document), *_repeated(schema, document, ""))


def _child(schema: Schema, key: str) -> Schema | None:
    """The schema of a member of an object; None if the object cannot have it."""
    child_schema = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return child_schema if isinstance(child_schema, dict) else None


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
    """Return the key of each item of a list, as JSON; nothing for an atomic list."""
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
    """Paths at which a value occurs for the second time; further occurrences are not reported."""
    seen: dict[str, int] = {}
    for index, identity in enumerate(identities):
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:  # noqa: PLR2004  # the second occurrence, as the docstring says
            yield index


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
