"""``gpu-admission uninstall``: what it says of what waits, and what becomes of that."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admission.admin import manifests
from admission.base import names
from admission.cli.main import main
from admission.config import reading
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.cli.applying import ApplyingStore
from tests.cli.served import served

TEAM = "team"
QUEUE = {names.QUEUE_LABEL: "default"}
PATCH = 'kubectl patch job NAME -n NAMESPACE --type=merge -p \'{"spec":{"suspend":false}}\''


@pytest.fixture
def store() -> ApplyingStore:
    """Return a cluster with two Jobs that wait, one that runs, and one of nobody's queue."""
    store = ApplyingStore()
    store.create(resources.NAMESPACES, make_namespace(TEAM))
    for job in (
        make_job("waits", labels=QUEUE, suspend=True),
        make_job("waits-too", labels=QUEUE, suspend=True),
        make_job("runs", labels=QUEUE),
        make_job("without-queue", suspend=True),
    ):
        store.create(resources.JOBS, job, TEAM)
    labels = {**QUEUE, names.MANAGED_LABEL: names.MANAGED_VALUE}
    store.create(
        resources.PODS, make_pod("gated", labels=labels, gates=[names.ADMISSION_GATE]), TEAM
    )
    return store


@pytest.fixture
def kubeconfig(store: ApplyingStore, tmp_path: Path) -> Iterator[Path]:
    with served(store, (*resources.BUILT_IN, *resources.CUSTOM), tmp_path) as path:
        yield path


def uninstall(kubeconfig: Path, *arguments: str) -> Result:
    line = ["uninstall", "--yes", *arguments, "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def suspended(store: ApplyingStore) -> set[str]:
    jobs = store.list(resources.JOBS).items
    return {one["metadata"]["name"] for one in jobs if one["spec"].get("suspend")}


def test_suspended_jobs_are_counted_and_it_says_how_to_start_them(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    told = uninstall(kubeconfig).stderr
    assert "Waiting for quota: 1 pod (team/gated). Stays pending" in told
    assert "Suspended, with a queue: 2 Jobs (team/waits, team/waits-too). Stays suspended" in told
    assert PATCH in told
    assert "warning: still suspended: 2 Jobs (team/waits, team/waits-too); run again with" in told
    assert suspended(store) == {"waits", "waits-too", "without-queue"}


def test_what_waits_is_let_run_if_asked_and_nothing_is_said_to_stay(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    told = uninstall(kubeconfig, "--release-pods").stderr
    assert "Waiting for quota: 1 pod (team/gated). Released now, without quota." in told
    assert "2 Jobs (team/waits, team/waits-too). Started now, without quota." in told
    assert "Stays pending" not in told
    assert "still suspended" not in told
    assert suspended(store) == {"without-queue"}
    (pod,) = store.list(resources.PODS).items
    assert not pod["spec"].get("schedulingGates")


def test_the_configuration_in_the_cluster_says_where_the_installation_is(
    store: ApplyingStore, kubeconfig: Path
) -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nnamespace: gpus\n"
    settings = reading.read(text, "file").settings
    store.create(resources.NAMESPACES, manifests.namespace(settings))
    store.create(resources.CONFIG_MAPS, manifests.config_map(settings), "gpus")
    mutating, *_ = manifests.webhook_configurations(
        manifests.service_reference(settings), settings
    )
    store.create(resources.MUTATING_WEBHOOKS, mutating)
    uninstall(kubeconfig)
    assert "gpus" not in {
        one["metadata"]["name"] for one in store.list(resources.NAMESPACES).items
    }
