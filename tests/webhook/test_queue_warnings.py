"""What kubectl prints about a queue, Cohort or flavor that is hardly meant as it is."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient

from admission.answers import queue_problems
from admission.base import names
from admission.kube import resources
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.webhook import key_warnings, kinds
from admission.webhook.lister import ClusterLister
from tests.builders.queues import (
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    own,
)
from tests.repo import tree
from tests.webhook import reviews

GPU = names.GPU_RESOURCE
Document = dict[str, Any]
VIEWS: Mapping[str, type[views.Object]] = {
    "ClusterQueue": ClusterQueue,
    "Cohort": Cohort,
    "LocalQueue": LocalQueue,
    "Namespace": views.Namespace,
    "ResourceFlavor": ResourceFlavor,
}


def cluster(*documents: Document, is_synced: bool = True) -> ClusterLister:
    """The cache of a cluster with these objects and the flavor a100."""
    cache = reviews.make_knowledge() if is_synced else ClusterLister()
    for document in (make_flavor("a100"), *documents):
        kind = resources.of_kind(document["apiVersion"], document["kind"])
        assert kind is not None
        cache.upsert(kind, msgspec.convert(document, VIEWS[document["kind"]]))
    return cache


def client(cache: ClusterLister) -> FlaskClient:
    return reviews.make_app(cache).test_client()


def warnings(new: Document, cache: ClusterLister, old: Document | None = None) -> list[str]:
    """The warnings about an object that is created, or updated where there is an old one."""
    kind = kinds.named(new["kind"])
    request = {
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "oldObject": old,
    }
    body = reviews.make_review(new, **request)
    answer = reviews.post(client(cache), kind.validate_path(), body)["response"]
    assert answer["allowed"], answer
    texts: list[str] = answer.get("warnings", [])
    assert all(len(text) <= key_warnings.LONGEST for text in texts), texts
    return texts


def test_what_is_meant_is_not_warned_about() -> None:
    cache = cluster(make_cluster_queue("gpus", cohortName="pool"), make_cohort("pool"))
    marks = own(max_per_user=f"{GPU}=2", capacity_guard="Enforce", minimum_run_time="1h")
    queue = make_cluster_queue("other", cohortName="pool", annotations=marks)
    local = make_local_queue()
    local["metadata"]["annotations"] = own(max_per_user=f"{GPU}=2", max_in_use=f"{GPU}=3")
    flavor = make_flavor("h100", annotations=own(sharing="none", product="H100"))
    for document in (queue, local, flavor, make_cohort("child", parentName="pool")):
        assert warnings(document, cache) == []


# --------------------------------------------------------------------------------------- Cohorts


def test_a_cohort_that_closes_a_cycle_is_told_which_and_what_follows() -> None:
    cache = cluster(make_cohort("a", parentName="b"), make_cohort("b", parentName="c"))
    assert warnings(make_cohort("c", parentName="a"), cache) == [
        (
            "No ClusterQueue below it admits anything: its Cohorts form a cycle (a -> b -> c ->"
            " a). Correct spec.parentName of one of them"
        )
    ]
    assert warnings(make_cohort("c", parentName="d"), cache) == []


def test_a_cohort_that_becomes_its_own_parent_by_an_update_is_warned_about() -> None:
    cache = cluster(make_cohort("a"))
    (text,) = warnings(make_cohort("a", parentName="a"), cache, old=make_cohort("a"))
    assert "(a -> a)" in text


def test_an_update_that_ends_a_cycle_is_not_warned_about() -> None:
    old = make_cohort("a", parentName="b")
    cache = cluster(old, make_cohort("b", parentName="a"))
    assert warnings(make_cohort("a"), cache, old=old) == []


def test_a_queue_below_a_cycle_is_told_that_it_admits_nothing() -> None:
    cache = cluster(make_cohort("a", parentName="b"), make_cohort("b", parentName="a"))
    (text,) = warnings(make_cluster_queue(cohortName="b"), cache)
    assert text.startswith("It admits nothing: its Cohorts form a cycle (a -> b -> a). Correct")


def test_a_long_cycle_leaves_room_for_the_next_step() -> None:
    members = [f"{letter * 60}" for letter in "abcdef"]
    pairs = zip(members, [*members[1:], members[0]], strict=True)
    cohorts = [make_cohort(name, parentName=parent) for name, parent in pairs]
    (text,) = warnings(cohorts[0], cluster(*cohorts))
    assert text.startswith("No ClusterQueue below it admits anything: ")
    assert text.endswith("Correct spec.parentName of one of them")


def test_a_cohort_that_nobody_else_names_is_doubted_where_it_resembles_another() -> None:
    cache = cluster(make_cluster_queue("gpus", cohortName="research"))
    assert warnings(make_cluster_queue("other", cohortName="reserch"), cache) == [
        (
            "It shares with nobody: no other queue or Cohort names Cohort reserch; did you mean"
            " research? If so, correct spec.cohortName"
        )
    ]
    (text,) = warnings(make_cohort("lab", parentName="reserch"), cache)
    assert text.endswith("did you mean research? If so, correct spec.parentName")


@pytest.mark.parametrize("cohort", ["research", "ml", "pool-2", "research-b", "team"])
def test_a_cohort_with_a_name_of_its_own_need_not_exist(cohort: str) -> None:
    cache = cluster(
        make_cluster_queue("gpus", cohortName="research"),
        make_cohort("pool-1"),
        make_cohort("research-a"),
    )
    assert warnings(make_cluster_queue("other", cohortName=cohort), cache) == []


def test_a_queue_is_not_the_other_member_of_its_own_cohort() -> None:
    old = make_cluster_queue("other", cohortName="reserch")
    cache = cluster(make_cluster_queue("gpus", cohortName="research"), old)
    new = make_cluster_queue("other", cohortName="reserch", quota=5)
    assert len(warnings(new, cache, old=old)) == 1


@pytest.mark.parametrize(
    ("written", "meant", "is_slip"),
    [
        ("reserch", "research", True), ("research", "reserach", True), ("teams", "team", True),
        ("ml-team", "mlteam", True), ("gqu", "gpu", True), ("team", "team", False),
        ("pool-1", "pool-2", False), ("pool1", "pool11", False), ("east", "west", False),
        ("a", "b", False), ("ml", "mlx", False), ("red-team", "blue-team", False),
    ],
)  # fmt: skip
def test_only_one_slip_of_the_hand_makes_a_name_resemble_another(
    written: str, meant: str, is_slip: bool
) -> None:
    assert queue_problems.is_slip(written, meant) is is_slip
    assert queue_problems.is_slip(meant, written) is is_slip


# ------------------------------------------------------------------------------------- resources


@pytest.mark.parametrize("resource", ["nvidia.com/gpus", "nvidia/gpu", "nvidia.com/GPU"])
def test_a_misspelled_gpu_is_told_also_while_the_cache_is_empty(resource: str) -> None:
    queue = make_cluster_queue(quotas={"a100": {resource: 4}})
    text = (
        f"It has quota of {resource}, which is misspelled: a GPU is nvidia.com/gpu. Correct it in"
        " spec.resourceGroups: kubectl edit clusterqueue gpus"
    )
    assert warnings(queue, cluster(is_synced=False)) == [text]
    groups = queue["spec"]["resourceGroups"]
    assert warnings(make_cohort("gpus", resourceGroups=groups), cluster()) == [
        text.replace("clusterqueue", "cohort")
    ]


def test_a_resource_that_resembles_one_in_use_is_doubted() -> None:
    cache = cluster(make_cluster_queue("gpus", quotas={"a100": {"example.com/nic": 4}}))
    for resource, meant in (
        ("nvidia.com/gqu", GPU),
        ("memroy", "memory"),
        ("example.com/nics", "example.com/nic"),
    ):
        queue = make_cluster_queue("other", quotas={"a100": {resource: 4}})
        assert warnings(queue, cache) == [
            (
                f"It has quota of {resource}, and no other queue has; did you mean {meant}? If so,"
                " correct it in spec.resourceGroups: kubectl edit clusterqueue other"
            )
        ]


@pytest.mark.parametrize(
    "resource",
    [
        GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/pgpu", "amd.com/gpu",
        "cpu", "memory", "hugepages-2Mi", names.GPU_MEMORY, "example.com/nic", "example.com/dpu",
    ],
)  # fmt: skip
def test_a_resource_with_a_meaning_of_its_own_is_not_doubted(resource: str) -> None:
    used = {"example.com/nic": 4, "nvidia.com/mig-1g.5gb": 1}
    cache = cluster(make_cluster_queue("gpus", quotas={"a100": used}))
    queue = make_cluster_queue("other", quotas={"a100": {resource: "4Mi"}})
    assert not [text for text in warnings(queue, cache) if "mean" in text or "spell" in text]


# ------------------------------------------------------------------------------------ references


def test_a_flavor_that_does_not_exist_is_told() -> None:
    queue = make_cluster_queue(flavors=("a100", "h100"))
    assert warnings(queue, cluster()) == [
        (
            "It admits nothing until ResourceFlavor h100 exists. Create it with spec.nodeLabels of"
            " its nodes (none selects all): kubectl get nodes --show-labels"
        )
    ]
    assert warnings(queue, cluster(is_synced=False)) == []


def test_a_flavor_that_is_misspelled_is_told_with_the_one_that_is_meant() -> None:
    assert warnings(make_cluster_queue(flavors=("a10",)), cluster()) == [
        (
            "It admits nothing until ResourceFlavor a10 exists. Did you mean a100? If so, correct"
            " it: kubectl edit clusterqueue gpus"
        )
    ]


def test_a_cluster_queue_that_is_misspelled_is_told_with_the_one_that_is_meant() -> None:
    cache = cluster(make_cluster_queue("research"))
    (text,) = warnings(make_local_queue(queue="reserch"), cache)
    assert text == (
        "Its pods wait until ClusterQueue reserch exists. Did you mean research? If so, delete the"
        " LocalQueue and create it anew: clusterQueue cannot change"
    )


def test_a_cluster_queue_that_does_not_exist_is_told() -> None:
    local = make_local_queue(queue="gpsu")
    assert warnings(local, cluster()) == [
        (
            "Its pods wait until ClusterQueue gpsu exists. Create the ClusterQueue, or"
            " delete the LocalQueue: clusterQueue cannot change"
        )
    ]
    assert warnings(local, cluster(is_synced=False)) == []


def test_a_cluster_queue_without_a_namespace_selector_is_told_that_it_admits_nothing() -> None:
    queue = make_cluster_queue()
    del queue["spec"]["namespaceSelector"]
    (text,) = warnings(queue, cluster())
    assert text == (
        "It admits nothing: spec.namespaceSelector is not set; {} selects all namespaces. Set"
        " it: kubectl edit clusterqueue gpus"
    )


def test_a_local_queue_whose_namespace_is_not_selected_is_told() -> None:
    queue = make_cluster_queue(namespaceSelector={"matchLabels": {"team": "yes"}})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    cache = cluster(queue, namespace)
    assert warnings(make_local_queue(), cache) == [
        (
            "Its pods wait forever: the namespaceSelector of ClusterQueue gpus does not select the"
            " namespace. Have it select the namespace; the command is printed by: gpu-admission"
            " doctor"
        )
    ]
    assert warnings(make_local_queue(namespace="never-seen"), cache) == []
    namespace["metadata"] = {"name": "ml", "labels": {"team": "yes"}}
    assert warnings(make_local_queue(), cluster(queue, namespace)) == []


def test_a_command_is_whole_whatever_the_name_in_it() -> None:
    name = "a-team-with-a-name-that-says-all-about-its-work"
    queue = make_cluster_queue(name, quotas={"a100": {"nvidia.com/gpus": 4}})
    (text,) = warnings(queue, cluster())
    assert text.endswith(f": kubectl edit clusterqueue {name}")


def test_an_amount_that_is_hardly_meant_is_told_where_the_spec_was_changed() -> None:
    old = make_cluster_queue(quotas={"a100": {GPU: 4, "memory": "512m"}})
    new = make_cluster_queue(quotas={"a100": {GPU: 4, "memory": "512m"}})
    (text,) = warnings(old, cluster())
    assert text.startswith("Check the unit: ")
    assert warnings(new, cluster(), old=old) == []


def test_an_update_that_changes_neither_spec_nor_annotations_is_not_warned_about() -> None:
    old = make_cluster_queue(flavors=("h100",))
    new = make_cluster_queue(flavors=("h100",))
    new["metadata"]["labels"] = {"a": "b"}
    assert warnings(new, cluster(), old=old) == []
    new["metadata"]["annotations"] = {"a": "b"}
    assert len(warnings(new, cluster(), old=old)) == 1


# ----------------------------------------------------------------------------------- annotations


@pytest.mark.parametrize(
    "document",
    [make_cluster_queue(), make_cohort(), make_flavor(), make_local_queue()],
    ids=lambda document: document["kind"],
)
def test_an_annotation_of_ours_that_means_nothing_is_told(document: Document) -> None:
    cache, kind = cluster(make_cluster_queue()), document["kind"]
    document["metadata"]["annotations"] = {**own(nonsense="1"), "example.com/nonsense": "1"}
    assert warnings(document, cache) == [
        f"Annotation gpu-admission.dev/nonsense has no effect on a {kind}. Remove it"
    ]


def test_an_annotation_that_resembles_one_of_ours_is_told_which() -> None:
    queue = make_cluster_queue(annotations=own(max_per_users=f"{GPU}=2"))
    assert warnings(queue, cluster()) == [
        (
            "Annotation gpu-admission.dev/max-per-users has no effect on a ClusterQueue. Did you"
            " mean gpu-admission.dev/max-per-user?"
        )
    ]


def test_an_annotation_on_the_wrong_kind_is_told_where_it_belongs() -> None:
    flavor = make_flavor(annotations=own(minimum_run_time="1h"))
    assert warnings(flavor, cluster()) == [
        (
            "Annotation gpu-admission.dev/minimum-run-time has no effect on a ResourceFlavor. Set"
            " it on a ClusterQueue or LocalQueue"
        )
    ]


def test_every_annotation_of_the_reference_has_an_effect_on_the_kinds_that_it_names() -> None:
    page = tree.ROOT / "docs" / "reference" / "annotations-and-labels.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    documented = {
        (kind, row[0].strip("| `"))
        for row in rows
        if len(row) == 4 and row[1] == "annotation" and names.OWN_DOMAIN in row[0]
        for kind in row[2].split(", ")
        if kind in queue_problems.ANNOTATIONS
    }
    effective = {(kind, key) for kind, keys in queue_problems.ANNOTATIONS.items() for key in keys}
    assert effective == documented | {
        (kind, names.TAKEN_OVER_FROM) for kind in queue_problems.ANNOTATIONS
    }


@pytest.mark.parametrize("key", ["max-per-user", "max-in-use"])
def test_a_cap_on_a_resource_without_quota_is_told_with_those_that_have_some(key: str) -> None:
    cache = cluster(make_cluster_queue("gpus", quotas={"a100": {GPU: 4, "cpu": 64}}))
    local = make_local_queue()
    local["metadata"]["annotations"] = {f"{names.OWN_DOMAIN}/{key}": f"gpu=6, {GPU}=6"}
    expected = (
        f"Cap {key} does not limit gpu: ClusterQueue gpus has no quota of it. Name one of"
        f" {GPU}, cpu"
    )
    assert warnings(local, cache) == [expected]
    assert warnings(local, cache, old=make_local_queue()) == [expected]


def test_a_cap_whose_resource_leaves_the_queue_is_told() -> None:
    marks = own(max_per_user=f"{GPU}=2")
    old = make_cluster_queue(annotations=marks)
    new = make_cluster_queue(quotas={"a100": {"cpu": 4}}, annotations=marks)
    (text,) = warnings(new, cluster(old), old=old)
    assert text.startswith("Cap max-per-user does not limit nvidia.com/gpu: ClusterQueue gpus has")
