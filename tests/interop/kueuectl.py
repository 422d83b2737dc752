"""Every command of kueuectl, Kueue's own command line, against an installation of ours.

kueuectl is compiled from Kueue's module. What a command does is judged by what is stored and
what runs afterwards, not by what it prints alone.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from admission.base import names
from tests.builders.jobs import make_job
from tests.controlplane import build, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError
from tests.integration.installed import KUEUE, Installed
from tests.interop.lab import stages
from tests.interop.modules import Module, say

MODULE: Final = Module(
    path="sigs.k8s.io/kueue",
    version="v0.19.0",
    sum="h1:5yCu85qsJhvUVVxE0Csw546DDBcRwUXpBEOmEFlws34=",
)
PACKAGE: Final = "./cmd/kueuectl"
TEAM: Final = "research"
JOBS: Final = ("first", "second", "third")
_VISIBILITY: Final = f"/apis/{names.VISIBILITY_GROUP}/v1beta2"
_WITHIN_SECONDS: Final = 90


@dataclass(frozen=True)
class Tried:
    """One command, and what came of it."""

    command: str
    result: str
    failed: bool


class Failed(Exception):  # noqa: N818 - what a step says when it does not hold
    """A command did not do what it does with Kueue; the message says what it did."""


@dataclass(frozen=True)
class System:
    """An installation, and kueuectl with the rights of its administrator."""

    installed: Installed
    program: Path

    def run(self, command: str, **environment: str) -> str:
        """Return what a command prints.

        Raises:
            Failed: its exit code is not 0.
        """
        kubectl = str(build.folder())
        done = subprocess.run(
            [str(self.program), *_words(command)],
            env={
                **os.environ,
                "PATH": f"{kubectl}{os.pathsep}{os.environ['PATH']}",
                "KUBECONFIG": self.installed.kubeconfig,
                "HOME": str(self.installed.folder),
                **environment,
            },
            capture_output=True, text=True, check=False, timeout=_WITHIN_SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise Failed(f"exit code {done.returncode}: {' '.join(done.stderr.split())}")
        return done.stdout + done.stderr

    def stored(self, plural: str, name: str = "", namespace: str = "") -> Json:
        """Return an object of Kueue's group, or all of a kind."""
        inside = f"/namespaces/{namespace}" if namespace else ""
        return self.installed.api.get(f"{KUEUE}{inside}/{plural}{f'/{name}' if name else ''}")

    def is_gone(self, plural: str, name: str, namespace: str = "") -> bool:
        """Return whether there is no such object."""
        try:
            self.stored(plural, name, namespace)
        except RestError as error:
            return error.status == 404
        return False

    def job(self, name: str) -> Json:
        """Return a Job of the team."""
        return self.installed.api.get(f"/apis/batch/v1/namespaces/{TEAM}/jobs/{name}")

    def runs(self, name: str) -> bool:
        """Return whether a Job is started and has pods."""
        job = self.job(name)
        return not job["spec"]["suspend"] and bool(job.get("status", {}).get("active"))

    def running(self) -> list[str]:
        """Return the Jobs that run."""
        return [name for name in JOBS if self.runs(name)]

    def is_held(self, name: str) -> bool:
        """Return whether a Job is suspended and has no pods."""
        job = self.job(name)
        return bool(job["spec"]["suspend"]) and not job.get("status", {}).get("active")

    def workload(self, job: str) -> Json:
        """Return the Workload of a Job."""
        uid = self.job(job)["metadata"]["uid"]
        every = self.stored("workloads", namespace=TEAM)["items"]
        return next((one for one in every if _owner(one).get("uid") == uid), {})

    def orphans(self) -> list[str]:
        """Return the names of Workloads without an owner."""
        every = self.stored("workloads", namespace=TEAM)["items"]
        return [one["metadata"]["name"] for one in every if not _owner(one)]

    def until(self, look: Callable[[], Any], what: str) -> None:
        """Wait for a state.

        Raises:
            Failed: it does not come.
        """
        try:
            waiting.until(look, what=what, within_seconds=_WITHIN_SECONDS)
        except TimeoutError as error:
            raise Failed(f"not so: {what}") from error

    def add_job(self, name: str, gpus: int) -> None:
        """Create a Job with one pod in the queue of the team."""
        job = make_job(
            name, 1, namespace=TEAM, labels={names.QUEUE_LABEL: "default"}, gpus=gpus,
        )  # fmt: skip
        self.installed.api.post(f"/apis/batch/v1/namespaces/{TEAM}/jobs", job)

    def places(self) -> Mapping[str, int]:
        """Return who waits at which place by the visibility API; Jobs of one second are tied."""
        listed = self.installed.api.get(f"{_VISIBILITY}/clusterqueues/{TEAM}/pendingworkloads")[
            "items"
        ]
        return {
            one["metadata"]["ownerReferences"][0]["name"]: one["positionInClusterQueue"]
            for one in listed
        }

    def active(self, plural: str, name: str, namespace: str = "") -> str:
        """Return the status of the condition Active."""
        found = self.stored(plural, name, namespace).get("status", {}).get("conditions", [])
        return next((one["status"] for one in found if one["type"] == "Active"), "")


def _owner(document: Json) -> Json:
    """Return the first owner of an object; empty for none."""
    owner: Json = (document["metadata"].get("ownerReferences") or [{}])[0]
    return owner


def _words(command: str) -> list[str]:
    """Return the words of a command; what is in double quotes is one."""
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', command)]


def _holds(condition: object, what: str) -> None:
    if not condition:
        raise Failed(f"not so: {what}")


def _shows(text: str, *patterns: str) -> None:
    for pattern in patterns:
        _holds(re.search(pattern, text), f"{pattern!r} in {text!r}")


def _table(text: str) -> Mapping[str, Mapping[str, str]]:
    """Return the rows of a printed table by their first column."""
    head, *lines = [line for line in text.splitlines() if line]
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S+( \S+)*", head)]
    ends: list[int | None] = [*starts[1:], None]
    columns = list(zip(starts, ends, strict=True))
    titles = [head[a:b].strip() for a, b in columns]
    rows = [[line[a:b].strip() for a, b in columns] for line in lines]
    return {row[0]: dict(zip(titles, row, strict=True)) for row in rows}


# ------------------------------------------------------------------------------------ create


def create_flavor(system: System, command: str) -> str:
    system.run(command)
    flavor = system.stored("resourceflavors", "a100")
    _holds(flavor["spec"]["nodeLabels"] == {"gpu": "a100"}, "node labels")
    _holds(names.RESOURCE_IN_USE in flavor["metadata"]["finalizers"], "our finalizer")
    return "stored, with defaults and finalizer"


def create_cluster_queue(system: System, command: str) -> str:
    system.run(command)
    system.until(lambda: system.active("clusterqueues", TEAM) == "True", "ClusterQueue active")
    return "stored, becomes active"


def create_refused(system: System, command: str) -> str:
    try:
        system.run(command)
    except Failed as error:
        _shows(str(error), "borrowingLimit")
        _holds(system.is_gone("clusterqueues", "wrong"), "nothing stored")
        return "refused by our validation; kueuectl prints the field"
    raise Failed("it was accepted")


def create_local_queue(system: System, command: str) -> str:
    system.run(command)
    system.until(
        lambda: system.active("localqueues", "default", TEAM) == "True", "LocalQueue active"
    )
    system.installed.wait_webhook()
    return "stored, becomes active"


def create_dry(system: System, command: str) -> str:
    _shows(system.run(command), "created \\(server dry run\\)")
    _holds(system.is_gone("localqueues", "dry", TEAM), "nothing stored")
    return "validated, not stored"


# -------------------------------------------------------------------------------------- list


def add_work(system: System) -> None:
    """Two Jobs that run and two that wait, in this order."""
    system.add_job("first", 2)
    system.until(lambda: system.runs("first"), "the first Job runs")
    for name in ("second", "third"):
        system.add_job(name, 2)
        system.until(partial(system.workload, name), f"Workload of {name}")
    system.until(lambda: len(system.places()) == 2, "the visibility API tells two Workloads")
    for where in (("clusterqueues", TEAM, ""), ("localqueues", "default", TEAM)):
        system.until(partial(_tells, system, where, 2), f"the status of {where[0]} tells two")


def _tells(system: System, where: tuple[str, str, str], pending: int) -> bool:
    """Return whether the status of a queue says that so many wait."""
    found = system.stored(*where)["status"].get("pendingWorkloads")
    return bool(found == pending)


def list_cluster_queues(system: System, command: str) -> str:
    row = _table(system.run(command))[TEAM]
    seen = row["COHORT"], row["PENDING WORKLOADS"], row["ADMITTED WORKLOADS"], row["ACTIVE"]
    _holds(seen == ("all", "2", "1", "true"), f"row {row}")
    return "cohort, pending, admitted and active are right"


def list_local_queues(system: System, command: str) -> str:
    row = _table(system.run(command))["default"]
    seen = row["CLUSTERQUEUE"], row["PENDING WORKLOADS"], row["ADMITTED WORKLOADS"]
    _holds(seen == (TEAM, "2", "1"), f"row {row}")
    return "ClusterQueue, pending and admitted are right"


def list_flavors(system: System, command: str) -> str:
    row = _table(system.run(command))["a100"]
    _holds(row["NODE LABELS"] == "gpu=a100", f"row {row}")
    return "node labels are right"


def list_workloads(system: System, command: str) -> str:
    rows = _table(system.run(command))
    by_job = {one["JOB NAME"]: one for one in rows.values()}
    _holds(set(by_job) == {"first", "second", "third"}, f"rows {rows}")
    states = [by_job[name]["STATUS"] for name in ("first", "second", "third")]
    _holds(states == ["ADMITTED", "PENDING", "PENDING"], f"states {states}")
    places = {name: by_job[name]["POSITION IN QUEUE"] for name in ("second", "third")}
    told = {name: str(place) for name, place in system.places().items()}
    _holds(places == told, f"places {places}, told {told}")
    _holds(by_job["first"]["JOB TYPE"] == "job", f"row {by_job['first']}")
    return "job, queues, status and position are right; positions come from our visibility API"


def list_some_workloads(*jobs: str) -> Callable[[System, str], str]:
    def listed(system: System, command: str) -> str:
        rows = _table(system.run(command))
        found = sorted(one["JOB NAME"] for one in rows.values())
        _holds(found == sorted(jobs), f"jobs {found}")
        return f"shows the {len(jobs)} that match"

    return listed


def list_pods(system: System, command: str) -> str:
    _shows(system.run(command), r"(?m)^first-\S+ ")
    return "shows the pods of the Job"


# ------------------------------------------------------------------------------ pass-through


def get(system: System, command: str) -> str:
    _shows(system.run(command), rf"(?m)^NAME .*\n{TEAM} ")
    return "as `kubectl get`"


def describe(system: System, command: str) -> str:
    _shows(system.run(command), "Kind: +ClusterQueue", "Type: +Active")
    return "as `kubectl describe`"


def patch(system: System, command: str) -> str:
    _shows(system.run(command), "patched")
    group = system.stored("clusterqueues", TEAM)["spec"]["flavorFungibility"]
    _holds(group["whenCanBorrow"] == "TryNextFlavor", f"stored {group}")
    return "as `kubectl patch`"


def edit(system: System, command: str) -> str:
    editor = "sed -i s/TryNextFlavor/MayStopSearch/"
    _shows(system.run(command, KUBE_EDITOR=editor), "edited")
    group = system.stored("clusterqueues", TEAM)["spec"]["flavorFungibility"]
    _holds(group["whenCanBorrow"] == "MayStopSearch", f"stored {group}")
    return "as `kubectl edit`"


# ------------------------------------------------------------------------------ stop, resume


def stop_workload(system: System, command: str) -> str:
    name = system.workload("first")["metadata"]["name"]
    system.run(command.replace("NAME", name))
    system.until(lambda: system.is_held("first"), "the Job is held")
    _holds(system.workload("first")["spec"]["active"] is False, "inactive")
    system.until(lambda: system.runs("second") or system.runs("third"), "the next Job runs")
    return "its pods end, the next in the queue starts"


def resume_workload(system: System, command: str) -> str:
    name = system.workload("first")["metadata"]["name"]
    system.run(command.replace("NAME", name))
    _holds(system.workload("first")["spec"].get("active", True), "active")
    system.until(
        lambda: _condition(system.workload("first"), "QuotaReserved") == "False", "it waits again"
    )
    return "waits for quota again"


def stop_keeping(plural: str, namespace: str = "") -> Callable[[System, str], str]:
    def stopped(system: System, command: str) -> str:
        running = system.running()
        system.run(command)
        name = "default" if namespace else TEAM
        _holds(system.stored(plural, name, namespace)["spec"]["stopPolicy"] == "Hold", "Hold")
        system.until(lambda: system.active(plural, name, namespace) == "False", "not active")
        _holds(running and system.running() == running, "what runs goes on")
        return "admits nothing, what runs goes on"

    return stopped


def stop_draining(plural: str, namespace: str = "") -> Callable[[System, str], str]:
    def stopped(system: System, command: str) -> str:
        system.run(command)
        name = "default" if namespace else TEAM
        policy = system.stored(plural, name, namespace)["spec"]["stopPolicy"]
        _holds(policy == "HoldAndDrain", policy)
        system.until(lambda: all(system.is_held(job) for job in JOBS), "all held")
        return "admits nothing, what ran is evicted"

    return stopped


def resume(plural: str, namespace: str = "") -> Callable[[System, str], str]:
    def resumed(system: System, command: str) -> str:
        system.run(command)
        name = "default" if namespace else TEAM
        system.until(lambda: system.active(plural, name, namespace) == "True", "active")
        system.until(system.running, "a Job runs")
        return "active again, admits"

    return resumed


# ------------------------------------------------------------------------- delete and version


def delete_workload(system: System, command: str) -> str:
    name = system.workload("third")["metadata"]["name"]
    system.run(command.replace("NAME", name))
    jobs = f"/apis/batch/v1/namespaces/{TEAM}/jobs/third"
    system.until(lambda: not system.installed.api.answers(jobs), "the Job is gone")
    # Jobs of batch/v1 leave their dependents behind where a request does not say otherwise.
    system.until(lambda: system.orphans() == [name], "the Workload has no owner")
    system.until(
        lambda: _condition(system.stored("workloads", name, TEAM), "Finished") == "True",
        "the Workload is finished",
    )
    return (
        "deletes the Job. Its Workload is finished and stays, without an owner, because kueuectl "
        "does not ask to delete dependents"
    )


def delete_orphan(system: System, command: str) -> str:
    (name,) = system.orphans()
    system.run(command.replace("NAME", name))
    system.until(lambda: system.is_gone("workloads", name, TEAM), "the Workload is gone")
    return "deletes a Workload without an owner"


def delete(plural: str, name: str, namespace: str = "") -> Callable[[System, str], str]:
    def deleted(system: System, command: str) -> str:
        system.run(command)
        system.until(lambda: system.is_gone(plural, name, namespace), "gone")
        return "as `kubectl delete`; our finalizer goes once nothing uses it"

    return deleted


def version(system: System, command: str) -> str:
    _shows(system.run(command), "Client Version: ")
    return (
        "its own version alone: of the server it shows the image of the Deployment "
        "`kueue-controller-manager` in `kueue-system`, which we do not have"
    )


def empty(system: System) -> None:
    """Delete the Jobs, so that queues can go."""
    for name in ("first", "second"):
        where = f"/apis/batch/v1/namespaces/{TEAM}/jobs/{name}"
        system.installed.api.delete(where, {"propagationPolicy": "Background"})
    system.until(lambda: not system.stored("workloads", namespace=TEAM)["items"], "no Workloads")


def _condition(document: Json, kind: str) -> str:
    found = document.get("status", {}).get("conditions", [])
    return next((one["status"] for one in found if one["type"] == kind), "")


Step = tuple[str, Callable[[System, str], str]]
STEPS: Final[tuple[Step | Callable[[System], None], ...]] = (
    ("create resourceflavor a100 --node-labels gpu=a100", create_flavor),
    (
        (
            f"create clusterqueue {TEAM} --cohort all --namespace-selector "
            f"kubernetes.io/metadata.name={TEAM} --nominal-quota "
            '"a100:cpu=100;memory=100Gi;nvidia.com/gpu=2" '
            '--borrowing-limit "a100:cpu=0;memory=0;nvidia.com/gpu=1" '
            "--reclaim-within-cohort Any --preemption-within-cluster-queue LowerPriority"
        ),
        create_cluster_queue,
    ),
    (
        'create clusterqueue wrong --nominal-quota "a100:cpu=1" --borrowing-limit "a100:cpu=1"',
        create_refused,
    ),
    (f"create localqueue default -n {TEAM} -c {TEAM}", create_local_queue),
    (f"create localqueue dry -n {TEAM} -c {TEAM} --dry-run server", create_dry),
    add_work,
    ("list clusterqueue", list_cluster_queues),
    (f"list localqueue -n {TEAM}", list_local_queues),
    ("list resourceflavor", list_flavors),
    (f"list workload -n {TEAM}", list_workloads),
    (f"list workload -n {TEAM} --status pending", list_some_workloads("second", "third")),
    (
        f"list workload -A --clusterqueue {TEAM} --status admitted",
        list_some_workloads("first"),
    ),
    (
        f"list workload -n {TEAM} --localqueue default",
        list_some_workloads("first", "second", "third"),
    ),
    (f"list workload -n {TEAM} --for job/second", list_some_workloads("second")),
    (f"list pods -n {TEAM} --for job/first", list_pods),
    (f"get clusterqueue {TEAM}", get),
    (f"describe clusterqueue {TEAM}", describe),
    (
        (
            f"patch clusterqueue {TEAM} --type merge -p "
            '{"spec":{"flavorFungibility":{"whenCanBorrow":"TryNextFlavor"}}}'
        ),
        patch,
    ),
    (f"edit clusterqueue {TEAM}", edit),
    (f"stop workload NAME -n {TEAM}", stop_workload),
    (f"resume workload NAME -n {TEAM}", resume_workload),
    (f"stop clusterqueue {TEAM} --keep-already-running", stop_keeping("clusterqueues")),
    (f"resume clusterqueue {TEAM}", resume("clusterqueues")),
    (f"stop clusterqueue {TEAM}", stop_draining("clusterqueues")),
    (f"resume clusterqueue {TEAM}", resume("clusterqueues")),
    (
        f"stop localqueue default -n {TEAM} --keep-already-running",
        stop_keeping("localqueues", TEAM),
    ),
    (f"resume localqueue default -n {TEAM}", resume("localqueues", TEAM)),
    (f"stop localqueue default -n {TEAM}", stop_draining("localqueues", TEAM)),
    (f"resume localqueue default -n {TEAM}", resume("localqueues", TEAM)),
    (f"delete workload NAME -n {TEAM} --yes", delete_workload),
    (f"delete workload NAME -n {TEAM}", delete_orphan),
    empty,
    (f"delete localqueue default -n {TEAM}", delete("localqueues", "default", TEAM)),
    (f"delete clusterqueue {TEAM}", delete("clusterqueues", TEAM)),
    ("delete resourceflavor a100", delete("resourceflavors", "a100")),
    ("version", version),
)
"""Each command with what judges it, and what happens in between."""


@contextmanager
def system(folder: Path) -> Iterator[System]:
    """Start a cluster with gpu-admission and its visibility API; stop all of it at the end."""
    program = MODULE.program(PACKAGE)
    say(f"kueuectl {MODULE.version}: starting")
    with Cluster.start() as cluster:
        cluster.start_whole(stages(folder))
        cluster.add_gpu_node("gpus", gpus=8, labels={"gpu": "a100"})
        it = Installed(cluster, folder)
        config = folder / "config.yaml"
        server = {"bindAddress": "127.0.0.1", "bindPort": it.visibility_port}
        group = "config.kueue.x-k8s.io/v1beta2"
        document = {"apiVersion": group, "kind": "Configuration", "visibilityServer": server}
        config.write_text(yaml.safe_dump(document))
        it.install("--visibility", "--config", str(config))
        it.start("--config", str(config))
        try:
            it.api.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
            waiting.until(
                lambda: it.api.answers(_VISIBILITY), what="visibility API", within_seconds=60
            )
            yield System(it, program)
        finally:
            it.stop()


def run() -> list[Tried]:
    """Run every command; a line for each."""
    tried = []
    with tempfile.TemporaryDirectory() as folder, system(Path(folder)) as made:
        for step in STEPS:
            if callable(step):
                step(made)  # without it nothing that follows can be judged
                continue
            command, judge = step
            try:
                one = Tried(command, judge(made, command), failed=False)
            except (Failed, RestError, KeyError) as failure:
                one = Tried(command, f"FAILED: {failure!r}", failed=True)
            say(f"kueuectl {one.command}: {one.result}")
            tried.append(one)
    return tried
