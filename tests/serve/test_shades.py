"""Which ClusterQueue has which colour on the pages of the dashboard."""

from admission.serve.dashboard import shades


def colours(amounts: dict[str, int], ranked: list[str]) -> dict[str, str]:
    return shades.by_name(shades.of(amounts, ranked))


QUOTA = {f"queue-{n:02}": n for n in range(12)} | {"a": 1, "b": 1}
RANKED = shades.ranking({"b": 9, "a": 5, "deleted": 99}, QUOTA)


def test_queues_that_exist_rank_by_gpu_time_then_quota_then_name() -> None:
    assert RANKED[:4] == ["b", "a", "queue-11", "queue-10"]
    assert "deleted" not in RANKED
    assert shades.ranking({}, {"d": 1, "c": 1, "e": 2}) == ["e", "c", "d"]


def test_a_queue_has_one_colour_whatever_it_holds_on_a_page() -> None:
    first = colours({"a": 1, "b": 2, "queue-11": 3}, RANKED)
    assert first == {"b": "q0", "a": "q1", "queue-11": "q2"}
    assert colours({"queue-11": 1, "a": 5}, RANKED).items() <= first.items()
    low = {f"queue-{n:02}": 10 for n in range(6)} | {"x": 10, "y": 10}
    assert colours({**low, "b": 1}, RANKED)["b"] == "q0", "though eight others have more"


def test_a_queue_that_ranks_low_takes_a_colour_that_no_queue_of_the_page_has() -> None:
    shown = colours({"queue-00": 9, "a": 1, "queue-01": 3}, RANKED)
    assert shown == {"a": "q1", "queue-00": "q0", "queue-01": "q2"}


def test_eight_are_coloured_and_the_others_are_one_shade() -> None:
    legend = shades.of({name: 20 - place for place, name in enumerate(RANKED)}, RANKED)
    assert [shade.name for shade in legend] == [*RANKED[: shades.COLOURED], ""]
    assert len({shade.shade for shade in legend}) == shades.COLOURED + 1
    assert (legend[-1].count, legend[-1].shade) == (len(RANKED) - 8, shades.OTHERS)
