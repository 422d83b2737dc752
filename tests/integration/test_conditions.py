"""Every condition of queues, and every effect that queues have on the conditions of Workloads."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.builders.jobs import make_job
from tests.controlplane import waiting
from tests.controlplane.rest import Json
from tests.integration import queued
from tests.integration.installed import Installed
from tests.integration.queued import Told, path

pytestmark = pytest.mark.controlplane

MULTI, PROVISION = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"
BUDGET = "example.com/budget"


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


# ------------------------------------------------------------------------------- ClusterQueue


class Check(NamedTuple):
    """An admission check that a ClusterQueue asks for.

    Attributes:
        controller: who answers it; empty for a check that does not exist.
    """

    controller: str = BUDGET
    active: bool = True
    on_flavors: tuple[str, ...] = ()


class Case(NamedTuple):
    """A ClusterQueue and why it admits nothing; ``{n}`` stands for its name.

    Attributes:
        flavors: suffix of each flavor in its spec, and whether it exists.
        checks: suffix of each check that it asks for.
        spec: further members.
        topology: Topology of all flavors, which does not exist.
    """

    reason: str
    message: str
    flavors: Mapping[str, bool] = {"a": True}
    checks: Mapping[str, Check] = {}
    spec: Mapping[str, Any] = {}
    topology: str = ""


CASES = {
    "stopped": Case("Stopped", "is stopped", spec={"stopPolicy": "Hold"}),
    "drained": Case("Stopped", "is stopped", spec={"stopPolicy": "HoldAndDrain"}),
    "without flavors": Case(
        "FlavorNotFound",
        "references missing ResourceFlavor(s): {n}-c,{n}-b",
        flavors={"c": False, "a": True, "b": False},
    ),
    "without checks": Case(
        "AdmissionCheckNotFound",
        "references missing AdmissionCheck(s): {n}-x,{n}-y",
        checks={"y": Check(""), "x": Check("")},
    ),
    "with idle checks": Case(
        "AdmissionCheckInactive",
        "references inactive AdmissionCheck(s): {n}-x,{n}-y",
        checks={"y": Check(active=False), "x": Check(active=False), "z": Check()},
    ),
    "with two checks of MultiKueue": Case(
        "MultipleMultiKueueAdmissionChecks",
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
        "found: {n}-x,{n}-y",
        checks={"y": Check(MULTI), "x": Check(MULTI)},
    ),
    "with MultiKueue for some flavors": Case(
        "MultiKueueAdmissionCheckAppliedPerFlavor",
        "Cannot specify MultiKueue AdmissionCheck per flavor, found: {n}-x",
        flavors={"a": True, "b": True},
        checks={"x": Check(MULTI, on_flavors=("a",))},
    ),
    "with MultiKueue and provisioning": Case(
        "MultiKueueWithProvisioningRequest",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
        "found: {n}-x, {n}-p",
        checks={"p": Check(PROVISION), "x": Check(MULTI)},
    ),
    "without topology": Case(
        "TopologyNotFound",
        'there is no Topology "{n}-racks" for TAS flavor "{n}-a"',
        topology="racks",
    ),
    "for several reasons": Case(
        "Stopped",
        "is stopped, references missing ResourceFlavor(s): {n}-a,{n}-b",
        flavors={"a": False, "b": False},
        spec={"stopPolicy": "Hold"},
    ),
}


def build(system: Installed, case: Case) -> str:
    """Makes what the case says; name of the ClusterQueue."""
    name = system.cluster.create_namespace("cq")
    for suffix, exists in case.flavors.items():
        if exists:
            spec: Json = {"nodeLabels": {"pool": name}}
            if case.topology:
                spec["topologyName"] = f"{name}-{case.topology}"
            queued.create(system, "resourceflavors", "ResourceFlavor", f"{name}-{suffix}", spec)
    rules = []
    for suffix, check in case.checks.items():
        if check.controller:
            queued.add_check(
                system, f"{name}-{suffix}", controller=check.controller, active=check.active
            )
        on_flavors = [f"{name}-{flavor}" for flavor in check.on_flavors]
        rules.append({"name": f"{name}-{suffix}", "onFlavors": on_flavors})
    strategy = {"admissionChecksStrategy": {"admissionChecks": rules}} if rules else {}
    flavors = tuple(f"{name}-{suffix}" for suffix in case.flavors)
    system.add_cluster_queue(name, quota=1, flavors=flavors, **strategy, **case.spec)
    return name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_cluster_queue_says_why_it_admits_nothing(system: Installed, case: Case) -> None:
    name = build(system, case)
    message = f"Can't admit new workloads: {case.message.format(n=name)}."

    queued.await_condition(
        system, path("clusterqueues", name), "Active", ("False", case.reason, message)
    )


READY: Told = ("True", "Ready", "Can admit new workloads")


def test_a_cluster_queue_with_everything_is_ready(system: Installed) -> None:
    name = build(system, Case("Ready", "", checks={"x": Check(), "y": Check()}))
    queued.await_condition(system, path("clusterqueues", name), "Active", READY)


@pytest.mark.parametrize("kind", ["flavor", "check", "activity", "topology", "stop policy"])
def test_a_cluster_queue_becomes_ready_when_what_is_missing_comes(
    system: Installed, kind: str
) -> None:
    cases = {
        "flavor": Case("FlavorNotFound", "", flavors={"a": False}),
        "check": Case("AdmissionCheckNotFound", "", checks={"x": Check("")}),
        "activity": Case("AdmissionCheckInactive", "", checks={"x": Check(active=False)}),
        "topology": CASES["without topology"],
        "stop policy": CASES["stopped"],
    }
    name = build(system, cases[kind])
    where = path("clusterqueues", name)
    queued.await_condition(system, where, "Active", lambda found: found[1] == cases[kind].reason)

    match kind:
        case "flavor":
            system.add_flavor(f"{name}-a")
        case "check":
            queued.add_check(system, f"{name}-x")
        case "activity":
            active = {
                "type": "Active", "status": "True", "reason": "Active", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:01Z",
            }  # fmt: skip
            system.api.patch(
                f"{path('admissionchecks', f'{name}-x')}/status",
                {"status": {"conditions": [active]}},
            )
        case "topology":
            levels = {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
            queued.create(system, "topologies", "Topology", f"{name}-racks", levels)
        case _:
            queued.edit(system, "clusterqueues", name, {"stopPolicy": "None"})

    queued.await_condition(system, where, "Active", READY)


def test_a_cluster_queue_that_is_deleted_while_used_is_terminating(system: Installed) -> None:
    team = system.add_team(quota=1)
    queued.add_workload(system, team, "runs")
    queued.await_admitted(system, team, "runs")
    system.api.delete(path("clusterqueues", team))

    message = "Can't admit new workloads; clusterQueue is terminating"
    where = path("clusterqueues", team)
    queued.await_condition(system, where, "Active", ("False", "Terminating", message))
    waiting.until(
        lambda: queued.status_of(system, "clusterqueues", team)["admittedWorkloads"] == 1,
        what="the Workload that runs on counted",
    )

    queued.finish(system, team, "runs")
    waiting.until(lambda: queued.get_or_none(system, where) is None, what=f"{team} is gone")


# --------------------------------------------------------------------------------- LocalQueue


def test_a_local_queue_says_what_it_waits_for(system: Installed) -> None:
    team = system.cluster.create_namespace("lq")
    where = path("localqueues", "default", team)
    refused = "Can't submit new workloads to clusterQueue"
    system.add_local_queue(team, team)
    queued.await_condition(system, where, "Active", ("False", "ClusterQueueDoesNotExist", refused))

    system.add_cluster_queue(team, quota=1, flavors=(team,))
    queued.await_condition(system, where, "Active", ("False", "ClusterQueueIsInactive", refused))

    system.add_flavor(team)
    ready = ("True", "Ready", "Can submit new workloads to localQueue")
    queued.await_condition(system, where, "Active", ready)

    queued.edit(system, "localqueues", "default", {"stopPolicy": "Hold"}, team)
    queued.await_condition(system, where, "Active", ("False", "Stopped", "LocalQueue is stopped"))


# ---------------------------------------------------------------------------------- Workloads


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
def test_an_admitted_workload_of_a_drained_queue_is_evicted(system: Installed, kind: str) -> None:
    team = system.add_team(quota=1)
    queued.add_workload(system, team, "runs")
    queued.await_admitted(system, team, "runs")

    stop(system, kind, team, "HoldAndDrain")

    where = path("workloads", "runs", team)
    told = ("True", f"{kind}Stopped", f"The {kind} is stopped")
    queued.await_condition(system, where, "Evicted", told)


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
def test_an_admitted_workload_of_a_held_queue_runs_on(system: Installed, kind: str) -> None:
    team = system.add_team(quota=1)
    queued.add_workload(system, team, "runs")
    queued.await_admitted(system, team, "runs")

    stop(system, kind, team, "Hold")
    queued.add_workload(system, team, "waits")

    waiting_path = path("workloads", "waits", team)
    name = "default" if kind == "LocalQueue" else team
    queued.await_condition(
        system, waiting_path, "QuotaReserved", ("False", "Suspended", f"{kind} {name} is inactive")
    )
    found = system.api.get(path("workloads", "runs", team))
    assert queued.condition(found, "Evicted") is None
    assert queued.condition(found, "Admitted") is not None


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
def test_a_reservation_in_a_stopped_queue_is_withdrawn(
    system: Installed, kind: str, policy: str
) -> None:
    team = add_checked_team(system)
    queued.add_workload(system, team, "checked")
    since = queued.await_reserved(system, team, "checked")["metadata"]["resourceVersion"]

    stop(system, kind, team, policy)

    name = "default" if kind == "LocalQueue" else team
    inactive = ("False", "Suspended", f"{kind} {name} is inactive")
    where = path("workloads", "checked", team)
    queued.await_condition(system, where, "QuotaReserved", inactive)
    versions = queued.history(system, "workloads", "checked", team, since)
    said = queued.told(versions, "QuotaReserved")
    assert ("False", "Suspended", f"{kind} {name} is stopped") in said
    assert queued.told(versions, "Evicted") == []
    assert "admission" not in versions[-1]["status"]


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
def test_a_reservation_in_a_queue_that_goes_is_withdrawn(system: Installed, kind: str) -> None:
    team = add_checked_team(system)
    queued.add_workload(system, team, "checked")
    since = queued.await_reserved(system, team, "checked")["metadata"]["resourceVersion"]
    name = "default" if kind == "LocalQueue" else team
    plural, ns = ("localqueues", team) if kind == "LocalQueue" else ("clusterqueues", "")

    system.api.delete(path(plural, name, ns))

    missing = ("False", "Misconfigured", f"{kind} {name} doesn't exist")
    queued.await_condition(system, path("workloads", "checked", team), "QuotaReserved", missing)
    said = queued.told(
        queued.history(system, "workloads", "checked", team, since), "QuotaReserved"
    )
    assert ("False", "Misconfigured", f"{kind} {name} is terminating or missing") in said
    assert queued.get_or_none(system, path(plural, name, ns)) is None


def test_what_keeps_a_pending_workload_from_being_tried_is_told(system: Installed) -> None:
    team = system.cluster.create_namespace("pending")
    where = path("workloads", "waits", team)
    queued.add_workload(system, team, "waits")

    def told(reason: str, message: str) -> None:
        queued.await_condition(system, where, "QuotaReserved", ("False", reason, message))

    told("Misconfigured", "LocalQueue default doesn't exist")
    system.add_local_queue(team, team)
    told("Misconfigured", f"ClusterQueue {team} doesn't exist")
    nobody = {"matchLabels": {"team": "another"}}
    system.add_cluster_queue(team, quota=1, flavors=(team,), namespaceSelector=nobody)
    told("Suspended", f"ClusterQueue {team} is inactive")
    system.add_flavor(team)
    told("Misconfigured", "workload namespace doesn't match ClusterQueue selector")
    queued.edit(system, "localqueues", "default", {"stopPolicy": "Hold"}, team)
    told("Suspended", "LocalQueue default is inactive")
    queued.edit(system, "localqueues", "default", {"stopPolicy": "None"}, team)
    queued.edit(system, "clusterqueues", team, {"namespaceSelector": {"matchLabels": None}})
    queued.await_admitted(system, team, "waits")


def test_requests_above_limits_are_told(system: Installed) -> None:
    team = system.add_team(quota=1)
    requests = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    container = {"name": "main", "image": "train", "resources": requests}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    queued.add_workload(system, team, "odd", podSets=pod_sets)

    told = queued.await_condition(
        system,
        path("workloads", "odd", team),
        "QuotaReserved",
        lambda found: found[1] == "Misconfigured",
    )
    assert told[2].startswith("resources validation failed: spec.podSets[0]")


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
def test_what_a_stopped_queue_evicted_is_requeued_when_it_is_restarted(
    system: Installed, kind: str
) -> None:
    team = system.add_team(quota=1)
    job = make_job("job", 1, labels={"kueue.x-k8s.io/queue-name": "default"}, gpus=1)
    system.api.post(f"/apis/batch/v1/namespaces/{team}/jobs", job)
    name = waiting.until(lambda: only_workload(system, team), what="the Job's Workload")
    queued.await_admitted(system, team, name)
    where = path("workloads", name, team)
    stop(system, kind, team, "HoldAndDrain")
    stopped = ("False", f"{kind}Stopped", f"The {kind} is stopped")
    queued.await_condition(system, where, "Requeued", stopped)

    stop(system, kind, team, "None")

    restarted = f"The {kind} was restarted after being stopped"
    queued.await_condition(system, where, "Requeued", ("True", f"{kind}Restarted", restarted))
    queued.await_admitted(system, team, name)
    found = system.api.get(where)
    previously = ("False", "QuotaReserved", f"Previously: The {kind} is stopped")
    assert queued.condition(found, "Evicted") == previously


def test_nothing_but_a_deactivation_takes_a_workload_out_of_the_count_at_once(
    system: Installed,
) -> None:
    team = system.add_team(quota=1)
    queued.add_workload(system, team, "runs")
    queued.await_admitted(system, team, "runs")

    queued.edit(system, "workloads", "runs", {"active": False}, team)

    where = path("workloads", "runs", team)
    told = ("True", "Deactivated", "The workload is deactivated")
    queued.await_condition(system, where, "Evicted", told)
    waiting.until(
        lambda: queued.status_of(system, "clusterqueues", team).get("reservingWorkloads") == 0,
        what="quota counted as free though the Workload keeps its admission",
    )
    assert "admission" in system.api.get(where)["status"]


def add_checked_team(system: Installed) -> str:
    """A team whose Workloads wait for a check that nobody answers."""
    name = system.cluster.create_namespace("checked")
    queued.add_check(system, name)
    system.add_flavor(name)
    system.add_cluster_queue(name, quota=1, flavors=(name,), **queued.asking_for(name))
    system.add_local_queue(name, name)
    system.wait_for_queue(name)
    return name


def stop(system: Installed, kind: str, team: str, policy: str) -> None:
    """Sets the stop policy of one of a team's queues."""
    if kind == "LocalQueue":
        queued.edit(system, "localqueues", "default", {"stopPolicy": policy}, team)
    else:
        queued.edit(system, "clusterqueues", team, {"stopPolicy": policy})


def only_workload(system: Installed, ns: str) -> str | None:
    """Name of the one Workload of a namespace."""
    items = system.api.get(path("workloads", ns=ns))["items"]
    return items[0]["metadata"]["name"] if items else None
