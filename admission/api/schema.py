"""From a pydantic model to the structural schema of a CRD.

Source: Kubernetes "Specifying a structural schema"; apiextensions.k8s.io/v1 JSONSchemaProps.
What pydantic writes differs from that in references, nullability, defaults and titles; what
cannot be said in a structural schema is refused here rather than by an API server.
"""

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import override

from admission.api import markers
from admission.api.model import Model
from admission.base.errors import InternalError

Schema = dict[str, Any]

_KEYWORDS: Final = frozenset({
    "type", "format", "description", "default", "enum", "pattern", "minLength", "maxLength",
    "minimum", "maximum", "minItems", "maxItems", "maxProperties", "required", "properties",
    "items", "additionalProperties", "anyOf", markers.INT_OR_STRING, markers.LIST_TYPE,
    markers.LIST_MAP_KEYS, markers.MAP_TYPE, markers.VALIDATIONS,
})  # fmt: skip


class _Generator(GenerateJsonSchema):
    """Pydantic's generator with the meanings of ``admission.api.model``."""

    @override
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        # The API server drops nulls of fields that are not nullable, so optional is enough.
        return self.generate_inner(schema["schema"])

    @override
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        if "default_factory" in schema:
            return {**inner, "default": {}}
        default = schema.get("default")
        return inner if default is None else {**inner, "default": default}

    @override
    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return {"type": "string", "enum": list(schema["expected"])}

    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def of_model(model: type[Model]) -> Schema:
    """The structural schema of a model, without references.

    Raises:
        InternalError: the model says something that a structural schema cannot.
    """
    raw = model.model_json_schema(schema_generator=_Generator)
    definitions = raw.pop("$defs", {})
    return _structural(raw, definitions, model.__name__)


def _structural(node: Schema, definitions: dict[str, Schema], path: str) -> Schema:
    node = _resolve(node, definitions)
    out = {key: value for key, value in node.items() if key != "title"}
    if out.get("additionalProperties") is True:  # pydantic's word for "keeps unknown fields"
        del out["additionalProperties"]
    _check(out, path)
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _structural(out[key], definitions, f"{path}.{key}")
    if "properties" in out:
        out["properties"] = {
            name: _structural(child, definitions, f"{path}.{name}")
            for name, child in out["properties"].items()
        }
    return out


def _resolve(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replaces ``$ref`` by what it names; keywords beside it win, rules add up."""
    reference = node.get("$ref")
    if reference is None:
        return node
    target = _resolve(definitions[reference.rpartition("/")[2]], definitions)
    beside = {key: value for key, value in node.items() if key != "$ref"}
    rules = [*target.get(markers.VALIDATIONS, ()), *beside.get(markers.VALIDATIONS, ())]
    return {**target, **beside, **({markers.VALIDATIONS: rules} if rules else {})}


def _check(node: Schema, path: str) -> None:
    unknown = node.keys() - _KEYWORDS
    if unknown:
        raise InternalError(f"{path}: {sorted(unknown)} cannot stand in a structural schema")
    whole = bool(node.get(markers.INT_OR_STRING))
    if ("type" in node) == whole or ("anyOf" in node and not whole):
        raise InternalError(f"{path}: needs exactly one type")
