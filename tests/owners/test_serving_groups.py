"""Which group a pod of an owner that serves is in, and how large that is."""

import json
from typing import Any

import msgspec
import pytest

from admission.base import names
from admission.base.names import WorkloadKey
from admission.controller.plans import PlanDraft
from admission.controller.watched_owners.serving_groups import ServingGroups
from admission.kube.reflector import Replaced, Upserted
from admission.objects import views
from admission.owners import serving_group
from admission.owners.serving import LEADER_WORKER_SET, STATEFUL_SET
from admission.owners.serving_group import ServingDocument, ServingGroup
from tests.builders.pods import make_pod

QUEUED = {names.QUEUE_LABEL: "batch"}
SET = {"name": "serve", "namespace": "team-a", "uid": "set-1", "labels": QUEUED}


def owner(**spec: Any) -> ServingDocument:
    return msgspec.convert({"metadata": SET, "spec": spec}, ServingDocument)


def pod(uid: str = "set-1", **metadata: Any) -> views.Pod:
    reference = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve", "uid": uid,
        "controller": True,
    }  # fmt: skip
    document = make_pod(
        "serve-0", namespace="team-a", metadata={"ownerReferences": [reference]}, **metadata
    )
    return msgspec.convert(document, views.Pod)


def joined(group: ServingGroup, member: views.Pod) -> dict[str, Any]:
    changes: dict[str, Any] = json.loads(group.join(member).body)["metadata"]
    return changes


def test_a_pod_is_of_the_stateful_set_whose_uid_it_names() -> None:
    assert serving_group.owner_of(STATEFUL_SET, pod()) == "serve"
    found = serving_group.of_pod(STATEFUL_SET, owner(replicas=3), pod())
    assert found is not None
    changes = joined(found, pod())
    assert changes["labels"] == QUEUED
    assert changes["annotations"] == {
        names.POD_GROUP_NAME: found.key.name,
        names.POD_GROUP_TOTAL_COUNT: "3",
        names.POD_GROUP_SERVING: "true",
        names.POD_GROUP_FAST_ADMISSION: "true",
        names.ROLE_HASH: "main",
    }
    assert serving_group.of_pod(STATEFUL_SET, owner(replicas=3), pod("another")) is None


@pytest.mark.parametrize(
    ("replicas", "size", "is_wanted"), [({"replicas": 2}, 2, True), ({}, 1, True),
                                        ({"replicas": 0}, 0, False)],
)  # fmt: skip
def test_a_stateful_set_is_one_group_of_all_replicas(
    replicas: dict[str, int], size: int, is_wanted: bool
) -> None:
    (group,) = serving_group.groups(STATEFUL_SET, owner(**replicas))
    assert (group.size, group.is_wanted) == (size, is_wanted)


def test_each_replica_of_a_leader_worker_set_is_a_group_of_its_own() -> None:
    template = {"size": 3, "leaderTemplate": {}, "workerTemplate": {}}
    found = owner(replicas=2, leaderWorkerTemplate=template)
    first, second = serving_group.groups(LEADER_WORKER_SET, found)
    assert first.key != second.key
    assert first.key.name.startswith("leaderworkerset-serve-0-")
    assert (first.size, second.is_wanted) == (3, True)
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "serve",
        "leaderworkerset.sigs.k8s.io/group-index": "1",
    }
    leader = pod(labels=labels)
    worker = pod(labels=labels, annotations={"leaderworkerset.sigs.k8s.io/leader-name": "serve-1"})
    for member, role in ((leader, "leader"), (worker, "worker")):
        assert serving_group.owner_of(LEADER_WORKER_SET, member) == "serve"
        group = serving_group.of_pod(LEADER_WORKER_SET, found, member)
        assert group == second
        annotations = joined(second, member)["annotations"]
        assert annotations[names.ROLE_HASH] == role
        # workers are numbered after the leader
        assert annotations.get(names.POD_INDEX_OFFSET) == ("1" if role == "worker" else None)


def test_a_replica_of_a_surge_is_a_group_and_not_wanted_for_long() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/group-index": "2"}
    group = serving_group.of_pod(LEADER_WORKER_SET, owner(replicas=2), pod(labels=labels))
    assert group is not None
    assert not group.is_wanted
    nowhere = {"leaderworkerset.sigs.k8s.io/group-index": "x"}
    assert serving_group.of_pod(LEADER_WORKER_SET, owner(), pod(labels=nowhere)) is None


def test_an_owner_of_another_shape_is_read_as_if_it_said_nothing() -> None:
    (group,) = serving_group.groups(LEADER_WORKER_SET, owner(leaderWorkerTemplate=[7]))
    assert group.size == 1
    assert joined(group, pod())["annotations"][names.ROLE_HASH] == "main"


def test_an_owner_with_very_many_replicas_costs_nothing_until_their_pods_are_there() -> None:
    looked_at: set[WorkloadKey] = set()
    made = ServingGroups((LEADER_WORKER_SET,), looked_at.update, PlanDraft())
    (informer,) = made.informers.values()
    many = owner(replicas=2**31 - 1)
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "serve",
        "leaderworkerset.sigs.k8s.io/group-index": "2000000000",
    }
    parent = {names.POD_SUSPENDING_PARENT: LEADER_WORKER_SET.parent}
    member = pod(labels=labels, annotations=parent)
    key = ServingGroup(LEADER_WORKER_SET, many, 2_000_000_000).key
    assert made.of(key, (member,), None) == (None, False)
    informer.apply(Upserted(many))
    assert looked_at == {key}
    found, is_left = made.of(key, (member,), None)
    assert not is_left
    assert found is not None
    assert found.key == key

    looked_at.clear()
    informer.apply(Upserted(owner(replicas=1)))
    assert looked_at == {key}
    assert made.of(key, (member,), None) == (None, False)


def test_pods_are_left_once_all_owners_are_known_and_theirs_is_not_there() -> None:
    made = ServingGroups((STATEFUL_SET,), lambda _: None, PlanDraft())
    (informer,) = made.informers.values()
    member = pod(annotations={names.POD_SUSPENDING_PARENT: STATEFUL_SET.parent})
    former, anew = owner(), msgspec.convert({"metadata": {**SET, "uid": "set-2"}}, ServingDocument)
    key = ServingGroup(STATEFUL_SET, former).key
    adopted = pod("set-2", annotations={names.POD_SUSPENDING_PARENT: STATEFUL_SET.parent})

    assert made.of(key, (member,), None) == (None, False)  # no StatefulSet is known yet
    informer.apply(Replaced(()))
    assert made.of(key, (member,), None) == (None, False)  # the kind is not served
    informer.apply(Replaced((), version="1"))
    assert made.of(key, (member,), None) == (None, True)
    assert made.of(key, (pod(),), None) == (None, False)  # it does not say that it is of one
    informer.apply(Upserted(former))
    assert made.of(key, (member,), None) == (ServingGroup(STATEFUL_SET, former), False)
    informer.apply(Upserted(anew))
    assert made.of(key, (adopted,), None) == (None, True)
