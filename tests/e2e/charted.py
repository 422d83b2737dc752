"""An installation by the Helm chart, whose pods run as processes of this machine.

Helm installs the chart as it is into a whole cluster. The controllers of the cluster make the pods
of the Deployments and replace them in a rollout, and `Kubelet` runs them as the chart says. Only
addresses differ (`tests.e2e.addresses`): the webhook's Service is a route to the pods that are
ready.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import yaml

from admission.base import names
from admission.base.clock import SystemClock
from tests.builders.pods import make_pod
from tests.controlplane import commands, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.kubelet import Kubelet, PodProcess
from tests.controlplane.network import Network
from tests.controlplane.rest import Json, RestError
from tests.deploy import helm
from tests.e2e import addresses
from tests.integration.installed import KUEUE, run_command

SYSTEM: Final = names.SYSTEM_NAMESPACE
WEBHOOK: Final = "webhook"
CONTROLLER: Final = "controller"
COMPONENTS: Final = (WEBHOOK, CONTROLLER)
REGISTRY: Final = "registry.example.com/gpu-admission"
RELEASE: Final = "ga"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{names.LEASE_NAME}"
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS: Final = (
    f"{REGISTRATION}/mutatingwebhookconfigurations",
    f"{REGISTRATION}/validatingwebhookconfigurations",
)
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHART: Final = Path(__file__).parents[2] / "deploy" / "chart"
_OURS: Final = '.metadata.labels["app.kubernetes.io/name"]'
_POD_STAGES: Final = ("pod-ready", "pod-delete")


class Charted:
    """A whole cluster into which the chart is installed.

    Attributes:
        cluster: the cluster.
        api: requests of its administrator.
        kubelet: runs the pods of the installation.
        network: between API server and pods, both ways.
        port: where the webhook's Service is.
    """

    def __init__(self, cluster: Cluster, kubelet: Kubelet, network: Network) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.kubelet = kubelet
        self.network = network
        self.port = network.route(lambda: kubelet.endpoints(WEBHOOK, "review"))

    # ----------------------------------------------------------------------------- the commands

    def helm(self, command: str, *arguments: str) -> str:
        """Run a command of Helm about the release; what it printed."""
        done = helm.run(
            command, RELEASE, *arguments, "-n", SYSTEM,
            "--kubeconfig", str(self.cluster.admin_kubeconfig),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, command: str, values: Mapping[str, str], *more: str) -> str:
        """Install or upgrade the release with these values; what Helm printed."""
        said = [text for key, value in values.items() for text in ("--set", f"{key}={value}")]
        return self.helm(
            command, str(CHART), "--set", f"image.repository={REGISTRY}", *said,
            "--post-renderer", sys.executable,
            "--post-renderer-args", addresses.__file__,
            "--post-renderer-args", str(self.port), *more,
        )  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the program as the cluster's administrator, to a good end."""
        done = run_command(*arguments, "--kubeconfig", str(self.cluster.admin_kubeconfig))
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def make_namespace(self) -> None:
        """Make the namespace of the release, as the chart's page says."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.api.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM, "labels": labels}})

    def move_addresses(self) -> None:
        """Change addresses as in what Helm installs, after another command has installed it."""
        collections = (f"/api/v1/namespaces/{SYSTEM}/services", *CONFIGURATIONS, CRDS)
        for collection in collections:
            found = self.api.get(collection)
            kind = found["kind"].removesuffix("List")
            for one in found["items"]:
                document = {**one, "kind": kind}
                if addresses.move(document, self.port):
                    path = f"{collection}/{one['metadata']['name']}"
                    change = {
                        key: document[key] for key in ("spec", "webhooks") if key in document
                    }
                    self.api.patch(path, change)

    # ------------------------------------------------------------------------------ the cluster

    def add_nodes(self) -> None:
        """Add two nodes without GPUs, where the pods of the installation run."""
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        for name in ("cpu-0", "cpu-1"):
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            status = {"capacity": amounts, "allocatable": amounts}
            self.api.post(
                "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
            )

    def wait_rolled_out(self, image: str = "") -> None:
        """Wait until all pods of both Deployments are of the last version, and available.

        Args:
            image: what they run; empty for whatever they run.
        """
        for component in COMPONENTS:
            try:
                waiting.until(
                    partial(self._is_rolled_out, component, image),
                    what=f"{component} rolled out {image}",
                )
            except TimeoutError as late:
                for pod in self.kubelet.pods():
                    late.add_note(f"{pod.name}, started again {pod.restarts} times: {pod.log}")
                raise

    def _is_rolled_out(self, component: str, image: str) -> bool:
        assert not self.kubelet.problems, self.kubelet.problems
        found = self.api.get(f"{DEPLOYMENTS}/gpu-admission-{component}")
        status, replicas = found.get("status", {}), found["spec"]["replicas"]
        (container,) = found["spec"]["template"]["spec"]["containers"]
        counts = {
            status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")
        }
        is_seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        return (
            is_seen
            and counts == {replicas}
            and container["image"] == (image or container["image"])
        )

    def wait_drained(self) -> None:
        """Wait until pods that are being deleted have ended."""
        waiting.until(
            lambda: not any(pod.is_ending for pod in self.kubelet.pods()), what="old pods ended"
        )

    def wait_reviewed(self) -> None:
        """Wait until the API server asks the webhook, and gets answers."""

        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "spec": {}}

        def is_reviewed() -> bool:
            try:
                made = self.api.post(
                    f"{KUEUE}/clusterqueues?dryRun=All", {**queue, "metadata": {"name": "try"}}
                )
            except RestError:
                return False
            return names.RESOURCE_IN_USE in made["metadata"].get("finalizers", ())

        waiting.until(is_reviewed, what="queues reviewed")

    def leader(self) -> PodProcess | None:
        """Return the pod whose controller holds the Lease."""
        try:
            holder = self.api.get(LEASE)["spec"].get("holderIdentity") or ""
        except RestError:
            return None
        for pod in self.kubelet.pods(CONTROLLER):
            if f"_{pod.pid}_" in holder:
                return pod
        return None

    def wait_leader(self) -> PodProcess:
        """Wait until a controller leads; its pod."""
        return waiting.until(self.leader, what="a controller leads")

    # ---------------------------------------------------------------------------------- objects

    def try_pod(self, namespace: str, gpus: int = 1) -> Json:
        """What the API server would store of a new pod."""
        pod = make_pod("try", gpus=gpus, requests=AMOUNTS, limits=AMOUNTS)
        return self.api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)

    def create_pod(self, namespace: str, name: str, gpus: int = 1) -> None:
        """Create a pod as a user does."""
        pod = make_pod(
            name, gpus=gpus, requests=AMOUNTS, limits=AMOUNTS, terminationGracePeriodSeconds=0
        )
        self.api.post(f"/api/v1/namespaces/{namespace}/pods", pod)

    def pod(self, namespace: str, name: str) -> Json:
        """Return a pod."""
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def wait_running(self, namespace: str, name: str) -> Json:
        """Wait until a pod runs; the pod."""

        def found() -> Json | None:
            pod = self.pod(namespace, name)
            return pod if pod["status"].get("phase") == "Running" else None

        return waiting.until(found, what=f"pod {namespace}/{name} runs")

    def usage(self) -> dict[str, Any]:
        """Return what each ClusterQueue says that it uses, and how many wait."""
        return {
            one["metadata"]["name"]: {
                key: one.get("status", {}).get(key)
                for key in ("flavorsUsage", "flavorsReservation", "pendingWorkloads")
            }
            for one in self.api.get(f"{KUEUE}/clusterqueues")["items"]
        }


AMOUNTS: Final = {"cpu": "4", "memory": "16Gi"}


def is_gated(pod: Json) -> bool:
    """Return whether a pod carries our gate."""
    gates = pod["spec"].get("schedulingGates", ())
    return any(one["name"] == names.ADMISSION_GATE for one in gates)


@contextmanager
def charted() -> Iterator[Charted]:
    """A whole cluster with nodes for the installation, into which nothing is installed yet."""
    with ExitStack() as opened:
        cluster = opened.enter_context(Cluster.start())
        stages = cluster.folder / "stages.yaml"
        stages.write_text(_stages())
        cluster.start_whole(stages)
        network = opened.enter_context(Network())
        kubelet = opened.enter_context(Kubelet(cluster, network, SYSTEM, PROGRAM))
        system = Charted(cluster, kubelet, network)
        system.add_nodes()
        yield system
        assert not kubelet.problems, kubelet.problems


def _stages() -> str:
    """Return stages in which kwok leaves the pods of installations to the other kubelet."""
    found = list(yaml.safe_load_all(commands.STAGES.read_text()))
    for stage in found:
        if stage["metadata"]["name"] in _POD_STAGES:
            ours = {"key": _OURS, "operator": "NotIn", "values": ["gpu-admission", "kueue"]}
            stage["spec"]["selector"]["matchExpressions"].append(ours)
    return yaml.safe_dump_all(found)


# ------------------------------------------------------------------------------------- the load


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one review.

    Attributes:
        began: monotonic seconds at which it was asked for.
        ended: monotonic seconds at which it was answered.
        refusal: why it failed; empty if it was answered as it should be.
    """

    began: float
    ended: float
    refusal: str

    @property
    def is_late(self) -> bool:
        """Return whether it failed because it took longer than the API server waits."""
        return "deadline exceeded" in self.refusal or "Client.Timeout" in self.refusal


class Reviews:
    """Creates pods as a dry run, again and again, while the block lasts: each is reviewed twice.

    Attributes:
        answers: what became of each, in no order.
    """

    def __init__(
        self, system: Charted, namespace: str, *, threads: int = 3, pause_seconds: float = 0.3
    ) -> None:
        self.answers: list[Answer] = []
        self._system = system
        self._namespace = namespace
        self._pause_seconds = pause_seconds
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, name=f"reviews-{number}")
            for number in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    @property
    def failed(self) -> list[Answer]:
        """Those that were not answered as they should be, in the order in which they ended."""
        return sorted((one for one in self.answers if one.refusal), key=lambda one: one.ended)

    def _ask(self) -> None:
        while not self._stopping.wait(self._pause_seconds):
            began = self._clock.monotonic()
            refusal = ""
            try:
                if not is_gated(self._system.try_pod(self._namespace)):
                    refusal = "not gated"
            except (RestError, OSError) as error:
                refusal = str(error)
            self.answers.append(Answer(began, self._clock.monotonic(), refusal))
