"""What msgspec knows of a type is learnt once, whichever thread needs it first."""

from typing import Any

import msgspec
import pytest

from admission.base import structs


class Fresh(msgspec.Struct):
    """A type that nobody has decoded yet."""

    name: str = ""


def test_types_are_learnt_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Decoding with a struct that another thread is still learning ends the process by SIGSEGV.
    learnt = []

    class Learning:
        def __init__(self, into: type[Any]) -> None:
            assert structs._LEARNING.locked()
            learnt.append(into)

    monkeypatch.setattr(msgspec.json, "Decoder", Learning)
    structs.decoder(Fresh)
    structs.decoder(Fresh)
    structs.converter(Fresh)
    assert learnt == [Fresh]
    assert not structs._LEARNING.locked()


class Named(msgspec.Struct):
    name: str = ""


def test_a_decoded_document_becomes_the_struct() -> None:
    assert structs.converter(Named)({"name": "a"}) == Named(name="a")


def test_a_document_that_does_not_fit_is_refused_with_the_field() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$.name`"):
        structs.converter(Named)({"name": 1})
