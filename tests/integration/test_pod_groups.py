"""Groups of pods on a whole cluster: they start, stop and end as one.

Who runs is judged from the pods that the API server shows, with its garbage collector at work.
"""

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from admission.answers.why import Answer, explain
from admission.base import conditions, names
from admission.kube.client import Client
from tests.builders.pods import make_pod
from tests.controlplane import waiting
from tests.controlplane.rest import Rest, RestError
from tests.integration import kubelet, teams
from tests.integration.applied import Json
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane

LASTING: dict[str, Any] = {"finalizers": ["example.com/hold"]}
"""Of a pod that stays when it is deleted, and runs on for all that anybody can tell."""
FAST = {names.POD_GROUP_FAST_ADMISSION: "true"}
SERVING = {names.POD_GROUP_SERVING: "true"}
NOT_RETRIABLE = {names.RETRIABLE_IN_GROUP: "false"}


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    cluster = whole_installation.cluster
    cluster.add_gpu_node("gpus", gpus=100, labels={"nvidia.com/gpu.product": "A100"})
    whole_installation.add_classes(high=1000)
    return whole_installation


@pytest.fixture(scope="module")
def editor(system: Installed) -> Rest:
    return teams.add_editor(system)


class Team(teams.Team):
    """A namespace with quota for four GPUs, and one who may edit groups in it."""

    def add(
        self, *pods: str, group: str = "gang", total: int = 4, gpus: int = 1, **more: Any
    ) -> None:
        """Create pods of a group, as a user does."""
        for name in pods:
            annotations = {
                names.POD_GROUP_NAME: group,
                names.POD_GROUP_TOTAL_COUNT: str(total),
                **more.get("annotations", {}),
            }
            pod = make_pod(
                name,
                annotations=annotations,
                limits={names.GPU_RESOURCE: str(gpus)},
                labels=more.get("labels"),
                metadata=more.get("metadata"),
                restartPolicy="Never",
            )
            self.editor.post(self.pods, pod)

    def end(self, *pods: str, phase: str = "Succeeded") -> None:
        """Have pods end, as their kubelet would."""
        for name in pods:
            kubelet.say_phase(self.api, f"{self.pods}/{name}", phase)

    def delete(self, *pods: str, grace: int | None = 0) -> None:
        for name in pods:
            options = None if grace is None else {"gracePeriodSeconds": grace}
            self.editor.delete(f"{self.pods}/{name}", options)

    def let_go(self, *pods: str) -> None:
        """Let pods go that have a finalizer of their own."""
        for name in pods:
            self.api.patch(f"{self.pods}/{name}", {"metadata": {"finalizers": None}})

    def workload(self, group: str = "gang") -> Json | None:
        try:
            found: Json = self.api.get(f"{self.workloads}/{group}")
        except RestError as error:
            if error.status != 404:
                raise
            return None
        return found

    def told(self, kind: str, group: str = "gang") -> Json | None:
        """A condition of the group's Workload."""
        found = (self.workload(group) or {}).get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == kind), None)

    def wait_told(self, kind: str, status: str, reason: str = "", group: str = "gang") -> Json:
        def look() -> Json | None:
            found = self.told(kind, group)
            if found is None or found["status"] != status:
                return None
            return found if reason in {"", found["reason"]} else None

        return waiting.until(look, what=f"{kind} is {status} {reason}")

    def why(self, pod: str) -> Answer:
        """What ``kubectl gpu why`` says of a pod."""
        with closing(Client.connect(self.system.kubeconfig)) as client:
            return explain(client, self.name, pod)

    def pause(self) -> None:
        """Wait until everything was decided that could be decided so far."""
        other = self.system.add_team(1)
        self.system.create_pod(other, "probe", gpus=1)
        self.system.wait_released(other, "probe")


@pytest.fixture
def team(system: Installed, editor: Rest) -> Team:
    return Team(system, editor)


# -------------------------------------------------------------------------------- all or nothing


def test_of_two_gangs_of_four_on_quota_for_one_one_runs_whole_and_the_other_waits_whole(
    team: Team,
) -> None:
    for number in range(4):
        team.add(f"x{number}", group="x")
        team.add(f"y{number}", group="y")
    waiting.until(lambda: len(team.gated()) == 4, what="one gang is released")
    first, second = ("x", "y") if team.gated() == {f"y{n}" for n in range(4)} else ("y", "x")
    team.wait_running(*(f"{first}{n}" for n in range(4)))
    team.pause()
    assert team.gated() == {f"{second}{n}" for n in range(4)}
    waiting.until(
        lambda: (
            "Waits: needs 4 " in (told := team.why(f"{second}3")).message
            and told.workload == second
        ),
        what="a pod of the other gang says what its group lacks",
    )

    team.end(*(f"{first}{n}" for n in range(4)))

    team.wait_told(conditions.FINISHED, "True", "Succeeded", first)
    team.wait_running(*(f"{second}{n}" for n in range(4)))


def test_an_incomplete_gang_holds_nothing_and_says_how_many_pods_are_there(team: Team) -> None:
    team.add("a", "b", "c")
    waiting.until(
        lambda: (
            (told := team.system.condition(team.name, "a"))
            and told["reason"] == "PodGroupIncomplete"
            and "3 of 4 pods of group gang are there" in told["message"]
        ),
        what="the first pod says how many pods are there",
    )
    assert team.workload() is None
    answer = team.why("a")
    assert (answer.state.value, answer.reason) == ("without Workload", "PodGroupIncomplete")
    team.add("all", group="other", total=1, gpus=4)
    team.wait_running("all")


def test_pods_may_come_before_their_queue(system: Installed, editor: Rest) -> None:
    team = Team(system, editor)
    team.add("a", "b", total=2, labels={names.QUEUE_LABEL: "later"})
    system.add_local_queue(team.name, team.name, "later")
    team.wait_running("a", "b")


def test_each_role_is_a_pod_set_and_pods_own_the_workload(team: Team) -> None:
    team.add("driver", total=3, gpus=2)
    team.add("w1", "w2", total=3)
    team.wait_running("driver", "w1", "w2")
    made = team.workload()
    assert made is not None
    assert sorted(one["count"] for one in made["spec"]["podSets"]) == [1, 2]
    owners = made["metadata"]["ownerReferences"]
    assert {one["name"] for one in owners} == {"driver", "w1", "w2"}
    assert not any(one.get("controller") for one in owners)
    assert made["metadata"]["annotations"][names.IS_GROUP_WORKLOAD] == "true"


# -------------------------------------------------------------- excess, failure, replacement


def test_a_pod_too_many_is_deleted(team: Team) -> None:
    team.add("a", "b", total=2)
    team.wait_running("a", "b")
    team.add("c", total=2)
    waiting.until(lambda: set(team.listed()) == {"a", "b"}, what="the excess pod is deleted")


def test_a_failed_pod_is_replaced_without_another_admission(team: Team) -> None:
    team.add("a", "b", total=2, gpus=2)
    team.wait_running("a", "b")
    before = team.told(conditions.QUOTA_RESERVED)
    team.end("b", phase="Failed")
    team.wait_told(conditions.WAITING_FOR_REPLACEMENT_PODS, "True", "PodsFailed")
    team.add("c", total=2, gpus=2)
    team.wait_running("a", "c")
    team.wait_told(conditions.WAITING_FOR_REPLACEMENT_PODS, "False", "PodsReady")
    assert team.told(conditions.QUOTA_RESERVED) == before


def test_pods_that_succeeded_are_remembered_when_they_are_gone(team: Team) -> None:
    team.add("a", "b", total=2, gpus=2)
    team.wait_running("a", "b")
    team.end("a")
    waiting.until(
        lambda: (team.workload() or {}).get("status", {}).get("reclaimablePods"),
        what="the pod that succeeded gives its quota back",
    )
    team.delete("a")
    team.add("single", group="single", total=1, gpus=2)
    team.wait_running("b", "single")
    assert team.told(conditions.WAITING_FOR_REPLACEMENT_PODS) is None
    team.end("b")
    over = team.wait_told(conditions.FINISHED, "True")
    assert (over["reason"], over["message"]) == ("Succeeded", "Pods succeeded: 2/2.")


def test_a_group_that_is_not_retriable_ends_with_failures(team: Team) -> None:
    team.add("a", "b", total=2, annotations=NOT_RETRIABLE)
    team.wait_running("a", "b")
    team.end("a", phase="Failed")
    team.end("b")
    over = team.wait_told(conditions.FINISHED, "True")
    assert over["message"] == "Pods succeeded: 1/2."


def test_a_member_deleted_before_admission_keeps_the_group_from_being_admitted(
    team: Team,
) -> None:
    team.add("first", group="first", total=1, gpus=4)
    team.wait_running("first")
    team.add("a", "b", total=2)
    waiting.until(team.workload, what="the group has a Workload")
    team.delete("b")
    team.wait_told(conditions.WAITING_FOR_REPLACEMENT_PODS, "True", "PodsFailed")
    team.end("first")
    team.wait_told(conditions.FINISHED, "True", group="first")
    team.pause()
    assert team.gated() == {"a"}
    team.add("c", total=2)
    team.wait_running("a", "c")


# ----------------------------------------------------------------- fast admission, serving


def test_fast_admission_starts_pods_as_they_come_and_keeps_quota_for_all(team: Team) -> None:
    team.add("a", annotations=FAST)
    team.wait_running("a")
    team.add("other", group="other", total=1)
    team.pause()
    assert team.gated() == {"other"}
    team.add("b", annotations=FAST)
    team.wait_running("a", "b")


def test_a_serving_group_never_ends(team: Team) -> None:
    team.add("a", "b", total=2, annotations=SERVING)
    team.wait_running("a", "b")
    team.end("a", "b")
    team.pause()
    assert team.told(conditions.FINISHED) is None
    assert not (team.workload() or {})["status"].get("reclaimablePods")


# ------------------------------------------------------------------------------- eviction


def test_a_group_is_preempted_as_a_whole_and_comes_back_as_a_whole(
    system: Installed, editor: Rest
) -> None:
    team = Team(system, editor, preemption={"withinClusterQueue": "LowerPriority"})
    team.add("a", "b", total=2, metadata=LASTING)
    team.wait_running("a", "b")
    urgent = {names.PRIORITY_CLASS_LABEL: "high"}
    team.add("urgent", group="urgent", total=1, gpus=4, labels=urgent)

    def are_stopped() -> bool:
        found = team.listed()
        return all("deletionTimestamp" in found[name]["metadata"] for name in ("a", "b"))

    waiting.until(are_stopped, what="all pods of the group are being deleted")
    for name in ("a", "b"):
        told = {c["type"]: c.get("reason") for c in team.listed()[name]["status"]["conditions"]}
        assert told[conditions.TERMINATION_TARGET] == "WorkloadEvictedDueToPreempted"
    team.let_go("a")
    team.pause()
    assert team.gated() == {"urgent"}  # the quota of both is held until both have ended
    team.let_go("b")
    team.wait_running("urgent")

    team.wait_told(conditions.WAITING_FOR_REPLACEMENT_PODS, "True", "Preempted")
    before = team.workload()
    team.add("c", "d", total=2)
    team.end("urgent")
    team.wait_running("c", "d")
    after = team.workload()
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] == after["metadata"]["uid"]


def test_quota_stays_charged_while_members_end(team: Team) -> None:
    team.add("a", "b", total=2, gpus=2, metadata=LASTING)
    team.wait_running("a", "b")
    team.delete("a", "b", grace=None)
    team.add("other", group="other", total=1, gpus=4)
    team.pause()
    assert "other" in team.gated()
    team.let_go("a", "b")
    team.wait_running("other")


def test_a_group_whose_workload_is_deleted_runs_on_and_is_charged_again(team: Team) -> None:
    team.add("a", "b", total=2, gpus=2)
    team.wait_running("a", "b")
    before = team.workload()
    assert before is not None
    team.api.delete(f"{team.workloads}/gang")
    waiting.until(
        lambda: (
            (found := team.workload()) is not None
            and found["metadata"]["uid"] != before["metadata"]["uid"]
        ),
        what="the group has another Workload",
    )
    team.wait_told(conditions.ADMITTED, "True")
    team.add("other", group="other", total=1)
    team.pause()
    assert team.gated() == {"other"}
    assert team.running("a", "b")


def test_the_workload_goes_with_the_last_pod(team: Team) -> None:
    team.add("a", "b", total=2)
    team.wait_running("a", "b")
    team.delete("a", "b")
    waiting.until(lambda: team.workload() is None, what="the Workload is deleted")


# -------------------------------------------------------------------------------- attacks


def refused(do: Any) -> RestError:
    with pytest.raises(RestError) as caught:
        do()
    assert caught.value.status == 403, caught.value
    return caught.value


def test_who_raises_the_total_count_of_a_running_group_gets_no_more_pods(team: Team) -> None:
    team.add("a", "b", total=2)
    team.wait_running("a", "b")
    for name in ("a", "b"):
        more = {"metadata": {"annotations": {names.POD_GROUP_TOTAL_COUNT: "4"}}}
        team.editor.patch(f"{team.pods}/{name}", more)
    team.add("c", total=4)
    waiting.until(lambda: set(team.listed()) == {"a", "b"}, what="the pod too many is deleted")
    team.end("a", "b")
    assert team.wait_told(conditions.FINISHED, "True")["message"] == "Pods succeeded: 2/2."


def test_a_pod_of_another_size_takes_no_place_in_a_group(team: Team) -> None:
    team.add("a", "b", total=2)
    team.wait_running("a", "b")
    role = team.listed()["a"]["metadata"]["annotations"][names.ROLE_HASH]
    team.end("b", phase="Failed")
    team.add("c", total=2, gpus=8, annotations={names.ROLE_HASH: role})
    told = waiting.until(
        lambda: team.system.condition(team.name, "c"), what="the pod says why it waits"
    )
    assert "smaller requests" in told["message"]
    assert team.gated() == {"c"}


def test_a_running_pod_moves_to_no_other_role(team: Team) -> None:
    team.add("driver", total=2, gpus=2)
    team.add("worker", total=2)
    team.wait_running("driver", "worker")
    found = team.listed()
    role = found["worker"]["metadata"]["annotations"][names.ROLE_HASH]
    other = {"metadata": {"annotations": {names.ROLE_HASH: role}}}
    team.editor.patch(f"{team.pods}/driver", other)
    team.add("second", total=2, gpus=2)
    waiting.until(lambda: "second" not in team.listed(), what="the pod too many is deleted")
    assert team.running("driver", "worker")


def test_a_group_takes_no_workload_that_is_not_a_groups(team: Team) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "train"}]}}
    document = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "gang"},
        "spec": {
            "queueName": "default",
            "podSets": [{"name": "main", "count": 2, "template": template}],
        },
    }
    refused(partial(team.editor.post, team.workloads, document))
    team.api.post(team.workloads, document)
    team.add("a", "b", total=2)
    team.system.wait_condition(team.name, "a", "WorkloadNameConflict")
    assert team.gated() == {"a", "b"}


def test_who_may_edit_a_namespace_may_not_change_what_a_workload_remembers(team: Team) -> None:
    team.add("a", "b", total=2)
    team.wait_running("a", "b")
    told = {"metadata": {"annotations": {names.GROUP_MEMBERS: '{"notRetriable":true}'}}}
    refused(partial(team.editor.patch, f"{team.workloads}/gang", told))


def test_a_pod_stays_in_its_group(team: Team) -> None:
    team.add("a", "b", total=2)
    team.wait_running("a", "b")
    other = {"metadata": {"annotations": {names.POD_GROUP_NAME: "other"}}}
    refused(partial(team.editor.patch, f"{team.pods}/a", other))
