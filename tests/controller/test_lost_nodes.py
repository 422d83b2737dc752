"""The time from which a pod on a lost node counts as ended: never before it can have ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from admission.base import clock
from admission.controller.devices.lost_nodes import OUT_OF_SERVICE, LostNodes
from admission.objects import views

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AFTER = timedelta(minutes=5)


def at(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def node(ready: str = "True", since: int = 0, *taints: str) -> views.Node:
    """Return a node whose condition Ready has a status since some minutes after ``NOW``."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": clock.to_wire(at(since))}
    document: dict[str, Any] = {
        "metadata": {"name": "n0"},
        "spec": {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]},
        "status": {"conditions": [condition]},
    }
    return msgspec.convert(document, views.Node)


def made(*nodes: views.Node) -> LostNodes:
    lost = LostNodes()
    for one in nodes:
        lost.on_update(one)
    return lost


@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize(
    ("since", "ends", "expected"),
    [(0, 60, 65), (60, 0, 65), (10, 10, 15)],
    ids=["its grace period ends later", "its node is lost later", "both at once"],
)
def test_both_the_grace_period_and_the_node_are_waited_for(
    status: str, since: int, ends: int, expected: int
) -> None:
    lost = made(node(status, since))
    assert lost.frees_at("n0", at(ends), AFTER) == at(expected)


def test_nothing_is_free_on_a_node_that_is_ready() -> None:
    assert made(node()).frees_at("n0", at(-60), AFTER) is None


@pytest.mark.parametrize(
    "lost", [made(), made(node("True", 0, OUT_OF_SERVICE))], ids=["gone", "out of service"]
)
def test_a_node_on_which_nothing_runs_is_waited_for_no_longer(lost: LostNodes) -> None:
    frees = lost.frees_at("n0", at(60), AFTER)
    assert frees is not None
    assert frees < NOW
    assert lost.is_gone("n0")
    assert lost.is_lost("n0")


def test_a_node_that_is_not_ready_is_lost_and_not_gone() -> None:
    lost = made(node("Unknown"))
    assert (lost.is_lost("n0"), lost.is_gone("n0")) == (True, False)


def test_a_node_that_is_ready_again_is_not_lost() -> None:
    lost = made(node("Unknown"), node("True", 1))
    assert (lost.is_lost("n0"), lost.is_gone("n0")) == (False, False)
    assert lost.frees_at("n0", at(0), AFTER) is None


def test_a_taint_of_others_takes_no_node_out_of_service() -> None:
    assert not made(node("True", 0, "example.com/slow")).is_lost("n0")


def test_a_node_is_told_once_for_each_change() -> None:
    lost = made(node())
    assert lost.take_changed() == {"n0"}
    lost.on_update(node())
    assert lost.take_changed() == set()
    lost.on_update(node("False"))
    assert lost.take_changed() == {"n0"}
    lost.on_delete("n0")
    assert lost.take_changed() == {"n0"}
    lost.on_delete("n0")
    assert lost.take_changed() == set()
