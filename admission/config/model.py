"""Base of the models of configuration files, and the mark of fields that change nothing here."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True)
class Unused:
    """Marks a field that is accepted and changes nothing.

    Attributes:
        why: what holds instead.
    """

    why: str


class ConfigModel(BaseModel):
    """A JSON object of a file; wire names are the camel-case field names, others are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
    )
