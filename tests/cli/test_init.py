"""``gpu-admission init`` where quota changes: in which order, and what is said before."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from admission.base import names
from admission.cli.main import main
from admission.kube import resources
from tests.admin.node_table import gpu_node
from tests.builders.queues import make_cluster_queue
from tests.cli.applying import ApplyingStore
from tests.cli.served import served

FLAVOR = "a100-80gb"
RESOURCES = (*resources.BUILT_IN, *resources.CUSTOM)


@pytest.fixture
def store() -> ApplyingStore:
    """Return a cluster with 24 GPUs."""
    store = ApplyingStore()
    for name in ("gpu-0", "gpu-1", "gpu-2"):
        node = gpu_node(name)
        status = node.pop("status")
        store.create(resources.NODES, {**node, "status": status})
    return store


@pytest.fixture
def kubeconfig(store: ApplyingStore, tmp_path: Path) -> Iterator[Path]:
    with served(store, RESOURCES, tmp_path) as path:
        yield path


def init(kubeconfig: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(main, ["init", *arguments, "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def team_options(gpus: Mapping[str, int]) -> list[str]:
    return [word for team, n in gpus.items() for word in ("--team", f"{team}:{n}")]


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        ({"research": 14, "vision": 10}, {"research": 16, "vision": 8}, ["vision", "research"]),
        ({"research": 16, "vision": 8}, {"research": 14, "vision": 10}, ["research", "vision"]),
        ({"b": 12, "c": 12}, {"a": 8, "b": 8, "c": 8}, ["b", "c", "a"]),
        # What is nobody's is quota of the Cohort.
        ({"b": 12, "c": 12}, {"b": 8, "c": 8}, ["b", "c", "gpus"]),
        ({"b": 8, "c": 8}, {"b": 12, "c": 12}, ["gpus", "b", "c"]),
    ],
)
def test_quota_is_lowered_before_other_quota_is_raised(
    store: ApplyingStore,
    kubeconfig: Path,
    before: dict[str, int],
    after: dict[str, int],
    order: list[str],
) -> None:
    init(kubeconfig, *team_options(before), "--apply", "--no-fair-sharing")
    store.applied.clear()
    init(kubeconfig, *team_options(after), "--apply", "--overwrite", "--no-fair-sharing")
    having = [
        name
        for kind, _, name in (one.partition("/") for one in store.applied)
        if kind in {"ClusterQueue", "Cohort"}
    ]
    assert having == order


def test_new_queues_come_after_what_they_name(store: ApplyingStore, kubeconfig: Path) -> None:
    init(kubeconfig, "--team", "a:8", "--apply", "--no-fair-sharing")
    assert [one.partition("/")[0] for one in store.applied] == [
        "Namespace",
        "ResourceFlavor",
        "ResourceFlavor",
        "Cohort",
        "ClusterQueue",
        "LocalQueue",
    ]


def test_before_quota_is_lowered_it_says_what_may_be_stopped(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    used: list[Any] = [{"name": names.GPU_RESOURCE, "total": "10", "borrowed": "0"}]
    queue = make_cluster_queue("vision", quota=10, flavors=(FLAVOR,))
    store.create(resources.CLUSTER_QUEUES, queue)
    status = {"status": {"flavorsUsage": [{"name": FLAVOR, "resources": used}]}}
    store.replace(
        resources.CLUSTER_QUEUES,
        {**store.get(resources.CLUSTER_QUEUES, "vision"), **status},
        subresource="status",
    )
    said = (
        f"ClusterQueue/vision gets less: nvidia.com/gpu of {FLAVOR} 10 -> 8 (10 in use); running "
        "workloads above the new quota may be stopped"
    )
    shown = init(kubeconfig, "--team", "vision:8")
    assert said in shown.stdout.replace("\n# ", " ")
    kept = init(kubeconfig, "--team", "vision:8", "--apply")
    assert "gets less" not in kept.stderr
    changed = init(kubeconfig, "--team", "vision:8", "--apply", "--overwrite")
    assert f"warning: {said}\n" in changed.stderr


def test_each_queue_gets_of_each_gpu_product_the_quota_that_is_said(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    node = gpu_node("gpu-3", product="NVIDIA-H100-80GB-HBM3")
    store.create(resources.NODES, node)
    init(
        kubeconfig, "--team", "research=r-a,r-b:a100-80gb=4,h100-80gb=8", "--team", "vision",
        "--apply",
    )  # fmt: skip
    quotas = {
        queue["metadata"]["name"]: {
            flavor["name"]: flavor["resources"][0]["nominalQuota"]
            for flavor in queue["spec"]["resourceGroups"][0]["flavors"]
        }
        for queue in store.list(resources.CLUSTER_QUEUES).items
    }
    assert quotas == {
        "research": {"h100-80gb": 8, "a100-80gb": 4}, "vision": {"h100-80gb": 0, "a100-80gb": 20},
    }  # fmt: skip
    arguments = ["init", "--team", "a:a100-80gb=x", "--kubeconfig", str(kubeconfig)]
    refused = CliRunner().invoke(main, arguments)
    assert (refused.exit_code, "'a100-80gb=x' is not FLAVOR=NUMBER" in refused.stderr) == (2, True)
    unknown = [*arguments[:2], "a:h200=1", *arguments[3:]]
    assert "these are: a100-80gb, h100-80gb" in CliRunner().invoke(main, unknown).stderr


def test_queues_that_are_not_named_and_promise_the_same_gpus_are_told(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    init(kubeconfig, *team_options({"research": 14, "vision": 10}), "--apply", "--no-fair-sharing")
    told = " ".join(init(kubeconfig, "--team", "speech:8").stdout.replace("\n# ", " ").split())
    assert (
        "Note: not named: ClusterQueue research, vision with 24 nvidia.com/gpu, which this"
        " promises a second time. Name all teams, those that have a queue, too"
    ) in told
    everybody = {"research": 8, "vision": 8, "speech": 8}
    assert "not named" not in init(kubeconfig, *team_options(everybody)).stdout


def lines_of(result: Result) -> list[str]:
    return result.stderr.splitlines()


def test_a_proposal_says_first_and_last_that_nothing_was_changed_and_how_it_is_made(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    arguments = ("--team", "a:16", "--team", "b=b-dev,b-prod:8", "--no-fair-sharing")
    shown = init(kubeconfig, *arguments)
    plan = (
        "Nothing was changed. --apply would create 3 Namespaces, 2 ResourceFlavors, 1 Cohort, "
        "2 ClusterQueues, 3 LocalQueues."
    )
    assert shown.stdout.replace("\n# ", " ").splitlines()[0].endswith(f"cluster. {plan}")
    _, head, *_, told, create, by_hand = lines_of(shown)
    assert head == "Only a proposal, nothing was changed. Quota that each team would have:"
    assert told == plan
    assert create == (
        "Create it: gpu-admission init --team a:16 --team b=b-dev,b-prod:8 --no-fair-sharing "
        f"--apply --kubeconfig {kubeconfig}"
    )
    assert by_hand.startswith("Or put the YAML into a file, edit it, and: kubectl apply --server-")
    assert store.applied == []
    assert not store.list(resources.CLUSTER_QUEUES).items


def test_a_proposal_says_which_queues_exist_and_stay(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    init(kubeconfig, "--team", "a:8", "--apply")
    same = lines_of(init(kubeconfig, "--team", "a:8"))
    assert same[-1] == (
        "Nothing was changed. --apply would create nothing. 5 objects with the same content would "
        "stay."
    )
    _, *_, told, overwrite = lines_of(init(kubeconfig, "--team", "a:10"))
    assert "2 objects with differences would stay as in the cluster without --overwrite: " in told
    assert "ClusterQueue/a" in told
    assert overwrite == (
        "Change also what exists and differs: gpu-admission init --team a:10 --apply "
        f"--kubeconfig {kubeconfig} --overwrite"
    )


def test_the_table_after_apply_shows_the_quota_of_queues_that_were_kept(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    init(kubeconfig, "--team", "a:8", "--apply")

    def gpus(*arguments: str) -> str:
        lines = init(kubeconfig, "--team", "a:10", "--apply", *arguments).stdout.splitlines()
        (row,) = (line for line in lines if line.split()[1:2] == [names.GPU_RESOURCE])
        return row.split()[-1]

    assert gpus() == "8"
    assert gpus("--overwrite") == "10"


def test_what_overwrite_takes_away_is_shown_before_and_named_when_it_is_done(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    init(kubeconfig, "--team", "a:8", "--apply")
    queue = store.get(resources.CLUSTER_QUEUES, "a")
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = 0
    store.replace(resources.CLUSTER_QUEUES, queue)
    limit = (
        f"spec.resourceGroups[nvidia.com/gpu].flavors[{FLAVOR}].resources[nvidia.com/gpu]"
        ".lendingLimit: 0 in the cluster, none proposed"
    )
    shown = init(kubeconfig, "--team", "a:8")
    assert f"Exists, but differs: {limit}" in shown.stdout.replace("\n# ", " ")
    assert "4 objects with the same content would stay. 1 object with diff" in shown.stderr
    done = init(kubeconfig, "--team", "a:8", "--apply", "--overwrite")
    assert f"ClusterQueue/a configured\n  {limit}\n" in done.stdout


def test_what_an_administrator_added_and_stays_is_not_called_the_same_content(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    init(kubeconfig, "--team", "a:8", "--apply")
    queue = store.get(resources.CLUSTER_QUEUES, "a")
    queue["spec"]["stopPolicy"] = "Hold"
    store.replace(resources.CLUSTER_QUEUES, queue)
    shown = init(kubeconfig, "--team", "a:8")
    assert lines_of(shown)[-1] == (
        "Nothing was changed. --apply would create nothing. 4 objects with the same content would "
        "stay. 1 object with more than is proposed would stay: ClusterQueue/a."
    )
    stays = "spec.stopPolicy: Hold in the cluster, none proposed; it stays"
    assert f"Exists, with more than is proposed: {stays}" in shown.stdout.replace("\n# ", " ")


def test_a_flavor_that_selects_the_nodes_keeps_its_name_when_they_get_a_taint(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    store.create(resources.NODES, gpu_node("gpu-3", product="NVIDIA-H100-80GB-HBM3"))
    teams = ("--team", "research:a100-80gb=6,h100-80gb=8")
    init(kubeconfig, *teams, "--apply")
    node = store.get(resources.NODES, "gpu-3")
    node["spec"]["taints"] = [{"key": "team", "value": "research", "effect": "NoSchedule"}]
    store.replace(resources.NODES, node)
    shown = init(kubeconfig, *teams)
    assert "1 object with differences would stay" in shown.stderr
    assert "ResourceFlavor/h100-80gb." in shown.stderr
    assert "spec.nodeTaints: nothing in the cluster" in shown.stdout.replace("\n# ", " ")
