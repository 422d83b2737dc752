"""What is to be run of a guide: manifests become files, commands of consoles are run.

* A block ``yaml`` whose first line is a comment with a file name is that file.
* A block ``console`` has lines ``$ COMMAND``, each followed by what it prints; ``...`` stands for
  any text, a line ``...`` for any lines. Ages and times may differ. Lines may be left out only so.
* Any other ``yaml`` is checked as a configuration file.
* The comment ``<!-- not run: WHY -->`` before a block leaves it out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.repo import tree

FOLDER = tree.ROOT / "docs" / "guides"
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>.+?) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"\s*(?:\$ )?(?:kubectl|gpu-admission|helm|make|docker) ")
_FILE = re.compile(r"# ([\w-]+\.yaml)\n")
_AGE = re.compile(r"\b\d+(?:\.\d+)?(?:ms|[smh])(?:\d+s)?\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@dataclass(frozen=True, kw_only=True)
class File:
    """A manifest, under the name that commands call it by."""

    line: int
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is typed, and the lines that it prints."""

    line: int
    text: str
    printed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A configuration file."""

    line: int
    text: str


Step = File | Command | Settings


def steps(page: Path) -> Iterator[Step]:
    """What a reader of the page does, in its order."""
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("text")) + 1
        body = block["text"]
        if block["why"]:
            continue
        if block["language"] == "console":
            yield from _commands(body, line)
        elif block["language"] == "yaml" and (named := _FILE.match(body)):
            yield File(line=line, name=named[1], text=body)
        elif block["language"] == "yaml":
            yield Settings(line=line, text=body)


def untested(page: Path) -> Iterator[str]:
    """Code of a page that nobody follows: in a sentence, or in a block that is left out."""
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        if block["why"] and block["language"] == "console":
            yield from (command.text for command in _commands(block["text"], 0))
    yield from _INLINE.findall(_BLOCK.sub("", text))


def out_of_place(page: Path) -> list[str]:
    """Commands in blocks of a page that are not consoles: no test follows them."""
    blocks = _BLOCK.finditer(page.read_text())
    return [
        line
        for block in blocks
        if block["language"] not in {"console", "yaml"}
        for line in block["text"].splitlines()
        if _COMMAND.match(line)
    ]


def others() -> list[Path]:
    """The pages beside the guides that have manifests."""
    found = (*tree.files(FOLDER.parent), tree.ROOT / "README.md")
    are_others = (page for page in found if page.suffix == ".md" and page.parent != FOLDER)
    return [page for page in are_others if manifests(page)]


def manifests(page: Path) -> list[str]:
    """The ``yaml`` blocks of a page."""
    blocks = _BLOCK.finditer(page.read_text())
    return [block["text"] for block in blocks if block["language"] == "yaml"]


def _commands(body: str, line: int) -> Iterator[Command]:
    at, typed, printed = line, "", list[str]()
    for number, text in enumerate(body.splitlines(), start=line):
        if text.startswith("$ "):
            if typed:
                yield Command(line=at, text=typed, printed=tuple(printed))
            at, typed, printed = number, text[2:], []
        elif typed.endswith("\\"):
            typed = f"{typed[:-1]} {text.strip()}"
        else:
            printed.append(text)
    yield Command(line=at, text=typed, printed=tuple(printed))


def is_shown(printed: tuple[str, ...], actual: str) -> bool:
    """Whether a command printed what the guide shows."""
    return (
        re.fullmatch(_pattern(printed), "\n".join(map(_normal, actual.splitlines()))) is not None
    )


def as_created(printed: str) -> str:
    """Return what ``kubectl apply`` prints again, as it would have printed the first time.

    An API server that does not answer in time can end the first try half done.
    """
    return re.sub(r" (unchanged|configured)$", " created", printed, flags=re.MULTILINE)


def _pattern(printed: tuple[str, ...]) -> str:
    shown = "\n".join(_normal(line) for line in printed)
    parts = re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)
    whole = r"(?s:.*)".join(re.escape(part).replace(r"\.\.\.", r".*") for part in parts)
    return whole.replace("\\\n(?s:.*)\\\n", "(?s:.*)").replace("(?s:.*)\\\n", "(?s:.*)")


def _normal(line: str) -> str:
    """A line without what differs from run to run."""
    return _AGE.sub("AGE", _TIME.sub("TIME", " ".join(line.split())))
