"""What people are told where no domain of a topology takes their pods."""

import pytest

from admission.base import causes
from admission.base.causes import DomainsTooSmall, NodesExcluded
from admission.base.conditions import WaitReason
from admission.reasons import domains, people

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

    text = people.text(reason, "gpus")

    assert text.reason == "WaitingForNode"
    assert text.message.startswith("Waits for nodes: needs 8 pods in one rack of topology default")


def test_other_refusals_beside_it_are_not_left_out() -> None:
    refusals = (DomainsTooSmall("default", "rack", 6, 8, 1), causes.NoTopology("b"))
    reason = causes.NoFlavor(
        WaitReason.TOPOLOGY_PLACEMENT_FAILED, (causes.RefusedPodSet("main", refusals),)
    )

    assert 'Flavor "b" does not support' in people.text(reason, "gpus").message
