"""Replays recorded decisions of Kueue's scheduler: ``python -m tests.parity.replay [FILES...]``.

Prints every difference, the known departures with their decision records, and as last line
``replayed M cases, N equal, K differ, D departures``. Exits 1 if K > 0.
"""

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from admission.scheduling import cycle
from tests.parity import domains, victims
from tests.parity.case import Run
from tests.parity.compare import Difference, differences

CASES: Final = Path(__file__).parent / "cases"

DEPARTURES: Final[Mapping[str, str]] = {
    "F10-000044": "docs/adr/0010-the-scheduling-cycle.md",
    "F15-000010": "docs/adr/0011-preemption-comes-to-an-end.md",
    "F15-000088": "docs/adr/0011-preemption-comes-to-an-end.md",
    "F15-001046": "docs/adr/0011-preemption-comes-to-an-end.md",
    "F15-001062": "docs/adr/0011-preemption-comes-to-an-end.md",
}
"""Cases in which this project decides otherwise on purpose, with the decision record."""


OVERTAKEN: Final = "docs/adr/0286-who-was-overtaken-is-not-parked-beside-what-is-free.md"
"""The decision record of cases in which only those differ that others overtook."""


def departure(case: Mapping[str, Any], *, messages: bool = False) -> str:
    """The decision record of a case that differs on purpose; empty where it may not differ."""
    if case["id"] in DEPARTURES:
        return DEPARTURES[case["id"]]
    with mock.patch.object(cycle._Cycle, "_parked", lambda _cycle, _nominee, result: result):
        return "" if replay(case, messages=messages) else OVERTAKEN


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of one file."""
    with gzip.open(path, "rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line)


def replay(case: Mapping[str, Any], *, messages: bool = False) -> list[Difference]:
    """Every difference between a case's record and this engine."""
    if "targets" in case:
        return victims.differences(case)
    if "topology" in case:
        return list(domains.differences(case, messages=messages))
    expected = [case["initial"], *(step["expect"] for step in case["steps"])]
    found: list[Difference] = []
    for index, (wanted, got) in enumerate(zip(expected, Run(case).observations(), strict=True)):
        found += differences(case["id"], index - 1, wanted, got, messages=messages)
    return found


def report(cases: Iterable[Mapping[str, Any]], *, messages: bool, limit: int) -> bool:
    """Replays and prints; says whether no case differs."""
    total = equal = differing = departing = 0
    for case in cases:
        total += 1
        found = replay(case, messages=messages)
        if not found:
            equal += 1
        elif record := departure(case, messages=messages):
            departing += 1
            print(f"departure {case['id']}: {record}")
        else:
            differing += 1
            for one in found[:limit]:
                print(one.text())
            if len(found) > limit:
                print(f"    ... {len(found) - limit} more in {case['id']}")
    print(f"replayed {total} cases, {equal} equal, {differing} differ, {departing} departures")
    return differing == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.parity.replay", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="default: all of tests/parity/cases")
    parser.add_argument("--messages", action="store_true", help="compare texts, too")
    parser.add_argument("--case", help="only this one")
    parser.add_argument("--limit", type=int, default=20, help="differences shown per case")
    options = parser.parse_args(arguments)
    paths = options.files or sorted(CASES.glob("*.jsonl.gz"))
    cases = (case for path in paths for case in read(path))
    if options.case:
        cases = (case for case in cases if case["id"] == options.case)
    return 0 if report(cases, messages=options.messages, limit=options.limit) else 1


if __name__ == "__main__":
    sys.exit(main())
