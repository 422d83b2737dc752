"""Survivors that were judged: no test can tell them from the code, each for a reason."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutations import Mutation, mutations

FILE: Final = Path(__file__).with_name("judged.toml")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A mutant that need not be caught.

    Attributes:
        module: file of the repository.
        before: the touched lines, each without its indent.
        after: the same lines with the change.
        reason: why nothing that anybody sees depends on it.
    """

    module: str
    before: str
    after: str
    reason: str

    def is_about(self, module: str, mutation: Mutation) -> bool:
        """Return whether a mutation of a module is this one, wherever in the module it is."""
        place = (module, mutation.before, mutation.after)
        return place == (self.module, self.before, self.after)


def read(path: Path = FILE) -> tuple[Judgement, ...]:
    """Return the judgements of a file.

    Raises:
        TypeError: an entry lacks a field, or has another one.
    """
    entries = tomllib.loads(path.read_text()).get("mutant", [])
    return tuple(
        Judgement(**{key: value.strip("\n") for key, value in entry.items()}) for entry in entries
    )


def outdated(judgements: Iterable[Judgement], root: Path) -> list[Judgement]:
    """Return the judgements about mutants that the code does not have any more."""
    return [one for one in judgements if not _exists(one, root)]


def _exists(judgement: Judgement, root: Path) -> bool:
    path = root / judgement.module
    return path.is_file() and any(
        judgement.is_about(judgement.module, mutation) for mutation in mutations(path.read_text())
    )
