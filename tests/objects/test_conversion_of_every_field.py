"""Every field of every schema is documented, stands in `whole`, and survives its conversion."""

from collections.abc import Iterator
from typing import Any

import pytest

from admission.objects import conversion, kinds, structural
from tests.objects import schemas, whole

GROUP = "kueue.x-k8s.io"
CASES = [(version, kind) for version in whole.WRITTEN for kind in whole.NEW]
META = {"apiVersion", "kind", "metadata"}


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and schema of every field but those of objects' metadata and of pod templates."""
    for name, child in schema.get("properties", {}).items():
        if not path and name in META:
            continue
        here = f"{path}.{name}"
        yield here, child
        if name != "template":
            yield from fields(child, here)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], f"{path}[]")


def values(document: Any, path: str = "") -> Iterator[str]:
    """Paths of what stands in a document, in the same writing."""
    if isinstance(document, dict):
        for name, member in document.items():
            yield f"{path}.{name}"
            yield from values(member, f"{path}.{name}")
            yield from values(member, f"{path}[]")
    elif isinstance(document, list):
        for item in document:
            yield from values(item, f"{path}[]")


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_every_field_has_a_description(version: str, kind: str) -> None:
    schema = schemas.of_version(version)[kind]
    bare = [path for path, field in fields(schema) if not field.get("description", "").strip()]
    assert bare == []
    assert schema["description"]
    assert {name: bool(schema["properties"][name].get("description")) for name in META} == {
        "apiVersion": True, "kind": True, "metadata": False,
    }  # fmt: skip


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_every_field_has_a_value_in_the_whole_object(version: str, kind: str) -> None:
    known = {path for path, _ in fields(schemas.of_version(version)[kind])}
    assert known - set(values(whole.WRITTEN[version][kind])) == set()


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_the_whole_object_breaks_no_limit(version: str, kind: str) -> None:
    document = {"metadata": {"name": "x"}, **whole.WRITTEN[version][kind]}
    assert structural.errors(schemas.of_version(version)[kind], document) == ()


@pytest.mark.parametrize("kind", [kind.name for kind in kinds.KINDS if kind.converted])
def test_the_whole_object_is_converted_field_by_field(kind: str) -> None:
    def converted(version: str, document: dict[str, Any], target: str) -> dict[str, Any]:
        given = {"apiVersion": f"{GROUP}/{version}", "kind": kind, **document}
        found = conversion.convert(given, f"{GROUP}/{target}")
        structural.prune(schemas.of_version(target)[kind], found)
        structural.defaults(schemas.of_version(target)[kind], found)
        return {name: part for name, part in found.items() if name not in META}

    assert converted("v1beta1", whole.OLD[kind], "v1beta2") == whole.UP[kind]
    assert converted("v1beta2", whole.NEW[kind], "v1beta1") == whole.DOWN[kind]
    assert converted("v1beta2", whole.UP[kind], "v1beta1") == whole.BACK[kind]
