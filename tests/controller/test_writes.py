"""Which write changes a status."""

from typing import Any

import msgspec
import pytest

from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import QueueKey, Verb, WritePurpose
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import Workload

_WAITS: dict[str, Any] = {"conditions": [{"type": "QuotaReserved", "status": "False"}]}
_RESERVED: dict[str, Any] = {
    "conditions": [{"type": "QuotaReserved", "status": "True"}],
    "admission": {"clusterQueue": "gpus"},
    "resourceRequests": None,
}
_METADATA = {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": "7"}


def workload(status: dict[str, Any]) -> Workload:
    return msgspec.convert({"metadata": _METADATA, "status": status}, Workload)


@pytest.mark.parametrize(
    ("found", "changes", "verb"),
    [
        ({}, _RESERVED, Verb.REPLACE),
        (_WAITS, _RESERVED, Verb.REPLACE),
        (_WAITS | {"resourceRequests": []}, _RESERVED, Verb.REPLACE),
        (_WAITS, {"resourceRequests": []}, Verb.PATCH),
        (_WAITS | {"nominatedClusterNames": ["far"]}, _RESERVED, Verb.PATCH),
        (_WAITS | {"admission": {"clusterQueue": "cpus"}}, _RESERVED, Verb.PATCH),
        (_WAITS | {"admission": {"clusterQueue": "cpus"}}, _WAITS, Verb.PATCH),
    ],
    ids=[
        "nothing there", "all given anew", "all given anew or taken away", "conditions kept",
        "another member kept", "an object is merged", "an object kept",
    ],
)  # fmt: skip
def test_a_status_is_replaced_where_every_member_that_it_has_is_given_anew(
    found: dict[str, Any], changes: dict[str, Any], verb: Verb
) -> None:
    write = api_requests.set_workload_status(workload(found), WritePurpose.RESERVE_QUOTA, changes)
    assert (write.verb, write.subresource) == (verb, "status")


def test_a_status_that_is_replaced_is_that_of_the_version_that_was_decided_on() -> None:
    write = api_requests.set_workload_status(
        workload(_WAITS), WritePurpose.RESERVE_QUOTA, _RESERVED
    )
    status = {key: value for key, value in _RESERVED.items() if value is not None}
    assert write.document == {"metadata": _METADATA, "status": status}


def test_the_status_of_an_object_without_namespace_is_replaced_without_one() -> None:
    metadata = views.ObjectMeta(name="gpus", uid="u", resource_version="7")
    lane = QueueKey("ClusterQueue", "", "gpus")
    write = api_requests.replace_queue_status(
        lane,
        resources.CLUSTER_QUEUES,
        views.Object(metadata=metadata),
        {"pendingWorkloads": 0, "fairSharing": {"weightedShare": 0, "more": None}},
    )
    assert write.document == {
        "metadata": {"name": "gpus", "uid": "u", "resourceVersion": "7"},
        "status": {"pendingWorkloads": 0, "fairSharing": {"weightedShare": 0}},
    }
