"""A relist becomes its differences; what cannot be read is not gone."""

from admission.api import views
from admission.base.errors import InvalidValueError
from admission.controllers.mirrors import Mirror
from admission.kube.api import Undecodable
from admission.kube.reflector import Deleted, Replaced, Upserted


def thing(name: str, version: str = "") -> views.Object:
    return views.Object(metadata=views.ObjectMeta(name=name, uid=name, resource_version=version))


class Log:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.mirror: Mirror[views.Object] = Mirror(
            "Thing",
            lambda value: self.said.append(f"put {value.metadata.name}"),
            lambda value: self.said.append(f"drop {value.metadata.name}"),
        )


def test_what_a_relist_leaves_out_is_gone() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("a"), thing("b"))))
    log.mirror.apply(Replaced(items=(thing("b"),)))

    assert log.said == ["put a", "put b", "drop a", "put b"]
    assert log.mirror.synced


def test_what_was_seen_after_a_list_was_taken_is_not_gone_for_want_of_it() -> None:
    log = Log()
    log.mirror.apply(Replaced(items=(thing("old", "8"),), version="9"))
    log.mirror.see(thing("new", "11"))
    log.mirror.apply(Replaced(items=(), version="10"))

    assert log.said == ["put old", "put new", "drop old"]


def test_a_later_list_tells_that_it_is_gone() -> None:
    log = Log()
    log.mirror.see(thing("new", "9"))
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


def test_an_object_that_is_refused_does_not_stop_the_rest() -> None:
    seen: list[str] = []

    def put(value: views.Object) -> None:
        if value.metadata.name == "bad":
            raise InvalidValueError("x", "no good")
        seen.append(value.metadata.name)

    mirror: Mirror[views.Object] = Mirror("Thing", put, lambda _: None)
    mirror.apply(Replaced(items=(thing("bad"), thing("good"))))

    assert seen == ["good"]
