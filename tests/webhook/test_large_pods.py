"""The work of a review grows with the pod, and not with its square."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import msgspec
import pytest

from admission.objects import reviewed_pod
from admission.owners.batch_job_review import ReviewedJob
from admission.webhook import owner_review, pod_review, requests
from admission.webhook.review_context import Context
from tests.builders.queues import cluster_queue_view, flavor_view
from tests.webhook import builders
from tests.webhook.builders import Cluster
from tests.webhook.test_limiting import make_range

SMALL: Final = 40
LARGE: Final = 8 * SMALL
MOST_GROWTH: Final = 10
"""Times the work for 8 times the size: 8 if it is linear, up to 64 if it is quadratic."""

CONTEXT: Final = Context(namespace="team-a", now_us=builders.NOW_US, user="jane")
GPU: Final = {"nvidia.com/gpu": "1"}


def container(name: str, amounts: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": amounts, "requests": amounts}, **more}


def several(size: int, amounts: dict[str, str], **more: Any) -> list[dict[str, Any]]:
    return [container(f"c{index}", amounts, **more) for index in range(size)]


def containers(size: int) -> dict[str, Any]:
    return {"spec": {"containers": several(size, GPU)}}


def init_containers(size: int) -> dict[str, Any]:
    main = [container("main", GPU)]
    return {"spec": {"initContainers": several(size, GPU), "containers": main}}


def sidecars(size: int) -> dict[str, Any]:
    """Each with a resource of its own, so that the sum has many names."""
    own = [
        container(f"s{index}", {f"example.com/r{index}": "1", **GPU}, restartPolicy="Always")
        for index in range(size)
    ]
    return {"spec": {"initContainers": own, "containers": [container("main", GPU)]}}


def own_profiles(size: int) -> dict[str, Any]:
    key = "gpu-admission.dev/mig-profile"
    return {
        "metadata": {"annotations": {f"{key}.c{index}": "1g.10gb" for index in range(size)}},
        "spec": {"containers": several(size, GPU)},
    }


def idle_profiles(size: int) -> dict[str, Any]:
    return {
        **own_profiles(size),
        "spec": {"containers": [*several(size, {"cpu": "1"}), container("main", GPU)]},
    }


def unknown_profiles(size: int) -> dict[str, Any]:
    found = own_profiles(size)
    found["spec"]["containers"] = [container(f"other{index}", GPU) for index in range(size)]
    return found


def different_slices(size: int) -> dict[str, Any]:
    own = [
        container(f"c{index}", {f"nvidia.com/mig-1g.{index + 1}gb": "1"}) for index in range(size)
    ]
    return {"spec": {"containers": own}}


def claims(size: int) -> dict[str, Any]:
    found = containers(1)
    found["spec"]["resourceClaims"] = [
        {"name": f"r{index}", "resourceClaimName": f"r{index}"} for index in range(size)
    ]
    return found


def tolerations(size: int) -> dict[str, Any]:
    found = containers(1)
    found["spec"]["tolerations"] = [
        {"key": f"k{index}", "operator": "Exists"} for index in range(size)
    ]
    return found


def gates(size: int) -> dict[str, Any]:
    found = containers(1)
    found["spec"]["schedulingGates"] = [{"name": f"example.com/g{i}"} for i in range(size)]
    return found


def labels(size: int) -> dict[str, Any]:
    many = {f"kueue.x-k8s.io/l{index}": "v" for index in range(size)}
    return {**containers(1), "metadata": {"labels": many, "annotations": many}}


def ports_env_and_volumes(size: int) -> dict[str, Any]:
    ports = [{"containerPort": index + 1} for index in range(size)]
    env = [{"name": f"E{index}", "value": "v"} for index in range(size)]
    volumes = [{"name": f"v{index}", "emptyDir": {}} for index in range(size)]
    return {
        "spec": {"containers": [container("main", GPU, ports=ports, env=env)], "volumes": volumes}
    }


def resources_of_one_container(size: int) -> dict[str, Any]:
    amounts = {**GPU, **{f"example.com/r{index}": "1" for index in range(size)}}
    return {"spec": {"containers": [container("main", amounts)]}}


SHAPES: Final[tuple[Callable[[int], dict[str, Any]], ...]] = (
    containers, init_containers, sidecars, own_profiles, idle_profiles, unknown_profiles,
    different_slices, claims, tolerations, gates, labels, ports_env_and_volumes,
    resources_of_one_container,
)  # fmt: skip


def plain() -> Cluster:
    quota = cluster_queue_view({"a100": {"nvidia.com/gpu": "100000"}})
    flavor = flavor_view("a100", "NVIDIA-A100-SXM4-80GB")
    return builders.make_cluster(
        "default", cluster_queues={"gpus": quota}, flavors={"a100": flavor}
    )


def sliced() -> Cluster:
    """Every GPU is rewritten, under limits on names, memory and slices."""
    quota = cluster_queue_view({"a100": {"nvidia.com/mig-1g.10gb": "100000"}})
    flavor = flavor_view("a100", "NVIDIA-A100-SXM4-80GB", mig_profile="1g.10gb")
    limits = make_range(
        max={"nvidia.com/gpu": "100000"},
        annotations={"max-gpu-memory": "80Gi"},
    )
    return builders.make_cluster(
        "default", cluster_queues={"gpus": quota}, flavors={"a100": flavor}, limits=(limits,)
    )


def unserved() -> Cluster:
    """No flavor offers what is asked."""
    quota = cluster_queue_view({"cpus": {"cpu": "100000"}})
    flavor = flavor_view("cpus")
    return builders.make_cluster(
        "default", cluster_queues={"gpus": quota}, flavors={"cpus": flavor}
    )


def steps(work: Callable[[], object]) -> int:
    """How many instructions of Python the work takes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def reviews(document: dict[str, Any], cluster: Cluster) -> Callable[[], object]:
    """Both reviews of a creation."""
    pod = reviewed_pod.from_dict(document)

    def work() -> None:
        pod_review.mutate(pod, CONTEXT, builders.RULES, cluster)
        pod_review.validate(None, pod, CONTEXT, builders.RULES, cluster)

    return work


@pytest.mark.parametrize("cluster", [plain, sliced, unserved], ids=lambda one: one.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_work_of_a_review_is_linear_in_the_pod(
    shape: Callable[[int], dict[str, Any]], cluster: Callable[[], Cluster]
):
    small, large = (reviews(shape(size), cluster()) for size in (SMALL, LARGE))
    small()  # what is learnt once is no part of the work
    assert steps(large) < MOST_GROWTH * steps(small)


@pytest.mark.parametrize("member", ["containers", "initContainers"])
def test_more_containers_than_the_most_are_refused(member: str):
    pod = containers(1)
    pod["spec"][member] = several(requests.MAX_CONTAINERS + 1, GPU)
    outcome = pod_review.mutate(reviewed_pod.from_dict(pod), CONTEXT, builders.RULES, plain())
    text = f"spec.{member}: Too many: 4097: must have at most 4096 items"
    assert [error.text() for error in outcome.errors] == [text]
    template = {"spec": {"template": pod}}
    job = msgspec.convert(template, ReviewedJob)
    outcome = owner_review.mutate(job, CONTEXT, builders.RULES, plain())
    assert [error.text() for error in outcome.errors] == [
        text.replace("spec", "spec.template.spec")
    ]
