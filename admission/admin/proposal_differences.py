"""How a proposed object differs from the one in the cluster, over the whole spec.

A server-side apply replaces some parts as a whole: lists and objects that the schema marks as
atomic. What the cluster has in these, and the proposal has not, is lost. What stands beside them
stays, unless an earlier apply of the same field manager set it and nobody else did.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.base import names, quantity
from admission.base.errors import InvalidValueError
from admission.kube.api import Document
from admission.objects import kinds, markers
from admission.objects.schema import Schema

_NOTHING: Final[Schema] = {}
_EMPTY: Final[tuple[Any, ...]] = (None, {}, [], "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field that the cluster has otherwise.

    Attributes:
        text: the field with both values.
        stays: whether only the cluster has it, and it stays when the proposal is applied.
    """

    text: str
    stays: bool = False


def compare(proposed: Document, present: Document) -> tuple[Difference, ...]:
    """Return what the spec and our annotations in the cluster have otherwise.

    Args:
        proposed: the object.
        present: the one in the cluster.
    """
    owners = _Owners(present)
    annotations = (
        (proposed["metadata"].get("annotations") or {}),
        {
            key: value
            for key, value in (present["metadata"].get("annotations") or {}).items()
            if key.startswith(names.OUR_PREFIXES)
            or key in (proposed["metadata"].get("annotations") or ())
        },
    )
    paths = ("metadata", "annotations")
    found_differences = list(_of_maps(*annotations, _NOTHING, paths, owners))
    if "spec" in proposed:
        schema_ = _schema(proposed["kind"]).get("properties", _NOTHING).get("spec", _NOTHING)
        spec = proposed["spec"], present.get("spec") or {}
        found_differences += _of_maps(*spec, schema_, ("spec",), owners)
    return tuple(found_differences)


@functools.cache
def _schema(kind: str) -> Schema:
    """Return the schema of a kind as it is stored; an empty one for kinds of Kubernetes."""
    for kueue_kind in kinds.KINDS:
        if kueue_kind.name == kind:
            return next(
                version.schema() for version in kueue_kind.versions if version.name == kinds.STORED
            )
    return _NOTHING


class _Owners:
    """Who set the fields of an object."""

    def __init__(self, present: Document) -> None:
        """Read the managed fields."""
        entries = present["metadata"].get("managedFields") or ()
        ours = [_is_ours(entry) for entry in entries]
        trees = [entry.get("fieldsV1") or {} for entry in entries]
        self._ours = [tree for tree, is_ours in zip(trees, ours, strict=True) if is_ours]
        self._of_others = [tree for tree, is_ours in zip(trees, ours, strict=True) if not is_ours]

    def is_ours(self, path: Sequence[str]) -> bool:
        """Return whether an earlier apply of ours alone set a field."""
        return any(_has(tree, path) for tree in self._ours) and not any(
            _has(tree, path) for tree in self._of_others
        )


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == names.FIELD_MANAGER and entry.get("operation") == "Apply"


def _has(tree: Mapping[str, Any], path: Sequence[str]) -> bool:
    for key in path:
        if f"f:{key}" not in tree:
            return False
        tree = tree[f"f:{key}"]
    return True


def _differences(
    expected: Any, present: Any, schema_: Schema, path: tuple[str, ...], owners: _Owners | None
) -> Iterator[Difference]:
    """Yield the differences of two values.

    Args:
        expected: the proposed value.
        present: the one in the cluster.
        schema_: of both.
        path: to them.
        owners: who set the fields; None within what is replaced as a whole.
    """
    if schema_.get(markers.MAP_TYPE) == "atomic" or (
        isinstance(expected, list) and schema_.get(markers.LIST_TYPE, "atomic") == "atomic"
    ):
        owners = None
    if isinstance(expected, Mapping) and isinstance(present, Mapping):
        yield from _of_maps(expected, present, schema_, path, owners)
    elif isinstance(expected, list) and isinstance(present, list):
        yield from _of_lists(expected, present, schema_.get("items", _NOTHING), path, owners)
    elif not _is_same(expected, present, schema_):
        yield Difference(text=_text(path, _shown(present), f"{_shown(expected)} proposed"))


def _of_maps(
    expected: Mapping[str, Any],
    present: Mapping[str, Any],
    schema_: Schema,
    path: tuple[str, ...],
    owners: _Owners | None,
) -> Iterator[Difference]:
    properties = schema_.get("properties", _NOTHING)
    for key, value in expected.items():
        below = properties.get(key, schema_.get("additionalProperties", _NOTHING))
        yield from _differences(value, present.get(key), below, (*path, key), owners)
    for key, value in present.items():
        if key in expected or value in _EMPTY or _is_default(value, properties.get(key)):
            continue
        stays = owners is not None and not owners.is_ours((*path, key))
        proposed = "none proposed; it stays" if stays else "none proposed"
        yield Difference(text=_text((*path, key), _shown(value), proposed), stays=stays)


def _of_lists(
    expected: list[Any],
    present: list[Any],
    schema_: Schema,
    path: tuple[str, ...],
    owners: _Owners | None,
) -> Iterator[Difference]:
    """Differences of lists: of objects with a name by that name, of groups by what they cover."""
    by_key = {_key(item, place): item for place, item in enumerate(present)}
    keys = [_key(item, place) for place, item in enumerate(expected)]
    *parents, last = path
    for key, item in zip(keys, expected, strict=True):
        below = (*parents, f"{last}[{key}]")
        yield from _differences(item, by_key.get(key), schema_, below, owners)
    for key in by_key:
        if key not in keys:
            text = f"{'.'.join(path)}[{key}]: in the cluster, not proposed"
            yield Difference(text=text)
    shared = [key for key in by_key if key in keys]
    if shared != [key for key in keys if key in by_key]:
        text = f"{'.'.join(path)}: in the order {', '.join(shared)} in the cluster"
        yield Difference(text=text)


def _key(item: Any, place: int) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    covered = item.get("coveredResources")
    if "effect" in item:  # of taints and tolerations several may have the same key
        value = f"={item['value']}" if item.get("value") else ""
        return f"{item.get('key', '')}{value}:{item['effect']}"
    return str(item.get("name") or item.get("key") or (covered and covered[0]) or place)


def _is_default(value: Any, schema_: Schema | None) -> bool:
    """Return whether the API server sets a value where nobody does."""
    schema_ = schema_ or _NOTHING
    if isinstance(value, Mapping) and "properties" in schema_:
        properties = schema_["properties"]
        return all(_is_default(member, properties.get(key)) for key, member in value.items())
    return "default" in schema_ and _is_same(schema_["default"], value, schema_)


def _is_same(expected: Any, present: Any, schema_: Schema) -> bool:
    if expected == present:
        return True
    if expected in _EMPTY and present in _EMPTY:
        # A selector is atomic: without one nothing is selected, with an empty one everything.
        return schema_.get(markers.MAP_TYPE) != "atomic"
    try:
        return quantity.parse_nano(str(expected)) == quantity.parse_nano(str(present))
    except InvalidValueError:
        return False


def _text(path: Sequence[str], present: str, proposed: str) -> str:
    return f"{'.'.join(path)}: {present} in the cluster, {proposed}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping) and "name" in value:
        return str(value["name"])
    return str(value)
