"""A file that is not a whole backup is refused before anything is changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from admission.admin import backups
from admission.admin.backups import BackupError
from admission.answers import usage
from admission.kube import resources
from admission.objects import crds, usage_record
from admission.objects.usage_record import Period, Record
from admission.sandbox.store import Store
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor
from tests.builders.workloads import make_workload
from tests.clocks import FakeClock

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "gpus"},
    "spec": {},
}


def mark(**more: Any) -> dict[str, Any]:
    found = {"format": 1, **more}
    return {"apiVersion": "v1", "kind": "List", "gpuAdmissionBackup": found, "items": []}


def text(*documents: Any) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in documents)


WHOLE = text(mark(), QUEUE, mark(objects=1))
BROKEN = {
    "empty": ("", "line 1: is not a backup"),
    "another file": (text(QUEUE), "line 1: is not a backup"),
    "no JSON": ("apiVersion: v1\n", "line 1: was cut off, or is not a backup"),
    "another version": (
        text(mark(format=2), mark(objects=0)),
        "Backup.format",
    ),
    "without its end": (text(mark(), QUEUE), "was cut off"),
    "without its first object": (text(mark(), mark(objects=1)), "was cut off"),
    "cut in a line": (WHOLE[:-20], "line 3: was cut off"),
    "only its start": (text(mark()), "was cut off"),
    "another kind": (
        text(mark(), {**QUEUE, "kind": "Secret", "apiVersion": "v1"}, mark(objects=1)),
        "line 2: v1 Secret: must be one of Topology, ",
    ),
    "another version of a kind": (
        text(mark(), {**QUEUE, "apiVersion": "kueue.x-k8s.io/v9"}, mark(objects=1)),
        "line 2: kueue.x-k8s.io/v9 ClusterQueue: must be one of",
    ),
    "no name": (
        text(mark(), {**QUEUE, "metadata": {}}, mark(objects=1)),
        "line 2: kueue.x-k8s.io/v1beta2 ClusterQueue: metadata.name: must be given",
    ),
    "a ConfigMap of others": (
        text(
            mark(),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
            mark(objects=1),
        ),
        "line 2: v1 ConfigMap a: must have the label gpu-admission.dev/usage",
    ),
}


@pytest.mark.parametrize(("content", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_is_no_whole_backup_is_refused(
    tmp_path: Path, content: str, says: str
) -> None:
    file = tmp_path / "queues.jsonl"
    file.write_text(content)
    with pytest.raises(BackupError) as refused:
        backups.read(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert says in str(refused.value)


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    store, file = Store(crds=crds.documents()), tmp_path / "queues.jsonl"
    for document in (
        make_namespace(),
        make_cluster_queue(),
        make_flavor(),
        make_workload("b"),
    ):
        found = resources.of_kind(document["apiVersion"], document["kind"])
        assert found is not None
        store.create(found, document, document["metadata"].get("namespace", ""))
    assert backups.save(store, file, FakeClock()) == 3
    documents = backups.read(file).documents
    assert [one["kind"] for one in documents] == ["ResourceFlavor", "ClusterQueue", "Workload"]
    assert not {"uid", "resourceVersion"} & set(documents[0]["metadata"])
    other = Store(crds=crds.documents())
    other.create(resources.NAMESPACES, make_namespace())
    left: list[Any] = []
    assert len(list(backups.restore(other, backups.read(file), left.append))) == 3
    assert left == []
    for document in documents:
        found = resources.of_kind(document["apiVersion"], document["kind"])
        assert found is not None
        metadata = document["metadata"]
        made = other.get(found, metadata["name"], metadata.get("namespace", ""))
        assert made["spec"] == document["spec"]


def test_usage_records_are_saved_and_no_other_config_maps(tmp_path: Path) -> None:
    file = tmp_path / "queues.jsonl"
    stores = Store(crds=crds.documents()), Store(crds=crds.documents())
    for store in stores:
        store.create(resources.NAMESPACES, make_namespace("sys"))
    record = Record(begin=7200, until=7300, holes=((7200, 7210),))
    document = usage_record.document(record, Period.HOUR, "sys")
    stores[0].create(resources.CONFIG_MAPS, document)
    stores[0].create(resources.CONFIG_MAPS, {"metadata": {"name": "other"}}, "sys")
    assert backups.save(stores[0], file, FakeClock()) == 1
    assert len(list(backups.restore(stores[1], backups.read(file), print))) == 1
    assert usage.read(stores[1], "sys") == ((record,), ())


def test_a_running_controller_is_not_disturbed() -> None:
    store, clock = Store(), FakeClock()
    spec = {
        "holderIdentity": "host_1",
        "leaseDurationSeconds": 15,
        "renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-admission", "namespace": "sys"},
        "spec": spec,
    }
    store.create(resources.NAMESPACES, make_namespace("sys"))
    store.create(resources.LEASES, lease, "sys")
    with pytest.raises(BackupError, match="a controller is running"):
        backups.refuse_running(store, "sys", clock)
    clock.advance(16)
    backups.refuse_running(store, "sys", clock)
    backups.refuse_running(store, "elsewhere", clock)
