"""What we count for a pod is what the API server's own quota counts for it, whatever its shape.

The ResourceQuota plugin uses the function with which the scheduler reserves. Pods are generated
with sidecars, init containers, pod-level resources, overhead and LimitRanges; each is created
for real, and the growth of the quota's ``used`` is compared with ``base.pod_resources``.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.base import pod_resources, quantity
from admission.objects import limit_range, pods, views
from tests.controlplane import features, programs, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import RestError

pytestmark = pytest.mark.controlplane

PODS = 150
OVERHEAD = {"cpu": "250m", "memory": "64Mi"}
COUNTED = ("cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu")
HARD = {f"requests.{name}": "1M" for name in COUNTED if not name.startswith("hugepages")} | {
    "requests.memory": "100Ti",
    "requests.hugepages-2Mi": "100Ti",
}
AMOUNTS = {
    "cpu": ("100m", "1", "2"),
    "memory": ("64Mi", "128Mi", "1Gi"),
    "hugepages-2Mi": ("2Mi", "4Mi"),
}
DEFAULTS = {
    "type": "Container",
    "default": {"memory": "256Mi"},
    "defaultRequest": {"cpu": "300m", "memory": "96Mi", "ephemeral-storage": "1Gi"},
}


def amounts(draw: random.Random, names: tuple[str, ...]) -> dict[str, str]:
    return {name: draw.choice(AMOUNTS[name]) for name in names if draw.random() < 0.5}


def resources(draw: random.Random, *, level: bool = False) -> dict[str, Any]:
    """Requests not above limits; huge pages and GPUs equal in both."""
    limits = amounts(draw, ("cpu", "memory"))
    requests = {
        name: draw.choice([v for v in AMOUNTS[name] if nano(v) <= nano(limits.get(name, "1Ti"))])
        for name in ("cpu", "memory")
        if draw.random() < 0.5
    }
    if draw.random() < 0.2:
        limits["hugepages-2Mi"] = requests["hugepages-2Mi"] = "2Mi" if not level else "64Mi"
    if not level and draw.random() < 0.3:
        limits["nvidia.com/gpu"] = requests["nvidia.com/gpu"] = str(draw.randint(1, 3))
    return {"limits": limits, "requests": requests}


def nano(text: str) -> int:
    return quantity.parse_nano(text)


def pod(draw: random.Random, index: int, *, limited: bool) -> dict[str, Any]:
    """A pod; without a LimitRange the quota demands cpu and memory of every container."""

    def container(name: str, **fields: Any) -> dict[str, Any]:
        found = resources(draw)
        for demanded in () if limited else ("cpu", "memory"):
            if demanded not in found["limits"]:
                found["requests"].setdefault(demanded, AMOUNTS[demanded][0])
        return {"name": name, "image": "x", "resources": found, **fields}

    spec: dict[str, Any] = {
        "initContainers": [
            container(f"i{n}", **({"restartPolicy": "Always"} if draw.random() < 0.5 else {}))
            for n in range(draw.randint(0, 3))
        ],
        "containers": [container(f"c{n}") for n in range(draw.randint(1, 3))],
    }
    has_resources = draw.random() < 0.5
    if has_resources and features.READS_POD_RESOURCES:
        spec["resources"] = resources(draw, level=True)
    if draw.random() < 0.3:
        spec["runtimeClassName"] = "heavy"
    return {"metadata": {"name": f"p{index}"}, "spec": spec}


def expected(document: dict[str, Any], ranges: list[views.LimitRange]) -> dict[str, int]:
    """What ``base.pod_resources`` says of the pod as it was written."""
    spec = msgspec.convert(document["spec"], views.PodSpec)
    overhead = OVERHEAD if spec.runtime_class_name else None
    read = pods.read(msgspec.structs.replace(spec, overhead=overhead), "spec", pods.nanos)
    limits = limit_range.summarize(ranges)
    if programs.minor() < (1, 37):
        stored = limit_range.with_defaults(read, limits)
    else:  # LimitRanges come before the defaults of the pod as a whole
        containers = limit_range.with_defaults(replace(read, pod_level=None), limits)
        stored = pod_resources.with_default_requests(replace(containers, pod_level=read.pod_level))
    found = pod_resources.requests(stored)
    return {name: found.get(name, 0) for name in COUNTED}


def used(cluster: Cluster, namespace: str) -> dict[str, int]:
    found = cluster.api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/all")
    status: Mapping[str, str] = found.get("status", {}).get("used", {})
    return {name: nano(status.get(f"requests.{name}", "0")) for name in COUNTED}


def is_used_up(cluster: Cluster, core: str) -> bool:
    """Whether the quota refuses a pod that asks for more than there is."""
    resources = {"limits": {"cpu": "2M", "memory": "1"}}
    spec = {"containers": [{"name": "c", "image": "x", "resources": resources}]}
    try:
        cluster.api.post(f"{core}/pods?dryRun=All", {"metadata": {"name": "huge"}, "spec": spec})
    except RestError as error:
        return "exceeded quota" in str(error.body)
    return False


@pytest.mark.parametrize("limited", [False, True], ids=["plain", "with a LimitRange"])
def test_a_pod_is_charged_as_the_api_server_charges_it(cluster: Cluster, limited: bool) -> None:
    draw = random.Random(int(limited))
    namespace = cluster.create_namespace("charged")
    runtime = {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"},
        "handler": "heavy", "overhead": {"podFixed": OVERHEAD},
    }  # fmt: skip
    try:
        cluster.api.post("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    except RestError as error:
        if error.status != 409:
            raise
    ranges: list[views.LimitRange] = []
    core = f"/api/v1/namespaces/{namespace}"
    if limited:
        body = {"metadata": {"name": "defaults"}, "spec": {"limits": [DEFAULTS]}}
        ranges = [msgspec.convert(cluster.api.post(f"{core}/limitranges", body), views.LimitRange)]
    quota = f"{core}/resourcequotas"
    cluster.api.post(quota, {"metadata": {"name": "all"}, "spec": {"hard": HARD}})
    # What the quota controller does first; without it the plugin counts nothing.
    nothing = {"hard": HARD, "used": dict.fromkeys(HARD, "0")}
    cluster.api.patch(f"{quota}/all/status", {"status": nothing})
    probe = {
        "metadata": {"name": "probe"},
        "spec": {
            "runtimeClassName": "heavy",
            "containers": [
                {"name": "c", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1"}}}
            ],
        },
    }

    def is_counted() -> bool:
        """Whether quota, LimitRange and RuntimeClass are all known to the API server's plugins."""
        try:
            stored = cluster.api.post(f"{core}/pods?dryRun=All", probe)
        except RestError:
            return False
        asked = stored["spec"]["containers"][0]["resources"]["requests"]
        return "overhead" in stored["spec"] and ("ephemeral-storage" in asked) == limited

    waiting.until(is_counted, what="plugins know the objects")
    waiting.until(lambda: is_used_up(cluster, core), what="the plugin counts")
    refused = created = 0
    before = used(cluster, namespace)
    for index in range(PODS):
        document = pod(draw, index, limited=limited)
        try:
            cluster.api.post(f"{core}/pods", document)
        except RestError as error:
            if error.status not in {403, 422}:
                raise
            refused += 1
            continue
        created += 1
        after = used(cluster, namespace)
        grown = {name: after[name] - before[name] for name in COUNTED}
        assert grown == expected(document, ranges), document
        before = after
    assert created > PODS / 3, refused
