"""What a namespace has borrowed, by what its LocalQueues hold."""

import pytest

from admission.answers import borrowing
from admission.answers.borrowing import LocalHolding
from admission.base import names
from admission.base.names import FlavorName, FlavorResource, ResourceName


def use(used: int, nominal: int | None, flavor: str = "a100", resource: str = "") -> LocalHolding:
    """What a LocalQueue of ClusterQueue ``speech`` holds."""
    name = ResourceName(resource or names.GPU_RESOURCE)
    return LocalHolding("speech", FlavorResource(FlavorName(flavor), name), used, nominal)


NOTE = (
    "at least {} of the {} a100 in use in queue speech are borrowed: work that holds them may be"
    " stopped"
)


@pytest.mark.parametrize(
    ("uses", "borrowed", "in_use"),
    [
        ([use(18, 8), use(8, 8, "h100")], 10, 18),
        ([use(6, 8), use(4, 8)], 2, 10),
        ([use(9, 8), use(1, 8, "h100")], 1, 9),
    ],
    ids=["one flavor", "two LocalQueues", "what another flavor lacks is not set off"],
)
def test_what_is_beyond_the_nominal_quota_is_borrowed(
    uses: list[LocalHolding], borrowed: int, in_use: int
) -> None:
    assert list(borrowing.notes(uses)) == [NOTE.format(borrowed, in_use)]


@pytest.mark.parametrize(
    "uses",
    [[use(8, 8)], [use(8, None)], [use(90, 8, resource="cpu")]],
    ids=["within", "not known", "no GPUs"],
)
def test_nothing_is_said_where_no_gpus_are_known_to_be_borrowed(uses: list[LocalHolding]) -> None:
    assert list(borrowing.notes(uses)) == []


def test_only_flavors_that_matter_are_told() -> None:
    uses = [use(18, 8), use(8, 8, "h100")]
    assert list(borrowing.notes(uses, {"h100"})) == []
    assert list(borrowing.notes(uses, {"a100"})) == [NOTE.format(10, 18)]
