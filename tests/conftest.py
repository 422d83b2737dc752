"""What every test may use: control plane, log; and how hypothesis draws its examples."""

import gc
import os
import sys
from collections.abc import Callable, Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from admission.base import logs

# Processes that run tests side by side are told of a terminal of 80 columns; commands have a pipe.
os.environ.pop("COLUMNS", None)
# Processes that are executed compile what they import once, not each of them again; so does each
# process that runs tests, whose assertions are rewritten: half of the time that collection takes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Collected tests are many and stay: they are no garbage to look through.
gc.set_threshold(20_000, 20, 20)

pytest_plugins = [
    "tests.controlplane.plugin",
    "tests.distribution",
    "tests.integration.fixtures",
    "tests.tiers",
]

# The same examples each time and no look at the clock: a busy machine fails nothing. Others are
# drawn by `pytest --hypothesis-profile=search`.
settings.register_profile(
    "guard", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("guard")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def logged_to() -> Iterator[Callable[[str], None]]:
    """Has the log written to stderr as JSON, from a level on."""
    before = structlog.get_config()
    yield logs.configure
    structlog.configure(**before)
