"""GPU operators of a cluster: their own pods see every GPU rightly, so they are left alone.

A namespace counts as an operator's where a ClusterPolicy of the NVIDIA GPU operator says so, or
where a DaemonSet about GPUs mounts a directory in which device plugins and DRA drivers register
with the kubelet. Whoever may create such a DaemonSet in a tenant's namespace could have it
excluded, so namespaces with a LocalQueue never are.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from admission.kube import errors, resources
from admission.kube.api import Api, Document, every_served
from admission.kube.resources import Resource

CLUSTER_POLICIES: Final = Resource(
    "nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False
)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
_REGISTRIES: Final = ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry")
_OF_GPUS: Final = re.compile(
    r"gpu|nvidia|rocm|hami|koordlet|volcano-device-plugin|habana|ascend", re.IGNORECASE
)
"""Words in the name or the images of a GPU operator's DaemonSet."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A namespace in which a GPU operator runs.

    Attributes:
        namespace: its name.
        sign: what shows that.
        has_queue: whether it has a LocalQueue, so it is a tenant's.
    """

    namespace: str
    sign: str
    has_queue: bool


def find(api: Api) -> list[Operator]:
    """Return the namespaces of GPU operators, sorted by name.

    Raises:
        KubeError: the API server refused.
    """
    signs = signs_of(every_served(api, CLUSTER_POLICIES), every_served(api, DAEMON_SETS))
    return [
        Operator(namespace, signs[namespace], _has_queue(api, namespace))
        for namespace in sorted(signs)
    ]


def signs_of(policies: Iterable[Document], daemon_sets: Iterable[Document]) -> dict[str, str]:
    """Return the object that shows that a GPU operator runs in a namespace, by namespace."""
    signs: dict[str, str] = {}
    for namespace, sign in (*_of_policies(policies), *_of_daemon_sets(daemon_sets)):
        signs.setdefault(namespace, sign)
    return signs


def _of_policies(policies: Iterable[Document]) -> Iterator[tuple[str, str]]:
    for policy in policies:
        namespace = (policy.get("status") or {}).get("namespace")
        if namespace:
            yield namespace, f"ClusterPolicy {policy['metadata']['name']}"


def _of_daemon_sets(daemon_sets: Iterable[Document]) -> Iterator[tuple[str, str]]:
    for daemon_set in daemon_sets:
        name, pod = daemon_set["metadata"]["name"], daemon_set["spec"]["template"]["spec"]
        containers = [*(pod.get("initContainers") or ()), *pod["containers"]]
        words = " ".join([name, *(container.get("image", "") for container in containers)])
        if _OF_GPUS.search(words) and any(map(_is_registry, pod.get("volumes") or ())):
            yield daemon_set["metadata"]["namespace"], f"DaemonSet {name}"


def _is_registry(volume: dict[str, Any]) -> bool:
    path = (volume.get("hostPath") or {}).get("path", "")
    return path.rstrip("/") in _REGISTRIES


def _has_queue(api: Api, namespace: str) -> bool:
    try:
        page = api.list(resources.LOCAL_QUEUES, namespace, limit=1)
    except errors.NotFoundError:
        return False
    return bool(page.items)
