"""What exists is handed out once, to who is served before first."""

from hypothesis import given
from hypothesis import strategies as st

from admission.scheduling.handing_out import (
    Nodes,
    Promise,
    PromiseShare,
    ResourceStock,
    shared_out,
)

FLAVORS = ("a", "b", "c")
_NODES = st.dictionaries(
    st.sets(st.sampled_from(FLAVORS), min_size=1).map(lambda names: tuple(sorted(names))),
    st.tuples(st.integers(0, 8), st.integers(0, 8)).map(
        lambda n: ResourceStock(n[0], n[0] + n[1])
    ),
)
_PROMISES = st.lists(
    st.builds(
        Promise,
        st.sampled_from("pqrs"),
        st.sampled_from(FLAVORS),
        st.integers(0, 12),
        st.integers(0, 3),
    ),
    max_size=6,
).map(lambda promises: sorted(promises, key=lambda promise: (promise.rank, promise.owner)))


def _values(shares: list[PromiseShare]) -> list[int]:
    return [share.value for share in shares]


@given(_PROMISES, _NODES)
def test_nothing_is_handed_out_twice(
    promises: list[Promise], nodes: dict[Nodes, ResourceStock]
) -> None:
    values = _values(shared_out(promises, nodes))
    assert all(0 <= n <= promise.value for n, promise in zip(values, promises, strict=True))
    for selected in _subsets():
        usable = sum(stock.usable for names, stock in nodes.items() if selected & set(names))
        given_out = sum(
            n for n, promise in zip(values, promises, strict=True) if promise.flavor in selected
        )
        assert given_out <= usable


def _subsets() -> list[set[str]]:
    """Return all sets of flavors: by Hall's rule the shares have nodes if these hold."""
    return [
        {name for index, name in enumerate(FLAVORS) if bits >> index & 1}
        for bits in range(1, 2 ** len(FLAVORS))
    ]


@given(_PROMISES, _NODES)
def test_who_comes_later_takes_nothing_from_who_is_served_before(
    promises: list[Promise], nodes: dict[Nodes, ResourceStock]
) -> None:
    values = _values(shared_out(promises, nodes))
    for rank in {promise.rank for promise in promises}:
        served = [promise for promise in promises if promise.rank <= rank]
        assert _values(shared_out(served, nodes)) == values[: len(served)]


def test_a_tree_without_guard_keeps_its_share_on_nodes_that_a_guarded_one_selects_too() -> None:
    promises = [Promise("u", "a", 4, 0), Promise("g", "b", 4, 2)]
    nodes = {("a",): ResourceStock(0, 4), ("a", "b"): ResourceStock(4, 4)}
    assert _values(shared_out(promises, nodes)) == [4, 0]


def test_what_is_sick_is_taken_in_proportion_within_a_rank() -> None:
    promises = [Promise("p", "a", 8), Promise("q", "a", 4), Promise("r", "a", 4)]
    assert _values(shared_out(promises, {("a",): ResourceStock(8, 16)})) == [4, 2, 2]
