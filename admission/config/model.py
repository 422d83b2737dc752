"""The base class of the models of configuration files, and the markers of their fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
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


def choices(annotation: Any) -> dict[str, Any]:
    """Return the JSON schema of an annotation, of which only the choices of texts are said.

    Everything else is left to the program that reads the file: it says more, and in words.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return choices(arguments[0])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, UnionType}:
        found = next(filter(None, map(choices, arguments)), {})
        return {**found, "enum": [*found["enum"], None]} if "enum" in found else found
    if origin in {list, tuple}:
        found = choices(arguments[0])
        return {"items": found} if found else {}
    if origin in {dict, Mapping}:
        found = choices(arguments[1])
        return {"additionalProperties": found} if found else {}
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        below = {
            info.alias or name: found
            for name, info in annotation.model_fields.items()
            if (found := choices(info.annotation))
        }
        return {"properties": below} if below else {}
    return {}


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
        optional = {one.alias for one in cls.model_fields.values() if not one.is_required()}
        return {key: one for key, one in data.items() if one is not None or key not in optional}
