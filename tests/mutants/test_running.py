"""Tests are run on code with a change, and the code itself stays as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import closest
from tests.mutants.closest import Closest
from tests.repo import tree

DOUBLE = "def double(x):\n    return 2 * x\n"
TEST = "from doubling import part\n\ndef test_double():\n    assert part.double(3) == 6\n"
KILLS = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
ONE, NONE, GONE = "test_part.py", "test_none.py", "test_gone.py"
RUNS = {
    "no change": (ONE, DOUBLE, 60.0, "PASSED"),
    "a change": (ONE, DOUBLE.replace("2 *", "3 *"), 60.0, "FAILED"),
    "a module that cannot be imported": (ONE, "no Python", 60.0, "FAILED"),
    "a module that kills the process": (ONE, KILLS, 60.0, "FAILED"),
    "a module that does not end": (ONE, "while True: pass\n", 2.0, "TIMED_OUT"),
    "no change once more": (ONE, DOUBLE, 60.0, "PASSED"),
    "a file without tests": (NONE, DOUBLE, 60.0, "NO_TESTS"),
    "a file that is not there": (GONE, DOUBLE, 60.0, "BROKEN"),
}
PROGRAM = """
import json, sys
from tests.mutants import running
for test, text, seconds in json.load(sys.stdin):
    print(running.run([test], {"doubling.part": text}, seconds).outcome.name, flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each run. They share a process of its own, as only that may fork."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "doubling").mkdir()
    (folder / "doubling" / "__init__.py").touch()
    part = folder / "doubling" / "part.py"
    part.write_text(DOUBLE)
    (folder / ONE).write_text(TEST)
    (folder / NONE).touch()
    runs = [(str(folder / name), text, seconds) for name, text, seconds, _ in RUNS.values()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(runs),
        cwd=tree.ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTEST_ADDOPTS": "-p tests.controlplane.plugin",  # no conftest is above the folder
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert part.read_text() == DOUBLE
    return dict(zip(RUNS, done.stdout.split(), strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_what_becomes_of(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == RUNS[name][3]


def test_the_tests_of_its_name_and_those_that_import_a_module_are_closest_to_it() -> None:
    module = tree.ROOT / "admission" / "scheduling" / "quota.py"
    near, further = Closest(tree.ROOT).stages(module)
    assert "tests/scheduling/test_quota.py" in near
    assert "tests/scheduling/test_cycle.py" in further
    assert not set(near) & set(further)
    assert not [name for name in (*near, *further) if name.startswith("tests/properties/")]


def test_what_a_module_imports_is_known_by_its_whole_name() -> None:
    source = "import a.b\nfrom c import d\nfrom e.f import g as h\n"
    assert closest.imported(source) == {"a.b", "c", "c.d", "e.f", "e.f.g"}


def test_a_path_is_a_module_of_the_repository(tmp_path: Path) -> None:
    names = {"a/b.py": "a.b", "a/__init__.py": "a"}
    assert {path: closest.module_name(tmp_path / path, tmp_path) for path in names} == names
