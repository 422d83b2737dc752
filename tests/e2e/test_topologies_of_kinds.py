"""Owners whose pods have to be in one rack, and groups of pods.

The shapes are those of Kueue's documentation (concepts/topology_aware_scheduling and tasks/run).
A stand-in for each operator makes the pods, with the labels of the real one and under its user;
the scheduler is real, and kwok runs the pods.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pytest

from admission.base import names
from admission.objects import owner_rows
from admission.owners import row_owner, serving
from tests.builders.queues import make_group
from tests.controlplane import waiting
from tests.controlplane.rest import Json, Rest
from tests.e2e import objects
from tests.e2e.pools import Pool
from tests.e2e.test_topologies import HOSTNAME, RACK, add_racks
from tests.integration import owner_crds, snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
LWS: Final = "leaderworkerset.sigs.k8s.io"
LWS_OPERATOR: Final = "system:serviceaccount:lws-system:lws-controller-manager"
REQUIRED: Final = {names.REQUIRED_TOPOLOGY: RACK}
TOGETHER: Final = {**REQUIRED, names.PODSET_GROUP_NAME: "all"}


class PodOfOwner(NamedTuple):
    """A pod that an operator makes.

    Attributes:
        template: which of the owner's pod templates it is of, from 0.
        labels: those that the operator adds.
        rank: its number among the pods that are placed together; None where it has none.
    """

    template: int
    labels: dict[str, str]
    rank: int | None


class Kind(NamedTuple):
    """An owner, and what its operator makes of it.

    Attributes:
        spec: its spec.
        pods: of it.
        together: pod templates whose pods have to be in one rack; each other one in a rack of its
            own choice.
    """

    spec: Json
    pods: Sequence[PodOfOwner]
    together: frozenset[int] = frozenset()


def template(annotations: dict[str, str], gpus: int = 1) -> Json:
    return {"metadata": {"annotations": annotations}, "spec": objects.make_pod_spec(gpus)}


def job_set() -> Kind:
    """Two replicas of three workers, numbered anew in each Job, and a driver."""
    job = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}
    workers = [
        PodOfOwner(
            1,
            {
                "jobset.sigs.k8s.io/job-index": str(replica),
                "batch.kubernetes.io/job-completion-index": str(index),
            },
            replica * 3 + index,
        )
        for replica in (0, 1)
        for index in (0, 1, 2)
    ]
    return Kind(
        {
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {"template": template({})}}},
                {
                    "name": "workers",
                    "replicas": 2,
                    "template": {"spec": {**job, "template": template(REQUIRED)}},
                },
            ]
        },
        [PodOfOwner(0, {}, None), *workers],
        frozenset({1}),
    )


def kubeflow(member: str, first: str, *, base: int) -> Kind:
    """A first replica and four workers in one rack, as one group."""
    workers = [
        PodOfOwner(1, {"training.kubeflow.org/replica-index": str(index)}, base + index)
        for index in range(4)
    ]
    return Kind(
        {
            member: {
                first: {"replicas": 1, "template": template(TOGETHER)},
                "Worker": {"replicas": 4, "template": template(TOGETHER)},
            }
        },
        [PodOfOwner(0, {}, None), *workers],
        frozenset({0, 1}),
    )


def ray_job() -> Kind:
    """A head and a group of three workers in one rack; Ray numbers no pods."""
    worker = {"groupName": "gpus", "replicas": 3, "minReplicas": 3, "maxReplicas": 3}
    submitter = {"metadata": {}, "spec": {**objects.make_pod_spec(0), "restartPolicy": "Never"}}
    return Kind(
        {
            "entrypoint": "python train.py",
            "shutdownAfterJobFinishes": True,
            "submitterPodTemplate": submitter,
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": template(TOGETHER)},
                "workerGroupSpecs": [
                    {**worker, "rayStartParams": {}, "template": template(TOGETHER)}
                ],
            },
        },
        [PodOfOwner(0, {}, None), *[PodOfOwner(1, {}, None)] * 3],
        frozenset({0, 1}),
    )


KINDS: Final[dict[str, Callable[[], Kind]]] = {
    "JobSet": job_set,
    "PyTorchJob": lambda: kubeflow("pytorchReplicaSpecs", "Master", base=0),
    "MPIJob": lambda: kubeflow("mpiReplicaSpecs", "Launcher", base=0),
    "RayJob": ray_job,
}
ROWS: Final = {row.kind: row for row in owner_rows.ROWS if row.kind in KINDS}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("kinds"), Installed, whole=True) as it:
        kind = serving.LEADER_WORKER_SET.kind
        owner_crds.install_kind(it.cluster, kind.group, kind.version, kind.name, kind.plural)
        owner_crds.install(it.cluster, *ROWS.values(), owner_rows.SPARK_APPLICATION)
        it.start()
        yield it


@pytest.fixture(scope="module")
def operators(system: Installed) -> dict[str, Rest]:
    """The client of the operator of each kind."""
    users = {name: min(row.makers) for name, row in ROWS.items()} | {
        "LeaderWorkerSet": LWS_OPERATOR
    }
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    system.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "makers"}, "rules": rules})
    binding = {
        "metadata": {"name": "makers"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "makers",
        },
        "subjects": [{"kind": "User", "name": user} for user in sorted(set(users.values()))],
    }
    system.api.post(f"{RBAC}/clusterrolebindings", binding)
    system.cluster.wait_for_roles()
    return {
        kind: system.cluster.client(system.cluster.kubeconfig(user))
        for kind, user in users.items()
    }


@pytest.fixture
def team(system: Installed) -> Iterator[Pool]:
    """A namespace and nodes. The invariants of other tests know no Workload of several pods."""
    made = Pool(system.cluster)
    yield made
    made.delete_namespace()
    made.remove()


def racks_of(team: Pool, count: int, rack_of: dict[str, str]) -> dict[str, set[str]]:
    """Wait until all pods run; return the racks by the label ``template``."""
    pods = waiting.until(
        lambda: pods if len(pods := team.pods("Running")) == count else None,
        what=f"{count} pods run",
    )
    racks: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        node = pod["spec"]["nodeName"]
        racks[pod["metadata"]["labels"]["template"]].add(rack_of[node])
        selector = pod["spec"].get("nodeSelector", {})
        assert selector.get(HOSTNAME, node) == node
    return racks


def by_rank(team: Pool) -> list[str]:
    """Return the nodes of the pods that have a rank, by it."""
    ranked = {
        int(rank): pod["spec"]["nodeName"]
        for pod in team.pods("Running")
        if (rank := pod["metadata"]["labels"].get("rank"))
    }
    return [ranked[rank] for rank in sorted(ranked)]


def is_grouped(nodes: list[str]) -> bool:
    """Return whether equal nodes stand beside each other."""
    changes = sum(before != after for before, after in pairwise(nodes))
    return changes == max(0, len(set(nodes)) - 1)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_pods_of_an_operator_run_in_one_rack_by_rank(
    system: Installed, operators: dict[str, Rest], team: Pool, kind: str
) -> None:
    rack_of = add_racks(system, team, 1, 4, 1)
    row, owner = ROWS[kind], KINDS[kind]()
    plural = row.plural
    api = f"apis/{row.api_version}"
    labels = {names.QUEUE_LABEL: "default"}
    metadata = {"name": "train", "labels": labels}
    identity = {"apiVersion": row.api_version, "kind": kind, "metadata": metadata}
    team.create(plural, {**identity, "spec": owner.spec}, api=api)
    started = waiting.until(
        lambda: (
            document
            if owner_rows.value_at(
                document := system.api.get(team.path(plural, "train", api=api)), row.suspend
            )
            is not True
            else None
        ),
        what="it is started",
    )
    templates = [
        row_owner.with_given(row_owner.template_at(*member).value, member[0].given)
        for member in row_owner.members(row, started)
    ]
    reference = {
        "apiVersion": row.api_version,
        "kind": kind,
        "name": "train",
        "uid": started["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }

    for number, pod in enumerate(reversed(owner.pods)):
        document = copy.deepcopy(templates[pod.template])
        made = document.setdefault("metadata", {})
        made["name"] = f"train-{number}"
        made["ownerReferences"] = [reference]
        rank = {} if pod.rank is None else {"rank": str(pod.rank)}
        made["labels"] = {
            **made.get("labels", {}), **pod.labels, **rank, "template": str(pod.template)
        }  # fmt: skip
        operators[kind].post(team.path("pods"), {"metadata": made, "spec": document["spec"]})

    racks = racks_of(team, len(owner.pods), rack_of)
    assert len(set().union(*(racks[str(index)] for index in owner.together))) == 1
    assert is_grouped(by_rank(team))


def test_each_replica_of_a_leader_worker_set_runs_in_a_rack_of_its_own(
    system: Installed, operators: dict[str, Rest], team: Pool
) -> None:
    rack_of = add_racks(system, team, 2, 2, 1)
    api = "apis/leaderworkerset.x-k8s.io/v1"
    pod_template = template(TOGETHER)
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": {
            "size": 4,
            "leaderTemplate": pod_template,
            "workerTemplate": pod_template,
        },
    }
    identity = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    metadata = {"name": "serve", "labels": {names.QUEUE_LABEL: "default"}}
    team.create("leaderworkersets", {**identity, "metadata": metadata, "spec": spec}, api=api)
    made: Any = system.api.get(team.path("leaderworkersets", "serve", api=api))
    templates = made["spec"]["leaderWorkerTemplate"]

    for replica in (0, 1):
        for place in range(4):
            chosen = copy.deepcopy(templates["workerTemplate" if place else "leaderTemplate"])
            pod = chosen["metadata"]
            pod["name"] = f"serve-{replica}" + (f"-{place}" if place else "")
            pod["labels"] = {
                **pod.get("labels", {}),
                f"{LWS}/name": "serve",
                f"{LWS}/group-index": str(replica),
                f"{LWS}/worker-index": str(place),
                "template": str(replica),
            }
            if place:
                pod["annotations"][f"{LWS}/leader-name"] = f"serve-{replica}"
            body = {"metadata": pod, "spec": chosen["spec"]}
            operators["LeaderWorkerSet"].post(team.path("pods"), body)

    racks = racks_of(team, 8, rack_of)
    assert sorted(map(len, racks.values())) == [1, 1]
    assert racks["0"] != racks["1"]
    nodes = {
        int(pod["metadata"]["labels"][f"{LWS}/worker-index"]): pod["spec"]["nodeName"]
        for pod in team.pods("Running")
        if pod["metadata"]["labels"]["template"] == "0"
    }
    assert is_grouped([nodes[place] for place in range(4)])


def test_executors_of_a_sparkapplication_run_in_one_rack(system: Installed, team: Pool) -> None:
    """Spark makes pods from the spec, with what it says of labels and annotations."""
    rack_of = add_racks(system, team, 1, 2, 1)
    amounts = {names.GPU_RESOURCE: 64, "cpu": "1k", "memory": "1Ti"}
    groups = [make_group({team.name: amounts})]
    system.api.patch(f"{KUEUE}/clusterqueues/{team.name}", {"spec": {"resourceGroups": groups}})
    row = owner_rows.SPARK_APPLICATION
    api = f"apis/{row.api_version}"
    executor = {
        "instances": 3,
        "coreRequest": "1",
        "memory": "1g",
        "gpu": {"name": names.GPU_RESOURCE, "quantity": 1},
        "annotations": REQUIRED,
    }
    spec = {
        "type": "Scala", "mode": "cluster", "sparkVersion": "4.0.0", "mainClass": "Pi",
        "driver": {"coreRequest": "1", "memory": "1g"}, "executor": executor,
    }  # fmt: skip
    metadata = {"name": "train", "labels": {names.QUEUE_LABEL: "default"}}
    identity = {"apiVersion": row.api_version, "kind": "SparkApplication", "metadata": metadata}
    team.create(row.plural, {**identity, "spec": spec}, api=api)
    started = waiting.until(
        lambda: (
            document
            if not (document := system.api.get(team.path(row.plural, "train", api=api)))["spec"][
                "suspend"
            ]
            else None
        ),
        what="it is started",
    )

    for role, count, gpus in (("driver", 1, 0), ("executor", 3, 1)):
        part = started["spec"][role]
        for number in range(count):
            labels = {
                **part.get("labels", {}),
                "sparkoperator.k8s.io/app-name": "train",
                "spark-role": role,
                "template": role,
            }
            metadata = {
                "name": f"{role}-{number}",
                "labels": labels,
                "annotations": part.get("annotations", {}),
            }
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            team.create("pods", {**body, "spec": objects.make_pod_spec(gpus)})

    assert racks_of(team, 4, rack_of)["executor"] == {"r1"}


def test_a_group_of_pods_runs_in_one_rack_by_the_number_of_each(
    system: Installed, team: Pool
) -> None:
    rack_of = add_racks(system, team, 1, 3)

    for index in reversed(range(5)):
        metadata = {
            "name": f"member-{index}",
            "labels": {
                names.QUEUE_LABEL: "default",
                names.POD_GROUP_NAME: "train",
                names.POD_GROUP_POD_INDEX_LABEL: str(index),
                "template": "0",
                "rank": str(index),
            },
            "annotations": {
                **REQUIRED,
                names.POD_GROUP_TOTAL_COUNT: "5",
            },
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        team.create("pods", {**body, "spec": objects.make_pod_spec(1)})

    assert racks_of(team, 5, rack_of)["0"] == {"r1"}
    assert is_grouped(by_rank(team))
    (workload,) = system.api.get(f"{KUEUE}/namespaces/{team.namespace}/workloads")["items"]
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    assert assigned["topologyAssignment"]["levels"] == [HOSTNAME]
