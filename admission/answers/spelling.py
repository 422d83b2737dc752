"""Names that may be meant by one that does not exist."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

_MOST_SHOWN: Final = 3
_LIKE: Final = 0.8
"""How much alike two names are of which one may be meant by the other: kim1 is not kim2."""


def similar(name: str, candidates: Iterable[str]) -> str:
    """Return ``did you mean train or train-2? ``; empty where no name is similar."""
    matches = _close(name, candidates)
    return f"did you mean {' or '.join(matches)}? " if matches else ""


def nearest_first(name: str, candidates: Sequence[str]) -> list[str]:
    """Return the names with those in front that may be meant by one that does not exist."""
    return list(dict.fromkeys((*_close(name, candidates), *candidates)))


def _close(name: str, candidates: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, sorted(set(candidates)), _MOST_SHOWN, _LIKE)
