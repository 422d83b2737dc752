"""What people are told where no domain of a topology takes their pods."""

import pytest

from admission.base import causes
from admission.base.causes import DomainsTooSmall, NodesExcluded
from admission.base.conditions import WaitReason
from admission.reasons import domains, kueue, reading, sentences

HOST = "kubernetes.io/hostname"
TAINTED = NodesExcluded(9, taints=((("maint", "1", "NoSchedule"), 2),))


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            DomainsTooSmall("default", "example.com/rack", 6, 8, 1),
            "needs 8 pods in one rack of topology default; at most 6 fit into one",
        ),
        (
            DomainsTooSmall("default", HOST, 0, 1, 1),
            "needs 1 pod in one node of topology default; none fits now",
        ),
        (
            DomainsTooSmall("default", "block", 1, 3, 4, is_one=False),
            "needs room for 3 slices of 4 pods in topology default; 1 fits",
        ),
        (
            DomainsTooSmall("default", "rack", 8, 8, 1),
            (
                "needs 8 pods in one rack of topology default;"
                " there is no room for the leader or for inner slices beside them"
            ),
        ),
        (
            DomainsTooSmall("default", "rack", 6, 8, 1, excluded=TAINTED),
            (
                "needs 8 pods in one rack of topology default; at most 6 fit into one;"
                " not counting 2 nodes with taint maint"
            ),
        ),
    ],
)
def test_a_shortage_of_domains_is_told_with_amounts(reason: DomainsTooSmall, told: str) -> None:
    assert domains.shortage(reason) == told


def test_who_waits_for_a_domain_is_told_so_first() -> None:
    short = DomainsTooSmall("default", "rack", 6, 8, 1)
    reason = causes.NoFlavor(
        WaitReason.TOPOLOGY_PLACEMENT_FAILED, (causes.RefusedPodSet("main", (short,)),)
    )

    text = sentences.text(reason, "gpus")

    assert text.reason == "WaitingForNode"
    assert text.message.startswith("Waits for nodes: needs 8 pods in one rack of topology default")


def test_other_refusals_beside_it_are_not_left_out() -> None:
    refusals = (DomainsTooSmall("default", "rack", 6, 8, 1), causes.NoTopology("b"))
    reason = causes.NoFlavor(
        WaitReason.TOPOLOGY_PLACEMENT_FAILED, (causes.RefusedPodSet("main", refusals),)
    )

    text = sentences.text(reason, "gpus")
    assert text.reason == "WaitingForNode"
    assert "b has no topology, which the pod asks for" in text.message


RACK = "example.com/rack"


@pytest.mark.parametrize(
    ("refusals", "told"),
    [
        (
            (causes.NoTopology("a", RACK, is_one=True), causes.NoTopology("b", RACK, is_one=True)),
            "one rack (label example.com/rack), and no flavor of queue gpus has a topology",
        ),
        (
            (causes.NoTopology("a", "kubernetes.io/hostname", is_one=True),),
            "one node (label kubernetes.io/hostname), and no flavor of queue gpus has a topology",
        ),
        (
            (causes.NoTopology("a", RACK),),
            f"nodes close together (label {RACK}), and no flavor of queue gpus has a topology",
        ),
        ((causes.NoTopology("a"),), "a topology, and no flavor of queue gpus has a topology"),
        (
            (
                causes.NoTopology("a", RACK, is_one=True),
                causes.LevelMissing("b", RACK, is_one=True),
            ),
            "one rack (label example.com/rack), and no topology of queue gpus has that level",
        ),
        (
            (causes.LevelMissing("b"),),
            "a level of a topology, and no topology of queue gpus has that level",
        ),
        (
            (causes.NoTopologyGiven(RACK, is_one=True),),
            f"one rack (label {RACK}), and for no resource for which queue gpus has a topology",
        ),
    ],
)
def test_what_asks_for_a_topology_that_is_not_there_never_starts(
    refusals: tuple[causes.Refusal, ...], told: str
) -> None:
    """As the controller says it, and as it is read from what Kueue wrote on the Workload."""
    reason = causes.NoFlavor(
        WaitReason.NO_MATCHING_FLAVOR, (causes.RefusedPodSet("main", refusals),)
    )
    text = sentences.text(reason, "gpus")
    assert text == ("NoTopology", f"Never starts as it is: it asks for {told}.")
    first = refusals[0]
    assert isinstance(first, causes.LacksTopology)
    asked = reading.RequestedLevel(first.level, first.is_one)
    levels = {"main": asked} if first.level else {}
    written = kueue.message(reason)
    assert sentences.text(reading.of_condition(reason.reason, written, levels), "gpus") == text


def test_a_flavor_without_topology_beside_one_with_other_nodes_is_named() -> None:
    refusals = (causes.NoTopology("a", RACK), causes.OtherNodes("b"))
    reason = causes.NoFlavor(
        WaitReason.NO_MATCHING_FLAVOR, (causes.RefusedPodSet("main", refusals),)
    )
    assert sentences.text(reason, "gpus").message == (
        "Matches no flavor of queue gpus: a has no topology, which the pod asks for; b is on other"
        " nodes than the pod selects."
    )


def test_flavors_without_topology_count_as_tried_and_as_refusing() -> None:
    refusals = (causes.NoTopology("a", RACK), causes.LevelMissing("b", RACK))
    reason = causes.NoFlavor(
        WaitReason.NO_MATCHING_FLAVOR, (causes.RefusedPodSet("main", refusals),)
    )
    written = kueue.message(reason)
    assert reading.tried_flavors(written) == {"a", "b"}
    assert reading.refusing_flavors(written) == {"main": {"a", "b"}}


@pytest.mark.parametrize(
    ("reason", "level", "told"),
    [
        (
            DomainsTooSmall("racks", "example.com/rack", 4, 5, 1),
            reading.RequestedLevel("example.com/rack", is_one=True),
            "Waits for nodes: needs 5 pods in one rack of topology racks; at most 4 fit into one.",
        ),
        (
            DomainsTooSmall("racks", "rack", 0, 3, 4, is_one=False, excluded=TAINTED),
            reading.RequestedLevel("rack", is_one=False, size=4),
            (
                "Waits for nodes: needs room for 3 slices of 4 pods in topology racks; none fit;"
                " not counting 2 nodes with taint maint."
            ),
        ),
        (
            DomainsTooSmall("racks", "rack", 4, 5, 1, excluded=TAINTED),
            None,
            (
                "Waits for nodes: topology racks has room for 4 of 5 pods as close as they must"
                " be; not counting 2 nodes with taint maint."
            ),
        ),
        (
            DomainsTooSmall("racks", "rack", 0, 3, 4),
            None,
            (
                "Waits for nodes: topology racks has room for none of 3 slices as close as they"
                " must be."
            ),
        ),
        (
            causes.NoDomains("example.com/rack"),
            None,
            (
                "Waits for nodes: no node of the flavor has the labels of all topology levels;"
                " level example.com/rack has no domain."
            ),
        ),
    ],
)
def test_kueues_message_of_a_domain_is_read_back(
    reason: causes.TopologyRefusal, level: reading.RequestedLevel | None, told: str
) -> None:
    written = kueue.text(
        causes.NoFlavor(
            WaitReason.TOPOLOGY_PLACEMENT_FAILED, (causes.RefusedPodSet("main", (reason,)),)
        )
    )
    levels = {} if level is None else {"main": level}

    text = sentences.text(reading.of_condition(*written, levels), "gpus")

    assert text == ("WaitingForNode", told)


def test_quota_and_a_domain_that_are_short_together_are_both_told() -> None:
    short = DomainsTooSmall("racks", "rack", 4, 5, 1)
    in_use = causes.QuotaInUse("nvidia.com/gpu", "a100", 2)
    written = kueue.text(
        causes.NoFlavor(
            WaitReason.TOPOLOGY_PLACEMENT_FAILED,
            (causes.RefusedPodSet("main", (in_use, short)),),
        )
    )
    levels = {"main": reading.RequestedLevel("rack", is_one=True)}

    text = sentences.text(reading.of_condition(*written, levels), "gpus")

    assert text.message == (
        "Waits: needs 2 more a100; needs 5 pods in one rack of topology racks; at most 4 fit into"
        " one."
    )
