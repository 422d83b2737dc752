"""Equal parts of structs are kept once."""

import msgspec

from admission.base import structs
from admission.objects import views
from admission.objects.workload import Workload

POD = b"""{"metadata": {"name": "%s", "namespace": "ml", "labels": {"a": "b", "c": "%s"}},
"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "%d"}}}],
"nodeName": "node-1"},
"status": {"conditions": [{"type": "Ready", "status": "True"}]}}"""


def pod(name: str, label: str = "d", gpus: int = 1) -> views.Pod:
    values = name.encode(), label.encode(), gpus
    return structs.decoder(views.Pod).decode(POD % values)


def workload(name: str, count: int = 1) -> Workload:
    document = {
        "metadata": {"name": name},
        "spec": {"podSets": [{"name": "main", "count": count, "template": {"spec": {}}}]},
    }
    return structs.decoder(Workload).decode(msgspec.json.encode(document))


def test_pods_that_ask_alike_share_what_they_ask_for_and_the_texts_that_all_have() -> None:
    one, other = pod("one"), pod("other")
    assert one.spec.containers is other.spec.containers
    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.namespace is other.metadata.namespace
    assert one.spec.node_name is other.spec.node_name
    assert one.metadata.name != other.metadata.name


def test_what_differs_is_not_shared() -> None:
    one, other = pod("one", label="d", gpus=1), pod("one", label="e", gpus=2)
    assert one.spec.containers != other.spec.containers
    assert one.metadata.labels != other.metadata.labels


def test_workloads_share_equal_pod_sets() -> None:
    assert workload("one").spec.pod_sets is workload("other").spec.pod_sets
    assert workload("one").spec.pod_sets != workload("other", count=2).spec.pod_sets
