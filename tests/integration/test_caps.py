"""No user and no LocalQueue is given more than its cap.

Judged by the GPUs of released pods, by the user who created them.
"""

from collections import Counter
from typing import Any

import pytest

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.workloads import make_pod_set, make_workload
from tests.controlplane import nodes, waiting
from tests.controlplane.rest import Rest, RestError
from tests.integration import queued
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

USERS = ("ann", "bob")
Clients = dict[str, Rest]


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    cluster = whole_installation.cluster
    cluster.add_gpu_node("gpus", gpus=50, labels={"nvidia.com/gpu.product": "A100"})
    return whole_installation


@pytest.fixture(scope="module")
def users(system: Installed) -> Clients:
    """Users who may do everything, so that nothing but their names tells them apart."""
    cluster = system.cluster
    return {user: cluster.client(cluster.kubeconfig(user, ["system:masters"])) for user in USERS}


class Caps:
    """A ClusterQueue of 16 GPUs in StrictFIFO with two namespaces."""

    def __init__(self, system: Installed, users: Clients) -> None:
        self.system, self.users = system, users
        self.queue = system.add_team(16, queueingStrategy="StrictFIFO")
        self.other = system.cluster.create_namespace("team")
        system.add_local_queue(self.other, self.queue)
        system.wait_for_queue(self.other)
        self.seen: Counter[str] = Counter()

    def cap(self, plural: str, **caps: str | None) -> None:
        """Set or remove caps of the ClusterQueue, or of the LocalQueue of the first namespace."""
        is_local = plural == "localqueues"
        where = queued.path(plural, "default" if is_local else self.queue,
                            self.queue if is_local else "")  # fmt: skip
        keys = {"per_user": names.MAX_PER_USER, "in_use": names.MAX_IN_USE}
        found = {keys[name]: value for name, value in caps.items()}
        self.system.api.patch(where, {"metadata": {"annotations": found}})

    def create(self, user: str, *pods: str, gpus: int = 2, namespace: str = "") -> None:
        """Create pods as a user, one after the other."""
        where = f"/api/v1/namespaces/{namespace or self.queue}/pods"
        for name in pods:
            self.users[user].post(where, make_pod(name, gpus=gpus))

    def held(self) -> dict[str, int]:
        """Return how many GPUs the released pods of each user have; notes the most ever seen."""
        found: Counter[str] = Counter()
        for namespace in (self.queue, self.other):
            for pod in self.system.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
                if not pod["spec"].get("schedulingGates"):
                    user = pod["metadata"]["annotations"][names.REQUESTER]
                    (container,) = pod["spec"]["containers"]
                    found[user] += int(container["resources"]["limits"][names.GPU_RESOURCE])
        self.seen |= found
        return dict(found)

    def pods(self, user: str, *, waits: bool) -> list[tuple[str, str]]:
        """Return the namespace and name of the pods of a user that wait, or that do not."""
        return [
            (namespace, pod["metadata"]["name"])
            for namespace in (self.queue, self.other)
            for pod in self.system.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
            if pod["metadata"]["annotations"][names.REQUESTER] == user
            and bool(pod["spec"].get("schedulingGates")) == waits
        ]

    def wait_told(self, user: str, text: str) -> None:
        """Return once the message of a pod of a user that waits contains a text."""
        (where, *_) = self.pods(user, waits=True)
        self.system.wait_condition(*where, text=text)

    def wait_held(self, **wanted: int) -> None:
        waiting.until(lambda: self.held() == wanted, what=f"released pods have {wanted}")


@pytest.fixture
def caps(system: Installed, users: Clients) -> Caps:
    return Caps(system, users)


def test_two_users_get_one_cap_each_over_all_namespaces(caps: Caps) -> None:
    caps.cap("clusterqueues", per_user="nvidia.com/gpu=4")
    caps.create("ann", "a1", "a2", "a3")
    caps.create("ann", "a4", namespace=caps.other)
    caps.create("bob", "b1", "b2", "b3")
    caps.wait_held(ann=4, bob=4)
    caps.wait_told(
        "ann", f"Waits: you (ann) hold 4 of at most 4 nvidia.com/gpu in queue {caps.queue}"
    )

    (namespace, name), *_ = caps.pods("ann", waits=False)
    where = f"/api/v1/namespaces/{namespace}/pods/{name}"
    caps.users["ann"].delete(where, {"gracePeriodSeconds": 0})
    waiting.until(
        lambda: caps.held() and len(caps.pods("ann", waits=True)) == 1, what="another one starts"
    )
    caps.wait_held(ann=4, bob=4)
    assert caps.seen == {"ann": 4, "bob": 4}

    caps.cap("clusterqueues", per_user=None)
    caps.wait_held(ann=6, bob=6)


def test_a_local_queue_is_held_to_its_cap_while_others_go_on(caps: Caps) -> None:
    caps.cap("localqueues", in_use="nvidia.com/gpu=4")
    caps.create("ann", "a1", "a2", "a3")
    caps.create("bob", "b1", namespace=caps.other)
    caps.wait_held(ann=4, bob=2)
    caps.wait_told("ann", "holds 4 of at most 4 nvidia.com/gpu")

    caps.cap("localqueues", in_use="nvidia.com/gpu=6")

    caps.wait_held(ann=6, bob=2)


def test_more_than_a_cap_is_too_big(caps: Caps) -> None:
    caps.cap("clusterqueues", per_user="nvidia.com/gpu=4")
    caps.create("ann", "wide", gpus=5)
    caps.create("bob", "b1")

    caps.system.wait_condition(caps.queue, "wide", text="Too big: asks 5")
    caps.wait_held(bob=2)


def test_a_job_counts_for_who_created_it(caps: Caps) -> None:
    caps.cap("localqueues", per_user="nvidia.com/gpu=4")
    template = make_pod("", gpus=2)
    spec = {key: value for key, value in template["spec"].items() if key != "schedulingGates"}
    for name in ("j1", "j2"):
        job = {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"parallelism": 2, "completions": 2,
                     "template": {"spec": {**spec, "restartPolicy": "Never"}}},
        }  # fmt: skip
        caps.users["ann"].post(f"/apis/batch/v1/namespaces/{caps.queue}/jobs", job)
    caps.create("bob", "b1")
    jobs = f"/apis/batch/v1/namespaces/{caps.queue}/jobs"

    def running() -> dict[str, bool]:
        found = caps.system.api.get(jobs)["items"]
        return {one["metadata"]["name"]: not one["spec"].get("suspend") for one in found}

    waiting.until(lambda: sorted(running().values()) == [False, True], what="one Job runs")
    caps.system.wait_released(caps.queue, "b1")
    (first,) = (name for name, runs in running().items() if runs)
    caps.users["ann"].delete(f"{jobs}/{first}", {"propagationPolicy": "Background"})
    waiting.until(lambda: list(running().values()) == [True], what="the other Job runs")


# ------------------------------------------------------------------------------ other ways in


LASTS = {"annotations": {nodes.RUN_FOR: "30m"}}
"""Of pods that do not end during a test."""


class Jobs:
    """Jobs of users in the first namespace."""

    def __init__(self, caps: Caps) -> None:
        self.caps, self.api = caps, caps.system.api
        self.path = f"/apis/batch/v1/namespaces/{caps.queue}/jobs"
        self.pods = f"/api/v1/namespaces/{caps.queue}/pods"

    def create(self, user: str, name: str, pods: int, **metadata: Any) -> None:
        job = make_job(name, pods, gpus=2, pod=LASTS, **metadata)
        self.caps.users[user].post(self.path, job)

    def gpus(self) -> dict[str, int]:
        """GPUs of the released pods of each Job, and of the pods beside them."""
        found: Counter[str] = Counter()
        for pod in self.api.get(self.pods)["items"]:
            has_ended = pod["status"]["phase"] in {"Succeeded", "Failed"}
            if not pod["spec"].get("schedulingGates") and not has_ended:
                (container,) = pod["spec"]["containers"]
                job = pod["metadata"].get("labels", {}).get("job-name", pod["metadata"]["name"])
                found[job] += int(container["resources"]["limits"][names.GPU_RESOURCE])
        return dict(found)

    def wait_gpus(self, **wanted: int) -> None:
        waiting.until(lambda: self.gpus() == wanted, what=f"{wanted}, found {self.gpus()}")


def test_a_job_that_starts_with_fewer_pods_takes_what_a_cap_leaves(caps: Caps) -> None:
    caps.cap("clusterqueues", per_user="nvidia.com/gpu=4")
    jobs = Jobs(caps)
    jobs.create("ann", "wide", 4, annotations={names.JOB_MIN_PARALLELISM: "1"})
    jobs.wait_gpus(wide=4)
    caps.create("ann", "more")
    caps.create("bob", "b1")
    caps.system.wait_condition(caps.queue, "more", "CapReached")
    jobs.wait_gpus(wide=4, b1=2)


def test_a_workload_that_a_user_has_made_counts_for_the_job_that_takes_it(caps: Caps) -> None:
    caps.cap("clusterqueues", per_user="nvidia.com/gpu=4")
    jobs = Jobs(caps)
    jobs.create("ann", "own", 2, annotations={names.PREBUILT_WORKLOAD: "by-hand"})
    template = jobs.api.get(f"{jobs.path}/own")["spec"]["template"]
    pod_set = make_pod_set("main", 2, pod=template["spec"])
    by_hand = make_workload("by-hand", pod_set, namespace=caps.queue, queue="default")
    caps.users["ann"].post(f"{KUEUE}/namespaces/{caps.queue}/workloads", by_hand)
    jobs.wait_gpus(own=4)
    caps.create("ann", "more")
    caps.create("bob", "b1")
    caps.system.wait_condition(caps.queue, "more", "CapReached")
    jobs.wait_gpus(own=4, b1=2)


def test_service_accounts_of_a_namespace_are_bounded_by_its_local_queue(caps: Caps) -> None:
    """Who may use them has a name more for each, and says another one in vain."""
    caps.cap("localqueues", per_user="nvidia.com/gpu=4", in_use="nvidia.com/gpu=6")
    caps.create("ann", "a1", "a2")
    caps.wait_held(ann=4)
    account = f"system:serviceaccount:{caps.queue}:default"
    cluster = caps.system.cluster
    client = cluster.client(cluster.kubeconfig(account, ["system:masters"]))
    where = f"/api/v1/namespaces/{caps.queue}/pods"
    for name in ("s1", "s2"):
        client.post(where, make_pod(name, gpus=2, annotations={names.REQUESTER: "bob"}))
    caps.wait_held(ann=4, **{account: 2})
    (_, waits), *_ = caps.pods(account, waits=True)
    caps.system.wait_condition(caps.queue, waits, text="holds 6 of at most 6 nvidia.com/gpu")


def test_jobs_of_cron_jobs_share_the_cap_of_nobody_known(caps: Caps) -> None:
    """One for a namespace, whoever has created them."""
    caps.cap("clusterqueues", per_user="nvidia.com/gpu=4")
    jobs = Jobs(caps)
    controller = "system:serviceaccount:kube-system:cronjob-controller"
    cluster = caps.system.cluster
    client = cluster.client(cluster.kubeconfig(controller, ["system:masters"]))
    for name in ("n1", "n2", "n3"):
        said = {names.REQUESTER: f"user-of-{name}"}
        client.post(jobs.path, make_job(name, 1, gpus=2, pod=LASTS, annotations=said))

    def running() -> int:
        found = caps.system.api.get(jobs.path)["items"]
        return sum(not one["spec"].get("suspend") for one in found)

    waiting.until(lambda: sum(jobs.gpus().values()) == 4, what="two Jobs run")
    caps.create("ann", "a1")
    caps.system.wait_released(caps.queue, "a1")
    assert running() == 2


@pytest.mark.parametrize("plural", ["clusterqueues", "localqueues"])
def test_a_cap_that_cannot_be_read_is_refused(caps: Caps, plural: str) -> None:
    with pytest.raises(RestError, match="must be RESOURCE=QUANTITY"):
        caps.cap(plural, per_user="eight")
    where = f"{KUEUE}/clusterqueues/{caps.queue}"
    assert names.MAX_PER_USER not in (
        caps.system.api.get(where)["metadata"].get("annotations") or {}
    )
