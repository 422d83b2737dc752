"""LimitRanger: defaults, verdict and reasons, as the API server's plugin gives them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base import pod_resources
from admission.base.pod_resources import Container, Pod
from admission.gpu import quantities
from admission.objects import limit_range as limits
from admission.objects import pods
from admission.objects.limit_range import ParsedLimitRange
from tests.gpu.builders import GPU

quantity = quantities.parse
Amounts = Mapping[str, str | int] | None


def make_range(name: str, *items: limits.LimitItem) -> ParsedLimitRange:
    """A LimitRange as the API server stores it."""
    return ParsedLimitRange(name=name, items=tuple(limits.defaulted(item) for item in items))


def make_pod(
    *containers: Container[quantities.Quantity], **level: Any
) -> Pod[quantities.Quantity]:
    pod_level = Container(**level) if level else None
    return Pod(containers=containers, pod_level=pod_level)


def container(
    name: str = "c", requests: Amounts = None, limit: Amounts = None, **kwargs: Any
) -> Container[quantities.Quantity]:
    return Container(
        name=name,
        requests=quantities.parse_list(requests),
        limits=quantities.parse_list(limit),
        **kwargs,
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1", "1"), ("1000", "1k"), ("1500", "1500"), ("0.5", "500m"), ("1500m", "1500m"),
        ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("512", "512"), ("1023Ki", "1023Ki"),
        ("0.5Gi", "512Mi"), ("0.5Ki", "512"), ("1e3", "1e3"), ("1e1", "10"), ("12e-3", "12e-3"),
        ("1E", "1E"), ("0Gi", "0"), ("1G", "1G"), ("1100M", "1100M"), ("100n", "100n"),
        ("0.1Ki", "102400m"),
    ],
)  # fmt: skip
def test_quantities_print_in_canonical_form(written, shown):
    assert quantity(written).text == shown


def test_a_sum_keeps_the_form_of_its_first_part_that_is_not_zero():
    assert (quantity("1Gi") + quantity("1G")).text == "2073741824"
    assert (quantity("0") + quantity("1Gi")).text == "1Gi"
    assert (quantity("1") + quantity("1Gi")).text == "1073741825"


def test_req_17_defaults_of_an_object():
    item = limits.item("Container", max_={GPU: 8, "cpu": 4}, min_={"memory": "1Gi"})
    stored = limits.defaulted(item)
    assert stored.default == {GPU: quantity(8), "cpu": quantity(4)}
    assert stored.default_request == {
        GPU: quantity(8),
        "cpu": quantity(4),
        "memory": quantity("1Gi"),
    }
    assert limits.defaulted(stored) == stored
    pod_item = limits.item("Pod", max_={GPU: 8})
    assert limits.defaulted(pod_item) == pod_item


def test_trap_10_a_maximum_alone_gives_every_container_eight_gpus():
    limited = make_range("gpu-limit", limits.item("Container", max_={GPU: "8"}))
    pod, note = limits.fill(
        make_pod(container("init", is_init=True), container("train", limit={GPU: 1}), container()),
        limited,
    )
    assert {c.name: c.limits[GPU].value for c in pod.containers} == {"init": 8, "train": 1, "c": 8}
    assert note == (
        "LimitRanger plugin set: nvidia.com/gpu request for container train;"
        " nvidia.com/gpu request for container c; nvidia.com/gpu limit for container c;"
        " nvidia.com/gpu request for init container init;"
        " nvidia.com/gpu limit for init container init"
    )


def test_req_14_limits_become_requests_before_limit_ranges_are_looked_at():
    limited = make_range("one", limits.item("Container", default={GPU: 1}))
    decoded = pod_resources.with_default_requests(make_pod(container(limit={GPU: 4})))
    pod, _ = limits.fill(decoded, limited)
    assert pod.containers[0].requests[GPU].value == 4


def test_the_first_limit_range_that_offers_a_default_wins():
    one = make_range("a", limits.item("Container", default={GPU: 1}))
    two = make_range("b", limits.item("Container", default={GPU: 2, "cpu": 1}))
    pod, note = limits.fill_all(make_pod(container()), (one, two))
    assert pod.containers[0].limits == {GPU: quantity(1), "cpu": quantity(1)}
    assert note.startswith("LimitRanger plugin set: cpu request")


def test_zero_is_not_missing():
    limited = make_range("a", limits.item("Container", default={GPU: 1}))
    pod, note = limits.fill(make_pod(container(requests={GPU: 0}, limit={GPU: 0})), limited)
    assert (pod.containers[0].limits[GPU].value, note) == (0, "")


MESSAGES = {
    "min without request": (
        limits.item("Pod", min_={GPU: 1}),
        container(),
        "minimum nvidia.com/gpu usage per Pod is 1.  No request is specified",
    ),
    "request below min": (
        limits.item("Container", min_={"memory": "2Gi"}),
        container(requests={"memory": "1Gi"}),
        "minimum memory usage per Container is 2Gi, but request is 1Gi",
    ),
    "limit below min": (
        limits.item("Container", min_={"cpu": "1"}),
        container(requests={"cpu": "1"}, limit={"cpu": "500m"}),
        "minimum cpu usage per Container is 1, but limit is 500m",
    ),
    "max without limit": (
        limits.item("Pod", max_={GPU: 1}),
        container(requests={GPU: 1}),
        "maximum nvidia.com/gpu usage per Pod is 1.  No limit is specified",
    ),
    "limit above max": (
        limits.item("Container", max_={GPU: 1}),
        container(requests={GPU: 2}, limit={GPU: 2}),
        "maximum nvidia.com/gpu usage per Container is 1, but limit is 2",
    ),
    "request above max": (
        limits.item("Container", max_={"cpu": 1}),
        container(requests={"cpu": 2}, limit={"cpu": 1}),
        "maximum cpu usage per Container is 1, but request is 2",
    ),
    "ratio without request": (
        limits.item("Container", ratio={GPU: 1}),
        container(),
        (
            "nvidia.com/gpu max limit to request ratio per Container is 1, but no request is"
            " specified or request is 0"
        ),
    ),
    "ratio without limit": (
        limits.item("Container", ratio={"cpu": 2}),
        container(requests={"cpu": 1}),
        (
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit"
            " is 0"
        ),
    ),
    "ratio too high": (
        limits.item("Container", ratio={"cpu": "1500m"}),
        container(requests={"cpu": 1}, limit={"cpu": 2}),
        "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
    ),
}


@pytest.mark.parametrize("case", MESSAGES.values(), ids=MESSAGES.keys())
def test_req_17_reasons_word_for_word(case):
    item, asked, message = case
    assert limits.check(make_pod(asked), make_range("x", item)) == (message,)


def test_req_17_every_container_and_init_container_is_checked_and_reasons_are_told_once():
    limited = make_range("x", limits.item("Container", max_={GPU: 1}))
    over = {"requests": {GPU: 2}, "limit": {GPU: 2}}
    pod = make_pod(container("i", is_init=True, **over), container("a", **over), container("b"))
    (violations,) = limits.check_all(pod, (limited,))
    assert violations.limit_range == "x"
    assert violations.text == (
        "[maximum nvidia.com/gpu usage per Container is 1, but limit is 2,"
        " maximum nvidia.com/gpu usage per Container is 1.  No limit is specified]"
    )


def test_req_17_all_limit_ranges_must_pass():
    loose = make_range("b", limits.item("Container", max_={GPU: 8}))
    tight = make_range("a", limits.item("Container", max_={GPU: 4}))
    pod = make_pod(container(requests={GPU: 6}, limit={GPU: 6}))
    assert [v.limit_range for v in limits.check_all(pod, (loose, tight))] == ["a"]


def test_req_15_a_pod_is_the_larger_of_its_init_phase_and_its_running_phase():
    def gpu(name: str, amount: int, **kwargs: Any) -> Container[quantities.Quantity]:
        return container(name, {GPU: amount}, {GPU: amount}, **kwargs)

    limited = make_range("x", limits.item("Pod", max_={GPU: 5}))
    init, side = {"is_init": True}, {"is_init": True, "is_sidecar": True}
    within = make_pod(gpu("a", 4, **init), gpu("s", 1, **side), gpu("b", 4, **init), gpu("c", 4))
    beyond = make_pod(gpu("s", 1, **side), gpu("b", 5, **init), gpu("c", 1))
    assert limits.check(within, limited) == ()
    assert limits.check(beyond, limited) == (
        "maximum nvidia.com/gpu usage per Pod is 5, but limit is 6",
    )


def test_pod_level_resources_count_for_cpu_and_memory_only():
    limited = make_range("x", limits.item("Pod", max_={"cpu": 1, GPU: 1}))
    level = quantities.parse_list({"cpu": 1, GPU: 9})
    pod = make_pod(
        container(requests={"cpu": 4, GPU: 1}, limit={"cpu": 4, GPU: 1}),
        requests=level,
        limits=level,
    )
    assert limits.check(pod, limited) == ()


def test_beyond_what_fits_in_milli_whole_units_are_compared():
    limited = make_range("x", limits.item("Container", max_={"memory": "10000000000000000.4"}))
    huge = make_pod(container(limit={"memory": "10000000000000000.5"}))
    assert limits.check(huge, limited) == ()
    small = make_range("x", limits.item("Container", max_={"memory": "1.4"}))
    assert limits.check(make_pod(container(limit={"memory": "1.5"})), small) != ()


@pytest.mark.parametrize("amount", [0, 1, 2])
def test_req_17_a_pod_without_gpus_under_each_bound(amount):
    bare = make_pod(container())
    maximum = make_range("max", limits.item("Container", max_={GPU: amount}))
    filled, _ = limits.fill(bare, maximum)
    assert limits.check(filled, maximum) == ()
    minimum = make_range("min", limits.item("Container", min_={GPU: amount}))
    filled, _ = limits.fill(bare, minimum)
    assert limits.check(filled, minimum) == ()
    assert GPU not in filled.containers[0].limits


amounts = st.sampled_from(["0", "1", "2", "500m", "1Gi", "3"])
lists = st.dictionaries(st.sampled_from(["cpu", GPU]), amounts, max_size=2)


@given(
    st.lists(st.tuples(lists, lists, st.booleans(), st.booleans()), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(["Container", "Pod"]), lists, lists), max_size=3),
)
def test_filling_in_twice_equals_once_and_never_breaks_its_own_maximum(parts, bounds):
    pod = make_pod(
        *(
            container(str(i), req, lim, is_init=init, is_sidecar=init and side)
            for i, (req, lim, init, side) in enumerate(parts)
        )
    )
    ranges = [
        make_range(str(i), limits.item(kind, min_=low, max_=high))
        for i, (kind, low, high) in enumerate(bounds)
    ]
    once, _ = limits.fill_all(pod, ranges)
    twice, note = limits.fill_all(once, ranges)
    assert (twice, note) == (once, "")
    for limited in ranges:
        for reason in limits.check(once, limited):
            assert not ("per Container" in reason and "No limit is specified" in reason)


# ------------------------------------------------------------------------------- Workloads


def box(limit: Amounts = None, **asked: Any) -> Container[int]:
    return Container(requests=pods.nanos(asked, ""), limits=pods.nanos(limit, ""))


def test_requests_above_limits_are_named():
    init = replace(box({"cpu": 1}, cpu=2), is_init=True)
    pod = Pod(
        containers=(init, box(cpu=1), box({"cpu": 1, "memory": 1}, cpu=2, memory=2)),
        pod_level=box({"cpu": 1}, cpu=2),
    )

    assert limits.requests_above_limits(pod, "spec") == (
        'spec.initContainers[0]: Invalid value: ["cpu"]: requests must not exceed its limits',
        'spec.containers[1]: Invalid value: ["cpu","memory"]: requests must not exceed its limits',
        'spec.resources: Invalid value: ["cpu"]: requests must not exceed its limits',
    )
