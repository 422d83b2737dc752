from collections.abc import Callable, Iterator

import pytest
import structlog

from admission.obs import logs
from tests.kube.faulty import FaultyServer


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as started:
        yield started


@pytest.fixture
def logged_to() -> Iterator[Callable[[str], None]]:
    """Has the log written to stderr, from a level on."""
    before = structlog.get_config()
    yield logs.configure
    structlog.configure(**before)
