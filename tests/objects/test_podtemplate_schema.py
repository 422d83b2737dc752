"""A pod template's schema follows from an OpenAPI document by the rules of generated CRDs."""

from typing import Any

import pytest

from admission.base.errors import InternalError
from admission.objects import podtemplate_schema, workload

PREFIX = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def converted(**properties: Any) -> dict[str, Any]:
    template = {"type": "object", "properties": properties, "required": ["needed"]}
    schemas = {
        "io.k8s.api.core.v1.PodTemplateSpec": template,
        "Loop": {"type": "object", "properties": {"self": {"$ref": f"{PREFIX}Loop"}}},
        "Reference": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"name": {"type": "string", "default": ""}},
        },
    }
    found = podtemplate_schema.convert({"components": {"schemas": schemas}})
    inside: dict[str, Any] = found["properties"]
    return inside


def test_references_are_written_out_and_descriptions_go() -> None:
    field = {
        "allOf": [{"$ref": f"{PREFIX}Reference"}],
        "default": {},
        "description": "text",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert converted(ref=field)["ref"] == {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {"name": {"type": "string", "default": ""}},
    }


def test_only_defaults_of_optional_scalars_stay() -> None:
    text = {"type": "string", "default": "x"}
    listed = {"type": "array", "items": {"type": "string", "default": ""}}
    got = converted(needed=text, optional=text, listed=listed)
    assert got == {
        "needed": {"type": "string"},
        "optional": {"type": "string", "default": "x"},
        "listed": {"type": "array", "items": {"type": "string"}},
    }


def test_quantities_and_metadata_have_their_own_forms() -> None:
    got = converted(
        amounts={"type": "object", "additionalProperties": {"$ref": f"{PREFIX}{QUANTITY}"}},
        metadata={"$ref": f"{PREFIX}{META}"},
    )
    assert got["amounts"]["additionalProperties"]["x-kubernetes-int-or-string"] is True
    assert sorted(got["metadata"]["properties"]) == [
        "annotations",
        "finalizers",
        "labels",
        "name",
        "namespace",
    ]


def test_a_type_that_contains_itself_is_refused() -> None:
    with pytest.raises(InternalError, match="Loop contains itself"):
        converted(loop={"$ref": f"{PREFIX}Loop"})


def test_the_committed_schema_requires_containers_and_defaults_the_protocol() -> None:
    spec = workload.pod_template_schema()["properties"]["spec"]
    containers = spec["properties"]["containers"]
    ports = containers["items"]["properties"]["ports"]
    assert spec["required"] == ["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"
