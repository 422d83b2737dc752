"""An index of a table says what a walk over the whole table would say."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from admission.base.tables import Table

_KEYS = st.sampled_from("abcd")
_STEPS = st.lists(
    st.tuples(_KEYS, st.none() | st.lists(st.integers(0, 3), max_size=3).map(tuple)), max_size=30
)


@given(_STEPS)
def test_an_index_has_what_a_walk_over_all_values_finds(
    steps: list[tuple[str, tuple[int, ...] | None]],
) -> None:
    table: Table[str, tuple[int, ...]] = Table()
    index = table.index(lambda _, groups: groups)
    for key, groups in steps:
        if groups is None:
            table.pop(key)
        else:
            table.put(key, groups)
        for group in range(4):
            found = {key for key in table if group in table[key]}
            assert set(index.keys(group)) == found
            assert (group in index) == bool(found)
        assert len(index) == len({group for key in table for group in table[key]})


@given(_STEPS)
def test_a_tally_has_what_a_count_of_all_values_finds(
    steps: list[tuple[str, tuple[int, ...] | None]],
) -> None:
    table: Table[str, tuple[int, ...]] = Table()
    tally = table.tally(lambda _, value: (value[0], len(value)) if value else None)
    for key, value in steps:
        if value is None:
            table.pop(key)
        else:
            table.put(key, value)
        counted = [(table[key][0], len(table[key])) for key in table if table[key]]
        for group in range(4):
            expected = Counter(part for of, part in counted if of == group)
            assert dict(tally.of(group)) == dict(expected)
            assert (group in tally) == bool(expected)
        assert set(tally.groups()) == {group for group, _ in counted}


@given(st.lists(st.tuples(_KEYS, st.none() | st.integers(0, 3)), max_size=30))
def test_a_unique_index_has_the_key_of_each_value(steps: list[tuple[str, int | None]]) -> None:
    table: Table[str, int] = Table()
    index = table.unique(lambda _, value: value)
    for key, value in steps:
        if value is None:
            table.pop(key)
        elif value not in (table[other] for other in table if other != key):
            table.put(key, value)
        assert {group: index.get(group) for group in index.groups()} == {
            table[key_]: key_ for key_ in table
        }
        assert len(index) == len(table)


def test_of_two_values_of_one_name_the_later_is_found_and_outlives_the_other() -> None:
    """So it is while a pod has the name of one that is gone, of which that was not told yet."""
    table: Table[str, str] = Table()
    index = table.unique(lambda _, name: name)
    table.put("uid-1", "train")
    table.put("uid-2", "train")
    table.pop("uid-1")
    assert index.get("train") == "uid-2"


def test_a_key_that_stays_in_a_group_keeps_its_place_there() -> None:
    table: Table[str, tuple[str, ...]] = Table()
    index = table.index(lambda _, groups: groups)
    table.put("first", ("team",))
    table.put("second", ("team",))
    table.put("first", ("team", "other"))
    assert index.keys("team") == ("first", "second")
