"""Which tests run at a landing, which nightly, and which are closest to a change."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import changed, nightly, tiers

RECORD = {
    "date": "2026-01-02T03:04:05Z",
    "commit": "0123456789",
    "runs": [
        {
            "is_beside_busy_loops": False, "passed": 9, "failed": 0, "skipped": 1, "seconds": 60,
            "is_whole": True, "failures": [],
        },
    ]
    * 3,
}  # fmt: skip


def test_a_sample_is_a_share_of_the_cases_and_the_same_each_time() -> None:
    marker = pytest.mark.sampled(one_in=4).mark
    cases = [f"tests/chaos/test_crashes.py::test_it[{number}]" for number in range(400)]
    sample = [case for case in cases if tiers.is_in_sample(case, marker)]
    assert 60 < len(sample) < 140
    assert sample == [case for case in cases if tiers.is_in_sample(case, marker)]
    assert all(tiers.is_in_sample(case, None) for case in cases)


@pytest.mark.parametrize(
    ("path", "touches"),
    [
        ("admission/owners/lifecycle.py", True),
        ("admission/controller/writing/writer.py", True),
        ("admission/kube/reflector.py", True),
        ("admission/kube/events.py", False),
        ("README.md", False),
    ],
)
def test_all_cases_run_where_what_they_are_about_changed(path: str, touches: bool) -> None:
    assert tiers.touches_sampled_code([path]) is touches


@pytest.mark.parametrize("path", tiers.SAMPLED_CODE)
def test_the_code_that_sampled_cases_are_about_exists(path: str) -> None:
    assert (tiers.ROOT / path).exists()


def test_a_nightly_run_is_told_with_its_figures() -> None:
    lines = nightly.last(RECORD, 3)
    assert lines == [
        "last nightly run: 2026-01-02T03:04:05Z, commit 01234567",
        *["  alone: 9 passed, 0 failed, 1 skipped in 60 s"] * 3,
    ]


def test_a_nightly_run_that_was_cut_off_is_a_warning() -> None:
    lines = nightly.last({**RECORD, "runs": RECORD["runs"][:1]}, 3)
    assert lines[-1] == "!! WARNING: 2 of its 3 runs did not take place"


RESULTS = """<testsuites><testsuite tests="3" failures="1" errors="0" skipped="1" time="60.2">
<testcase classname="tests.gpu.test_costs" name="test_a[1]"><failure message="no"/></testcase>
<testcase classname="tests.gpu.test_costs" name="test_b"/>
<testcase classname="tests.gpu.test_costs" name="test_c"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("results", "exit_code", "told"),
    [
        (RESULTS, 1, ["1 passed, 1 failed, 1 skipped in 60 s", "gpu/test_costs.py::test_a[1]"]),
        ("", 3, ["0 passed, 0 failed, 0 skipped in 0 s, broke off"]),
    ],
    ids=["a failure", "broken off"],
)  # fmt: skip
def test_a_nightly_run_writes_its_commit_figures_and_failures(
    results: str, exit_code: int, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "nightly.json"

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert "--nightly" in command
        file = next(o for o in command if o.startswith("--junitxml=")).partition("=")[2]
        if results:
            Path(file).write_text(results)
        return subprocess.CompletedProcess(command, exit_code)

    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "LAST_NIGHTLY", written)
    monkeypatch.setattr(tiers, "head", lambda: "0123456789")
    monkeypatch.setattr(subprocess, "run", run)
    assert nightly.main(["--workers", "1"]) == 1
    lines = nightly.last(json.loads(written.read_text()), 0)
    assert "commit 01234567" in lines[0]
    assert all(any(text in line for line in lines) for text in told)


@pytest.mark.parametrize(
    ("record", "commits"), [(None, None), (RECORD, None), (RECORD, nightly.OLD_COMMITS + 1)]
)
def test_an_old_or_missing_nightly_run_is_a_warning(record, commits) -> None:
    assert "WARNING" in nightly.last(record, commits)[-1]


def test_the_closest_tests_import_a_changed_module_or_carry_its_name(tmp_path: Path) -> None:
    files = {
        "tests/base/test_amount.py": "",
        "tests/cli/test_top.py": "from admission.base import amount, names",
        "tests/cli/test_why.py": "import admission.base.amount",
        "tests/cli/test_who.py": "from admission.base import names",
        "tests/gpu/test_costs.py": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert changed.closest({"admission/base/amount.py", "tests/gpu/test_costs.py"}, tmp_path) == [
        "tests/base/test_amount.py",
        "tests/cli/test_top.py",
        "tests/cli/test_why.py",
        "tests/gpu/test_costs.py",
    ]


def test_durations_are_of_files_that_exist_and_powers_of_two() -> None:
    durations = json.loads(tiers.DURATIONS.read_text())
    assert {file for file in durations if not (tiers.ROOT / file).is_file()} == set()
    assert {n for n in durations.values() if tiers.rounded(n) != n} == set()


def test_recorded_durations_change_only_with_the_test() -> None:
    assert [tiers.rounded(s) for s in (0.2, 1.3, 11, 15, 20, 22, 90, 91)] == [
        *(1, 1, 8, 16, 16, 16, 64, 128),
    ]
