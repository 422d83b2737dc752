"""LimitRange maths against verdicts recorded from the API server's own code."""

from typing import Any

import pytest

from admission.base import pod_resources
from admission.base.pod_resources import Container, Pod
from admission.gpu import quantities
from admission.objects import limit_range as limits
from admission.objects.limit_range import ParsedLimitRange
from tests.gpu import limitranger

KEYS = {
    "min": "min_",
    "max": "max_",
    "default": "default",
    "defaultRequest": "default_request",
    "maxLimitRequestRatio": "ratio",
}
CASES = limitranger.load()


def make_range(index: int, items: list[dict[str, Any]]) -> ParsedLimitRange:
    made = (
        limits.item(item["type"], **{KEYS[k]: v for k, v in item.items() if k != "type"})
        for item in items
    )
    return ParsedLimitRange(name=str(index), items=tuple(made))


def make_container(written: dict[str, Any], *, init: bool) -> Container[quantities.Quantity]:
    parts = written["resources"]
    return Container(
        name=written["name"],
        is_init=init,
        is_sidecar=written.get("restartPolicy") == "Always",
        requests=quantities.parse_list(parts.get("requests")),
        limits=quantities.parse_list(parts.get("limits")),
    )


def make_pod(spec: dict[str, Any]) -> Pod[quantities.Quantity]:
    init = [make_container(c, init=True) for c in spec.get("initContainers", ())]
    running = [make_container(c, init=False) for c in spec["containers"]]
    level = spec.get("resources", {})
    pod_level = Container(
        requests=quantities.parse_list(level.get("requests")),
        limits=quantities.parse_list(level.get("limits")),
    )
    return pod_resources.with_default_requests(
        Pod(containers=(*init, *running), pod_level=pod_level)
    )


def show(amounts: quantities.ResourceList) -> dict[str, str]:
    return {name: amount.text for name, amount in amounts.items()}


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_req_17_same_verdict_as_the_api_server(case):
    written = [make_range(i, items) for i, items in enumerate(case["ranges"])]
    stored = [
        ParsedLimitRange(name=r.name, items=tuple(map(limits.defaulted, r.items))) for r in written
    ]
    pod, annotation = limits.fill_all(make_pod(case["pod"]), stored)
    filled = {
        c.name: {"requests": show(c.requests), "limits": show(c.limits)} for c in pod.containers
    }
    assert filled == case["want"]["filled"]
    assert annotation == case["want"]["annotation"]
    assert [list(limits.check(pod, r)) for r in stored] == case["want"]["reasons"]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_req_17_the_same_objects_are_refused_for_the_same_reasons(case):
    for index, items in enumerate(case["ranges"]):
        found = limits.invalid(make_range(index, items))
        wanted = case["want"]["invalid"][index]
        fields = {text.split(" ", 1)[0] for text in wanted}
        assert {finding.field for finding in found} == fields
        for text in wanted:
            field, _, body = text.partition(" ")
            assert any(f.field == field and _same(f.text, body) for f in found), text


def _same(ours: str, theirs: str) -> bool:
    """Theirs quotes the value in front of the rule; a duplicate's advice is ours alone."""
    return ours in theirs or ours.startswith(theirs)
