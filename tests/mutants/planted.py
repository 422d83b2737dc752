"""Faults that are planted by hand, each with the tests that must notice it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("planted.toml")


class NotInCodeError(Exception):
    """The text in whose place a fault is planted is not in its file, or is in it several times."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: short name, unique.
        breaks: the rule that does not hold any more.
        file: file of the repository.
        text: text that it replaces; in the file exactly once.
        instead: text of the fault.
        tests: files or ids of tests that must notice it.
    """

    name: str
    breaks: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def planted(self, root: Path) -> str:
        """Return the text of the file with the fault.

        Raises:
            NotInCodeError: the text occurs never, or more than once.
        """
        source = (root / self.file).read_text()
        if (times := source.count(self.text)) != 1:
            raise NotInCodeError(
                f"{self.name}: {self.file} has the text {times} times, not once:\n{self.text}"
            )
        return source.replace(self.text, self.instead)


def read(path: Path = FILE) -> tuple[Fault, ...]:
    """Return the faults of a file.

    Raises:
        TypeError: an entry lacks a field, or has another one.
    """
    entries = tomllib.loads(path.read_text())["fault"]
    return tuple(
        Fault(
            **{key: value.strip("\n") for key, value in entry.items() if key != "tests"},
            tests=tuple(entry["tests"]),
        )
        for entry in entries
    )
