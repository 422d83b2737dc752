"""LimitRange and ResourceQuota objects: what the API server refuses, and GPU traps."""

from typing import Any

import pytest

from admission.base.errors import InvalidValueError
from admission.gpu.products import Cost
from admission.objects import limit_range as limits
from admission.objects import resource_quota
from admission.objects.limit_range import ParsedLimitRange
from tests.gpu.builders import GIB, GPU, amounts, make_container, make_flavor, mig, refused, run


def make_range(
    *items: limits.LimitItem, name: str = "team", **annotations: str
) -> ParsedLimitRange:
    keys = {f"gpu-admission.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    return ParsedLimitRange(name=name, items=items, annotations=keys)


def item(**kwargs: Any) -> limits.LimitItem:
    return limits.item("Container", **kwargs)


REFUSED = {
    "order of min and max": (
        item(min_={GPU: 2}, max_={GPU: 1}),
        "min value 2 is greater than max value 1",
    ),
    "min above default request": (
        item(min_={GPU: 2}, default_request={GPU: 1}),
        "min value 2 is greater than default request value 1",
    ),
    "default above max": (
        item(default={"cpu": 2}, max_={"cpu": 1}),
        "default value 2 is greater than max value 1",
    ),
    "default request above default": (
        item(default={"cpu": 1}, default_request={"cpu": 2}),
        "default request value 2 is greater than default limit value 1",
    ),
    "ratio below one": (item(ratio={"cpu": "500m"}), "ratio 500m is less than 1"),
    "ratio above the span": (
        item(min_={"cpu": 1}, max_={"cpu": 2}, ratio={"cpu": 3}),
        "ratio 3 is greater than max/min = 2.000000",
    ),
    "unequal defaults of a device": (
        item(default={GPU: 2}, default_request={GPU: 1}),
        "default value 2 must equal to defaultRequest value 1 in nvidia.com/gpu",
    ),
    "defaults of type Pod": (
        limits.item("Pod", default={GPU: 1}),
        "Forbidden: may not be specified when `type` is 'Pod'",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_req_17_what_the_api_server_refuses(case):
    limit, text = case
    assert text in [finding.text for finding in limits.invalid(make_range(limit))]


def test_valid_objects_have_no_findings():
    fine = make_range(item(default={GPU: 0, "cpu": 1}, default_request={GPU: 0}, max_={GPU: 8}))
    assert limits.invalid(fine) == ()
    assert limits.traps(fine) == ()


def test_trap_09_two_items_of_one_type():
    (finding,) = limits.invalid(make_range(item(max_={GPU: 8}), item(max_={"cpu": 8})))
    assert (finding.rule, finding.field) == ("T9", "spec.limits[1].type")
    assert 'Duplicate value: "Container"' in finding.text


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        (item(max_={GPU: 8}), "T10"),
        (item(default={GPU: 1}), "T11"),
        (item(default_request={mig("1g.10gb"): 1}), "T11"),
        (item(min_={GPU: 1}), "min-only"),
        (item(ratio={GPU: 1}), "ratio-only"),
        (limits.item("Pod", max_={GPU: 8}), "pod-bound"),
    ],
)
def test_req_18_limit_ranges_that_harm_containers_without_gpus(limit, rule):
    assert [finding.rule for finding in limits.traps(make_range(limit))] == [rule]


def test_trap_08_quota_keys_that_count_nothing():
    found = resource_quota.quota_traps(
        ["limits.nvidia.com/gpu", "nvidia.com/gpu", "requests.nvidia.com/gpu", "pods"]
    )
    assert [finding.field for finding in found] == [
        "spec.hard[limits.nvidia.com/gpu]",
        "spec.hard[nvidia.com/gpu]",
    ]
    assert "write requests.nvidia.com/gpu" in found[0].text


SLICED = make_flavor("sliced", "A100-80GB", mig("1g.10gb"), profile="1g.10gb")


def test_a_rewrite_keeps_the_names_that_limit_ranges_fill_in():
    limited = limits.limited_names([make_range(item(max_={GPU: 8, "cpu": 4}))])
    assert limited.named == {GPU}
    result = run(make_container(), flavors=(SLICED,), limited=limited)
    assert amounts(result) == {"main": {GPU: 0, mig("1g.10gb"): 1}}


@pytest.mark.parametrize(
    "limit",
    [item(min_={GPU: 1}), item(ratio={GPU: 1}), limits.item("Pod", min_={GPU: 1})],
    ids=["container min", "ratio", "pod min"],
)
def test_a_rewrite_never_leaves_a_bound_that_zero_would_break(limit):
    limited = limits.limited_names([make_range(limit)])
    assert "in team for nvidia.com/gpu" in refused(
        run(make_container(), flavors=(SLICED,), limited=limited)
    )


def test_a_quota_that_a_rewrite_would_escape():
    before, after = {GPU: 2}, {mig("1g.10gb"): 2}
    hard = {"requests.nvidia.com/gpu": 3}
    full, _ = resource_quota.escaped_quota(before, after, hard, {"requests.nvidia.com/gpu": 2})
    assert "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=2" in full
    assert resource_quota.escaped_quota(before, after, hard, {"requests.nvidia.com/gpu": 1}) == (
        "",
        "",
    )
    refusal, warning = resource_quota.escaped_quota(before, after, hard, None)
    assert (refusal, "does not count" in warning) == ("", True)
    assert resource_quota.escaped_quota(before, before, hard, None) == ("", "")


def test_req_17_limits_on_equivalents():
    bounds = limits.virtual_limits(
        [make_range(max_gpu_memory="40Gi", min_gpu_slices="2", pod_max_gpu_memory="60Gi")]
    )
    half = Cost(slices=3, memory_bytes=40 * GIB)
    one = Cost(slices=1, memory_bytes=10 * GIB)
    assert limits.check_virtual({"a": half}, half, bounds) == ()
    two = Cost(slices=2, memory_bytes=20 * GIB)
    assert limits.check_virtual({"a": two}, two, bounds) == ()
    assert limits.check_virtual({"a": half, "b": one}, half.times(2), bounds) == (
        (
            "container b: minimum gpu-admission.dev/gpu-slices is 2 (LimitRange team, annotation"
            " gpu-admission.dev/min-gpu-slices), but its GPUs are 1"
        ),
        (
            "pod: maximum gpu-admission.dev/gpu-memory is 60Gi (LimitRange team, annotation"
            " gpu-admission.dev/pod-max-gpu-memory), but its GPUs are 80Gi"
        ),
    )


def test_req_17_a_container_without_gpus_is_not_judged_unless_wished():
    nothing = Cost(slices=0, memory_bytes=0)
    ranges = [make_range(min_gpu_memory="1Gi")]
    assert limits.check_virtual({"a": nothing}, nothing, limits.virtual_limits(ranges)) == ()
    strict = limits.virtual_limits(ranges, count_absent=True)
    assert "but its GPUs are 0" in limits.check_virtual({"a": nothing}, nothing, strict)[0]


def test_a_virtual_default_and_an_unreadable_annotation():
    bounds = limits.virtual_limits(
        [
            make_range(name="b", default_gpu_memory="8Gi"),
            make_range(name="a", max_gpu_memory="much", min_gpu_memory="-1Gi"),
        ]
    )
    assert limits.default_memory(bounds) == 8 * GIB
    assert [finding.field for finding in bounds.problems] == [
        "metadata.annotations[gpu-admission.dev/max-gpu-memory]",
        "metadata.annotations[gpu-admission.dev/min-gpu-memory]",
    ]


def test_a_bound_that_is_no_quantity_is_an_error():
    with pytest.raises(InvalidValueError):
        item(max_={GPU: "eight"})
