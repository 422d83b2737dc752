"""Names that may be meant by one that does not exist."""

import difflib
from collections.abc import Iterable
from typing import Final

_MOST_SHOWN: Final = 3
_LIKE: Final = 0.8
"""How much alike two names are of which one may be meant by the other: kim1 is not kim2."""


def similar(name: str, candidates: Iterable[str]) -> str:
    """Return ``did you mean train or train-2? ``; empty where no name is similar."""
    matches = difflib.get_close_matches(name, sorted(set(candidates)), _MOST_SHOWN, _LIKE)
    return f"did you mean {' or '.join(matches)}? " if matches else ""
