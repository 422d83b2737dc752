"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.chaos import invariants
from tests.controlplane.cluster import Cluster
from tests.e2e.pools import Pool
from tests.integration.installed import Installed


@pytest.fixture
def pool(whole_cluster: Cluster) -> Iterator[Pool]:
    """A namespace and an empty pool of nodes on a whole cluster without gpu-admission."""
    made = Pool(whole_cluster)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    """A whole cluster with gpu-admission installed and running."""
    return whole_installation


@pytest.fixture
def team(system: Installed) -> Iterator[Pool]:
    """A namespace and an empty pool of nodes on the cluster with gpu-admission.

    Whatever a test did, all invariants hold after it.
    """
    made = Pool(system.cluster)
    yield made
    invariants.await_all(system.api)
    made.remove()
