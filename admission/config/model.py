"""The base class of the models of configuration files, and the markers of their fields."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticUseDefault, core_schema


@dataclass(frozen=True, slots=True)
class Unused:
    """Marks a field that is accepted and changes nothing: it is checked, then forgotten.

    Attributes:
        why: what holds instead.
    """

    why: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of a field with this mark; its value is always None."""
        return core_schema.no_info_after_validator_function(lambda _: None, handler(source))


def _default_if_empty(value: Any) -> Any:
    if not value:
        raise PydanticUseDefault
    return value


def _is_empty(value: Any) -> bool:
    return bool(value == type(value)())


UNSET_IF_EMPTY: Final = AfterValidator(_default_if_empty)
"""Marks a field whose zero value stands for its default, as a Go program writes it."""
SHOWN_IF_SET: Final = Field(exclude_if=_is_empty)
"""Marks a field that is shown only where it is not empty."""


def schema(annotation: Any, marks: Iterable[Any] = ()) -> dict[str, Any]:
    """Return the JSON schema of an annotation: names, types, choices and limits of numbers.

    It accepts whatever the program accepts. Null means the same as an absent field, so every
    type may be null. What no type says is left to the program that reads the file.

    Args:
        annotation: a type of the models.
        marks: metadata beside it, as that of a field.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return schema(arguments[0], (*arguments[1:], *marks))
    if origin is Literal:
        return {"enum": [*arguments, None]}
    if origin in {Union, UnionType}:
        (member,) = (argument for argument in arguments if argument is not type(None))
        return schema(member, marks)
    if origin in {list, tuple}:
        return {"type": ["array", "null"], "items": schema(arguments[0])}
    if origin in {dict, Mapping}:
        members = schema(arguments[1])
        return {"type": ["object", "null"], "additionalProperties": members or True}
    if not isinstance(annotation, type):
        return {}
    if issubclass(annotation, ConfigModel):
        return {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {
                info.alias or name: schema(info.annotation, info.metadata)
                for name, info in annotation.model_fields.items()
            },
        }
    if annotation is bool:
        return {"type": ["boolean", "null"]}
    if annotation is int:
        return {"type": ["integer", "null"], **_limits(marks)}
    if annotation is timedelta:
        return {"type": ["string", "null"]}
    if annotation is str:
        takes_numbers = any(isinstance(mark, BeforeValidator) for mark in marks)
        return {"type": ["string", "number", "null"] if takes_numbers else ["string", "null"]}
    return {}


def _limits(marks: Iterable[Any]) -> dict[str, Any]:
    """Return the limits of a number; none where its zero stands for a default."""
    every = [inner for mark in marks for inner in (mark.metadata if _is_field(mark) else (mark,))]
    if UNSET_IF_EMPTY in every:
        return {}
    fields = {
        name: next((getattr(mark, member) for mark in every if hasattr(mark, member)), None)
        for name, member in (("minimum", "ge"), ("maximum", "le"))
    }
    return {name: limit for name, limit in fields.items() if limit is not None}


def _is_field(mark: Any) -> bool:
    return isinstance(mark, FieldInfo)


class ConfigModel(BaseModel):
    """A JSON object of a file; wire names are the camel-case field names, others are refused.

    Attributes:
        null_is_absent: whether null means the same as an absent field.
    """

    null_is_absent: ClassVar[bool] = True

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not cls.null_is_absent or not isinstance(data, dict):
            return data
        optional = {field.alias for field in cls.model_fields.values() if not field.is_required()}
        return {
            key: value for key, value in data.items() if value is not None or key not in optional
        }
