"""Fixtures of an installation; each pytest-xdist worker has its own."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.integration.installed import Installed
from tests.integration.shared import Shared


class _Pool:
    """The shared installations of this worker, which are started where a file needs one."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._shared: dict[bool, Shared] = {}

    def lend(self, *, whole: bool) -> Shared:
        """An installation that nobody uses."""
        if whole not in self._shared:
            name = "whole" if whole else "installation"
            self._shared[whole] = Shared(self._folders.mktemp(name), whole=whole)
        return self._shared[whole]

    def take_back(
        self, shared: Shared, file: Path, expected: Collection[str], *, whole: bool
    ) -> None:
        """Checks what a file left behind, and fails that file."""
        problems = shared.end(expected)
        if problems:
            self._shared.pop(whole).close()
            listed = "\n  ".join(problems[:20])
            pytest.fail(f"{file.name} left behind:\n  {listed}", pytrace=False)

    def close(self) -> None:
        while self._shared:
            self._shared.popitem()[1].close()


@pytest.fixture(scope="session")
def installations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Pool]:
    """The shared installations of this worker."""
    pool = _Pool(tmp_path_factory)
    yield pool
    pool.close()


def _lent(
    installations: _Pool, request: pytest.FixtureRequest, *, whole: bool
) -> Iterator[Installed]:
    shared = installations.lend(whole=whole)
    shared.begin()
    yield shared.system
    expected = getattr(request.module, "EXPECTED_ERRORS", ())
    installations.take_back(shared, request.path, expected, whole=whole)


@pytest.fixture(scope="module")
def installation(installations: _Pool, request: pytest.FixtureRequest) -> Iterator[Installed]:
    """An installation with the default configuration that files share, see `Shared`.

    ``EXPECTED_ERRORS`` of a file are the events of errors that it has the product log.
    """
    yield from _lent(installations, request, whole=False)


@pytest.fixture(scope="module")
def whole_installation(
    installations: _Pool, request: pytest.FixtureRequest
) -> Iterator[Installed]:
    """Another one, on a cluster in which pods are bound and run."""
    yield from _lent(installations, request, whole=True)
