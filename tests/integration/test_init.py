"""``gpu-admission init`` on a real cluster: from nodes to pods that are admitted."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.admin import manifests, proposal
from admission.admin.proposal import Team
from admission.base import names, patches
from admission.base.names import SYSTEM_NAMESPACE
from admission.config.derived import Settings
from admission.kube import apply
from admission.run.connection import ApiServerTarget
from tests.admin.node_table import TABLE, supply
from tests.controlplane import build, nodes, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import RestError
from tests.integration.installed import KUEUE, Installed, run_command

pytestmark = pytest.mark.controlplane

GPU = "nvidia.com/gpu"
TEAMS = ("--team", "red", "--team", "blue=blue-dev,blue-prod", "--team", "green")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with Cluster.start() as cluster:
        cluster.start_whole()
        taints = [nodes.GPU_TAINT]
        cluster.add_gpu_node("gpu-0", taints=taints)
        cluster.add_gpu_node("gpu-1", product="NVIDIA-H100-80GB-HBM3", gpus=4, taints=taints)
        cluster.add_gpu_node("mig-0", gpus=0, mig={"1g.10gb": 7}, taints=taints)
        shared = {
            "nvidia.com/gpu.product": "Tesla-T4-SHARED",
            "nvidia.com/gpu.count": "4",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }
        cluster.add_gpu_node("t4-0", product="Tesla-T4", gpus=16, labels=shared, taints=taints)
        it = Installed(cluster, tmp_path_factory.mktemp("init"))
        before = init(it)
        assert before.returncode == 0, before.stderr  # what init shows needs no installation
        it.install_as_new()
        try:
            it.start()
            yield it
        finally:
            it.stop()


def init(system: Installed, *more: str) -> subprocess.CompletedProcess[str]:
    return run_command("init", "--kubeconfig", system.kubeconfig, *more)


def done(system: Installed, *more: str) -> str:
    finished = init(system, *more)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def stored(system: Installed, kind: str, name: str) -> Any:
    return system.api.get(f"{KUEUE}/{kind}/{name}")


def pod(
    name: str, gpus: int = 1, product: str = "", profile: str = "", *, shares: bool = False
) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi"}
    keys = {"gpu-admission.dev/mig-profile": profile} if profile else {}
    chosen = {"nvidia.com/gpu.product": product} if product else {}
    tolerated = [{"key": names.FLAVOR_SHARING, "operator": "Exists"}] if shares else []
    main = {
        "name": "main",
        "image": "registry.example.com/train:1",
        "resources": {"requests": amounts, "limits": {**amounts, GPU: str(gpus)}},
    }
    return {
        "metadata": {"name": name, "annotations": keys},
        "spec": {"nodeSelector": chosen, "tolerations": tolerated, "containers": [main]},
    }


def test_from_nodes_to_the_first_pods_of_three_teams(system: Installed) -> None:
    shown = done(system, *TEAMS)
    documents = list(yaml.safe_load_all(shown))
    assert [one for one in documents if one and one["kind"] == "ClusterQueue"]
    with pytest.raises(RestError, match="404"):  # nothing was changed
        stored(system, "clusterqueues", "red")

    applied = done(system, *TEAMS, "--apply")
    assert "Namespace/blue-prod created" in applied
    assert "ClusterQueue/red created" in applied
    assert "next: create a pod with a GPU in namespace red" in applied
    assert "Fair sharing is off" in applied  # webhook and controller run outside of the cluster
    for namespace in ("red", "blue-dev", "blue-prod", "green"):
        system.wait_for_queue(namespace)

    pods = "/api/v1/namespaces/red/pods"
    expected = {
        "train": (pod("train"), {"gpu-0"}),
        "slice": (pod("slice", profile="1g.10gb"), {"mig-0"}),
        "share": (pod("share", product="Tesla-T4-SHARED", shares=True), {"t4-0"}),
    }
    for document, _ in expected.values():
        system.api.post(pods, document)

    def places() -> dict[str, set[str]]:
        return {
            one["metadata"]["name"]: {one["spec"].get("nodeName", "")}
            for one in system.api.get(pods)["items"]
            if one.get("status", {}).get("phase") == "Running"
        }

    wanted = {name: where for name, (_, where) in expected.items()}
    waiting.until(lambda: places() == wanted, what=f"pods run on {wanted}")

    used = {
        (proposal.ANY_NODE, "cpu"): "12",
        (proposal.ANY_NODE, "memory"): "48Gi",
        ("a100-80gb", GPU): "1",
        ("a100-80gb-1g.10gb", "nvidia.com/mig-1g.10gb"): "1",
        ("t4-time-slicing-4", GPU): "1",
    }
    waiting.until(lambda: used.items() <= usage(system, "red").items(), what="usage is told")


def test_what_each_team_gets_and_how_they_share_is_told_beside_the_yaml(
    system: Installed, tmp_path: Path
) -> None:
    told = init(system, *TEAMS).stderr.splitlines()
    assert told[0].startswith("cluster: ")
    head, *rows = (one.split() for one in told[2:])
    assert head == ["FLAVOR", "RESOURCE", "red", "blue", "green"]
    assert ["a100-80gb", GPU, "3", "3", "2"] in rows
    assert ["a100-80gb-1g.10gb", "nvidia.com/mig-1g.10gb", "3", "2", "2"] in rows
    assert any(
        f"put fairSharing: {{}} into the file of --config of the program at {system.webhook_url}"
        in one
        for one in told
    )
    assert any("reclaimWithinCohort: Any" in one for one in told)

    off = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    file = tmp_path / "config.yaml"
    file.write_text(off)
    named = init(system, *TEAMS, "--config", str(file))
    assert f"put fairSharing: {{}} into {file}" in named.stderr
    file.write_text(f"{off}fairSharing: {{}}\n")
    assert "Fair sharing is on" in init(system, *TEAMS, "--config", str(file)).stderr
    assert "air sharing" not in init(system, "--team", "red").stderr, "there is nobody to share"


@pytest.fixture
def in_cluster(system: Installed) -> Iterator[None]:
    """What an installation whose programs run in the cluster has besides."""
    settings = Settings()
    documents = [
        manifests.config_map(settings),
        *manifests.webhook(settings, "registry.example.com/gpu-admission:1"),
        *manifests.controller(settings, "registry.example.com/gpu-admission:1"),
    ]
    with closing(
        ApiServerTarget(system.kubeconfig).connect(connections=1, timeout_seconds=30)
    ) as api:
        list(apply.apply_all(api, documents))
        yield
        list(apply.delete_all(api, documents))


@pytest.mark.usefixtures("in_cluster")
def test_fair_sharing_is_turned_on_with_several_teams_unless_somebody_says_no(
    system: Installed,
) -> None:
    assert "Fair sharing is off; --apply turns it on" in init(system, *TEAMS).stderr
    left = done(system, *TEAMS, "--no-fair-sharing", "--apply")
    assert "Fair sharing is off" in left
    assert "To share it evenly: leave out --no-fair-sharing" in left
    applied = done(system, *TEAMS, "--apply")
    assert f"ConfigMap/{manifests.CONFIG_MAP} -n {SYSTEM_NAMESPACE} configured" in applied
    assert f"Deployment/{manifests.CONTROLLER} -n {SYSTEM_NAMESPACE} configured" in applied
    assert "Fair sharing is turned on now" in applied
    again = json.loads(done(system, *TEAMS, "--apply", "-o", "json"))
    assert again["fairSharing"] == "on"
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{manifests.CONFIG_MAP}"
    stored_settings = manifests.configured(system.api.get(path))
    assert stored_settings.kueue.fair_sharing is not None


def usage(system: Installed, queue: str) -> dict[tuple[str, str], str]:
    return {
        (flavor["name"], one["name"]): one["total"]
        for flavor in stored(system, "clusterqueues", queue)["status"]["flavorsUsage"]
        for one in flavor["resources"]
    }


def test_teams_share_what_there_is_and_borrow_the_rest(system: Installed) -> None:
    done(system, *TEAMS, "--apply")
    quotas = {
        name: stored(system, "clusterqueues", name)["spec"]["resourceGroups"][0]["flavors"][0]
        for name in ("red", "blue", "green")
    }
    assert {name: one["resources"][0]["nominalQuota"] for name, one in quotas.items()} == {
        "red": 3, "blue": 3, "green": 2
    }  # fmt: skip
    system.wait_for_queue("green")
    pods = "/api/v1/namespaces/green/pods"
    system.api.post(pods, pod("wide", gpus=6))

    def runs() -> bool:
        (found,) = system.api.get(pods)["items"]
        return bool(found.get("status", {}).get("phase") == "Running")

    waiting.until(runs, what="the pod that borrows runs")


def test_a_second_run_changes_nothing_and_an_edit_is_shown_and_kept(system: Installed) -> None:
    done(system, *TEAMS, "--apply")
    again = done(system, *TEAMS, "--apply")
    effects = {
        line.rpartition(" ")[2] for line in again.splitlines() if "/" in line.partition(" ")[0]
    }
    assert effects == {"unchanged"}

    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota",
         "value": "7"},
        {"op": "add", "path": "/metadata/annotations",
         "value": {"gpu-admission.dev/capacity-guard": "Enforce"}},
    ]  # fmt: skip
    kubectl_patch(system, "clusterqueue", "red", patch)
    shown = done(system, *TEAMS)
    said = (
        "spec.resourceGroups[nvidia.com/gpu].flavors[a100-80gb].resources[nvidia.com/gpu]"
        ".nominalQuota: 7 in the cluster, 3 proposed"
    )
    assert said in shown.replace("\n# ", " ")
    kept = init(system, *TEAMS, "--apply")
    assert kept.returncode == 0
    assert "ClusterQueue/red kept" in kept.stdout
    assert said in kept.stdout
    assert "1 object with differences kept" in kept.stderr
    assert quota_of(system, "red") == "7"

    answer = json.loads(done(system, *TEAMS, "--apply", "--overwrite", "-o", "json"))
    (changed,) = [one for one in answer["objects"] if one["effect"] == "configured"]
    assert changed["object"]["metadata"]["name"] == "red"
    assert quota_of(system, "red") == 3
    annotations = stored(system, "clusterqueues", "red")["metadata"]["annotations"]
    assert annotations["gpu-admission.dev/capacity-guard"] == "Enforce"  # not ours: it stays


def test_overwrite_takes_away_and_leaves_what_it_says(system: Installed) -> None:
    done(system, *TEAMS, "--apply")
    kubectl_patch(system, "clusterqueue", "red", [
        {"op": "add", "path": "/spec/resourceGroups/0/flavors/0/resources/0/lendingLimit",
         "value": "0"},
        {"op": "add", "path": "/spec/fairSharing", "value": {"weight": "2"}},
    ])  # fmt: skip

    def told(*more: str) -> tuple[list[str], list[str]]:
        objects = json.loads(done(system, *TEAMS, "-o", "json", *more))["objects"]
        (red,) = [
            one
            for one in objects
            if (one["object"]["kind"], one["object"]["metadata"]["name"])
            == ("ClusterQueue", "red")
        ]
        additions = [text for text in red["additions"] if text.startswith("spec.")]
        return red["differences"], additions

    limit = (
        "spec.resourceGroups[nvidia.com/gpu].flavors[a100-80gb].resources[nvidia.com/gpu]"
        ".lendingLimit: 0 in the cluster, none proposed"
    )
    weight = "spec.fairSharing: {'weight': '2'} in the cluster, none proposed; it stays"
    assert told() == told("--apply", "--overwrite") == ([limit], [weight])
    assert told() == ([], [weight])
    spec = stored(system, "clusterqueues", "red")["spec"]
    assert "lendingLimit" not in spec["resourceGroups"][0]["flavors"][0]["resources"][0]
    assert spec["fairSharing"] == {"weight": "2"}
    kubectl_patch(system, "clusterqueue", "red", [{"op": "remove", "path": "/spec/fairSharing"}])


def test_what_was_applied_is_changed_with_kubectl(system: Installed, tmp_path: Path) -> None:
    done(system, *TEAMS, "--apply")
    (document,) = [
        one["object"]
        for one in json.loads(done(system, *TEAMS, "-o", "json"))["objects"]
        if (one["object"]["kind"], one["object"]["metadata"]["name"]) == ("ClusterQueue", "blue")
    ]
    document["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 1
    (tmp_path / "queues.json").write_text(json.dumps(document))
    finished = subprocess.run(
        [str(build.folder() / "kubectl"), f"--kubeconfig={system.kubeconfig}", "apply",
         "--server-side", "-f", str(tmp_path / "queues.json")],
        capture_output=True, text=True, check=False, timeout=waiting.PATIENCE_SECONDS,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert quota_of(system, "blue") == 1


def quota_of(system: Installed, name: str) -> Any:
    groups = stored(system, "clusterqueues", name)["spec"]["resourceGroups"]
    return groups[0]["flavors"][0]["resources"][0]["nominalQuota"]


def kubectl_patch(system: Installed, kind: str, name: str, patch: list[dict[str, Any]]) -> None:
    finished = subprocess.run(
        [str(build.folder() / "kubectl"), f"--kubeconfig={system.kubeconfig}", "patch", kind, name,
         "--type=json", "-p", json.dumps(patch)],
        capture_output=True, text=True, check=False, timeout=waiting.PATIENCE_SECONDS,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr


def test_resource_quotas_become_queues(system: Installed) -> None:
    system.api.post("/api/v1/namespaces", {"metadata": {"name": "quoted"}})
    hard = {"requests.nvidia.com/gpu": "2", "requests.memory": "64Gi", "pods": "50"}
    system.api.post(
        "/api/v1/namespaces/quoted/resourcequotas",
        {"metadata": {"name": "gpus"}, "spec": {"hard": hard}},
    )
    answer = json.loads(done(system, "--like", "resourcequota", "-o", "json"))
    queues = [one["object"] for one in answer["objects"]]
    (queue,) = [one for one in queues if one["kind"] == "ClusterQueue"]
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]
    assert sum(one["resources"][0]["nominalQuota"] for one in flavors) == 2
    (note,) = answer["notes"]
    assert "take requests.memory, requests.nvidia.com/gpu out of ResourceQuota gpus" in note
    (local,) = [one for one in queues if one["kind"] == "LocalQueue"]
    assert local["metadata"] == {"name": "default", "namespace": "quoted"}


def test_what_stops_in_the_middle_says_what_was_done_and_goes_on_when_repeated(
    system: Installed,
) -> None:
    command = ("--team", "late", "--apply")
    system.stop()
    try:
        stopped = init(system, *command)
    finally:
        system.start()
    assert stopped.returncode == 1
    assert "Namespace/late created" in stopped.stdout
    _, told, error, hint = stopped.stderr.splitlines()
    assert told.startswith("stopped at ")
    assert "done before it: Namespace/late created;" in told
    assert told.endswith("; the same command goes on from there")
    assert error.startswith("error: ")
    assert "failed calling webhook" in error
    assert "the webhook of gpu-admission does not answer, or not yet: start it" in hint

    assert "LocalQueue/default -n late created" in done(system, *command)
    system.api.delete(f"{KUEUE}/namespaces/late/localqueues/default")
    system.api.delete(f"{KUEUE}/clusterqueues/late")


@pytest.mark.parametrize("case", TABLE)
def test_the_api_server_accepts_what_is_proposed(system: Installed, case: str) -> None:
    found = supply(*TABLE[case][0])
    shares = proposal.equal_shares(found, [Team(name="other", namespaces=("default",))])
    client = ApiServerTarget(system.kubeconfig).connect(connections=1, timeout_seconds=30)
    with closing(client):
        tried = client.dry_run()
        for one in proposal.objects(found, shares):
            resource, name, namespace = apply.locate(one.document)
            tried.patch(resource, name, patches.apply(one.document), namespace, force=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--team", "red", "--team", "blue=red"), "namespace red belongs to two teams"),
        (("--team", "red", "--team", "red=x"), "there are two teams red"),
        (("--team", "Red"), "'Red' is not a name"),
        (("--team", "system=kube-system"), "namespace kube-system is excluded"),
        (("--team", "red", "--like", "resourcequota"), "leave one out"),
        (("--overwrite",), "add --apply"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], said: str) -> None:
    finished = run_command("init", "--kubeconfig", str(Path("none")), *arguments)
    assert finished.returncode == 2
    assert said in finished.stderr
