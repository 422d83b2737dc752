"""What may change in a pod."""

import re
from functools import partial

import pytest

from admission.base import patches
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import views
from tests.builders.pods import make_pod
from tests.contract import objects
from tests.controlplane import programs, waiting

EXTRA = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def change(api: Api, namespace: str, *operations: objects.Document) -> views.Pod:
    patch = patches.json_patch(operations)
    return api.patch(resources.PODS, "a", patch, namespace, into=views.Pod)


def add(path: str, value: object) -> objects.Document:
    return {"op": "add", "path": path, "value": value}


UNGATE = {"op": "remove", "path": "/spec/schedulingGates"}


def test_a_gated_pod_is_released_with_selector_and_tolerations_in_one_patch(
    api: Api, namespace: str
):
    api.create(
        resources.PODS, make_pod("a", gates=[objects.GATE], nodeSelector={"a": "1"}), namespace
    )
    pod = change(
        api,
        namespace,
        UNGATE,
        add("/spec/nodeSelector/b", "2"),
        add("/spec/tolerations/-", EXTRA),
    )
    assert pod.spec.scheduling_gates is None
    assert pod.spec.node_selector == {"a": "1", "b": "2"}
    assert pod.spec.tolerations is not None
    assert pod.spec.tolerations[-1].key == "nvidia.com/gpu"
    assert pod.metadata.generation == 2


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        (
            [add("/spec/schedulingGates/-", {"name": "other/gate"})],
            (
                "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new "
                "scheduling gate 'other/gate'"
            ),
        ),
        (
            [add("/spec/nodeSelector/a", "2")],
            (
                'spec.nodeSelector: Invalid value: {"a":"2"}: only additions to '
                "spec.nodeSelector are allowed (no mutations or deletions)"
            ),
        ),
        (
            [{"op": "remove", "path": "/spec/nodeSelector"}],
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        ),
        (
            [{"op": "remove", "path": "/spec/tolerations/0"}],
            (
                "spec.tolerations: Forbidden: existing toleration can not be modified except its "
                "tolerationSeconds"
            ),
        ),
        (
            [add("/spec/containers/0/resources", {"limits": {"nvidia.com/gpu": "1"}})],
            (
                "spec: Forbidden: pod updates may not change fields other than "
                "`spec.containers[*].image`"
            ),
        ),
        (
            [add("/spec/containers/-", {"name": "d", "image": "i"})],
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            [add("/spec/priority", 5)],
            "spec: Forbidden: pod updates may not change fields other than",
        ),
        (
            [add("/spec/schedulerName", "mine")],
            "spec: Forbidden: pod updates may not change fields other than",
        ),
    ],
)
def test_a_gated_pod_may_not_change_otherwise(
    api: Api, namespace: str, operations: list[objects.Document], message: str
):
    document = make_pod("a", gates=[objects.GATE], nodeSelector={"a": "1"}, tolerations=[EXTRA])
    api.create(resources.PODS, document, namespace)
    with pytest.raises(errors.InvalidError) as refused:
        change(api, namespace, *operations)
    text = str(refused.value)
    if programs.minor() < (1, 34):  # values are shown as Go does
        text = text.replace("map[string]string{", "{")
    assert message in text


def test_a_released_pod_takes_no_selector_but_tolerations(api: Api, namespace: str):
    api.create(resources.PODS, make_pod("a", gates=[objects.GATE]), namespace)
    change(api, namespace, UNGATE)
    with pytest.raises(errors.InvalidError, match="pod updates may not change fields other than"):
        change(api, namespace, add("/spec/nodeSelector", {"a": "1"}))
    with pytest.raises(errors.InvalidError, match="only deletion is allowed"):
        change(api, namespace, add("/spec/schedulingGates", [{"name": objects.GATE}]))
    pod = change(api, namespace, add("/spec/tolerations/-", EXTRA))
    assert pod.spec.tolerations is not None
    assert pod.spec.tolerations[-1].effect == "NoSchedule"


def test_an_image_may_change(api: Api, namespace: str):
    api.create(resources.PODS, make_pod("a"), namespace)
    pod = change(api, namespace, add("/spec/containers/0/image", "other:1"))
    assert pod.metadata.generation == 2


def test_a_gate_on_a_node_is_refused(api: Api, namespace: str):
    with pytest.raises(errors.InvalidError, match="schedulingGates have been cleared"):
        api.create(resources.PODS, make_pod("a", gates=[objects.GATE], nodeName="n"), namespace)


def is_usable(api: Api, namespace: str, priority_class: str) -> bool:
    """Whether a pod may name a class; a real server learns of a new one a moment later."""
    pod = make_pod("try", priorityClassName=priority_class)
    try:
        api.create(resources.PODS, pod, namespace)
    except errors.ForbiddenError:
        return False
    return True


def test_a_pod_gets_the_priority_of_its_class(api: Api, namespace: str):
    name = f"high-{namespace}"
    api.create(resources.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 700})
    waiting.until(partial(is_usable, api, namespace, name), what=f"PriorityClass {name} known")
    pod = api.create(
        resources.PODS, make_pod("a", priorityClassName=name), namespace, into=views.Pod
    )
    assert (pod.spec.priority, pod.spec.priority_class_name) == (700, name)
    system = make_pod("b", priorityClassName="system-cluster-critical")
    made = api.create(resources.PODS, system, namespace, into=views.Pod)
    assert made.spec.priority == 2_000_000_000


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "nix"}, "no PriorityClass with name nix was found"),
        (
            {"priorityClassName": "system-cluster-critical", "priority": 5},
            "the integer value of priority (5) must not be provided in pod spec",
        ),
    ],
)
def test_a_priority_is_not_free_to_choose(
    api: Api, namespace: str, spec: objects.Document, message: str
):
    with pytest.raises(errors.ForbiddenError, match=re.escape(message)):
        api.create(resources.PODS, make_pod("a", **spec), namespace)
