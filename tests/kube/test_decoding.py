"""What msgspec knows of a type is learnt once, whichever thread needs it first."""

from typing import Any

import msgspec
import pytest

from admission.kube import decoding


class Fresh(msgspec.Struct):
    """A type that nobody has decoded yet."""

    name: str = ""


def test_types_are_learnt_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Decoding with a struct that another thread is still learning ends the process by SIGSEGV.
    learnt = []

    class Learning:
        def __init__(self, into: type[Any]) -> None:
            assert decoding._LEARNING.locked()
            learnt.append(into)

    monkeypatch.setattr(msgspec.json, "Decoder", Learning)
    decoding._decoder(Fresh)
    decoding._decoder(Fresh)
    assert learnt == [Fresh]
    assert not decoding._LEARNING.locked()
