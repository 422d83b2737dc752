"""What the product prints as the next step is typed as printed, and works."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from admission.config import gpu_configuration
from admission.reasons import next_steps
from admission.reasons.next_steps import Code
from tests.builders.pods import make_pod
from tests.controlplane import build, nodes, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.guides import pages
from tests.integration.installed import KUEUE, Installed
from tests.repo import printed

pytestmark = pytest.mark.controlplane

FILE = {
    "apiVersion": gpu_configuration.API_VERSION,
    "kind": gpu_configuration.KIND,
    "excludedNamespaces": ["elsewhere"],
}


class Shell:
    """A terminal without KUBECONFIG: what is printed has to name the cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = [Path(sys.executable).parent, build.folder()]
        self._environment = {
            key: value for key, value in os.environ.items() if key != "KUBECONFIG"
        } | {
            "HOME": str(folder),
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
        }

    def type(self, line: str) -> str:
        """Types a line that has to succeed; what it prints."""
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self._environment, check=False, text=True,
            capture_output=True, timeout=waiting.PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def going_on(self, line: str) -> Iterator[None]:
        """Types a line that goes on until it is interrupted."""
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], cwd=self.folder, env=self._environment,
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(waiting.PATIENCE_SECONDS)


def steps(printed: str) -> list[str]:
    """The commands behind the last line ``next:``, without what they are for."""
    lines = printed.rpartition("next:")[2].splitlines()
    return [
        line.partition("  # ")[0].strip()
        for line in lines
        if re.match(r" +(gpu-admission|kubectl) ", line)
    ]


_VERBS = {
    "annotate", "apply", "auth", "config", "cordon", "delete", "describe", "edit", "get",
    "kustomize", "label", "logs", "patch", "rollout", "version", "wait",
}  # fmt: skip
_CHANGING = {"annotate", "apply", "cordon", "delete", "label", "patch"}
_OF_OTHERS = {"certificate": "secret", "pytorchjob": "job"}
"""Kinds of other projects, and kinds that are asked for in the same way."""
_NAME_OF_A_COMMAND = 3
"""As many words only name a command: ``kubectl rollout restart``."""
_PROSE = ["delete", "on"]
"""How a sentence goes on that is about kubectl delete."""
_OBJECT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
}


def printed_for_kubectl() -> list[tuple[str, ...]]:
    """Commands of kubectl in texts of the product, and those of guides that are not followed."""
    texts = [text for module in printed.MODULES for text in printed.texts(module)]
    texts += [
        line
        for page in sorted(pages.FOLDER.glob("*.md"))
        for line in pages.untested(page)
        if len(line.split()) > _NAME_OF_A_COMMAND
    ]
    found = {
        tuple(_OF_OTHERS.get(word, word) for word in words)
        for text in texts
        for words in printed.commands(text)
        if words[0] == "kubectl" and _VERBS & set(words[1:4]) and words[1:3] != _PROSE
    }
    return sorted(found)


def test_every_kubectl_command_that_a_text_names_is_one(
    installation: Installed, tmp_path: Path
) -> None:
    """Objects that it names need not be there; kinds, options and arguments are right."""
    (tmp_path / "FILE").write_text(yaml.safe_dump(_OBJECT))
    kubeconfig = re.compile("--kubeconfig (?:FILE|PATH)")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "kustomization.yaml").write_text("resources: []\n")
    environment = {**os.environ, "KUBECONFIG": installation.kubeconfig, "EDITOR": "true"}
    wrong = {}
    for words in printed_for_kubectl():
        line = kubeconfig.sub(f"--kubeconfig {installation.kubeconfig}", " ".join(words))
        _, *typed = shlex.split(line)
        dry = ["--dry-run=server"] if _CHANGING & set(typed[:3]) else []
        done = subprocess.run(
            [str(build.folder() / "kubectl"), *typed, *dry], cwd=tmp_path, env=environment,
            input=yaml.safe_dump(_OBJECT), text=True, capture_output=True, check=False,
            timeout=waiting.PATIENCE_SECONDS,
        )  # fmt: skip
        is_absent = "(NotFound)" in done.stderr or "no matching resources" in done.stderr
        if done.returncode and not is_absent:
            wrong[" ".join(words)] = done.stderr
    assert wrong == {}


def test_the_next_step_of_every_reason_can_be_typed(
    installation: Installed, tmp_path: Path
) -> None:
    team = installation.add_team(1)
    installation.create_pod(team, "holds")
    installation.wait_released(team, "holds")
    installation.create_pod(team, "waits")
    installation.wait_condition(team, "waits")
    workloads = installation.api.get(f"{KUEUE}/namespaces/{team}/workloads")["items"]
    waits = next(
        one["metadata"]["name"]
        for one in workloads
        if one["metadata"]["name"].startswith("pod-waits")
    )
    known = {
        "queue": team, "local": "default", "namespace": team, "name": "waits", "workload": waits,
    }  # fmt: skip
    typed = {
        " ".join(words).replace("KIND/NAME", "pod/waits")
        for code in Code
        for words in printed.commands(next_steps.next_step(code, known))
    }
    assert len(typed) > 5
    shell = Shell(tmp_path)
    for line in sorted(typed):
        dry = " --dry-run=server" if line.startswith("kubectl patch") else ""
        shell.type(f"export KUBECONFIG={installation.kubeconfig}; {line}{dry}")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if build.missing(["kubectl"]):
        pytest.fail(f"{build.folder()} holds no kubectl: run 'make controlplane'", pytrace=False)
    with Cluster.start() as it:
        it.start_whole()
        it.add_gpu_node("gpu-0", taints=[nodes.GPU_TAINT])
        yield it


def test_the_steps_after_an_installation_outside_of_the_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    system, shell, port = Installed(cluster, tmp_path), Shell(tmp_path), free_port()
    system.use_webhook_port(port)
    system.certificates = tmp_path / "my certs"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(FILE))
    printed = shell.type(
        f"gpu-admission install --kubeconfig {system.kubeconfig} --webhook-url "
        f"https://127.0.0.1:{port} --cert-dir 'my certs' --config config.yaml --mode warn"
    )
    run, *others = steps(printed)
    assert run.startswith("gpu-admission run ")
    with shell.going_on(f"{run} --metrics-bind 127.0.0.1:{system.metrics_port}"):
        waiting.until(system.is_ready, what="webhook and controller are ready")
        system.wait_reviewed()
        others = [step for step in others if "POD" not in step] + [
            step for step in others if "POD" in step
        ]
        assert [step.split(" --")[0] for step in others] == [
            "gpu-admission doctor", "gpu-admission init", "kubectl gpu why POD -n NAMESPACE",
        ]  # fmt: skip
        for step in others[:-1]:
            shell.type(step)
        made = shell.type(f"{others[1]} --team red --apply")
        why, *more = steps(made)
        assert why.startswith("kubectl gpu why POD -n red")
        system.wait_for_queue("red")
        cluster.api.post("/api/v1/namespaces/red/pods", make_pod("train", gpus=1))
        for step in (why, *more, others[-1].replace("NAMESPACE", "red")):
            shell.type(step.replace("POD", "train"))


def test_the_steps_after_an_installation_in_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    shell, kubeconfig = Shell(tmp_path), str(cluster.admin_kubeconfig)
    install = f"gpu-admission install --kubeconfig {kubeconfig} --mode warn"
    printed = shell.type(f"{install} --image registry.example.com/gpu-admission:1")
    tolerate, wait, *_ = steps(printed)
    assert tolerate.startswith("kubectl patch deployment")
    assert wait.startswith("kubectl wait")
    for step in (tolerate, wait):
        shell.type(step)
