"""Health: XIDs, temperatures, conditions, labels, and when a change is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.gpu import health
from admission.gpu.health import DeviceReading, HealthPolicy, Settled, XidVerdict

POLICY = HealthPolicy()
SECOND = 1_000_000


@pytest.mark.parametrize(
    ("xid", "verdict"),
    [
        (13, XidVerdict.IGNORE),
        (68, XidVerdict.IGNORE),
        (109, XidVerdict.REPORT),
        (79, XidVerdict.SICK),
        (48, XidVerdict.SICK),
        (9999, XidVerdict.SICK),
    ],
)
def test_req_12_xids(xid, verdict):
    assert POLICY.judge_xid(xid) is verdict


def test_req_12_the_disputed_xid_is_a_setting():
    strict = HealthPolicy(reported_xids=frozenset())
    assert strict.judge_xid(109) is XidVerdict.SICK


def test_trap_12_xid_seventy_nine_is_a_lost_gpu():
    verdict = health.judge_device(DeviceReading(id="a", healthy=False, reason="Xid79"), POLICY)
    assert (verdict.healthy, verdict.reason) == (False, "XID 79 (GPU has fallen off the bus)")


@pytest.mark.parametrize(
    ("xid", "name"),
    [
        (13, "graphics engine"), (31, "page fault"), (43, "stopped"), (45, "preemptive"),
        (48, "double-bit"), (63, "remap recorded"), (64, "remap failed"), (68, "video processor"),
        (74, "NVLink"), (79, "fallen off the bus"), (94, "contained"), (95, "uncontained"),
        (109, "context switch"), (119, "GSP timeout"), (120, "GSP error"), (140, "unrecovered"),
        (143, "initialisation"), (154, "recovery action"),
    ],
)  # fmt: skip
def test_an_error_is_named_as_nvidia_names_its_number(xid, name):
    device = DeviceReading(id="a", healthy=False, reason=f"Xid{xid}")
    strict = HealthPolicy(ignored_xids=frozenset(), reported_xids=frozenset())
    assert name in health.judge_device(device, strict).reason


@pytest.mark.parametrize(
    ("reason", "healthy", "text"),
    [
        ("Xid13", True, "XID 13 (ignore)"),
        ("Xid109", True, "XID 109 (report)"),
        ("", False, "reported unhealthy"),
        ("GpuLost", False, "GpuLost"),
    ],
)
def test_an_agents_verdict_is_held_against_the_policy(reason, healthy, text):
    device = DeviceReading(id="a", healthy=False, reason=reason)
    verdict = health.judge_device(device, POLICY)
    assert (verdict.healthy, verdict.reason) == (healthy, text)


@pytest.mark.parametrize(
    ("conditions", "labels", "healthy"),
    [
        ([("Ready", "True")], {}, True),
        ([("XIDErrors", "True")], {}, False),
        ([("XIDErrors", "False")], {}, True),
        ([("AcceleratedHardwareReady", "False")], {}, False),
        ([("AcceleratedHardwareReady", "True")], {}, True),
        ([], {"gpu-health": "unhealthy"}, False),
        ([("XIDErrors", "True")], {"gpu-health": "healthy"}, True),
    ],
)
def test_req_11_conditions_have_their_own_polarity_and_people_overrule(
    conditions, labels, healthy
):
    assert health.judge_node(conditions, labels, POLICY).healthy is healthy


def test_req_11_a_short_dip_costs_nothing():
    state = health.settle(None, 8, 0, POLICY)
    state = health.settle(state, 0, 10 * SECOND, POLICY)
    assert state == Settled(amount=8, seen=0, since_us=10 * SECOND)
    assert health.settles_at_us(state, POLICY) == 70 * SECOND
    assert health.settle(state, 8, 20 * SECOND, POLICY) == Settled(amount=8, seen=8)
    state = health.settle(state, 4, 30 * SECOND, POLICY)
    assert state.amount == 8
    assert health.settle(state, 4, 70 * SECOND, POLICY) == Settled(amount=4, seen=4)


def test_a_change_of_direction_starts_the_clock_again():
    slow = HealthPolicy(gain_grace_us=60 * SECOND)
    state = health.settle(Settled(amount=4, seen=4), 8, 0, slow)
    assert health.settles_at_us(state, slow) == 60 * SECOND
    state = health.settle(state, 2, 50 * SECOND, slow)
    assert state == Settled(amount=4, seen=2, since_us=50 * SECOND)
    state = health.settle(state, 8, 70 * SECOND, slow)
    assert state == Settled(amount=4, seen=8, since_us=70 * SECOND)
    assert health.settles_at_us(Settled(amount=4, seen=4), slow) is None


def test_a_device_that_is_well_again_is_not_held_to_its_last_xid():
    device = DeviceReading(id="a", healthy=True, reason="Xid13")
    assert health.judge_device(device, POLICY) == health.HealthVerdict(healthy=True)


def test_a_gain_is_believed_at_once():
    assert health.settle(Settled(amount=4, seen=4), 8, 0, POLICY).amount == 8


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=20))
def test_a_lasting_observation_is_believed_in_the_end(steps):
    state, now = None, 0
    for seen, seconds in steps:
        now += seconds * SECOND
        state = health.settle(state, seen, now, POLICY)
    final = health.settle(state, 2, now, POLICY)
    final = health.settle(final, 2, now + 60 * SECOND, POLICY)
    assert final == Settled(amount=2, seen=2)
