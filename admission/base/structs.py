"""Readers of msgspec structs that threads may share."""

import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for what cannot be read; nesting without end exhausts its stack."""

_LEARNING: Final = threading.Lock()
"""Held while msgspec learns a type.

It keeps what it knows of a struct with its class, from the moment it begins to learn it: a second
thread that needs the struct meanwhile decodes with half of it, and the process ends by SIGSEGV.
"""


@overload
def decoder(into: type[T]) -> msgspec.json.Decoder[T]: ...


@overload
def decoder(into: Any) -> msgspec.json.Decoder[Any]: ...


def decoder(into: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, a union or a generic struct; the same one for the same type.

    Every decoder of the program is made here, those at module level too: a module may be imported
    while another thread decodes.
    """
    learnt: msgspec.json.Decoder[Any] = _learn(into)
    return learnt


def converter(into: type[T]) -> Callable[[Any], T]:
    """Return a function that converts decoded documents into a struct.

    What it makes raises ``msgspec.ValidationError`` for a document that does not fit.
    """
    decoder(into)
    return partial(msgspec.convert, type=into)


@lru_cache(maxsize=256)
def _learn(into: Any) -> msgspec.json.Decoder[Any]:
    with _LEARNING:
        return msgspec.json.Decoder(into)
