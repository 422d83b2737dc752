"""What a namespace that is not managed runs is neither changed nor charged, whatever it is."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest

from admission.base import names
from admission.base.names import ClusterQueueName
from admission.base.namespaces import ManagedNamespaces
from admission.controller.watched_owners.owner_writes import resource_of
from admission.controller.writing.api_requests import WritePurpose
from admission.kube import resources
from admission.kube.errors import NotFoundError
from admission.objects import gangs, owner_rows, views
from admission.owners import row_owner, serving
from admission.owners.serving_group import ServingDocument
from tests.builders.cluster import make_node
from tests.builders.jobs import queued_job
from tests.builders.pods import group_pod, pod_view, queued_pod
from tests.controller.test_audit import Audits
from tests.controller.test_child_jobs import child_of
from tests.controller.test_gangs import show
from tests.controller.test_managed_namespaces import report
from tests.controller.world import World, ready_world
from tests.owners import samples

EXCLUDED: Final = ManagedNamespaces(frozenset({"ml"}))
ON_NODE: Final[dict[str, Any]] = {"gated": False, "spec": {"nodeName": "n1"}}
ADMITTED: Final = {
    names.LOCAL_QUEUE_NAME_LABEL: "team-a",
    names.CLUSTER_QUEUE_NAME_LABEL: "gpus",
    names.PODSET_LABEL: "main",
}
"""Labels of a pod that was released, as whoever copies a manifest copies them."""
CONTROLLED: Final = {"ownerReferences": [
    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
]}  # fmt: skip


def run(world: World, document: Mapping[str, Any]) -> None:
    world.store.create(resources.PODS, dict(document), "ml")


def drop(world: World, name: str) -> None:
    world.settle()
    with suppress(NotFoundError):
        world.delete_pod(name)


def a_pod(world: World) -> None:
    run(world, queued_pod("train", **ON_NODE))


def a_job(world: World) -> None:
    world.add(queued_job(suspend=False))
    report(world, active=2)


def a_job_of_a_job(world: World) -> None:
    world.add(queued_job("parent", suspend=False))
    parent = world.store.get(resources.JOBS, "parent", "ml")
    world.add(child_of(parent, "train", suspend=False))


def an_owner_of_every_kind(world: World) -> None:
    for row in owner_rows.ROWS:
        sample = samples.of(row)
        metadata = {
            "name": "train", "namespace": "ml", "uid": row.kind, "resourceVersion": "1",
            "labels": {names.QUEUE_LABEL: "team-a"},
        }  # fmt: skip
        found = {**sample.manifest, "metadata": metadata, "status": sample.running}
        kind = row_owner.integration(row).kind
        world.shown[resource_of(kind)] = (msgspec.convert(found, row_owner.RowDocument),)


def a_group(world: World) -> None:
    for name in ("a", "b", "c"):
        run(world, group_pod(name, total=2, **ON_NODE))


def a_podgroup(world: World) -> None:
    show(world, 2, queue="team-a")
    mark = gangs.Reference(gangs.VOLCANO, "gang").text()
    for name in ("a", "b"):
        run(world, queued_pod(name, annotations={names.POD_GROUP_OBJECT: mark}, **ON_NODE))


def a_statefulset(world: World) -> None:
    labels = {names.QUEUE_LABEL: "team-a"}
    meta = views.ObjectMeta(namespace="ml", name="web", uid="u", labels=labels)
    world.shown[resource_of(serving.STATEFUL_SET.kind)] = (
        ServingDocument(metadata=meta, spec={"replicas": 2}),
    )
    world.shown[resources.PODS] = tuple(
        pod_view(name, uid=name, metadata=CONTROLLED, **ON_NODE) for name in ("web-0", "web-1")
    )


def a_deployment(world: World) -> None:
    labels = {names.QUEUE_LABEL: "team-a"}
    meta = views.ObjectMeta(namespace="ml", name="web", uid="u", labels=labels)
    spec = {"replicas": 1, "strategy": {"type": "Recreate"}}
    world.shown[resource_of(serving.DEPLOYMENT.kind)] = (
        ServingDocument(metadata=meta, spec=spec),
    )
    run(world, queued_pod("web-1", **ON_NODE))
    drop(world, "web-1")


def a_pod_with_the_labels_of_an_admission(world: World) -> None:
    run(world, queued_pod("train", labels=ADMITTED, **ON_NODE))


def a_pod_that_loses_these_labels(world: World) -> None:
    a_pod_with_the_labels_of_an_admission(world)
    drop(world, "train")
    run(world, queued_pod("train", **ON_NODE))


HARMLESS: Final = {WritePurpose.QUEUE_STATUS, WritePurpose.FIND_PARENT, WritePurpose.LET_CHILD_GO}
"""A Job that has our mark, as whoever copies a manifest copies it, loses it and runs on."""
PATHS: Final[tuple[Callable[[World], None], ...]] = (
    a_pod, a_job, a_job_of_a_job, an_owner_of_every_kind, a_group, a_podgroup, a_statefulset,
    a_deployment, a_pod_with_the_labels_of_an_admission, a_pod_that_loses_these_labels,
)  # fmt: skip


def charged(world: World) -> int:
    world.settle()
    tally = world.state.cluster_queue_status(ClusterQueueName("gpus"))
    return sum(tally.reservation.values())


@pytest.mark.parametrize("path", PATHS, ids=lambda one: one.__name__)
def test_what_runs_in_an_excluded_namespace_is_neither_changed_nor_charged(
    path: Callable[[World], None],
) -> None:
    world = ready_world(namespaces=EXCLUDED)
    world.store.create(resources.NODES, make_node("n1"))
    world.pass_time(2)
    world.sent.clear()
    path(world)
    world.pass_time(70)

    done = [one for one in world.sent if one.operation not in HARMLESS]
    assert not done, [(one.operation, one.name) for one in done]
    assert not world.workloads()
    assert charged(world) == 0
    audits = Audits(world, namespaces=EXCLUDED)
    assert audits.auditor.audit() == {}
    assert audits.repairs == []


@pytest.mark.parametrize("path", PATHS, ids=lambda one: one.__name__)
def test_the_same_in_a_managed_namespace_is_stopped_or_charged(
    path: Callable[[World], None],
) -> None:
    """Else the test above would find nothing."""
    world = ready_world()
    world.store.create(resources.NODES, make_node("n1"))
    world.pass_time(2)
    world.sent.clear()
    path(world)
    world.pass_time(3)

    done = {one.operation for one in world.sent} - {WritePurpose.QUEUE_STATUS}
    assert done
