"""The wheel of ``kubectl gpu`` answers alone in an empty environment, without ``kubernetes``."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from admission.base import names
from admission.cli import kubectl
from admission.kube import resources
from admission.objects import crds
from admission.sandbox.store import Store
from deploy import plugin
from deploy.krew import pack
from tests.builders.cluster import make_namespace
from tests.builders.pods import make_pod
from tests.builders.queues import make_cluster_queue, make_local_queue
from tests.builders.workloads import make_workload
from tests.cli.served import served
from tests.controlplane.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow
UV = str(Path(sys.executable).with_name("uv"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    python = str(folder / "bin" / "python")
    install = ["pip", "install", "--quiet", "--python", python]
    for arguments in (
        ["venv", "--quiet", "--python", sys.executable, str(folder)],
        [*install, "--require-hashes", "-r", str(pack.LOCK)],
        [*install, "--no-deps", str(wheel)],
        ["pip", "check", "--quiet", "--python", python],
    ):
        subprocess.run([UV, *arguments], check=True)
    return folder


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Access to an API server with a queue, and a pod that waits in it."""
    store = Store(crds=crds.documents())
    store.create(resources.NAMESPACES, make_namespace("team"))
    store.create(resources.CLUSTER_QUEUES, make_cluster_queue("cq"))
    store.create(resources.LOCAL_QUEUES, make_local_queue("lq", "cq", "team"))
    pod = make_pod("train", namespace="team", metadata={"labels": {names.QUEUE_LABEL: "lq"}})
    made = store.create(resources.PODS, pod)
    labels = {names.JOB_UID_LABEL: made["metadata"]["uid"]}
    workload = make_workload("train", namespace="team", queue="lq", metadata={"labels": labels})
    store.create(resources.WORKLOADS, workload)
    folder = tmp_path_factory.mktemp("served")
    with served(store, resources.BUILT_IN + resources.CUSTOM, folder) as kubeconfig:
        yield kubeconfig


def run(environment: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(environment / "bin" / program), *arguments],
        cwd=environment, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip


def test_it_has_neither_the_client_package_nor_what_runs_in_a_cluster(
    environment: Path, wheel: Path
) -> None:
    listed = subprocess.run(
        [UV, "pip", "list", "--quiet", "--python", str(environment / "bin" / "python")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    installed = {line.split()[0] for line in listed.splitlines()[2:]}
    assert installed == {
        "click", "kubectl-gpu", "msgspec", "pyyaml", "typing-extensions", "urllib3",
    }  # fmt: skip
    with zipfile.ZipFile(wheel) as archive:
        packages = {"/".join(name.split("/")[:2]) for name in archive.namelist()}
    assert {"admission/cli", "admission/kube", "admission/run"} <= packages
    assert not packages & {"admission/controller", "admission/sandbox", "tests", "deploy"}


def test_help_and_version(environment: Path) -> None:
    shown = run(environment, "kubectl-gpu", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Usage: kubectl gpu" in shown.stdout
    version = run(environment, "kubectl-gpu", "--version").stdout
    assert version == f"kubectl gpu, version {pack.version().removeprefix('v')}\n"
    completed = run(environment, "kubectl_complete-gpu", "wh")
    assert [line.partition("\t")[0] for line in completed.stdout.splitlines()] == [
        "who", "why", ":4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["why", "train", "-n", "team"], 0, "train"),
        (["top"], 0, "cq"),
        (["queue"], 0, "train"),
        (["usage"], 1, "error: no"),  # nothing records there
        (["who", "cq"], 0, "cq"),
    ],
    ids=["why", "top", "queue", "usage", "who"],
)
def test_each_question_is_answered(
    arguments: list[str], code: int, says: str, environment: Path, kubeconfig: Path
) -> None:
    asked = run(environment, "kubectl-gpu", *arguments, "--kubeconfig", str(kubeconfig))
    assert asked.returncode == code, asked.stderr
    assert says in (asked.stderr if code else asked.stdout)


def test_every_command_that_is_not_hidden_is_asked_here() -> None:
    assert kubectl.COMMANDS.keys() == {"why", "top", "queue", "usage", "who"}


def test_a_plugin_for_credentials_needs_no_package(environment: Path, kubeconfig: Path) -> None:
    program = environment / "sign-in"
    program.write_text(
        '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", "kind":'
        ' "ExecCredential", "status": {"token": "secret"}}\'\n'
    )
    program.chmod(0o755)
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./sign-in",
            "interactiveMode": "Never",
        }
    }
    written = environment / "kubeconfig"
    written.write_text(yaml.safe_dump(document))
    asked = run(environment, "kubectl-gpu", "top", "--kubeconfig", str(written))
    assert (asked.returncode, asked.stderr) == (0, "")
    program.write_text("#!/bin/sh\nexit 3\n")
    refused = run(environment, "kubectl-gpu", "top", "--kubeconfig", str(written))
    assert refused.returncode == 1
    assert "exit code 3" in refused.stderr


def test_the_doctor_says_what_it_needs(environment: Path) -> None:
    refused = run(environment, "kubectl-gpu", "doctor")
    assert refused.returncode == 1
    assert "which is not installed here. Install the wheel of the release" in refused.stderr
    assert "[doctor]'" in refused.stderr


def test_the_extra_has_what_the_doctor_imports(environment: Path) -> None:
    """The packages that a doctor imports in an environment with all of them."""
    program = "import sys, admission.cli.doctor; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    modules = {name.replace("-", "_") for name in plugin.DOCTOR}
    assert modules <= imported
    assert not imported & {"kubernetes", "flask", "gunicorn", "jsonpatch"}
