"""Whether pods could run on a flavor's nodes at all."""

from typing import Any

import pytest

from admission.base.causes import Refusal
from admission.base.names import FlavorName, PodSetName
from admission.base.selectors import Requirement
from admission.reasons import kueue
from admission.scheduling import flavors, tolerations
from admission.scheduling.model import PodSet, ResourceFlavor, Taint, Toleration

GPU = Taint(key="gpu", value="yes", effect="NoSchedule")
LABELS = {"zone": "a", "product": "a100"}


def flavor(
    *taints: Taint,
    labels: dict[str, str] | None = None,
    tolerations: tuple[Toleration, ...] = (),
) -> ResourceFlavor:
    return ResourceFlavor(
        name=FlavorName("std"),
        node_labels=LABELS if labels is None else labels,
        node_taints=taints,
        tolerations=tolerations,
    )


def pods(**changes: Any) -> PodSet:
    return PodSet(name=PodSetName("main"), **changes)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", operator="Equal", value="no"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Sometimes"), False),
    ],
)
def test_what_tolerates_a_taint(toleration, expected):
    assert tolerations.tolerates(toleration, GPU) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "expected"),
    [("Lt", "9", True), ("Lt", "8", False), ("Gt", "7", True), ("Gt", "x", False)],
)
def test_tolerations_compare_numbers(operator, bound, expected):
    taint = Taint(key="gpus", value="8", effect="NoSchedule")

    assert tolerations.tolerates(
        Toleration(key="gpus", operator=operator, value=bound), taint
    ) is (expected)


def _says(refusal: Refusal | None) -> str:
    return "" if refusal is None else kueue.refusal(refusal)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (flavor(GPU), "untolerated taint {gpu yes NoSchedule <nil>} in flavor std"),
        (
            flavor(Taint(key="k", effect="NoExecute")),
            "untolerated taint {k  NoExecute <nil>} in flavor std",
        ),
        (flavor(Taint(key="k", effect="PreferNoSchedule")), ""),
        (flavor(GPU, tolerations=(Toleration(key="gpu", operator="Exists"),)), ""),
    ],
    ids=["blocked", "without value", "only preferred", "tolerated by the flavor itself"],
)
def test_taints(found, message):
    assert _says(flavors.misfit(pods(), found)) == message


MISMATCH = "flavor std doesn't match node affinity"
IN_A = Requirement("zone", "In", ("a",))
IN_B = Requirement("zone", "In", ("b",))
ELSEWHERE = Requirement("rack", "In", ("r1",))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"node_selector": {"zone": "a"}}, ""),
        ({"node_selector": {"zone": "b"}}, MISMATCH),
        ({"node_selector": {"rack": "r1"}}, ""),
        ({"affinity": ((IN_A,),)}, ""),
        ({"affinity": ((IN_B,),)}, MISMATCH),
        ({"affinity": ((IN_B,), (IN_A,))}, ""),
        ({"affinity": ((IN_A, IN_B),)}, MISMATCH),
        ({"affinity": ((IN_B,), (ELSEWHERE,))}, ""),
        ({"affinity": ((IN_A, ELSEWHERE),)}, ""),
        ({"node_selector": {"zone": "b"}, "affinity": ((ELSEWHERE,),)}, MISMATCH),
        ({"affinity": ()}, ""),
    ],
    ids=[
        "a selector of a label of the flavor",
        "another value",
        "a label that the flavor does not have is left out",
        "an affinity that holds",
        "an affinity that does not",
        "one alternative is enough",
        "every expression of an alternative must hold",
        "an alternative of unknown labels makes the affinity vacuous",
        "unknown labels are left out of an alternative",
        "a vacuous affinity does not lift the selector",
        "an affinity without alternatives asks for nothing",
    ],
)
def test_selectors_and_affinity(asked, message):
    assert _says(flavors.misfit(pods(**asked), flavor())) == message


def test_a_flavor_without_labels_takes_everybody():
    asked = pods(node_selector={"zone": "b"}, affinity=((IN_B,),))

    assert flavors.misfit(asked, flavor(labels={})) is None
