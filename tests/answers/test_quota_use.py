"""How much quota is nominal, used, borrowed, lent and about to be free, and how much is real."""

from dataclasses import replace

import msgspec
import pytest

from admission.answers import cluster, quota_use
from admission.answers.quota_use import CohortUse, FlavorLine, Line, QueueUse, Use
from admission.base import names
from admission.cli import top
from admission.objects import views
from admission.objects.cohort import Cohort
from admission.objects.resource_flavor import ResourceFlavor
from admission.reasons.placing import SickDevices
from tests.answers.clusters import (
    GPU,
    gpu_node,
    holding,
    objects,
    pod,
    queue,
    related,
    waiting,
)
from tests.builders.cluster import make_node
from tests.builders.metadata import Document, make_condition
from tests.builders.queues import make_cohort, make_flavor, make_group


def queue_of(use: Use, name: str) -> QueueUse:
    return next(one for one in use.queues if one.name == name)


def line(use: Use, name: str) -> Line:
    (found,) = queue_of(use, name).lines
    return found


def cohort(use: Use) -> CohortUse:
    (found,) = use.cohorts
    return found


def test_what_one_queue_borrows_is_lent_where_it_cannot_be_used() -> None:
    use = quota_use.of(related(queues=(queue("prod", 8, 0), queue("research", 8, 12))))
    assert line(use, "research") == Line(
        flavor="a100", resource=GPU, nominal=8, used=12, borrowed=4, lent=0, in_force=8
    )
    assert line(use, "prod") == Line(
        flavor="a100", resource=GPU, nominal=8, used=0, borrowed=0, lent=4, in_force=8
    )
    (sums,) = cohort(use).lines
    assert (sums.nominal, sums.used, sums.borrowed) == (16, 12, 0)


def test_the_quota_of_a_cohort_alone_is_told_with_what_is_lent_of_it() -> None:
    pool = make_cohort("all", resourceGroups=[make_group({"a100": {GPU: 8}})])
    documents = objects(queues=(queue("vision", 8, 0), queue("research", 0, 16)))
    read = replace(documents, cohorts=(msgspec.convert(pool, Cohort),))
    use = quota_use.of(cluster.relate(read))
    (sums,) = cohort(use).lines
    (own,) = cohort(use).own_lines
    assert (line(use, "research").borrowed, line(use, "vision").lent, own.lent) == (16, 8, 8)
    assert (sums.nominal, line(use, "vision").nominal, own.nominal) == (16, 8, 8)
    assert quota_use.document(use)["cohorts"][0]["ownQuota"] == [
        {"flavor": "a100", "resource": GPU, "nominal": "8", "lent": "8"}
    ]


def test_nothing_is_lent_while_others_leave_enough() -> None:
    queues = (queue("a", 8, 12), queue("b", 8, 0), queue("c", 8, 0))
    use = quota_use.of(related(queues=queues))
    assert [line(use, name).lent for name in ("a", "b", "c")] == [0, 0, 0]


def test_an_evicted_workload_is_releasing() -> None:
    documents = (
        holding("stays", "research", 2),
        holding("evicted", "research", 3, make_condition("Evicted")),
        holding("deleted", "research", 1, deleting=True),
    )
    use = quota_use.of(related(*documents, queues=(queue("research", 8, 6),)))
    assert line(use, "research").releasing == 4


def test_a_workload_is_releasing_once_all_of_its_pods_are_being_deleted() -> None:
    documents = (
        holding("half", "research", 2), pod("a", "half", 1, deleting=True), pod("b", "half", 1),
        holding("all", "research", 3), pod("c", "all", 3, deleting=True),
    )  # fmt: skip
    use = quota_use.of(related(*documents, queues=(queue("research", 8, 5),)))
    assert line(use, "research").releasing == 3


def test_a_pod_that_outlives_its_workload_is_releasing_as_far_as_it_is_charged() -> None:
    documents = (holding("w", "research", 2), pod("left", "gone", 4, deleting=True))
    for used, releasing in ((2, 0), (5, 3), (6, 4)):
        use = quota_use.of(related(*documents, queues=(queue("research", 8, used),)))
        assert line(use, "research").releasing == releasing


def test_who_waits_is_summed_by_resource() -> None:
    documents = (waiting("a", "research", 2), waiting("b", "research", 3))
    use = quota_use.of(related(*documents, queues=(queue("research", 8, 0, pending=2),)))
    found = queue_of(use, "research").pending
    assert (found.workloads, found.resources) == (2, {GPU: 5})
    assert cohort(use).pending == found


def test_what_waits_is_unknown_where_workloads_may_not_be_read() -> None:
    missing = ("Workloads are not shown: you may not list them",)
    read = related(queues=(queue("research", 8, 0, pending=2),), missing=missing)
    use = quota_use.of(read)
    assert queue_of(use, "research").pending == quota_use.Waiting(workloads=2, resources=None)
    assert use.missing == missing


def test_real_are_the_healthy_gpus_of_the_nodes_of_a_flavor() -> None:
    sick = gpu_node("n2", 4)
    sick["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    }
    nodes = (gpu_node("n1", 8), sick)
    use = quota_use.of(related(queues=(queue("research", 16, 6),), nodes=nodes))
    (flavor,) = use.flavors
    (found,) = flavor.lines
    assert (flavor.nodes, found.nominal, found.used) == (2, 16, 6)
    assert (found.real, found.sick) == (8, 4)


def test_only_nodes_that_have_gpus_of_a_flavor_are_its_nodes() -> None:
    cut = make_node("mig", {names.GPU_PRODUCT_LABEL: "a100"}, {"nvidia.com/mig-1g.10gb": 7})
    bare = make_node("bare", {names.GPU_PRODUCT_LABEL: "a100"})
    nodes = (gpu_node("n1", 8), cut, bare)
    use = quota_use.of(related(queues=(queue("research", 16, 6),), nodes=nodes))
    assert use.flavors[0].nodes == 1


def test_every_node_that_a_flavor_without_gpus_selects_is_its_node() -> None:
    found = objects(queues=(queue("research", 16, 6),), nodes=(gpu_node("n1", 8),))
    more = msgspec.convert(make_flavor("any", product="a100"), ResourceFlavor)
    found = replace(found, flavors=(*found.flavors, more))
    use = quota_use.of(cluster.relate(found))
    assert {one.name: one.nodes for one in use.flavors} == {"a100": 1, "any": 1}


def stray(name: str, gpus: int, node: str) -> Document:
    """A pod that no queue admitted, on a node."""
    made = pod(name, "", gpus, node)
    del made["metadata"]["labels"]
    return made


def test_outside_is_what_pods_hold_that_no_queue_admitted() -> None:
    nodes = (gpu_node("n1", 8), gpu_node("n2", 4), make_node("cpu"))
    documents = (
        holding("w", "research", 2), pod("ours", "w", 2, "n1"), pod("left", "", 1, "n1"),
        stray("notebook", 3, "n1"), stray("debug", 1, "n2"), stray("waits", 5, ""),
    )  # fmt: skip
    use = quota_use.of(related(*documents, queues=(queue("research", 16, 3),), nodes=nodes))
    assert use.flavors[0].lines[0].outside == 4
    assert quota_use.total(use, GPU).outside == 4
    assert quota_use.document(use)["outside"] == {GPU: "4"}


@pytest.mark.parametrize("kind", ["Pod", "Workload"])
def test_outside_is_unknown_where_not_all_may_be_read(kind: str) -> None:
    missing = (f"{kind}s are not shown outside namespace ml: you may not list them",)
    found = related(
        stray("notebook", 3, "n1"), queues=(queue("research", 16, 0),), missing=missing,
        nodes=(gpu_node("n1", 8),),
    )  # fmt: skip
    use = quota_use.of(found)
    assert use.flavors[0].lines[0].outside is None
    assert quota_use.total(use, GPU).outside is None
    assert quota_use.document(use)["outside"] is None


def test_real_is_unknown_where_nodes_may_not_be_read() -> None:
    use = quota_use.of(related(queues=(queue("research", 16, 6),)))
    assert use.flavors[0].nodes is None
    assert use.flavors[0].lines[0].real is None


def test_what_exists_is_unknown_where_flavors_may_not_be_read() -> None:
    found = objects(queues=(queue("research", 16, 6),), nodes=(gpu_node("n1", 8),))
    use = quota_use.of(cluster.relate(replace(found, flavors=())))
    (line_,) = use.flavors[0].lines
    assert (use.flavors[0].nodes, line_.real, line_.sick) == (None, None, None)
    assert quota_use.total(use, GPU).exists is None


def test_cohorts_in_a_circle_are_shown_and_not_followed_for_ever() -> None:
    circle = [make_cohort("all", parentName="top"), make_cohort("top", parentName="all")]
    found = objects(queues=(queue("research", 8, 2),))
    cohorts = tuple(msgspec.convert(one, Cohort) for one in circle)
    use = quota_use.of(cluster.relate(replace(found, cohorts=cohorts)))
    assert [one.name for one in use.cohorts] == ["all", "top"]


def test_a_queue_that_breaks_a_rule_is_left_out_with_a_sentence() -> None:
    broken = queue("odd", 8, 0)
    broken["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "many"
    use = quota_use.of(related(queues=(broken, queue("research", 8, 2))))
    assert [one.name for one in use.queues] == ["research"]
    (told,) = use.missing
    assert told.startswith("ClusterQueue odd is left out: ")


def test_the_document_has_quantities_as_texts() -> None:
    documents = (waiting("a", "research", 2),)
    queues = (queue("research", 8, 12, pending=1), queue("prod", 8, 0))
    found = quota_use.document(quota_use.of(related(*documents, queues=queues)))
    assert (found["apiVersion"], found["kind"]) == ("gpu-admission.dev/v1", "QuotaUse")
    prod, research = found["clusterQueues"]
    assert prod["quota"][0]["lent"] == "4"
    assert research["quota"] == [
        {
            "flavor": "a100", "resource": names.GPU_RESOURCE, "nominal": "8", "inForce": "8",
            "used": "12", "borrowed": "4", "lent": "0", "releasing": "0", "withoutNode": "0",
        }
    ]  # fmt: skip
    assert research["pending"] == {"workloads": 1, "resources": {GPU: "2"}}
    assert found["flavors"][0]["quota"] == [
        {
            "resource": names.GPU_RESOURCE, "nominal": "16", "used": "12", "releasing": "0",
            "withoutNode": "0", "real": None, "sick": None, "outside": None, "sickOn": None,
        }
    ]  # fmt: skip


def test_what_is_sick_is_counted_in_memory_and_slices_too() -> None:
    labels = {names.GPU_PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB", "gpu-health": "unhealthy"}
    view = msgspec.convert(make_node("n0", labels, {GPU: 2}), views.Node)
    (node,) = quota_use.capacities((view,))
    assert node.healthy == {}
    assert node.sick == {GPU: 2, names.GPU_SLICES: 14, names.GPU_MEMORY: 160 << 30}


def test_what_is_sick_is_told_by_node_and_adds_up_to_what_the_flavor_lacks() -> None:
    cordoned, partly = gpu_node("n2", 8), gpu_node("n1", 8)
    cordoned["spec"] = {"unschedulable": True}
    partly["status"]["allocatable"] = {GPU: "7"}
    read = related(queues=(queue("research", 24, 0),), nodes=(gpu_node("n0", 8), partly, cordoned))
    use = quota_use.of(read)
    (flavor,) = use.flavors
    (line,) = flavor.lines
    assert (line.nominal, line.real, line.sick) == (24, 15, 9)
    assert [(each.node, each.amount) for each in line.sick_on] == [("n1", 1), ("n2", 8)]
    assert "cordoned" in line.sick_on[1].reasons
    (shown,) = quota_use.document(use)["flavors"][0]["quota"]
    assert (shown["sickOn"][1]["node"], shown["sickOn"][1]["amount"]) == ("n2", "8")
    (note,) = [text for text in top._lines(use, 0, every=False) if text.startswith("note: ")]
    assert note.startswith("note: 9 of a100 are sick: 8 on n2 (cordoned")
    assert "; 1 on n1 (" in note


def test_top_says_why_gpus_are_sick_of_which_the_node_says_no_reason() -> None:
    line = FlavorLine(
        resource=GPU, nominal=8, used=0, releasing=0, without_node=0, real=6, sick=2, outside=0,
        sick_on=(SickDevices("n1", 2, (), ""),),
    )  # fmt: skip
    assert top._sick_note("a100", line) == (
        "note: 2 of a100 are sick: 2 on n1 (the node offers fewer than it has)"
    )
