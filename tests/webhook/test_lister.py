"""The webhook's cache follows the watches and says when it is complete."""

from typing import Any

import msgspec
import pytest

from admission.base.errors import InternalError
from admission.kube import resources
from admission.objects import views
from admission.objects.cluster_queue import ClusterQueue, ClusterQueueSpec
from admission.objects.local_queue import LocalQueue
from admission.objects.priority_class import WorkloadPriorityClass
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.resource_group import FlavorQuotasSpec, ResourceGroupSpec
from admission.objects.resource_quota import NamespaceQuota
from admission.webhook import lister
from admission.webhook.lister import ClusterLister
from tests.builders.queues import cluster_queue_view, local_queue_view, make_local_queue
from tests.webhook import reviews


def make_queue(name: str, namespace: str = "team-a", **metadata: object) -> LocalQueue:
    document = make_local_queue(name, namespace=namespace)
    document["metadata"] |= metadata
    return msgspec.convert(document, LocalQueue)


def test_it_is_ready_only_after_every_kind_was_listed():
    cache = ClusterLister()
    client = reviews.make_app(cache).test_client()
    assert client.get("/healthz").status_code == 200
    for kind in lister.WATCHED:
        assert not cache.synced
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert kind.qualified in answer.text
        assert "gpu_admission_webhook_ready 0.0" in client.get("/metrics").text
        cache.replace(kind, ())
    assert cache.synced
    assert client.get("/readyz").status_code == 200


def test_a_list_replaces_what_was_there():
    cache = ClusterLister()
    cache.replace(resources.LOCAL_QUEUES, [make_queue("a"), make_queue("b", "team-b")])
    cache.replace(resources.LOCAL_QUEUES, [make_queue("c"), make_queue("b")])
    assert cache.local_queue_names("team-a") == ("b", "c")
    assert cache.local_queue_names("team-b") == ()
    assert cache.count(resources.LOCAL_QUEUES) == 2


def test_objects_come_change_and_go():
    cache = ClusterLister()
    cache.upsert(resources.LOCAL_QUEUES, make_queue("a"))
    stopped = local_queue_view("a", stopPolicy="Hold")
    cache.upsert(resources.LOCAL_QUEUES, stopped)
    assert cache.local_queue("team-a", "a") == stopped
    cache.delete(resources.LOCAL_QUEUES, stopped)
    cache.delete(resources.LOCAL_QUEUES, stopped)
    assert cache.local_queue("team-a", "a") is None
    assert cache.count(resources.LOCAL_QUEUES) == 0


def test_every_kind_is_found_by_its_name():
    cache = ClusterLister()
    metadata = views.ObjectMeta(name="x")
    in_team = views.ObjectMeta(name="x", namespace="team-a")
    cache.upsert(resources.CLUSTER_QUEUES, ClusterQueue(metadata=metadata))
    cache.upsert(resources.RESOURCE_FLAVORS, ResourceFlavor(metadata=metadata))
    cache.upsert(resources.NAMESPACES, views.Namespace(metadata=metadata))
    cache.upsert(resources.WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass(metadata=metadata))
    cache.upsert(resources.LIMIT_RANGES, views.LimitRange(metadata=in_team))
    for find in (
        cache.cluster_queue, cache.resource_flavor, cache.namespace, cache.workload_priority_class,
    ):  # fmt: skip
        found = find("x")
        assert found is not None
        assert found.metadata.name == "x"
        assert find("y") is None
    assert [item.metadata.name for item in cache.limit_ranges("team-a")] == ["x"]
    assert cache.limit_ranges("team-b") == ()
    cache.upsert(resources.RESOURCE_QUOTAS, NamespaceQuota(metadata=in_team))
    assert [item.metadata.name for item in cache.resource_quotas("team-a")] == ["x"]
    assert cache.resource_quotas("team-b") == ()


def test_a_write_that_no_review_could_notice_swaps_nothing():
    cache = ClusterLister()
    cache.upsert(resources.LOCAL_QUEUES, make_queue("a", resourceVersion="1"))
    cache.upsert(resources.LOCAL_QUEUES, make_queue("a", resourceVersion="2"))
    kept = cache.local_queue("team-a", "a")
    assert kept is not None
    assert kept.metadata.resource_version == "1"
    cache.upsert(resources.LOCAL_QUEUES, make_queue("a", labels={"x": "y"}))
    changed = cache.local_queue("team-a", "a")
    assert changed is not None
    assert changed.metadata.label("x") == "y"


def test_a_kind_that_is_not_watched_is_a_bug():
    with pytest.raises(InternalError, match="pods: the webhook does not watch"):
        ClusterLister().replace(resources.PODS, ())


def test_facts_about_a_queue_are_kept_until_it_or_a_flavor_changes():
    cache = ClusterLister()
    quotas = FlavorQuotasSpec(name="a", resources=())
    queue = ClusterQueue(
        metadata=views.ObjectMeta(name="q"),
        spec=ClusterQueueSpec(resource_groups=(ResourceGroupSpec(flavors=(quotas,)),)),
    )
    cache.upsert(resources.CLUSTER_QUEUES, queue)
    first = cache.queue_facts(queue)
    assert first.missing == ("a",)
    assert cache.queue_facts(queue) is first
    flavor = ResourceFlavor(metadata=views.ObjectMeta(name="a"))
    cache.upsert(resources.RESOURCE_FLAVORS, flavor)
    second = cache.queue_facts(queue)
    assert second.missing == ()
    assert cache.queue_facts(queue) is second
    changed = ClusterQueue(metadata=queue.metadata)
    assert cache.queue_facts(changed).offer.flavors == ()
    cache.delete(resources.CLUSTER_QUEUES, changed)
    assert cache.queue_facts(queue) is not second


def test_a_verbose_readiness_says_of_which_moment_each_kind_is():
    cache = ClusterLister()
    client = reviews.make_app(cache).test_client()
    for kind in lister.WATCHED:
        cache.replace(kind, (), "5")
    flavor = ResourceFlavor(metadata=views.ObjectMeta(name="a100", resource_version="7"))
    cache.upsert(resources.RESOURCE_FLAVORS, flavor)
    queue = make_queue("a", resourceVersion="8")
    cache.upsert(resources.LOCAL_QUEUES, queue)
    cache.delete(resources.LOCAL_QUEUES, make_queue("a", resourceVersion="9"))

    assert client.get("/readyz").text == "ok\n"
    lines = client.get("/readyz?verbose").text.splitlines()
    assert lines[-1] == "ok"
    assert "[+]resourceflavors.kueue.x-k8s.io: 1 known, version 7" in lines
    assert "[+]localqueues.kueue.x-k8s.io: 0 known, version 9" in lines
    assert "[+]clusterqueues.kueue.x-k8s.io: 0 known, version 5" in lines
    assert len(lines) == len(lister.WATCHED) + 1


def test_what_is_free_follows_the_statuses_and_the_cohort() -> None:
    def queue(name: str, used: int, **spec: Any) -> ClusterQueue:
        reserved = [{"name": "a", "resources": [{"name": "gpu", "total": str(used)}]}]
        status = {"flavorsReservation": reserved}
        quotas = {"a": {"gpu": "8"}}
        preemption = {"reclaimWithinCohort": "Any"}
        return cluster_queue_view(
            quotas, name=name, cohortName="all", status=status, preemption=preemption, **spec
        )

    reach = lister.Reach()
    for name, used in (("own", 6), ("other", 0)):
        reach.set_queue(queue(name, used))
    assert reach.free("own", "a", "gpu") == 10
    reach.set_queue(queue("other", 12))
    assert (reach.free("own", "a", "gpu"), reach.unused("own", "a", "gpu")) == (0, 2)
    assert reach.reclaimed("own", "a", "gpu") == 2
    reach.set_queue(queue("other", 12, stopPolicy="Hold"))
    assert reach.reclaimed("own", "a", "gpu") == 0
    reach.set_queue(queue("other", 3))
    assert (reach.free("own", "a", "gpu"), reach.most("own", "a", "gpu")) == (7, 16)
    reach.drop_queue("other")
    assert reach.free("own", "a", "gpu") == 2
    assert reach.free("gone", "a", "gpu") is None
    assert reach.unused("gone", "a", "gpu") is None
