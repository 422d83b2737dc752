"""Each guide is followed on a whole cluster: what it says to type prints what it shows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from admission.config import reading
from tests.controlplane import build, nodes, waiting
from tests.controlplane.cluster import Cluster
from tests.guides import pages
from tests.guides.pages import Command, File, Settings
from tests.integration import teams
from tests.integration.installed import Installed
from tests.repo import tree

FIRST_HOUR = ("first-hour-admin", "first-hour-team", "first-hour-user")
GUIDES = {
    "first-hour": FIRST_HOUR,
    **{
        page.stem: (page.stem,)
        for page in sorted(pages.FOLDER.glob("*.md"))
        if page.stem not in FIRST_HOUR
    },
}
"""Pages that are read one after the other: what the first makes, the next ones use. Others have
names of their own, and share the nodes."""
OF_EDITORS = {"first-hour-user"}
"""Pages that are followed with the role ``edit``; others as an administrator."""
READING = ("kubectl get ", "kubectl describe ", "kubectl gpu ")
_OF_A_MOMENT = "Warning: May wait: "
"""What counts by statuses, which may be a moment old."""
REVIEWS = "/apis/admissionregistration.k8s.io/v1"
LONG_JOBS = ("cheap", "close", "dear", "split", "tune", "wide")
"""Jobs of the guides that stand for minutes of work; other Jobs end after a second."""
LASTING = {
    "metadata": {"name": "lasting"},
    "spec": {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "long",
                "expression": f"object.metadata.?labels['job-name'].orValue('') in {[*LONG_JOBS]}",
            }
        ],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": "Object{metadata: Object.metadata{"
                    f"annotations: {{'{nodes.RUN_FOR}': '10m'}}}}}}"
                },
            }
        ],
    },
}
LASTING_BOUND = {"metadata": {"name": "lasting"}, "spec": {"policyName": "lasting"}}


class Reader:
    """Somebody who follows a guide in a folder of their own."""

    def __init__(self, system: Installed, folder: Path, kubeconfig: str = "") -> None:
        self.system = system
        self.folder = folder
        folder.mkdir(exist_ok=True)
        programs = [Path(sys.executable).parent, build.folder()]
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "KUBECONFIG": kubeconfig or system.kubeconfig,
            "HOME": str(folder),
        }

    def follow(self, page: Path) -> None:
        """Does what a page says; fails where it does not hold."""
        for step in pages.steps(page):
            match step:
                case File():
                    (self.folder / step.name).write_text(step.text)
                case Settings():
                    self._check(step)
                case Command():
                    self._run(step)

    def _check(self, settings: Settings) -> None:
        (self.folder / "config.yaml").write_text(settings.text)
        done = self.done("gpu-admission config --config config.yaml")
        assert done.returncode == 0, f"line {settings.line}: {done.stdout}"

    def _run(self, command: Command) -> None:
        """Types a command, again and again until it prints what is shown: much takes a moment.

        What was made by a try that failed half-way is not said to be created again. Where the
        first try succeeded, the guide shows what that printed.
        """
        printed = tuple(line for line in command.printed if not line.startswith(_OF_A_MOMENT))
        first = last = ""
        has_failed = False

        def is_shown() -> bool:
            nonlocal first, last, has_failed
            done = self.done(command.text)
            lines = done.stdout.splitlines(keepends=True)
            last = "".join(line for line in lines if not line.startswith(_OF_A_MOMENT))
            first = first or last
            shown = pages.is_shown(printed, last)
            if not shown and has_failed:
                shown = pages.is_shown(printed, pages.as_created(last))
            has_failed = has_failed or done.returncode != 0
            return shown

        try:
            waiting.until(is_shown)
        except TimeoutError:
            told = last if first == last else f"{first}-- in the end:\n{last}"
            pytest.fail(self._differs(command, told), pytrace=False)
        if not command.text.startswith(READING):
            self.system.wait_webhook()

    def done(self, text: str) -> subprocess.CompletedProcess[str]:
        """Types a command; what it says and its errors are one."""
        return subprocess.run(
            ["bash", "-c", text], cwd=self.folder, env=self._environment, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=waiting.PATIENCE_SECONDS,
        )  # fmt: skip

    @staticmethod
    def _differs(command: Command, printed: str) -> str:
        shown = "\n".join(command.printed)
        return f"line {command.line}: {command.text}\n{printed}-- the guide shows:\n{shown}"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A cluster with GPUs of several kinds, installed as `install` does by itself."""
    if build.missing(["kubectl"]):
        pytest.fail(f"{build.folder()} holds no kubectl: run 'make controlplane'", pytrace=False)
    with Cluster.start() as cluster:
        cluster.start_whole()
        taints = [nodes.GPU_TAINT]
        cluster.add_gpu_node("gpu-0", taints=taints)
        cluster.add_gpu_node("gpu-1", product="NVIDIA-H100-80GB-HBM3", taints=taints)
        cluster.add_gpu_node(
            "mig-0", gpus=0, mig={"1g.10gb": 7}, labels={"pool": "mig"}, taints=taints
        )
        shared = {
            "nvidia.com/gpu.product": "Tesla-T4-SHARED",
            "nvidia.com/gpu.count": "4",
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }
        cluster.api.post(f"{REVIEWS}/mutatingadmissionpolicies", LASTING)
        cluster.api.post(f"{REVIEWS}/mutatingadmissionpolicybindings", LASTING_BOUND)
        cluster.add_gpu_node("t4-0", product="Tesla-T4", gpus=16, labels=shared, taints=taints)
        it = Installed(cluster, tmp_path_factory.mktemp("installed"))
        it.install_as_new()
        try:
            it.start()
            yield it
        finally:
            it.stop()


@pytest.mark.controlplane
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_holds(system: Installed, tmp_path: Path, guide: str) -> None:
    before = namespaces(system)
    try:
        for name in GUIDES[guide]:
            kubeconfig = editor(system) if name in OF_EDITORS else ""
            Reader(system, tmp_path / "reader", kubeconfig).follow(pages.FOLDER / f"{name}.md")
    finally:
        for namespace in sorted(namespaces(system) - before):
            # its pods are on nodes of all guides
            system.api.delete(f"/api/v1/namespaces/{namespace}")


def namespaces(system: Installed) -> set[str]:
    """The names of all namespaces."""
    items = system.api.get("/api/v1/namespaces")["items"]
    return {namespace["metadata"]["name"] for namespace in items}


def editor(system: Installed) -> str:
    """The kubeconfig of somebody with the role ``edit`` in all namespaces."""
    teams.add_editor(system)
    return str(system.cluster.kubeconfig("editor"))


@pytest.mark.controlplane
def test_the_first_queue_of_the_readme_is_made_by_one_command(
    system: Installed, tmp_path: Path
) -> None:
    reader = Reader(system, tmp_path / "reader")
    (queue,) = pages.manifests(tree.ROOT / "README.md")
    # a guide may have made what has these names
    mine = queue.replace("research", "readme").replace("name: a100", "name: readme")
    (reader.folder / "queue.yaml").write_text(mine)
    done = reader.done("kubectl apply -f queue.yaml")
    assert done.returncode == 0, done.stdout
    system.wait_for_queue("readme")
    reader.done("kubectl delete --wait=false -f queue.yaml")


def test_the_first_queue_of_the_readme_brings_its_namespace() -> None:
    documents = [
        document
        for text in pages.manifests(tree.ROOT / "README.md")
        for document in yaml.safe_load_all(text)
    ]
    made = {one["metadata"]["name"] for one in documents if one["kind"] == "Namespace"}
    used = {one["metadata"].get("namespace") for one in documents} - {None}
    assert used
    assert used <= made


@pytest.mark.parametrize("page", pages.others(), ids=tree.name)
def test_a_configuration_file_of_another_page_is_accepted(page: Path) -> None:
    for text in pages.manifests(page):
        if "kind: GpuConfiguration" in text:
            reading.read(text, tree.name(page))


@pytest.mark.parametrize("page", sorted(pages.FOLDER.glob("*.md")), ids=tree.name)
def test_no_command_of_a_guide_stands_outside_of_a_block_that_is_followed(page: Path) -> None:
    assert pages.out_of_place(page) == []


def test_what_a_command_prints_is_compared_with_what_a_guide_shows() -> None:
    assert pages.is_shown(("NAME   AGE", "train 1s"), "NAME AGE\ntrain  27m\n")
    assert pages.is_shown(("a", "...", "z"), "a\nb\nc\nz\n")
    assert pages.is_shown(("a", "...", "z"), "a\nz\n")
    assert pages.is_shown(("workload pod-...",), "workload pod-a-1f\n")
    assert not pages.is_shown(("a", "z"), "a\nb\nz\n")
    assert not pages.is_shown((), "error\n")
    assert pages.is_shown(("namespace/a created",), pages.as_created("namespace/a unchanged\n"))
