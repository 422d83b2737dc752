"""A relist becomes its differences; what cannot be read is not gone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.errors import InvalidValueError
from admission.controller.seeing import informers
from admission.controller.seeing.informers import Informer
from admission.kube.api import Undecodable
from admission.kube.reflector import Arrived, Deleted, Replaced, Upserted
from admission.objects import views


def thing(name: str, version: str = "", uid: str = "") -> views.Object:
    metadata = views.ObjectMeta(name=name, uid=uid or name, resource_version=version)
    return views.Object(metadata=metadata)


class Log:
    def __init__(self, *, slim: bool = False) -> None:
        self.said: list[str] = []
        self.mirror: Informer[views.Object] = Informer(
            "Thing",
            lambda value: self.said.append(f"put {value.metadata.uid}"),
            lambda value: self.said.append(f"drop {value.metadata.uid}"),
            slim=slim,
        )


_SIGHTS = st.tuples(
    st.sampled_from("ab"), st.integers(1, 9).map(str), st.sampled_from(["u", "v", "odd"])
)
_CHANGES = st.lists(
    st.tuples(st.sampled_from(["see", "lose"]), _SIGHTS.map(lambda sight: [sight]))
    | st.tuples(st.just("list"), st.lists(_SIGHTS, max_size=2, unique_by=lambda sight: sight[0])),
    max_size=12,
)


@given(_CHANGES)
def test_what_somebody_stores_is_passed_on_as_what_the_informer_remembers(
    changes: list[tuple[str, list[tuple[str, str, str]]]],
) -> None:
    stored: dict[tuple[str, str], views.Object] = {}

    def mirror(said: list[str], stored: dict[tuple[str, str], views.Object]) -> Informer[Any]:
        """An informer of what keeps all but odd objects."""

        def put(value: views.Object) -> None:
            said.append(f"put {value.metadata.uid}")
            if value.metadata.uid.startswith("odd"):
                raise InvalidValueError("odd", rule="odd 1")
            stored[informers.key_of(value)] = value

        def drop(gone: views.Object) -> None:
            said.append(f"drop {gone.metadata.uid}")
            stored.pop(informers.key_of(gone), None)

        if said is remembered:
            return Informer("Thing", put, drop)
        return Informer("Thing", put, drop, stored=stored)

    remembered: list[str] = []
    by_store: list[str] = []
    mirrors = mirror(remembered, {}), mirror(by_store, stored)
    for number, (change, sights) in enumerate(changes):
        seen = tuple(
            thing(name, str(10 * number + int(version)), f"{uid}-{name}")
            for name, version, uid in sights
        )
        for informer in mirrors:
            if change == "list":
                informer.apply(Replaced(items=seen, version=str(10 * number + 9)))
            elif change == "see":
                informer.apply(Upserted(seen[0]))
            else:
                informer.apply(Deleted(seen[0]))
    assert sorted(by_store) == sorted(remembered)
    assert mirrors[1]._known.keys().isdisjoint(stored)


def test_what_a_relist_leaves_out_is_gone() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("a"), thing("b"))))
    log.mirror.apply(Replaced(items=(thing("b"),)))

    assert log.said == ["put a", "put b", "drop a", "put b"]
    assert log.mirror.synced


def test_what_arrived_before_the_whole_list_is_taken_once() -> None:
    log = Log()
    first, second = thing("a", "8"), thing("b", "9")
    log.mirror.apply(Arrived(items=(first,)))
    assert not log.mirror.synced
    log.mirror.apply(Replaced(items=(first, second), version="10"))
    assert log.said == ["put a", "put b"]
    log.mirror.apply(Replaced(items=(first, second), version="11"))
    assert log.said[2:] == ["put a", "put b"], "a later list is compared as a whole"


def test_what_arrived_and_is_in_no_list_is_gone_and_what_changed_since_is_taken_again() -> None:
    log = Log()
    log.mirror.apply(Arrived(items=(thing("gone", "7"), thing("a", "8"))))
    log.mirror.apply(Replaced(items=(thing("a", "9"),), version="10"))

    assert log.said == ["put gone", "put a", "drop gone", "put a"]


def test_what_was_seen_after_a_list_was_taken_is_not_gone_for_want_of_it() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("old", "8"),), version="9"))
    log.mirror.on_update(thing("new", "11"))
    log.mirror.apply(Replaced(items=(), version="10"))

    assert log.said == ["put old", "put new", "drop old"]


def test_a_later_list_tells_that_it_is_gone() -> None:
    log = Log()
    log.mirror.on_update(thing("new", "9"))
    log.mirror.apply(Replaced(items=(), version="10"))

    assert log.said == ["put new", "drop new"]


def test_of_a_kind_that_is_not_served_nothing_is_left() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("a", "8"),), version="9"))
    log.mirror.apply(Replaced(items=()))

    assert log.said == ["put a", "drop a"]


def test_what_cannot_be_read_any_more_stays() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("a"),)))
    unreadable = Undecodable(namespace="", name="a", resource_version="2", error="broken")
    log.mirror.apply(Replaced(items=(), undecodable=(unreadable,)))

    assert log.said == ["put a"]


def test_a_deletion_of_something_unknown_is_no_news() -> None:
    log = Log()
    log.mirror.apply(Deleted(object=thing("a")))
    log.mirror.apply(Upserted(object=thing("a")))
    log.mirror.apply(Deleted(object=thing("a")))

    assert log.said == ["put a", "drop a"]


def test_a_late_deletion_does_not_take_the_successor_of_the_same_name_along() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("a", "8", "old"),), version="8"))
    log.mirror.on_update(thing("a", "11", "new"))
    log.mirror.apply(Deleted(object=thing("a", "10", "old")))

    assert log.said == ["put old", "drop old", "put new"]
    log.mirror.apply(Deleted(object=thing("a", "12", "new")))
    assert log.said[3:] == ["drop new"]


@pytest.mark.parametrize("slim", [True, False])
def test_what_a_relist_shows_under_the_name_of_another_has_replaced_it(slim: bool) -> None:
    log = Log(slim=slim)
    log.mirror.apply(Replaced(items=(thing("a", "8", "old"),), version="9"))
    log.mirror.apply(Replaced(items=(thing("a", "11", "new"),), version="12"))

    assert log.said == ["put old", "drop old", "put new"]


def test_a_late_answer_about_a_predecessor_is_no_news() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("a", "11", "new"),), version="12"))
    log.mirror.on_update(thing("a", "10", "old"))

    assert log.said == ["put new"]


def test_a_deletion_tells_the_version_of_the_object_at_its_end() -> None:
    ends: list[str] = []
    mirror: Informer[views.Object] = Informer(
        "Thing", lambda _: None, lambda value: ends.append(value.metadata.resource_version)
    )
    mirror.apply(Upserted(object=thing("a", "8")))
    mirror.apply(Deleted(object=thing("a", "10")))

    assert ends == ["10"]


def test_an_object_that_is_refused_does_not_stop_the_rest() -> None:
    seen: list[str] = []

    def put(value: views.Object) -> None:
        if value.metadata.name == "bad":
            raise InvalidValueError("x", "no good")
        seen.append(value.metadata.name)

    mirror: Informer[views.Object] = Informer("Thing", put, lambda _: None)
    mirror.apply(Replaced(items=(thing("bad"), thing("good"))))

    assert seen == ["good"]


@pytest.mark.parametrize(
    ("listed", "version", "is_reverted"),
    [
        (thing("a", "5"), "20", True),
        (thing("a", "5"), "8", False),
        (thing("a", "5", "other"), "20", False),
        (thing("a", "9"), "20", False),
    ],
    ids=["older in a newer list", "list older than an answer", "another object", "as known"],
)
def test_an_older_object_in_a_newer_list_means_that_the_server_went_back(
    listed: views.Object, version: str, is_reverted: bool
) -> None:
    """So does an etcd that was restored with versions that go on from a later number."""
    log, told = Log(), list[str]()
    log.mirror.on_reverted = lambda: told.append("reverted")
    log.mirror.apply(Upserted(object=thing("a", "9")))
    log.mirror.apply(Replaced(items=(listed,), version=version))

    assert bool(told) is is_reverted
