"""A review of an owner that serves brings its queue to its pod templates, and nothing else."""

import copy
from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import conditions, fielderrors, names
from admission.owners import serving
from admission.webhook import admission_warnings, serving_review
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view, local_queue_view
from tests.webhook.builders import NOW_US, RULES, Cluster, make_cluster

Deployment = serving.document(serving.DEPLOYMENT)
CONTEXT = Context(namespace="team-a", now_us=NOW_US)
QUEUE = names.QUEUE_LABEL
REACHED = {
    "labels": {names.MANAGED_LABEL: "true", QUEUE: "batch"},
    "annotations": {names.POD_SUSPENDING_PARENT: "deployment"},
}


def make_deployment(
    queue: str = "batch",
    *,
    template: Mapping[str, Any] | None = None,
    gpus: int = 1,
    ready: int = 0,
    **metadata: Any,
) -> dict[str, Any]:
    """A Deployment; ``template`` is the metadata of its pod template."""
    pods: dict[str, Any] = {"spec": make_pod(gpus=gpus)["spec"]}
    if template is not None:
        pods["metadata"] = dict(template)
    return {
        "metadata": {"name": "serve", "labels": {QUEUE: queue} if queue else {}, **metadata},
        "spec": {"template": pods},
        "status": {"readyReplicas": ready} if ready else {},
    }


def mutate(
    new: Mapping[str, Any], cluster: Cluster, old: Mapping[str, Any] | None = None
) -> ReviewOutcome:
    was = None if old is None else msgspec.convert(old, Deployment)
    return serving_review.mutate(was, msgspec.convert(new, Deployment), CONTEXT, RULES, cluster)


def after(document: Mapping[str, Any], outcome: ReviewOutcome) -> dict[str, Any]:
    changed: dict[str, Any] = jsonpatch.apply_patch(document, outcome.operations)
    return changed


IN_VAIN = (
    f"Without effect: {names.GPU_MEMORY} belongs on the pods, so in metadata of the pod template"
)


def test_an_update_that_annotates_an_owner_instead_of_its_pods_is_told_that_it_has_no_effect() -> (
    None
):
    was, now = (
        msgspec.convert(make_deployment(annotations=annotations), Deployment)
        for annotations in ({}, {names.GPU_MEMORY: "40Gi"})
    )
    told = serving_review.validate(was, now, CONTEXT, RULES, make_cluster())
    assert told.warnings == (IN_VAIN,)
    assert serving_review.validate(now, now, CONTEXT, RULES, make_cluster()).warnings == ()


def errors(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    was = None if old is None else msgspec.convert(old, Deployment)
    now = msgspec.convert(new, Deployment)
    found = serving_review.validate(was, now, CONTEXT, RULES, make_cluster())
    return fielderrors.aggregate(found.errors) if found.errors else ""


@pytest.mark.parametrize("template", [None, {}, {"labels": {QUEUE: "elsewhere"}}])
def test_the_queue_reaches_the_template_and_once_is_enough(
    template: dict[str, Any] | None,
) -> None:
    cluster, document = make_cluster("batch"), make_deployment(template=template)
    for old in (None, document):
        changed = after(document, mutate(document, cluster, old))
        assert changed["spec"]["template"]["metadata"] == REACHED
        assert mutate(changed, cluster, old).operations == ()


def test_the_default_queue_takes_new_owners_of_gpu_pods_only() -> None:
    cluster = make_cluster("default")
    wants = make_deployment(queue="")
    assert after(wants, mutate(wants, cluster))["metadata"]["labels"][QUEUE] == "default"
    assert mutate(wants, cluster, old=wants).operations == ()
    assert mutate(make_deployment(queue="", gpus=0), cluster).operations == ()
    itself = make_deployment(queue="", template={"labels": {QUEUE: "batch"}})
    assert mutate(itself, cluster).operations == ()


def test_a_default_priority_class_is_given_to_new_owners() -> None:
    cluster = make_cluster("batch", priority_classes=frozenset({"default"}))
    document = make_deployment()
    changed = after(document, mutate(document, cluster))
    for labels in (
        changed["metadata"]["labels"],
        changed["spec"]["template"]["metadata"]["labels"],
    ):
        assert labels[names.PRIORITY_CLASS_LABEL] == "default"
    old = after(document, mutate(document, cluster, old=document))
    assert names.PRIORITY_CLASS_LABEL not in old["metadata"]["labels"]


def test_an_owner_of_another_owner_that_serves_is_left_to_it() -> None:
    by = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "p", "uid": "u"}
    owned = make_deployment(ownerReferences=[{**by, "controller": True}])
    assert mutate(owned, make_cluster("batch")).operations == ()


def test_a_queue_that_does_not_exist_is_warned_about_once() -> None:
    document = make_deployment(gpus=0)
    (warning,) = mutate(document, make_cluster("other")).warnings
    assert warning.startswith("Waits: LocalQueue batch does not exist in its namespace")
    assert mutate(document, make_cluster("other"), old=document).warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (None, make_deployment("A_"), "metadata.labels[kueue.x-k8s.io/queue-name]: Invalid"),
        (make_deployment("a"), make_deployment("b"), ""),
        (make_deployment("a", ready=1), make_deployment("b", ready=1), "field is immutable"),
        (make_deployment("", ready=1), make_deployment("b", ready=1), "field is immutable"),
        (make_deployment("a"), make_deployment(""), "would be in no queue"),
        (make_deployment("a", ready=1), make_deployment("", ready=1), "field is immutable"),
        (make_deployment("a", ready=1), make_deployment("a"), ""),
    ],
)
def test_the_queue_changes_only_while_nothing_is_ready(
    old: dict[str, Any] | None, new: dict[str, Any], text: str
) -> None:
    found = errors(new, old)
    assert text in found
    assert bool(found) is bool(text)


def elastic(deployment: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with the gate of pods whose number may change; they are told no domain."""
    pod_spec = deployment["spec"]["template"]["spec"]
    pod_spec["schedulingGates"] = [{"name": names.ELASTIC_JOB_GATE}]
    return deployment


def test_a_template_whose_pods_would_be_refused_is_refused() -> None:
    required = {"annotations": {names.REQUIRED_TOPOLOGY: "rack"}}
    plain, asking = make_deployment(), elastic(make_deployment(template=required))
    unqueued = elastic(make_deployment(queue="", template=required))
    path = f"spec.template.metadata.annotations[{names.REQUIRED_TOPOLOGY}]: Forbidden"
    assert path in errors(asking)
    assert path in errors(asking, old=plain)
    assert path in errors(asking, old=unqueued)
    assert errors(unqueued) == ""
    assert errors(asking, old=asking) == ""  # it was there before us


def test_what_a_template_asks_for_in_vain_is_warned_about_once() -> None:
    preferred = {"annotations": {names.PREFERRED_TOPOLOGY: "rack"}}
    new = msgspec.convert(elastic(make_deployment(template=preferred)), Deployment)
    (text,) = serving_review.validate(None, new, CONTEXT, RULES, make_cluster()).warnings
    key = f"spec.template.metadata.annotations[{names.PREFERRED_TOPOLOGY}]"
    assert text.startswith(f"{key} has no effect")
    assert serving_review.validate(new, new, CONTEXT, RULES, make_cluster()).warnings == ()


def test_a_template_of_another_shape_is_refused() -> None:
    broken = {"metadata": {"labels": {QUEUE: "batch"}}, "spec": {"template": 7}}
    (error,) = mutate(broken, make_cluster("batch")).errors
    assert "spec.template: must be an object" in error.detail


# ------------------------------------------------------------------- pods that are one group

StatefulSet = serving.document(serving.STATEFUL_SET)


def errors_of_set(new: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    was, now = (msgspec.convert(side, StatefulSet) for side in (old, new))
    judged = serving_review.validate(was, now, CONTEXT, RULES, make_cluster())
    return fielderrors.aggregate(judged.errors) if judged.errors else ""


def make_set(replicas: int | None, *, running: int = 0, **pod: Any) -> dict[str, Any]:
    """A StatefulSet in a queue; ``pod`` changes the spec of its template."""
    document = make_deployment()
    document["spec"] |= {} if replicas is None else {"replicas": replicas}
    document["spec"]["template"]["spec"] |= pod
    return document | {"status": {"replicas": running} if running else {}}


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({}, ""),
        ({"terminationGracePeriodSeconds": 5}, ""),
        ({"nodeSelector": {"zone": "a"}}, "spec.template.spec.nodeSelector"),
        ({"priority": 7}, "spec.template.spec.priority"),
    ],
    ids=["nothing", "what no role depends on", "node selector", "priority"],
)
@pytest.mark.parametrize("is_removed", [False, True], ids=["set", "removed"])
def test_what_the_role_of_a_pod_depends_on_stays_as_long_as_its_group_has_replicas(
    changed: dict[str, Any], refused: str, *, is_removed: bool
) -> None:
    old, new = make_set(2, running=2), make_set(2, running=2, **changed)
    told = errors_of_set(old, new) if is_removed else errors_of_set(new, old)
    assert told.count("scale to 0 first") == bool(refused)
    assert refused in told


@pytest.mark.parametrize(
    ("before", "running", "after_", "refused"),
    [
        (0, 0, 2, ""),
        (0, 1, 2, "scaling down is still in progress"),
        (0, 1, 0, ""),
        (2, 2, 0, ""),
        (2, 2, 2, ""),
        (2, 2, 3, "scale to 0 first, and then to the new number"),
        (None, 1, 3, "scale to 0 first, and then to the new number"),
        (None, 1, 1, ""),
    ],
)
def test_a_stateful_set_gets_another_number_of_replicas_only_from_0_without_pods(
    before: int | None, running: int, after_: int, refused: str
) -> None:
    old, new = make_set(before, running=running), make_set(after_, running=running)
    told = errors_of_set(new, old)
    assert refused in told
    assert bool(told) is bool(refused)


# --------------------------------------------------------------------------------- Volcano Jobs

VolcanoJob = serving.document(serving.VOLCANO_JOB)


def volcano_job(queue: str, **metadata: Any) -> dict[str, Any]:
    """A Volcano Job with a master that asks for no GPUs, and workers that do."""
    tasks = [
        {"name": name, "replicas": 1, "template": {"spec": make_pod(gpus=gpus)["spec"]}}
        for name, gpus in (("master", 0), ("worker", 1))
    ]
    return {"metadata": {"name": "train", **metadata}, "spec": {"queue": queue, "tasks": tasks}}


OTHER_QUEUE = (
    "Goes through LocalQueue default: its namespace has no LocalQueue elsewhere. For another one,"
    " set the label kueue.x-k8s.io/queue-name"
)


@pytest.mark.parametrize(
    ("queue", "labels", "expected"),
    [
        ("batch", {}, "batch"),
        ("elsewhere", {}, "default"),
        ("batch", {QUEUE: "other"}, "other"),
    ],
)
def test_all_tasks_of_a_volcano_job_get_its_queue(
    queue: str, labels: dict[str, str], expected: str
) -> None:
    document = volcano_job(queue, labels=labels)
    new = msgspec.convert(document, VolcanoJob)
    cluster = make_cluster("batch", "default")
    outcome = serving_review.mutate(None, new, CONTEXT, RULES, cluster)
    changed = after(document, outcome)
    assert changed["metadata"]["labels"][QUEUE] == expected
    told = [text for text in outcome.warnings if "Goes through" in text]
    assert told == ([OTHER_QUEUE] if queue == "elsewhere" else [])
    reached = {"labels": {names.MANAGED_LABEL: "true", QUEUE: expected}}
    assert [one["template"]["metadata"] for one in changed["spec"]["tasks"]] == [reached, reached]


def test_a_quantity_with_a_fraction_becomes_text() -> None:
    """As in Kueue: the schema of a custom resource takes no such number."""
    document = volcano_job("batch")
    (master, _) = document["spec"]["tasks"]
    master["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 0.5}}
    new = msgspec.convert(document, VolcanoJob)
    cluster = make_cluster("batch")
    changed = after(document, serving_review.mutate(None, new, CONTEXT, RULES, cluster))
    (master, _) = changed["spec"]["tasks"]
    assert master["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "0.5"}


def test_a_volcano_job_in_no_queue_is_left_as_it_is() -> None:
    new = msgspec.convert(volcano_job("elsewhere"), VolcanoJob)
    outcome = serving_review.mutate(None, new, CONTEXT, RULES, make_cluster("batch"))
    assert outcome.operations == ()


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
IN_PLACE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


@pytest.mark.parametrize(
    ("replicas", "strategy", "gpus", "more"),
    [
        (1, ROLLING, 2, 2),
        (10, None, 2, 6),  # a quarter, rounded up
        (4, {"rollingUpdate": {"maxSurge": "50%"}}, 1, 2),
        (4, IN_PLACE, 1, 0),
        (4, {"rollingUpdate": {"maxSurge": "0%"}}, 1, 0),
        (4, {"type": "Recreate"}, 1, 0),
        (4, ROLLING, 0, 0),
    ],
)
def test_who_writes_a_deployment_that_surges_is_told_what_a_rolling_update_lacks(
    replicas: int, strategy: dict[str, Any] | None, gpus: int, more: int
) -> None:
    """At creation beside the pods that are to come, at an update beside those that are there."""
    document = make_deployment(gpus=gpus)
    document["spec"] |= {"replicas": replicas, **({"strategy": strategy} if strategy else {})}
    image = copy.deepcopy(document)
    image["spec"]["template"]["spec"]["containers"][0]["image"] = "serve:2"

    def about(free: int, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
        told = mutate(new, queue_with(a=free), old).warnings
        return [text for text in told if "rolling update needs" in text]

    for room, new, old, begin in (
        (replicas * gpus, document, None, "A rolling update needs "),
        (0, image, document, "May wait: a rolling update needs "),
    ):
        texts = about(max(0, room + more - 1), new, old)
        assert len(texts) == (1 if more else 0)
        for text in texts:
            assert text.startswith(f"{begin}{more} nvidia.com/gpu more (maxSurge) in ClusterQueue")
            assert text.endswith("To update without: maxSurge: 0, maxUnavailable: 1")
        assert about(room + more, new, old) == []
    assert about(0, document, document) == []


def with_image(document: dict[str, Any], image: str = "serve:2") -> dict[str, Any]:
    """The same with another image, as a rolling update brings it."""
    changed = copy.deepcopy(document)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return changed


def told_of_update(
    new: dict[str, Any], cluster: Cluster, old: dict[str, Any] | None = None
) -> list[str]:
    return [text for text in mutate(new, cluster, old).warnings if "rolling update needs" in text]


def make_rolling(replicas: int) -> dict[str, Any]:
    document = make_deployment()
    document["spec"] |= {"replicas": replicas, "strategy": ROLLING}
    return document


def test_replicas_that_are_added_count_beside_what_a_rolling_update_needs() -> None:
    few, many = make_rolling(2), with_image(make_rolling(4))
    for free, is_told in ((2, True), (3, False)):
        assert bool(told_of_update(many, queue_with(a=free), few)) is is_told


@pytest.mark.parametrize(("before", "after_"), [(2, 4), (4, 2)])
def test_a_change_of_the_number_of_replicas_updates_no_pod(before: int, after_: int) -> None:
    assert told_of_update(make_rolling(after_), queue_with(a=0), make_rolling(before)) == []


def test_the_pods_of_an_update_may_go_to_several_flavors() -> None:
    assert told_of_update(make_rolling(10), queue_with(a=8, b=3)) == []
    assert told_of_update(make_rolling(10), queue_with(a=8, b=2)) != []


@pytest.mark.parametrize(
    ("strategy", "pending", "waits"),
    [("StrictFIFO", 3, True), ("StrictFIFO", 0, False), ("BestEffortFIFO", 3, False)],
)
def test_in_a_strict_queue_the_pods_of_an_update_wait_behind_others(
    strategy: str, pending: int, *, waits: bool
) -> None:
    cluster = queue_with(a=8)
    queue = cluster_queue_view(
        {"a": {names.GPU_RESOURCE: "8"}},
        queueingStrategy=strategy,
        status={"pendingWorkloads": pending},
    )
    cluster.cluster_queues = {"gpus": queue}
    old = make_rolling(1)
    assert bool(told_of_update(with_image(old), cluster, old)) is waits


@pytest.mark.parametrize(("policy", "waits"), [("Any", False), ("Never", True)])
def test_the_pods_of_an_update_may_take_back_what_others_borrow(
    policy: str, *, waits: bool
) -> None:
    cluster = queue_with(a=8)
    queues = {
        name: cluster_queue_view(
            {"a": {names.GPU_RESOURCE: "8"}}, name=name, cohortName="all",
            preemption={"reclaimWithinCohort": policy},
            status={"flavorsReservation": [
                {"name": "a", "resources": [{"name": names.GPU_RESOURCE, "total": used}]}
            ]},
        )
        for name, used in (("gpus", "1"), ("borrower", "15"))
    }  # fmt: skip
    cluster.cluster_queues = queues
    old = make_rolling(1)
    assert bool(told_of_update(with_image(old), cluster, old)) is waits


@pytest.mark.parametrize(("cap", "waits"), [(4, True), (5, False)])
@pytest.mark.parametrize("key", [names.MAX_IN_USE, names.MAX_PER_USER])
def test_a_cap_stops_a_rolling_update(key: str, cap: int, *, waits: bool) -> None:
    cluster = queue_with(a=16)
    marks = {key: f"{names.GPU_RESOURCE}={cap}"}
    view = local_queue_view("batch", "gpus")
    metadata = msgspec.structs.replace(view.metadata, annotations=marks)
    cluster.local_queues = {("team-a", "batch"): msgspec.structs.replace(view, metadata=metadata)}
    old = make_rolling(4)
    assert bool(told_of_update(with_image(old), cluster, old)) is waits


@pytest.mark.parametrize(
    ("cap", "waits"),
    [
        (f"{names.GPU_RESOURCE}=9", True),
        (f"{names.GPU_RESOURCE}=10", False),
        ("nvidia.com/mig-1g.10gb=1", False),
    ],
)
def test_a_cap_counts_what_each_pod_of_an_update_asks_for(cap: str, *, waits: bool) -> None:
    cluster = queue_with(a=16)
    view = local_queue_view("batch", "gpus")
    metadata = msgspec.structs.replace(view.metadata, annotations={names.MAX_IN_USE: cap})
    cluster.local_queues = {("team-a", "batch"): msgspec.structs.replace(view, metadata=metadata)}
    old = make_rolling(4)
    old["spec"]["template"]["spec"] = make_pod(gpus=2)["spec"]
    assert bool(told_of_update(with_image(old), cluster, old)) is waits


@pytest.mark.parametrize("guard", [names.CAPACITY_GUARD_ENFORCE, names.CAPACITY_GUARD_OFF])
def test_a_queue_that_is_held_to_what_exists_may_not_have_room(guard: str) -> None:
    cluster, old = queue_with(a=8), make_rolling(1)
    short = {"type": conditions.CAPACITY_SUFFICIENT, "status": "False"}
    queue = cluster_queue_view(
        {"a": {names.GPU_RESOURCE: "8"}},
        annotations={names.CAPACITY_GUARD: guard},
        status={"conditions": [short]},
    )
    cluster.cluster_queues = {"gpus": queue}
    is_told = bool(told_of_update(with_image(old), cluster, old))
    assert is_told is (guard == names.CAPACITY_GUARD_ENFORCE)


@pytest.mark.parametrize("change", [{"paused": True}, {"revisionHistoryLimit": 3}])
def test_a_change_that_replaces_no_pod_is_not_warned_about(change: dict[str, Any]) -> None:
    old = make_rolling(2)
    new = {**old, "spec": {**old["spec"], **change}}
    assert told_of_update(new, queue_with(a=0), old) == []


def test_an_owner_without_replicas_updates_nothing() -> None:
    assert told_of_update(make_rolling(0), queue_with(a=0)) == []


@pytest.mark.parametrize(("queue", "is_named"), [("speech", True), ("q" * 120, False)])
def test_a_warning_about_rollouts_names_the_queue_where_it_fits(
    queue: str, *, is_named: bool
) -> None:
    found = mutate(make_deployment(gpus=1), queue_with(queue, a=1)).warnings
    (warning,) = (one for one in found if "rolling update needs" in one)
    assert (queue in warning) is is_named
    assert len(warning) <= admission_warnings.LONGEST


def queue_with(queue: str = "gpus", /, **flavors: int) -> Cluster:
    """A cluster whose LocalQueue ``batch`` has so many GPUs of each flavor in a queue."""
    quotas = {name: {names.GPU_RESOURCE: str(gpus)} for name, gpus in flavors.items()}
    found = cluster_queue_view(quotas, name=queue)
    views = {name: flavor_view(name) for name in flavors}
    return make_cluster("batch", cluster_queues={"gpus": found}, flavors=views)


@pytest.mark.parametrize(
    ("flavors", "replicas", "gpus", "at_once"),
    [
        ({"a": 8}, 4, 2, 0),
        ({"a": 8}, 5, 2, 4),
        ({"a": 3, "b": 3}, 3, 2, 2),
        ({"a": 8, "b": 8}, 8, 2, 0),
        ({"a": 8}, 3, 9, 0),
    ],
    ids=[
        "all fit", "some do", "a pod gets one flavor", "all fit in two flavors",
        "not even one fits, which is told otherwise",
    ],
)  # fmt: skip
def test_who_asks_for_more_replicas_than_can_ever_run_is_told_how_many_can(
    flavors: dict[str, int], replicas: int, gpus: int, at_once: int
) -> None:
    document = make_deployment(gpus=gpus)
    document["spec"] |= {"replicas": replicas, "strategy": {"type": "Recreate"}}
    expected = (
        f"Too many: {at_once} of {replicas} replicas can run at once in ClusterQueue gpus. Ask for"
        " fewer, or have the quota raised"
    )
    found = mutate(document, queue_with(**flavors)).warnings
    assert [text for text in found if text.startswith("Too many")] == [expected] * bool(at_once)


@pytest.mark.parametrize(("before", "told"), [(2, True), (8, False), (9, False)])
def test_a_deployment_that_grows_beyond_its_queue_is_told_again(before: int, told: bool) -> None:
    old, new = make_deployment(), make_deployment()
    old["spec"] |= {"replicas": before, "strategy": {"type": "Recreate"}}
    new["spec"] |= {"replicas": 8, "strategy": {"type": "Recreate"}}
    found = mutate(new, queue_with(a=4), old=old).warnings
    assert [text.partition(" can")[0] for text in found] == ["Too many: 4 of 8 replicas"] * told


def test_the_marks_of_an_earlier_admission_are_dropped_from_a_new_template() -> None:
    template = {
        "labels": {names.PODSET_LABEL: "main"},
        "annotations": {names.WORKLOAD_ANNOTATION: "old"},
    }
    cluster, document = make_cluster("batch"), make_deployment(template=template)
    made = after(document, mutate(document, cluster))["spec"]["template"]["metadata"]
    assert names.PODSET_LABEL not in made["labels"]
    assert names.WORKLOAD_ANNOTATION not in made["annotations"]


def test_who_gives_a_deployment_a_class_that_does_not_exist_is_told_once() -> None:
    old, new = make_deployment(gpus=0), make_deployment(gpus=0)
    new["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] = "nope"
    (warning,) = mutate(new, make_cluster("batch"), old=old).warnings
    assert warning.startswith('Waits: WorkloadPriorityClass "nope" not found')
    assert mutate(new, make_cluster("batch"), old=new).warnings == ()
