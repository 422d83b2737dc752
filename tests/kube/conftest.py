from collections.abc import Iterator

import pytest

from tests.kube.faulty import FaultyServer


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as started:
        yield started
