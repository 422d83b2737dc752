"""What kubectl prints about a pod that will wait, and what not."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from admission.base import conditions, names
from admission.objects import reviewed_pod, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort, CohortSpec
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotasSpec, ResourceGroupSpec, ResourceQuotaSpec
from admission.owners.batch_job_review import ReviewedJob
from admission.webhook import admission_warnings, owner_review, pod_review
from admission.webhook.review_context import Context
from tests.builders.cluster import namespace_view
from tests.builders.jobs import make_job
from tests.builders.metadata import make_condition
from tests.builders.pods import make_pod
from tests.builders.queues import (
    cluster_queue_view,
    flavor_view,
    local_queue_view,
    make_flavor,
)
from tests.webhook.builders import NOW_US, RULES, Cluster, make_cluster, mutate, read

GPU = "nvidia.com/gpu"
QUEUE = "kueue.x-k8s.io/queue-name"
QUOTA = {"a": {"cpu": "10", "memory": "64Gi", GPU: "8"}}


def make_world(queue: ClusterQueue | None = None, **more: Any) -> Cluster:
    found = queue or cluster_queue_view(QUOTA)
    return make_cluster(
        "default", cluster_queues={"gpus": found}, flavors={"a": flavor_view("a")}, **more
    )


def warnings(cluster: Cluster, **pod: Any) -> tuple[str, ...]:
    return mutate(make_pod(**{"gpus": 1, **pod}), cluster).warnings


def test_a_pod_that_can_run_gets_no_warning():
    assert warnings(make_world(), requests={"cpu": "10", "memory": "1Gi"}) == ()


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"1g.10gb": "1", "3g.40gb": "1"}, {}, ("container main asks for 2 MIG instances",)),
        ({"1g.10gb": "3"}, {}, ("container main asks for 3 MIG instances",)),
        ({"1g.10gb": "1"}, {"3g.40gb": "1"}, ()),
        ({"1g.10gb": "1"}, {}, ()),
    ],
    ids=["two profiles", "three of one", "one in each container", "one"],
)
def test_a_container_that_asks_for_several_mig_instances_is_told_that_cuda_sees_one(
    first: dict[str, str], second: dict[str, str], said: tuple[str, ...]
) -> None:
    containers = [
        {
            "name": name,
            "image": "x",
            "resources": {"limits": {f"nvidia.com/mig-{one}": n for one, n in asked.items()}},
        }
        for name, asked in (("main", first), ("side", second))
    ]
    quota = {"a": {f"nvidia.com/mig-{one}": "8" for one in ("1g.10gb", "3g.40gb")}}
    pod = make_pod()
    pod["spec"]["containers"] = containers
    texts = mutate(pod, make_world(cluster_queue_view(quota))).warnings
    warned = [text for text in texts if text.startswith("Sees one: ")]
    assert len(warned) == len(said)
    assert all(part in text for part, text in zip(said, warned, strict=True))


def test_a_missing_local_queue_is_named_with_those_that_exist():
    cluster = make_cluster("a", "b", "c", "d", "e", "f")
    (text,) = warnings(cluster, labels={QUEUE: "x"})
    assert text == (
        "Waits: LocalQueue x does not exist in its namespace. Set the label"
        " kueue.x-k8s.io/queue-name to one of a, b, c, d, e, ..., or have it created"
    )
    (text,) = warnings(make_cluster(), labels={QUEUE: "x"})
    assert text == (
        "Waits: LocalQueue x does not exist in its namespace. Ask an administrator for a"
        " LocalQueue: there is none"
    )


CLASS = "kueue.x-k8s.io/priority-class"


@pytest.mark.parametrize(
    ("known", "step"),
    [
        ({"low", "high"}, "Create it again with one of high, low, or without the label"),
        (
            {"high", "hope", "low"},
            "Create it again with one of hope, high, low, or without the label",
        ),
        (set[str](), "The cluster has none: create it again without the label"),
    ],
)
def test_a_missing_priority_class_is_named_with_those_that_exist(
    known: set[str], step: str
) -> None:
    cluster = make_world(priority_classes=frozenset(known))
    (text,) = warnings(cluster, labels={CLASS: "nope"})
    assert text == (
        f'Waits: WorkloadPriorityClass "nope" not found. {step} {CLASS}; an administrator can'
        " create the class"
    )
    assert warnings(make_world(priority_classes=frozenset({"low"})), labels={CLASS: "low"}) == ()


def test_nothing_is_said_of_priority_classes_before_they_are_known() -> None:
    assert warnings(make_world(synced=False), labels={CLASS: "nope"}) == ()


def test_a_missing_cluster_queue_is_named():
    (text,) = warnings(make_cluster("default"))
    assert text == (
        "Waits: its LocalQueue names ClusterQueue gpus, which does not exist. Have it created"
    )


def test_missing_flavors_are_named():
    cluster = make_cluster("default", cluster_queues={"gpus": cluster_queue_view(QUOTA)})
    assert (
        "Waits: ClusterQueue gpus admits nothing at present. Have ResourceFlavor a created"
        in warnings(cluster)
    )


def test_stopped_queues_are_named():
    stopped = local_queue_view(stopPolicy="Hold")
    cluster = make_world()
    cluster.local_queues = {("team-a", "default"): stopped}
    assert warnings(cluster) == (
        "Waits: LocalQueue default is stopped. It goes on when the queue is started again",
    )
    assert warnings(make_world(cluster_queue_view(QUOTA, stopPolicy="HoldAndDrain"))) == (
        (
            "Waits: ClusterQueue gpus admits nothing at present. It is stopped, and goes on when"
            " it is started again"
        ),
    )


def test_the_reason_of_an_inactive_cluster_queue_is_passed_on():
    condition = make_condition("Active", "False", message="references missing x")
    status = {"conditions": [condition]}
    assert warnings(make_world(cluster_queue_view(QUOTA, status=status))) == (
        "Waits: ClusterQueue gpus admits nothing at present. references missing x",
    )


@pytest.mark.parametrize(
    ("selector", "served"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"team": "a"}}, False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}, True),
    ],
    ids=["none", "empty", "another label", "the name"],
)
def test_a_queue_that_does_not_serve_the_namespace_is_named(selector, served):
    cluster = make_world(cluster_queue_view(QUOTA, namespaceSelector=selector))
    labels = {"kubernetes.io/metadata.name": "team-a"}
    cluster.namespaces = {"team-a": namespace_view(labels=labels)}
    expected = (
        "Waits: its ClusterQueue does not serve its namespace (namespaceSelector). Ask an"
        " administrator to have ClusterQueue gpus select namespace team-a"
    )
    assert warnings(cluster) == (() if served else (expected,))


def test_a_resource_without_quota_is_named():
    (text,) = warnings(make_world(), requests={"hugepages-2Mi": "2Mi"})
    assert text == (
        "Never starts as it is: queue gpus has no quota for hugepages-2Mi. Remove the request, or"
        " have the resource added"
    )


def test_of_a_resource_that_a_device_class_may_answer_no_more_is_said_than_is_known():
    (text,) = warnings(make_world(), requests={"example.com/x": "1"})
    assert text == (
        "May never start: queue gpus has no quota for example.com/x. It starts only if this is the"
        " extendedResourceName of a DeviceClass of GPUs. Remove the request, or have the resource"
        " added"
    )
    implicit = {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}
    assert warnings(make_world(), requests=implicit) == ()


def test_a_gpu_that_is_misspelled_is_not_to_be_added_to_the_queue():
    (text,) = warnings(make_world(), requests={"nvidia.com/gpus": "1"})
    assert text == (
        "Never starts as it is: nvidia.com/gpus is misspelled: a GPU is nvidia.com/gpu. Ask for"
        " nvidia.com/gpu, and create it anew"
    )


def test_a_product_in_place_of_a_resource_is_told_as_what_chooses_it():
    (text,) = warnings(make_world(), requests={"nvidia.com/a100": "1"})
    assert text == (
        "May never start: queue gpus has no quota for nvidia.com/a100. A GPU is nvidia.com/gpu,"
        " and nodeSelector nvidia.com/gpu.product chooses its product"
    )


@pytest.mark.parametrize(
    ("quotas", "cohort", "cpu", "fits"),
    [
        (QUOTA, "", "10", True),
        (QUOTA, "", "10001m", False),
        ({"a": {"cpu": ("10", "2")}}, "all", "12", True),
        ({"a": {"cpu": ("10", "2")}}, "all", "13", False),
        (QUOTA, "all", "110", True),
        (QUOTA, "all", "111", False),
        (QUOTA, "empty", "11", False),
        ({"a": {"cpu": "1"}, "b": {"cpu": "20"}}, "", "15", True),
    ],
    ids=[
        "nominal", "over nominal", "with borrowing", "over borrowing", "all of a cohort",
        "over a cohort", "a cohort with nothing to lend", "another flavor",
    ],
)  # fmt: skip
def test_what_no_flavor_can_ever_give_is_named(quotas, cohort, cpu, fits):
    cluster = make_world(cluster_queue_view(quotas, cohortName=cohort))
    lender = cluster_queue_view({"a": {"cpu": "100"}}, name="lender", cohortName="all")
    cluster.cluster_queues = {**cluster.cluster_queues, "lender": lender}
    found = [
        text
        for text in warnings(cluster, gpus=0, labels={QUEUE: "default"}, requests={"cpu": cpu})
        if text.startswith("Too big")
    ]
    assert (not found) is fits


def test_the_sentence_names_amount_queue_and_flavors():
    (text,) = warnings(make_world(), requests={"cpu": "11", "memory": "1Gi"})
    assert text == (
        "Too big: asks 11 cpu of a, gpus can reach 10. Ask for at most 10, or have the quota"
        " raised"
    )


def make_pools(cohort: str = "", **more: Cohort) -> Cluster:
    """16 GPUs of one kind and 8 of another."""
    quotas = {"a100": {"nvidia.com/gpu": "16"}, "h100": {"nvidia.com/gpu": "8"}}
    cluster = make_cluster(
        "default", flavors={name: flavor_view(name, "A100-SXM4-80GB") for name in quotas}
    )
    queue = cluster_queue_view(quotas, name="gpus", cohortName=cohort)
    cluster.cluster_queues = {"gpus": queue}
    cluster.cohorts = more
    return cluster


def test_more_gpus_than_any_flavor_can_reach_are_told_with_what_to_do():
    (text,) = warnings(make_pools(), gpus=64)
    assert text == (
        "Too big: asks 64 GPUs, gpus can reach 16 in one flavor (a100 16, h100 8). Ask for at most"
        " 16, or have the quota raised"
    )
    assert warnings(make_pools(), gpus=16) == ()


def test_what_a_cohort_could_lend_counts():
    pool = ResourceGroupSpec(
        covered_resources=("nvidia.com/gpu",),
        flavors=(
            FlavorQuotasSpec(
                name="h100",
                resources=(ResourceQuotaSpec(name="nvidia.com/gpu", nominal_quota="60"),),
            ),
        ),
    )
    cohort = Cohort(
        metadata=views.ObjectMeta(name="all"), spec=CohortSpec(resource_groups=(pool,))
    )
    assert warnings(make_pools("all", all=cohort), gpus=64) == ()
    (text,) = warnings(make_pools("all", all=cohort), gpus=69)
    assert "can reach 68 in one flavor (h100 68, a100 16)" in text


def test_resources_that_fit_only_in_different_flavors_are_told_together():
    quotas = {"a": {"cpu": "10", "memory": "1Gi"}, "b": {"cpu": "1", "memory": "10Gi"}}
    cluster = make_world(cluster_queue_view(quotas))
    asked = {"cpu": "5", "memory": "5Gi"}
    found = warnings(cluster, gpus=0, labels={QUEUE: "default"}, requests=asked)
    (text,) = (text for text in found if text.startswith("Too big"))
    assert text == (
        "Too big: asks 5 cpu with 5Gi memory, no flavor of gpus can reach all of it (b 1 cpu, a"
        " 1Gi memory). Ask for less, or have the quota raised"
    )


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("gpu-admission.dev/mig", "gpu-admission.dev/mig-profile"),
        ("gpu-admission.dev/memory", "gpu-admission.dev/gpu-memory"),
        ("gpu-admission.dev/mig-profle", "gpu-admission.dev/mig-profile"),
        ("gpu-admission.dev/nothing-like-it", ""),
        ("gpu-admission.dev/mig-profile.main", None),
        ("example.com/mig", None),
    ],
)
def test_an_annotation_of_ours_that_means_nothing_is_told_with_what_may_be_meant(
    key: str, told: str | None
) -> None:
    texts = warnings(make_world(), annotations={key: "1h"})
    unknown = [text for text in texts if text.startswith("Without effect")]
    meant = f"; did you mean {told}?" if told else ""
    assert unknown == (
        [] if told is None else [f"Without effect: annotation {key} is not known{meant}"]
    )


def test_a_queue_that_is_written_as_an_annotation_is_told() -> None:
    text = f"Without effect: {QUEUE} is a label, not an annotation"
    assert text in warnings(make_world(), annotations={QUEUE: "default"})
    both = warnings(make_world(), annotations={QUEUE: "default"}, labels={QUEUE: "default"})
    assert text not in both


def test_an_annotation_of_any_length_is_told_in_a_short_text() -> None:
    key = f"gpu-admission.dev/{'x' * 100_000}"
    (text,) = (t for t in warnings(make_world(), annotations={key: ""}) if "Without effect" in t)
    assert len(text) <= admission_warnings.LONGEST


def test_few_of_many_unknown_annotations_are_told() -> None:
    marks = {f"gpu-admission.dev/{'x' * 40}{index}": "" for index in range(400)}
    assert len(warnings(make_world(), annotations=marks)) == 5


def make_labelled_pools(
    nodes: Mapping[str, str] | None = None, used: Mapping[str, int] | None = None
) -> Cluster:
    """16 GPUs of one kind and 8 of another, with a label that tells their nodes apart.

    Args:
        nodes: what a flavor says of its largest node.
        used: quota in use, by flavor.
    """
    quotas = {"a100": {GPU: "16"}, "h100": {GPU: "8"}}
    flavors = {}
    for name in quotas:
        marks = {names.LARGEST_NODE: nodes[name]} if nodes and name in nodes else {}
        document = make_flavor(name, node_labels={"gpu": name}, annotations=marks)
        flavors[name] = msgspec.convert(document, ResourceFlavor)
    reserved = [
        {"name": name, "resources": [{"name": GPU, "total": str((used or {}).get(name, 0))}]}
        for name in quotas
    ]
    state = {"flavorsReservation": reserved, "pendingWorkloads": 3}
    queue = cluster_queue_view(quotas, status=state)
    return make_cluster("default", cluster_queues={"gpus": queue}, flavors=flavors)


def select(*kinds: str, by_affinity: bool = False) -> dict[str, Any]:
    """What a pod says that runs on nodes of these kinds only."""
    if not by_affinity:
        (kind,) = kinds
        return {"nodeSelector": {"gpu": kind, "zone": "b"}}
    expressions = [{"key": "gpu", "operator": "In", "values": list(kinds)}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: required}}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize("by_affinity", [False, True])
@pytest.mark.parametrize(("kind", "limit"), [("a100", 16), ("h100", 8)])
def test_what_a_pod_can_never_get_is_told_of_the_flavors_that_it_selects(
    kind: str, limit: int, *, by_affinity: bool
) -> None:
    cluster, selects = make_labelled_pools(), select(kind, by_affinity=by_affinity)
    (text,) = warnings(cluster, gpus=limit + 1, **selects)
    assert text == (
        f"Too big: asks {limit + 1} {kind}, gpus can reach {limit}. Ask for at most {limit}, or"
        " have the quota raised"
    )
    assert warnings(cluster, gpus=limit, **selects) == ()


@pytest.mark.parametrize("by_affinity", [False, True])
def test_a_pod_that_selects_no_flavor_is_told_so(*, by_affinity: bool) -> None:
    (text,) = warnings(make_labelled_pools(), **select("l4", by_affinity=by_affinity))
    assert text == (
        "Matches no flavor of queue gpus: a100 is on other nodes than the pod selects; h100 is on"
        " other nodes than the pod selects. Set gpu to a100 or h100"
    )
    both = select("l4", "h100", by_affinity=True)
    assert warnings(make_labelled_pools(), **both) == ()


def test_of_flavors_with_long_names_the_labels_are_told_rather_than_each_refusal() -> None:
    products = {"h100-80gb": "NVIDIA-H100-80GB-HBM3", "a100-80gb": "NVIDIA-A100-SXM4-80GB"}
    queue = cluster_queue_view({name: {GPU: "8"} for name in products}, name="speech")
    flavors = {
        name: msgspec.convert(
            make_flavor(name, node_labels={names.GPU_PRODUCT_LABEL: product}), ResourceFlavor
        )
        for name, product in products.items()
    }
    cluster = make_cluster("default", cluster_queues={"gpus": queue}, flavors=flavors)
    (text,) = warnings(cluster, nodeSelector={names.GPU_PRODUCT_LABEL: "H100"})
    assert len(text) <= admission_warnings.LONGEST
    assert text.startswith("Matches no flavor of queue speech. Set ")
    assert text.endswith(
        " Set nvidia.com/gpu.product to NVIDIA-H100-80GB-HBM3 (h100-80gb) or"
        " NVIDIA-A100-SXM4-80GB (a100-80gb)"
    )


@pytest.mark.parametrize(
    ("used", "selects", "waits"),
    [
        ({"a100": 16}, {}, False),
        ({"a100": 16}, select("a100"), True),
        ({"a100": 16}, select("h100"), False),
        ({"a100": 16, "h100": 8}, {}, True),
    ],
)
def test_only_the_flavors_that_a_pod_selects_give_it_room(
    used: dict[str, int], selects: dict[str, Any], *, waits: bool
) -> None:
    texts = warnings(make_labelled_pools(used=used), **selects)
    assert any(text.startswith("May wait:") for text in texts) is waits


SMALL = f"{GPU}=4, nvidia.com/mig-1g.10gb=7"


@pytest.mark.parametrize(
    ("nodes", "gpus", "selects", "told"),
    [
        (
            {"a100": SMALL},
            8,
            select("a100"),
            "Too big: a pod asks 8 a100, the largest node has 4. Ask for at most 4 in one pod",
        ),
        ({"a100": SMALL}, 4, select("a100"), ""),
        ({"a100": SMALL}, 8, {}, ""),  # the nodes of the other may be larger
        (
            {"a100": SMALL, "h100": f"{GPU}=2"},
            8,
            {},
            (
                "Too big: a pod asks 8 GPUs, the largest node has 4 (a100 4, h100 2). Ask for at"
                " most 4 in one pod"
            ),
        ),
        (
            {"a100": SMALL},
            64,
            select("a100"),
            "Too big: a pod asks 64 a100, the largest node has 4. Ask for at most 4 in one pod",
        ),
        ({"a100": "nvidia.com/mig-1g.10gb=7"}, 8, select("a100"), ""),
        ({"a100": "many"}, 8, select("a100"), ""),
        ({"a100": "x" * 5000}, 8, select("a100"), ""),
    ],
)
def test_a_pod_that_is_larger_than_every_node_is_told_so(
    nodes: dict[str, str], gpus: int, selects: dict[str, Any], told: str
) -> None:
    assert warnings(make_labelled_pools(nodes), gpus=gpus, **selects) == ((told,) if told else ())


@pytest.mark.parametrize(
    ("gpus", "memory", "told"),
    [
        (1, "2Ti", "Too big: a pod asks 2Ti memory of a100, the largest node has 1Ti. Ask for at"),
        (1, "1Ti", ""),
        (0, "2Ti", ""),
    ],
    ids=["more than a node has", "as much", "without a GPU it may be on other nodes"],
)
def test_a_gpu_pod_with_more_memory_than_any_node_with_gpus_is_told_so(
    gpus: int, memory: str, told: str
) -> None:
    document = make_flavor("a100", annotations={names.LARGEST_NODE: f"memory=1Ti, {GPU}=8"})
    queue = cluster_queue_view({"a100": {GPU: "16", "memory": "8Ti"}})
    cluster = make_world(queue)
    cluster.flavors = {"a100": msgspec.convert(document, ResourceFlavor)}
    pod = read(make_pod(gpus=gpus, requests={"memory": memory}))
    part = admission_warnings.CreatedPods(pod=pod, written=pod, count=1)
    texts = [found.warning for found in admission_warnings._about_part(part, queue, cluster)]
    assert [text.startswith(told) for text in texts] == ([True] if told else [])


def test_pods_of_an_owner_are_judged_one_by_one_against_the_largest_node() -> None:
    cluster = make_labelled_pools({"a100": SMALL, "h100": SMALL})
    part = admission_warnings.CreatedPods(
        pod=read(make_pod(gpus=4)), written=read(make_pod(gpus=4)), count=4
    )
    queue = cluster.cluster_queues["gpus"]
    assert list(admission_warnings._about_part(part, queue, cluster)) == []


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "the largest node has 8. Ask for at most 8 in one pod"),
        (2, "the largest node has 8. Ask for at most 8 in one pod"),
        (
            4,
            "can reach 16. Run at most 1 of its 4 pods of 16 at a time, or have the quota raised",
        ),
    ],
)
def test_the_quota_is_told_where_it_gives_each_pod_less_than_a_node(count: int, told: str) -> None:
    cluster = make_labelled_pools({"a100": f"{GPU}=8"})
    pod = read(make_pod(gpus=16, **select("a100")))
    part = admission_warnings.CreatedPods(pod=pod, written=pod, count=count)
    (verdict,) = admission_warnings._about_part(part, cluster.cluster_queues["gpus"], cluster)
    assert verdict.warning.endswith(f" {told}")


def test_a_pod_is_not_told_to_ask_for_more_than_its_queue_can_give() -> None:
    cluster = make_labelled_pools({"h100": f"{GPU}=12"})
    (text,) = warnings(cluster, gpus=16, **select("h100"))
    assert text == (
        "Too big: asks 16 h100, gpus can reach 8. Ask for at most 8, or have the quota raised"
    )


def test_a_flavor_of_which_the_queue_has_nothing_does_not_count() -> None:
    quotas = {"cpu": {GPU: "0"}, "a100": {GPU: "16"}}
    marks = {names.LARGEST_NODE: f"{GPU}=4"}
    flavors = {
        "cpu": flavor_view("cpu"),
        "a100": msgspec.convert(make_flavor("a100", annotations=marks), ResourceFlavor),
    }
    queue = cluster_queue_view(quotas)
    cluster = make_cluster("default", cluster_queues={"gpus": queue}, flavors=flavors)
    (text,) = warnings(cluster, gpus=8)
    assert text.startswith("Too big: a pod asks 8 a100, the largest node has 4.")


@pytest.mark.parametrize("shape", ["terms", "expressions", "values"])
def test_an_affinity_with_many_members_is_not_looked_at(shape: str) -> None:
    """So that a review takes little time; the flavors count as if the pod selected all."""
    many = 20_000
    values = [f"v{index}" for index in range(many if shape == "values" else 1)]
    expression: dict[str, Any] = {"key": "gpu", "operator": "In", "values": values}
    term = {"matchExpressions": [expression] * (many if shape == "expressions" else 1)}
    terms: list[Any] = [term] * (many if shape == "terms" else 1)
    affinity: dict[str, Any] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    pod = read(make_pod(gpus=1, affinity=affinity))
    assert reviewed_pod.required_affinity(pod) is None
    assert warnings(make_labelled_pools(), affinity=affinity) == ()


def test_an_affinity_that_the_api_server_refuses_is_not_judged() -> None:
    for terms in (
        [{"matchExpressions": [{"key": "gpu", "operator": "Is"}]}],
        [{"matchExpressions": "x"}],
    ):
        affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
        assert warnings(make_labelled_pools(), affinity=affinity) == ()


def test_no_warning_is_guessed_from_a_cache_that_is_not_filled():
    assert warnings(make_cluster(synced=False), labels={QUEUE: "x"}) == ()


def test_a_gpu_on_a_named_node_is_said_to_be_outside_every_queue():
    (text,) = warnings(make_world(), nodeName="n1")
    assert text == (
        "No queue: the pod names node n1, so it takes nvidia.com/gpu outside every queue. Leave"
        " nodeName out, and set nodeSelector kubernetes.io/hostname"
    )
    (text,) = warnings(make_world(), nodeName="n" * 250)
    assert text.endswith("set nodeSelector kubernetes.io/hostname")
    assert len(text) <= admission_warnings.LONGEST


MANAGED = "kueue.x-k8s.io/managed"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"
OF_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
OF_A_JOB = (
    "pod owner is managed by kueue, label 'kueue.x-k8s.io/managed=true' might lead to unexpected"
    " behaviour"
)


def judged(owner: dict[str, Any], *, update: bool = False, **metadata: Any) -> tuple[str, ...]:
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    document = make_pod(schedulingGates=gates, **metadata)
    document["metadata"]["ownerReferences"] = [owner]
    pod = read(document)
    context = Context(namespace="team-a", now_us=NOW_US)
    return pod_review.validate(
        pod if update else None, pod, context, RULES, make_cluster()
    ).warnings


def test_a_pod_of_a_job_that_is_marked_as_managed_is_warned_about():
    marked = {MANAGED: "true"}
    assert judged(OF_JOB, labels=marked) == judged(OF_JOB, labels=marked, update=True)
    assert judged(OF_JOB, labels=marked) == (OF_A_JOB,)


def test_a_pod_held_for_its_parent_is_warned_about_at_its_creation_only():
    held: dict[str, Any] = {"labels": {MANAGED: "true"}, "annotations": {PARENT: "job"}}
    assert judged(OF_JOB, **held) == (OF_A_JOB,)
    assert judged(OF_JOB, **held, update=True) == ()


@pytest.mark.parametrize(
    ("owner", "label"),
    [
        (OF_JOB, "false"),
        ({**OF_JOB, "controller": None}, "true"),
        ({**OF_JOB, "apiVersion": "example.com/v1"}, "true"),
        ({**OF_JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet"}, "true"),
    ],
    ids=["not marked", "not controlled", "another kind of Job", "of a ReplicaSet"],
)
def test_other_pods_are_not_warned_about_their_owner(owner: dict[str, Any], label: str):
    assert judged(owner, labels={MANAGED: label}) == ()


def status(reserved: int, pending: int = 0) -> dict[str, Any]:
    used = [{"name": "a", "resources": [{"name": GPU, "total": str(reserved)}]}]
    return {"flavorsReservation": used, "pendingWorkloads": pending}


@pytest.mark.parametrize(
    ("own", "lent", "strategy", "waits"),
    [
        (0, 0, "BestEffortFIFO", False),
        (8, 8, "BestEffortFIFO", False),
        (8, 16, "BestEffortFIFO", True),
        (4, 20, "BestEffortFIFO", True),
        (0, 0, "StrictFIFO", True),
    ],
    ids=[
        "own quota is free", "it can be borrowed", "all is in use", "own quota is lent",
        "nobody is passed",
    ],
)  # fmt: skip
def test_others_are_told_of_only_where_a_pod_does_not_fit_now(
    own: int, lent: int, strategy: str, waits: bool
) -> None:
    quotas = {"a": {GPU: "8"}}
    queue = cluster_queue_view(
        quotas, cohortName="all", queueingStrategy=strategy, status=status(own, pending=3)
    )
    cluster = make_world(queue)
    lender = cluster_queue_view(
        {"a": {GPU: "16"}}, name="lender", cohortName="all", status=status(lent)
    )
    cluster.cluster_queues = {**cluster.cluster_queues, "lender": lender}
    found = [text for text in warnings(cluster) if text.startswith("May wait:")]
    assert bool(found) is waits


RECLAIMS = (
    (
        "Starts once running work of others is stopped, which borrows from its queue. See: kubectl"
        " gpu queue team-a/default"
    ),
)
MAY_WAIT = (
    (
        "May wait: less is free in ClusterQueue gpus than it asks for. See: kubectl gpu queue"
        " team-a/default"
    ),
)


@pytest.mark.parametrize(
    ("own", "lent", "preemption", "label", "expected"),
    [
        (4, 20, {"reclaimWithinCohort": "Any"}, "", RECLAIMS),
        (8, 16, {"reclaimWithinCohort": "Any"}, "high", MAY_WAIT),
        (4, 20, {"reclaimWithinCohort": "LowerPriority"}, "high", ()),
        (4, 20, {"reclaimWithinCohort": "LowerPriority"}, "low", MAY_WAIT),
        (4, 20, {}, "high", MAY_WAIT),
        (8, 16, {"withinClusterQueue": "LowerPriority"}, "high", ()),
        (8, 16, {"withinClusterQueue": "LowerPriority"}, "", MAY_WAIT),
        (
            8, 16,
            {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}},
            "high", (),
        ),
    ],
    ids=[
        "takes back what others borrow", "would borrow itself", "may take back from lower ones",
        "nothing is lower", "preempts nothing", "may preempt lower ones of its queue",
        "nothing in its queue is lower", "may preempt while it borrows",
    ],
)  # fmt: skip
def test_what_may_preempt_is_not_said_to_wait(
    own: int, lent: int, preemption: dict[str, Any], label: str, expected: tuple[str, ...]
) -> None:
    queue = cluster_queue_view(
        {"a": {GPU: "8"}}, cohortName="all", status=status(own), preemption=preemption
    )
    lender = cluster_queue_view(
        {"a": {GPU: "16"}}, name="lender", cohortName="all", status=status(lent)
    )
    cluster = make_world(
        queue, priority_classes=frozenset({"high", "low"}), priorities={"high": 10, "low": 0}
    )
    cluster.cluster_queues = {**cluster.cluster_queues, "lender": lender}
    assert warnings(cluster, labels={CLASS: label} if label else {}) == expected


TAKES_BACK = "Starts once running work of others is stopped, which borrows from its queue"


@pytest.mark.parametrize(
    ("waiting", "strategy", "expected"),
    [
        (1, "BestEffortFIFO", f"{TAKES_BACK}, unless 1 other that waits takes it first."),
        (3, "BestEffortFIFO", f"{TAKES_BACK}, unless about 3 others that wait take it first."),
        (3, "StrictFIFO", "May wait: about 3 others wait in ClusterQueue gpus."),
    ],
    ids=["one larger waits", "several wait", "nobody is passed"],
)
def test_what_takes_back_its_own_quota_is_not_said_to_wait_for_what_it_goes_past(
    waiting: int, strategy: str, expected: str
) -> None:
    queue = cluster_queue_view(
        {"a": {GPU: "8"}}, cohortName="all", status=status(4, pending=waiting),
        preemption={"reclaimWithinCohort": "Any"}, queueingStrategy=strategy,
    )  # fmt: skip
    lender = cluster_queue_view(
        {"a": {GPU: "16"}}, name="lender", cohortName="all", status=status(20)
    )
    cluster = make_world(queue)
    cluster.cluster_queues = {**cluster.cluster_queues, "lender": lender}
    assert warnings(cluster) == (f"{expected} See: kubectl gpu queue team-a/default",)


def test_quota_that_others_borrow_is_promised_from_no_queue_that_a_guard_holds() -> None:
    short = {"type": conditions.CAPACITY_SUFFICIENT, "status": "False"}
    queue = cluster_queue_view(
        {"a": {GPU: "8"}}, cohortName="all", preemption={"reclaimWithinCohort": "Any"},
        annotations={names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE},
        status={**status(4), "conditions": [short]},
    )  # fmt: skip
    lender = cluster_queue_view(
        {"a": {GPU: "16"}}, name="lender", cohortName="all", status=status(20)
    )
    cluster = make_world(queue)
    cluster.cluster_queues = {**cluster.cluster_queues, "lender": lender}
    assert warnings(cluster) == MAY_WAIT


@pytest.mark.parametrize(
    ("spec", "is_said"),
    [({}, True), ({"priority": 5}, False), ({"priorityClassName": "some"}, False)],
    ids=["none", "a number", "a class that only the API server knows"],
)
def test_the_priority_of_pods_counts_where_no_class_of_workloads_is_named(
    spec: dict[str, Any], *, is_said: bool
) -> None:
    queue = cluster_queue_view(
        {"a": {GPU: "8"}}, status=status(8), preemption={"withinClusterQueue": "LowerPriority"}
    )
    assert bool(warnings(make_world(queue), **spec)) is is_said


@pytest.mark.parametrize("waiting", [0, 3])
def test_a_guard_that_holds_a_queue_is_no_reason_to_say_that_too_little_is_free(
    waiting: int,
) -> None:
    short = {"type": conditions.CAPACITY_SUFFICIENT, "status": "False"}
    queue = cluster_queue_view(
        {"a": {GPU: "8"}},
        annotations={names.CAPACITY_GUARD: names.CAPACITY_GUARD_ENFORCE},
        status={**status(0, pending=waiting), "conditions": [short]},
    )
    texts = [text for text in warnings(make_world(queue)) if text.startswith("May wait:")]
    assert len(texts) == (1 if waiting else 0)
    assert not any("less is free" in text for text in texts)


NO_CLASS = (
    'Without effect: WorkloadPriorityClass "nope" not found, so its priority stays as it was. '
)

NO_QUEUE = (
    "Waits: LocalQueue absent does not exist in its namespace. Set the label"
    " kueue.x-k8s.io/queue-name to one of default, or have it created"
)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {CLASS: "nope"}, (f"{NO_CLASS}Use one of high, low, or have it created",)),
        ({CLASS: "low"}, {CLASS: "high"}, ()),
        ({CLASS: "nope"}, {CLASS: "nope", "team": "a"}, ()),
        (
            {},
            {QUEUE: "absent"},
            (NO_QUEUE,),
        ),
    ],
    ids=["missing class", "class that exists", "other label", "missing queue"],
)
def test_an_update_that_names_what_does_not_exist_is_warned_about(
    before: dict[str, str], after: dict[str, str], said: tuple[str, ...]
) -> None:
    cluster = make_world(priority_classes=frozenset({"low", "high"}))
    held = {QUEUE: "default", MANAGED: "true"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    old, new = (
        read(make_pod(gpus=1, schedulingGates=gates, labels={**held, **labels}))
        for labels in (before, after)
    )
    context = Context(namespace="team-a", now_us=NOW_US)
    assert pod_review.validate(old, new, context, RULES, cluster).warnings == said


def test_the_warning_about_a_class_says_that_there_are_none() -> None:
    old, new = (
        views.ObjectMeta(name="train", labels={QUEUE: "default", **labels})
        for labels in ({}, {CLASS: "nope"})
    )
    context = Context(namespace="team-a", now_us=NOW_US)
    said = admission_warnings.relabelled(old, new, context, make_world())
    assert said == (f"{NO_CLASS}The cluster has none: have it created",)


WAITS = (
    'Waits: WorkloadPriorityClass "nope" not found. The cluster has none: create it again without'
    f" the label {CLASS}; an"
)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {QUEUE: "default", CLASS: "nope"}, 1),
        ({CLASS: "nope"}, {QUEUE: "default", CLASS: "nope"}, 1),
        ({QUEUE: "default", CLASS: "gone"}, {QUEUE: "default", CLASS: "nope"}, 1),
        ({}, {CLASS: "nope"}, 0),
    ],
    ids=["both at once", "the queue later", "another missing class", "no queue"],
)
def test_what_has_no_priority_yet_is_told_that_it_waits_for_its_class(
    before: dict[str, str], after: dict[str, str], said: int
) -> None:
    old, new = (views.ObjectMeta(name="train", labels=labels) for labels in (before, after))
    context = Context(namespace="team-a", now_us=NOW_US)
    texts = admission_warnings.relabelled(old, new, context, make_world())
    assert [text.startswith(WAITS) for text in texts] == [True] * said


MARK = names.WORKLOAD_ANNOTATION
ELASTIC = [{"name": "kueue.x-k8s.io/elastic-job"}]


def job(
    pods: int,
    *,
    suspend: bool = True,
    gates: Any = (),
    gpus: int = 1,
    queue: str = "default",
    mark: str = "",
) -> ReviewedJob:
    made = make_job("train", pods, gpus=gpus, labels={QUEUE: queue}, suspend=suspend)
    template = made["spec"]["template"]
    template["spec"]["schedulingGates"] = list(gates)
    if mark:
        annotations = {**template["metadata"].get("annotations", {}), MARK: mark}
        template["metadata"]["annotations"] = annotations
    return msgspec.convert(made, ReviewedJob)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (job(1), job(1), ()),
        (job(4), job(2), ()),
        (job(1), job(4), RECLAIMS),
        (job(1), job(1, gpus=4), RECLAIMS),
        (job(0, suspend=False), job(3), RECLAIMS),
        (job(1, suspend=False), job(1), ()),
        (job(2, queue="elsewhere"), job(2), RECLAIMS),
        (job(1, suspend=False, gates=ELASTIC), job(4, suspend=False, gates=ELASTIC), RECLAIMS),
        (job(4, suspend=False, gates=ELASTIC), job(2, suspend=False, gates=ELASTIC), ()),
    ],
    ids=[
        "nothing changes", "fewer pods", "more pods", "larger pods", "goes on with more pods",
        "is suspended", "moves to the queue", "an elastic Job grows", "an elastic Job shrinks",
    ],
)  # fmt: skip
def test_an_update_that_asks_for_more_is_told_what_a_new_job_is_told(
    before: ReviewedJob, after: ReviewedJob, expected: tuple[str, ...]
) -> None:
    cluster = make_world(
        cluster_queue_view(
            {"a": {GPU: "8"}},
            cohortName="all",
            status=status(4),
            preemption={"reclaimWithinCohort": "Any"},
        )
    )
    lender = cluster_queue_view(
        {"a": {GPU: "16"}}, name="lender", cohortName="all", status=status(20)
    )
    cluster.cluster_queues = {**cluster.cluster_queues, "lender": lender}
    context = Context(namespace="team-a", now_us=NOW_US)
    assert owner_review.validate(before, after, context, RULES, cluster).warnings == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (job(1), job(9)),
        (job(4, suspend=False, gates=ELASTIC), job(9, suspend=False, gates=ELASTIC)),
    ],
    ids=["it waits", "it is elastic, and runs"],
)
def test_an_update_after_which_a_job_never_starts_says_so(
    before: ReviewedJob, after: ReviewedJob
) -> None:
    cluster = make_world(cluster_queue_view({"a": {GPU: "8"}}))
    context = Context(namespace="team-a", now_us=NOW_US)
    (text,) = owner_review.validate(before, after, context, RULES, cluster).warnings
    assert text.startswith("Too big: asks 9 a, gpus can reach 8.")


@pytest.mark.parametrize("was_in", ["default", "elsewhere"])
def test_an_update_that_asks_a_stopped_queue_says_once_that_it_is_stopped(was_in: str) -> None:
    cluster = make_world(cluster_queue_view({"a": {GPU: "8"}}, stopPolicy="Hold"))
    context = Context(namespace="team-a", now_us=NOW_US)
    before, after = job(1, queue=was_in), job(4)
    (text,) = owner_review.validate(before, after, context, RULES, cluster).warnings
    assert "it is stopped" in text.lower()


STOPS = admission_warnings.stopped_by_update("Job")


@pytest.mark.parametrize(
    ("before", "after", "stops"),
    [
        (job(2, suspend=False, mark="w"), job(1, suspend=False, mark="w"), True),
        (job(1, suspend=False, mark="w"), job(2, mark="w"), True),
        (job(2, suspend=False, mark="w"), job(0, suspend=False, mark="w"), False),
        (job(0, suspend=False, mark="w"), job(2, mark="w"), False),
        (job(2, suspend=False, mark="w"), job(2, suspend=False, mark="w"), False),
        (job(2, suspend=False, mark="w"), job(2, mark="w"), False),
        (job(2), job(1), False),
        (
            job(2, suspend=False, mark="w", gates=ELASTIC),
            job(1, suspend=False, mark="w", gates=ELASTIC),
            False,
        ),
    ],
    ids=[
        "fewer pods", "more pods, suspended in the same update", "no pods", "it has none",
        "nothing", "suspended as it is", "it waits", "it is elastic",
    ],
)  # fmt: skip
def test_an_update_that_stops_running_pods_says_so(
    before: ReviewedJob, after: ReviewedJob, stops: bool
) -> None:
    context = Context(namespace="team-a", now_us=NOW_US)
    world = make_world(cluster_queue_view({"a": {GPU: "8"}}))
    assert (STOPS in owner_review.validate(before, after, context, RULES, world).warnings) is stops
