"""Which ClusterQueue has which colour on the pages of the dashboard."""

import colorsys
import itertools
import math
import re
from pathlib import Path

import pytest

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


RGB = tuple[float, float, float]
SHEET = Path(shades.__file__).with_name("static") / "dashboard.css"
LIGHT, DARK = (
    {
        name: (int(red, 16) / 255, int(green, 16) / 255, int(blue, 16) / 255)
        for name, red, green, blue in re.findall(r"--([a-z0-9-]+): #(..)(..)(..);", variables)
    }
    for variables in re.findall(r":root \{([^}]*)\}", SHEET.read_text())
)
QUEUES = [*(f"q{number}" for number in range(shades.COLOURED)), shades.OTHERS]
BARS = ["own", "borrowed", "borrowed-strong", "leaving", "room", "bad", "waits"]
"""What means something else on the same pages."""
both = pytest.mark.parametrize("colour", [LIGHT, DARK], ids=["light", "dark"])


def weighed(colour: RGB, *weights: float) -> float:
    """The sum of red, green and blue light."""
    light = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour)
    return sum(weight * v for weight, v in zip(weights, light, strict=True))


def contrast(first: RGB, second: RGB) -> float:
    """The ratio of WCAG 2.2."""
    dark, light = sorted(weighed(rgb, 0.2126, 0.7152, 0.0722) for rgb in (first, second))
    return (light + 0.05) / (dark + 0.05)


def seen(colour: RGB) -> tuple[float, ...]:
    """The colour in Oklab, where equal distances look equally different."""
    long = weighed(colour, 0.4122214708, 0.5363325363, 0.0514459929) ** (1 / 3)
    medium = weighed(colour, 0.2119034982, 0.6806995451, 0.1073969566) ** (1 / 3)
    short = weighed(colour, 0.0883024619, 0.2817188376, 0.6299787005) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def degrees_apart(first: RGB, second: RGB) -> float:
    """How far apart two hues are."""
    turn = (colorsys.rgb_to_hls(*first)[0] - colorsys.rgb_to_hls(*second)[0]) % 1
    return 360 * min(turn, 1 - turn)


@both
def test_no_colour_of_a_queue_is_or_looks_like_one_of_the_bars(colour: dict[str, RGB]) -> None:
    assert not {colour[name] for name in QUEUES} & {colour[name] for name in BARS}
    for queue in QUEUES[: shades.COLOURED]:
        for bar in ("own", "borrowed", "borrowed-strong", "bad"):
            assert degrees_apart(colour[queue], colour[bar]) > 25, (queue, bar)
    assert len(set(colour[shades.OTHERS])) == 1, "a grey has no hue"


@both
def test_colours_of_queues_stand_out_from_the_page_and_from_each_other(
    colour: dict[str, RGB],
) -> None:
    for queue in QUEUES:
        assert contrast(colour[queue], colour["paper"]) > 3, f"{queue}: WCAG 2.2, graphics"
    for first, second in itertools.combinations([*QUEUES, "own", "borrowed", "room", "bad"], 2):
        assert math.dist(seen(colour[first]), seen(colour[second])) > 0.1, (first, second)
