"""A dry run is checked and answered like the write, and stores nothing."""

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import views
from tests.builders.pods import make_pod
from tests.contract import objects

KIND = resources.LIMIT_RANGES


def version(api: Api, namespace: str) -> str:
    return api.get(KIND, "a", namespace, into=views.Object).metadata.resource_version


def test_a_creation_is_answered_and_not_stored(api: Api, namespace: str):
    made = api.dry_run().create(KIND, objects.limit_range(), namespace)
    metadata = made["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert "resourceVersion" not in metadata
    with pytest.raises(errors.NotFoundError):
        api.get(KIND, "a", namespace)
    assert api.list(KIND, namespace).items == ()


def test_a_custom_object_is_not_stored_either(api: Api, namespace: str):
    made = api.dry_run().create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    assert made["spec"]["clusterQueue"] == "q"
    assert api.list(resources.LOCAL_QUEUES, namespace).items == ()


def test_a_creation_that_would_be_refused_is_refused(api: Api, namespace: str):
    api.create(KIND, objects.limit_range(), namespace)
    with pytest.raises(errors.AlreadyExistsError):
        api.dry_run().create(KIND, objects.limit_range(), namespace)
    with pytest.raises(errors.InvalidError):
        api.dry_run().create(resources.PODS, make_pod("Not A Name"), namespace)


def test_a_replacement_is_answered_under_the_old_version(api: Api, namespace: str):
    stored = api.create(KIND, objects.limit_range(), namespace)
    changed = {**stored, "metadata": {**stored["metadata"], "labels": {"b": "c"}}}
    answer = api.dry_run().replace(KIND, changed)
    assert answer["metadata"]["labels"] == {"b": "c"}
    assert answer["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert api.get(KIND, "a", namespace) == stored


def test_a_patch_is_answered_and_not_stored(api: Api, namespace: str):
    api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    change = patches.merge({"status": {"pendingWorkloads": 3}})
    answer = api.dry_run().patch(
        resources.LOCAL_QUEUES, "a", change, namespace, subresource="status"
    )
    assert answer["status"]["pendingWorkloads"] == 3
    assert "status" not in api.get(resources.LOCAL_QUEUES, "a", namespace)


def test_a_deletion_deletes_nothing(api: Api, namespace: str):
    api.create(KIND, objects.limit_range(), namespace)
    before = version(api, namespace)
    api.dry_run().delete(KIND, "a", namespace)
    assert version(api, namespace) == before
    with pytest.raises(errors.ConflictError):
        api.dry_run().delete(KIND, "a", namespace, uid="other")


def test_a_watch_is_told_nothing(api: Api, namespace: str):
    start = api.list(KIND, namespace).resource_version
    api.dry_run().create(KIND, objects.limit_range(), namespace)
    api.create(KIND, objects.limit_range("b"), namespace)
    with_events = api.watch(KIND, namespace, resource_version=start, timeout_seconds=300)
    event = next(with_events)
    with_events.close()
    assert event.object is not None
    assert event.object["metadata"]["name"] == "b"
