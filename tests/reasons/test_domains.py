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

    assert 'Flavor "b" does not support' in sentences.text(reason, "gpus").message


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
