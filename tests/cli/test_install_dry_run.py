"""``install --dry-run`` and ``uninstall --dry-run`` say what they would do, and do nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from admission.base import names
from admission.cli.main import main
from admission.config.derived import Settings
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.cli.applying import ApplyingStore
from tests.cli.served import served
from tests.deploy.seen import everything

KINDS = (*resources.BUILT_IN, *resources.CUSTOM)
QUEUE = {names.QUEUE_LABEL: "default"}
MANAGED = {**QUEUE, names.MANAGED_LABEL: names.MANAGED_VALUE}


@pytest.fixture
def store() -> ApplyingStore:
    return ApplyingStore()


@pytest.fixture
def kubeconfig(store: ApplyingStore, tmp_path: Path) -> Iterator[Path]:
    with served(store, KINDS, tmp_path) as path:
        yield path


def run(kubeconfig: Path, *words: str) -> Result:
    result = CliRunner().invoke(main, [*words, "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def effects(result: Result) -> dict[str, Any]:
    return {f"{each['kind']}/{each['name']}": each["effect"] for each in json.loads(result.stdout)}


def test_a_dry_run_of_an_installation_creates_no_object_and_no_certificate(
    store: ApplyingStore, kubeconfig: Path, tmp_path: Path
) -> None:
    before, certificates = everything(store), tmp_path / "certificates"
    outside = (
        *("--webhook-url", "https://127.0.0.1:9443", "--cert-dir", str(certificates)),
        "--no-bypass-guard",
    )
    tried = run(kubeconfig, "install", "--dry-run", *outside)
    assert everything(store) == before
    assert not certificates.exists()
    assert f"the certificate in {certificates} would be created" in tried.stderr
    assert "dry run: nothing was changed" in tried.stderr
    assert "next:" not in tried.stdout
    assert f"Namespace/{Settings().namespace} created (dry run)" in tried.stdout.splitlines()
    told = effects(run(kubeconfig, "install", "--dry-run", "-o", "json"))
    assert everything(store) == before
    assert set(told.values()) == {"created"}
    assert "Deployment/gpu-admission-controller" in told


def test_a_dry_run_of_a_removal_counts_what_is_not_there_and_starts_nothing(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    store.create(resources.NAMESPACES, make_namespace("ml"))
    pod = make_pod("waits", gpus=1, labels=MANAGED, gates=[names.ADMISSION_GATE])
    store.create(resources.PODS, pod, "ml")
    store.create(resources.JOBS, make_job("train", 1, gpus=1, labels=QUEUE, suspend=True), "ml")
    before = everything(store)
    tried = run(kubeconfig, "uninstall", "--dry-run", "--release-pods", "--keep-crds")
    assert everything(store) == before
    lines = tried.stdout.splitlines()
    assert "Job/train -n ml configured (dry run)" in lines
    assert "Pod/waits -n ml configured (dry run)" in lines
    assert all(line.endswith(" (dry run)") for line in lines[:-1])
    assert not any(" absent" in line or " unchanged" in line for line in lines[:-1])
    assert " absent" in lines[-1]


def test_a_dry_run_of_a_removal_writes_no_backup_and_asks_nobody(
    kubeconfig: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "queues.jsonl"
    tried = run(kubeconfig, "uninstall", "--dry-run", "--backup", str(backup))
    assert not backup.exists()
    assert f"are written to {backup}" in tried.stderr
