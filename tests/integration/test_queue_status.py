"""Status of queues on a real API server: counters, usage after edits, shares, past usage."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.nodes import make_gpu_node
from tests.controlplane.rest import Json
from tests.integration import queued, snapshot
from tests.integration.installed import Installed
from tests.integration.queued import path

pytestmark = pytest.mark.controlplane

HALF_LIFE_SECONDS, SAMPLING_SECONDS = 600, 2
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "fairSharing": {
        "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    },
    "admissionFairSharing": {
        "usageHalfLifeTime": f"{HALF_LIFE_SECONDS}s",
        "usageSamplingInterval": f"{SAMPLING_SECONDS}s",
    },
}


def start(system: Installed) -> None:
    """Starts with both kinds of fair sharing."""
    file = system.folder / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIGURATION))
    system.start("--config", str(file))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder: Path = tmp_path_factory.mktemp("sharing")
    with snapshot.prepared(folder, Installed) as it:
        start(it)
        yield it


def add_queue(system: Installed, team: str, *flavors: Json, **spec: Any) -> None:
    """A team's ClusterQueue and LocalQueue of GPUs in those flavors."""
    queued.create(
        system,
        "clusterqueues",
        "ClusterQueue",
        team,
        {"namespaceSelector": {}, "resourceGroups": [queued.gpu_group(*flavors)], **spec},
    )
    system.add_local_queue(team, team)
    system.wait_for_queue(team)


def await_equal(look: Callable[[], object], wanted: object) -> None:
    """Waits until something is as wanted."""
    seen: list[object] = []

    def is_as_wanted() -> bool:
        seen[:] = [look()]
        return seen == [wanted]

    try:
        waiting.until(is_as_wanted)
    except TimeoutError:
        assert seen == [wanted]
        raise


def usage(
    system: Installed, team: str, member: str = "flavorsUsage"
) -> dict[str, tuple[str, str]]:
    """Total and borrowed by flavor."""
    found = queued.status_of(system, "clusterqueues", team).get(member, [])
    return {
        one["name"]: (one["resources"][0]["total"], one["resources"][0]["borrowed"])
        for one in found
    }


def await_usage(system: Installed, team: str, **wanted: tuple[str, str]) -> None:
    """Waits until a ClusterQueue shows that usage, reserved and admitted, in that order."""

    def laid_out(member: str) -> list[tuple[str, tuple[str, str]]]:
        return list(usage(system, team, member).items())

    for member in ("flavorsUsage", "flavorsReservation"):
        await_equal(partial(laid_out, member), list(wanted.items()))


def await_waiting(system: Installed, team: str, name: str) -> str:
    """Waits until a Workload says why it has no quota; the reason."""
    _, reason, _ = queued.await_condition(
        system, path("workloads", name, team), "QuotaReserved", lambda told: told[0] == "False"
    )
    return reason


def is_admitted(system: Installed, team: str, name: str) -> bool:
    found = queued.condition(system.api.get(path("workloads", name, team)), "Admitted")
    return found is not None and found[0] == "True"


# -------------------------------------------------------------------------------------- edits


def test_less_quota_than_is_used_stays_visible_and_nothing_more_is_admitted(
    system: Installed,
) -> None:
    team = system.add_team(quota=4)
    for name in ("first", "second"):
        queued.add_workload(system, team, name, gpus=2)
        queued.await_admitted(system, team, name)
    group = queued.gpu_group(queued.gpu_quota(team, 3))
    queued.edit(system, "clusterqueues", team, {"resourceGroups": [group]})
    queued.add_workload(system, team, "third", gpus=1)

    assert await_waiting(system, team, "third") == "WaitingForQuota"
    await_usage(system, team, **{team: ("4", "0")})
    assert is_admitted(system, team, "first")

    queued.finish(system, team, "first")
    queued.await_admitted(system, team, "third")
    await_usage(system, team, **{team: ("3", "0")})


def test_less_quota_in_a_cohort_shows_as_borrowed_and_others_wait(system: Installed) -> None:
    team, other = (system.cluster.create_namespace("pool") for _ in range(2))
    system.add_flavor(team)
    for name in (team, other):
        add_queue(system, name, queued.gpu_quota(team, 2), cohortName=team)
    queued.add_workload(system, team, "first", gpus=2)
    queued.await_admitted(system, team, "first")
    group = queued.gpu_group(queued.gpu_quota(team, 0))
    queued.edit(system, "clusterqueues", team, {"resourceGroups": [group]})

    await_usage(system, team, **{team: ("2", "2")})
    queued.add_workload(system, other, "second", gpus=1)
    assert await_waiting(system, other, "second") == "WaitingForQuota"

    queued.finish(system, team, "first")
    queued.await_admitted(system, other, "second")
    await_usage(system, team, **{team: ("0", "0")})


def test_a_flavor_that_is_removed_while_used_stays_visible_and_is_not_given_twice(
    system: Installed,
) -> None:
    team = system.cluster.create_namespace("team")
    for flavor in (f"{team}-a", f"{team}-b"):
        system.add_flavor(flavor)
    old, new = (queued.gpu_quota(f"{team}-{one}", 2) for one in ("a", "b"))
    add_queue(system, team, old)
    queued.add_workload(system, team, "first", gpus=2)
    queued.await_admitted(system, team, "first")

    groups = {"resourceGroups": [queued.gpu_group(new)]}
    queued.edit(system, "clusterqueues", team, groups)
    await_usage(system, team, **{f"{team}-b": ("0", "0"), f"{team}-a": ("2", "0")})
    queued.add_workload(system, team, "second", gpus=2)
    queued.await_admitted(system, team, "second")

    groups = {"resourceGroups": [queued.gpu_group(old, new)]}
    queued.edit(system, "clusterqueues", team, groups)
    queued.add_workload(system, team, "third", gpus=1)
    assert await_waiting(system, team, "third") == "WaitingForQuota"
    await_usage(system, team, **{f"{team}-a": ("2", "0"), f"{team}-b": ("2", "0")})

    queued.edit(system, "clusterqueues", team, {"resourceGroups": [queued.gpu_group(new)]})
    # The order tells that the edit is seen, which the end that follows might overtake.
    await_usage(system, team, **{f"{team}-b": ("2", "0"), f"{team}-a": ("2", "0")})
    queued.finish(system, team, "first")
    await_usage(system, team, **{f"{team}-b": ("2", "0")})
    assert await_waiting(system, team, "third") == "WaitingForQuota"


def test_usage_moves_with_the_queue_to_another_cohort(system: Installed) -> None:
    old, new, team = (system.cluster.create_namespace("cohort") for _ in range(3))
    system.add_flavor(team)
    add_queue(system, old, queued.gpu_quota(team, 2), cohortName=old)
    add_queue(system, new, queued.gpu_quota(team, 2), cohortName=new)
    add_queue(system, team, queued.gpu_quota(team, 2), cohortName=old)
    queued.add_workload(system, team, "borrows", gpus=4)
    queued.await_admitted(system, team, "borrows")
    queued.add_workload(system, old, "lends", gpus=2)
    assert await_waiting(system, old, "lends") == "WaitingForQuota"

    queued.edit(system, "clusterqueues", team, {"cohortName": new})

    queued.await_admitted(system, old, "lends")
    queued.add_workload(system, new, "later", gpus=1)
    assert await_waiting(system, new, "later") == "WaitingForQuota"
    await_usage(system, team, **{team: ("4", "2")})

    queued.finish(system, team, "borrows")
    queued.await_admitted(system, new, "later")


# ----------------------------------------------------------------------------------- counters


def counters(
    system: Installed, plural: str, name: str, ns: str = ""
) -> tuple[int | None, int | None, int | None]:
    """Pending, reserving and admitted Workloads; None while the status is not written."""
    status = queued.status_of(system, plural, name, ns)
    return (
        status.get("pendingWorkloads"),
        status.get("reservingWorkloads"),
        status.get("admittedWorkloads"),
    )


def await_counters(system: Installed, team: str, wanted: tuple[int, int, int]) -> None:
    """Waits until both queues of a team count so."""
    for plural, name, ns in (("clusterqueues", team, ""), ("localqueues", "default", team)):
        await_equal(partial(counters, system, plural, name, ns), wanted)


def test_counters_and_usage_follow_each_workload_through_its_life(system: Installed) -> None:
    name = system.cluster.create_namespace("counted")
    queued.add_check(system, name)
    system.add_flavor(name)
    add_queue(system, name, queued.gpu_quota(name, 3), **queued.asking_for(name))
    for workload, gpus in (("first", 2), ("second", 2), ("third", 1)):
        queued.add_workload(system, name, workload, gpus=gpus)
    await_counters(system, name, (1, 2, 0))
    assert usage(system, name, "flavorsReservation") == {name: ("3", "0")}
    assert usage(system, name) == {name: ("0", "0")}

    answer(system, name, "first", check=name)
    await_counters(system, name, (1, 2, 1))
    await_usage_of(system, name, "2")

    queued.finish(system, name, "first")
    await_counters(system, name, (0, 2, 0))
    local = queued.status_of(system, "localqueues", "default", name)
    (shown,) = local["flavorsReservation"]
    assert shown == {"name": name, "resources": [{"name": names.GPU_RESOURCE, "total": "3"}]}

    system.api.delete(path("workloads", "second", name))
    await_counters(system, name, (0, 1, 0))


def await_usage_of(system: Installed, team: str, total: str) -> None:
    waiting.until(lambda: usage(system, team)[team][0] == total, what=f"{team} uses {total}")


def answer(system: Installed, team: str, name: str, *, check: str) -> None:
    """Says Ready as the check's controller does."""
    where = path("workloads", name, team)
    ready = {
        "name": check,
        "state": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    system.api.patch(f"{where}/status", {"status": {"admissionChecks": [ready]}})


def test_a_stopped_local_queue_counts_nobody_as_pending(system: Installed) -> None:
    team = system.add_team(quota=1)
    queued.add_workload(system, team, "waits", gpus=2)
    await_counters(system, team, (1, 0, 0))

    queued.edit(system, "localqueues", "default", {"stopPolicy": "Hold"}, team)
    await_counters(system, team, (0, 0, 0))


def test_a_burst_is_told_in_few_writes_and_then_nothing_is_written(system: Installed) -> None:
    team = system.add_team(quota=100)
    where = path("clusterqueues", team)
    since = system.api.get(where)["metadata"]["resourceVersion"]
    for number in range(40):
        queued.add_workload(system, team, f"workload-{number}")
    await_counters(system, team, (0, 40, 40))
    settled = system.api.get(where)["metadata"]["resourceVersion"]

    versions = queued.history(system, "clusterqueues", team, "", since)
    statuses = [one["status"] for one in versions]
    assert statuses[-1]["pendingWorkloads"] == 0
    assert all(one != two for one, two in pairwise(statuses))
    # Of intervals of half a second three can begin in a second, and one write may come late.
    assert max(Counter(map(status_written, versions)).values()) <= 4

    probe = system.add_team(quota=1)
    queued.add_workload(system, probe, "workload")
    await_counters(system, probe, (0, 1, 1))
    assert system.api.get(where)["metadata"]["resourceVersion"] == settled


def status_written(queue: Json) -> str:
    """The second in which the status of an object was last written, as the API server says."""
    entries = queue["metadata"]["managedFields"]
    return max(str(entry["time"]) for entry in entries if entry.get("subresource") == "status")


# ------------------------------------------------------------------------------------- shares


def share(system: Installed, plural: str, name: str) -> int | None:
    found = queued.status_of(system, plural, name).get("fairSharing", {})
    value: int | None = found.get("weightedShare")
    return value


def test_shares_of_queues_and_cohorts_are_shown(system: Installed) -> None:
    team, other, root = (system.cluster.create_namespace("share") for _ in range(3))
    system.add_flavor(team)
    spare = queued.gpu_group(queued.gpu_quota(team, 2))
    queued.create(system, "cohorts", "Cohort", root, {"resourceGroups": [spare]})
    queued.create(system, "cohorts", "Cohort", team, {"parentName": root})
    for name in (team, other):
        add_queue(system, name, queued.gpu_quota(team, 4), cohortName=team)
    queued.add_workload(system, team, "greedy", gpus=9)
    queued.await_admitted(system, team, "greedy")

    wanted = {
        ("clusterqueues", team): 500,  # 5 of 10 borrowed
        ("clusterqueues", other): 0,
        ("cohorts", team): 100,  # 1 of 10 borrowed
        ("cohorts", root): 0,
    }
    for (plural, name), value in wanted.items():
        await_equal(partial(share, system, plural, name), value)


# --------------------------------------------------------------------------------- past usage


def past(system: Installed, team: str) -> Json:
    found = queued.status_of(system, "localqueues", "default", team).get("fairSharing", {})
    told: Json = found.get("admissionFairSharingStatus", {})
    return told


def test_past_usage_is_kept_in_the_status_over_a_restart(system: Installed) -> None:
    team = system.add_team(
        quota=8, admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"}
    )
    waiting.until(lambda: "lastUpdate" in past(system, team), what="first sample")
    queued.add_workload(system, team, "runs", gpus=8)
    queued.await_admitted(system, team, "runs")
    waiting.until(lambda: consumed(system, team) > 0, what="past usage")
    queued.finish(system, team, "runs")
    await_counters(system, team, (0, 0, 0))
    before = consumed(system, team)
    updated = past(system, team)["lastUpdate"]

    assert system.stop() == 0
    start(system)

    waiting.until(lambda: past(system, team)["lastUpdate"] > updated, what="another sample")
    after = consumed(system, team)
    # it fades, and does not begin anew
    assert 0.9 * before < after <= before * 1.2


def consumed(system: Installed, team: str) -> int:
    """Past usage in units of 1e-9."""
    text: str = past(system, team).get("consumedResources", {}).get(names.GPU_RESOURCE, "0")
    return int(text.removesuffix("n")) if text.endswith("n") else int(text) * 10**9


# --------------------------------------------------------------------------------- finalizers


def test_what_a_queue_is_made_of_is_held_while_it_is_used(system: Installed) -> None:
    name = system.cluster.create_namespace("held")
    node = make_gpu_node(name, labels={"pool": name})
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    system.api.post("/api/v1/nodes", node)
    system.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    levels = {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
    queued.create(system, "topologies", "Topology", name, levels)
    queued.create(
        system,
        "resourceflavors",
        "ResourceFlavor",
        name,
        {"nodeLabels": {"pool": name}, "topologyName": name},
    )
    queued.add_check(system, name)
    add_queue(system, name, queued.gpu_quota(name, 1), **queued.asking_for(name))
    held = ("topologies", "resourceflavors", "admissionchecks", "clusterqueues")
    for plural in held:
        await_equal(partial(finalizers, system, plural, name), [names.RESOURCE_IN_USE])
    queued.add_workload(system, name, "reserves")
    queued.await_reserved(system, name, "reserves")
    answer(system, name, "reserves", check=name)
    queued.await_admitted(system, name, "reserves")

    for plural in held:
        system.api.delete(path(plural, name))
    where = path("clusterqueues", name)
    queued.await_condition(system, where, "Active", lambda told: told[1] == "Terminating")
    for plural in held:
        assert system.api.get(path(plural, name))["metadata"]["deletionTimestamp"]

    queued.finish(system, name, "reserves")
    for plural in reversed(held):
        await_equal(partial(queued.get_or_none, system, path(plural, name)), None)
    system.api.delete(f"/api/v1/nodes/{name}")


def finalizers(system: Installed, plural: str, name: str) -> list[str]:
    found: list[str] = system.api.get(path(plural, name))["metadata"].get("finalizers", [])
    return found


def test_cohorts_and_local_queues_are_held_by_nobody(system: Installed) -> None:
    team = system.add_team(quota=1)
    queued.create(system, "cohorts", "Cohort", team, {})
    queued.edit(system, "clusterqueues", team, {"cohortName": team})
    queued.add_workload(system, team, "runs")
    queued.await_admitted(system, team, "runs")
    waiting.until(lambda: share(system, "cohorts", team) is not None, what="a share")

    for where in (path("cohorts", team), path("localqueues", "default", team)):
        assert "finalizers" not in system.api.get(where)["metadata"]
        system.api.delete(where)
        assert queued.get_or_none(system, where) is None

    # what is admitted keeps running, and stays counted in the ClusterQueue
    queued.add_workload(system, team, "late", gpus=2)
    missing = ("False", "Misconfigured", "LocalQueue default doesn't exist")
    queued.await_condition(system, path("workloads", "late", team), "QuotaReserved", missing)
    assert is_admitted(system, team, "runs")
    await_equal(partial(counters, system, "clusterqueues", team), (0, 1, 1))
