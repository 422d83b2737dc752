"""Durations of the configuration file; their texts are those of `admission.base.durations`."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, PlainSerializer, PlainValidator
from pydantic_core import PydanticCustomError

from admission.base import durations
from admission.base.errors import InvalidValueError


def _read(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):  # a bare number has no unit
        raise InvalidValueError(str(value), durations.RULE)
    try:
        return timedelta(microseconds=durations.parse(value))
    except OverflowError as error:
        raise InvalidValueError(value, durations.RULE) from error


def _written(value: timedelta) -> str:
    return durations.to_wire(value // timedelta(microseconds=1))


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta():
        raise PydanticCustomError(
            "greater_than_equal", "Input should be greater than or equal to 0"
        )
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta():
        raise PydanticCustomError("greater_than", "Input should be greater than 0")
    return value


Duration = Annotated[timedelta, PlainValidator(_read), PlainSerializer(_written)]
"""A duration in a file, in whole microseconds."""
NonNegative = Annotated[Duration, AfterValidator(_not_negative)]
Positive = Annotated[Duration, AfterValidator(_positive)]
