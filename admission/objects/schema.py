"""From a struct of one of Kueue's kinds to the structural schema of its CRD.

Source: Kubernetes "Specifying a structural schema"; apiextensions.k8s.io/v1 JSONSchemaProps.
"""

import ast
import functools
import inspect
import itertools
import sys
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from admission.base.errors import InternalError
from admission.objects import markers
from admission.objects.fields import UNREAD, Required, Shape
from admission.objects.markers import Keywords
from admission.objects.viewbase import Object

Schema = dict[str, Any]

_SCALARS: Final = {str: "string", int: "integer", bool: "boolean"}
_ROOT: Final = {
    "apiVersion": {
        "description": "Group and version of this form of the object.",
        "type": "string",
    },
    "kind": {"description": "Kind of the object.", "type": "string"},
    "metadata": {"type": "object"},
}


def of_kind(kind: type[Object]) -> Schema:
    """Return the structural schema of whole objects of a kind.

    Raises:
        InternalError: a field has a type that a structural schema cannot say.
    """
    schema_ = of_struct(kind)
    properties = {key: value for key, value in schema_["properties"].items() if key != "metadata"}
    return {**schema_, "properties": {**_ROOT, **properties}}


def of_struct(struct: type[msgspec.Struct]) -> Schema:
    """Return the structural schema of an object, with its members in the order of the fields.

    Raises:
        InternalError: a field has a type that a structural schema cannot say.
    """
    texts = _descriptions(struct)
    read = {field.name: field for field in msgspec.structs.fields(struct)}
    properties, required = {}, []
    for name, hint in get_type_hints(struct, include_extras=True).items():
        is_unread = get_origin(hint) is ClassVar
        if is_unread and UNREAD not in get_args(get_args(hint)[0]):
            continue  # not a field
        property_, is_required = _of(get_args(hint)[0] if is_unread else hint, f"{struct}.{name}")
        if name in texts:
            property_ = {**property_, "description": texts[name]}
        wire = _camel(name) if is_unread else read[name].encode_name
        properties[wire] = ordered(property_)
        if is_required or (not is_unread and read[name].required):
            required.append(wire)
    schema_: Schema = {"type": "object", "properties": properties}
    if struct.__doc__:
        schema_["description"] = inspect.cleandoc(struct.__doc__)
    if required:
        schema_["required"] = required
    rules: tuple[markers.CelRule, ...] = getattr(struct, "rules", ())
    if rules:
        schema_[markers.VALIDATIONS] = markers.rules(*rules).values[markers.VALIDATIONS]
    return ordered(schema_)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _of(hint: Any, where: str) -> tuple[Schema, bool]:
    """Return the schema of a type, and whether it is marked as required."""
    if get_origin(hint) is not Annotated:
        return _of_plain(hint, where), False
    inner, *marks = get_args(hint)
    shapes = [mark.hint for mark in marks if isinstance(mark, Shape)]
    schema_, is_required = _of(shapes[-1] if shapes else inner, where)
    for mark in marks:
        if isinstance(mark, Keywords):
            rules = [
                *schema_.get(markers.VALIDATIONS, ()),
                *mark.values.get(markers.VALIDATIONS, ()),
            ]
            schema_ = {**schema_, **mark.values, **({markers.VALIDATIONS: rules} if rules else {})}
    return schema_, is_required or any(isinstance(mark, Required) for mark in marks)


def _of_plain(hint: Any, where: str) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if inspect.isfunction(hint):
        schema_: Schema = hint()
        return schema_
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if origin in {Union, UnionType}:
        some = [argument for argument in arguments if argument is not NoneType]
        if set(some) == {int, str}:  # a quantity; its marks say so
            return {}
        if len(some) == 1:
            return _of(some[0], where)[0]
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": ordered(_of(arguments[1], where)[0])}
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return {"type": "array", "items": ordered(_of(arguments[0], where)[0])}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return of_struct(hint)
    raise InternalError(f"{where}: {hint} cannot stand in a structural schema")


def ordered(node: Schema) -> Schema:
    """Return a schema with its keywords in order; the default of an object stands last."""

    def order(key: str) -> tuple[bool, str]:
        return key == "default" and isinstance(node[key], dict), key

    return {key: node[key] for key in sorted(node, key=order)}


def _descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the text below each field of a struct, and of what it is made from."""
    texts: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            texts |= _texts_below_fields(base.__module__)[base.__qualname__]
    return texts


@functools.cache
def _texts_below_fields(module: str) -> dict[str, dict[str, str]]:
    """Return the text below each field of each class of a module, by qualified name.

    A module is parsed once: ``inspect.getsource`` of a class parses its whole module.
    """
    texts: dict[str, dict[str, str]] = {}
    pending: list[tuple[ast.AST, str]] = [(ast.parse(inspect.getsource(sys.modules[module])), "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, ast.ClassDef):
            texts[prefix + node.name] = _texts_in(node)
            prefix += f"{node.name}."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            prefix += f"{node.name}.<locals>."
        pending += [(child, prefix) for child in ast.iter_child_nodes(node)]
    return texts


def _texts_in(node: ast.ClassDef) -> dict[str, str]:
    """Return the text below each field of a class."""
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
