"""GPU requests become what the queue's flavors offer, and the original is kept."""

import copy
import json
from typing import Any

import msgspec
import pytest

from admission.base import fielderrors, names
from admission.objects import views
from admission.objects.resource_flavor import ResourceFlavor
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view, make_flavor
from tests.gpu.builders import UNDECIDED, mig
from tests.webhook.builders import Cluster, apply, make_cluster, mutate

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
ORIGINAL = "gpu-admission.dev/original-resources"
PROFILE = "gpu-admission.dev/mig-profile"
MEMORY = "gpu-admission.dev/gpu-memory"
A100 = "NVIDIA-A100-SXM4-80GB"


def with_queue(
    quotas: dict[str, dict[str, str]],
    *flavors: ResourceFlavor,
    limits: tuple[views.LimitRange, ...] = (),
) -> Cluster:
    return make_cluster(
        "default",
        cluster_queues={"gpus": cluster_queue_view(quotas)},
        flavors={flavor.metadata.name: flavor for flavor in flavors},
        limits=limits,
    )


MIXED = with_queue({"a100": {GPU: "8", SLICE: "7"}}, flavor_view("a100", A100))
SLICED = with_queue({"s": {SLICE: "14"}}, flavor_view("s", A100, mig_profile="1g.10gb"))


def resources_of(pod: dict[str, Any]) -> Any:
    return pod["spec"]["containers"][0]["resources"]


def test_a_wished_profile_replaces_the_gpu_and_keeps_the_rest():
    pod = make_pod(gpus=1, requests={"cpu": "2"}, annotations={PROFILE: "1g.10gb"})
    resources_of(pod)["claims"] = [{"name": "x"}]
    before = copy.deepcopy(pod)
    outcome = mutate(pod, MIXED)
    after = apply(outcome, pod)
    assert pod == before
    assert resources_of(after) == {
        "requests": {"cpu": "2", SLICE: "1"},
        "limits": {SLICE: "1"},
        "claims": [{"name": "x"}],
    }
    assert json.loads(after["metadata"]["annotations"][ORIGINAL]) == {
        "main": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    }
    assert after["metadata"]["annotations"][PROFILE] == "1g.10gb"


@pytest.mark.parametrize(
    ("annotations", "cluster", "expected"),
    [
        ({MEMORY: "8Gi"}, MIXED, SLICE),
        ({MEMORY: "60Gi"}, MIXED, GPU),
        ({f"{PROFILE}.main": "1g.10gb"}, MIXED, SLICE),
        ({}, SLICED, SLICE),
        ({}, MIXED, GPU),
    ],
    ids=["least memory", "much memory", "for the container", "flavor of slices", "no wish"],
)
def test_the_name_follows_annotations_and_flavor(annotations, cluster, expected):
    pod = make_pod(gpus=1, annotations=annotations)
    after = apply(mutate(pod, cluster), pod)
    assert resources_of(after) == {"requests": {expected: "1"}, "limits": {expected: "1"}}
    assert (ORIGINAL in after["metadata"]["annotations"]) is (expected == SLICE)


@pytest.mark.parametrize("annotations", [{PROFILE: "1g.10gb"}, {MEMORY: "8Gi"}, {}], ids=str)
@pytest.mark.parametrize("cluster", [MIXED, SLICED], ids=["mixed", "sliced"])
def test_a_second_review_changes_nothing(annotations, cluster):
    pod = make_pod(gpus=1, annotations=annotations)
    after = apply(mutate(pod, cluster), pod)
    again = mutate(after, cluster)
    assert (again.operations, again.errors) == ((), ())


def test_only_limits_are_stated_twice_after_a_rewrite():
    pod = make_pod(limits={GPU: "1"})
    after = apply(mutate(pod, SLICED), pod)
    assert resources_of(after) == {"requests": {SLICE: "1"}, "limits": {SLICE: "1"}}


def test_init_containers_are_rewritten_too_and_others_left_alone():
    init = {"name": "check", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    pod = make_pod(gpus=1, initContainers=[{"name": "plain"}, init])
    after = apply(mutate(pod, SLICED), pod)
    assert after["spec"]["initContainers"] == [
        {"name": "plain"},
        {"name": "check", "resources": {"limits": {SLICE: "1"}, "requests": {SLICE: "1"}}},
    ]
    assert sorted(json.loads(after["metadata"]["annotations"][ORIGINAL])) == ["check", "main"]


@pytest.mark.parametrize(
    ("member", "policy", "fits"),
    [
        ("initContainers", "Always", False),
        ("initContainers", "", True),
        ("initContainers", "OnFailure", True),
        ("containers", "Always", False),
        ("containers", "", False),
    ],
    ids=[
        "sidecar", "init container", "init container with another policy",
        "container with a policy", "container",
    ],
)  # fmt: skip
def test_what_runs_beside_a_container_is_added_to_it_and_what_runs_before_is_not(
    member: str, policy: str, fits: bool
):
    cluster = with_queue(
        {"s": {names.GPU_SLICES: "1", SLICE: "1"}}, flavor_view("s", A100, mig_profile="1g.10gb")
    )
    other = {"name": "other", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    if policy:
        other["restartPolicy"] = policy
    pod = make_pod(gpus=1)
    pod["spec"].setdefault(member, []).append(other)
    too_big = f"Too big: asks 2 {names.GPU_SLICES}, flavor s can reach 1."
    warnings = mutate(pod, cluster).warnings
    assert any(text.startswith(too_big) for text in warnings) is not fits
    assert any(text.startswith("Too big") for text in warnings) is not fits


def test_the_role_is_that_of_the_rewritten_pod():
    pod = make_pod(gpus=1)
    rewritten = make_pod(requests={SLICE: "1"}, limits={SLICE: "1"})
    roles = [
        apply(mutate(item, SLICED), item)["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"]
        for item in (pod, rewritten)
    ]
    assert roles[0] == roles[1]


def test_a_container_that_another_webhook_adds_is_rewritten_and_remembered():
    pod = make_pod(gpus=1)
    after = apply(mutate(pod, SLICED), pod)
    added = {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
    after["spec"]["containers"].append({"name": "added", "resources": added})
    again = apply(mutate(after, SLICED), after)
    assert again["spec"]["containers"][1]["resources"]["limits"] == {SLICE: "2"}
    kept = json.loads(again["metadata"]["annotations"][ORIGINAL])
    assert (kept["main"]["limits"], kept["added"]["limits"]) == ({GPU: "1"}, {GPU: "2"})


def limit_range(**bounds: dict[str, str]) -> views.LimitRange:
    item = views.LimitRangeItem(type="Container", **bounds)  # type: ignore[arg-type]
    return views.LimitRange(
        metadata=views.ObjectMeta(name="l", namespace="team-a"),
        spec=views.LimitRangeSpec(limits=(item,)),
    )


def test_a_name_that_a_limit_range_would_add_again_stays_at_zero():
    cluster = with_queue(
        {"s": {SLICE: "14"}},
        flavor_view("s", A100, mig_profile="1g.10gb"),
        limits=(limit_range(max={GPU: "4"}),),
    )
    pod = make_pod(gpus=1)
    after = apply(mutate(pod, cluster), pod)
    assert resources_of(after)["limits"] == {GPU: "0", SLICE: "1"}
    assert mutate(after, cluster).operations == ()


def test_a_name_under_a_minimum_is_not_rewritten():
    cluster = with_queue(
        {"s": {SLICE: "14"}},
        flavor_view("s", A100, mig_profile="1g.10gb"),
        limits=(limit_range(min={GPU: "1"}),),
    )
    message = fielderrors.aggregate(mutate(make_pod(gpus=1), cluster).errors)
    assert message.startswith(f"spec.containers[0].resources.limits[{GPU}]: Invalid value: ")
    assert "gpu-admission.dev/min-gpu-memory" in message


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({PROFILE: "9x"}, f"metadata.annotations[{PROFILE}]: Invalid value: '9x': must be a MIG"),
        ({f"{PROFILE}.other": "1g.10gb"}, "the pod has no container 'other'"),
        ({PROFILE: "3g.20gb"}, "3g.20gb"),
    ],
    ids=["no profile", "no such container", "not of the product"],
)
def test_a_wish_that_cannot_be_granted_is_refused(annotations, text):
    outcome = mutate(make_pod(gpus=1, annotations=annotations), MIXED)
    assert text in fielderrors.aggregate(outcome.errors)
    assert outcome.operations == ()


def test_a_mixture_of_slices_of_which_the_search_does_not_find_out_is_let_in():
    nodes = {names.GPU_PRODUCT_LABEL: "NVIDIA-H100-80GB-HBM3", names.GPU_COUNT_LABEL: "8"}
    flavor = make_flavor("h100", node_labels=nodes)
    view = msgspec.convert(flavor, ResourceFlavor)
    slices = {mig(profile): str(count) for profile, count in UNDECIDED.items()}
    cluster = with_queue({"h100": dict.fromkeys(slices, "99")}, view)
    assert not mutate(make_pod(requests=slices, limits=slices), cluster).errors
    never = {**slices, mig("7g.80gb"): "2"}
    cluster = with_queue({"h100": dict.fromkeys(never, "99")}, view)
    refused = mutate(make_pod(requests=never, limits=never), cluster)
    assert "does not fit on 8 H100-80GB" in fielderrors.aggregate(refused.errors)


def test_a_wish_needs_a_queue_that_exists_while_a_plain_request_waits_for_one():
    cluster = make_cluster("default")
    plain = make_pod(gpus=1)
    assert resources_of(apply(mutate(plain, cluster), plain)) == resources_of(plain)
    (error,) = mutate(make_pod(gpus=1, annotations={PROFILE: "1g.10gb"}), cluster).errors
    assert error.text().startswith("metadata.annotations: Forbidden: a GPU profile or memory can")


def test_foreign_garbage_in_the_annotation_does_not_stop_a_rewrite():
    pod = make_pod(gpus=1, annotations={ORIGINAL: "not json"})
    after = apply(mutate(pod, SLICED), pod)
    assert json.loads(after["metadata"]["annotations"][ORIGINAL])["main"]["limits"] == {GPU: "1"}


def test_a_record_of_what_the_pod_still_asks_for_is_written_anew():
    forged = json.dumps({"main": {"limits": {GPU: "1"}}})
    pod = make_pod(gpus=3, annotations={ORIGINAL: forged})
    after = apply(mutate(pod, SLICED), pod)
    assert json.loads(after["metadata"]["annotations"][ORIGINAL])["main"]["limits"] == {GPU: "3"}


def refilled(pod: dict[str, Any], amount: str = "1") -> dict[str, Any]:
    """A pod to which the API server's LimitRanger has added the default of a name that went."""
    again = copy.deepcopy(pod)
    for amounts in resources_of(again).values():
        amounts[GPU] = amount
    return again


@pytest.mark.parametrize("amount", ["1", "4"])
def test_a_default_that_is_filled_in_again_is_taken_back_to_zero(amount):
    cluster = with_queue(
        {"s": {SLICE: "14"}},
        flavor_view("s", A100, mig_profile="1g.10gb"),
        limits=(limit_range(default={GPU: amount}, default_request={GPU: amount}),),
    )
    pod = make_pod(gpus=2)
    again = refilled(apply(mutate(pod, SLICED), pod), amount)
    after = apply(mutate(again, cluster), again)
    assert resources_of(after) == {kind: {SLICE: "2", GPU: "0"} for kind in ("limits", "requests")}
    assert json.loads(after["metadata"]["annotations"][ORIGINAL])["main"]["limits"] == {GPU: "2"}
    assert mutate(after, cluster).operations == ()


def test_a_default_of_a_limit_range_that_is_not_known_yet_is_refused():
    pod = make_pod(gpus=2)
    again = refilled(apply(mutate(pod, SLICED), pod))
    (error,) = mutate(again, SLICED).errors
    assert error.text() == (
        "spec.containers[0].resources: Forbidden: nvidia.com/gpu was rewritten, but a new"
        " LimitRange or another webhook added it again; create the pod again, or set that default"
        " to 0"
    )


def test_the_record_of_a_container_outlives_the_rewrite_of_another():
    stated = {"limits": {GPU: "1", SLICE: "2"}, "requests": {GPU: "1", SLICE: "2"}}
    pod = make_pod()
    pod["spec"]["containers"][0]["resources"] = stated
    after = apply(mutate(pod, SLICED), pod)
    assert resources_of(after)["limits"] == {SLICE: "3"}
    added = {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
    after["spec"]["containers"].append({"name": "added", "resources": added})
    again = apply(mutate(after, SLICED), after)
    kept = json.loads(again["metadata"]["annotations"][ORIGINAL])
    assert kept["main"] == stated
    assert kept["added"] == added
