"""The faults that a storm must find stand in the code, and a report says whether it found them."""

import dataclasses
from typing import Any

import pytest

from tests.chaos import planted as chaos_planted
from tests.chaos.planted import Planted
from tests.chaos.storm import Report

LISTED = chaos_planted.read()
LEAST = 10


@pytest.mark.parametrize("planted", LISTED, ids=lambda one: one.fault.name)
def test_a_fault_can_be_planted_and_names_what_a_storm_reports(planted: Planted) -> None:
    text = planted.fault.planted(chaos_planted.ROOT)
    assert text != (chaos_planted.ROOT / planted.fault.file).read_text()
    if planted.fault.file.endswith(".py"):
        compile(text, planted.fault.file, "exec")
    assert planted.finds
    assert set(planted.finds) <= set(Report.FOUND)


def test_there_are_ten_faults_with_names_of_their_own() -> None:
    names = [one.fault.name for one in LISTED]
    assert len(names) >= LEAST
    assert len(set(names)) == len(names)


def report(**found: list[str]) -> dict[str, Any]:
    return dataclasses.asdict(Report(seed=1, seconds=1, log="", **found))  # type: ignore[arg-type]


def test_a_fault_is_found_by_what_it_is_about_and_by_nothing_else() -> None:
    planted = next(one for one in LISTED if one.finds == ("violations",))
    found = chaos_planted.judge(planted, report(violations=["pod a\nheld by b"]))
    assert (found.is_found, found.example) == (True, "pod a")
    other = chaos_planted.judge(planted, report(faults=["the storm itself"]))
    assert not other.is_found
    assert "MISSED" in other.text()


def test_faults_that_are_not_listed_are_refused() -> None:
    with pytest.raises(SystemExit) as refused:
        chaos_planted.main(["--only", "nothing"])
    assert refused.value.code == 2
