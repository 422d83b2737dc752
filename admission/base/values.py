"""Changed copies of immutable values."""

from typing import Any, TypeVar

Value = TypeVar("Value")


def changed(value: Value, **changes: object) -> Value:
    """A copy of a frozen dataclass with slots in which some fields are others.

    As `dataclasses.replace`, in half the time, for what is copied once a decision: it asks
    neither ``__init__`` nor ``__post_init__``, so the class must not need them, nor inherit
    fields.

    Raises:
        AttributeError: no field has that name.
    """
    slots: Any = value
    made = object.__new__(type(value))
    put = object.__setattr__
    for name in slots.__slots__:
        put(made, name, getattr(value, name))
    for name, new in changes.items():
        put(made, name, new)
    return made
