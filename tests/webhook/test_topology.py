"""Rules of the topology annotations that `pod_cases` leaves open."""

import json

import pytest

from admission.webhook import topology
from tests.webhook.pod_cases import LAYERS


@pytest.mark.parametrize("text", ["{", '{"topology":"a","size":1}', '["a"]', "[1]"])
def test_layers_that_are_no_list_of_layers_are_refused(text: str) -> None:
    (error,) = topology.errors({LAYERS: text})
    assert error.text().startswith(f"metadata.annotations[{LAYERS}]: Invalid value: ")
    assert "must be a JSON list of layers" in error.text()


def test_a_layer_divides_the_one_around_it_and_not_the_outermost() -> None:
    sizes = {"block": 12, "rack": 6, "host": 4}
    layers = [{"topology": name, "size": size} for name, size in sizes.items()]
    said = [error.text() for error in topology.errors({LAYERS: json.dumps(layers)})]
    (refusal,) = (text for text in said if "must evenly divide" in text)
    place = f"metadata.annotations[{LAYERS}][2].size"
    assert refusal == f"{place}: Invalid value: 4: must evenly divide the parent layer size 6"


@pytest.mark.parametrize("annotations", [{}, {"other": "x"}], ids=str)
def test_a_pod_that_asks_for_no_topology_breaks_no_rule(annotations: dict[str, str]) -> None:
    assert topology.errors(annotations) == []
