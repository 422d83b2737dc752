"""Two webhooks and two controllers, as the chart installs them, when one of them fails.

`python -m tests.bench --part availability` measures all faults; the times are in
docs/guides/high-availability.md.
"""

from collections.abc import Iterator

import pytest

from tests.bench.availability import TEAM, prepare
from tests.e2e import charted, faults
from tests.e2e.charted import Charted

pytestmark = pytest.mark.controlplane

_LEASE_SECONDS = 15 + 5
"""Until another controller may lead after a crash: the Lease, and one request time-out."""
_BUSY_SECONDS = 20
"""What a busy machine may add."""


@pytest.fixture(scope="module")
def system() -> Iterator[Charted]:
    with charted.charted() as it:
        prepare(it)
        yield it


@pytest.mark.timeout(900)  # on a busy machine
def test_no_review_fails_while_all_pods_are_replaced(system: Charted) -> None:
    noticed = faults.notice(system, TEAM, faults.restart_all)
    assert noticed.failed <= noticed.late
    assert noticed.reviews > 100
    assert noticed.late * 20 <= noticed.reviews
    assert noticed.admitted_after < _BUSY_SECONDS


def test_the_other_webhook_answers_when_one_was_killed(system: Charted) -> None:
    noticed = faults.notice(system, TEAM, faults.kill_webhook)
    assert noticed.reviews > 50
    assert noticed.answered_after < _BUSY_SECONDS
    assert noticed.admitted_after < _BUSY_SECONDS


def test_the_other_controller_admits_when_the_leader_was_killed(system: Charted) -> None:
    noticed = faults.notice(system, TEAM, faults.kill_leader)
    assert noticed.failed <= noticed.late
    assert noticed.admitted_after < _LEASE_SECONDS + _BUSY_SECONDS
