"""What `make matrix` runs is what docs/guides/compatibility.md says."""

import re

import yaml

from tests import matrix
from tests.controlplane import programs
from tests.repo import tree

PAGE = tree.ROOT / "docs" / "guides" / "compatibility.md"


def test_the_chart_installs_on_the_versions_that_were_run() -> None:
    chart = yaml.safe_load((tree.ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    oldest = min(programs.versions(), key=lambda version: tuple(map(int, version.split("."))))
    assert chart["kubeVersion"] == f">={oldest}.0-0"


def test_the_page_lists_the_versions_of_the_table() -> None:
    rows = re.findall(r"^\| (1\.\d+) \| (v[\d.]+)", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == programs.versions()


def test_what_was_run_passed_on_a_version_of_the_table() -> None:
    for version, results in matrix.recorded().items():
        assert results["kubernetes"] == programs.versions()[version]
        assert {how for part, how in results.items() if part != "kubernetes"} <= {"passed"}


def test_the_commands_are_those_that_are_recorded() -> None:
    assert list(matrix.parts("1.35", [], 1)) == ["tests/contract", "tests/integration", "storm"]
    assert list(matrix.parts("1.35", ["tests/contract/test_contract.py"], 0)) == [
        "tests/contract/test_contract.py"
    ]


def test_which_tests_failed_is_kept_apart_for_each_version() -> None:
    def caches(version: str) -> set[str]:
        commands = matrix.parts(version, [], 0, failed=True).values()
        return {
            argument for command in commands for argument in command if "cache_dir" in argument
        }

    assert caches("1.35").isdisjoint(caches("1.36"))
    assert all(
        "--last-failed" in command for command in matrix.parts("1.35", [], 0, failed=True).values()
    )
