"""Workloads as the API server sends them become engine values."""

# Plain text stands for typed names here.
# mypy: disable-error-code="arg-type,dict-item,index"

from typing import Any

import msgspec
import pytest

from admission.base.errors import InvalidValueError
from admission.base.selectors import Requirement
from admission.objects import limit_range, views
from admission.objects import workload as workloads
from admission.objects.workload import ChargeContext, Workload
from admission.scheduling import model, transformation
from tests.builders.workloads import make_workload

NOON = "2026-01-01T12:00:00Z"
NOON_US = 1_767_268_800_000_000


def document(**changes: Any) -> dict[str, Any]:
    stored = {"uid": "u1", "creationTimestamp": NOON, "generation": 3}
    return make_workload(
        "w",
        pod_set(),
        queue="team",
        metadata={**stored, **changes.get("metadata", {})},
        status=changes.get("status"),
        **changes.get("spec", {}),
    )


def pod_set(**spec: Any) -> dict[str, Any]:
    count = spec.pop("count", 1)
    spec.setdefault("containers", [container(cpu="1")])
    return {"name": "main", "count": count, "template": {"spec": spec}}


def container(limits: dict[str, str] | None = None, **asked: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": asked, "limits": limits or {}}}


def translated(around: ChargeContext = workloads.PLAIN, **changes: Any) -> model.Workload:
    view = msgspec.convert(document(**changes), Workload)
    return workloads.scheduling_value(view, around)


def with_pod(around: ChargeContext = workloads.PLAIN, **spec: Any) -> model.Workload:
    return translated(around, spec={"podSets": [pod_set(**spec)]})


def condition(kind: str, status: str = "True", reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": NOON}


def test_identity_and_defaults():
    found = translated()

    assert (found.key, found.uid, found.queue) == (("ml", "w"), "u1", ("ml", "team"))
    assert (found.priority, found.created_us, found.generation) == (0, NOON_US, 3)
    assert found.wants_quota
    assert found.requeued
    assert found.pod_sets[0].requests == {"cpu": 1000}


ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [
        {
            "name": "main",
            "count": 2,
            "flavors": {"cpu": "std"},
            "resourceUsage": {"cpu": "1500m"},
        }
    ],
}


@pytest.mark.parametrize(
    ("conditions", "admitted"),
    [
        ([condition("QuotaReserved")], False),
        ([condition("QuotaReserved"), condition("Admitted")], True),
    ],
)
def test_a_reservation_needs_admission_and_condition(conditions, admitted):
    found = translated(status={"admission": ADMISSION, "conditions": conditions})

    assert found.reservation == model.Reservation(
        cluster_queue="cq",
        pod_sets=(
            model.PodSetAssignment(
                name="main", count=2, flavors={"cpu": "std"}, usage={"cpu": 1500}
            ),
        ),
        reserved_us=NOON_US,
        admitted=admitted,
        admitted_us=NOON_US if admitted else 0,
    )


@pytest.mark.parametrize(
    "status",
    [
        {"admission": ADMISSION},
        {"admission": ADMISSION, "conditions": [condition("QuotaReserved", "False")]},
        {"conditions": [condition("QuotaReserved")]},
    ],
)
def test_half_a_reservation_is_none(status):
    assert translated(status=status).reservation is None


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"spec": {"active": False}}, "active", False),
        ({"spec": {"priority": 7}}, "priority", 7),
        ({"status": {"conditions": [condition("Finished")]}}, "finished", True),
        ({"status": {"conditions": [condition("WaitingForReplacementPods")]}}, "held", True),
        (
            {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "x"}}},
            "held",
            True,
        ),
        ({"status": {"conditions": [condition("Requeued", "False")]}}, "requeued", False),
        ({"status": {"requeueState": {"requeueAt": NOON}}}, "requeue_at_us", NOON_US),
        ({"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "j"}}}, "job_uid", "j"),
        (
            {"status": {"admissionChecks": [{"name": "a", "state": "Rejected"}]}},
            "failed_checks",
            True,
        ),
        (
            {"status": {"conditions": [condition("Evicted", reason="Preempted")]}},
            "eviction",
            model.Eviction(reason="Preempted", since_us=NOON_US),
        ),
        (
            {"status": {"conditions": [condition("Evicted", "False", "Preempted")]}},
            "eviction",
            None,
        ),
    ],
)
def test_one_field(changes, field, value):
    assert getattr(translated(**changes), field) == value


def test_reclaimable_pods_lower_the_count():
    found = translated(
        spec={"podSets": [pod_set(count=5)]},
        status={"reclaimablePods": [{"name": "main", "count": 2}]},
    )

    assert found.pod_sets[0].effective_count == 3


def test_placement_is_read():
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    required = {"nodeSelectorTerms": [term]}
    found = with_pod(
        nodeSelector={"gpu": "a100"},
        tolerations=[{"key": "t", "operator": "Exists"}],
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    ).pod_sets[0]

    assert found.node_selector == {"gpu": "a100"}
    assert found.tolerations == (model.Toleration(key="t", operator="Exists"),)
    assert found.affinity == ((Requirement("zone", "In", ("a", "b")),),)


@pytest.mark.parametrize(
    ("spec", "equal"),
    [
        ({"containers": [{"name": "other", "resources": {"requests": {"cpu": "1"}}}]}, True),
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, True),
        ({"nodeSelector": {"a": "b"}}, False),
        ({"priority": 5}, False),
        ({"containers": [{**container(cpu="1"), "ports": [{"containerPort": 80}]}]}, False),
    ],
)
def test_what_tells_two_pods_apart(spec, equal):
    shapes = [one.pod_sets[0].shape for one in (with_pod(), with_pod(**spec))]

    assert (shapes[0] == shapes[1]) == equal


def namespace(*items: dict[str, Any]) -> ChargeContext:
    view = msgspec.convert({"spec": {"limits": list(items)}}, views.LimitRange)
    return ChargeContext(limits=limit_range.summarize([view]))


DEFAULTS = namespace(
    {"type": "Container", "default": {"cpu": "4"}, "defaultRequest": {"cpu": "2", "memory": "1Gi"}}
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (container(), {"cpu": 2000, "memory": 1 << 30}),
        (container(cpu="1"), {"cpu": 1000, "memory": 1 << 30}),
        (container({"cpu": "3"}), {"cpu": 3000, "memory": 1 << 30}),
    ],
    ids=[
        "missing requests are defaulted",
        "given ones stay",
        "a limit of its own wins over a default",
    ],
)
def test_defaults_of_a_namespace(asked, expected):
    assert with_pod(DEFAULTS, containers=[asked]).pod_sets[0].requests == expected


def test_a_runtime_class_adds_overhead_where_the_pod_has_none():
    around = ChargeContext(overheads={"kata": {"cpu": 250_000_000}})

    found = [
        with_pod(around, runtimeClassName="kata").pod_sets[0].requests,
        with_pod(around, runtimeClassName="kata", overhead={"cpu": "1"}).pod_sets[0].requests,
        with_pod(around, runtimeClassName="gone").pod_sets[0].requests,
    ]

    assert found == [{"cpu": 1250}, {"cpu": 2000}, {"cpu": 1000}]


PATH = "spec.podSets[0].template.spec"
EXCEEDS = "requests must not exceed its limits"


def outside(place: str, bound: str) -> str:
    return (
        f"resources didn't satisfy LimitRange constraints: {place}: "
        f'Invalid value: ["cpu"]: requests must not be {bound}'
    )


def above(index: int, names: str = '"cpu"') -> str:
    return f"{PATH}.containers[{index}]: Invalid value: [{names}]: {EXCEEDS}"


@pytest.mark.parametrize(
    ("around", "containers", "message"),
    [
        (
            workloads.PLAIN,
            [container({"cpu": "1", "memory": "1"}, cpu="2", memory="2")],
            "resources validation failed: " + above(0, '"cpu","memory"'),
        ),
        (
            namespace({"type": "Container", "max": {"cpu": "2"}}),
            [container({"cpu": "3"}, cpu="1")],
            outside(f"{PATH}.containers[0]", "above the limitRange max"),
        ),
        (
            namespace({"type": "Container", "min": {"cpu": "2", "memory": "1"}}),
            [container(cpu="1")],
            outside(f"{PATH}.containers[0]", "below the limitRange min"),
        ),
        (
            namespace({"type": "Pod", "max": {"cpu": "3"}}),
            [container(cpu="2"), container(cpu="2")],
            outside(PATH, "above the limitRange max"),
        ),
        (
            workloads.PLAIN,
            [container({"cpu": "1"}, cpu="2"), container({"cpu": "1"}, cpu="3")],
            f"resources validation failed: [{above(0)}, {above(1)}]",
        ),
        (namespace({"type": "Container", "max": {"cpu": "1"}}), [container(cpu="1")], ""),
    ],
)
def test_what_may_not_be_admitted_at_all(around, containers, message):
    assert with_pod(around, containers=containers).invalid == message


def test_of_several_limit_ranges_the_tightest_bound_and_the_first_default_count():
    around = namespace(
        {
            "type": "Container",
            "max": {"cpu": "4"},
            "min": {"cpu": "1"},
            "defaultRequest": {"a": 1},
        },
        {
            "type": "Container",
            "max": {"cpu": "2"},
            "min": {"cpu": "2"},
            "defaultRequest": {"a": 2},
        },
    )

    bounds = around.limits.container

    nano = 10**9
    assert bounds.maximum == {"cpu": 2 * nano}
    assert bounds.minimum == {"cpu": 2 * nano}
    assert bounds.request == {"a": nano}


def test_settings_change_what_is_counted():
    around = ChargeContext(rules=transformation.TransformationRules(excluded_prefixes=("cpu",)))

    assert with_pod(around).pod_sets[0].requests == {}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (
            {"spec": {"podSets": [pod_set(containers=[container(cpu="much")])]}},
            f"{PATH}.containers[0].resources.requests[cpu]",
        ),
        ({"metadata": {"creationTimestamp": "noon"}}, "metadata.creationTimestamp"),
        ({"status": {"requeueState": {"requeueAt": "later"}}}, "status.requeueState.requeueAt"),
    ],
)
def test_what_cannot_be_read_is_named(changes, field):
    with pytest.raises(InvalidValueError) as caught:
        translated(**changes)

    assert caught.value.rule.startswith(f"{field}: ")
