"""Fixtures of the chaos tests: one cluster for all, controllers that a test may do anything to."""

from collections.abc import Iterator

import pytest

from tests.chaos.flow import Stage
from tests.chaos.system import QUICK, ControllerProcess, System
from tests.integration import snapshot


@pytest.fixture(scope="package")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """An installation with a webhook and without a controller, on a cluster of its own."""
    with snapshot.prepared(tmp_path_factory.mktemp("chaos"), System) as made:
        made.start_webhook()
        made.add_priorities()
        yield made


@pytest.fixture(scope="package")
def lasting(system: System) -> Iterator[ControllerProcess]:
    """A controller that outlives tests, so that most of them start none."""
    with system.controller("lasting", QUICK) as one:
        yield one


@pytest.fixture
def controller(lasting: ControllerProcess) -> Iterator[ControllerProcess]:
    """A running controller and a proxy without faults; may be killed."""
    if not lasting.is_running:
        lasting.start()
    yield lasting
    lasting.proxy.heal()


@pytest.fixture
def stage(system: System, controller: ControllerProcess) -> Iterator[Stage]:
    """A running controller, and a namespace whose queue has four GPUs."""
    team = system.add_team(4, preemption={"withinClusterQueue": "LowerPriority"})
    yield Stage(system, controller, team)
    print(controller.tail())  # shown where the test failed
    system.empty(team)
