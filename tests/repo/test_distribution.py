"""In which order files run, and on which worker."""

import pytest

from tests import distribution

pytest_plugins = ["pytester"]


def ordered(files: dict[str, bool], seconds: dict[str, float]) -> list[str]:
    keys = distribution.order(files, seconds)
    return sorted(files, key=lambda name: keys[name])


def test_slow_files_come_first_and_equal_ones_by_name() -> None:
    files = dict.fromkeys(["b", "c", "a", "new"], True)
    assert ordered(files, {"a": 1, "b": 1, "c": 50}) == ["c", "new", "a", "b"]


def test_files_that_wait_and_files_that_compute_advance_side_by_side() -> None:
    files = {"long wait": True, "short wait": True} | {f"computes {n}": False for n in range(1, 5)}
    seconds = {"long wait": 200.0, "short wait": 200.0} | {f"computes {n}": 10.0 for n in range(9)}
    assert ordered(files, seconds) == [
        *("long wait", "computes 1", "computes 2", "short wait", "computes 3", "computes 4"),
    ]


@pytest.mark.parametrize(
    ("node", "waiting", "expected"),
    [
        pytest.param("gw0", ["plain", "kept 1"], "kept 1", id="the worker that started it"),
        pytest.param("gw1", ["kept 1", "plain"], "plain", id="another worker"),
        pytest.param("gw1", ["kept 1", "new 1"], "new 1", id="nobody started it yet"),
        pytest.param("gw1", ["lost 1", "plain"], "lost 1", id="its worker is gone"),
        pytest.param("gw1", ["kept 1", "kept 2"], "kept 1", id="nothing else is left"),
    ],
)
def test_files_of_a_fixture_go_to_the_worker_that_has_started_it(
    node: str, waiting: list[str], expected: str
) -> None:
    shared = {"kept 1": "kept", "kept 2": "kept", "new 1": "new", "lost 1": "lost"}
    starters = {"kept": "gw0", "lost": "gw9"}
    assert distribution.next_file(node, waiting, shared, starters, ["gw0", "gw1"]) == expected


PLUGIN = """
import pytest

class Fixtures:
    @pytest.fixture(scope="session")
    def cluster(self):
        return "kept"

def pytest_configure(config):
    config.pluginmanager.register(Fixtures())
"""
FILES = {
    "test_shares": """
        import pytest
        pytestmark = pytest.mark.controlplane
        def test_it(cluster): pass
    """,
    "test_has_its_own": """
        import pytest
        pytestmark = pytest.mark.controlplane
        @pytest.fixture(scope="module")
        def cluster(): pass
        def test_it(cluster): pass
    """,
    "test_says_so": """
        import pytest
        @pytest.mark.controlplane(fixture="cluster")
        def test_it(): pass
    """,
    "test_needs_none": "def test_it(): pass",
}


def test_a_fixture_is_shared_unless_a_file_has_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nmarkers = ["controlplane"]')
    pytester.makepyfile(kept=PLUGIN)
    pytester.syspathinsert()
    pytester.makepyfile(**FILES)
    items, _ = pytester.inline_genitems("-p", "kept")
    assert distribution.shared(items, {"cluster"}) == {
        "test_says_so.py": "cluster",
        "test_shares.py": "cluster",
    }


def test_every_test_of_every_file_runs_once(pytester: pytest.Pytester) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n): pass\n"
    pytester.makepyfile(**{f"test_{number}": text for number in range(5)})
    options = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    done = pytester.runpytest_inprocess("-p", "tests.distribution", *options)
    done.assert_outcomes(passed=15)
