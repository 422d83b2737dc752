"""What a struct says becomes a structural schema, and nothing else does."""

from typing import Annotated, Any, ClassVar

import pytest

from admission.base.errors import InternalError
from admission.objects import markers, schema
from admission.objects.fields import REQUIRED, UNREAD, Quantity, Shape, api_default, one_of, text
from admission.objects.markers import CelRule
from admission.objects.viewbase import View


class Part(View, frozen=True, kw_only=True):
    """A part."""

    rules: ClassVar[tuple[CelRule, ...]] = (CelRule("self.a != ''", "must say something"),)

    a: str
    """The text."""


class Whole(View, frozen=True, kw_only=True):
    """A whole."""

    part: Annotated[Part, markers.rules(CelRule("true", "holds"))] | None = None
    """The part here."""

    parts: Annotated[tuple[Part, ...], markers.list_map("a", at_least=1, at_most=2)] | None = None

    mode_of_work: Annotated[str, one_of("On", "Off"), api_default("On")] = "On"

    filled: Annotated[Part | None, api_default({})] = None

    needed: Annotated[dict[str, Quantity] | None, REQUIRED] = None

    known_better: Annotated[Any, Shape(tuple[Part, ...])] = None

    never_read: ClassVar[Annotated[str | None, UNREAD, text("^a", at_most=3)]]
    """What others read."""


def test_fields_are_described_in_camel_case_with_defaults_and_marks() -> None:
    part = {
        "type": "object",
        "description": "A part.",
        "properties": {"a": {"type": "string", "description": "The text."}},
        "required": ["a"],
        "x-kubernetes-validations": [{"rule": "self.a != ''", "message": "must say something"}],
    }
    marked = [*part["x-kubernetes-validations"], {"rule": "true", "message": "holds"}]
    found = schema.of_struct(Whole)
    needed = found["properties"].pop("needed")
    assert found == {
        "type": "object",
        "description": "A whole.",
        "properties": {
            "part": {
                **part,
                "description": "The part here.",
                "x-kubernetes-validations": marked,
            },
            "parts": {
                "type": "array",
                "items": part,
                "minItems": 1,
                "maxItems": 2,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
            },
            "modeOfWork": {"type": "string", "enum": ["On", "Off"], "default": "On"},
            "filled": {**part, "default": {}},
            "knownBetter": {"type": "array", "items": part},
            "neverRead": {
                "type": "string",
                "description": "What others read.",
                "pattern": "^a",
                "maxLength": 3,
            },
        },
        "required": ["needed"],
    }
    assert needed["additionalProperties"]["x-kubernetes-int-or-string"] is True


class WithUnion(View, frozen=True, kw_only=True):
    either: int | bool


class WithAnything(View, frozen=True, kw_only=True):
    anything: Any


class WithTuple(View, frozen=True, kw_only=True):
    pair: tuple[int, int]


@pytest.mark.parametrize("struct", [WithUnion, WithAnything, WithTuple])
def test_what_a_structural_schema_cannot_say_is_refused(struct: type[View]) -> None:
    with pytest.raises(InternalError, match=struct.__name__):
        schema.of_struct(struct)


def test_texts_are_read_from_a_struct_inside_another_and_inside_a_function() -> None:
    class Inside(View, frozen=True, kw_only=True):
        class Deeper(View, frozen=True, kw_only=True):
            b: str
            """The text deeper."""

        a: str
        """The text inside."""

    class Derived(Inside, frozen=True, kw_only=True):
        c: str
        """The text derived."""

    deeper, derived = schema.of_struct(Inside.Deeper), schema.of_struct(Derived)
    assert deeper["properties"]["b"]["description"] == "The text deeper."
    texts = {name: node["description"] for name, node in derived["properties"].items()}
    assert texts == {"a": "The text inside.", "c": "The text derived."}
