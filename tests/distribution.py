"""Which worker runs which file next, and in which order files come.

Files with a control plane wait, the others compute: both kinds advance side by side, so that the
cores are busy to the end. Of each kind, slow files come first. Files that share a fixture which
starts a control plane go to the worker that has started it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import pytest
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SHARES: Final = "gpu-admission/shares"
"""Where pytest's cache has which fixture each file shares with others, as `shared` finds them."""

_UNKNOWN_SECONDS: Final = {True: 20.0, False: 1.0}
"""What a file takes that was never measured: with a control plane, and without one."""


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


def order(
    files: Mapping[str, bool], seconds: Mapping[str, float]
) -> dict[str, tuple[float, bool, str]]:
    """Return a key of each file by which they are sorted.

    Args:
        files: for each file whether it needs a control plane.
        seconds: how long files take, of those that are known.
    """
    keys = {}
    for kind, unknown in _UNKNOWN_SECONDS.items():
        taken = {name: seconds.get(name, unknown) for name, is_kind in files.items()
                 if is_kind is kind}  # fmt: skip
        total, before = sum(taken.values()) or 1.0, 0.0
        for name in sorted(taken, key=lambda name: (-taken[name], name)):
            keys[name] = (before / total, not kind, name)
            before += taken[name]
    return keys


def shared(items: Iterable[pytest.Item], fixtures: Collection[str]) -> dict[str, str]:
    """Return the fixture of each file that it shares with other files.

    Args:
        items: all tests.
        fixtures: names of fixtures that keep a control plane for several files. A file may have
            one of its own with such a name.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for item in items:
        marker = item.get_closest_marker("controlplane")
        if marker is None:
            continue
        about = getattr(item, "_fixtureinfo", None)
        definitions = {} if about is None else about.name2fixturedefs
        found[file_of(item.nodeid)] |= {
            name for name in fixtures if name in definitions and not definitions[name][-1].baseid
        } | set(marker.kwargs.values())
    return {name: min(names) for name, names in sorted(found.items()) if names}


class Distribution(LoadFileScheduling):  # type: ignore[misc]
    """Hands out files in the order in which they were collected, unless a fixture decides."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._places: dict[str, int] = {}
        self._shared: Mapping[str, str] = {}
        self._starters: dict[str, WorkerController] = {}

    @override
    def schedule(self) -> None:
        if self.collection is None:
            first = next(iter(self.registered_collections.values()))
            self._places = {test: place for place, test in enumerate(first)}
            if self.config.cache is not None:
                self._shared = self.config.cache.get(SHARES, {})
        super().schedule()

    @override
    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        super().mark_test_complete(node, item_index, duration)
        # All units of a node are counted after each test; what is done need not be.
        units = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(units[scope].values()):
            del units[scope]

    @override
    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = next_file(node, self.workqueue, self._shared, self._starters, self.nodes)
        if scope in self._shared:
            self._starters[self._shared[scope]] = node
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, {})[scope] = unit
        left = [self._places[test] for test, is_complete in unit.items() if not is_complete]
        node.send_runtest_some(left)


def next_file(
    node: object,
    waiting: Iterable[str],
    shared: Mapping[str, str],
    starters: Mapping[str, object],
    nodes: Collection[object],
) -> str:
    """Return the file that a worker gets next.

    It is the first one whose fixture this worker has started; else the first one that needs no
    fixture of another worker; where there is none, the first one.

    Args:
        node: the worker.
        waiting: files that no worker has, at least one.
        shared: the fixture of each file that shares one.
        starters: the worker that has started a fixture, where one has.
        nodes: workers that run.
    """
    files = list(waiting)
    for name in files:
        if name in shared and starters.get(shared[name]) is node:
            return name
    for name in files:
        if name not in shared or starters.get(shared[name]) not in nodes:
            return name
    return files[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Distribution | None:
    """Distribute files, where files are distributed."""
    return Distribution(config, log) if config.getoption("dist") == "loadfile" else None
