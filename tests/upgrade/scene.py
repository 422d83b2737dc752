"""What runs, waits, starts and ends in a cluster when another version takes over."""

import copy
from typing import Any, Final

from admission.base import clock, conditions, names
from admission.base.clock import SystemClock
from admission.objects import owner_rows
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import (
    make_check,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
)
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError
from tests.integration import owner_crds
from tests.integration.installed import KUEUE, Installed
from tests.owners import samples

RED: Final = "red"
BLUE: Final = "blue"
OWNERS: Final = "owners"
A100: Final = "NVIDIA-A100-SXM4-80GB"
SLICE: Final = "nvidia.com/mig-1g.10gb"
HOLD: Final = "example.com/hold"
"""Finalizer of pods that are being deleted and run on."""
UNRELEASED: Final = "example.com/unreleased"
"""Label of pods that a policy keeps gated, until it is gone."""
_RED_GPUS: Final = 9
_CHECKED_GPUS: Final = 1
LIMITS: Final = {RED: _RED_GPUS + _CHECKED_GPUS, BLUE: 2}
"""Whole GPUs of the queues of each namespace."""
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
_LONG: Final = {"controlplane.test/run-for": "240h"}
KINDS: Final = tuple(sorted(owner_rows.ROWS, key=lambda row: row.kind))


def prepare(cluster: Cluster) -> None:
    """Adds the nodes, and the kinds of other frameworks."""
    cluster.add_gpu_node("whole-0", product=A100, labels={"pool": "whole"})
    cluster.add_gpu_node("whole-1", product=A100, labels={"pool": "whole"})
    cluster.add_gpu_node(
        "sliced", product=A100, gpus=0, mig={"1g.10gb": 4}, labels={"pool": "mig"}
    )
    owner_crds.install(cluster, *KINDS)


class Scene:
    """Two teams and one of each kind of work in every state."""

    def __init__(self, system: Installed) -> None:
        self.system, self.api = system, system.api

    # ----------------------------------------------------------------------------- queues

    def add_queues(self) -> None:
        """Adds flavors and queues, and waits until they are used."""
        for name, labels in {
            "whole": {"pool": "whole"},
            "sliced": {"pool": "mig"},
            "elsewhere": {"pool": "elsewhere"},
        }.items():
            self._kueue("resourceflavors", make_flavor(name, node_labels=labels))
        self._kueue("admissionchecks", make_check("budget"))
        active = {
            "type": conditions.ACTIVE,
            "status": "True",
            "reason": "Active",
            "message": "it answers",
            "lastTransitionTime": clock.to_wire(SystemClock().now()),
        }
        path = f"{KUEUE}/admissionchecks/budget/status"
        self.api.patch(path, {"status": {"conditions": [active]}})
        self.system.add_classes(low=1, high=100)
        reclaiming = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        amounts = {names.GPU_RESOURCE: (_RED_GPUS, 0), SLICE: (0, 0)}
        slices = {names.GPU_RESOURCE: (0, 0), SLICE: (2, 0)}
        red = make_cluster_queue(
            RED, quotas={"whole": amounts, "sliced": slices}, cohortName="all",
            preemption=reclaiming,
        )  # fmt: skip
        blue = make_cluster_queue(
            BLUE, quotas={"whole": {names.GPU_RESOURCE: (2, 0)}}, cohortName="all",
            preemption=reclaiming,
        )  # fmt: skip
        checked = make_cluster_queue(
            "checked", quotas={"whole": {names.GPU_RESOURCE: _CHECKED_GPUS}},
            admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]},
        )  # fmt: skip
        owners = make_cluster_queue(OWNERS, quotas={"elsewhere": {names.GPU_RESOURCE: 1000}})
        self._kueue("cohorts", make_cohort("all"))
        for made in (red, blue, checked, owners):
            self._kueue("clusterqueues", made)
        for namespace in (RED, BLUE, OWNERS):
            self.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
            self._local_queue("default", namespace, namespace)
        self._local_queue("checked", "checked", RED)
        self._local_queue("held", RED, RED, stopPolicy="Hold")
        for namespace in (RED, BLUE, OWNERS):
            self.system.wait_for_queue(namespace)

    def _local_queue(self, name: str, cluster_queue: str, namespace: str, **spec: str) -> None:
        document = make_local_queue(name, cluster_queue, namespace, **spec)
        self._kueue(f"namespaces/{namespace}/localqueues", document)

    def _kueue(self, path: str, document: Json) -> None:
        self.api.post(f"{KUEUE}/{path}", document)

    # ------------------------------------------------------------------------------- work

    def fill(self) -> None:
        """Has work of every kind reach the states in which it stays."""
        self._keep_gated()
        self._run()
        self._wait()
        self._preempt()
        self._add_owners()

    def _keep_gated(self) -> None:
        """A policy under which pods with a label are admitted, and cannot be released."""
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["pods"],
        }
        spec: Json = {
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": {UNRELEASED: "true"}},
            },
            "validations": [
                {
                    "expression": "has(object.spec.schedulingGates)",
                    "message": "it is not released yet",
                }
            ],
        }
        metadata = {"name": "unreleased"}
        self.api.post(
            f"{_POLICIES}/validatingadmissionpolicies", {"metadata": metadata, "spec": spec}
        )
        binding = {"policyName": "unreleased", "validationActions": ["Deny"]}
        self.api.post(
            f"{_POLICIES}/validatingadmissionpolicybindings",
            {"metadata": metadata, "spec": binding},
        )
        # It is in effect once it refuses what it is there for.
        gate = [{"name": "example.com/gate"}]
        self._pod(RED, "probe", 0, labels={UNRELEASED: "true"}, spec={"schedulingGates": gate})
        path = f"/api/v1/namespaces/{RED}/pods/probe"
        change = {"spec": {"schedulingGates": []}, "metadata": {"labels": {"tried": "now"}}}
        waiting.until(lambda: self._is_refused(path, change), what="the policy is in effect")
        self.api.delete(path, {"gracePeriodSeconds": 0})

    def _is_refused(self, path: str, change: Json) -> bool:
        try:
            self.api.patch(f"{path}?dryRun=All", change)
        except RestError:
            return True
        return False

    def _pod(
        self, namespace: str, name: str, gpus: int = 1, *, spec: Json | None = None, **pod: Any
    ) -> None:
        document = make_pod(name, gpus=gpus, **pod, **(spec or {}))
        self.api.post(f"/api/v1/namespaces/{namespace}/pods", document)

    def _run(self) -> None:
        """What is admitted: 9 GPUs and one slice of red."""
        self._pod(RED, "runs", 2)
        self._pod(RED, "slice", 1, resource=SLICE)
        self._pod(RED, "done", 1)
        self._pod(RED, "ends", 1, metadata={"finalizers": [HOLD]})
        self._group("pair", 2)
        job = make_job("train", 1, gpus=1, pod={"annotations": _LONG})
        self.api.post(f"/apis/batch/v1/namespaces/{RED}/jobs", job)
        template = make_pod("", gpus=1)
        for plural, name in (("deployments", "serve"), ("statefulsets", "store")):
            labels = {"app": name}
            spec = {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
                **({"serviceName": name} if plural == "statefulsets" else {}),
            }
            self.api.post(
                f"/apis/apps/v1/namespaces/{RED}/{plural}",
                {"metadata": {"name": name}, "spec": spec},
            )
        waiting.until(lambda: len(self._in_phase(RED, "Running")) == 9, what="nine pods run")
        self.api.patch(
            f"/api/v1/namespaces/{RED}/pods/done/status", {"status": {"phase": "Succeeded"}}
        )
        self.api.delete(f"/api/v1/namespaces/{RED}/pods/ends")
        self._pod(RED, "releasing", 1, labels={UNRELEASED: "true"})
        waiting.until(
            lambda: self._says(RED, "releasing", "Admitted"), what="what is released is admitted"
        )

    def _group(self, name: str, pods: int) -> None:
        for index in range(pods):
            self._pod(
                RED,
                f"{name}-{index}",
                labels={names.POD_GROUP_NAME: name},
                annotations={names.POD_GROUP_TOTAL_COUNT: "2"},
            )

    def _wait(self) -> None:
        """What waits: for room, for the rest of its group, for a check, for its queue."""
        self._pod(RED, "waits", 2)
        self._group("apart", 1)
        self.api.post(f"/apis/batch/v1/namespaces/{RED}/jobs", make_job("later", 2, gpus=1))
        for name, queue in (("checked", "checked"), ("parked", "held")):
            self._pod(RED, name, 1, labels={names.QUEUE_LABEL: queue})
        self._pod(RED, "off", 1)
        path = waiting.until(lambda: self._workload(RED, "off"), what="a Workload to switch off")
        self.api.patch(path, {"spec": {"active": False}})
        for name in ("waits", "parked", "off"):
            self.system.wait_condition(RED, name)
        waiting.until(
            lambda: self._says(RED, "checked", "QuotaReserved"), what="quota before the check"
        )
        waiting.until(lambda: self._workload(RED, "later"), what="the Workload of what is later")

    def _preempt(self) -> None:
        low, high = ({names.PRIORITY_CLASS_LABEL: one} for one in ("low", "high"))
        self._pod(BLUE, "low", 2, labels=low, metadata={"finalizers": [HOLD]})
        waiting.until(lambda: self._in_phase(BLUE, "Running"), what="what is preempted runs")
        self._pod(BLUE, "high", 2, labels=high)
        waiting.until(
            lambda: "deletionTimestamp" in self.system.pod(BLUE, "low")["metadata"],
            what="what is preempted is deleted",
        )
        self.system.wait_condition(BLUE, "high")

    def _add_owners(self) -> None:
        for row in KINDS:
            self._owner(row, "train")
        for row in KINDS:
            path = f"/apis/{row.api_version}/namespaces/{OWNERS}/{row.plural}/train"
            self._until_unset(path, row.suspend, row.kind)
            if not samples.of(row).reclaimable:  # else it gives back a part of what it holds
                self.api.patch(f"{path}/status", {"status": samples.of(row).running})
        self._leave_no_room()
        for row in KINDS:
            self._owner(row, "late")
        try:
            waiting.until(lambda: not self._untold(), what="owners that wait are told why")
        except TimeoutError as late:
            late.add_note(f"not {', '.join(self._untold())}; {self._workloads(OWNERS)}")
            raise

    def _leave_no_room(self) -> None:
        """Has the queue of the owners have as many GPUs as they hold."""
        held = sum(
            int(given["resourceUsage"][names.GPU_RESOURCE])
            for one in self._workloads(OWNERS)
            for given in one["status"]["admission"]["podSetAssignments"]
        )
        path = f"{KUEUE}/clusterqueues/{OWNERS}"
        groups = self.api.get(path)["spec"]["resourceGroups"]
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = str(held)
        changed = self.api.patch(path, {"spec": {"resourceGroups": groups}})
        waiting.until(
            lambda: self._is_seen(path, changed["metadata"]["generation"]),
            what="the controller knows the smaller quota",
        )

    def _is_seen(self, path: str, generation: int) -> bool:
        found = self.api.get(path).get("status", {}).get("conditions", ())
        return any(
            one["type"] == conditions.ACTIVE and one.get("observedGeneration") == generation
            for one in found
        )

    def _untold(self) -> list[str]:
        """Kinds whose second owner has no Workload that says why it waits."""
        told = {
            one["metadata"]["ownerReferences"][0]["kind"]
            for one in self._workloads(OWNERS)
            if self._is_told(one)
        }
        return [row.kind for row in KINDS if row.kind not in told]

    def _owner(self, row: owner_rows.Row, name: str) -> None:
        manifest = copy.deepcopy(samples.of(row).manifest)
        manifest["metadata"]["name"] = name
        set_gpus(manifest)
        self.api.post(f"/apis/{row.api_version}/namespaces/{OWNERS}/{row.plural}", manifest)

    def let_release(self) -> None:
        """Takes the policy away that keeps pods gated."""
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            self.api.delete(f"{_POLICIES}/{plural}/unreleased")

    def await_decision(self) -> None:
        """Returns once something was decided that came after everything that is there."""
        self._pod(RED, "last", 100)
        self.system.wait_condition(RED, "last")
        self.system.delete_pod(RED, "last")

    def make_room(self) -> None:
        """Ends what holds quota, and returns once what waited has started."""
        for namespace, name in ((RED, "ends"), (BLUE, "low")):
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            self.api.patch(path, {"metadata": {"finalizers": None}})
        self.system.wait_released(BLUE, "high")
        self.system.delete_pod(RED, "runs")
        self.system.wait_released(RED, "waits")
        self.api.delete(f"/apis/apps/v1/namespaces/{RED}/deployments/serve")
        jobs = f"/apis/batch/v1/namespaces/{RED}/jobs"
        self.api.delete(f"{jobs}/train?propagationPolicy=Background")
        self._until_unset(f"{jobs}/later", "spec.suspend", "the Job that waited")
        for row in KINDS:
            self.api.delete(f"/apis/{row.api_version}/namespaces/{OWNERS}/{row.plural}/train")
        for row in KINDS:
            path = f"/apis/{row.api_version}/namespaces/{OWNERS}/{row.plural}/late"
            self._until_unset(path, row.suspend, row.kind)

    def _until_unset(self, path: str, switch: str, what: str) -> None:
        waiting.until(
            lambda: owner_rows.value_at(self.api.get(path), switch) is not True,
            what=f"{what} started",
        )

    # ------------------------------------------------------------------------------ looking

    def _in_phase(self, namespace: str, phase: str) -> list[Json]:
        found = self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return [pod for pod in found if pod["status"].get("phase") == phase]

    def _workloads(self, namespace: str) -> list[Json]:
        return list(self.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")["items"])

    def _workload(self, namespace: str, owner: str) -> str:
        """Path of the Workload of an owner; empty if there is none."""
        for one in self._workloads(namespace):
            if any(ref["name"] == owner for ref in one["metadata"].get("ownerReferences", ())):
                return f"{KUEUE}/namespaces/{namespace}/workloads/{one['metadata']['name']}"
        return ""

    def _says(self, namespace: str, owner: str, type_: str) -> bool:
        path = self._workload(namespace, owner)
        found = self.api.get(path).get("status", {}).get("conditions", []) if path else []
        return any(one["type"] == type_ and one["status"] == "True" for one in found)

    @staticmethod
    def _is_told(workload: Json) -> bool:
        found = workload.get("status", {}).get("conditions", ())
        return any(
            one["type"] == conditions.QUOTA_RESERVED and one["status"] == "False" for one in found
        )


def set_gpus(manifest: Any) -> None:
    """Has each container of a manifest ask for one GPU, and for nothing else."""
    if isinstance(manifest, list):
        for one in manifest:
            set_gpus(one)
    elif isinstance(manifest, dict):
        for key, one in manifest.items():
            if key == "containers":
                for container in one:
                    container["resources"] = {"limits": {names.GPU_RESOURCE: 1}}
            else:
                set_gpus(one)
