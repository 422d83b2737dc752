"""A maker of a kind of owners is trusted only for an owner that exists and was admitted."""

from typing import Any

import msgspec
import pytest

from admission.base import names
from admission.kube import errors
from admission.objects import owner_rows, reviewed_pod, views
from admission.owners import integrations
from admission.owners.review import HeldKind, Mark
from admission.webhook import owner_admissions, owner_review, pod_review
from admission.webhook.owner_admissions import OwnerAdmissions
from admission.webhook.queueing import ManagementState
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.clocks import FakeClock
from tests.webhook.builders import NOW_US, RULES, Cluster, make_cluster

MAKER = "system:serviceaccount:ray-system:kuberay-operator"
(RAY_CLUSTER,) = (one for one in integrations.DEFAULT.held if one.kind.name == "RayCluster")
(JOB_SET,) = (one for one in integrations.DEFAULT.held if one.kind.name == "JobSet")
BY_JOB_SET = "system:serviceaccount:jobset-system:jobset-controller-manager"
CONTEXT = Context(namespace="team-a", now_us=NOW_US, user=MAKER)
REFERENCE = views.OwnerReference(
    api_version="ray.io/v1", kind="RayCluster", name="ray", uid="u1", controller=True
)


DEVICES = "nvidia.com/gpu=8"


def pod(
    uid: str = "u1",
    mark: str = "ray-w",
    kind: str = "RayCluster",
    pod_set: str = "x",
    devices: str = DEVICES,
) -> reviewed_pod.ReviewedPod:
    owner = {"apiVersion": "ray.io/v1", "kind": kind, "name": "ray", "uid": uid}
    document = make_pod(
        "forged",
        gpus=8,
        annotations={names.WORKLOAD_ANNOTATION: mark, names.ADMITTED_DEVICES: devices},
        labels={names.PODSET_LABEL: pod_set},
    )
    document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return reviewed_pod.from_dict(document)


def cluster(**owners: str) -> Cluster:
    known = {
        uid: frozenset({Mark(mark, "x", DEVICES)} if mark else ()) for uid, mark in owners.items()
    }
    return make_cluster("default", owners=known)


def test_a_pod_of_an_owner_that_was_admitted_passes() -> None:
    found = pod_review.mutate(pod(), CONTEXT, RULES, cluster(u1="ray-w"))
    assert found.standing is ManagementState.OF_JOB


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({}, id="invented owner"),
        pytest.param({"u2": "ray-w"}, id="owner of another UID"),
        pytest.param({"u1": ""}, id="owner that waits"),
        pytest.param({"u1": "other"}, id="owner with another admission"),
    ],
)
def test_any_other_pod_of_the_same_maker_is_held_and_loses_its_marks(
    known: dict[str, str],
) -> None:
    found = pod_review.mutate(pod(), CONTEXT, RULES, cluster(**known))
    assert found.standing is ManagementState.QUEUED
    gates = [one for one in found.operations if "schedulingGates" in str(one["path"])]
    assert gates
    removed = {str(one["path"]) for one in found.operations if one["op"] == "remove"}
    assert any("annotations" in path for path in removed)
    assert any("labels" in path for path in removed)


@pytest.mark.parametrize(
    "changed", [{"pod_set": "other"}, {"pod_set": ""}, {"devices": ""}, {"devices": "none"}]
)
def test_a_pod_of_an_admitted_owner_bears_all_that_it_is_counted_by(
    changed: dict[str, str],
) -> None:
    found = pod_review.mutate(pod(**changed), CONTEXT, RULES, cluster(u1="ray-w"))
    assert found.standing is ManagementState.QUEUED


def test_a_held_pod_of_an_unknown_owner_may_not_lose_its_gate_before_it_is_stored() -> None:
    found = pod_review.validate(None, pod(), CONTEXT, RULES, cluster())
    assert found.errors


def test_controllers_of_kubernetes_are_trusted_as_before() -> None:
    assert not any(
        one.is_checked for one in integrations.DEFAULT.held if one.kind.name in {"Job", "Pod"}
    )
    document = make_pod("of-job", gpus=1, annotations={names.WORKLOAD_ANNOTATION: "w"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    document["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    by_job = Context(
        namespace="team-a", now_us=NOW_US, user="system:serviceaccount:kube-system:job-controller"
    )
    found = pod_review.mutate(reviewed_pod.from_dict(document), by_job, RULES, cluster())
    assert found.standing is ManagementState.OF_JOB


def test_every_kind_that_others_run_is_checked() -> None:
    outside = {one.kind for one in (*owner_rows.ROWS, *owner_rows.MODULES) if one.makers}
    assert {one.kind.name for one in integrations.DEFAULT.checked} == outside


def child_job(mark: str) -> Any:
    (job,) = (one for one in integrations.DEFAULT.held if one.kind.name == "Job")
    template: dict[str, Any] = {"spec": make_pod("x", gpus=4)["spec"]}
    if mark:
        marks = {names.WORKLOAD_ANNOTATION: mark, names.ADMITTED_DEVICES: DEVICES}
        template["metadata"] = {"annotations": marks, "labels": {names.PODSET_LABEL: "x"}}
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "s1",
        "controller": True,
    }  # fmt: skip
    document = {
        "metadata": {"name": "set-main-0", "namespace": "team-a", "ownerReferences": [owner]},
        "spec": {"template": template, "parallelism": 1, "completions": 1},
    }
    return msgspec.convert(document, job.document)


@pytest.mark.parametrize(
    ("known", "mark", "is_of_owner"),
    [
        ({"s1": "w"}, "w", True),
        ({"s1": ""}, "", True),
        ({}, "", False),
        ({}, "w", False),
        ({"s1": ""}, "w", False),
    ],
)
def test_a_job_is_counted_with_a_job_set_only_if_that_is_there_and_was_admitted(
    known: dict[str, str], mark: str, *, is_of_owner: bool
) -> None:
    by = Context(namespace="team-a", now_us=NOW_US, user=BY_JOB_SET)
    found = owner_review.is_made_for_owner(child_job(mark), by, RULES, cluster(**known))
    assert found is is_of_owner


# --------------------------------------------------------------------------- what is known


class Server:
    """Answers what is asked about owners, and takes its time."""

    def __init__(self, clock: FakeClock, seconds: float = 0.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.owners: dict[str, Any] = {}
        self.asked: list[str] = []
        self.fails = False

    def ask(self, held: HeldKind, namespace: str, name: str) -> Any:
        self.asked.append(name)
        self.clock.advance(self.seconds)
        if self.fails:
            raise errors.TransportError("no answer")
        return self.owners.get(name)


def ray(uid: str = "u1", mark: str = "ray-w") -> Any:
    metadata = {"annotations": {names.WORKLOAD_ANNOTATION: mark}} if mark else {}
    group = {"template": {"metadata": metadata, "spec": make_pod("x")["spec"]}}
    document = {
        "metadata": {"name": "ray", "namespace": "team-a", "uid": uid},
        "spec": {"headGroupSpec": group, "workerGroupSpecs": []},
    }
    return msgspec.convert(document, RAY_CLUSTER.document)


MARKS = frozenset({Mark("ray-w", "", "")})


def admitted(found: OwnerAdmissions) -> bool:
    known = found.of(RAY_CLUSTER, "team-a", REFERENCE, MARKS)
    return known is not None and known >= MARKS


def test_what_is_watched_is_not_asked_for() -> None:
    clock = FakeClock()
    server = Server(clock)
    known = OwnerAdmissions(clock, server.ask)
    known.replace(RAY_CLUSTER, [ray()])
    assert admitted(known)
    assert server.asked == []


def test_what_is_not_watched_yet_is_asked_for() -> None:
    clock = FakeClock()
    server = Server(clock)
    server.owners["ray"] = ray()
    known = OwnerAdmissions(clock, server.ask)
    assert admitted(known)
    known.upsert(RAY_CLUSTER, ray(mark=""))
    assert admitted(known)  # the watch may be behind the admission
    assert len(server.asked) == 2


@pytest.mark.parametrize("uid", ["u2", ""])
def test_another_owner_of_the_same_name_is_not_meant(uid: str) -> None:
    clock = FakeClock()
    server = Server(clock)
    server.owners["ray"] = ray(uid=uid)
    assert not admitted(OwnerAdmissions(clock, server.ask))


def test_an_owner_that_is_gone_is_not_known() -> None:
    clock = FakeClock()
    known = OwnerAdmissions(clock, Server(clock).ask)
    known.replace(RAY_CLUSTER, [ray()])
    known.delete(RAY_CLUSTER, ray())
    assert not admitted(known)
    known.upsert(RAY_CLUSTER, ray())
    known.replace(RAY_CLUSTER, [])
    assert not admitted(known)


def test_who_gets_no_answer_is_not_trusted() -> None:
    clock = FakeClock()
    server = Server(clock)
    server.fails = True
    assert not admitted(OwnerAdmissions(clock, server.ask))


def test_questions_take_a_bounded_part_of_the_time_whoever_asks() -> None:
    clock = FakeClock()
    server = Server(clock, seconds=owner_admissions.ASK_SECONDS)
    server.fails = True
    known = OwnerAdmissions(clock, server.ask)
    for _ in range(100):
        admitted(known)
    first = len(server.asked)
    assert first * owner_admissions.ASK_SECONDS <= 1.5
    clock.advance(60)
    for _ in range(100):
        admitted(known)
    assert first < len(server.asked) <= 2 * first


def test_an_owner_with_templates_of_another_shape_was_not_admitted() -> None:
    clock = FakeClock()
    known = OwnerAdmissions(clock)
    broken: Any = msgspec.convert(
        {"metadata": {"name": "ray", "uid": "u1"}, "spec": {"headGroupSpec": 7}},
        RAY_CLUSTER.document,
    )
    known.replace(RAY_CLUSTER, [broken])
    assert not admitted(known)
