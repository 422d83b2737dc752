"""The checker finds what it is there to find, and only that."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chaos.checker import GROUP_FAST, Checker, Event, Json

NOON = 1767268800.0
"""2026-01-01T12:00:00Z."""
YEARS = "2036-01-01T12:00:00Z"


class World:
    """A checker, and objects as watches would show them; a second passes with each event."""

    def __init__(self, **quotas: int) -> None:
        self.checker = Checker(
            {"team": "team", "other": "other", "alone": "alone"}, lost_node_seconds=10
        )
        self.second = 0.0
        self.take("nodes", {"metadata": {"name": "node"}, "spec": {}}, "LISTED")
        for name, amount in quotas.items():
            self.quota(name, amount)

    def take(self, kind: str, found: Json, type_: str = "MODIFIED", after: float = 1) -> None:
        self.second += after
        found.setdefault("metadata", {}).setdefault("resourceVersion", str(int(self.second)))
        event = Event(kind=kind, type=type_, object=found, at=self.second, wall=NOON + self.second)
        self.checker.take(event)

    def quota(self, name: str, amount: int, after: float = 1, surge: int = 0) -> None:
        resource = {"name": "nvidia.com/gpu", "nominalQuota": str(amount)}
        flavors = [{"name": "a100", "resources": [resource]}]
        cohort = {} if name == "alone" else {"cohortName": "both"}
        spec = {"resourceGroups": [{"flavors": flavors}], **cohort}
        metadata: Json = {"name": name}
        if surge:
            text = f"a100/nvidia.com/gpu={surge}"
            metadata["annotations"] = {"gpu-admission.dev/surge-quota": text}
        self.take("clusterqueues", {"metadata": metadata, "spec": spec}, after=after)

    def charged(self, name: str, amount: int) -> None:
        """The status of a queue of quota 4 says what it is charged."""
        resource = {"name": "nvidia.com/gpu", "nominalQuota": "4"}
        spec = {"resourceGroups": [{"flavors": [{"name": "a100", "resources": [resource]}]}]}
        total = [{"name": "nvidia.com/gpu", "total": str(amount)}]
        status = {"flavorsReservation": [{"name": "a100", "resources": total}]}
        found = {"metadata": {"name": name}, "spec": spec, "status": status}
        self.take("clusterqueues", found)

    def pod(
        self,
        name: str,
        gpus: int = 1,
        *,
        gated: bool = False,
        node: str = "",
        phase: str = "Pending",
        ns: str = "team",
        type_: str = "MODIFIED",
        metadata: Mapping[str, Any] | None = None,
        job: str = "",
        **spec: Any,
    ) -> None:
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        owners = [{"kind": "Job", "uid": job, "controller": True}] if job else []
        found = {
            "metadata": {
                "name": name, "namespace": ns, "uid": name, "ownerReferences": owners,
                **(metadata or {}),
            },
            "spec": {
                "containers": [{"resources": {"limits": limits}}],
                "schedulingGates": [{"name": "any"}] if gated else [],
                "nodeName": node,
                **spec,
            },
            "status": {"phase": phase},
        }  # fmt: skip
        self.take("pods", found, type_)

    def run(self, name: str, gpus: int = 1, **more: Any) -> None:
        """A pod is created, released, bound, and runs."""
        self.pod(name, gpus, gated=True, type_="ADDED", **more)
        self.pod(name, gpus, **more)
        self.pod(name, gpus, node="node", phase="Running", **more)

    def job(
        self,
        name: str,
        parallelism: int,
        *,
        suspend: bool = False,
        elastic: bool = False,
        prebuilt: str = "",
        deleted: bool = False,
        type_: str = "MODIFIED",
    ) -> None:
        spec = {
            "suspend": suspend,
            "parallelism": parallelism,
            "template": {"spec": {"containers": [{}]}},
        }
        metadata: Json = {"name": name, "namespace": "team", "uid": name}
        if elastic:
            metadata["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
        if prebuilt:
            metadata["labels"] = {"kueue.x-k8s.io/prebuilt-workload-name": prebuilt}
        if deleted:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.take("jobs", {"metadata": metadata, "spec": spec}, type_)

    def gang(self, name: str, workers: int, gpus: int = 0, *, suspend: bool = False) -> None:
        template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}
        roles = {
            "Master": {"template": template},
            "Worker": {"replicas": workers, "template": template},
        }
        spec = {"runPolicy": {"suspend": suspend}, "pytorchReplicaSpecs": roles}
        metadata = {"name": name, "namespace": "team", "uid": name}
        self.take("pytorchjobs", {"metadata": metadata, "spec": spec})

    def claim(self, name: str, count: int) -> None:
        exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
        devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
        metadata = {"name": name, "namespace": "team", "uid": name}
        self.take("resourceclaims", {"metadata": metadata, "spec": {"devices": devices}})

    def held(self, cohort: str = "both") -> int:
        """GPUs that the pods of a cohort hold."""
        return self.checker.held(cohort).total()

    def found(self) -> list[tuple[str, int, int]]:
        """Pods whose release was wrong, with what was held then and the quota in force."""
        return [(one.pod, one.held, one.quota) for one in self.checker.violations]


DELETED = {"deletionTimestamp": YEARS, "deletionGracePeriodSeconds": 300_000_000}


def test_releases_within_quota_are_good() -> None:
    world = World(team=2, other=2)
    world.run("first", 3)
    world.run("second", 1, ns="other")

    assert world.found() == []
    assert world.checker.raises == 2
    assert world.held() == 4


def test_a_release_above_the_quota_of_the_cohort_is_found() -> None:
    world = World(team=2, other=2)
    world.run("first", 3)
    world.run("second", 2, ns="other")

    assert world.found() == [("other/second", 5, 4)]
    assert "team/first 3 a100 Running on node" in world.checker.violations[0].text()


def test_a_queue_without_a_cohort_is_judged_by_itself() -> None:
    world = World(team=9, alone=1)
    world.run("first", 1, ns="alone")
    world.run("second", 1, ns="alone")

    assert world.found() == [("alone/second", 2, 1)]


@pytest.mark.parametrize("ns", ["elsewhere", "team"])
def test_a_gated_pod_and_one_of_a_namespace_without_a_queue_hold_nothing(ns: str) -> None:
    world = World(team=1)
    world.pod("one", 5, ns=ns, gated=ns == "team")

    assert world.found() == []
    assert world.held() == 0


def test_a_pod_that_is_created_without_a_gate_is_a_release() -> None:
    world = World(team=1)
    world.pod("first", 2, type_="ADDED")

    assert world.found() == [("team/first", 2, 1)]


def test_a_running_pod_without_its_labels_still_counts() -> None:
    world = World(team=1)
    world.run("first", metadata={"labels": {"kueue.x-k8s.io/managed": "true"}})
    world.pod("first", node="node", phase="Running", metadata={"labels": {}})
    world.run("second")

    assert world.found() == [("team/second", 2, 1)]


def test_a_pod_of_a_job_that_was_deleted_without_its_pods_still_counts() -> None:
    world = World(team=1)
    world.job("job", 1)
    world.run("first", job="job")
    world.take("jobs", {"metadata": {"uid": "job"}}, "DELETED")
    world.pod("first", node="node", phase="Running")
    world.run("second")

    assert world.found() == [("team/second", 2, 1)]


def test_a_pod_that_is_being_deleted_counts_until_it_has_ended() -> None:
    world = World(team=1)
    world.run("first")
    world.pod("first", node="node", phase="Running", metadata=DELETED)
    world.run("second")
    assert world.found() == [("team/second", 2, 1)]
    world.pod("first", node="node", phase="Failed", metadata=DELETED)
    world.pod("second", type_="DELETED")
    world.run("third")

    assert len(world.found()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Succeeded", "node": "node"},
        {"phase": "Failed", "node": "node"},
        {"type_": "DELETED"},
        {"metadata": DELETED},
        {"metadata": {**DELETED, "deletionGracePeriodSeconds": 0}, "node": "node"},
    ],
    ids=["succeeded", "failed", "gone", "deleted before it was bound", "only finalizers"],
)
def test_what_has_ended_does_not_count(change: Any) -> None:
    world = World(team=1)
    world.pod("first", gated=True, type_="ADDED")
    world.pod("first")
    world.pod("first", **change)
    world.run("second")

    assert world.found() == []


@pytest.mark.parametrize(
    ("node", "type_", "seconds", "count"),
    [
        ({}, "DELETED", 0, 0),
        ({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service"}]}}, "MODIFIED", 0, 0),
        ({"ready": "False"}, "MODIFIED", 0, 1),
        ({"ready": "Unknown"}, "MODIFIED", 20, 0),
        ({"ready": "True"}, "MODIFIED", 20, 1),
    ],
    ids=["gone", "out of service", "not ready", "not ready for long", "ready"],
)
def test_what_a_lost_node_runs_does_not_count(
    node: Json, type_: str, seconds: float, count: int
) -> None:
    world = World(team=1)
    world.run("first")
    deleted = {"deletionTimestamp": "2026-01-01T12:00:03Z", "deletionGracePeriodSeconds": 1}
    world.pod("first", node="node", phase="Running", metadata=deleted)
    ready = {"type": "Ready", "status": node.get("ready", "True")}
    ready["lastTransitionTime"] = "2026-01-01T12:00:05Z"
    body = {"spec": {}, "status": {"conditions": [ready]}, **node, "metadata": {"name": "node"}}
    world.take("nodes", body, type_)
    world.second += seconds
    world.run("second")

    assert len(world.found()) == count


def test_pods_that_ran_before_anybody_watched_count_and_are_no_release() -> None:
    world = World(team=1)
    world.pod("first", 3, node="node", phase="Running", type_="LISTED")
    assert world.found() == []
    world.run("second")

    assert world.found() == [("team/second", 4, 1)]


def test_a_store_that_was_put_back_is_begun_anew() -> None:
    world = World(team=1)
    world.run("first")
    world.take("pods", {}, "RESET")
    assert world.held() == 0
    world.pod("second", 2, node="node", phase="Running", type_="LISTED")
    world.run("third")

    assert world.found() == [("team/third", 3, 1)]


def test_a_lower_quota_alone_is_no_violation() -> None:
    world = World(team=4)
    world.run("first", 4)
    world.quota("team", 1)
    world.pod("first", 4, node="node", phase="Running")

    assert world.found() == []


def test_a_release_after_the_quota_was_lowered_is_found() -> None:
    world = World(team=4)
    world.run("first", 1)
    world.quota("team", 1)
    world.second += world.checker.window
    world.run("second", 1)

    assert world.found() == [("team/second", 2, 1)]


def test_a_release_that_was_decided_before_the_quota_was_lowered_is_none() -> None:
    world = World(team=4)
    world.run("first", 1)
    world.quota("team", 1)
    world.run("second", 1)

    assert world.found() == []


def test_the_pods_of_a_job_were_decided_when_it_was_started() -> None:
    world = World(team=3)
    world.job("job", 2, suspend=True)
    world.job("job", 2)
    world.pod("first", job="job", type_="ADDED")
    world.quota("team", 1)
    world.second += world.checker.window
    world.pod("second", job="job", type_="ADDED")
    assert world.found() == []
    world.job("job", 3)
    world.pod("third", job="job", type_="ADDED")

    assert world.found() == [("team/third", 3, 1)]


@pytest.mark.parametrize(("elastic", "count"), [(True, 0), (False, 1)])
def test_an_elastic_job_was_granted_the_pods_that_it_ran_within_quota(
    elastic: bool, count: int
) -> None:
    world = World(team=3)
    world.job("job", 1, elastic=elastic)
    world.run("first", job="job")
    world.job("job", 2, elastic=elastic)
    world.run("second", job="job")
    world.quota("team", 1)
    world.second += world.checker.window
    world.pod("second", job="job", node="node", phase="Succeeded")
    world.run("third", job="job")
    assert len(world.found()) == count

    world.job("job", 1, elastic=elastic)
    world.pod("third", job="job", node="node", phase="Succeeded")
    world.run("fourth", job="job")
    assert len(world.found()) == count + 1


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "being-deleted"])
def test_pods_that_are_made_after_their_job_is_deleted_are_held_against_nobody(
    is_gone: bool,
) -> None:
    world = World(team=1)
    if not is_gone:
        world.job("late", 1, deleted=True)
    world.pod("late", job="late", type_="ADDED")
    assert world.held() == 1
    world.run("first")
    assert world.found() == []
    world.run("second")
    assert world.found() == [("team/second", 2, 1)]


@pytest.mark.parametrize(("seconds", "count"), [(5, 0), (20, 1)], ids=["deleted-soon", "stays"])
def test_a_pod_of_a_deleted_job_that_takes_more_than_the_quota_has_to_go(
    seconds: float, count: int
) -> None:
    world = World(team=1)
    world.run("first")
    world.pod("late", job="gone", type_="ADDED")
    world.second += seconds
    world.pod("late", job="gone", type_="DELETED")
    assert [name for name, _, _ in world.found()] == ["team/late"] * count


BY_JOB_CONTROLLER = {"managedFields": [{"manager": "kube-controller-manager"}]}


@pytest.mark.parametrize(
    ("metadata", "seconds", "is_found"),
    [
        pytest.param(BY_JOB_CONTROLLER, 5, False, id="deleted-soon"),
        pytest.param(BY_JOB_CONTROLLER, 20, True, id="stays"),
        pytest.param({"managedFields": [{"manager": "kubectl"}]}, 5, True, id="made-by-a-user"),
    ],
)
def test_a_pod_that_the_job_controller_makes_twice_counts_unless_it_deletes_it(
    metadata: dict[str, Any], seconds: float, is_found: bool
) -> None:
    world = World(team=2, other=0)
    world.job("train", 2)
    for name in ("train-a", "train-b", "train-c"):
        world.pod(name, job="train", type_="ADDED", metadata=metadata)
    world.second += seconds
    world.pod("train-b", job="train", type_="DELETED", metadata=metadata)
    assert world.found() == ([("team/train-c", 3, 2)] if is_found else [])


def test_a_pod_beside_one_that_was_made_twice_is_judged_by_the_rest() -> None:
    world = World(team=2, other=0)
    world.job("train", 2)
    for name in ("train-a", "train-b", "train-c"):
        world.pod(name, job="train", type_="ADDED", metadata=BY_JOB_CONTROLLER)
    world.pod("alone", type_="ADDED")
    assert world.found() == [("team/alone", 3, 2)]


@pytest.mark.parametrize(("suspend", "count"), [(False, 0), (True, 1)])
def test_a_job_that_ran_when_the_store_was_put_back_was_decided_before(
    suspend: bool, count: int
) -> None:
    world = World(team=3)
    world.quota("team", 1)
    world.second += world.checker.window
    world.take("jobs", {}, "RESET")
    world.job("job", 2, elastic=True, suspend=suspend, type_="LISTED")
    world.job("job", 2, elastic=True)
    world.run("first", job="job")
    world.run("second", job="job")
    assert len(world.found()) == count


def in_group(total: int) -> dict[str, Any]:
    marks = {
        "kueue.x-k8s.io/pod-group-name": "group",
        "kueue.x-k8s.io/pod-group-total-count": str(total),
    }
    return {"metadata": {"annotations": marks}}


def test_a_member_in_place_of_another_was_decided_when_its_group_was() -> None:
    world = World(team=2)
    world.run("first", **in_group(2))
    world.run("second", **in_group(2))
    world.quota("team", 1)
    world.second += world.checker.window
    world.pod("second", node="node", phase="Failed", **in_group(2))
    world.run("third", **in_group(2))
    assert world.found() == []
    world.run("fourth", **in_group(2))
    assert world.found() == [("team/fourth", 3, 1)]


def test_a_group_of_which_no_pod_runs_any_more_is_decided_anew() -> None:
    world = World(team=2)
    for name in ("first", "second"):
        world.run(name, **in_group(2))
        world.pod(name, node="node", phase="Failed", **in_group(2))
    world.quota("team", 1)
    world.second += world.checker.window
    world.run("third", 2, **in_group(2))
    assert world.found() == [("team/third", 2, 1)]


def test_the_pods_of_a_pytorchjob_were_decided_when_it_was_started() -> None:
    world = World(team=3)
    world.gang("gang", 1, suspend=True)
    world.gang("gang", 1)
    world.pod("first", job="gang", type_="ADDED")
    world.quota("team", 1)
    world.second += world.checker.window
    world.pod("second", job="gang", type_="ADDED")
    assert world.found() == []
    world.pod("third", job="gang", type_="ADDED")

    assert world.found() == [("team/third", 3, 1)]


def test_a_pytorchjob_that_waits_although_all_of_it_fits_is_stuck() -> None:
    world = World(team=4)
    world.gang("fits", 3, 1, suspend=True)
    world.gang("big", 4, 1, suspend=True)

    assert set(world.checker.stuck()) == {"fits"}


@pytest.mark.parametrize(("quota", "stuck"), [(1, set()), (2, {"fast"})])
def test_a_group_that_may_start_before_it_is_whole_is_stuck_where_all_of_it_fits(
    quota: int, stuck: set[str]
) -> None:
    world = World(team=quota)
    group = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": "2"}
    fast = {**group, "kueue.x-k8s.io/pod-group-name": "f"}
    fast["kueue.x-k8s.io/pod-group-fast-admission"] = "true"
    world.pod("slow", gated=True, type_="ADDED", metadata={"annotations": group})
    assert world.checker.stuck() == {}
    world.pod("fast", gated=True, type_="ADDED", metadata={"annotations": fast})

    assert set(world.checker.stuck()) == stuck


def test_a_pod_whose_prebuilt_workload_is_not_there_or_anothers_is_not_stuck() -> None:
    world = World(team=1)
    named = {"annotations": {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}}
    world.pod("named", gated=True, type_="ADDED", metadata=named)
    assert world.checker.stuck() == {}

    world.take("workloads", ranked("named", 0))

    assert set(world.checker.stuck()) == {"named"}


def test_a_job_whose_prebuilt_workload_is_not_there_or_anothers_is_not_stuck() -> None:
    world = World(team=1)
    world.job("named", 1, suspend=True, prebuilt="mine")
    assert world.checker.stuck() == {}

    world.take("workloads", ranked("named", 0))

    assert set(world.checker.stuck()) == {"named"}


def test_a_job_without_pods_waits_for_nothing() -> None:
    world = World(team=1)
    world.job("none", 0, suspend=True)
    world.job("one", 1, suspend=True)

    assert set(world.checker.stuck()) == {"one"}


def test_a_group_of_which_one_pod_runs_while_another_waits_is_half() -> None:
    world = World(team=2)
    mark = {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}
    world.run("first", metadata=mark)
    assert world.checker.half() == {}
    world.pod("second", gated=True, type_="ADDED", metadata=mark)

    assert list(world.checker.half()) == ["team/g"]


@pytest.mark.parametrize(
    ("fast", "admitted", "is_half"),
    [("true", 1, False), ("true", 2, True), ("false", 1, True)],
    ids=["admitted with those that ran", "admitted whole", "of no StatefulSet"],
)
def test_a_stateful_set_that_was_admitted_with_those_that_ran_may_be_half(
    fast: str, admitted: int, is_half: bool
) -> None:
    world = World(team=2)
    mark = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {GROUP_FAST: fast},
    }
    world.run("first", metadata=mark)
    world.pod("second", gated=True, type_="ADDED", metadata=mark)
    assignments = [{"name": "main", "count": admitted}]
    world.take(
        "workloads",
        {
            "metadata": {"namespace": "team", "name": "g"},
            "spec": {"podSets": [{"name": "main", "count": 2}]},
            "status": {"admission": {"podSetAssignments": assignments}},
        },
    )

    assert (list(world.checker.half()) == ["team/g"]) is is_half


def test_a_job_has_no_more_pods_than_were_admitted_while_old_ones_end() -> None:
    world = World(team=2)
    world.job("job", 2)
    for name in ("first", "second"):
        world.pod(name, job="job", type_="ADDED")
        world.pod(name, node="node", phase="Running", job="job")
    world.pod("first", node="node", phase="Running", job="job", metadata=DELETED)
    world.pod("third", job="job", type_="ADDED")

    assert world.found() == [("team/third", 3, 2)]


def test_a_shared_claim_counts_once() -> None:
    world = World(team=3)
    world.claim("shared", 2)
    entries = [{"name": "gpu", "resourceClaimName": "shared"}]
    for name in ("first", "second"):
        world.run(name, 0, resourceClaims=entries)
    assert world.found() == []
    assert world.held() == 2
    assert world.checker.raises == 1
    world.run("third", 2)

    assert world.found() == [("team/third", 4, 3)]


def test_a_claim_that_was_swapped_before_the_release_counts_as_it_is_then() -> None:
    world = World(team=3)
    entries = [{"name": "gpu", "resourceClaimName": "one"}]
    world.claim("one", 1)
    world.pod("first", 0, gated=True, type_="ADDED", resourceClaims=entries)
    world.claim("one", 8)
    world.pod("first", 0, resourceClaims=entries)

    assert world.found() == [("team/first", 8, 3)]


def test_claims_from_templates_count_per_pod() -> None:
    world = World(team=3)
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 2}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    metadata = {"name": "two", "namespace": "team", "uid": "two"}
    world.take("resourceclaimtemplates", {"metadata": metadata, "spec": spec})
    entries = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    world.run("first", 0, resourceClaims=entries)
    world.run("second", 0, resourceClaims=entries)

    assert world.found() == [("team/second", 4, 3)]


def test_a_container_that_ends_before_the_others_start_counts_if_it_asks_for_more() -> None:
    world = World(team=3)
    greedy = {"resources": {"limits": {"nvidia.com/gpu": "3"}}}
    sidecar = {"resources": {"limits": {"nvidia.com/gpu": "1"}}, "restartPolicy": "Always"}
    world.run("first", 1, initContainers=[greedy, sidecar])

    assert world.held() == 3


def workload(owner: str, *, evicted: bool, active: bool = True) -> Json:
    condition = {"type": "Evicted", "status": str(evicted)}
    return {
        "metadata": {"namespace": "team", "name": "w", "ownerReferences": [{"uid": owner}]},
        "spec": {"active": active},
        "status": {"conditions": [condition]},
    }


@pytest.mark.parametrize(
    ("document", "count"),
    [
        (workload("first", evicted=False), 1),
        (workload("first", evicted=True), 0),
        (workload("first", evicted=False, active=False), 0),
    ],
    ids=["nobody decided", "evicted", "deactivated"],
)
def test_running_pods_that_are_stopped_without_a_decision_are_found(
    document: Json, count: int
) -> None:
    world = World(team=1)
    world.run("first")
    world.take("workloads", document)
    world.pod("first", node="node", phase="Running", metadata=DELETED)

    assert len(world.checker.stopped) == count


@pytest.mark.parametrize(
    ("owners", "taken"),
    [
        ([("Pod", False), ("Pod", False)], []),
        ([("Job", True)], []),
        ([("Pod", False), ("Job", False)], []),
        ([("Pod", False), ("Job", True)], ["team/w"]),
    ],
    ids=["of a group", "of a Job", "of a Job beside", "of a group that a Job controls"],
)
def test_the_workload_of_a_group_that_a_job_takes_is_found(
    owners: list[tuple[str, bool]], taken: list[str]
) -> None:
    world = World(team=1)
    document = workload("first", evicted=False)
    document["metadata"]["ownerReferences"] = [
        {"kind": kind, "name": f"owner-{at}", "uid": f"uid-{at}", "controller": controls}
        for at, (kind, controls) in enumerate(owners)
    ]
    world.take("workloads", document)

    assert list(world.checker.taken) == taken


@pytest.mark.parametrize(("parallelism", "found"), [(1, ["job@7"]), (2, [])])
def test_a_running_job_that_is_suspended_without_a_decision_is_found(
    parallelism: int, found: list[str]
) -> None:
    world = World(team=1)
    world.job("job", 1)
    world.run("first", job="job")
    world.job("job", parallelism, suspend=True)

    assert list(world.checker.stopped) == found


@pytest.mark.parametrize(("charged", "leaked", "uncharged"), [(0, 0, 1), (2, 0, 0), (3, 1, 0)])
def test_what_is_charged_is_compared_with_what_is_held(
    charged: int, leaked: int, uncharged: int
) -> None:
    world = World()
    world.charged("alone", charged)
    world.run("first", 2, ns="alone")

    assert len(world.checker.leaked()) == leaked
    assert len(world.checker.uncharged()) == uncharged


def test_what_waits_though_there_is_room_is_found() -> None:
    world = World(team=3)
    world.run("first", 2)
    world.pod("large", 2, gated=True, type_="ADDED")
    world.pod("ended", 1, gated=True, phase="Failed")
    entries = [{"name": "gpu", "resourceClaimName": "nowhere"}]
    world.pod("unknown", 0, gated=True, resourceClaims=entries)
    assert world.checker.stuck() == {}
    world.pod("small", 1, gated=True, type_="ADDED")

    said = "pod team/small waits for {'nvidia.com/gpu': 1}, free in both: 1 a100"
    assert world.checker.stuck() == {"small": said}


def test_what_names_a_queue_that_is_not_there_is_not_stuck() -> None:
    world = World(team=2)
    labels = {"labels": {"kueue.x-k8s.io/queue-name": "other"}}
    world.pod("waits", gated=True, metadata=labels)
    assert world.checker.stuck() == {}
    metadata = {"name": "other", "namespace": "team", "uid": "other"}
    world.take("localqueues", {"metadata": metadata, "spec": {"clusterQueue": "team"}}, "ADDED")
    assert set(world.checker.stuck()) == {"waits"}


def of_revision(name: str) -> dict[str, Any]:
    """Metadata of a pod of a Deployment."""
    owner = {"kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    return {"metadata": {"ownerReferences": [owner]}}


def test_surge_quota_counts_while_two_revisions_of_a_deployment_run() -> None:
    world = World()
    world.quota("alone", 2, surge=1)
    world.run("old-1", ns="alone", **of_revision("web-a"))
    world.run("old-2", ns="alone", **of_revision("web-a"))
    world.run("new-1", ns="alone", **of_revision("web-b"))
    assert world.found() == []
    assert world.checker.surges == 1
    world.run("new-2", ns="alone", **of_revision("web-b"))
    assert world.found() == [("alone/new-2", 4, 3)]


def test_nobody_else_gets_surge_quota() -> None:
    world = World()
    world.quota("alone", 2, surge=1)
    world.run("old", ns="alone", **of_revision("web-a"))
    world.run("other", ns="alone", **of_revision("api-a"))
    world.run("pod", ns="alone")
    assert world.found() == [("alone/pod", 3, 2)]


def out_of_service(world: World, *, is_out: bool) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    spec = {"taints": [taint] if is_out else []}
    world.take("nodes", {"metadata": {"name": "node"}, "spec": spec})


def test_what_was_decided_while_a_node_was_away_is_judged_without_its_pods() -> None:
    world = World(alone=2)
    world.run("ending", 2, ns="alone", metadata=DELETED)
    out_of_service(world, is_out=True)
    world.pod("early", 2, gated=True, ns="alone", type_="ADDED")
    out_of_service(world, is_out=False)
    world.pod("early", 2, ns="alone")
    assert world.found() == []

    world.pod("late", gated=True, ns="alone", type_="ADDED")
    world.second += 10
    world.pod("late", ns="alone")
    assert world.found() == [("alone/late", 5, 2)]


# ----------------------------------------------------------------- what outranks, what is placed


def ranked(owner: str, priority: int, **more: Any) -> Json:
    metadata = {"name": owner, "uid": f"w-{owner}", "ownerReferences": [{"uid": owner}]}
    return {"metadata": metadata, "spec": {"priority": priority}, **more}


@pytest.mark.parametrize(
    ("held", "found"), [(1, {"urgent"}), (5, set()), (9, set())], ids=["lower", "same", "higher"]
)
def test_what_waits_for_quota_that_lower_priorities_hold_is_outranked(
    held: int, found: set[str]
) -> None:
    world = World(alone=4)
    world.run("low", 4, ns="alone")
    world.take("workloads", ranked("low", held))
    world.pod("urgent", 2, gated=True, type_="ADDED", ns="alone")
    assert world.checker.outranked() == {}  # its Workload is not known yet
    world.take("workloads", ranked("urgent", 5))

    assert set(world.checker.outranked()) == found


def test_pods_of_a_job_have_the_priority_of_its_workload() -> None:
    world = World(alone=4)
    world.job("job", 1)
    world.run("low", 4, ns="alone", job="job")
    world.take("workloads", ranked("job", 1))
    world.pod("urgent", 2, gated=True, type_="ADDED", ns="alone")
    world.take("workloads", ranked("urgent", 5))

    assert set(world.checker.outranked()) == {"urgent"}


def test_a_pod_that_its_job_has_left_keeps_the_priority_of_the_job() -> None:
    world = World(alone=4)
    world.job("job", 1)
    world.run("low", 4, ns="alone", job="job")
    world.take("workloads", ranked("job", 1))
    world.pod("low", 4, ns="alone", node="node", phase="Running")
    world.pod("urgent", 2, gated=True, type_="ADDED", ns="alone")
    world.take("workloads", ranked("urgent", 5))

    assert set(world.checker.outranked()) == {"urgent"}


def test_nothing_outranks_what_ends_or_in_a_queue_that_is_stopped() -> None:
    world = World(alone=4)
    world.run("low", 4, ns="alone")
    world.take("workloads", ranked("low", 1))
    world.pod("urgent", 2, gated=True, type_="ADDED", ns="alone")
    world.take("workloads", ranked("urgent", 5))
    world.pod("low", 4, ns="alone", node="node", phase="Running", metadata=DELETED)
    assert world.checker.outranked() == {}


def test_a_released_pod_is_on_a_node_unless_nodes_have_changed() -> None:
    world = World(alone=4)
    world.pod("lost", gated=True, type_="ADDED", ns="alone")
    world.pod("lost", ns="alone")
    assert world.checker.unplaced() == {}
    world.quota("alone", 4, after=30)
    assert set(world.checker.unplaced()) == {"lost"}
    world.take("nodes", {"metadata": {"name": "other"}, "spec": {}}, "ADDED")
    assert world.checker.unplaced() == {}


def test_what_is_exercised_is_counted_once() -> None:
    world = World(team=4)
    preempted = {"type": "Preempted", "status": "True", "lastTransitionTime": "now"}
    for _ in range(2):
        world.take("workloads", ranked("low", 1, status={"conditions": [preempted]}))
    replaced = ranked("job", 1)
    replaced["metadata"]["annotations"] = {
        "kueue.x-k8s.io/workload-slice-replacement-for": "team/before"
    }
    world.take("workloads", replaced)
    left = {"annotations": {"gpu-admission.dev/runs-since": "2026-01-01T12:00:00Z"}}
    world.run("orphan", metadata=left)
    group = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": "1"}
    world.run("first", metadata={"annotations": group})
    world.pod("first", metadata={"annotations": group}, type_="DELETED")
    world.run("second", metadata={"annotations": group})

    assert +Counter(world.checker.exercised) == {
        "preemptions": 1,
        "replaced members": 1,
        "elastic steps": 1,
        "orphans charged": 1,
    }


# ---------------------------------------------- flavors, claims, and what queues say besides


def quota(resource: str, **amounts: int) -> Json:
    """A resource group with that much of a resource in each flavor."""
    flavors = [
        {"name": flavor, "resources": [{"name": resource, "nominalQuota": str(amount)}]}
        for flavor, amount in amounts.items()
    ]
    return {"coveredResources": [resource], "flavors": flavors}


def mixed(world: World, **queue: Any) -> None:
    """Give namespace ``alone`` a queue with two flavors and slices, and nodes of each."""
    for name in ("t4", "h100", "slices"):
        labels = {"product": name}
        metadata = {"name": name, "labels": labels}
        world.take("nodes", {"metadata": metadata, "spec": {}}, "ADDED")
        flavor = {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}
        world.take("resourceflavors", flavor, "ADDED")
    groups = [
        quota("nvidia.com/gpu", t4=1, h100=2),
        quota("nvidia.com/mig-1g.10gb", slices=1),
    ]
    spec = {"resourceGroups": groups, **queue.pop("spec", {})}
    world.take("clusterqueues", {"metadata": {"name": "alone", **queue}, "spec": spec}, "ADDED")


def sliced(count: int = 1) -> list[Json]:
    return [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": str(count)}}}]


def test_each_flavor_is_judged_by_the_nodes_of_pods_and_by_their_selectors() -> None:
    world = World()
    mixed(world)
    world.pod("first", node="t4", ns="alone", type_="ADDED")
    assert world.found() == []
    world.pod("second", ns="alone", type_="ADDED", nodeSelector={"product": "t4"})

    assert world.found() == [("alone/second", 2, 1)]
    assert world.checker.violations[0].place == ("t4", "nvidia.com/gpu")


def test_pods_whose_flavor_is_not_known_are_judged_by_the_sum_of_all() -> None:
    world = World()
    mixed(world)
    for number in range(4):
        world.pod(f"pod-{number}", ns="alone", type_="ADDED")

    assert world.found() == [("alone/pod-3", 4, 3)]
    assert world.checker.violations[0].place == ("*", "nvidia.com/gpu")


def test_slices_have_a_quota_of_their_own() -> None:
    world = World()
    mixed(world)
    world.pod("gpu", node="h100", ns="alone", type_="ADDED")
    world.pod("first", 0, ns="alone", type_="ADDED", containers=sliced())
    assert world.found() == []
    world.pod("second", 0, ns="alone", type_="ADDED", containers=sliced())

    assert world.found() == [("alone/second", 2, 1)]


def test_what_fits_into_one_of_several_flavors_is_stuck() -> None:
    world = World()
    mixed(world)
    world.pod("runs", node="h100", ns="alone", type_="ADDED")
    world.pod("small", gated=True, ns="alone", type_="ADDED")
    world.pod("large", 2, gated=True, ns="alone", type_="ADDED")
    bound = {"product": "t4"}
    world.pod("picky", 2, gated=True, ns="alone", type_="ADDED", nodeSelector=bound)

    assert set(world.checker.stuck()) == {"small"}


def test_charges_are_compared_flavor_by_flavor() -> None:
    world = World()
    mixed(world)
    world.pod("runs", node="h100", ns="alone", type_="ADDED")
    total = [{"name": "nvidia.com/gpu", "total": "1"}]
    status = {"flavorsReservation": [{"name": "t4", "resources": total}]}
    spec = {"resourceGroups": [quota("nvidia.com/gpu", t4=1, h100=2)]}
    metadata = {"name": "alone"}
    world.take("clusterqueues", {"metadata": metadata, "spec": spec, "status": status})

    assert set(world.checker.leaked()) == {"alone t4/nvidia.com/gpu"}
    assert set(world.checker.uncharged()) == {"alone h100/nvidia.com/gpu"}


def test_a_claim_costs_what_was_allocated() -> None:
    world = World(team=3)
    entries = [{"name": "all", "resourceClaimName": "all"}]
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 1}
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    results = [{"driver": "gpu.nvidia.com"}] * 4 + [{"driver": "nic.example.com"}] * 2
    watched = [{"driver": "gpu.nvidia.com", "adminAccess": True}]
    found = {
        "metadata": {"name": "all", "namespace": "team", "uid": "all"},
        "spec": {"devices": devices},
        "status": {"allocation": {"devices": {"results": [*results, *watched]}}},
    }
    world.take("resourceclaims", found)
    world.pod("pod", 0, type_="ADDED", resourceClaims=entries)

    assert world.found() == [("team/pod", 4, 3)]


@pytest.mark.parametrize(
    ("resource", "count"),
    [
        ("example.com/gold", 1),
        ("deviceclass.resource.kubernetes.io/gold", 1),
        ("example.com/nic", 0),
    ],
)
def test_gpus_by_the_names_of_their_class_count(resource: str, count: int) -> None:
    world = World(team=1)
    world.checker.classes = {"gold": "example.com/gold"}
    limits = [{"resources": {"limits": {resource: "2"}}}]
    world.pod("pod", 0, type_="ADDED", containers=limits)

    assert len(world.found()) == count


def test_a_pod_belongs_to_the_queue_that_it_named_when_it_was_released() -> None:
    world = World(team=4, alone=1)
    local = {"metadata": {"name": "lent", "namespace": "alone"}, "spec": {"clusterQueue": "team"}}
    world.take("localqueues", local, "ADDED")
    label = {"labels": {"kueue.x-k8s.io/queue-name": "lent"}}
    world.run("first", 2, ns="alone", metadata=label)
    assert world.found() == []
    world.pod("first", 2, ns="alone", node="node", phase="Running", metadata={"labels": {}})

    assert world.held() == 2
    assert world.held("ClusterQueue alone") == 0


def halt(world: World, policy: str) -> None:
    spec = {"resourceGroups": [quota("nvidia.com/gpu", a100=4)], "stopPolicy": policy}
    world.take("clusterqueues", {"metadata": {"name": "alone"}, "spec": spec})


def test_what_is_released_in_a_queue_that_has_been_stopped_is_found() -> None:
    world = World(alone=4)
    halt(world, "Hold")
    world.run("early", ns="alone")
    world.second += world.checker.window
    world.run("late", ns="alone")
    halt(world, "None")
    world.run("after", ns="alone")

    assert set(world.checker.halted) == {"late"}
    assert world.found() == []


def test_what_was_admitted_before_its_queue_was_stopped_may_be_released_late() -> None:
    world = World(alone=4)
    admitted = {"conditions": [{"type": "Admitted", "status": "True"}]}
    for owner in ("early", "again"):
        world.take("workloads", ranked(owner, 1, status=admitted))
    world.take("workloads", ranked("again", 1))
    halt(world, "Hold")
    world.second += world.checker.window
    world.take("workloads", ranked("again", 1, status=admitted))
    for name in ("early", "again"):
        world.run(name, ns="alone")

    assert set(world.checker.halted) == {"again"}


def test_what_is_released_before_its_checks_are_ready_is_found() -> None:
    world = World()
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}
    mixed(world, spec=strategy)
    for owner, state in (("let-in", "Ready"), ("waiting", "Pending")):
        said = {"admissionChecks": [{"name": "budget", "state": state}]}
        world.take("workloads", ranked(owner, 1, status=said))
        world.pod(owner, ns="alone", node="h100", type_="ADDED")

    assert set(world.checker.unchecked) == {"waiting"}


@pytest.mark.parametrize("queue", ["ClusterQueue", "LocalQueue"])
def test_what_is_released_above_a_cap_is_found(queue: str) -> None:
    world = World()
    kind = "max-per-user" if queue == "ClusterQueue" else "max-in-use"
    cap = {f"gpu-admission.dev/{kind}": "nvidia.com/gpu=1"}
    mixed(world, annotations=cap if queue == "ClusterQueue" else {})
    metadata: Json = {"name": "default", "namespace": "alone"}
    metadata |= {"annotations": cap} if queue == "LocalQueue" else {}
    world.take("localqueues", {"metadata": metadata, "spec": {"clusterQueue": "alone"}}, "ADDED")
    world.pod("first", ns="alone", node="h100", type_="ADDED")
    assert world.checker.overcap == {}
    world.pod("waits", gated=True, ns="alone", type_="ADDED")
    assert world.checker.stuck() == {}
    world.pod("waits", ns="alone", node="h100")

    assert set(world.checker.overcap) == {"waits"}


@pytest.mark.parametrize(("seconds", "found"), [(2, {"first"}), (12, set())])
def test_what_is_stopped_before_its_notice_has_ended_is_found(
    seconds: float, found: set[str]
) -> None:
    world = World()
    mixed(world, annotations={"gpu-admission.dev/preemption-notice": "10s"})
    world.pod("first", ns="alone", node="h100", phase="Running", type_="ADDED")
    evicted = {
        "type": "Evicted", "status": "True", "reason": "Preempted",
        "lastTransitionTime": datetime.fromtimestamp(NOON + world.second, UTC).isoformat(),
    }  # fmt: skip
    world.take("workloads", ranked("first", 1, status={"conditions": [evicted]}), after=0)
    world.second += seconds - 1
    world.pod("first", ns="alone", node="h100", phase="Running", metadata=DELETED)

    assert set(world.checker.hurried) == found
    assert world.checker.exercised["notices kept"] == (not found)
