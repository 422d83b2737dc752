"""Create, read, list, replace, delete."""

from dataclasses import replace

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api, every, every_served
from admission.objects import views
from admission.objects.local_queue import LocalQueue
from tests.builders.pods import make_pod
from tests.contract import objects
from tests.contract.conftest import Server


def test_a_new_object_has_an_identity(api: Api, namespace: str):
    made = api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    metadata = made["metadata"]
    assert metadata["name"] == "a"
    assert metadata["namespace"] == namespace
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["generation"] == 1
    assert api.get(resources.PODS, "a", namespace) == made


def test_the_namespace_of_the_metadata_is_enough(api: Api, namespace: str):
    document = make_pod("a")
    document["metadata"]["namespace"] = namespace
    assert api.create(resources.PODS, document, into=views.Pod).metadata.namespace == namespace


def test_what_the_server_owns_cannot_be_chosen(api: Api, namespace: str):
    document = make_pod("a")
    document["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    document["status"] = {"phase": "Running"}
    made = api.create(resources.PODS, document, namespace)
    assert made["metadata"]["uid"] != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert made["status"]["phase"] == "Pending"


def test_a_name_is_generated(api: Api, namespace: str):
    document = make_pod("a")
    document["metadata"] = {"generateName": "run-"}
    names = {
        api.create(resources.PODS, document, namespace, into=views.Pod).metadata.name
        for _ in range(3)
    }
    assert len(names) == 3
    assert all(name.startswith("run-") and len(name) == len("run-") + 5 for name in names)


def test_a_new_pod_gets_the_servers_defaults(api: Api, namespace: str):
    limits = {"nvidia.com/gpu": 1, "cpu": "1500m", "memory": "1024Mi"}
    document = make_pod("a", requests={"cpu": "1000m"}, limits=limits)
    document["spec"]["schedulingGates"] = [{"name": objects.GATE}]
    made = api.create(resources.PODS, document, namespace)
    spec = made["spec"]
    assert spec["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "1", "cpu": "1500m", "memory": "1Gi"},
        "requests": {"nvidia.com/gpu": "1", "cpu": "1", "memory": "1Gi"},
    }
    assert (spec["restartPolicy"], spec["schedulerName"]) == ("Always", "default-scheduler")
    assert spec["priority"] == 0
    assert [item["effect"] for item in spec["tolerations"]] == ["NoExecute", "NoExecute"]
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_a_list_is_in_order_and_filtered(api: Api, namespace: str):
    for name, color in (("b", "red"), ("a", "blue"), ("c", "red")):
        api.create(resources.LIMIT_RANGES, objects.limit_range(name, color=color), namespace)

    def names(selector: str, field: str = "") -> list[str]:
        page = api.list(
            resources.LIMIT_RANGES,
            namespace,
            label_selector=selector,
            field_selector=field,
            into=views.Object,
        )
        return [item.metadata.name for item in page.items]

    assert names("") == ["a", "b", "c"]
    assert names("color=red") == ["b", "c"]
    assert names("color!=red") == ["a"]
    assert names("color in (blue, green)") == ["a"]
    assert names("color notin (blue),color") == ["b", "c"]
    assert names("!color") == []
    assert names("color=red", "metadata.name=c") == ["c"]


def test_pods_are_selected_by_phase_and_node(api: Api, namespace: str):
    api.create(resources.PODS, make_pod("a"), namespace)
    api.create(resources.PODS, make_pod("b", nodeName="n1"), namespace)

    def names(selector: str) -> list[str]:
        page = api.list(resources.PODS, namespace, field_selector=selector, into=views.Pod)
        return [item.metadata.name for item in page.items]

    assert names("status.phase=Pending") == ["a", "b"]
    assert names("status.phase!=Pending") == []
    assert names("spec.nodeName=n1") == ["b"]
    assert names("spec.nodeName=") == ["a"]


def test_pages_show_one_moment(api: Api, namespace: str):
    for name in "abcde":
        api.create(resources.LIMIT_RANGES, objects.limit_range(name), namespace)
    first = api.list(resources.LIMIT_RANGES, namespace, limit=2)
    api.create(resources.LIMIT_RANGES, objects.limit_range("f"), namespace)
    second = api.list(resources.LIMIT_RANGES, namespace, limit=2, continue_=first.continue_)
    third = api.list(resources.LIMIT_RANGES, namespace, limit=2, continue_=second.continue_)
    pages = (first, second, third)
    assert [[i["metadata"]["name"] for i in p.items] for p in pages] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]
    assert {page.resource_version for page in pages} == {first.resource_version}
    assert third.continue_ == ""


def test_every_object_of_a_kind_is_had_page_by_page(api: Api, namespace: str):
    for name in "abcde":
        limit_range = objects.limit_range(name, color=namespace)
        api.create(resources.LIMIT_RANGES, limit_range, namespace)
    found = every(
        api,
        resources.LIMIT_RANGES,
        label_selector=f"color={namespace}",
        page_size=2,
        into=views.Object,
    )
    assert [one.metadata.name for one in found] == ["a", "b", "c", "d", "e"]


def test_a_kind_that_is_not_served_has_no_object(api: Api):
    unknown = replace(resources.WORKLOADS, group="nobody.example.com")
    assert list(every_served(api, unknown)) == []
    with pytest.raises(errors.NotFoundError):
        list(every(api, unknown))


def test_items_of_a_list_say_what_they_are(api: Api, namespace: str):
    api.create(resources.LIMIT_RANGES, objects.limit_range(), namespace)
    item = api.list(resources.LIMIT_RANGES, namespace).items[0]
    assert (item["apiVersion"], item["kind"]) == ("v1", "LimitRange")


def test_an_undecodable_object_does_not_spoil_a_list(api: Api, namespace: str):
    api.create(
        resources.CONFIG_MAPS, {"metadata": {"name": "good"}, "data": {"n": "1"}}, namespace
    )
    api.create(resources.CONFIG_MAPS, {"metadata": {"name": "bad"}}, namespace)

    page = api.list(resources.CONFIG_MAPS, namespace, field_selector="", into=WithData)
    assert [item.metadata.name for item in page.items if item.metadata.name == "good"] == ["good"]
    assert "bad" in {item.name for item in page.undecodable}


class WithData(views.Object, frozen=True, kw_only=True):
    data: dict[str, str]


def test_a_replace_needs_the_latest_version(api: Api, namespace: str):
    made = api.create(resources.LIMIT_RANGES, objects.limit_range(), namespace)
    made["metadata"]["labels"] = {"a": "b"}
    changed = api.replace(resources.LIMIT_RANGES, made)
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    with pytest.raises(errors.ConflictError) as refused:
        api.replace(resources.LIMIT_RANGES, made)
    assert str(refused.value) == (
        'Operation cannot be fulfilled on limitranges "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


def test_a_replace_of_a_custom_object_must_name_its_version(api: Api, namespace: str):
    made = api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    del made["metadata"]["resourceVersion"]
    with pytest.raises(errors.InvalidError, match="must be specified for an update"):
        api.replace(resources.LOCAL_QUEUES, made)


def test_a_replace_of_a_recreated_object_is_a_conflict(api: Api, namespace: str):
    made = api.create(resources.LIMIT_RANGES, objects.limit_range(), namespace)
    made["metadata"] |= {"uid": "other"}
    del made["metadata"]["resourceVersion"]
    with pytest.raises(errors.ConflictError, match="Precondition failed: UID in precondition"):
        api.replace(resources.LIMIT_RANGES, made)


def test_a_write_that_changes_nothing_is_no_new_version(api: Api, namespace: str):
    made = api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    again = api.replace(resources.LOCAL_QUEUES, made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_the_generation_counts_changes_of_the_spec(api: Api, namespace: str):
    made = api.create(resources.LOCAL_QUEUES, objects.local_queue(), namespace)
    assert made["metadata"]["generation"] == 1

    def after(document: objects.Document, subresource: str = "") -> int:
        changed = api.patch(
            resources.LOCAL_QUEUES,
            "a",
            patches.merge(document),
            namespace,
            subresource=subresource,
            into=LocalQueue,
        )
        return changed.metadata.generation

    assert after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert after({"spec": {"stopPolicy": "Hold"}}) == 2
    assert after({"status": {"pendingWorkloads": 3}}, "status") == 2


def test_a_deletion_checks_its_preconditions(api: Api, namespace: str):
    made = api.create(resources.LIMIT_RANGES, objects.limit_range(), namespace)
    with pytest.raises(errors.ConflictError, match=r"the UID in the precondition \(other\)"):
        api.delete(resources.LIMIT_RANGES, "a", namespace, uid="other")
    with pytest.raises(
        errors.ConflictError, match=r"the ResourceVersion in the precondition \(1\)"
    ):
        api.delete(resources.LIMIT_RANGES, "a", namespace, resource_version="1")
    metadata = made["metadata"]
    api.delete(
        resources.LIMIT_RANGES,
        "a",
        namespace,
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
    )
    with pytest.raises(errors.NotFoundError):
        api.get(resources.LIMIT_RANGES, "a", namespace)


def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api, namespace: str):
    document = objects.workload(finalizers=["example.com/a", "example.com/b"])
    made = api.create(resources.WORKLOADS, document, namespace)
    api.delete(resources.WORKLOADS, "a", namespace)
    held = api.get(resources.WORKLOADS, "a", namespace)
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["generation"] == made["metadata"]["generation"] + 1

    api.delete(resources.WORKLOADS, "a", namespace)
    assert api.get(resources.WORKLOADS, "a", namespace) == held

    def keep(*finalizers: str) -> None:
        change = patches.merge({"metadata": {"finalizers": list(finalizers)}})
        api.patch(resources.WORKLOADS, "a", change, namespace)

    with pytest.raises(errors.InvalidError, match="no new finalizers can be added if the object"):
        keep("example.com/a", "example.com/new")
    keep("example.com/b")
    assert api.get(resources.WORKLOADS, "a", namespace)
    keep()
    with pytest.raises(errors.NotFoundError):
        api.get(resources.WORKLOADS, "a", namespace)


def test_a_pod_on_no_node_is_gone_at_once(api: Api, namespace: str):
    api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    api.delete(resources.PODS, "a", namespace)
    with pytest.raises(errors.NotFoundError):
        api.get(resources.PODS, "a", namespace)


@pytest.mark.parametrize("server", ["store", "served"], indirect=True)  # etcd keeps minutes
def test_old_pages_are_gone(server: Server, namespace: str):
    for name in "abc":
        server.api.create(resources.LIMIT_RANGES, objects.limit_range(name), namespace)
    page = server.api.list(resources.LIMIT_RANGES, namespace, limit=1)
    server.forget()
    with pytest.raises(errors.GoneError, match="The provided continue parameter is too old"):
        server.api.list(resources.LIMIT_RANGES, namespace, limit=1, continue_=page.continue_)
