"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.chaos import invariants
from tests.controlplane.cluster import Cluster
from tests.e2e.pools import Pool
from tests.integration import snapshot
from tests.integration.installed import Installed


@pytest.fixture
def pool(whole_cluster: Cluster) -> Iterator[Pool]:
    """A namespace and an empty pool of nodes on a whole cluster without gpu-admission."""
    made = Pool(whole_cluster)
    yield made
    made.remove()


@pytest.fixture(scope="package")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A whole cluster of its own with gpu-admission installed and running."""
    with snapshot.started(tmp_path_factory.mktemp("system"), whole=True) as it:
        yield it


@pytest.fixture
def team(system: Installed) -> Iterator[Pool]:
    """A namespace and an empty pool of nodes on the cluster with gpu-admission.

    Whatever a test did, all invariants hold after it.
    """
    made = Pool(system.cluster)
    yield made
    invariants.await_all(system.api)
    made.remove()
