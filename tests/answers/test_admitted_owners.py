"""What `why` says of owners that are admitted: how many of their pods, and where these are."""

from typing import Any

import pytest
from typing_extensions import override

from admission.answers import why
from admission.base import events, names, patches
from admission.kube import resources
from admission.kube.api import Page
from admission.kube.resources import Resource
from admission.objects import crds
from admission.sandbox.store import Store
from tests.answers.rights import OfTeam, refused
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.metadata import Document, make_condition
from tests.builders.pods import make_pod
from tests.builders.workloads import make_workload

POD_SET = {names.PODSET_LABEL: "main"}


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return crds.documents()


@pytest.fixture
def store(documents: list[Document]) -> Store:
    made = Store(crds=documents)
    made.create(resources.NAMESPACES, make_namespace("ml"))
    return made


def admit_job(store: Store, asked: int, admitted: int, reclaimable: int = 0) -> None:
    """Make a Job with an admitted Workload."""
    labels = {names.QUEUE_LABEL: "default"}
    job = store.create(resources.JOBS, make_job("train", asked, labels=labels), "ml")
    metadata = {"labels": {names.JOB_UID_LABEL: job["metadata"]["uid"]}}
    workload = make_workload("w", namespace="ml", queue="default", metadata=metadata)
    workload["spec"]["podSets"][0]["count"] = asked
    made = store.create(resources.WORKLOADS, workload)
    part = {"name": "main", "count": admitted, "flavors": {names.GPU_RESOURCE: "a100"}}
    status: Document = {
        "conditions": [make_condition("Admitted", "True", "Admitted", "")],
        "admission": {"clusterQueue": "research", "podSetAssignments": [part]},
    }
    if reclaimable:
        status["reclaimablePods"] = [{"name": "main", "count": reclaimable}]
    store.replace(resources.WORKLOADS, {**made, "status": status}, subresource="status")


def start_pod(store: Store, name: str, node: str, workload: str = "w", phase: str = "") -> None:
    pod = make_pod(
        name, namespace="ml", labels=POD_SET, annotations={names.WORKLOAD_ANNOTATION: workload},
        nodeName=node,
    )  # fmt: skip
    made = store.create(resources.PODS, pod)
    if phase:
        store.replace(resources.PODS, {**made, "status": {"phase": phase}}, subresource="status")


@pytest.mark.parametrize(
    ("asked", "admitted", "reclaimable", "told"),
    [
        (3, 3, 0, ""),
        (6, 4, 0, "; it holds quota for 4 of 6 pods"),
        (0, 0, 0, "; it asks for no pods, and holds no quota"),
        (3, 3, 1, "; it holds quota for 2 of 3 pods"),
        (2, 2, 2, "; it holds quota for 0 of 2 pods"),
    ],
    ids=["all", "partial admission", "parallelism 0", "one has ended", "all have ended"],
)
def test_an_owner_with_fewer_pods_than_it_asked_for_says_how_many(
    store: Store, asked: int, admitted: int, reclaimable: int, told: str
) -> None:
    admit_job(store, asked, admitted, reclaimable)
    answer = why.explain(store, "ml", "job.batch/train")
    assert answer.message == f"Admitted by ClusterQueue research on a100{told}."


@pytest.mark.parametrize("what", ["job.batch/train", "workload/w"])
def test_an_admitted_owner_says_on_which_nodes_its_pods_are(store: Store, what: str) -> None:
    admit_job(store, 3, 3)
    for name, node in (("a", "n1"), ("b", "n0"), ("c", "n1"), ("unplaced", "")):
        start_pod(store, name, node)
    start_pod(store, "of-another", "n2", "other")
    start_pod(store, "ended", "n3", phase="Succeeded")
    assert why.explain(store, "ml", what).nodes == {"n0": 1, "n1": 2}


class WithoutPods(OfTeam):
    """A store as it is seen by who may not list pods."""

    @override
    def list(self, resource: Resource, namespace: str = "", **more: Any) -> Page[Any]:
        if resource == resources.PODS:
            raise refused(resource.plural)
        return super().list(resource, namespace, **more)


def test_who_may_not_list_pods_is_told_that_nodes_are_not_shown(store: Store) -> None:
    admit_job(store, 3, 3)
    start_pod(store, "a", "n1")
    api: Any = WithoutPods(store, "ml")
    answer = why.explain(api, "ml", "job.batch/train")
    assert not answer.nodes
    assert answer.missing == ("Its nodes are not shown: you may not list pods of ml",)


def test_a_job_without_a_queue_whose_pods_hold_quota_says_what_its_pods_say(store: Store) -> None:
    job = store.create(resources.JOBS, make_job("night", 1), "ml")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "night", "controller": True}
    pod = make_pod(
        "night-a", namespace="ml", nodeName="n1",
        labels={names.MANAGED_LABEL: names.MANAGED_VALUE},
        annotations={names.WORKLOAD_ANNOTATION: "w"},
    )  # fmt: skip
    pod["metadata"]["ownerReferences"] = [{**owner, "uid": job["metadata"]["uid"]}]
    store.create(resources.PODS, pod)
    made = store.create(resources.WORKLOADS, make_workload("w", namespace="ml", queue="default"))
    part = {"name": "main", "count": 1, "flavors": {names.GPU_RESOURCE: "a100"}}
    status: Document = {
        "conditions": [make_condition("Admitted", "True", "Admitted", "")],
        "admission": {"clusterQueue": "research", "podSetAssignments": [part]},
    }
    store.replace(resources.WORKLOADS, {**made, "status": status}, subresource="status")
    answer = why.explain(store, "ml", "job.batch/night")
    assert answer.message == "Admitted by ClusterQueue research on a100."
    assert [part.name for part in answer.parts] == ["pod/night-a"]
    api: Any = WithoutPods(store, "ml")
    assert why.explain(api, "ml", "job.batch/night").reason == "NotManaged"


AWAITED = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def tell_not_running(store: Store, missing: str) -> None:
    """Have the Workload say that its pods do not run."""
    workload = store.get(resources.WORKLOADS, "w", "ml")
    said = f"Not all pods are ready or succeeded: {missing}"
    condition = make_condition("PodsReady", "False", "WaitForStart", said)
    status = {
        **workload["status"],
        "conditions": [*workload["status"]["conditions"], condition],
    }
    store.replace(resources.WORKLOADS, {**workload, "status": status}, subresource="status")


def tell_of_pod(store: Store, name: str, kind: str, status: str, message: str = "") -> None:
    """Give a pod a condition."""
    pod = store.get(resources.PODS, name, "ml")
    told = {"conditions": [make_condition(kind, status, "Because", message)]}
    store.replace(resources.PODS, {**pod, "status": told}, subresource="status")


NOT_CREATED = "0 of 2 pods are created; the events of its owner may say why"


@pytest.mark.parametrize("what", ["job.batch/train", "workload/w", "pod/a"])
def test_pods_that_came_since_the_condition_was_written_are_counted(
    store: Store, what: str
) -> None:
    admit_job(store, 2, 2)
    tell_not_running(store, NOT_CREATED)
    start_pod(store, "a", "")
    start_pod(store, "b", "n1")
    tell_of_pod(store, "a", "PodScheduled", "False", AWAITED)
    message = why.explain(store, "ml", what).message
    assert message == f"Admitted, but 1 of 2 pods are scheduled: {AWAITED}"


@pytest.mark.parametrize("what", ["job.batch/train", "workload/w", "pod/a"])
def test_pods_that_all_became_ready_since_are_admitted(store: Store, what: str) -> None:
    admit_job(store, 2, 2)
    tell_not_running(store, NOT_CREATED)
    start_pod(store, "a", "n1")
    tell_of_pod(store, "a", "Ready", "True")
    start_pod(store, "b", "n1", phase="Succeeded")
    answer = why.explain(store, "ml", what)
    assert (answer.reason, answer.message) == (
        "Admitted",
        "Admitted by ClusterQueue research on a100.",
    )


@pytest.mark.parametrize(
    "missing",
    [
        f"1 of 2 pods are scheduled: a pod asks 2 a100, and no node has as many free; {AWAITED}",
        "1 of 2 pods are scheduled",
    ],
    ids=["it names nodes", "nobody says why"],
)
def test_a_condition_with_the_counts_of_now_is_kept(store: Store, missing: str) -> None:
    admit_job(store, 2, 2)
    tell_not_running(store, missing)
    start_pod(store, "a", "")
    start_pod(store, "b", "n1")
    message = why.explain(store, "ml", "job.batch/train").message
    assert message.rstrip(".") == f"Admitted, but {missing}".rstrip(".")


def test_a_lost_node_stays_the_reason_while_all_pods_are_on_nodes(store: Store) -> None:
    admit_job(store, 2, 2)
    tell_not_running(store, "1 of 2 pods are ready: node n1 is not ready")
    for name in ("a", "b"):
        start_pod(store, name, "n1")
        tell_of_pod(store, name, "Ready", "True")
    message = why.explain(store, "ml", "job.batch/train").message
    assert message == "Admitted, but 1 of 2 pods are ready: node n1 is not ready."


def test_pods_that_name_no_workload_leave_what_the_condition_says(store: Store) -> None:
    admit_job(store, 2, 2)
    tell_not_running(store, NOT_CREATED)
    start_pod(store, "ended", "n1", phase="Failed")
    message = why.explain(store, "ml", "job.batch/train").message
    assert message == f"Admitted, but {NOT_CREATED}."


HAS_RUN = make_condition("PodsReady", "True", "Started", "")
DRAINED = "A pod left node n1: it was evicted, as kubectl drain does"


def admit_running_job(
    store: Store, pods: int = 1, failed: int = 0, *, has_run: bool = True
) -> str:
    """Make a Job that was admitted, and has run; return its UID."""
    admit_job(store, pods, pods)
    job = store.get(resources.JOBS, "train", "ml")
    store.replace(resources.JOBS, {**job, "status": {"failed": failed}}, subresource="status")
    workload = store.get(resources.WORKLOADS, "w", "ml")
    uid: str = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    workload["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    workload = store.replace(resources.WORKLOADS, workload)
    workload["status"]["conditions"] += [HAS_RUN] if has_run else []
    store.replace(resources.WORKLOADS, workload, subresource="status")
    return uid


def tell(store: Store, uid: str, reason: str, note: str) -> None:
    """Make an event on the Job."""
    event = {
        "metadata": {"name": "told"},
        "regarding": {"kind": "Job", "namespace": "ml", "name": "train", "uid": uid},
        "type": "Warning", "reason": reason, "note": note,
        "eventTime": "2026-01-02T03:04:05.000000Z",
    }  # fmt: skip
    store.create(resources.EVENTS, event, "ml")


@pytest.mark.parametrize(
    ("failed", "pause"), [(0, 10), (1, 10), (3, 40), (500, 600)],
    ids=["deleted", "failed once", "failed again", "the pause has an end"],
)  # fmt: skip
def test_a_job_without_pods_says_that_they_left_and_when_new_ones_come(
    store: Store, failed: int, pause: int
) -> None:
    uid = admit_running_job(store, failed=failed)
    comes = f"its controller makes new ones, normally after about {pause} s"
    answer = why.explain(store, "ml", "job.batch/train")
    assert (answer.reason, answer.state) == ("PodsNotRunning", "admitted")
    assert answer.message == f"Admitted, but has no pod now; {comes}."
    tell(store, uid, "PodDisrupted", DRAINED)
    assert why.explain(store, "ml", "job.batch/train").message == (
        "Admitted, but has no pod now; a pod left node n1: it was evicted, as kubectl drain does"
        f" (03:04:05 UTC); {comes}."
    )
    assert why.explain(store, "ml", "workload/w").message == (
        "Admitted, but has no pod now; a pod left node n1: it was evicted, as kubectl drain does"
        " (03:04:05 UTC); its controller makes new ones."
    )


@pytest.mark.parametrize(
    ("admitted", "is_told"), [("2026-01-02T03:04:05Z", True), ("2026-01-02T03:04:06Z", False)]
)
def test_what_was_told_in_the_second_of_the_admission_is_about_its_pods(
    store: Store, admitted: str, is_told: bool
) -> None:
    uid = admit_running_job(store)
    workload = store.get(resources.WORKLOADS, "w", "ml")
    for condition in workload["status"]["conditions"]:
        condition["lastTransitionTime"] = admitted
    store.replace(resources.WORKLOADS, workload, subresource="status")
    tell(store, uid, "PodDisrupted", DRAINED)

    message = why.explain(store, "ml", "job.batch/train").message

    assert ("a pod left node n1" in message) == is_told


def test_pods_that_are_ending_are_told_of_until_they_have_ended(store: Store) -> None:
    admit_running_job(store)
    start_pod(store, "a", "n1")
    pod = store.get(resources.PODS, "a", "ml")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    store.replace(resources.PODS, pod)
    store.delete(resources.PODS, "a", "ml")
    assert why.explain(store, "ml", "job.batch/train").message == (
        "Admitted, but its pods are ending; its controller makes new ones once they have ended,"
        " normally after about 10 s."
    )


@pytest.mark.parametrize("is_told", [True, False])
def test_what_a_workload_says_of_missing_pods_does_not_hide_that_they_left(
    store: Store, is_told: bool
) -> None:
    uid = admit_running_job(store, failed=1, has_run=False)
    missing = "0 of 1 pods are created; the events of its owner may say why"
    tell_not_running(store, missing)
    if is_told:
        tell(store, uid, "PodDisrupted", DRAINED)

    message = why.explain(store, "ml", "job.batch/train").message

    left = "Admitted, but has no pod now; a pod left node n1: it was evicted"
    assert message.startswith(left if is_told else f"Admitted, but {missing}")


@pytest.mark.parametrize(("failed", "reason"), [(0, "Admitted"), (1, "PodsNotRunning")])
def test_a_job_whose_pods_were_not_created_yet_has_not_lost_them(
    store: Store, failed: int, reason: str
) -> None:
    admit_running_job(store, failed=failed, has_run=False)
    assert why.explain(store, "ml", "job.batch/train").reason == reason


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_job_with_a_pod_that_runs_or_has_succeeded_has_not_lost_its_pods(
    store: Store, phase: str
) -> None:
    admit_running_job(store, pods=2, failed=1)
    start_pod(store, "a", "n1", phase=phase)
    assert why.explain(store, "ml", "job.batch/train").reason == "Admitted"


def fail_job(store: Store, reason: str, **spec: Any) -> str:
    """Have the Job fail whose four pods failed; return its UID."""
    uid = admit_running_job(store)
    job = store.get(resources.JOBS, "train", "ml")
    job["spec"] |= {"backoffLimit": 3, **spec}
    job = store.replace(resources.JOBS, job)
    failed = {**make_condition("Failed", "True", reason, "Job has reached the limit")}
    status = {"failed": 4, "conditions": [failed]}
    store.replace(resources.JOBS, {**job, "status": status}, subresource="status")
    workload = store.get(resources.WORKLOADS, "w", "ml")
    workload["status"]["conditions"] += [make_condition("Finished", "True", "Failed", "It failed")]
    store.replace(resources.WORKLOADS, workload, subresource="status")
    return uid


def tell_of_disruptions(store: Store, uid: str, count: int) -> None:
    event = events.pod_of_job_disrupted(events.pod_disrupted("n1", "EvictionByEvictionAPI", ""), 1)
    tell(store, uid, event.reason, event.note)
    if count > 1:
        series = {"count": count, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}
        change = patches.merge({"series": series})
        store.patch(resources.EVENTS, "told", change, "ml")


def test_a_job_that_failed_by_drains_says_how_many_failures_were_and_what_to_do(
    store: Store,
) -> None:
    uid = fail_job(store, "BackoffLimitExceeded")
    tell_of_disruptions(store, uid, 3)
    answer = why.explain(store, "ml", "job.batch/train")
    assert answer.state == "finished"
    (note,) = answer.notes
    assert note == (
        "3 of its 4 failed pods were disrupted, which backoffLimit (3) counts like any other"
        " failure; the last: a pod left node n1: it was evicted, as kubectl drain does"
        " (03:05:05 UTC)"
    )
    assert answer.advice.startswith("create it anew with a podFailurePolicy")


IGNORE: Document = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("reason", "spec", "count"),
    [
        ("BackoffLimitExceeded", {}, 0),
        ("DeadlineExceeded", {}, 2),
        ("BackoffLimitExceeded", {"podFailurePolicy": {"rules": [IGNORE]}}, 2),
    ],
    ids=["none was", "another limit", "they are not counted"],
)
def test_a_job_that_did_not_fail_by_drains_does_not_say_so(
    store: Store, reason: str, spec: Document, count: int
) -> None:
    uid = fail_job(store, reason, **spec)
    if count:
        tell_of_disruptions(store, uid, count)
    answer = why.explain(store, "ml", "job.batch/train")
    assert (answer.notes, answer.advice) == ((), "")


LET_RUN = "an administrator let it run outside of quota at T"
STOPPED = f"{LET_RUN}; it was stopped since, and waits for quota as others do"


@pytest.mark.parametrize(
    ("is_admitted", "is_suspended", "told"),
    [
        (True, False, f"{LET_RUN}, and its queue is charged"),
        (False, False, LET_RUN),
        (False, True, STOPPED),
    ],
    ids=["charged", "not charged yet", "stopped"],
)
def test_what_was_let_run_says_whether_it_runs_still(
    store: Store, is_admitted: bool, is_suspended: bool, told: str
) -> None:
    if is_admitted:
        admit_job(store, 1, 1)
    else:
        labels = {names.QUEUE_LABEL: "default"}
        job = make_job("train", 1, labels=labels, suspend=is_suspended)
        made = store.create(resources.JOBS, job, "ml")
        metadata = {"labels": {names.JOB_UID_LABEL: made["metadata"]["uid"]}}
        workload = make_workload("w", namespace="ml", queue="default", metadata=metadata)
        store.create(resources.WORKLOADS, workload)
    mark = patches.merge({"metadata": {"annotations": {names.OUTSIDE_QUOTA: "T"}}})
    store.patch(resources.JOBS, "train", mark, "ml")
    assert told in why.explain(store, "ml", "job.batch/train").notes
