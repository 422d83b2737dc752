"""The operators, and how each is started.

Each runs as its own manifests run it: under its own service account, with its own CRDs, and with
its own webhooks where it needs them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.interop.modules import Module

CERTIFICATES: Final = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where controller-runtime looks for certificates. Some operators have it as a constant."""

_OFF: Final = "0"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one program runs.

    Attributes:
        kubeconfig: of its service account.
        folder: files that it is given.
        namespace: of its service account.
        health: port of its probes.
        webhook: port of its webhooks.
    """

    kubeconfig: Path
    folder: Path
    namespace: str
    health: int
    webhook: int

    def file(self, name: str, content: Any) -> str:
        """Path of a new file with a document."""
        path = self.folder / name
        path.write_text(yaml.safe_dump(content))
        return str(path)


@dataclass(frozen=True, kw_only=True)
class Program:
    """One process of an operator.

    Attributes:
        package: its main package in the module.
        flags: its command line.
        probe: path that answers when it is ready; empty where it serves none.
    """

    package: str
    flags: Callable[[Place], list[str]]
    probe: str = "/readyz"


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One framework's operator.

    Attributes:
        name: for people.
        module: what it is compiled from.
        programs: its processes.
        crds: patterns of its CRDs' files in the module.
        namespace: where its manifests install it.
        account: its service account there.
        webhooks: file of its webhook configurations in the module; empty where they are off.
        pods_with: label of the pods that its webhooks are asked about.
        service: name of the Service that leads to its webhooks.
        environment: of its processes.
        objects: further objects that it needs, made before it starts.
        manifests: files of the module with such objects.
        beside: operators that it needs.
        asks_ray: it asks Ray's dashboards, by their names in the cluster.
        samples: names of the samples that it runs.
    """

    name: str
    module: Module
    programs: tuple[Program, ...]
    crds: tuple[str, ...]
    namespace: str
    account: str
    samples: tuple[str, ...]
    webhooks: str = ""
    pods_with: str = ""
    service: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    objects: Callable[[Place], list[dict[str, Any]]] = lambda _: []
    manifests: tuple[str, ...] = ()
    beside: tuple["Operator", ...] = ()
    asks_ray: bool = False


def _jobset(place: Place) -> list[str]:
    content = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": place.webhook, "certDir": str(CERTIFICATES)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health}"},
        "metrics": {"bindAddress": _OFF},
    }
    return [f"--config={place.file('config.yaml', content)}", f"--metrics-bind-address={_OFF}"]


def _trainer(place: Place) -> list[str]:
    content = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        "webhook": {"port": place.webhook},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health}"},
        "metrics": {"bindAddress": _OFF, "secureServing": False},
    }
    return [f"--config={place.file('trainer.yaml', content)}"]


def _training(place: Place) -> list[str]:
    return [
        f"--metrics-bind-address={_OFF}",
        f"--health-probe-bind-address=127.0.0.1:{place.health}",
        f"--webhook-server-port={place.webhook}",
    ]


def _mpi(place: Place) -> list[str]:
    return [f"--kubeConfig={place.kubeconfig}", f"--lock-namespace={place.namespace}"]


def _kuberay(place: Place) -> list[str]:
    return [
        f"--metrics-addr={_OFF}",
        f"--health-probe-bind-address=127.0.0.1:{place.health}",
        "--enable-leader-election=false",
    ]


def _appwrapper_configuration(place: Place) -> list[dict[str, Any]]:
    """The ConfigMap with its configuration."""
    content = {
        "appwrapper": {"userRBACAdmissionCheck": False},
        "webhooksEnabled": False,
        "controllerManager": {
            "health": {"bindAddress": f"127.0.0.1:{place.health}"},
            "metrics": {"bindAddress": _OFF},
        },
    }
    name = "appwrapper-operator-config"
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": place.namespace},
            "data": {"config.yaml": yaml.safe_dump(content)},
        }
    ]


_JOBSET: Final = Operator(
    name="JobSet",
    module=Module(
        path="sigs.k8s.io/jobset",
        version="v0.12.0",
        sum="h1:YYPuV0px8Ongq/RXmJg6V0w2UC67aiR+rCMD06vhQQQ=",
    ),
    programs=(Program(package=".", flags=_jobset),),
    crds=("config/components/crd/bases/*.yaml",),
    namespace="jobset-system",
    account="jobset-controller-manager",
    webhooks="config/components/webhook/manifests.yaml",
    pods_with="jobset.sigs.k8s.io/jobset-name",
    service="jobset-webhook-service",
    samples=("jobset",),
)

OPERATORS: Final = (
    _JOBSET,
    Operator(
        name="training-operator",
        module=Module(
            path="github.com/kubeflow/training-operator",
            version="v1.9.4",
            sum="h1:MjYXzeaHGBmF47BlhCo6+Mb7ypHrVfO6vsys1ZHF56A=",
        ),
        programs=(Program(package="./cmd/training-operator.v1", flags=_training),),
        crds=("manifests/base/crds/*.yaml",),
        namespace="kubeflow",
        account="training-operator",
        webhooks="manifests/base/webhook/manifests.yaml",
        service="training-operator",
        samples=("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob"),
    ),
    Operator(
        name="MPI operator",
        module=Module(
            path="github.com/kubeflow/mpi-operator",
            version="v0.8.2",
            sum="h1:7PVtV31iX3LSVW0BqRQ64w/NYNfAgP86Bmua2OEi5lg=",
        ),
        programs=(Program(package="./cmd/mpi-operator", flags=_mpi, probe=""),),
        crds=("manifests/base/kubeflow.org_mpijobs.yaml",),
        namespace="mpi-operator",
        account="mpi-operator",
        samples=("mpijob",),
    ),
    Operator(
        name="AppWrapper",
        module=Module(
            path="github.com/project-codeflare/appwrapper",
            version="v1.2.2",
            sum="h1:W5Dm0J8cOUPnb+Jo9rkHcvAzY+GkECy/vdGmozvGKHI=",
        ),
        programs=(Program(package="./cmd", flags=lambda _: []),),
        crds=("config/crd/bases/*.yaml",),
        namespace="appwrapper-system",
        account="appwrapper-controller-manager",
        environment={"NAMESPACE": "appwrapper-system"},
        objects=_appwrapper_configuration,
        samples=("appwrapper",),
    ),
    Operator(
        name="KubeRay",
        module=Module(
            path="github.com/ray-project/kuberay/ray-operator",
            version="v1.5.0",
            sum="h1:KCjCQ7PSsvs9Ke+90CZbbs498nuaIJ/JkXk4vd54EVg=",
        ),
        programs=(Program(package=".", flags=_kuberay),),
        crds=("config/crd/bases/*.yaml",),
        namespace="ray-system",
        account="kuberay-operator",
        asks_ray=True,
        samples=("raycluster", "rayjob"),
    ),
    Operator(
        name="Kubeflow trainer",
        module=Module(
            path="github.com/kubeflow/trainer/v2",
            version="v2.2.0",
            sum="h1:whChZckEtycLo1UKH/M0hiNaCUozbLvf9JrgmMv+TAg=",
        ),
        programs=(Program(package="./cmd/trainer-controller-manager", flags=_trainer),),
        crds=("manifests/base/crds/trainer.*.yaml",),
        namespace="kubeflow-system",
        account="kubeflow-trainer-controller-manager",
        webhooks="manifests/base/webhook/manifests.yaml",
        service="kubeflow-trainer-controller-manager",
        manifests=("manifests/base/runtimes/torch_distributed.yaml",),
        beside=(_JOBSET,),
        samples=("trainjob",),
    ),
)
"""In the order in which they run."""

REFUSED: Final = {
    "LeaderWorkerSet": "sigs.k8s.io/lws@v0.10.0",
    "Volcano": "volcano.sh/volcano@v1.14.2",
}
"""Operators that do not run here: the registry of Go modules refuses their modules (403)."""
