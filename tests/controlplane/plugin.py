"""pytest's side of the control plane: fixtures, an option, and the marker ``controlplane``.

A test that asks for one of the fixtures carries the marker by itself. Each pytest-xdist worker
starts clusters of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from tests.controlplane import build, forked
from tests.controlplane.cluster import Cluster

_WHOLE = ("kube-controller-manager", "kube-scheduler", "kwok")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": (),
    "whole_cluster": _WHOLE,
    "fresh_cluster": (),
    "installation": (),
    "whole_installation": _WHOLE,
}
"""Fixtures that start a control plane, and the programs that it needs beside the API server."""

KEPT: Final = _NEEDED.keys() - {"fresh_cluster"}
"""Those of them that keep it for other files."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-controlplane",
        action="store_true",
        help="leave out the tests that need a compiled control plane",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _NEEDED.keys() & _fixtures(item):
            item.add_marker("controlplane")
    if config.getoption("--no-controlplane"):
        left_out = [item for item in items if item.get_closest_marker("controlplane")]
        items[:] = [item for item in items if item.get_closest_marker("controlplane") is None]
        config.hook.pytest_deselected(items=left_out)


def _fixtures(item: pytest.Item) -> set[str]:
    """Names of the fixtures that a test asks for; values of a table are none."""
    names = set(getattr(item, "fixturenames", ()))
    table = getattr(item, "callspec", None)
    return names if table is None else names - table.params.keys()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("controlplane") is None:
        return
    names = [name for fixture in _fixtures(item) for name in _NEEDED.get(fixture, ())]
    if lacking := build.missing(["etcd", "kube-apiserver", *names]):
        pytest.fail(
            f"{build.folder()} holds no {', '.join(lacking)}: run 'make controlplane', "
            "or leave these tests out with --no-controlplane",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """etcd and kube-apiserver, shared by tests: make namespaces of your own, restart nothing."""
    with Cluster.start() as started:
        yield started


@pytest.fixture(scope="session")
def whole_cluster() -> Iterator[Cluster]:
    """A second shared cluster, with kube-controller-manager, kube-scheduler and kwok."""
    with Cluster.start() as started:
        started.start_whole()
        yield started


@pytest.fixture
def fresh_cluster() -> Iterator[Callable[[], Cluster]]:
    """Starts clusters for this test alone, which may restart or break them."""
    started: list[Cluster] = []

    def start() -> Cluster:
        started.append(Cluster.start())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()


def pytest_sessionfinish() -> None:
    forked.close()
