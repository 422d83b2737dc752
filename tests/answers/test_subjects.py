"""What people type names the object that they mean."""

from typing import Any

import pytest

from admission.answers import subjects, why
from admission.answers.subjects import SubjectError
from admission.base import conditions, names
from admission.kube import errors, resources
from admission.objects import crds
from admission.owners import integrations
from admission.reasons import added_conditions
from admission.sandbox.store import Store
from tests.answers.rights import OfTeam
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.metadata import make_condition
from tests.builders.pods import make_pod
from tests.builders.queues import make_local_queue
from tests.builders.workloads import make_workload


@pytest.fixture
def store() -> Store:
    made = Store(crds=crds.documents())
    made.create(resources.NAMESPACES, make_namespace("ml"))
    return made


def test_every_kind_that_is_served_may_be_asked_about() -> None:
    known = integrations.DEFAULT
    served = {one.kind for one in known.integrations} | {one.kind for one in known.serving}
    asked = {(one.api_version, one.kind, one.plural) for one in subjects.kinds()}
    assert {(one.api_version, one.name, one.plural) for one in served} <= asked


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("pod", ["Pod"]), ("pods", ["Pod"]), ("po", ["Pod"]), ("Pod", ["Pod"]),
        ("jobs.batch", ["Job"]), ("job.batch", ["Job"]), ("job.v1.batch", ["Job"]),
        ("job", ["Job", "Job"]), ("vcjob", ["Job"]), ("deploy", ["Deployment"]),
        ("rayjobs.ray.io", ["RayJob"]), ("wl", ["Workload"]), ("cq", ["ClusterQueue"]),
        ("nothing", []),
    ],
)  # fmt: skip
def test_a_kind_is_typed_as_kubectl_takes_it(typed: str, found: list[str]) -> None:
    assert [one.kind for one in subjects.of_kind(typed)] == found


def test_a_name_alone_is_a_pod_first(store: Store) -> None:
    store.create(resources.PODS, make_pod("train", namespace="ml"))
    store.create(resources.JOBS, make_job("train"), "ml")
    assert subjects.find(store, "ml", "train").resource == resources.PODS
    assert subjects.find(store, "ml", "job/train").resource == resources.JOBS


def test_a_name_alone_is_the_only_other_object_that_has_it(store: Store) -> None:
    store.create(resources.JOBS, make_job("train"), "ml")
    assert subjects.find(store, "ml", "train").resource == resources.JOBS


def test_a_name_of_several_objects_is_refused_with_their_names(store: Store) -> None:
    store.create(resources.JOBS, make_job("train"), "ml")
    store.create(resources.WORKLOADS, make_workload("train", namespace="ml"))
    with pytest.raises(SubjectError, match=r"'train' may be any of job\.batch/train, workload/"):
        subjects.find(store, "ml", "train")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("gone", "no pod 'gone' in namespace ml, nor anything else"),
        ("job/gone", 'jobs "gone" not found in namespace ml$'),
        ("deployment/gone", 'deployments.apps "gone" not found in namespace ml$'),
        ("clusterqueue/gone", 'clusterqueues.kueue.x-k8s.io "gone" not found$'),
        ("banana/gone", "kind 'banana' is not known"),
        ("cronjob/nightly", "a CronJob neither waits nor admits"),
        ("job/", "'job/' has no name"),
    ],
)
def test_what_is_not_there_is_named(store: Store, typed: str, message: str) -> None:
    with pytest.raises(SubjectError, match=message) as failed:
        subjects.find(store, "ml", typed)
    assert failed.value.advice


@pytest.mark.parametrize("typed", ["train", "job/train"])
def test_what_is_in_another_namespace_is_said_to_be_there(store: Store, typed: str) -> None:
    for namespace in ("search", "speech"):
        store.create(resources.NAMESPACES, make_namespace(namespace))
        store.create(resources.JOBS, make_job("train"), namespace)
    store.create(resources.JOBS, make_job("train-2"), "ml")
    with pytest.raises(SubjectError) as failed:
        subjects.find(store, "ml", typed)
    assert failed.value.advice.startswith(
        "did you mean train-2? there is a Job of that name elsewhere: -n search or -n speech; see "
    )


@pytest.fixture
def spread(store: Store) -> Store:
    """Jobs of one name in several namespaces, of which one is called as a kind."""
    store.create(resources.JOBS, make_job("train"), "ml")
    for namespace in ("speech", "job"):
        store.create(resources.NAMESPACES, make_namespace(namespace))
        store.create(resources.JOBS, make_job("train"), namespace)
    return store


@pytest.mark.parametrize(
    ("typed", "namespace"),
    [
        ("speech/train", "speech"), ("speech/job/train", "speech"), ("job/train", "ml"),
        ("job/job/train", "job"),
    ],
)  # fmt: skip
def test_a_word_before_a_name_is_a_kind_else_a_namespace(
    spread: Store, typed: str, namespace: str
) -> None:
    assert subjects.find(spread, "ml", typed).namespace == namespace
    answer = why.explain(spread, "ml", typed)
    assert (answer.namespace, answer.name, answer.kind) == (namespace, "train", "Job")


def test_what_a_namespace_does_not_have_is_said_of_that_namespace(spread: Store) -> None:
    with pytest.raises(SubjectError, match="no pod 'gone' in namespace speech"):
        subjects.find(spread, "ml", "speech/gone")


def test_who_may_read_one_namespace_names_it_before_the_name(spread: Store) -> None:
    member: Any = OfTeam(spread, "speech")
    assert subjects.find(member, "default", "speech/train").namespace == "speech"
    with pytest.raises(SubjectError, match="nor is 'ml' a namespace that you may read"):
        subjects.find(member, "speech", "ml/train")


def test_a_queue_of_another_namespace_is_nothing_that_waits(store: Store) -> None:
    store.create(resources.NAMESPACES, make_namespace("search"))
    store.create(resources.LOCAL_QUEUES, make_local_queue("default", "gpus", "search"))
    with pytest.raises(SubjectError) as failed:
        subjects.find(store, "ml", "default")
    assert "elsewhere" not in failed.value.advice


def test_an_owner_of_a_kind_that_an_installation_adds_is_found_by_its_workload(
    store: Store,
) -> None:
    cake = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}}
    made = store.create(resources.CONFIG_MAPS, cake, "ml")
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "big", "uid": uid}
    workload = make_workload("cake-big", namespace="ml", metadata={"ownerReferences": [owner]})
    store.create(resources.WORKLOADS, workload)
    assert subjects.find(store, "ml", "configmaps/big").name == "cake-big"


def add_pod_of_group(store: Store, name: str, said: str, **annotations: str) -> None:
    labels = {names.MANAGED_LABEL: "true"}
    if not annotations:
        labels[names.POD_GROUP_NAME] = "grp"
    pod = make_pod(name, namespace="ml", labels=labels, annotations=annotations)
    made = store.create(resources.PODS, pod)
    condition = make_condition(conditions.POD_ADMITTED, "False", conditions.GROUP_INCOMPLETE, said)
    status = {**made, "status": {"conditions": [condition]}}
    store.replace(resources.PODS, status, subresource="status")


def test_a_group_of_pods_is_found_by_its_name_before_it_has_a_workload(store: Store) -> None:
    """Of its pods one says what it waits for; the others name that one."""
    text = added_conditions.group_incomplete("grp", 3, 4).message
    add_pod_of_group(store, "a", added_conditions.group_waits_as("b").message)
    add_pod_of_group(store, "b", text)
    add_pod_of_group(store, "c", added_conditions.group_waits_as("b").message)
    add_pod_of_group(store, "other", text, **{names.POD_GROUP_NAME: "long"})
    store.create(resources.LOCAL_QUEUES, make_local_queue("grp", "gpus", "ml"))
    team: Any = OfTeam(store, "ml")
    assert subjects.find(team, "ml", "grp").name == "b"
    assert subjects.find(team, "ml", "long").name == "other"
    answer = why.explain(team, "ml", "grp")
    assert answer.message == ("3 of 4 pods of group grp are there; they are admitted together.")
    assert answer.advice == "create the pods that are missing"


PREEMPTED = (
    "Preempted to accommodate a workload (UID: u, JobUID: j) due to reclamation within the cohort;"
    " preemptor path: /all/serving; preemptee path: /all/research"
)


def add_event(store: Store, name: str, reason: str, note: str, at: str, kind: str = "Pod") -> None:
    regarding = {"kind": kind, "name": name, "namespace": "ml", "uid": "gone"}
    event = {
        "metadata": {"generateName": "e-", "namespace": "ml"}, "regarding": regarding,
        "reason": reason, "note": note, "type": "Normal", "eventTime": f"{at}.000000Z",
    }  # fmt: skip
    store.create(resources.EVENTS, event)


@pytest.mark.parametrize("typed", ["kim2", "pod/kim2"])
def test_of_a_pod_that_is_gone_the_last_event_says_why(store: Store, typed: str) -> None:
    store.create(resources.PODS, make_pod("kim21", namespace="ml"))
    add_event(store, "kim2", "WaitingForQuota", "Waits.", "2026-01-01T00:01:00")
    add_event(store, "kim2", "Stopped", PREEMPTED, "2026-01-01T00:02:00")
    add_event(store, "kim2", "Killing", "Stopping container main", "2026-01-01T00:03:00")
    add_event(store, "kim2", "DeletedWorkload", "Deleted not matching", "2026-01-01T00:03:00")
    add_event(store, "kim3", "Stopped", "another", "2026-01-01T00:04:00")
    with pytest.raises(SubjectError) as failed:
        subjects.find(store, "ml", typed)
    assert str(failed.value) == (
        "pod kim2 is gone; it was told at 2026-01-01T00:02:00Z: Lost its quota to a workload of"
        " queue serving; why: reclamation within the cohort."
    )
    assert failed.value.advice == (
        "a pod without an owner is deleted when it is stopped: create it again; what else was said"
        " of it: kubectl get events -n ml"
    )


@pytest.mark.parametrize("reason", ["Started", "Admitted", "Completed"])
def test_of_what_went_on_after_it_was_stopped_no_stop_is_told(store: Store, reason: str) -> None:
    add_event(store, "train", "Stopped", PREEMPTED, "2026-01-01T00:02:00", "Job")
    add_event(store, "train", reason, "It goes on.", "2026-01-01T00:10:00", "Job")
    with pytest.raises(SubjectError) as failed:
        subjects.find(store, "ml", "job/train")
    assert "Lost its quota" not in str(failed.value)


def test_of_an_owner_that_is_gone_the_last_event_says_so_too(store: Store) -> None:
    add_event(store, "train", "Stopped", "Preempted by hand", "2026-01-01T00:02:00", "Job")
    with pytest.raises(SubjectError, match=r"job train is gone; it was told at .*by hand"):
        subjects.find(store, "ml", "train")
    with pytest.raises(SubjectError, match='pods "train" not found'):
        subjects.find(store, "ml", "pod/train")


def test_what_nothing_was_said_of_is_looked_for_in_the_events_and_is_no_other(
    store: Store,
) -> None:
    store.create(resources.PODS, make_pod("kim1", namespace="ml"))
    with pytest.raises(SubjectError) as failed:
        subjects.find(store, "ml", "kim2")
    assert failed.value.advice == (
        "see those there are: kubectl get pods,jobs,workloads -n ml; what is gone may still be in"
        " the events: kubectl get events -n ml"
    )


def test_a_hint_about_objects_of_a_namespace_names_it(store: Store) -> None:
    for typed, hint in (
        ("cronjob/tick", "kubectl get jobs -n ml; kubectl gpu why job/NAME -n ml"),
        ("node/n1", "kubectl gpu who n1 -n ml"),
    ):
        with pytest.raises(SubjectError) as failed:
            subjects.find(store, "ml", typed)
        assert failed.value.advice.endswith(hint)


def test_who_may_not_read_a_cluster_queue_is_told_the_role_that_shows_it(store: Store) -> None:
    team: Any = OfTeam(store, "ml")
    with pytest.raises(SubjectError, match=r"^you may not read ClusterQueue research$") as failed:
        subjects.find(team, "ml", "clusterqueue/research")
    assert failed.value.advice == (
        "ClusterRole gpu-admission-clusterqueue-viewer-role shows it: ask an administrator for it;"
        " who waits in the queues of your namespace: kubectl gpu queue -n ml"
    )


def test_a_hint_names_no_namespace_that_may_not_be_read(store: Store) -> None:
    team: Any = OfTeam(store, "ml")
    for typed in ("clusterqueue/research", "node/n1"):
        with pytest.raises(SubjectError) as failed:
            subjects.find(team, "default", typed)
        assert failed.value.advice.endswith(" -n NAMESPACE")


def test_what_may_not_be_read_is_not_said_to_be_missing(store: Store) -> None:
    """``job`` means several kinds."""
    team: Any = OfTeam(store, "ml")
    with pytest.raises(errors.ForbiddenError):
        subjects.find(team, "default", "job/train")
