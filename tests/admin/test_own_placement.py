"""Which nodes take the pods of webhook and controller, and with which tolerations."""

import pytest

from admission.admin import own_placement
from admission.scheduling.model import Taint, Toleration

GPU = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
CONTROL = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
SPOT = Taint(key="spot", effect="PreferNoSchedule")
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@pytest.mark.parametrize(
    ("nodes", "tolerated"),
    [
        ([], ()),
        ([[GPU], []], ()),
        ([[GPU], [SPOT]], ()),
        ([[GPU]], (Toleration(key="nvidia.com/gpu", operator="Exists"),)),
    ],
)
def test_a_node_is_open_that_has_no_taint_or_none_that_matters(
    nodes: list[list[Taint]], tolerated: tuple[Toleration, ...]
) -> None:
    assert own_placement.find(nodes, tolerated).is_open


def test_the_taints_of_most_nodes_are_to_be_tolerated() -> None:
    found = own_placement.find([[CONTROL], [GPU], [GPU, SPOT], [GPU, CORDONED]], ())
    assert not found.is_open
    assert found.documents() == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]


def test_a_taint_without_a_value_is_tolerated_by_its_key() -> None:
    assert own_placement.find([[CONTROL]], ()).documents() == [
        {"key": CONTROL.key, "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_what_is_tolerated_already_stays() -> None:
    spot = Toleration(key="spot", operator="Exists")
    assert own_placement.find([[GPU]], (spot,)).documents()[0] == {
        "key": "spot",
        "operator": "Exists",
    }


def test_a_taint_that_goes_by_itself_is_never_tolerated() -> None:
    found = own_placement.find([[CORDONED], [GPU, CORDONED]], ())
    assert [one["key"] for one in found.documents()] == [GPU.key]


def test_nothing_is_to_be_tolerated_where_nodes_are_only_cordoned() -> None:
    found = own_placement.find([[CORDONED], [CORDONED]], ())
    assert (found.is_open, found.documents()) == (False, [])
