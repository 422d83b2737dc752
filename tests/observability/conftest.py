"""Prometheus' programs, where they are compiled."""

from pathlib import Path

import pytest

from tests.observability import programs


def _program(name: str) -> Path:
    found = programs.built(name)
    if found is None:
        pytest.skip(f"{name} is not compiled: `make alerts` does it and runs this test")
    return found


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The tool that checks rules and runs their unit tests."""
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """Prometheus itself."""
    return _program("prometheus")
