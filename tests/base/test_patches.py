"""Laws of the patch builder: what it says, applied by a JSON Patch library, is what was wanted."""

import copy
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from admission.base import patches
from admission.base.patches import PatchBuilder

keys = st.text(alphabet="ab/~.-0", max_size=4)
values = st.one_of(keys, st.integers(), st.none(), st.booleans())
maps = st.dictionaries(keys, values, max_size=4)
maps_or_none = st.one_of(st.none(), maps)


def document(key: str, present: Any, *, absent: bool) -> dict[str, Any]:
    """A document with the value at /a/<key>, where None is either absent or null."""
    inner = {} if present is None and absent else {key: present}
    return {"a": {**inner, "other": 1}}


def applied(before: dict[str, Any], builder: PatchBuilder) -> Any:
    kept = copy.deepcopy(before)
    after = jsonpatch.apply_patch(before, list(builder.operations()))
    assert before == kept
    return after


@given(key=keys.filter(lambda k: k != "other"), present=maps_or_none, wanted=maps, absent=...)
def test_merge_sets_members_and_keeps_the_rest(key: str, present: Any, wanted: Any, absent: bool):
    builder = PatchBuilder()
    builder.merge(patches.pointer("a", key), present, wanted)
    before = document(key, present, absent=absent)
    expected = copy.deepcopy(before)
    if present is not None or wanted:
        expected["a"][key] = {**(present or {}), **wanted}
    assert applied(before, builder) == expected


@given(key=keys.filter(lambda k: k != "other"), present=maps_or_none, wanted=maps, absent=...)
def test_become_leaves_exactly_what_is_wanted(key: str, present: Any, wanted: Any, absent: bool):
    builder = PatchBuilder()
    builder.become(patches.pointer("a", key), present, wanted)
    after = applied(document(key, present, absent=absent), builder)
    assert (after["a"].get(key) or {}) == wanted


@given(
    key=keys.filter(lambda k: k != "other"),
    present=st.one_of(st.none(), st.lists(maps, max_size=3)),
    items=st.lists(maps, max_size=3),
    absent=...,
)
def test_append_adds_behind_in_order(key: str, present: Any, items: Any, absent: bool):
    builder = PatchBuilder()
    builder.append(patches.pointer("a", key), present, items)
    after = applied(document(key, present, absent=absent), builder)
    assert (after["a"].get(key) or []) == [*(present or []), *items]


@given(present=maps)
def test_what_is_there_already_costs_no_operation(present: Any):
    builder = PatchBuilder()
    builder.merge("/a", present, present)
    builder.become("/a", present, present)
    builder.append("/b", [], [])
    builder.append("/b", None, [])
    builder.merge("/b", None, {})
    assert builder.operations() == ()


def test_keys_are_escaped_once():
    assert patches.pointer("a/b", "c~d", 3) == "/a~1b/c~0d/3"
