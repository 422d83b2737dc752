"""``python -m tests.chaos.planted``: plant faults, and show which of them a storm finds.

Each fault of `planted.toml` is a rule that the program breaks. A storm runs over a copy of the
repository with it, and has to report something of what stands there. A storm that misses one is
blind to all faults of its kind.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.storm import DEFAULT_SEED, LONGEST_MINUTES, Report
from tests.mutants.planted import Fault

FILE: Final = Path(__file__).with_name("planted.toml")
ROOT: Final = Path(__file__).parents[2]
DEFAULT_MINUTES: Final = 5.0
_COPIED: Final = ("admission", "certs", "crds", "tests", "pyproject.toml")
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault that a storm must find.

    Attributes:
        fault: what is broken, and where.
        finds: parts of a report, of which the storm has to say something in one.
    """

    fault: Fault
    finds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a storm over a fault came to.

    Attributes:
        name: of the fault.
        found: how much the report says, by its part.
        after: seconds of the storm until one of the parts that were asked for; None for never.
        is_found: whether it says something of what was asked for.
        example: the first of that; else why there is none.
    """

    name: str
    found: dict[str, int]
    is_found: bool
    example: str
    after: float | None = None

    def text(self) -> str:
        """The verdict in a line."""
        told = ", ".join(f"{count} {part}" for part, count in self.found.items()) or "nothing"
        state = "found" if self.is_found else "MISSED"
        when = "" if self.after is None else f" after {self.after:.0f} s"
        return f"{self.name}: {state}{when} ({told}) {self.example}"


def read(path: Path = FILE) -> tuple[Planted, ...]:
    """Return the faults of a file.

    Raises:
        TypeError: an entry lacks a field, or has another one.
    """
    entries = tomllib.loads(path.read_text())["fault"]
    return tuple(
        Planted(
            Fault(
                **{key: text.strip("\n") for key, text in one.items() if key != "finds"}, tests=()
            ),
            tuple(one["finds"]),
        )
        for one in entries
    )


def judge(planted: Planted, report: dict[str, Any]) -> Verdict:
    """Return what the report of a storm says of a fault."""
    found = {part: len(report[part]) for part in Report.FOUND if report.get(part)}
    named = [one for part in planted.finds for one in report.get(part) or ()]
    example = named[0].partition("\n")[0] if named else f"wanted: {', '.join(planted.finds)}"
    seconds = [report["after"][part] for part in planted.finds if part in report["after"]]
    return Verdict(planted.fault.name, found, bool(named), example, min(seconds, default=None))


def storm(planted: Planted, seed: int, minutes: float, folder: Path) -> Verdict:
    """Run a storm over a copy of the repository with a fault; return what it found.

    Args:
        planted: the fault.
        seed: of the storm.
        minutes: of the storm.
        folder: for the copy and the logs.
    """
    copy, logs = folder / "copy", folder / "logs"
    copy.mkdir(parents=True)
    for name in _COPIED:
        place = ROOT / name
        if place.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(place, copy / name, ignore=ignored)
        else:
            shutil.copy(place, copy / name)
    (copy / planted.fault.file).write_text(planted.fault.planted(ROOT))
    program = [sys.executable, "-m", "tests.chaos.storm"]
    command = [*program, "--first", "--json", "--folder", str(logs)]
    given = ["--seed", str(seed), "--minutes", str(minutes)]
    run = subprocess.run([*command, *given], cwd=copy, capture_output=True, check=False)
    shutil.rmtree(copy)
    try:
        report = json.loads(run.stdout)
    except ValueError:
        told = run.stderr.decode(errors="replace").splitlines()[-_SHOWN:]
        return Verdict(planted.fault.name, {}, is_found=False, example=f"no report: {told}")
    return judge(planted, report)


def verdicts(
    chosen: Sequence[Planted], seed: int, minutes: float, folder: Path
) -> Iterator[Verdict]:
    """Yield what storms over some faults came to, one after the other."""
    for one in chosen:
        yield storm(one, seed, minutes, folder / one.fault.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a command; return its exit code: 0 all found, 1 one missed, 2 bad arguments."""
    listed = read()
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.planted",
        description="Plant faults in the program, and show which of them a storm finds.",
        epilog="Faults: " + ", ".join(one.fault.name for one in listed),
    )
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default %(default)s")
    parser.add_argument(
        "--minutes", type=float, default=DEFAULT_MINUTES, help="of each storm; default %(default)s"
    )
    parser.add_argument("--only", default="", help="faults, with commas; others stay out")
    parser.add_argument("--folder", type=Path, help="for the logs; default: a new temporary one")
    given = parser.parse_args(arguments)
    only = set(filter(None, given.only.split(",")))
    for name in sorted(only - {one.fault.name for one in listed}):
        parser.error(f"there is no fault {name!r}")
    if not 0 < given.minutes <= LONGEST_MINUTES:
        parser.error(f"--minutes: {given.minutes} is not above 0 and at most {LONGEST_MINUTES}")
    folder = given.folder or Path(tempfile.mkdtemp(prefix="planted-"))
    chosen = [one for one in listed if not only or one.fault.name in only]
    missed = 0
    for verdict in verdicts(chosen, given.seed, given.minutes, folder):
        missed += not verdict.is_found
        print(verdict.text(), flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found; logs: {folder}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
