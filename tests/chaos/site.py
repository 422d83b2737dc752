"""What a storm rages over: a whole cluster, our processes beside it, and queues with teams.

Each namespace has one LocalQueue, so a pod's ClusterQueue follows from its namespace. There are
more GPUs than quota, so that nothing but quota keeps a pod from running, but for two queues whose
quota is all that their few nodes have. Pods of one of these are assigned to racks.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from admission.admin import rbac
from admission.base import names
from admission.base.clock import SystemClock, to_wire
from admission.config.derived import Settings
from tests.builders.queues import make_check, make_flavor, make_group
from tests.chaos import budget, training_operator
from tests.chaos.system import LAUNCHER, System
from tests.controlplane import commands, features, nodes, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.processes import free_port
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration import owner_crds
from tests.integration.installed import KUEUE

LOST_NODE_SECONDS: Final = 5.0
SETTINGS: Final = Settings.model_validate(
    {
        "gpu": {
            "lostNodeAfter": f"{LOST_NODE_SECONDS}s",
            "keepForReplacement": "3s",
            "controller": {
                "waitingAfter": "500ms",
                "statusInterval": "200ms",
                "requestTimeout": "2s",
                "auditInterval": "5s",
            },
        },
        "kueue": {
            "leaderElection": {
                "leaseDuration": "8s",
                "renewDeadline": "6s",
                "retryPeriod": "500ms",
            },
        },
    }
)
"""Settings of the controllers: what is rare in a cluster happens within seconds."""

CONTROLLERS: Final = ("controller-a", "controller-b")
WEBHOOK: Final = "webhook"
SERVERS: Final = ("kube-apiserver", "etcd")
HELPERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok")
"""Programs that keep copies of what is stored, and are started anew after a restore."""

DOWN: Final = "chaos.test/down"
"""Label of a node that kwok leaves alone."""
EDITOR: Final = "chaos-editor"
DRA: Final = "/apis/resource.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
PRODUCT: Final = "NVIDIA-A100-SXM4-80GB"
_HOSTNAME: Final = "kubernetes.io/hostname"
_WITHIN: Final = {"withinClusterQueue": "LowerPriority"}
_WORKLOADS: Final = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
)


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace with its ClusterQueue.

    Attributes:
        name: of both.
        quota: nominal quota at the beginning.
        cohort: empty for none.
        surge: quota besides that only pods of rolling updates use.
        notice: for how long what is preempted runs on; empty for none.
    """

    name: str
    quota: int
    cohort: str
    surge: int = 0
    notice: str = ""


TEAMS: Final = (
    Team("red", 8, "main", surge=2, notice="4s"),
    Team("blue", 6, "main", notice="4s"),
    Team("green", 4, "", surge=2),
)
"""Teams with one flavor, whose quota changes."""
CHECKED: Final = "slate"
"""Namespace and ClusterQueue of whom an admission check is asked."""
MIXED: Final = "violet"
"""Namespace and ClusterQueue with flavors to choose from, slices of GPUs and caps."""
NAMESPACES: Final = (*(team.name for team in TEAMS), CHECKED, MIXED)
"""Where quota alone keeps pods from running."""
SCARCE: Final = "teal"
"""Namespace and ClusterQueue whose quota is all that its nodes have, so that places decide."""
RACKED: Final = "coral"
"""Namespace and ClusterQueue like `SCARCE`, whose flavor has a Topology of racks and hosts."""
OUTSIDE: Final = "outside"
"""A namespace without a queue; pods of administrators run there on nodes of the two before."""
QUIET: Final = "olive"
"""Namespace and ClusterQueue in which little happens at a time, and fills the quota."""
QUIET_QUOTA: Final = 4
QUIET_SURGE: Final = 1
"""Quota besides that only pods of rolling updates use."""
ALL_NAMESPACES: Final = (*NAMESPACES, SCARCE, RACKED, QUIET)
"""With a queue."""
CHECKED_QUOTA: Final = 3
PER_USER: Final = 6
"""GPUs that a user gets in `MIXED`, which has more."""
CAPPED: Final = "spare"
"""LocalQueue of `MIXED` beside its default one."""
IN_USE: Final = 2
"""GPUs that all work of `CAPPED` gets."""
LENT: Final = ("red", "lent", "blue")
"""A second LocalQueue of a namespace, and its ClusterQueue, which is of the same cohort."""
NODES: Final = ("node-0", "node-1", "node-2", "node-3", "node-4")
DRA_NODES: Final = ("dra-0", "dra-1")
OTHER_NODES: Final = ("t4-0", "h100-0", "mig-0")
SCARCE_NODES: Final = ("l4-0", "l4-1", "l4-2")
SCARCE_GPUS: Final = 4
"""Of each of them."""
RACK: Final = "chaos.test/rack"
"""Label of the nodes of `RACKED`."""
RACKED_NODES: Final = {"v100-0": "r0", "v100-1": "r0", "v100-2": "r1", "v100-3": "r1"}
"""Rack of each; they have as many GPUs as those of `SCARCE`."""
ALL_NODES: Final = (*NODES, *DRA_NODES, *OTHER_NODES, *SCARCE_NODES, *RACKED_NODES)
V100: Final = "Tesla-V100-SXM2-16GB"
T4: Final = "Tesla-T4"
L4: Final = "NVIDIA-L4"
H100: Final = "NVIDIA-H100-80GB-HBM3"
PROFILE: Final = "1g.10gb"
SLICE: Final = f"{names.MIG_RESOURCE_PREFIX}{PROFILE}"
WHOLE: Final = "whole.example.com"
"""A DeviceClass of the GPUs of one product, which is asked for by `GOLD`, too."""
GOLD: Final = "example.com/gold"
NIC: Final = "nic.example.com"
"""A DeviceClass of other devices, and their driver."""
CLASSES: Final = {names.GPU_CLASS: "", WHOLE: GOLD}
"""DeviceClasses of GPUs, with their extended resource names."""


def node(name: str) -> Json:
    """Return a node of the site.

    It has 8 GPUs by name, or 8 that claims ask for, or those that `MIXED` chooses from, or the
    few of `SCARCE` or `RACKED`.
    """
    if name in RACKED_NODES:
        rack = {RACK: RACKED_NODES[name]}
        return nodes.make_gpu_node(name, gpus=SCARCE_GPUS, product=V100, labels=rack)
    if name in SCARCE_NODES:
        return nodes.make_gpu_node(name, gpus=SCARCE_GPUS, product=L4)
    if name == "t4-0":
        return nodes.make_gpu_node(name, gpus=8, product=T4)
    if name == "h100-0":
        return nodes.make_gpu_node(name, gpus=8, product=H100)
    if name == "mig-0":
        pool = {"chaos.test/pool": "slices"}
        return nodes.make_gpu_node(name, gpus=0, product=PRODUCT, mig={PROFILE: 7}, labels=pool)
    if name not in DRA_NODES:
        return nodes.make_gpu_node(name, gpus=8, product=PRODUCT)
    found = {"nvidia.com/gpu.count": "8"}  # feature discovery sees them without a device plugin
    return nodes.make_gpu_node(name, gpus=0, product=PRODUCT, labels=found)


def unready() -> Json:
    """Return the status of a node that is not ready from now on."""
    now = to_wire(SystemClock().now())
    ready = {
        "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "made up",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip
    return {"status": {"conditions": [ready]}}


class Site(System):
    """An installation with two controllers and a webhook, each of which may be killed."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self._ready_urls: dict[str, str] = {}
        self._snapshot = folder / "snapshot"
        self._workload_kind: Json = {}

    def set_up(self) -> None:
        """Install everything and start it; return once pods are reviewed and queues active."""
        self.cluster.start_whole(self._stages())
        owner_crds.install_kind(
            self.cluster, training_operator.GROUP, "v1", "PyTorchJob", "pytorchjobs"
        )
        self.install()
        self.cluster.wait_for_roles()
        self._add_programs()
        for name in (WEBHOOK, *CONTROLLERS):
            self.start_program(name)
        for name in (WEBHOOK, *CONTROLLERS):
            waiting.until(partial(self.is_ready_program, name), what=f"{name} ready")
        self.wait_reviewed()
        self.add_priorities()
        self._add_nodes()
        self._add_teams()
        self._add_editor()
        self._add_operator()
        stored = self.api.get(_WORKLOADS)
        metadata = {key: stored["metadata"][key] for key in ("name", "labels", "annotations")
                    if key in stored["metadata"]}  # fmt: skip
        kinds = {key: stored[key] for key in ("apiVersion", "kind", "spec")}
        self._workload_kind = {**kinds, "metadata": metadata}

    def _stages(self) -> Path:
        """Return a file of stages in which kubelets honour the grace period.

        A pod that is being deleted runs on until its grace period has ended, then it fails and its
        object goes. Nodes with the label `DOWN` stay as they are.
        """
        found = {
            stage["metadata"]["name"]: stage
            for stage in yaml.safe_load_all(commands.STAGES.read_text())
        }
        is_up = {"key": f'.metadata.labels["{DOWN}"]', "operator": "DoesNotExist"}
        for name in ("node-initialize", "node-heartbeat-with-lease"):
            found[name]["spec"]["selector"]["matchExpressions"].append(is_up)
        run_for = f'.metadata.annotations["{nodes.RUN_FOR}"]'
        complete = found["pod-complete"]["spec"]["selector"]["matchExpressions"]
        complete[-1] = {"key": run_for, "operator": "Exists"}
        gone = found["pod-delete"]
        is_deleted, *_ = gone["spec"]["selector"]["matchExpressions"]
        for name in ("job-pod-stop", "job-pod-delete"):
            del found[name]
        phase = {"key": ".status.phase", "operator": "In"}
        gone["spec"]["selector"]["matchExpressions"] = [
            is_deleted, {**phase, "values": ["Succeeded", "Failed"]},
        ]  # fmt: skip
        found["pod-stopped"] = {
            **gone,
            "metadata": {"name": "pod-stopped"},
            "spec": {
                "resourceRef": gone["spec"]["resourceRef"],
                "selector": {
                    "matchExpressions": [is_deleted, {**phase, "values": ["Pending", "Running"]}]
                },
                "delay": {
                    "durationMilliseconds": 0,
                    "durationFrom": {"expressionFrom": ".metadata.deletionTimestamp"},
                },
                "next": {"statusTemplate": "phase: Failed"},
            },
        }
        path = self.folder / "stages.yaml"
        path.write_text(yaml.safe_dump_all(found.values()))
        return path

    def _add_programs(self) -> None:
        webhook = [
            *PROGRAM, "webhook", "--kubeconfig", self.kubeconfig,
            "--bind", f"127.0.0.1:{self.webhook_port}", "--cert-dir", str(self.certificates),
        ]  # fmt: skip
        self.cluster.add(WEBHOOK, webhook)
        self._ready_urls[WEBHOOK] = self.webhook_url
        kubeconfig = self.cluster.account_kubeconfig(
            names.SYSTEM_NAMESPACE, rbac.CONTROLLER_ACCOUNT
        )
        for name in CONTROLLERS:
            port = free_port()
            self._ready_urls[name] = f"http://127.0.0.1:{port}"
            self.cluster.add(
                name,
                [*LAUNCHER, str(kubeconfig), str(port), SETTINGS.model_dump_json(), "elect"],
            )

    def start_program(self, name: str) -> None:
        """Start a program, and do not wait until it is ready."""
        self.cluster.program(name).start()

    def url(self, name: str) -> str:
        """Return where one of our programs serves its pages."""
        return self._ready_urls[name]

    def is_ready_program(self, name: str) -> bool:
        """Return whether one of our programs says that it is ready."""
        return self.probe(self.url(name), "/readyz") == 200

    def _add_nodes(self) -> None:
        for name in ALL_NODES:
            self.api.post("/api/v1/nodes", node(name))
        if features.SERVES_CLAIMS:
            self._add_devices()

    def _add_devices(self) -> None:
        """Add what claims ask for."""
        of_driver = f"device.driver == '{names.DRA_DRIVER}'"
        of_product = f"device.attributes['{names.DRA_DRIVER}'].productName == '{PRODUCT}'"
        self._add_class(names.GPU_CLASS, of_driver)
        self._add_class(WHOLE, f"{of_driver} && {of_product}", extendedResourceName=GOLD)
        self._add_class(NIC, f"device.driver == '{NIC}'")
        for name in DRA_NODES:
            self._publish(name)

    def _add_class(self, name: str, expression: str, **spec: Any) -> None:
        selectors = [{"cel": {"expression": expression}}]
        body = {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
        self.api.post(f"{DRA}/deviceclasses", body)

    def mend_nodes(self) -> None:
        """Have every node again, ready and without a taint."""
        for name in ALL_NODES:
            if self.api.lacks(f"/api/v1/nodes/{name}"):
                self.api.post("/api/v1/nodes", node(name))
            usual = node(name)
            labels = {**usual["metadata"]["labels"], DOWN: None}
            spec = {"taints": None, "unschedulable": None}
            self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "spec": spec})
            self.api.patch(f"/api/v1/nodes/{name}/status", {"status": usual["status"]})

    def _publish(self, name: str) -> None:
        """Publish the devices of a node that claims ask for."""
        devices = [
            {
                "name": f"gpu-{index}",
                "attributes": {"type": {"string": "gpu"}, "productName": {"string": PRODUCT}},
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for index in range(8)
        ]
        ports = [{"name": f"nic-{index}"} for index in range(16)]
        for driver, found in ((names.DRA_DRIVER, devices), (NIC, ports)):
            spec = {
                "driver": driver,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": found,
            }
            metadata = {"name": f"{name}-{driver}"}
            self.api.post(f"{DRA}/resourceslices", {"metadata": metadata, "spec": spec})

    def _add_teams(self) -> None:
        self.add_flavor("a100", PRODUCT)
        for name in ALL_NAMESPACES:
            metadata = {"name": name, "labels": {names.ENFORCE_LABEL: "true"}}
            self.api.post("/api/v1/namespaces", {"metadata": metadata})
        self.api.post("/api/v1/namespaces", {"metadata": {"name": OUTSIDE}})
        for team in TEAMS:
            more: dict[str, Any] = {"cohortName": team.cohort} if team.cohort else {}
            preemption = {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any" if team.cohort else "Never",
            }
            self.add_cluster_queue(
                team.name, quota=team.quota, flavors=("a100",), preemption=preemption, **more
            )
            marks = {}
            if team.surge:
                marks[names.SURGE_QUOTA] = f"a100/{names.GPU_RESOURCE}={team.surge}"
            if team.notice:
                marks[names.PREEMPTION_NOTICE] = team.notice
            change = {"metadata": {"annotations": marks}}
            self.api.patch(f"{KUEUE}/clusterqueues/{team.name}", change)
            self.add_local_queue(team.name, team.name)
            if features.SERVES_CLAIMS:
                self._add_template(team.name)
        namespace, name, cluster_queue = LENT
        self.add_local_queue(namespace, cluster_queue, name)
        self._add_checked()
        self._add_mixed()
        self._add_scarce()
        self._add_racked()
        self._add_quiet()
        for namespace in ALL_NAMESPACES:
            self.wait_for_queue(namespace)

    def _add_template(self, team: str) -> None:
        """Add a template from which a claim for one GPU is made."""
        devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": names.GPU_CLASS}}]}
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": devices}}}
        self.api.post(f"{DRA}/namespaces/{team}/resourceclaimtemplates", template)

    def _add_checked(self) -> None:
        """Add the queue of which an admission check is asked."""
        self.api.post(f"{KUEUE}/admissionchecks", make_check(budget.CHECK, budget.CONTROLLER))
        budget.activate(self.api)
        rules = {"admissionChecks": [{"name": budget.CHECK}]}
        self.add_cluster_queue(
            CHECKED,
            quota=CHECKED_QUOTA,
            flavors=("a100",),
            preemption=_WITHIN,
            admissionChecksStrategy=rules,
        )
        self.add_local_queue(CHECKED, CHECKED)

    def _add_scarce(self) -> None:
        """Add the queue of small nodes; cpu and memory have another flavor, as by `init`."""
        self.add_flavor("l4", L4)
        self.api.post(f"{KUEUE}/resourceflavors", make_flavor("any", node_labels={}))
        gpus = {"l4": {names.GPU_RESOURCE: SCARCE_GPUS * len(SCARCE_NODES)}}
        groups = [make_group(gpus), make_group({"any": {"cpu": 64, "memory": "1Ti"}})]
        self.add_cluster_queue(SCARCE, resourceGroups=groups, preemption=_WITHIN)
        self.add_local_queue(SCARCE, SCARCE)

    def _add_racked(self) -> None:
        """Add the queue whose pods are assigned to racks."""
        levels = [{"nodeLabel": RACK}, {"nodeLabel": _HOSTNAME}]
        topology = {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology",
            "metadata": {"name": RACKED}, "spec": {"levels": levels},
        }  # fmt: skip
        self.api.post(f"{KUEUE}/topologies", topology)
        flavor = make_flavor(
            "v100", node_labels={names.GPU_PRODUCT_LABEL: V100}, topologyName=RACKED
        )
        self.api.post(f"{KUEUE}/resourceflavors", flavor)
        quota = SCARCE_GPUS * len(RACKED_NODES)
        self.add_cluster_queue(RACKED, quota=quota, flavors=("v100",), preemption=_WITHIN)
        self.add_local_queue(RACKED, RACKED)

    def _add_quiet(self) -> None:
        """Add the queue in which what takes too much has nothing to hide behind."""
        self.add_cluster_queue(QUIET, quota=QUIET_QUOTA, flavors=("a100",), preemption=_WITHIN)
        marks = {names.SURGE_QUOTA: f"a100/{names.GPU_RESOURCE}={QUIET_SURGE}"}
        change = {"metadata": {"annotations": marks}}
        self.api.patch(f"{KUEUE}/clusterqueues/{QUIET}", change)
        self.add_local_queue(QUIET, QUIET)

    def _add_mixed(self) -> None:
        """Add the queue with flavors to choose from, slices and caps."""
        self.add_flavor("t4", T4)
        self.add_flavor("h100", H100)
        marks = {names.FLAVOR_PRODUCT: PRODUCT}
        pool = {"chaos.test/pool": "slices"}
        slices = make_flavor("slices", annotations=marks, node_labels=pool)
        self.api.post(f"{KUEUE}/resourceflavors", slices)
        gpus = {"t4": {names.GPU_RESOURCE: 3}, "h100": {names.GPU_RESOURCE: 4}}
        groups = [make_group(gpus), make_group({"slices": {SLICE: 3}})]
        self.add_cluster_queue(
            MIXED,
            annotations={
                names.MAX_PER_USER: f"{names.GPU_RESOURCE}={PER_USER}",
                names.PREEMPTION_NOTICE: "4s",
            },
            resourceGroups=groups,
            preemption=_WITHIN,
        )
        self.add_local_queue(MIXED, MIXED)
        self.add_local_queue(MIXED, MIXED, CAPPED)
        cap = {names.MAX_IN_USE: f"{names.GPU_RESOURCE}={IN_USE}"}
        path = f"{KUEUE}/namespaces/{MIXED}/localqueues/{CAPPED}"
        self.api.patch(path, {"metadata": {"annotations": cap}})

    def _add_editor(self) -> None:
        """Add a user with the role ``edit`` of Kubernetes, and rights to claims."""
        rules = [
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["*"]},
            {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["*"]},
        ]
        self._bind(EDITOR, "edit")
        self._allow(EDITOR, "chaos-more", rules)
        editor = self.cluster.client(self.cluster.kubeconfig(EDITOR))
        waiting.until(
            lambda: editor.answers("/api/v1/namespaces/red/pods"), what="the editor may read pods"
        )
        self.cluster.wait_for_roles()

    def _add_operator(self) -> None:
        """Give the stand-in for the training operator its rights."""
        groups = ["", training_operator.GROUP]
        self._allow(
            training_operator.USER,
            "chaos-training-operator",
            [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}],
        )
        self.cluster.wait_for_roles()

    def operator(self) -> Rest:
        """Return requests of the training operator."""
        return self.cluster.client(self.cluster.kubeconfig(training_operator.USER))

    def _allow(self, user: str, role: str, rules: list[Json]) -> None:
        self.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})
        self._bind(user, role)

    def _bind(self, user: str, role: str) -> None:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": f"chaos-{role}"}, "roleRef": reference}
        subjects = [{"kind": "User", "name": user}]
        self.api.post(f"{RBAC}/clusterrolebindings", {**binding, "subjects": subjects})

    # ------------------------------------------------------------------------------- the store

    def take_snapshot(self) -> None:
        """Copy what etcd has stored, as it is at a moment."""
        with self.cluster.paused("etcd"):
            shutil.rmtree(self._snapshot, ignore_errors=True)
            shutil.copytree(self.cluster.folder / "etcd", self._snapshot)

    def put_snapshot_back(self) -> None:
        """Replace what etcd has stored by the snapshot, and start everything around it anew.

        Our own programs are not started anew: they must notice by themselves.
        """
        for name in (*HELPERS, *SERVERS):
            self.cluster.program(name).stop()
        shutil.rmtree(self.cluster.folder / "etcd")
        shutil.copytree(self._snapshot, self.cluster.folder / "etcd")
        self.cluster.program("etcd").start()
        self.cluster.start_apiserver()
        for name in HELPERS:
            self.start_program(name)

    def delete_workload_kind(self) -> None:
        """Delete the kind Workload, and with it all Workloads."""
        self.api.delete(_WORKLOADS)

    def apply_workload_kind(self) -> None:
        """Create the kind Workload as it was, unless it is there, once its deletion has ended.

        Raises:
            TimeoutError: the deletion does not end.
        """

        def is_applied() -> bool:
            collection = _WORKLOADS.rpartition("/")[0]
            try:
                if self.api.lacks(_WORKLOADS):
                    self.api.post(collection, self._workload_kind)
                return "deletionTimestamp" not in self.api.get(_WORKLOADS)["metadata"]
            except (RestError, OSError):
                return False

        what = "kind Workload applied: its deletion does not end"
        waiting.until(is_applied, what=what)

    def supervise(self, held_down: Mapping[str, object]) -> list[str]:
        """Start programs that ended by themselves, as a kubelet does; return their names."""
        started = []
        for name in (WEBHOOK, *CONTROLLERS, *HELPERS):
            daemon = self.cluster.program(name)
            if name not in held_down and not daemon.is_running:
                self.start_program(name)
                started.append(name)
        return started
