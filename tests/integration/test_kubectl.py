"""kubectl shows every kind as Kueue's users know it: columns, descriptions, documentation."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admission.objects import kinds
from tests.controlplane import build, refusals
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.gpu import seeds
from tests.integration import snapshot
from tests.integration.reviewed import KINDS, Reviewed, wait_documented
from tests.integration.test_schemas import store
from tests.objects import schemas, whole
from tests.objects.case import Document

pytestmark = pytest.mark.controlplane

SEEDS = Path(seeds.__file__).parent / "kueue.yaml"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    """An installation with the whole object of every kind, named ``whole``."""
    if build.missing(["kubectl"]):
        pytest.fail(f"{build.folder()} holds no kubectl: run 'make controlplane'", pytrace=False)
    with snapshot.reviewed(tmp_path_factory.mktemp("kubectl")) as it:
        for kind, document in whole.NEW.items():
            store(it, kind, kinds.STORED, document, "whole")
        wait_documented(it)
        yield it


def run(system: Reviewed, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": system.kubeconfig, "HOME": str(system.folder)}
    if path:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [str(build.folder() / "kubectl"), *arguments],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment,
    )  # fmt: skip


def said(system: Reviewed, *arguments: str) -> str:
    done = run(system, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def columns(heading: str) -> list[str]:
    """The names of the columns; kubectl puts three spaces between them."""
    return re.split(r"\s{3,}", heading.strip())


ROWS: dict[str, dict[str, str | None]] = {
    "AdmissionCheck": {"NAME": "whole", "AGE": None},
    "ClusterQueue": {
        "NAME": "whole", "COHORT": "all", "PENDING WORKLOADS": "3", "GPUS": "9 of 16",
        "ACTIVE": "True",
    },
    "Cohort": {"NAME": "whole", "AGE": None},
    "LocalQueue": {
        "NAME": "whole", "CLUSTERQUEUE": "cq", "PENDING WORKLOADS": "3", "ADMITTED WORKLOADS": "1",
    },
    "ResourceFlavor": {"NAME": "whole", "AGE": None},
    "Topology": {"NAME": "whole", "AGE": None},
    "Workload": {
        "NAME": "whole", "QUEUE": "lq", "RESERVED IN": "cq", "ADMITTED": "True", "FINISHED": "",
        "AGE": None,
    },
    "WorkloadPriorityClass": {"NAME": "whole", "VALUE": "100"},
}  # fmt: skip
"""What ``kubectl get`` prints: the columns and their values, None where it is an age."""


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_get_prints_kueues_columns_by_every_name(system: Reviewed, kind: str) -> None:
    found = KINDS[kind]
    for name in (found.plural, kind.lower(), *found.short_names):
        heading, row = said(system, "get", name).splitlines()
        assert columns(heading) == list(ROWS[kind])
        starts = [heading.index(column) for column in ROWS[kind]]
        ends = [*starts[1:], len(row)]
        shown = {
            column: row[start:end].strip()
            for column, start, end in zip(ROWS[kind], starts, ends, strict=True)
        }
        assert shown.pop("AGE", "0s")
        assert shown == {c: value for c, value in ROWS[kind].items() if value is not None}


def test_get_in_wide_form_shows_the_strategy_and_the_admitted_of_a_queue(
    system: Reviewed,
) -> None:
    heading, row = said(system, "get", "cq", "-o", "wide").splitlines()
    assert heading.split() == [
        "NAME", "COHORT", "STRATEGY", "PENDING", "WORKLOADS", "ADMITTED", "WORKLOADS", "GPUS",
        "ACTIVE",
    ]  # fmt: skip
    assert row.split()[:5] == ["whole", "all", "StrictFIFO", "3", "1"]


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_get_in_the_older_version_warns_and_shows_the_same(system: Reviewed, kind: str) -> None:
    plural = KINDS[kind].plural
    done = run(system, "get", f"{plural}.v1beta1.kueue.x-k8s.io")
    assert done.stderr == "Warning: This version is deprecated. Use v1beta2 instead.\n"
    assert done.stdout.splitlines()[0] == said(system, "get", plural).splitlines()[0]


def leaves(value: Any) -> Iterator[str]:
    """Texts and numbers of a document, as a description must show them."""
    if isinstance(value, dict):
        for member in value.values():
            yield from leaves(member)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif not isinstance(value, bool) and value != "":
        yield str(value)


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_describe_shows_everything(system: Reviewed, kind: str) -> None:
    text = said(system, "describe", KINDS[kind].plural, "whole")
    assert f"Kind:         {kind}" in text
    missing = {leaf for leaf in leaves(whole.NEW[kind]) if leaf not in text}
    assert missing == set()


def words(text: str) -> str:
    """The text in one line: kubectl breaks it where the terminal ends."""
    return " ".join(text.split())


def documented(schema: Document, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and description of every field but those of pod templates."""
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        if "description" in child:
            yield here, child["description"]
        if name != "template":
            inner = child.get("items", child)
            yield from documented(inner, here)


@pytest.mark.parametrize("version", [kinds.DEPRECATED, kinds.STORED])
@pytest.mark.parametrize("kind", sorted(ROWS))
def test_explain_documents_the_kind_and_its_fields(
    system: Reviewed, kind: str, version: str
) -> None:
    schema = schemas.of_version(version)[kind]
    api_version = f"--api-version=kueue.x-k8s.io/{version}"
    text = said(system, "explain", KINDS[kind].plural, api_version)
    assert "GROUP:      kueue.x-k8s.io" in text
    assert f"VERSION:    {version}" in text
    assert words(schema["description"]) in words(text)
    fields = [name for name in schema["properties"] if name not in {"apiVersion", "kind"}]
    assert all(f"  {name}\t" in text for name in fields)


REQUIRED = {
    "AdmissionCheck": {"controllerName"},
    "ClusterQueue": {"nominalQuota", "coveredResources"},
    "Cohort": {"nominalQuota", "coveredResources"},
    "Topology": {"levels"},
}
"""Some of the members that must be given, which ``kubectl explain`` marks."""


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_explain_recursively_lists_every_field(system: Reviewed, kind: str) -> None:
    text = said(system, "explain", KINDS[kind].plural, "--recursive")
    listed = [line.split("\t")[0].strip() for line in text.splitlines() if "\t<" in line]
    wanted = [path.rpartition(".")[2] for path, _ in documented(schemas.stored()[kind])]
    assert set(wanted) <= set(listed)
    required = {line.split("\t")[0].strip() for line in text.splitlines() if "-required-" in line}
    assert REQUIRED.get(kind, set()) <= required


@pytest.mark.parametrize(
    "path",
    [
        "admissioncheck.spec.controllerName",
        "clusterqueue.spec.preemption.borrowWithinCohort",
        "clusterqueue.status.flavorsUsage.resources.borrowed",
        "cohort.spec.parentName",
        "localqueue.spec.clusterQueue",
        "resourceflavor.spec.tolerations",
        "topology.spec.levels.nodeLabel",
        "workload.spec.podSets.minCount",
        "workload.status.admission.podSetAssignments.topologyAssignment.slices",
        "workloadpriorityclass.value",
    ],
)
def test_explain_says_what_a_field_means(system: Reviewed, path: str) -> None:
    name, _, field = path.partition(".")
    (kind,) = (kind for kind in KINDS if kind.lower() == name)
    meanings = dict(documented(schemas.stored()[kind]))
    assert words(meanings[f".{field}"]) in words(said(system, "explain", path))


def test_apply_takes_a_users_manifests_or_says_what_is_wrong(system: Reviewed) -> None:
    said(system, "create", "namespace", "ml-training")
    done = run(system, "apply", "-f", str(SEEDS))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "resourceflavor.kueue.x-k8s.io/a100-80gb created",
        "localqueue.kueue.x-k8s.io/ml-team-queue created",
        "workload.kueue.x-k8s.io/training-job created",
    ]
    assert (
        'The ClusterQueue "gpu-cluster-queue" is invalid: spec: Invalid value: borrowingLimit must'
        " be nil when cohort is empty"
    ) in refusals.words(done.stderr)


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    """A folder with the plugin of kubectl, for the path of programs."""
    program = tmp_path / "kubectl-gpu"
    program.write_text(f"#!{sys.executable}\nfrom admission.cli.kubectl import main\nmain()\n")
    program.chmod(0o755)
    return str(tmp_path)


def test_kubectl_finds_its_gpu_command(system: Reviewed, plugin: str) -> None:
    system.create_pod("default", "web", gpus=None)
    done = run(system, "gpu", "why", "web", "-o", "json", path=plugin)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "not managed"
    gone = run(system, "gpu", "why", "gone", "-n", "default", path=plugin)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "no pod 'gone' in namespace default" in gone.stderr


def test_a_gpu_command_asks_with_the_rights_of_whom_it_acts_as(
    system: Reviewed, plugin: str
) -> None:
    asked = ("gpu", "why", "web", "-n", "default")
    refused = run(system, *asked, "--as", "ada", "--as-group", "ml", path=plugin)
    assert refused.returncode == 1
    assert 'User "ada" cannot' in refused.stderr
    in_group = run(system, *asked, "--as", "ada", "--as-group", "system:masters", path=plugin)
    assert "no pod" not in in_group.stderr
    assert "cannot" not in in_group.stderr
    alone = run(system, *asked, "--as-group", "ml", path=plugin)
    assert alone.returncode == 2
    assert "--as-group needs --as" in alone.stderr
