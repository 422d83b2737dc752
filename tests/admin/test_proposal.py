"""What is proposed for nodes: flavors, their quota, and how teams share it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.admin import proposal, quota_takeover
from admission.admin.proposal import ANY_NODE, Supply, Team
from admission.objects import cluster_queue, cohort, local_queue, resource_flavor
from admission.objects.resource_quota import NamespaceQuota
from tests.admin.node_table import (
    GPU,
    MIXED,
    TABLE,
    TRAINING,
    cpu_node,
    flavors,
    gpu_node,
    shared,
    sick,
    single,
    supply,
)
from tests.builders.queues import make_flavor, own
from tests.controlplane.nodes import GPU_TAINT


@pytest.mark.parametrize("case", TABLE)
def test_nodes_become_flavors(case: str) -> None:
    found, expected = TABLE[case]
    assert flavors(supply(*found)) == expected
    assert list(flavors(supply(*found))) == list(expected)


@pytest.mark.parametrize("case", TABLE)
def test_the_order_of_the_nodes_does_not_matter(case: str) -> None:
    found, _ = TABLE[case]
    assert supply(*reversed(found)) == supply(*found)


ERRORS: dict[str, tuple[Any, Any]] = {
    "ResourceFlavor": (resource_flavor.ResourceFlavor, resource_flavor.errors),
    "Cohort": (cohort.Cohort, cohort.errors),
    "ClusterQueue": (cluster_queue.ClusterQueue, cluster_queue.errors),
    "LocalQueue": (local_queue.LocalQueue, local_queue.errors),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_is_proposed_passes_validation(case: str) -> None:
    found = supply(*TABLE[case][0])
    teams = [Team(name=name, namespaces=(name,)) for name in ("red", "blue", "green")]
    objects = proposal.objects(found, proposal.equal_shares(found, teams))
    assert bool(objects) == bool(found.flavors)
    for one in objects:
        kind, errors = ERRORS[one.document["kind"]]
        assert errors(None, msgspec.convert(one.document, kind)) == []


@pytest.mark.parametrize("case", TABLE)
def test_no_team_gets_what_cannot_be_divided_more_often_than_once_more_than_another(
    case: str,
) -> None:
    names = ("red", "blue", "green")
    shares = proposal.equal_shares(
        supply(*TABLE[case][0]), [Team(name=name, namespaces=(name,)) for name in names]
    )
    more = dict.fromkeys(names, 0)
    for key in shares[0].amounts:
        least = min(one.amounts[key] for one in shares)
        for one in shares:
            more[one.team.name] += one.amounts[key] > least
    assert max(more.values()) - min(more.values()) <= 1


@pytest.mark.parametrize("case", TABLE)
def test_a_flavor_selects_its_own_nodes_and_no_other_that_offers_its_resource(case: str) -> None:
    found = TABLE[case][0]
    for flavor in supply(*found).flavors:
        selected = {
            one["metadata"]["name"]
            for one in found
            if flavor.labels.items() <= one["metadata"]["labels"].items()
            and one["status"]["allocatable"].get(flavor.resource, "0") != "0"
            and (flavor.taints or TRAINING not in one["spec"]["taints"])
            and "nvidia.com/mig.config.state" not in one["metadata"]["labels"]
        }
        assert selected == set(flavor.nodes)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("not ready", "node b: 8 nvidia.com/gpu not counted: not Ready"),
        ("cordoned", "node b: 8 nvidia.com/gpu not counted: cordoned"),
        ("marked", "node b: 8 nvidia.com/gpu not counted: label gpu-health"),
        ("being cut", "node b is left out until its GPUs are set up: label nvidia.com/mig.config"),
    ],
)
def test_what_does_not_count_is_told(kind: str, said: str) -> None:
    found = supply(gpu_node("a"), sick(gpu_node("b"), kind))
    (note,) = found.notes
    assert note.startswith(said)


def test_a_node_that_is_about_to_be_removed_makes_no_flavor_and_no_quota() -> None:
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    found = supply(gpu_node("a"), gpu_node("b", taints=[GPU_TAINT, taint]))
    assert flavors(found) == {"a100-80gb": (GPU, 8)}
    assert found.notes == (
        "node b is left out: taint karpenter.sh/disrupted says that it is removed",
    )


def test_a_flavor_of_sick_nodes_alone_stays_and_has_no_quota() -> None:
    assert flavors(supply(sick(gpu_node("a"), "not ready"))) == {"a100-80gb": (GPU, 0)}


def by_name(found: Supply) -> dict[str, proposal.Flavor]:
    return {one.name: one for one in found.flavors}


def test_annotations_say_what_labels_do_not() -> None:
    found = by_name(supply(*MIXED))
    assert found["a100-80gb"].annotations == {}
    assert found["a100-80gb-1g.10gb"].annotations == {"gpu-admission.dev/product": "A100-80GB"}
    assert found["t4-time-slicing-4"].annotations == {
        "gpu-admission.dev/sharing": "time-slicing", "gpu-admission.dev/replicas": "4"
    }  # fmt: skip
    (slices,) = supply(single("a")).flavors
    assert slices.annotations == {"gpu-admission.dev/mig-profile": "1g.10gb"}


def without_nvidias_label(name: str, labels: Mapping[str, str]) -> Any:
    node = gpu_node(name)
    host = {"kubernetes.io/hostname": name}
    node["metadata"]["labels"] = {**host, **labels}
    return node


@pytest.mark.parametrize(
    ("label", "value", "expected"),
    [
        ("accelerator", "NVIDIA-A100-SXM4-80GB", "a100-80gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-a100-80gb", "a100-80gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-t4", "t4"),
        ("karpenter.k8s.aws/instance-gpu-name", "a10g", "a10"),
        ("karpenter.k8s.aws/instance-gpu-name", "l40s", "l40s"),
        ("node.koordinator.sh/gpu-model", "NVIDIA-H100-80GB-HBM3", "h100-80gb"),
        ("example.com/hardware", "Tesla-T4", "t4"),
    ],
)
def test_a_product_is_read_from_whatever_label_names_it(
    label: str, value: str, expected: str
) -> None:
    (flavor,) = supply(without_nvidias_label("a", {label: value})).flavors
    assert (flavor.name, dict(flavor.labels)) == (expected, {label: value})
    assert flavor.annotations["gpu-admission.dev/product"].lower() == expected


def test_a_kind_of_machine_is_not_taken_for_a_gpu() -> None:
    (flavor,) = supply(
        without_nvidias_label("a", {"cloud.google.com/machine-family": "a2"})
    ).flavors
    assert "gpu-admission.dev/product" not in flavor.annotations


def test_gpus_of_unknown_products_share_no_flavor_where_a_label_tells_their_nodes_apart() -> None:
    found = supply(
        without_nvidias_label("a", {"pool": "old"}),
        without_nvidias_label("b", {"pool": "old"}),
        without_nvidias_label("c", {"pool": "new"}),
    )
    assert {one.nodes: dict(one.labels) for one in found.flavors} == {
        ("a", "b"): {"pool": "old"}, ("c",): {"pool": "new"}
    }  # fmt: skip


def test_small_gpus_are_not_tried_before_those_of_an_unknown_product() -> None:
    found = supply(
        gpu_node("t", product="Tesla-T4"),
        without_nvidias_label("x", {"pool": "new"}),
        gpu_node("a"),
    )
    assert [one.nodes for one in found.flavors] == [("a",), ("x",), ("t",)]


def test_nobody_gets_shares_in_place_of_whole_gpus_without_asking_for_shares() -> None:
    found = by_name(supply(*MIXED))
    taint = {
        "key": "gpu-admission.dev/sharing", "value": "time-slicing", "effect": "NoSchedule"
    }  # fmt: skip
    assert found["t4-time-slicing-4"].taints == (taint,)
    assert found["a100-80gb"].taints == ()
    (alone,) = supply(shared("s")).flavors
    assert alone.taints == ()  # there is nothing that it could be taken for


def numbered(**gpus: int | None) -> list[Team]:
    return [Team(name=name, namespaces=(name,), gpus=n) for name, n in gpus.items()]


def test_a_team_gets_the_number_of_gpus_that_is_said_and_the_same_part_of_the_rest() -> None:
    found = supply(gpu_node("a"), gpu_node("b", product="NVIDIA-H100-80GB-HBM3"))
    shares, left = proposal.shares(found, numbered(big=8, small=2, other=None, more=None))
    gpus = {
        one.team.name: sum(n for key, n in one.amounts.items() if key[1] == GPU) for one in shares
    }
    assert gpus == {"big": 8, "small": 2, "other": 3, "more": 3}
    assert left == {}
    total = found.amounts()
    for key, amount in total.items():
        assert sum(one.amounts.get(key, 0) for one in shares) == amount


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    parts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    has_rest=st.booleans(),
)
def test_a_team_gets_its_number_of_gpus_of_however_many_products(
    counts: list[int], parts: list[int], *, has_rest: bool
) -> None:
    products = ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", "Tesla-T4"]
    found = supply(
        *(
            gpu_node(product[:12].lower(), product=product, gpus=count)
            for product, count in zip(products, counts, strict=False)
        )
    )
    total = sum(counts)
    asked: dict[str, int] = {}
    for number, part in enumerate(parts):
        asked[f"team-{number}"] = min(part, total - sum(asked.values()))
    shares, left = proposal.shares(
        found, numbered(**asked, **({"rest": None} if has_rest else {}))
    )
    gpus = {
        one.team.name: sum(n for key, n in one.amounts.items() if key[1] == GPU) for one in shares
    }
    assert {name: gpus[name] for name in asked} == asked
    for key, amount in found.amounts().items():
        of_teams = [one.amounts.get(key, 0) for one in shares]
        assert min(of_teams) >= 0
        assert sum(of_teams) + left.get(key, 0) == amount


def test_a_team_gets_of_each_product_what_is_said_and_the_others_get_some_of_what_is_left() -> (
    None
):
    found = supply(
        *(gpu_node(f"a{n}") for n in range(3)),
        gpu_node("h", product="NVIDIA-H100-80GB-HBM3"),
    )
    a100, h100 = ("a100-80gb", GPU), ("h100-80gb", GPU)
    teams = [
        Team(
            name="exact", namespaces=("x",), gpus=14, of_flavors={"a100-80gb": 12, "h100-80gb": 2}
        ),
        *numbered(half=9, rest=None),
    ]
    shares, left = proposal.shares(found, teams)
    amounts = {one.team.name: (one.amounts[a100], one.amounts[h100]) for one in shares}
    assert amounts == {"exact": (12, 2), "half": (6, 3), "rest": (6, 3)}
    assert left == {}
    exact, total = shares[0], found.amounts()
    assert exact.why.startswith("12 a100-80gb, 2 h100-80gb: 14 of 32 GPUs")
    cpu = (proposal.ANY_NODE, "cpu")
    assert exact.amounts[cpu] == total[cpu] * 14 // 32 // 1000 * 1000
    for key, amount in total.items():
        assert sum(one.amounts.get(key, 0) for one in shares) == amount


@pytest.mark.parametrize(
    ("of_flavors", "said"),
    [
        ({"h200": 1}, "no flavor h200 of whole GPUs is proposed; these are: a100-80gb"),
        ({"a100-80gb": 9}, "9 GPUs"),
    ],
)
def test_what_no_flavor_has_is_not_proposed(of_flavors: dict[str, int], said: str) -> None:
    found = supply(gpu_node("a"))
    team = Team(name="t", namespaces=("t",), gpus=sum(of_flavors.values()), of_flavors=of_flavors)
    with pytest.raises(proposal.ProposalError, match=said):
        proposal.shares(found, [team])


def test_more_of_a_product_than_there_is_is_refused_though_there_are_enough_gpus() -> None:
    found = supply(gpu_node("a"), gpu_node("h", product="NVIDIA-H100-80GB-HBM3"))
    team = Team(name="t", namespaces=("t",), gpus=9, of_flavors={"h100-80gb": 9})
    with pytest.raises(
        proposal.ProposalError, match="9 GPUs of flavor h100-80gb; its nodes have 8"
    ):
        proposal.shares(found, [team])


def test_who_gets_an_equal_part_of_the_rest_is_told_of_what() -> None:
    found = supply(gpu_node("a"), gpu_node("b"))
    shares, _ = proposal.shares(found, numbered(big=8, other=None, more=None))
    assert {one.team.name: one.why for one in shares}["other"] == (
        "One of 2 equal shares of what is left beside big; the remainder goes to the teams in"
        " turn."
    )


def test_what_no_team_gets_is_a_buffer_that_the_cohort_lends() -> None:
    found = supply(gpu_node("a"), gpu_node("b"))
    shares, left = proposal.shares(found, numbered(big=8, small=4))
    assert left["a100-80gb", GPU] == 4
    objects = proposal.objects(found, shares, left_over=left)
    (cohort_,) = [one.document for one in objects if one.document["kind"] == "Cohort"]
    (group, *_) = cohort_["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"] == [{"name": GPU, "nominalQuota": 4}]


def test_more_gpus_than_there_are_cannot_be_given() -> None:
    with pytest.raises(proposal.ProposalError, match=r"40 GPUs \(big 40\); the nodes have 8"):
        proposal.shares(supply(gpu_node("a")), numbered(big=40))


def test_the_taint_of_gpu_nodes_is_tolerated_and_others_are_left_to_the_pod() -> None:
    taints = [GPU_TAINT, TRAINING, {"key": "soft", "effect": "PreferNoSchedule"}]
    (flavor,) = supply(gpu_node("a", taints=taints)).flavors
    assert flavor.tolerations == (
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    )
    assert flavor.taints == (TRAINING,)


RACK = "topology.kubernetes.io/rack"
HOSTNAME = "kubernetes.io/hostname"


def racked(*racks: str) -> Supply:
    """One node for each of these racks; an empty text is none."""
    nodes = [gpu_node(f"n{number}") for number in range(len(racks))]
    for node, rack in zip(nodes, racks, strict=True):
        node["metadata"]["labels"] |= {RACK: rack} if rack else {}
        node["metadata"]["labels"][HOSTNAME] = node["metadata"]["name"]
    return supply(*nodes)


def test_a_topology_is_proposed_where_nodes_have_the_labels_of_a_network() -> None:
    found = racked("r0", "r0", "r1")
    assert found.levels == {RACK: 2, HOSTNAME: 3}
    objects = proposal.objects(found, proposal.equal_shares(found, []))
    (made,) = [one for one in objects if one.document["kind"] == "Topology"]
    levels = [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]
    assert made.document["spec"] == {"levels": levels}
    assert "2 rack, 3 hostname" in made.why
    flavors_made = [one.document for one in objects if one.document["kind"] == "ResourceFlavor"]
    assert not any("topologyName" in one["spec"] for one in flavors_made)


@pytest.mark.parametrize(
    "racks", [("r0", "r0"), ("r0", ""), ("", "")], ids=["one rack", "a node in none", "none"]
)
def test_no_topology_is_proposed_where_labels_tell_nothing(racks: tuple[str, ...]) -> None:
    found = racked(*racks)
    kinds = {
        one.document["kind"] for one in proposal.objects(found, proposal.equal_shares(found, []))
    }
    assert "Topology" not in kinds


def test_nodes_that_no_label_tells_apart_are_left_out_and_named() -> None:
    found = supply(gpu_node("a"), gpu_node("b"), gpu_node("c", taints=[GPU_TAINT, TRAINING]))
    assert flavors(found) == {"a100-80gb": (GPU, 16)}
    (note,) = found.notes
    assert note == (
        "c left out with 8 nvidia.com/gpu: no label tells them from a, b; label them, for "
        "example: kubectl label node c pool=NAME"
    )


def test_a_node_without_labels_is_left_out_and_named() -> None:
    bare = gpu_node("a")
    bare["metadata"]["labels"] = {"kubernetes.io/hostname": "a"}
    found = supply(bare)
    assert found.flavors == ()
    assert any("no label tells them from other nodes" in note for note in found.notes)


def test_cpu_and_memory_are_those_of_nodes_that_pods_of_the_queues_may_use() -> None:
    control = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    found = supply(
        gpu_node("a", taints=[GPU_TAINT, TRAINING]), cpu_node("b"), cpu_node("c", control),
        sick(cpu_node("d"), "not ready"),
    )  # fmt: skip
    assert found.others == {
        "cpu": (128 + 16) * 1000,
        "memory": 2**40 + 64 * 2**30,
        "ephemeral-storage": 2**40,
    }


def test_other_devices_are_covered_like_cpu_so_that_pods_that_ask_for_them_are_admitted() -> None:
    node = gpu_node("a")
    for part in ("capacity", "allocatable"):
        node["status"][part] = {**node["status"][part], "rdma/hca": "4", "hugepages-2Mi": "0"}
    found = supply(node)
    assert found.others["rdma/hca"] == 4
    assert "hugepages-2Mi" not in found.others
    queue = proposal.objects(found, proposal.equal_shares(found, []))[-1].document
    assert queue["spec"]["resourceGroups"][-1]["coveredResources"] == list(found.others)


# ----------------------------------------------------------------------------------------- shares


@given(
    st.integers(0, 2**50), st.integers(1, 40), st.sampled_from([1, 1000, 2**20])
)  # fmt: skip
def test_a_total_is_divided_without_loss_and_the_first_get_the_rest(
    total: int, parts: int, unit: int
) -> None:
    found = proposal.divided(total, parts, unit)
    assert sum(found) == total
    assert found == sorted(found, reverse=True)
    assert found[1] - found[-1] <= unit if parts > 1 else True
    assert found[0] - found[-1] < 2 * unit


@pytest.mark.parametrize(
    ("total", "parts", "unit", "expected"),
    [
        (8, 3, 1, [3, 3, 2]),
        (2, 3, 1, [1, 1, 0]),
        (100_500, 3, 1000, [34_500, 33_000, 33_000]),
        (1_500, 3, 1000, [500, 500, 500]),
    ],
)
def test_what_is_divided(total: int, parts: int, unit: int, expected: list[int]) -> None:
    assert proposal.divided(total, parts, unit) == expected


def test_all_teams_together_have_what_the_nodes_have() -> None:
    found = supply(*MIXED)
    teams = [Team(name=name, namespaces=(name,)) for name in ("red", "blue", "green")]
    shares = proposal.equal_shares(found, teams)
    for key, total in found.amounts().items():
        assert sum(share.amounts[key] for share in shares) == total


def test_each_namespace_of_a_team_gets_a_queue_and_only_they_may_use_its_quota() -> None:
    found = supply(gpu_node("a"))
    team = Team(name="red", namespaces=("red-dev", "red-prod"))
    objects = proposal.objects(found, proposal.equal_shares(found, [team]), missing={"red-prod"})
    assert [one.identity for one in objects] == [
        "Namespace/red-prod", "ResourceFlavor/a100-80gb", f"ResourceFlavor/{ANY_NODE}",
        "Cohort/gpus", "ClusterQueue/red", "LocalQueue/default -n red-dev",
        "LocalQueue/default -n red-prod",
    ]  # fmt: skip
    (queue,) = (one.document for one in objects if one.document["kind"] == "ClusterQueue")
    (chosen,) = queue["spec"]["namespaceSelector"]["matchExpressions"]
    assert chosen["values"] == ["red-dev", "red-prod"]


# --------------------------------------------------------------------------------- ResourceQuotas


def quota(namespace: str, name: str = "gpus", **hard: str) -> NamespaceQuota:
    return made_quota(namespace, name, {key.replace("__", "."): v for key, v in hard.items()})


def made_quota(namespace: str, name: str, hard: Mapping[str, str], **spec: Any) -> NamespaceQuota:
    metadata = {"namespace": namespace, "name": name}
    return msgspec.convert({"metadata": metadata, "spec": {"hard": hard, **spec}}, NamespaceQuota)


REQUESTS_GPU = "requests.nvidia.com/gpu"


def test_a_namespace_keeps_what_its_resource_quota_gave_it_and_the_rest_is_lent() -> None:
    found = supply(gpu_node("a"), cpu_node("b"))
    hard = {REQUESTS_GPU: "3", "requests.cpu": "24", "limits.cpu": "48", "pods": "10"}
    taken = quota_takeover.take_over(found, [made_quota("red", "gpus", hard)])
    (share,) = taken.shares
    assert share.team == Team(name="red", namespaces=("red",))
    assert share.amounts == {("a100-80gb", GPU): 3, (ANY_NODE, "cpu"): 24_000}
    assert taken.left_over[("a100-80gb", GPU)] == 5
    assert taken.left_over[(ANY_NODE, "cpu")] == (128 + 16 - 24) * 1000
    assert taken.left_over[(ANY_NODE, "memory")] == 2**40 + 64 * 2**30
    assert taken.taken == {("red", "gpus"): ("requests.cpu", REQUESTS_GPU)}
    (note,) = taken.after
    assert f"take requests.cpu, {REQUESTS_GPU} out of ResourceQuota gpus" in note
    assert "keep there: limits.cpu, pods" in note


def test_a_number_of_gpus_is_divided_between_flavors_in_the_ratio_of_their_nodes() -> None:
    found = supply(gpu_node("a"), gpu_node("b"), gpu_node("c", product="NVIDIA-H100-80GB-HBM3"))
    taken = quota_takeover.take_over(found, [made_quota("red", "gpus", {REQUESTS_GPU: "10"})])
    (share,) = taken.shares
    assert share.amounts == {("a100-80gb", GPU): 7, ("h100-80gb", GPU): 3}
    assert "10 nvidia.com/gpu in the ratio of the nodes" in share.why


@given(st.integers(0, 10**6), st.lists(st.integers(0, 1000), min_size=1, max_size=9))
def test_a_ratio_loses_nothing(total: int, weights: list[int]) -> None:
    parts = quota_takeover.in_ratio(total, weights)
    assert sum(parts) == total
    if any(weights):
        for part, weight in zip(parts, weights, strict=True):
            assert abs(part * sum(weights) - total * weight) < sum(weights)


def test_of_several_resource_quotas_of_a_namespace_the_lowest_holds() -> None:
    found = supply(gpu_node("a"))
    quotas = [made_quota("red", name, {REQUESTS_GPU: n}) for name, n in (("x", "4"), ("y", "2"))]
    taken = quota_takeover.take_over(found, quotas)
    assert taken.shares[0].amounts == {("a100-80gb", GPU): 2}
    assert taken.notes == ()
    assert len(taken.after) == 2
    assert all("kubectl delete resourcequota" in one for one in taken.after)


@pytest.mark.parametrize(
    ("hard", "spec", "said"),
    [
        ({"limits.nvidia.com/gpu": "4"}, {}, "limits.nvidia.com/gpu is not taken over"),
        ({REQUESTS_GPU: "4"}, {"scopes": ["BestEffort"]}, "it counts some of the pods only"),
        ({"requests.nvidia.com/mig-1g.5gb": "4"}, {}, "no node offers nvidia.com/mig-1g.5gb"),
        ({REQUESTS_GPU: "many"}, {}, "must be a Kubernetes quantity"),
    ],
)
def test_what_is_not_taken_over_is_told(
    hard: dict[str, str], spec: dict[str, Any], said: str
) -> None:
    found = supply(gpu_node("a"))
    taken = quota_takeover.take_over(found, [made_quota("red", "gpus", hard, **spec)])
    assert taken.shares == ()
    (note,) = taken.notes
    assert said in note
    assert "-n red" in note


def test_more_quota_than_there_are_gpus_is_told() -> None:
    found = supply(gpu_node("a"))
    quotas = [made_quota(name, "gpus", {REQUESTS_GPU: "6"}) for name in ("red", "blue")]
    taken = quota_takeover.take_over(found, quotas)
    assert any("promise 12 nvidia.com/gpu of a100-80gb, the nodes have 8" in one
               for one in taken.notes)  # fmt: skip
    assert taken.left_over[("a100-80gb", GPU)] == 0


def test_what_replaces_resource_quotas_passes_validation() -> None:
    found = supply(*MIXED)
    taken = quota_takeover.take_over(found, [made_quota("red", "gpus", {REQUESTS_GPU: "6"})])
    for one in proposal.objects(found, taken.shares, left_over=taken.left_over):
        kind, errors = ERRORS[one.document["kind"]]
        assert errors(None, msgspec.convert(one.document, kind)) == []


def existing(name: str, annotations: Mapping[str, str] | None = None, **labels: str) -> Any:
    """Return a flavor in the cluster; a label is ``product`` or ``pool``."""
    keys = {"product": "nvidia.com/gpu.product", "pool": "pool"}
    node_labels = {keys[key]: value for key, value in labels.items()}
    document = make_flavor(name, annotations=annotations, node_labels=node_labels)
    return msgspec.convert(document, resource_flavor.ResourceFlavor)


SXM, PCIE = "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"


@pytest.mark.parametrize(
    ("nodes", "flavor", "got"),
    [
        ([gpu_node("n", taints=[TRAINING])], existing("a100-80gb", product=SXM), ["a100-80gb"]),
        (
            [gpu_node("n"), gpu_node("m", labels={"nvidia.com/gpu.product": PCIE})],
            existing("a100-80gb", product=SXM),
            ["nvidia-a100-80gb-pcie", "a100-80gb"],
        ),
        ([gpu_node("n")], existing("ours", product=SXM), ["ours"]),
        (
            [gpu_node("n"), gpu_node("m", taints=[TRAINING])], existing("ours", product=SXM),
            ["a100-80gb"],
        ),
        ([gpu_node("n", taints=[TRAINING])], existing("all"), ["a100-80gb-training"]),
        ([gpu_node("n")], existing("ours", product=PCIE), ["a100-80gb"]),
        ([shared("n")], existing("ours", product="Tesla-T4-SHARED"), ["t4-time-slicing-4"]),
        (
            [shared("n")],
            existing(
                "ours", own(sharing="time-slicing", replicas="4"), product="Tesla-T4-SHARED"
            ),
            ["ours"],
        ),
    ],
    ids=[
        "its nodes got a taint", "others of the same short name came", "made by hand",
        "it selects nodes of two", "it selects all nodes", "it selects other nodes",
        "it is not of shares", "it is of the same shares",
    ],
)  # fmt: skip
def test_a_flavor_that_selects_just_the_nodes_keeps_its_name(
    nodes: list[Any], flavor: Any, got: list[str]
) -> None:
    found = supply(*nodes, existing=[flavor])
    assert [one.name for one in found.flavors] == got


def test_a_name_stands_for_one_flavor_only() -> None:
    node = gpu_node("n", gpus=0, mig={"1g.10gb": 7, "2g.20gb": 3})
    names = [one.name for one in supply(node, existing=[existing("ours", product=SXM)]).flavors]
    assert (len(names), names.count("ours")) == (2, 1)


def test_a_flavor_whose_name_is_made_anyway_is_kept_for_its_nodes() -> None:
    flavors = [existing("a100-80gb", product=SXM), existing("a-copy", product=SXM)]
    assert [one.name for one in supply(gpu_node("n"), existing=flavors).flavors] == ["a100-80gb"]


@pytest.mark.parametrize(
    ("reported", "lacking"),
    [({}, "cpu and memory"), ({"cpu": "8"}, "memory"), ({"cpu": "8", "memory": "1Gi"}, "")],
)
def test_quota_of_nothing_is_told_where_nodes_report_no_cpu_or_memory(
    reported: dict[str, str], lacking: str
) -> None:
    node = gpu_node("gpu-0")
    for part in ("allocatable", "capacity"):
        node["status"][part] = {GPU: node["status"][part][GPU], **reported}
    told = [note for note in supply(node).notes if "never starts" in note]
    assert [note.partition(":")[0] for note in told] == (
        [f"no node that can be used reports {lacking}"] if lacking else []
    )
    assert all(f"the quota of {lacking} is 0" in note for note in told)
