"""Which labels of nodes are named to whoever selects nodes of no flavor."""

import pytest

from admission.base.selectors import Requirement
from admission.reasons import next_steps
from admission.scheduling import node_labels

PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("flavors", "step"),
    [
        ({}, ""),
        ({"l4": {}}, ""),
        ({"l4": {PRODUCT: "NVIDIA-L4"}}, f"set {PRODUCT} to NVIDIA-L4 (l4)"),
        ({"l4": {"gpu": "l4"}}, "set gpu to l4"),
        ({"l4": {"gpu": "l4"}, "a": {"gpu": "b"}}, "set gpu to l4 or b (a)"),
        ({"l4": {"gpu": "l4"}, "a": {"zone": "b"}}, "set gpu to l4 or zone to b (a)"),
        ({"a": {"gpu": "b", "zone": "c"}}, "set gpu to b and zone to c (a)"),
        (
            {"a": {"gpu": "b", "zone": "c"}, "l4": {"gpu": "l4"}},
            "set gpu to l4 or gpu to b and zone to c (a)",
        ),
    ],
)
def test_the_labels_of_flavors_are_named_with_the_fewest_first(
    flavors: dict[str, dict[str, str]], step: str
) -> None:
    assert next_steps.labels_to_select(flavors) == step
    ending = ": it never starts as it is"
    assert next_steps.for_flavors(flavors) == (
        f"create it again, and {step}{ending}" if step else ""
    )


def test_of_many_flavors_as_many_are_named_as_fit_into_a_line() -> None:
    flavors = {f"flavor-{number}": {PRODUCT: f"NVIDIA-{number:20}"} for number in range(64)}
    step = next_steps.labels_to_select(flavors)
    assert 80 < len(step) <= 130
    assert step.endswith(")")
    assert next_steps.labels_to_select({"a": {"x" * 100: "y" * 63}}) == ""


@pytest.mark.parametrize(
    ("selector", "values", "expected"),
    [
        ({}, None, {}),
        ({"gpu": "l4"}, None, {}),
        ({"gpu": "a100", "disk": "ssd"}, None, {"gpu": "l4"}),
        ({"gpu": "a100", "zone": "b"}, None, {"gpu": "l4", "zone": "a"}),
        ({}, ("a100",), {"gpu": "l4"}),
        ({}, ("a100", "l4"), {}),
    ],
)
def test_only_labels_that_the_pods_contradict_are_in_the_way(
    selector: dict[str, str], values: tuple[str, ...] | None, expected: dict[str, str]
) -> None:
    labels = {"gpu": "l4", "zone": "a"}
    affinity = None if values is None else ((Requirement("gpu", "In", values),),)
    assert node_labels.contradicted(labels, selector, affinity) == expected
    assert node_labels.are_selected(labels, selector, affinity) is not bool(expected)


def test_of_alternatives_the_one_counts_that_is_nearest() -> None:
    far = (Requirement("gpu", "In", ("a100",)), Requirement("zone", "In", ("b",)))
    near = (Requirement("zone", "In", ("b",)),)
    labels = {"gpu": "l4", "zone": "a"}
    assert node_labels.contradicted(labels, {}, (far, near)) == {"zone": "a"}
