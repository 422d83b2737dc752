"""Base of the wire models.

How a model says what its schema is:

* a field without a default is required;
* a field that defaults to None is optional, without an API default;
* any other default is the API's default (``default_factory`` stands for ``{}``);
* docstrings of classes and attributes are the descriptions;
* ``rules`` of the class are the CEL rules on every place where the model stands.
"""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import override

from admission.api import markers
from admission.api.markers import Rule


class Model(BaseModel):
    """A JSON object of the API; wire names are the camel-case field names."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        extra="allow",
        frozen=True,
        use_attribute_docstrings=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Adds the class's CEL rules to its schema."""
        schema = handler(core_schema)
        if cls.rules:
            target = handler.resolve_ref_schema(schema)
            target[markers.VALIDATIONS] = [rule.to_wire() for rule in cls.rules]
        return schema


class Root(Model):
    """A whole object."""

    api_version: str | None = None
    """Group and version of this form of the object."""

    kind: str | None = None
    """Kind of the object."""

    metadata: Annotated[dict[str, Any], WithJsonSchema({"type": "object"})] | None = None
