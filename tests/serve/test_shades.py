"""Which ClusterQueue has which colour on the pages of the dashboard."""

from admission.serve.dashboard import shades


def colours(amounts: dict[str, int], ranked: list[str]) -> dict[str, str]:
    return shades.by_name(shades.of(amounts, ranked))


RANKED = shades.ranking({"b": 9, "a": 5}, {f"queue-{n:02}": n for n in range(12)} | {"a": 1})


def test_queues_rank_by_gpu_time_then_quota_then_name() -> None:
    assert RANKED[:4] == ["b", "a", "queue-11", "queue-10"]
    assert shades.ranking({}, {"d": 1, "c": 1, "e": 2}) == ["e", "c", "d"]


def test_a_queue_has_one_colour_whatever_it_holds_on_a_page() -> None:
    first = colours({"a": 1, "b": 2, "queue-11": 3}, RANKED)
    second = colours({"queue-11": 1, "a": 5}, RANKED)
    assert first == {"b": "q0", "a": "q1", "queue-11": "q2"}
    assert second.items() <= first.items()


def test_a_queue_that_ranks_low_takes_a_colour_that_no_queue_of_the_page_has() -> None:
    shown = colours({"queue-00": 9, "a": 1, "queue-01": 3}, RANKED)
    assert shown["a"] == "q1"
    assert len({*shown.values()}) == 3
    assert shown == {"a": "q1", "queue-00": "q0", "queue-01": "q2"}


def test_those_with_most_are_coloured_and_the_others_are_one_shade() -> None:
    legend = shades.of({name: 20 - place for place, name in enumerate(RANKED)}, RANKED)
    assert [shade.name for shade in legend] == [*RANKED[: shades.COLOURED], ""]
    assert len({shade.shade for shade in legend}) == shades.COLOURED + 1
    assert (legend[-1].count, legend[-1].shade) == (len(RANKED) - 8, shades.OTHERS)
