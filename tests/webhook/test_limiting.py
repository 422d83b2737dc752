"""What the namespace's limits forbid is refused in the review, whatever names the pod gets."""

import json
from typing import Any

import msgspec
import pytest

from admission.objects import views
from admission.objects.resource_quota import NamespaceQuota
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view
from tests.webhook.builders import Cluster, apply, make_cluster, mutate

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
PROFILE, ORIGINAL = "gpu-admission.dev/mig-profile", "gpu-admission.dev/original-resources"
A100 = "NVIDIA-A100-SXM4-80GB"
FILLED = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: nvidia.com/gpu limit"}


def make_range(
    name: str = "gpus", *, annotations: dict[str, str] | None = None, **item: Any
) -> views.LimitRange:
    own = {f"gpu-admission.dev/{key}": value for key, value in (annotations or {}).items()}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "team-a", "annotations": own},
            "spec": {"limits": [{"type": "Container", **item}] if item else None},
        },
        views.LimitRange,
    )


def make_quota(
    hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any
) -> NamespaceQuota:
    return msgspec.convert(
        {
            "metadata": {"name": "team", "namespace": "team-a"},
            "spec": {"hard": hard, **spec},
            "status": {"used": used},
        },
        NamespaceQuota,
    )


def make_sliced(*limits: views.LimitRange, **more: Any) -> Cluster:
    """A queue whose only flavor is made of slices: every request for a GPU is rewritten."""
    return make_cluster(
        "default",
        cluster_queues={"gpus": cluster_queue_view({"s": {SLICE: "14"}})},
        flavors={"s": flavor_view("s", A100, mig_profile="1g.10gb")},
        limits=limits,
        **more,
    )


def make_mixed(*limits: views.LimitRange) -> Cluster:
    """A queue of whole GPUs and slices: annotations choose."""
    return make_cluster(
        "default",
        cluster_queues={"gpus": cluster_queue_view({"a100": {GPU: "8", SLICE: "7"}})},
        flavors={"a100": flavor_view("a100", A100)},
        limits=limits,
    )


def texts(pod: dict[str, Any], cluster: Cluster) -> list[str]:
    return [error.text() for error in mutate(pod, cluster).errors]


def reasons(pod: dict[str, Any], *ranges: views.LimitRange) -> list[str]:
    return [error.text() for error in mutate(pod, make_cluster("default", limits=ranges)).errors]


CASES: dict[str, tuple[int, dict[str, Any], list[str]]] = {
    "within the limits": (2, {"max": {GPU: "2"}, "min": {GPU: "1"}}, []),
    "above the maximum": (
        3, {"max": {GPU: "2"}},
        [f"maximum {GPU} usage per Container is 2, but limit is 3"],
    ),
    "below the minimum": (
        1, {"min": {GPU: "2"}},
        [f"minimum {GPU} usage per Container is 2, but request is 1"],
    ),
    "a limit per pod": (
        4, {"type": "Pod", "max": {GPU: "2"}},
        [f"maximum {GPU} usage per Pod is 2, but limit is 4"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_limit_range_is_applied_in_the_review(case: str) -> None:
    gpus, item, expected = CASES[case]

    found = reasons(make_pod(gpus=gpus), make_range(**item))

    assert found == [f"spec: Forbidden: LimitRange gpus: {reason}" for reason in expected]


def test_every_limit_range_has_its_say() -> None:
    found = reasons(
        make_pod(gpus=3), make_range("a", max={GPU: "2"}), make_range("b", max={GPU: "1"})
    )

    assert [text.split(": ")[2] for text in found] == ["LimitRange a", "LimitRange b"]


def test_a_denied_pod_gets_no_gate() -> None:
    cluster = make_cluster("default", limits=(make_range(max={GPU: "1"}),))

    assert mutate(make_pod(gpus=2), cluster).operations == ()


def test_the_limit_ranges_of_other_namespaces_do_not_count() -> None:
    other = msgspec.structs.replace(
        make_range(max={GPU: "1"}), metadata=views.ObjectMeta(name="x", namespace="team-b")
    )

    assert reasons(make_pod(gpus=2), other) == []


def test_a_pod_that_wants_no_gpu_is_left_to_the_api_server() -> None:
    assert reasons(make_pod(), make_range(min={GPU: "1"})) == []


# ---------------------------------------------------------------------------- rewritten pods


def test_a_rewrite_does_not_slip_past_a_limit_on_what_was_asked_for() -> None:
    cluster = make_sliced(make_range(max={GPU: "2"}))

    assert texts(make_pod(gpus=3), cluster) == [
        f"spec: Forbidden: LimitRange gpus: maximum {GPU} usage per Container is 2, but limit is 3"
    ]
    assert texts(make_pod(gpus=2), cluster) == []


def test_a_rewrite_does_not_slip_past_a_limit_of_the_pod() -> None:
    init = {"name": "check", "resources": {"limits": {GPU: "5"}, "requests": {GPU: "5"}}}
    cluster = make_sliced(make_range(type="Pod", max={GPU: "4"}))

    assert texts(make_pod(gpus=4), cluster) == []
    assert "usage per Pod is 4, but limit is 5" in texts(
        make_pod(gpus=1, initContainers=[init]), cluster
    )[0]  # fmt: skip


def test_a_limit_on_what_a_rewrite_gives_is_applied() -> None:
    cluster = make_sliced(make_range(max={SLICE: "2"}, default={SLICE: "0"}))

    assert texts(make_pod(gpus=3), cluster) == [
        (
            f"spec: Forbidden: LimitRange gpus: maximum {SLICE} usage per Container is 2,"
            " but limit is 3"
        )
    ]
    assert texts(make_pod(gpus=2), cluster) == []


def test_limits_on_both_names_give_both_reasons() -> None:
    cluster = make_sliced(make_range("a", max={GPU: "1"}), make_range("b", max={SLICE: "1"}))

    assert [text.split(": ")[2] for text in texts(make_pod(gpus=2), cluster)] == [
        "LimitRange a",
        "LimitRange b",
    ]


@pytest.mark.parametrize("bound", ["min", "maxLimitRequestRatio"])
def test_a_name_that_must_not_be_0_is_not_rewritten(bound: str) -> None:
    item: dict[str, Any] = {bound: {GPU: "1"}}
    (text,) = texts(make_pod(gpus=1), make_sliced(make_range(**item)))

    assert text.startswith(f"spec.containers[0].resources.limits[{GPU}]: Invalid value: ")
    assert f"sets {bound} 1 in gpus for {GPU}" in text


def test_a_second_review_of_a_rewritten_pod_still_knows_what_it_asked_for() -> None:
    pod = make_pod(gpus=2)
    after = apply(mutate(pod, make_sliced()), pod)

    def known(most: str) -> list[str]:
        return texts(after, make_sliced(make_range(max={GPU: most}, default={GPU: most})))

    assert known("2") == []
    assert "maximum nvidia.com/gpu usage per Container is 1, but limit is 2" in known("1")[0]


@pytest.mark.parametrize(
    "forged",
    [
        {"main": {"limits": {GPU: "1"}}},
        {"main": {"limits": {SLICE: "1"}}},
        {"main": {"limits": {GPU: "many"}}},
        {"main": {"limits": {"cpu": "1"}}},
        {"main": 5},
        ["main"],
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_record_does_not_hide_what_a_pod_asks_for(forged: Any) -> None:
    pod = make_pod(gpus=3, annotations={ORIGINAL: json.dumps(forged)})

    assert "usage per Container is 2, but limit is 3" in texts(
        pod, make_sliced(make_range(max={GPU: "2"}))
    )[0]  # fmt: skip


# -------------------------------------------------------------------------- memory and slices

VIRTUAL: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = {
    "a whole GPU within": ({"max-gpu-memory": "80Gi"}, {"gpus": 1}, []),
    "a whole GPU above": (
        {"max-gpu-memory": "40Gi"}, {"gpus": 1},
        [("container main: maximum gpu-admission.dev/gpu-memory is 40Gi (LimitRange gpus,"
         " annotation gpu-admission.dev/max-gpu-memory), but its GPUs are 80Gi")],
    ),
    "a slice instead of it": (
        {"max-gpu-memory": "40Gi"}, {"gpus": 1, "annotations": {PROFILE: "1g.10gb"}}, [],
    ),
    "slices that add up": (
        {"max-gpu-slices": "2"}, {"limits": {SLICE: "3"}, "requests": {SLICE: "3"}},
        [("container main: maximum gpu-admission.dev/gpu-slices is 2 (LimitRange gpus,"
         " annotation gpu-admission.dev/max-gpu-slices), but its GPUs are 3")],
    ),
    "too little": (
        {"min-gpu-memory": "20Gi"}, {"limits": {SLICE: "1"}, "requests": {SLICE: "1"}},
        [("container main: minimum gpu-admission.dev/gpu-memory is 20Gi (LimitRange gpus,"
         " annotation gpu-admission.dev/min-gpu-memory), but its GPUs are 10Gi")],
    ),
    "the pod in sum": (
        {"pod-max-gpu-memory": "90Gi"}, {"gpus": 2},
        [("pod: maximum gpu-admission.dev/gpu-memory is 90Gi (LimitRange gpus,"
         " annotation gpu-admission.dev/pod-max-gpu-memory), but its GPUs are 160Gi")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", VIRTUAL, ids=list(VIRTUAL))
def test_limits_on_memory_and_slices_hold_under_every_name(case: str) -> None:
    annotations, pod, expected = VIRTUAL[case]

    found = texts(make_pod(**pod), make_mixed(make_range(annotations=annotations)))

    assert found == [f"spec: Forbidden: {reason}" for reason in expected]


def test_a_default_memory_chooses_for_pods_that_wish_for_nothing() -> None:
    cluster = make_mixed(make_range(annotations={"default-gpu-memory": "8Gi"}))
    plain, wishing = make_pod(gpus=1), make_pod(gpus=1, annotations={
        "gpu-admission.dev/gpu-memory": "60Gi"})  # fmt: skip

    got = [apply(mutate(pod, cluster), pod)["spec"]["containers"][0] for pod in (plain, wishing)]

    assert [container["resources"]["limits"] for container in got] == [{SLICE: "1"}, {GPU: "1"}]
    again = apply(mutate(plain, cluster), plain)
    assert mutate(again, cluster).operations == ()


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (make_cluster("default"), "no flavor offers them"),
        (
            make_cluster(
                "default",
                cluster_queues={"gpus": cluster_queue_view({"x": {GPU: "8"}})},
                flavors={"x": flavor_view("x")},
            ),
            "flavor x names no known GPU product",
        ),
    ],
    ids=["no queue yet", "a flavor without product"],
)
def test_a_limit_that_cannot_be_applied_is_a_warning(cluster: Cluster, why: str) -> None:
    cluster.limits = (make_range(annotations={"max-gpu-memory": "40Gi"}),)

    outcome = mutate(make_pod(gpus=1), cluster)

    assert outcome.errors == ()
    assert any("max-gpu-memory cannot be applied" in w and why in w for w in outcome.warnings)


def test_a_limit_that_another_flavor_would_break_is_a_warning() -> None:
    cluster = make_cluster(
        "default",
        cluster_queues={
            "gpus": cluster_queue_view(
                {"a30": {GPU: "8"}, "a100": {GPU: "8"}, "t4": {GPU: "8"}, "h100": {GPU: "0"}}
            )
        },
        flavors={
            "a30": flavor_view("a30", "NVIDIA-A30"),
            "a100": flavor_view("a100", A100),
            "t4": flavor_view("t4", "Tesla-T4"),
            "h100": flavor_view("h100", "NVIDIA-H100-80GB-HBM3"),  # has none to give
        },
        limits=(make_range(annotations={"max-gpu-memory": "40Gi"}),),
    )

    outcome = mutate(make_pod(gpus=1), cluster)

    assert outcome.errors == ()
    (warning,) = outcome.warnings
    assert warning.startswith("in flavor a100, which the pod may get, it would break a limit: ")


def test_a_limit_that_cannot_be_read_is_a_warning() -> None:
    cluster = make_mixed(make_range(annotations={"max-gpu-memory": "much"}))

    outcome = mutate(make_pod(gpus=1), cluster)

    assert outcome.errors == ()
    assert "LimitRange gpus: 'much'" in outcome.warnings[0]


# ------------------------------------------------------------------------------ ResourceQuotas

REQUESTS = f"requests.{GPU}"


def test_a_quota_that_a_rewrite_would_escape_is_honoured() -> None:
    quota = make_quota({REQUESTS: "4"}, {REQUESTS: "3"})

    assert texts(make_pod(gpus=2), make_sliced(quotas=(quota,))) == [
        (
            f"spec: Forbidden: ResourceQuota team: exceeded quota: requested: {REQUESTS}=2,"
            f" used: {REQUESTS}=3, limited: {REQUESTS}=4 (asked for as {GPU} before the rewrite)"
        )
    ]


@pytest.mark.parametrize(
    "quota",
    [
        make_quota({REQUESTS: "4"}, {REQUESTS: "1"}),
        make_quota({REQUESTS: "4"}),
        make_quota({REQUESTS: "1"}, {REQUESTS: "1"}, scopes=["NotTerminating"]),
        make_quota({REQUESTS: "1"}, {REQUESTS: "1"}, scopeSelector={"matchExpressions": []}),
    ],
    ids=["room left", "not counted yet", "scoped", "scoped by a selector"],
)
def test_a_quota_that_stops_counting_the_pod_is_warned_about(quota: NamespaceQuota) -> None:
    outcome = mutate(make_pod(gpus=2), make_sliced(quotas=(quota,)))

    assert outcome.errors == ()
    (warning,) = [w for w in outcome.warnings if "ResourceQuota" in w]
    assert warning.startswith(f"ResourceQuota team: the namespace limits {REQUESTS} to ")
    assert warning.endswith("limit the queue instead")


def test_a_quota_on_names_that_stay_is_left_to_the_api_server() -> None:
    quota = make_quota({REQUESTS: "0", f"requests.{SLICE}": "0", "pods": "0"}, {})
    whole = make_cluster("default", quotas=(quota,))
    sliced = make_sliced(quotas=(make_quota({f"requests.{SLICE}": "0"}, {}),))

    for cluster in (whole, sliced):
        outcome = mutate(make_pod(gpus=2), cluster)
        assert outcome.errors == ()
        assert not [w for w in outcome.warnings if "ResourceQuota" in w]


# --------------------------------------------------------------------------------------- traps


def test_trap_08_a_quota_that_counts_nothing_is_told() -> None:
    quota = make_quota({f"limits.{GPU}": "32", GPU: "1", f"limits.{SLICE}": "1"}, {})
    outcome = mutate(make_pod(gpus=1), make_cluster("default", quotas=(quota,)))

    found = [w for w in outcome.warnings if w.endswith("(T8)")]
    assert [w.split(": ")[1] for w in found] == [f"spec.hard[limits.{GPU}]", f"spec.hard[{GPU}]"]


@pytest.mark.parametrize(
    ("item", "rule"),
    [
        ({"max": {GPU: "8"}, "default": {GPU: "8"}, "defaultRequest": {GPU: "8"}}, "T10"),
        ({"default": {GPU: "8"}, "defaultRequest": {GPU: "8"}}, "T11"),
    ],
)
def test_trap_10_and_11_a_default_that_every_container_gets_is_told(
    item: dict[str, Any], rule: str
) -> None:
    """What the API server stored of ``max: 8``, or of ``default: 8``."""
    cluster = make_cluster("default", limits=(make_range(**item),))

    filled = mutate(make_pod(gpus=8, annotations=FILLED), cluster).warnings
    asked = mutate(make_pod(gpus=2, annotations=FILLED), cluster).warnings
    unfilled = mutate(make_pod(gpus=8), cluster).warnings

    assert next(w for w in filled if w.endswith(f"({rule})")).startswith("LimitRange gpus: spec.")
    assert not [w for w in (*asked, *unfilled) if "LimitRange" in w]
