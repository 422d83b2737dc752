"""Neither an older event nor a late answer undoes a newer sight of an object."""

from admission.controller.seeing.object_cache import ObjectCache
from admission.objects import views


def sight(uid: str, version: str) -> views.Object:
    return views.Object(metadata=views.ObjectMeta(name="x", uid=uid, resource_version=version))


def test_a_newer_version_replaces_an_older_one_and_not_the_reverse() -> None:
    observed: ObjectCache[str, views.Object] = ObjectCache()

    assert observed.put("x", sight("u", "5"))
    assert not observed.put("x", sight("u", "4"))
    assert not observed.put("x", sight("u", "5"))
    assert observed.put("x", sight("u", "10"))
    assert observed.get("x") == sight("u", "10")


def test_an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back() -> None:
    observed: ObjectCache[str, views.Object] = ObjectCache()
    observed.put("x", sight("u", "5"))

    assert observed.remove("x", "u")
    assert not observed.put("x", sight("u", "6"))
    assert observed.get("x") is None


def test_an_object_of_the_same_name_is_another_object() -> None:
    observed: ObjectCache[str, views.Object] = ObjectCache()
    observed.put("x", sight("new", "9"))

    assert not observed.remove("x", "old")
    assert observed.get("x") == sight("new", "9")


def test_an_answer_about_an_object_whose_name_another_has_by_now_changes_nothing() -> None:
    observed: ObjectCache[str, views.Object] = ObjectCache()
    observed.put("x", sight("new", "9"))

    assert not observed.put("x", sight("old", "8"))
    assert observed.get("x") == sight("new", "9")


def test_a_recreated_object_counts_though_the_old_ones_deletion_was_missed() -> None:
    observed: ObjectCache[str, views.Object] = ObjectCache()
    observed.put("x", sight("old", "9"))

    assert observed.put("x", sight("new", "12"))
    assert len(observed) == 1
