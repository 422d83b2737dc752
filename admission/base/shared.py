"""Equal parts of structs, kept once: thousands of objects in a cluster say the same.

What is shared must never be changed, which frozen structs promise of their members, too.
"""

import sys
from typing import Any, Final

import msgspec

from admission.base.memo import Memo

_DIFFERENT: Final = 1024
_KEPT: Final = Memo[tuple[Any, ...]](_DIFFERENT)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def share_texts(struct: msgspec.Struct, *fields: str) -> None:
    """Keep each text of some fields once, however many structs have it."""
    for field in fields:
        text = getattr(struct, field)
        if type(text) is str:  # it cannot be done with subclasses
            msgspec.structs.force_setattr(struct, field, sys.intern(text))


def share_members(struct: msgspec.Struct, *fields: str) -> None:
    """Keep the values of some fields once, however many structs have all of them.

    The last thousand are remembered.
    """
    members = tuple(getattr(struct, field) for field in fields)
    key = type(struct), _ENCODER.encode(members)
    for field, value in zip(fields, _KEPT.get(key, lambda: members), strict=True):
        msgspec.structs.force_setattr(struct, field, value)
