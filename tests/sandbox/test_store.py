"""What only the embedded store promises, and laws of its parts."""

import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import EventType
from admission.sandbox.embedded import patching, pods, selection
from admission.sandbox.store import Store
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.contract import objects

MAPS = resources.CONFIG_MAPS

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def test_equal_seeds_give_equal_stores():
    def made() -> list[Any]:
        store = Store(clock=FakeClock(), rng=random.Random(7))
        document = make_pod("a")
        document["metadata"] = {"generateName": "x-"}
        store.create(resources.PODS, document, "default")
        return [store.list(kind).items for kind in (resources.PODS, resources.NAMESPACES)]

    assert made() == made()


def test_nothing_is_shared_with_whoever_writes_or_reads():
    store = Store()
    written: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    store.create(MAPS, written, "default")
    written["data"]["x"] = "2"
    read = store.get(MAPS, "a", "default")
    read["data"]["x"] = "3"
    assert store.get(MAPS, "a", "default")["data"] == {"x": "1"}


def test_concurrent_writers_lose_nothing():
    store = Store()
    store.create(MAPS, {"metadata": {"name": "a"}, "data": {}}, "default")

    def write(writer: int) -> None:
        for number in range(50):
            while not wrote(patches.merge({"data": {f"{writer}-{number}": "x"}})):
                pass

    def wrote(patch: patches.Patch) -> bool:
        try:
            store.patch(MAPS, "a", patch, "default")
        except errors.ConflictError:
            return False
        return True

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(store.get(MAPS, "a", "default")["data"]) == 200


def test_history_is_bounded():
    store = Store(history=10)
    store.create(MAPS, {"metadata": {"name": "a"}}, "default")
    since = store.list(MAPS).resource_version
    for number in range(10):
        label = patches.merge({"metadata": {"labels": {"n": str(number)}}})
        store.patch(MAPS, "a", label, "default")

    def events(version: str) -> list[EventType]:
        return [
            event.type
            for event in store.watch(
                MAPS, resource_version=version, timeout_seconds=0, bookmarks=False
            )
        ]

    assert events(since) == [EventType.MODIFIED] * 10
    store.create(MAPS, {"metadata": {"name": "b"}}, "default")
    with pytest.raises(errors.GoneError, match="too old resource version"):
        events(since)


def test_a_patch_that_changes_nothing_of_a_gated_pod_is_no_new_version():
    store = Store()
    made = store.create(resources.PODS, make_pod("a", gates=[objects.GATE]), "default")
    assert store.patch(resources.PODS, "a", patches.merge({}), "default") == made


def test_custom_kinds_are_served_only_with_their_definition():
    with pytest.raises(errors.NotFoundError, match="could not find the requested resource"):
        Store().list(resources.WORKLOADS)


@given(target=documents, change=documents)
def test_a_merge_patch_twice_is_a_merge_patch_once(target: Any, change: Any):
    once = patching.merge(target, change)
    assert patching.merge(once, change) == once


@given(target=documents, change=documents)
def test_a_merge_patch_touches_named_members_only(target: Any, change: Any):
    merged = patching.merge(target, change)
    assert {k: v for k, v in merged.items() if k not in change} == {
        k: v for k, v in target.items() if k not in change
    }
    assert not [key for key, value in change.items() if value is None and key in merged]


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target: Any, change: Any, expected: Any):
    assert patching.merge(target, change) == expected


@given(
    amounts=st.dictionaries(
        st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
        st.sampled_from(["1", "0.5", "1500m", "1024Mi", "3Gi", "1e3", "2000", "7k", "1.5Gi"]),
    )
)
def test_defaults_of_defaults_are_the_defaults(amounts: dict[str, str]):
    document = make_pod("a", limits=dict(amounts))
    pods.defaults(document)
    once = patching.merge(document, {})
    pods.defaults(document)
    assert document == once


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("metadata", "labels", "a/b"), "/metadata/labels/a~1b"),
        (("x~y", 0), "/x~0y/0"),
        (("~1",), "/~01"),
        ((), ""),
    ],
)
def test_pointers_are_escaped(parts: tuple[str | int, ...], expected: str):
    assert patches.pointer(*parts) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a", [("a", "Exists", ())]),
        ("!a", [("a", "DoesNotExist", ())]),
        ("a=b,c==d,e!=f", [("a", "In", ("b",)), ("c", "In", ("d",)), ("e", "NotIn", ("f",))]),
        ("a=", [("a", "In", ("",))]),
        (
            "x.io/a in (b, c),d notin (e)",
            [("x.io/a", "In", ("b", "c")), ("d", "NotIn", ("e",))],
        ),
    ],
)
def test_label_selectors_are_read(text: str, expected: list[tuple[str, str, tuple[str, ...]]]):
    found = [(item.key, item.operator, item.values) for item in selection.parse(text)]
    assert found == expected


@pytest.mark.parametrize("text", ["a b", "=x", "a in b", "a in (b", "(a)", "a,,b"])
def test_what_is_no_selector_is_refused(text: str):
    with pytest.raises(errors.BadRequestError, match="unable to parse requirement"):
        selection.parse(text)
