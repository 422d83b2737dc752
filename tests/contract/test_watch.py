"""Watches: order, selection, bookmarks, the end of history."""

import itertools
import threading

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api, Document, EventType, WatchEvent
from admission.objects import views
from tests.contract import objects
from tests.contract.conftest import Server
from tests.controlplane import waiting
from tests.controlplane.waiting import PATIENCE_SECONDS

LIMIT_RANGES = resources.LIMIT_RANGES


def version_of(api: Api, namespace: str) -> str:
    return api.list(LIMIT_RANGES, namespace).resource_version


def take(
    api: Api, namespace: str, since: str, count: int, label_selector: str = ""
) -> list[WatchEvent[views.Object]]:
    """The first events of a watch, bookmarks left out."""
    stream = api.watch(
        LIMIT_RANGES,
        namespace,
        resource_version=since,
        timeout_seconds=300,
        label_selector=label_selector,
        into=views.Object,
    )
    found: list[WatchEvent[views.Object]] = []
    for event in stream:
        if event.type is not EventType.BOOKMARK:
            found.append(event)
        if len(found) == count:
            break
    stream.close()
    return found


def summary(events: list[WatchEvent[views.Object]]) -> list[tuple[str, str]]:
    return [(e.type.value, e.object.metadata.name if e.object else "") for e in events]


def test_changes_come_in_order_with_their_versions(api: Api, namespace: str):
    since = version_of(api, namespace)
    api.create(LIMIT_RANGES, objects.limit_range("a"), namespace)
    api.create(LIMIT_RANGES, objects.limit_range("b"), namespace)
    api.patch(LIMIT_RANGES, "a", patches.merge({"metadata": {"labels": {"x": "y"}}}), namespace)
    api.delete(LIMIT_RANGES, "b", namespace)
    events = take(api, namespace, since, 4)
    assert summary(events) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions))
    assert all(
        e.object and e.object.metadata.resource_version == e.resource_version for e in events
    )


def test_a_watch_goes_on_after_any_version(api: Api, namespace: str):
    since = version_of(api, namespace)
    for name in "abc":
        api.create(LIMIT_RANGES, objects.limit_range(name), namespace)
    first = take(api, namespace, since, 1)
    assert summary(take(api, namespace, first[0].resource_version, 2)) == [
        ("ADDED", "b"),
        ("ADDED", "c"),
    ]


def test_a_watch_without_version_tells_first_what_there_is(api: Api, namespace: str):
    api.create(LIMIT_RANGES, objects.limit_range("a"), namespace)
    assert summary(take(api, namespace, "", 1)) == [("ADDED", "a")]


def test_a_watch_sees_what_happens_meanwhile(api: Api, namespace: str):
    since = version_of(api, namespace)
    later = threading.Timer(
        0.1, api.create, (LIMIT_RANGES, objects.limit_range("late"), namespace)
    )
    later.start()
    assert summary(take(api, namespace, since, 1)) == [("ADDED", "late")]
    later.join()


def test_other_namespaces_stay_out(api: Api, namespace: str):
    since = version_of(api, namespace)
    api.create(LIMIT_RANGES, objects.limit_range(f"x-{namespace}"), "default")
    api.create(LIMIT_RANGES, objects.limit_range("mine"), namespace)
    assert summary(take(api, namespace, since, 1)) == [("ADDED", "mine")]


def test_entering_and_leaving_a_selection_is_added_and_deleted(api: Api, namespace: str):
    since = version_of(api, namespace)
    api.create(LIMIT_RANGES, objects.limit_range("a", show="no"), namespace)
    for value in ("yes", "yes", "no"):
        change = patches.merge({"metadata": {"labels": {"show": value, "n": value}}})
        api.patch(LIMIT_RANGES, "a", change, namespace)
    api.create(LIMIT_RANGES, objects.limit_range("b", show="yes"), namespace)
    events = take(api, namespace, since, 3, "show=yes")
    assert summary(events) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert events[1].object is not None
    assert events[1].object.metadata.label("show") == "yes"


def test_a_watch_tells_of_objects_that_it_cannot_decode(api: Api, namespace: str):
    since = version_of(api, namespace)
    api.create(LIMIT_RANGES, objects.limit_range("a"), namespace)
    stream = api.watch(
        LIMIT_RANGES, namespace, resource_version=since, timeout_seconds=300, into=Strict
    )
    event = next(iter(stream))
    stream.close()
    assert event.type is EventType.ERROR
    assert event.undecodable is not None
    assert event.undecodable.name == "a"
    assert int(event.resource_version) > int(since)


class Strict(views.Object, frozen=True, kw_only=True):
    absent: str


def test_an_idle_watch_ends_and_a_bookmark_moves_it_on(server: Server, namespace: str):
    api = server.api
    since = version_of(api, namespace)
    api.create(LIMIT_RANGES, objects.limit_range(), namespace)
    names = (f"y-{namespace}-{index}" for index in itertools.count())

    def events_up_to_a_bookmark() -> tuple[Document, list[WatchEvent[Document]]] | None:
        """What the watch does not show, and its events.

        None where it ended before a busy server came to its bookmark.
        """
        stream = api.watch(
            LIMIT_RANGES,
            namespace,
            resource_version=since,
            timeout_seconds=server.bookmark_seconds,
        )
        events = [next(stream)]
        # A real server sends a bookmark only where the kind has changed since the watch began.
        unseen = api.create(LIMIT_RANGES, objects.limit_range(next(names)), "default")
        events.extend(stream)
        has_bookmark = any(event.type is EventType.BOOKMARK for event in events)
        return (unseen, events) if has_bookmark else None

    unseen, (first, *rest) = waiting.until(events_up_to_a_bookmark, what="a bookmark")
    assert first.type is EventType.ADDED
    assert {event.type for event in rest} == {EventType.BOOKMARK}
    assert int(rest[-1].resource_version) >= int(unseen["metadata"]["resourceVersion"])


def test_a_closed_watch_ends_at_once(api: Api, namespace: str):
    since = version_of(api, namespace)
    stream = api.watch(LIMIT_RANGES, namespace, resource_version=since, timeout_seconds=300)
    ended = threading.Event()

    def follow() -> None:
        for _ in stream:
            pass
        ended.set()

    reader = threading.Thread(target=follow)
    reader.start()
    stream.close()
    assert ended.wait(PATIENCE_SECONDS)
    reader.join()
    stream.close()


def test_a_version_before_all_history_is_gone(server: Server, namespace: str):
    api = server.api
    api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    server.forget()
    with pytest.raises(errors.GoneError, match="too old resource version") as refused:
        list(api.watch(resources.LOCAL_QUEUES, resource_version="1", timeout_seconds=5))
    assert refused.value.reason == "Expired"
