"""Objects in which users nest as much as an API server stores."""

import json
from typing import Any

import pytest

from admission.kube import decoding, resources
from admission.kube.api import EventType
from admission.objects import views

DEEP = 9_000
"""Levels; an API server stores 10,000."""


def nested(name: str, inner: str = "") -> bytes:
    deep = '{"a":[' * (DEEP // 2) + (inner or "1") + "]}" * (DEEP // 2)
    text = json.dumps({"metadata": {"name": name, "resourceVersion": "7"}})
    return f'{text[:-1]},"spec":{deep},"status":{{"phase":"Running"}}}}'.encode()


@pytest.mark.parametrize("inner", ["", '"]}"', '"\\\\\\""', '{"b":[]}'])
def test_what_is_nested_without_end_is_read_as_null_and_the_rest_as_it_is(inner: str) -> None:
    found: Any = decoding.one(nested("deep", inner), dict)
    assert found["metadata"]["name"] == "deep"
    assert found["status"] == {"phase": "Running"}
    levels, at = 0, found["spec"]
    while at is not None:
        at = at["a"] if isinstance(at, dict) else at[0]
        levels += 1
    assert 90 <= levels <= 100


def test_an_object_that_is_nested_without_end_does_not_hide_the_others() -> None:
    items = b",".join((nested("deep"), b'{"metadata":{"name":"flat"}}'))
    raw = b'{"metadata":{"resourceVersion":"9"},"items":[' + items + b"]}"
    page = decoding.page(raw, resources.PODS, views.Object)
    assert [one.metadata.name for one in page.items] == ["deep", "flat"]
    assert page.undecodable == ()


def test_a_change_of_such_an_object_is_told() -> None:
    event = decoding.event(EventType.MODIFIED, nested("deep"), views.Object)
    assert (event.type, event.resource_version) == (EventType.MODIFIED, "7")


def pod(name: str, *gates: str) -> dict[str, Any]:
    held = [{"name": gate} for gate in gates]
    spec = {"containers": [{"name": "main"}], "volumes": [{"name": "data"}]}
    return {"metadata": {"name": name}, "spec": {**spec, "schedulingGates": held}}


def test_lists_and_watches_bring_pods_whole_only_where_a_workload_may_be_made_of_them() -> None:
    items = [pod("held", "gate"), pod("released")]
    raw = json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode()
    page = decoding.page(raw, resources.PODS, views.PodDocument)
    assert [type(one) for one in page.items] == [views.PodDocument, views.Pod]
    for item, type_ in zip(items, (views.PodDocument, views.Pod), strict=True):
        event = decoding.event(EventType.ADDED, json.dumps(item).encode(), views.PodDocument)
        assert type(event.object) is type_


def test_who_asks_for_a_pod_whole_gets_it_whole() -> None:
    found = decoding.one(json.dumps(pod("released")).encode(), views.PodDocument)
    assert found.spec["volumes"] == [{"name": "data"}]


def test_one_pod_that_cannot_be_read_does_not_hide_the_others() -> None:
    items = [pod("good"), {"metadata": {"name": "bad"}, "spec": {"containers": 1}}]
    page = decoding.page(json.dumps({"items": items}).encode(), resources.PODS, views.PodDocument)
    assert [one.metadata.name for one in page.items] == ["good"]
    assert [one.name for one in page.undecodable] == ["bad"]
