"""Objects that the controllers of owners make of them: which count, and who is read again."""

from collections.abc import Callable

import msgspec
import pytest

from admission.controller.watched_owners.secondaries import OwnerOfSecondary, Secondaries
from admission.kube.resources import Resource
from admission.objects import views
from admission.owners.framework import Kind, Secondary

FURNACE = Kind(
    api_version="forge.example.com/v1",
    name="Furnace",
    plural="furnaces",
    label="queue",
    is_deleted_to_stop=False,
    has_condition=False,
)


class Furnace(views.Object, frozen=True, kw_only=True):
    """An owner with the names of its ovens, and with what each was read after."""

    ovens: tuple[str, ...] = ()


class Oven(views.Object, frozen=True, kw_only=True):
    """An object of an owner.

    Attributes:
        after: name and version of what was known when it was read.
    """

    after: str = ""


def text(oven: views.Object) -> str:
    return f"{oven.metadata.name}@{oven.metadata.resource_version}"


def read(document: Oven, before: Oven | None) -> Oven:
    return msgspec.structs.replace(document, after="" if before is None else text(before))


def joined(furnace: Furnace, ovens: tuple[Oven, ...]) -> Furnace:
    told = tuple(f"{text(oven)} after {oven.after}".removesuffix(" after ") for oven in ovens)
    return msgspec.structs.replace(furnace, ovens=told)


def furnace(uid: str = "f1") -> Furnace:
    return Furnace(metadata=views.ObjectMeta(namespace="ml", name="melt", uid=uid))


def oven(name: str, version: int, owner: str = "f1", *, kind: str = "Furnace") -> Oven:
    reference = views.OwnerReference(
        api_version=FURNACE.api_version, kind=kind, name="melt", uid=owner, controller=True
    )
    metadata = views.ObjectMeta(
        namespace="ml",
        name=name,
        uid=f"uid of {name}",
        resource_version=str(version),
        owner_references=(reference,),
    )
    return Oven(metadata=metadata)


def key(uid: str = "f1") -> OwnerOfSecondary:
    return OwnerOfSecondary(FURNACE.key_of(furnace(uid)), uid)


def store(*, is_replaced: bool = False) -> Secondaries[Furnace, Furnace]:
    declared: Secondary[Furnace, Furnace] = Secondary(
        resource=Resource("forge.example.com", "v1", "ovens", "Oven"),
        selector="made-of=Furnace",
        document=Oven,
        read=read,
        joined=joined,
        is_replaced=is_replaced,
    )
    return Secondaries(declared, FURNACE)


def is_there(_: OwnerOfSecondary) -> bool:
    return True


def is_gone(_: OwnerOfSecondary) -> bool:
    return False


EVERY = pytest.mark.parametrize("is_replaced", [False, True], ids=["several", "one at a time"])


@EVERY
def test_an_owner_is_read_again_for_each_version_and_for_no_earlier_one(
    is_replaced: bool,
) -> None:
    ovens = store(is_replaced=is_replaced)
    assert ovens.on_update(oven("a", 5)) == (key(),)
    assert ovens.on_update(oven("a", 5)) == ovens.on_update(oven("a", 4)) == ()
    assert ovens.on_update(oven("a", 6)) == (key(),)
    assert ovens.joined(furnace()).ovens == ("a@6 after a@5",)


@EVERY
def test_objects_of_other_kinds_of_owners_concern_nobody(is_replaced: bool) -> None:
    ovens = store(is_replaced=is_replaced)
    assert ovens.on_update(oven("a", 5, kind="Kiln")) == ()
    assert ovens.joined(furnace()).ovens == ()


def test_all_objects_of_an_owner_count_in_the_order_of_their_names_until_they_are_gone() -> None:
    ovens = store()
    for name, version in (("b", 5), ("a", 7)):
        ovens.on_update(oven(name, version))
    ovens.on_update(oven("c", 8, "f2"))
    assert ovens.joined(furnace()).ovens == ("a@7", "b@5")
    assert ovens.on_delete(oven("a", 7), is_there) == (key(),)
    assert ovens.joined(furnace()).ovens == ("b@5",)
    assert ovens.on_delete(oven("a", 7), is_there) == ()


def test_an_object_that_names_another_owner_has_both_read_again() -> None:
    ovens = store()
    ovens.on_update(oven("a", 5))
    assert set(ovens.on_update(oven("a", 6, "f2"))) == {key("f1"), key("f2")}
    assert ovens.joined(furnace("f1")).ovens == ()
    assert ovens.joined(furnace("f2")).ovens == ("a@6 after a@5",)


def test_an_object_whose_label_was_taken_off_is_seen_again_with_a_later_version() -> None:
    ovens = store()
    ovens.on_update(oven("a", 5))
    ovens.on_delete(oven("a", 5), is_there)
    assert ovens.on_update(oven("a", 5)) == ()
    assert ovens.on_update(oven("a", 6)) == (key(),)


def test_of_objects_that_replace_each_other_the_last_one_counts_though_it_is_gone() -> None:
    ovens = store(is_replaced=True)
    ovens.on_update(oven("a", 5))
    assert ovens.on_delete(oven("a", 5), is_there) == ()
    assert ovens.joined(furnace()).ovens == ("a@5",)
    assert ovens.on_update(oven("b", 7)) == (key(),)
    assert ovens.joined(furnace()).ovens == ("b@7 after a@5",)
    assert ovens.on_update(oven("a", 6)) == ()


def test_an_owner_with_the_name_of_an_earlier_one_has_none_of_its_objects() -> None:
    ovens = store(is_replaced=True)
    ovens.on_update(oven("a", 5))
    assert ovens.joined(furnace("f2")).ovens == ()


Loses = Callable[[Secondaries[Furnace, Furnace]], None]


def _owner_first(ovens: Secondaries[Furnace, Furnace]) -> None:
    ovens.forget_owner("f1")
    assert ovens.joined(furnace()).ovens == ("a@5",)
    ovens.on_delete(oven("a", 5), is_gone)


def _object_first(ovens: Secondaries[Furnace, Furnace]) -> None:
    ovens.on_delete(oven("a", 5), is_there)
    ovens.forget_owner("f1")


@pytest.mark.parametrize("lose", [_owner_first, _object_first])
def test_nothing_is_kept_of_an_owner_once_it_and_its_object_are_gone(lose: Loses) -> None:
    ovens = store(is_replaced=True)
    ovens.on_update(oven("a", 5))
    lose(ovens)
    assert ovens.joined(furnace()).ovens == ()
    assert (len(ovens._objects), ovens._gone) == (0, set())
