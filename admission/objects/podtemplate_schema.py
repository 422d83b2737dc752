"""Makes ``podtemplate.json`` from an API server's OpenAPI document.

Usage: ``python -m admission.objects.podtemplate_schema SPEC.json [--out FILE]``, where SPEC.json
is ``api/openapi-spec/v3/api__v1_openapi.json`` of the module ``k8s.io/kubernetes``.

The rules are those of a generated CRD: structural, so no references and no untyped values;
embedded metadata keeps what a template may set; Go's zero values are no defaults.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

from admission.base import quantity
from admission.base.errors import InternalError
from admission.objects import markers

Schema = dict[str, Any]

_ROOT: Final = "io.k8s.api.core.v1.PodTemplateSpec"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_REFERENCE: Final = "#/components/schemas/"
_KEPT: Final = ("type", "format", "required", markers.LIST_TYPE, markers.LIST_MAP_KEYS,
                markers.MAP_TYPE)  # fmt: skip

_EITHER: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    markers.INT_OR_STRING: True,
}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_SPECIAL: Final[dict[str, Schema]] = {
    _INT_OR_STRING: _EITHER,
    _QUANTITY: {**_EITHER, "pattern": quantity.PATTERN},
    _OBJECT_META: {
        "type": "object",
        "properties": {
            "annotations": _TEXTS,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": _TEXTS,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
}


def convert(document: Schema) -> Schema:
    """The structural schema of PodTemplateSpec in an OpenAPI v3 document."""
    return _named(_ROOT, document["components"]["schemas"], ())


def _named(name: str, definitions: dict[str, Schema], above: tuple[str, ...]) -> Schema:
    if name in _SPECIAL:
        return _SPECIAL[name]
    if name in above:
        raise InternalError(f"{name} contains itself; a structural schema cannot say that")
    return _node(definitions[name], definitions, (*above, name))


def _node(node: Schema, definitions: dict[str, Schema], above: tuple[str, ...]) -> Schema:
    references = [node, *node.get("allOf", ())]
    target = next((member["$ref"] for member in references if "$ref" in member), None)
    kept = {key: node[key] for key in _KEPT if key in node}
    if target is not None:
        return {**_named(target.removeprefix(_REFERENCE), definitions, above), **kept}
    for key in ("items", "additionalProperties"):
        if key in node:
            kept[key] = _node(node[key], definitions, above)
    if "properties" in node:
        kept["properties"] = _properties(node, definitions, above)
    return kept


def _properties(node: Schema, definitions: dict[str, Schema], above: tuple[str, ...]) -> Schema:
    required = node.get("required", ())
    out = {}
    for name in sorted(node["properties"]):
        child = node["properties"][name]
        out[name] = _node(child, definitions, above)
        # A default of a required field or of an object is Go's zero value, not a promise.
        if name not in required and child.get("default", {}) != {}:
            out[name]["default"] = child["default"]
    return out


def main() -> None:
    """Writes the schema."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("spec", type=Path, help="OpenAPI v3 document of the group v1")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("podtemplate.json"))
    arguments = parser.parse_args()
    schema = convert(json.loads(arguments.spec.read_text("utf-8")))
    text = json.dumps(schema, separators=(",", ":"), sort_keys=True)
    arguments.out.write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
