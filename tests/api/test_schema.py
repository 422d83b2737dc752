"""What a model says becomes a structural schema, and nothing else does."""

from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field

from admission.api import markers, schema
from admission.api.markers import Rule
from admission.api.model import Model
from admission.base.errors import InternalError


class Part(Model):
    """A part."""

    rules: ClassVar[tuple[Rule, ...]] = (Rule("self.a != ''", "must say something"),)

    a: str
    """The text."""


class Whole(Model):
    """A whole."""

    part: Annotated[Part, markers.rules(Rule("true", "holds"))] | None = None
    """The part here."""

    parts: Annotated[list[Part], markers.list_map("a", at_least=1, at_most=2)] | None = None

    mode_of_work: Literal["On", "Off"] = "On"

    filled: Part = Field(default_factory=lambda: Part(a=""))


def test_fields_are_described_in_camel_case_with_defaults_and_marks() -> None:
    part = {
        "type": "object",
        "description": "A part.",
        "properties": {"a": {"type": "string", "description": "The text."}},
        "required": ["a"],
        "x-kubernetes-validations": [{"rule": "self.a != ''", "message": "must say something"}],
    }
    marked = [*part["x-kubernetes-validations"], {"rule": "true", "message": "holds"}]
    assert schema.of_model(Whole) == {
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
        },
    }


class WithUnion(Model):
    either: int | str


class WithAnything(Model):
    anything: Any


class WithTuple(Model):
    pair: tuple[int, int]


class WithOpenInterval(Model):
    number: Annotated[int, Field(gt=0)]


@pytest.mark.parametrize("model", [WithUnion, WithAnything, WithTuple, WithOpenInterval])
def test_what_a_structural_schema_cannot_say_is_refused(model: type[Model]) -> None:
    with pytest.raises(InternalError, match=model.__name__):
        schema.of_model(model)
