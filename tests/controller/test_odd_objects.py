"""Objects that break rules, as only another writer or a newer version can make them.

The API server's schema would refuse most of them, so they are shown to the core as watched.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from admission.base import names
from admission.base.causes import NoFlavor
from admission.controller import core
from admission.controller.pending_conditions import PendingConditionWriter
from admission.kube import resources
from admission.kube.reflector import Upserted
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.admission_check import AdmissionCheck
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import Workload
from admission.scheduling import nomination
from admission.scheduling.decisions import Wait
from admission.scheduling.heads import Head
from tests.builders.cluster import make_namespace
from tests.builders.jobs import queued_job
from tests.builders.metadata import make_condition
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import make_admission, make_pod_set, make_workload
from tests.controller.world import World, ready_world

VIEWS: dict[Resource, type[views.Object]] = {
    resources.WORKLOADS: Workload,
    resources.CLUSTER_QUEUES: ClusterQueue,
    resources.LOCAL_QUEUES: LocalQueue,
    resources.RESOURCE_FLAVORS: ResourceFlavor,
    resources.COHORTS: Cohort,
    resources.ADMISSION_CHECKS: AdmissionCheck,
}


def show(world: World, resource: Resource, document: dict[str, Any]) -> None:
    """The watch brings the object; later lists have it too, or do not come."""
    metadata = {"uid": "odd", "resourceVersion": "900000", "name": "odd"}
    whole = {**document, "metadata": {**metadata, **document.get("metadata", {})}}
    view = msgspec.convert(whole, VIEWS[resource])
    if resource is resources.WORKLOADS:
        world.shown[resource] = (view,)
    else:
        world.unlisted.add(resource)
    world.core.receive(core.WatchMessage(resource, Upserted(view)))
    world.core.step()


def others_go_on(world: World) -> None:
    """A pod of another queue is admitted as ever, also after all statuses were written."""
    world.pass_time(3)
    world.add_pod("train")
    world.settle()
    assert "train" in world.admitted()


def odd_workload(status: Any = None, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    pod_set = make_pod_set(gpus=1, pod=spec.pop("pod", {}))
    return make_workload("odd", pod_set, metadata=metadata, status=status, **spec)


def affinity(operator: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "a", "operator": operator, "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


RESERVED = make_condition("QuotaReserved", "True")
ADMITTED = make_condition("Admitted", "True")


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"metadata": {"namespace": "ml"}}, id="nothing but a name"),
        pytest.param({"metadata": {"namespace": "ml"}, "spec": {}, "status": {}}, id="empty"),
        pytest.param(odd_workload(podSets=[]), id="no pod sets"),
        pytest.param(odd_workload(queueName=""), id="no queue"),
        pytest.param(odd_workload(pod=affinity("Near")), id="unknown operator"),
        pytest.param(
            odd_workload({"conditions": [make_condition("New", "Perhaps")]}), id="status"
        ),
        pytest.param(
            odd_workload({"conditions": [make_condition("QuotaReserved", "Perhaps")]}),
            id="perhaps",
        ),
        pytest.param(odd_workload({"conditions": [RESERVED]}), id="reserved without admission"),
        pytest.param(odd_workload({"conditions": [ADMITTED]}), id="admitted without quota"),
        pytest.param(odd_workload({"admission": make_admission()}), id="admission alone"),
        pytest.param(
            odd_workload({"conditions": [RESERVED, ADMITTED], "admission": {}}), id="nowhere"
        ),
        pytest.param(
            odd_workload({"conditions": [RESERVED, ADMITTED],
                          "admission": make_admission("none", "none", 7)}),
            id="unknown queue and flavor",
        ),
        pytest.param(
            odd_workload({"conditions": [RESERVED, ADMITTED],
                          "admission": make_admission("gpus", "none", 0)}),
            id="unknown flavor",
        ),
        pytest.param(
            odd_workload({"conditions": [RESERVED],
                          "admission": {"clusterQueue": "gpus", "podSetAssignments": [
                              {"name": "x", "flavors": {"cpu": "a"},
                               "resourceUsage": {"cpu": "much"}}]}}),
            id="unreadable amount",
        ),
        pytest.param(
            odd_workload({"admissionChecks": [{"name": "x", "state": "Perhaps"}]}), id="check"
        ),
        pytest.param(odd_workload({"requeueState": {"requeueAt": "soon"}}), id="no time"),
        pytest.param(
            odd_workload({"requeueState": {"requeueAt": "soon"},
                          "conditions": [make_condition("Requeued", "False", "AdmissionCheck")]}),
            id="no time to wait for",
        ),
        pytest.param(
            odd_workload({"conditions": [{**RESERVED, "lastTransitionTime": "then"}],
                          "admission": make_admission()}),
            id="no moment",
        ),
        pytest.param(odd_workload(priority=10**12, active=None), id="priority"),
        pytest.param(
            odd_workload(metadata={"ownerReferences": [{"kind": "Pod", "apiVersion": "v1",
                                                        "name": "x", "uid": "y",
                                                        "controller": True}]}),
            id="owner gone",
        ),
        pytest.param(
            odd_workload(metadata={"ownerReferences": [{"controller": True}]}), id="odd owner"
        ),
    ],
)  # fmt: skip
def test_an_odd_workload_stops_nobody_else(document: dict[str, Any]) -> None:
    world = ready_world()
    show(world, resources.WORKLOADS, document)
    others_go_on(world)


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (resources.CLUSTER_QUEUES, {}),
        (resources.CLUSTER_QUEUES, {"queueingStrategy": "Best"}),
        (resources.CLUSTER_QUEUES, {"stopPolicy": "Perhaps"}),
        (resources.CLUSTER_QUEUES, {"preemption": {"withinClusterQueue": "Sometimes"}}),
        (resources.CLUSTER_QUEUES, {"flavorFungibility": {"whenCanBorrow": "Borrow"}}),
        (resources.CLUSTER_QUEUES, {"cohortName": "odd", "fairSharing": {"weight": "heavy"}}),
        (resources.CLUSTER_QUEUES, {"resourceGroups": [{}]}),
        (resources.CLUSTER_QUEUES, {"resourceGroups": [
            {"coveredResources": ["a"], "flavors": [{"name": "a100", "resources": []}]}]}),
        (resources.CLUSTER_QUEUES, {"resourceGroups": [
            {"coveredResources": ["a"], "flavors": [
                {"name": "a100", "resources": [{"name": "a", "nominalQuota": "many"}]}]}]}),
        (resources.CLUSTER_QUEUES, {"namespaceSelector": {"matchExpressions": [
            {"key": "a", "operator": "Like", "values": ["b"]}]}}),
        (resources.LOCAL_QUEUES, {}),
        (resources.LOCAL_QUEUES, {"stopPolicy": "Perhaps", "clusterQueue": "gpus"}),
        (resources.LOCAL_QUEUES, {"clusterQueue": "gpus", "fairSharing": {"weight": "heavy"}}),
        (resources.RESOURCE_FLAVORS, {}),
        (resources.RESOURCE_FLAVORS, {"nodeTaints": [{"key": "a", "effect": "Sometimes"}]}),
        (resources.RESOURCE_FLAVORS, {"tolerations": [{"operator": "Like"}]}),
        (resources.COHORTS, {"parentName": "odd"}),
        (resources.COHORTS, {"fairSharing": {"weight": "heavy"}}),
        (resources.ADMISSION_CHECKS, {}),
    ],
)  # fmt: skip
def test_an_odd_queue_or_flavor_stops_nobody_else(
    resource: Resource, spec: dict[str, Any]
) -> None:
    world = ready_world()
    metadata = {"namespace": "ml"} if resource is resources.LOCAL_QUEUES else {}
    show(world, resource, {"metadata": metadata, "spec": spec})
    others_go_on(world)


@pytest.mark.parametrize(
    ("resource", "document", "field"),
    [
        (resources.CLUSTER_QUEUES, {"spec": {"queueingStrategy": "Best"}},
         "spec.queueingStrategy: must be one of"),
        (resources.LOCAL_QUEUES, {"metadata": {"namespace": "ml"},
                                  "spec": {"stopPolicy": "Perhaps"}}, "spec.stopPolicy"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_told_on_the_object(
    resource: Resource, document: dict[str, Any], field: str
) -> None:
    world = ready_world()
    show(world, resource, document)
    (note,) = {
        note for name, reason, note in world.events.recorded
        if (name, reason) == ("odd", "NotUnderstood")
    }  # fmt: skip
    assert field in note


def test_a_workload_that_cannot_be_read_says_so_and_waits() -> None:
    world = ready_world()
    world.add({**odd_workload(pod={**affinity("Near")}), "kind": "Workload",
               "apiVersion": "kueue.x-k8s.io/v1beta2"})  # fmt: skip
    world.pass_time(2)
    found = world.store.get(resources.WORKLOADS, "odd", "ml", into=Workload)
    said = found.status.condition("QuotaReserved")
    assert said is not None
    assert (said.status, said.reason) == ("False", "Misconfigured")
    assert "affinity" in said.message


def test_what_an_unreadable_workload_holds_stays_counted() -> None:
    world = ready_world(quota=4)
    status = {"conditions": [RESERVED, ADMITTED], "admission": make_admission(count=3)}
    show(world, resources.WORKLOADS, odd_workload(status, pod=affinity("Near")))
    world.pass_time(2)
    assert world.core.synced
    assert world.status_of("gpus")["flavorsReservation"][0]["resources"][0]["total"] == "3"


def test_a_workload_that_only_a_bug_can_explain_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.add(make_namespace())
    world.add(make_flavor(), make_cluster_queue(), make_local_queue())
    world.add_pod("bad")
    world.settle()

    def fail(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("admission.controller.queues.affected_workloads.around", fail)
        world.add_pod("worse")
        world.settle()
    world.pass_time(61)
    assert world.admitted() == {"bad", "worse"}


def test_a_status_that_only_a_bug_can_explain_is_left_and_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world()
    world.pass_time(2)

    def fail(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("admission.controller.queues.queuemetrics.local_queue", fail)
        world.add_pod("train")
        world.pass_time(2)
    assert world.status_of("gpus")["admittedWorkloads"] == 1


def skipped(logged: Sequence[Mapping[str, Any]]) -> set[str]:
    return {line["name"] for line in logged if line["event"] == "workload skipped"}


def test_a_head_that_only_a_bug_can_explain_is_set_aside_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world()
    known = nomination._assign

    def fail(snapshot: Any, head: Head, *args: Any, **kwargs: Any) -> Any:
        if head.key.name.startswith("pod-bad-"):
            raise RecursionError("a bug")
        return known(snapshot, head, *args, **kwargs)

    with monkeypatch.context() as patched, capture_logs() as logged:
        patched.setattr(nomination, "_assign", fail)
        world.add_pod("bad")
        others_go_on(world)
        said = world.condition("bad")
    assert "bad" not in world.admitted()
    assert skipped(logged) == {world.workloads()["bad"].metadata.name}
    assert said is not None
    assert "an error of gpu-admission ended the decision about it" in said.message

    world.pass_time(61)
    assert "bad" in world.admitted()


def test_a_reason_that_only_a_bug_can_explain_ends_nothing_and_is_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ready_world(quota=1)

    def fail(_: PendingConditionWriter, wait: Wait) -> Wait:
        if isinstance(wait.why, NoFlavor):
            raise RecursionError("a bug")
        return wait

    with monkeypatch.context() as patched, capture_logs() as logged:
        patched.setattr(PendingConditionWriter, "_with_relief", fail)
        world.add_pod("large", gpus=9)
        world.pass_time(3)
        others_go_on(world)
        assert skipped(logged) == {world.workloads()["large"].metadata.name}
        world.pass_time(61)
        said = world.condition("large")
    assert said is not None
    assert "an error of gpu-admission ended" in said.message


# ------------------------------------------------------------------------------- texts of users


OURS = sorted(
    text
    for key, text in vars(names).items()
    if key.isupper() and isinstance(text, str) and text.count("/") == 1
)
"""Names of labels and annotations, and of others that look like them."""


@pytest.mark.parametrize(
    "text", ["9" * 5000, "[" * 20_000, '{"train":' + "[" * 20_000 + "]" * 20_000 + "}"]
)
def test_others_go_on_whatever_annotations_users_write(text: str) -> None:
    """As users do where no review is asked."""
    world = ready_world(quota=1)
    for number, key in enumerate(OURS):
        annotations = {key: text}
        world.add_pod(f"odd-{number}", gpus=9, annotations=annotations)
        labels = {names.POD_GROUP_NAME: f"odd-{number}"}
        world.add_pod(f"of-{number}", gpus=9, labels=labels, annotations=annotations)
        world.add(
            queued_job(f"job-{number}", gpus=9, annotations=annotations),
            make_workload(
                f"by-hand-{number}",
                make_pod_set(gpus=9),
                metadata={"annotations": annotations},
            ),
        )
    others_go_on(world)
    assert not world.core.is_reverted
