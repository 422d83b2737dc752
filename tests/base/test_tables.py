"""An index of a table says what a walk over the whole table would say."""

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


def test_a_key_that_stays_in_a_group_keeps_its_place_there() -> None:
    table: Table[str, tuple[str, ...]] = Table()
    index = table.index(lambda _, groups: groups)
    table.put("first", ("team",))
    table.put("second", ("team",))
    table.put("first", ("team", "other"))
    assert index.keys("team") == ("first", "second")
