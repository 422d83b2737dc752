"""A reflector against a server that fails in every way."""

import json
import queue
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from admission.base import patches
from admission.base.clock import SystemClock
from admission.kube import errors, resources
from admission.kube.api import Api, Undecodable
from admission.kube.connectivity import Connectivity
from admission.kube.reflector import Arrived, Deleted, Reflector, Replaced, Upserted
from admission.objects import views
from admission.sandbox.store import Store
from tests.clocks import FakeClock
from tests.controlplane.waiting import PATIENCE_SECONDS, until
from tests.kube import faulty
from tests.kube.faulty import FaultyServer, Json, Watch, bookmark, event, listing, thing

Seen = tuple[str, Any]


class ConfigMap(views.Object, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


def seen(change: Replaced[ConfigMap] | Upserted[ConfigMap] | Deleted[ConfigMap]) -> Seen:
    if isinstance(change, Replaced):
        return "replaced", tuple(item.metadata.name for item in change.items)
    kind = "upserted" if isinstance(change, Upserted) else "deleted"
    return kind, change.object.metadata.name


class Watched:
    """A running reflector and what it told."""

    def __init__(self, api: Api, **options: Any) -> None:
        self.changes: queue.Queue[Seen] = queue.Queue()
        self.pauses: list[float] = []
        self.undecodable: list[Undecodable] = []
        self.reflector = Reflector(
            api,
            resources.CONFIG_MAPS,
            ConfigMap,
            lambda change: self.changes.put(seen(change)),
            clock=SystemClock(),
            rng=random.Random(1),
            pause=self.pauses.append,
            on_undecodable=self.undecodable.append,
            **options,
        )

    def next(self) -> Seen:
        return self.changes.get(timeout=PATIENCE_SECONDS)


@contextmanager
def running(api: Api, **options: Any) -> Iterator[Watched]:
    watched = Watched(api, **options)
    watched.reflector.start()
    yield watched
    watched.reflector.stop()
    assert watched.reflector.join(PATIENCE_SECONDS)


@contextmanager
def following(server: FaultyServer, folder: Path, **options: Any) -> Iterator[Watched]:
    client = server.client(folder)
    with running(client, **options) as watched:
        yield watched
    client.close()


def test_it_lists_in_pages_then_watches_with_bookmarks(server: FaultyServer, tmp_path: Path):
    server.answers += [
        listing(thing("a", 1), version=5, token="more"),
        listing(thing("b", 2), version=5),
    ]
    server.watches += [Watch((event("ADDED", thing("c", 6)),), then="hang")]
    with following(server, tmp_path, page_size=2) as watched:
        assert watched.next() == ("replaced", ("a", "b"))
        assert watched.next() == ("upserted", "c")
        assert watched.reflector.has_synced
    assert server.asked("limit") == ["2", "2"]
    assert server.asked("continue") == ["more"]
    assert server.asked("resourceVersion") == ["5"]
    assert server.asked("allowWatchBookmarks") == ["true"]
    assert 300 <= int(server.asked("timeoutSeconds")[0]) <= 600
    assert watched.pauses == []


@pytest.mark.parametrize("newest", [0, 3], ids=["nothing known", "something known"])
def test_the_pages_of_a_first_list_are_told_before_it_where_nothing_was_known(
    server: FaultyServer, tmp_path: Path, newest: int
):
    pages: list[tuple[str, ...]] = []
    for version in (5, 9):
        server.answers += [
            listing(thing("a", 1), version=version, token="more"),
            listing(thing("b", 2), version=version, token="more"),
            listing(thing("c", 3), version=version),
        ]
    server.watches += [Watch((bookmark(6),)), GONE[0], Watch(then="hang")]

    def take(page: Arrived[ConfigMap]) -> None:
        pages.append(tuple(item.metadata.name for item in page.items))

    with following(server, tmp_path, page_size=2, on_page=take, newest=newest) as watched:
        for _ in range(2):
            assert watched.next() == ("replaced", ("a", "b", "c"))
    assert pages == ([] if newest else [("a",), ("b",)])


def test_it_goes_on_from_the_last_event_or_bookmark(server: FaultyServer, tmp_path: Path):
    server.answers += [listing(version=5)]
    server.watches += [
        Watch((event("ADDED", thing("a", 6)),)),
        Watch((event("DELETED", thing("a", 7)), bookmark(20))),
        Watch((event("ADDED", thing("b", 21)),), then="hang"),
    ]
    with following(server, tmp_path) as watched:
        assert [watched.next() for _ in range(4)] == [
            ("replaced", ()),
            ("upserted", "a"),
            ("deleted", "a"),
            ("upserted", "b"),
        ]
    assert server.asked("resourceVersion") == ["5", "6", "20"]
    assert watched.reflector.lists == 1
    assert watched.pauses == []


@pytest.mark.parametrize(
    "ending",
    [
        Watch(then="reset"),
        Watch((bookmark(50),)),
        Watch(),
        Json(faulty.status(503, "ServiceUnavailable", "starts"), 503),
    ],
    ids=["reset", "ended early", "ended at once", "not served"],
)
def test_it_says_that_the_server_went_back_before_it_lists_anew(
    server: FaultyServer, tmp_path: Path, ending: faulty.Answer
):
    told: list[Seen] = []
    server.version = 20
    server.answers += [listing(thing("a", 40), version=50), listing(thing("b", 15), version=21)]
    server.watches += [ending, Watch((event("ADDED", thing("c", 22)),), then="hang")]

    is_followed = threading.Event()

    def reverted() -> None:
        assert is_followed.wait(PATIENCE_SECONDS)
        told.append(watched.next())

    with following(server, tmp_path, on_reverted=reverted) as watched:
        is_followed.set()
        until(lambda: told, what="told", within_seconds=PATIENCE_SECONDS)
        assert watched.next() == ("replaced", ("b",))
        assert watched.next() == ("upserted", "c")
    assert told == [("replaced", ("a",))]
    assert server.asked("resourceVersion") == ["50", "21"]
    assert watched.reflector.newest == 22


def test_a_watch_that_lasted_as_long_as_it_was_to_says_nothing_of_the_server(
    server: FaultyServer, tmp_path: Path
):
    server.version = 20
    server.answers += [listing(thing("a", 40), version=50)]
    server.watches += [
        Watch((bookmark(50),)),
        Watch((event("ADDED", thing("b", 51)),), then="hang"),
    ]
    with following(server, tmp_path, watch_seconds=(0.1, 0.1)) as watched:
        assert watched.next() == ("replaced", ("a",))
        assert watched.next() == ("upserted", "b")
    assert server.compared == 0
    assert server.asked("resourceVersion") == ["50", "50"]


def test_a_kind_that_is_not_served_any_more_is_listed_again_once_it_is(
    server: FaultyServer, tmp_path: Path
):
    told: list[bool] = []
    gone = Json(faulty.status(404, "NotFound", "no such kind"), 404)
    server.answers += [listing(thing("a", 1), version=5), gone, listing(thing("b", 8), version=9)]
    server.watches += [gone, Watch(then="hang")]
    with following(server, tmp_path, on_unserved=lambda: told.append(True)) as watched:
        assert watched.next() == ("replaced", ("a",))
        assert watched.next() == ("replaced", ("b",))
        assert watched.reflector.has_synced
    assert told == [True]
    assert max(watched.pauses) <= 3.0


GONE = (
    Json(faulty.EXPIRED, 410),
    Watch((event("ERROR", faulty.EXPIRED),)),
)


@pytest.mark.parametrize("gone", GONE, ids=["answer", "event"])
def test_it_lists_again_at_once_when_the_version_is_too_old(
    server: FaultyServer, tmp_path: Path, gone: faulty.Answer
):
    server.answers += [listing(thing("a", 1), version=5), listing(thing("b", 8), version=9)]
    server.watches += [
        Watch((bookmark(6),)),
        gone,
        Watch((event("ADDED", thing("c", 10)),), then="hang"),
    ]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ("a",))
        assert watched.next() == ("replaced", ("b",))
        assert watched.next() == ("upserted", "c")
    assert server.asked("resourceVersion") == ["5", "6", "9"]
    assert watched.pauses == []
    assert watched.reflector.failures == 0


@pytest.mark.parametrize("gone", GONE, ids=["answer", "event"])
def test_it_waits_when_what_it_has_just_listed_is_too_old(
    server: FaultyServer, tmp_path: Path, gone: faulty.Answer
):
    server.answers += [listing(thing(name, 1), version=5) for name in "abc"]
    server.watches += [gone, gone, Watch(then="hang")]
    with following(server, tmp_path) as watched:
        assert [watched.next() for _ in range(3)] == [("replaced", (name,)) for name in "abc"]
    assert len(watched.pauses) == 2
    assert 0.8 <= watched.pauses[0] <= 1.2
    assert 1.6 <= watched.pauses[1] <= 2.4


FAULTS: dict[str, faulty.Answer] = {
    "closed at once": Watch(),
    "a garbage line": Watch((b"\x00garbage\n",)),
    "half a line": Watch((b'{"type": "ADD',), then="reset"),
    "an unknown event": Watch((event("EXPLODED", thing("x", 6)),)),
    "a reset": Watch(then="reset"),
    "500": Json(faulty.status(500, "InternalError", "boom"), 500),
    "403": Json(faulty.status(403, "Forbidden", "no"), 403),
    "no JSON": faulty.Raw(b"<html>bad gateway</html>", 502),
    "an error event": Watch((event("ERROR", faulty.status(500, "InternalError", "etcd")),)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_watch_that_fails_is_tried_again_from_the_same_version(
    server: FaultyServer, tmp_path: Path, fault: faulty.Answer
):
    server.answers += [listing(thing("a", 1), version=5)]
    server.watches += [fault, fault, Watch((event("ADDED", thing("b", 6)),), then="hang")]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ("a",))
        assert watched.next() == ("upserted", "b")
    assert server.asked("resourceVersion") == ["5", "5", "5"]
    assert watched.reflector.failures == 2
    assert [0.8 <= watched.pauses[0] <= 1.2, 1.6 <= watched.pauses[1] <= 2.4] == [True, True]


def test_a_list_that_breaks_in_the_middle_is_asked_again(server: FaultyServer, tmp_path: Path):
    whole = listing(thing("a", 1), thing("b", 2), version=5)
    server.answers += [faulty.Broken(whole.body), faulty.Raw(b"<html>", 502), whole]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ("a", "b"))
    assert len(watched.pauses) == 2


def test_a_page_that_is_too_old_makes_it_list_without_pages(server: FaultyServer, tmp_path: Path):
    server.answers += [
        listing(thing("a", 1), version=5, token="old"),
        Json(faulty.EXPIRED, 410),
        listing(thing("a", 1), thing("b", 2), version=9),
    ]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ("a", "b"))
    assert server.asked("limit") == ["500", "500"]
    assert watched.pauses == []


def test_it_waits_as_long_as_the_server_asks_and_no_longer_each_time(
    server: FaultyServer, tmp_path: Path
):
    refusal = Json(faulty.status(429, "TooManyRequests", "later"), 429, {"Retry-After": "17"})
    server.answers += [*[refusal] * 3, listing(version=5)]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ())
    assert len(watched.pauses) == 3
    assert all(17 <= pause <= 17 * 1.5 for pause in watched.pauses)


def test_a_server_that_starts_is_asked_every_second_whatever_it_asks_for(
    server: FaultyServer, tmp_path: Path
):
    """It says 5 s, and takes one or two."""
    starts = Json(
        faulty.status(
            503, "ServiceUnavailable", "before all known HTTP paths have been installed"
        ),
        503,
        {"Retry-After": "15"},
    )
    server.answers += [*[starts] * 5, listing(version=5)]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ())
    assert len(watched.pauses) == 5
    assert max(watched.pauses) <= 1.2


def test_one_bad_object_never_stops_the_rest(server: FaultyServer, tmp_path: Path):
    bad = thing("bad", 3, data="no map")
    server.answers += [listing(thing("a", 1), bad, thing("b", 2), version=5)]
    server.watches += [
        Watch((event("MODIFIED", thing("bad", 6, data=7)), event("ADDED", thing("c", 7)))),
        Watch(then="hang"),
    ]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ("a", "b"))
        assert watched.next() == ("upserted", "c")
    assert [item.name for item in watched.undecodable] == ["bad", "bad"]
    assert "data" in watched.undecodable[0].error
    assert server.asked("resourceVersion")[0] == "5"


def test_a_bad_object_that_is_deleted_makes_it_list_again(server: FaultyServer, tmp_path: Path):
    server.answers += [listing(thing("a", 1), version=5), listing(version=9)]
    server.watches += [Watch((event("DELETED", thing("a", 6, data=7)),)), Watch(then="hang")]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ("a",))
        assert watched.next() == ("replaced", ())


def test_a_silent_watch_is_given_up(server: FaultyServer, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("admission.kube.client._WATCH_SLACK_SECONDS", 0.1)
    server.answers += [listing(version=5)]
    server.watches += [
        Watch(then="hang"),
        # On a busy machine the event may come so late that the watch is given up as well.
        *(Watch((event("ADDED", thing("a", 6)),), then="hang") for _ in range(100)),
    ]
    with following(server, tmp_path, watch_seconds=(0.1, 0.1)) as watched:
        assert watched.next() == ("replaced", ())
        assert watched.next() == ("upserted", "a")
    assert server.asked("resourceVersion")[:2] == ["5", "5"]


def test_stop_ends_a_hanging_watch_at_once(server: FaultyServer, tmp_path: Path):
    server.answers += [listing(version=5)]
    server.watches += [Watch((event("ADDED", thing("a", 6)),), then="hang")]
    with following(server, tmp_path) as watched:
        assert watched.next() == ("replaced", ())
        assert watched.next() == ("upserted", "a")
        watched.reflector.stop()
        assert watched.reflector.join(PATIENCE_SECONDS)


def test_stop_before_start_reads_nothing(server: FaultyServer, tmp_path: Path):
    watched = Watched(server.client(tmp_path))
    watched.reflector.stop()
    watched.reflector.run()
    assert server.requests == []


def test_a_sink_that_raises_gets_everything_again(server: FaultyServer, tmp_path: Path):
    server.answers += [listing(thing("a", 1), version=5), listing(thing("a", 1), version=5)]
    told: queue.Queue[Seen] = queue.Queue()

    def sink(change: Any) -> None:
        told.put(seen(change))
        if told.qsize() == 1:
            raise KeyError("bug")

    client = server.client(tmp_path)
    reflector = Reflector(
        client,
        resources.CONFIG_MAPS,
        ConfigMap,
        sink,
        clock=SystemClock(),
        pause=lambda _: None,
    )
    reflector.start()
    while told.qsize() < 2:
        assert not reflector.join(0.01)
    reflector.stop()
    assert reflector.join(PATIENCE_SECONDS)
    client.close()
    assert [told.get(), told.get()] == [("replaced", ("a",))] * 2


def test_it_follows_the_embedded_store_through_compactions():
    store = Store()

    def write(name: str) -> None:
        store.create(resources.CONFIG_MAPS, {"metadata": {"name": name}}, "default")

    write("a")
    with running(store, namespace="default", page_size=1) as watched:
        assert watched.next() == ("replaced", ("a",))
        write("b")
        assert watched.next() == ("upserted", "b")
        change = patches.merge({"data": {"x": "y"}})
        store.patch(resources.CONFIG_MAPS, "a", change, "default")
        assert watched.next() == ("upserted", "a")
        store.delete(resources.CONFIG_MAPS, "b", "default")
        assert watched.next() == ("deleted", "b")
        store.compact()
        write("c")
        assert watched.next() == ("upserted", "c")
    assert watched.reflector.lists == 1


class Refusing:
    """An API whose lists fail as they are told."""

    def __init__(
        self, clock: FakeClock, error: errors.KubeError, *, healthy_seconds: float = 0.0
    ) -> None:
        self._clock = clock
        self._error = error
        self._healthy = healthy_seconds

    def list(self, *_: Any, **__: Any) -> Any:
        self._clock.advance(self._healthy)
        raise self._error


def pauses_of(api: Any, clock: FakeClock, count: int = 8) -> list[float]:
    """How long a reflector waits between its first attempts."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)
        if len(pauses) == count:
            reflector.stop()

    reflector = Reflector(
        api,
        resources.PODS,
        views.Pod,
        lambda _: None,
        clock=clock,
        rng=random.Random(1),
        pause=pause,
    )
    reflector.run()
    assert not reflector.has_synced
    return pauses


@pytest.mark.parametrize(
    ("healthy_seconds", "longest"), [(0.0, 10 * 1.5), (61.0, 0.8 * 1.5)], ids=["down", "flaky"]
)
def test_waits_grow_to_ten_seconds_and_start_again_after_a_healthy_one(
    healthy_seconds: float, longest: float
):
    clock = FakeClock()
    api = Refusing(clock, errors.make(500, "etcd"), healthy_seconds=healthy_seconds)
    pauses = pauses_of(api, clock)
    assert 0.8 <= pauses[0] <= 1.2
    assert max(pauses) <= longest
    assert max(pauses) > longest / 2


def test_while_the_server_does_not_answer_it_is_asked_every_second():
    clock = FakeClock()
    pauses = pauses_of(Refusing(clock, errors.TransportError("connection refused")), clock, 30)
    assert 0.1 <= pauses[0] <= 0.15
    assert max(pauses) <= 1.2
    assert min(pauses[5:]) >= 0.8


def test_an_answer_to_one_ends_the_waits_of_all_that_share_the_server(
    server: FaultyServer, tmp_path: Path
):
    """The second one would wait for a minute, as the server refused it again and again."""
    clock = SystemClock()
    shared, told, client = Connectivity(clock), Told(), server.client(tmp_path)
    waiting, other = (
        Reflector(
            client,
            resources.CONFIG_MAPS,
            ConfigMap,
            told,
            clock=clock,
            connectivity=shared,
            rng=Slow(),
        )
        for _ in range(2)
    )
    server.answers += [Json(faulty.status(500, "InternalError", "etcd"), 500)]
    waiting.start()
    until(lambda: waiting.failures == 1, what="the first one waits")
    shared.lost("connection refused")
    server.answers += [listing(thing("a", 1), version=5), listing(thing("a", 1), version=5)]
    other.start()
    assert [told.next(), told.next()] == [("replaced", ("a",))] * 2
    for reflector in (waiting, other):
        reflector.stop()
        assert reflector.join(PATIENCE_SECONDS)
    client.close()


class Slow(random.Random):
    """Chance that makes the first wait last for an hour."""

    @override
    def random(self) -> float:
        return 3600.0

    @override
    def uniform(self, a: float, b: float) -> float:
        return b


class Told:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self._changes: queue.Queue[Seen] = queue.Queue()

    def __call__(self, change: Any) -> None:
        self._changes.put(seen(change))

    def next(self) -> Seen:
        return self._changes.get(timeout=PATIENCE_SECONDS)


def lines(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Level and message of each line of the log."""
    found = map(json.loads, capsys.readouterr().err.splitlines())
    return [(line["level"], line["event"]) for line in found]


@pytest.mark.parametrize(
    "usual", [Watch(), Watch(then="reset"), *GONE], ids=["ends", "is reset", "answer", "event"]
)
def test_what_becomes_of_a_quiet_watch_is_for_debugging_only(
    server: FaultyServer, tmp_path: Path, usual: faulty.Answer, capsys: Any, logged_to: Any
):
    logged_to("info")
    server.answers += [listing(version=5), listing(version=6)]
    server.watches += [Watch((bookmark(6),)), usual, Watch((event("ADDED", thing("a", 7)),))]
    with following(server, tmp_path) as watched:
        while watched.next() != ("upserted", "a"):
            """Lists come before."""
    assert lines(capsys) == []


def test_a_server_that_does_not_answer_is_told_once_with_the_cause_and_the_return(
    capsys: Any, logged_to: Any
):
    logged_to("info")
    clock = FakeClock()
    shared = Connectivity(clock)
    for number in range(3):
        shared.lost(f"connection refused by 127.0.0.1:{number}")
        clock.advance(1)
    for _ in range(2):
        shared.answered()
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in found] == [
        "API server does not answer",
        "API server answers again",
    ]
    assert found[0]["error"] == "connection refused by 127.0.0.1:0"
    assert found[1]["away_seconds"] == 3
