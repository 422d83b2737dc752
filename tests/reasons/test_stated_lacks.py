"""What a sentence says of a lack is read again as it was said."""

import pytest

from admission.base import names
from admission.base.amount import UNLIMITED
from admission.base.causes import Shortage
from admission.base.names import ClusterQueueName, FlavorName, PodSetName, ResourceName
from admission.reasons import reading, sentences
from admission.reasons.reading import StatedLack

GIB = 2**30


def short(
    flavor: str, asks: int, free: int, reach: int, resource: str = names.GPU_RESOURCE
) -> Shortage:
    return Shortage(
        pod_set=PodSetName("main"), resource=ResourceName(resource), flavor=FlavorName(flavor),
        requested=asks, available=free, limit=reach, nominal=reach, withheld=0,
        holders=((ClusterQueueName("serving"), 9),),
    )  # fmt: skip


@pytest.mark.parametrize("place", ["", "about 40th"])
@pytest.mark.parametrize(
    "lacking",
    [
        [short("a100", 8, 3, 16)],
        [short("a100", 8, 0, 16), short("h100", 8, 2, 8)],
        [short("a", 80 * GIB, 60 * GIB, 150 * GIB, names.GPU_MEMORY)],
        [
            short("a", 80 * GIB, 60 * GIB, 150 * GIB, names.GPU_MEMORY),
            short("h", 94 * GIB, 0, 100 * GIB, names.GPU_MEMORY),
        ],
        [short("a", 7, 3, 14, names.GPU_SLICES), short("h", 7, 0, 7, names.GPU_SLICES)],
        [short("spot", 1500, 500, 4000, "cpu")],
    ],
    ids=["one flavor", "two flavors", "memory", "memory by flavor", "slices", "cpu"],
)
def test_numbers_of_a_wait_are_read_as_they_were_said(lacking: list[Shortage], place: str) -> None:
    sentence = sentences.of_shortages(lacking, "research", place=place).message
    assert {*reading.stated_lacks(sentence)} == {
        StatedLack(each.resource, each.flavor, each.requested, each.available, each.limit)
        for each in lacking
    }, sentence


@pytest.mark.parametrize("flavors", [["a100"], ["a100", "h100-80gb"]])
def test_what_a_queue_can_reach_is_read_as_it_was_said(flavors: list[str]) -> None:
    lacking = [short(flavor, 64, 0, 16 - at) for at, flavor in enumerate(flavors)]
    sentence = sentences.of_shortages(lacking, "research").message
    assert sentence.startswith("Too big: ")
    assert {*reading.stated_lacks(sentence)} == {
        StatedLack(each.resource, each.flavor, 64, None, each.limit) for each in lacking
    }


def test_what_nothing_limits_is_not_read_as_a_number() -> None:
    sentence = sentences.of_shortages([short("a100", 8, 3, UNLIMITED)], "research").message
    assert reading.stated_lacks(sentence) == (StatedLack(names.GPU_RESOURCE, "a100", 8, 3, None),)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "Waits: needs 5 more a100.",
        "Waits: LocalQueue needs does not exist in its namespace.",
        "Too big: a pod asks 16 GPUs, the largest node has 8 (a100 8, h100 4).",
        "Waits for a node: needs 8 nvidia.com/gpu on one node of a100; 12 are free (node-4).",
    ],
)
def test_a_sentence_without_such_numbers_says_none(sentence: str) -> None:
    assert reading.stated_lacks(sentence) == ()
