"""Pods and their containers."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from admission.base import names
from admission.objects import views
from tests.builders.metadata import Document, make_metadata, store


def make_container(
    name: str = "main",
    *,
    gpus: int | str = 0,
    resource: str = names.GPU_RESOURCE,
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **more: Any,
) -> Document:
    """Return a container.

    Args:
        name: its name.
        gpus: how many it requests and is limited to; 0 states nothing.
        resource: what GPUs are called.
        requests: more requests.
        limits: more limits.
        **more: more members.
    """
    devices = {resource: str(gpus)} if gpus else {}
    asked = {"requests": {**devices, **(requests or {})}, "limits": {**devices, **(limits or {})}}
    stated = {key: amounts for key, amounts in asked.items() if amounts}
    return {"name": name, "image": "train", **({"resources": stated} if stated else {}), **more}


def make_pod(
    name: str = "train",
    *,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    gpus: int | str = 0,
    resource: str = names.GPU_RESOURCE,
    requests: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    gates: Sequence[str] = (),
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    """Return a pod of one container, as a user creates it.

    Args:
        name: its name.
        namespace: its namespace; empty where the request says it.
        labels: its labels.
        annotations: its annotations.
        metadata: more members of its metadata.
        gpus: as in `make_container`, with `resource`, `requests` and `limits`.
        resource: likewise.
        requests: likewise.
        limits: likewise.
        container: more members of the container.
        gates: names of its scheduling gates.
        status: its status.
        **spec: more members of its spec.
    """
    main = make_container(
        gpus=gpus, resource=resource, requests=requests, limits=limits, **(container or {})
    )
    held = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    return copy.deepcopy(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **make_metadata(name, namespace, labels=labels, annotations=annotations),
                **(metadata or {}),
            },
            "spec": {"containers": [main], **held, **spec},
            "status": {"phase": "Pending", **(status or {})},
        }
    )


def pod_with(container: Mapping[str, Any], name: str = "train", **pod: Any) -> Document:
    """Return a pod whose container has these members; `pod` as in `make_pod`."""
    return make_pod(name, container=container, **pod)


def template_of(pod: Document) -> Document:
    """Return the template of pods like that one."""
    metadata = {k: v for k, v in pod["metadata"].items() if k not in {"name", "namespace"}}
    return {"metadata": metadata, "spec": pod["spec"]}


def queued_pod(
    name: str = "train",
    *,
    namespace: str = "ml",
    queue: str = "team-a",
    gpus: int = 1,
    gated: bool = True,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **pod: Any,
) -> Document:
    """Return a pod of LocalQueue `queue` as the webhook leaves it; `pod` as in `make_pod`."""
    ours = {names.QUEUE_LABEL: queue, names.MANAGED_LABEL: names.MANAGED_VALUE}
    return make_pod(
        name,
        namespace=namespace,
        labels={**ours, **(labels or {})},
        gpus=gpus,
        gates=(names.ADMISSION_GATE,) if gated else (),
        **pod,
        **(spec or {}),
    )


def pod_view(
    name: str = "train",
    *,
    uid: str = "",
    version: str = "1",
    deleting: bool = False,
    phase: str = "Pending",
    conditions: Sequence[Mapping[str, Any]] = (),
    **pod: Any,
) -> views.Pod:
    """Return what the program decodes a stored pod of `queued_pod` to."""
    document = queued_pod(name, status={"phase": phase, "conditions": conditions}, **pod)
    store(document, uid=uid, version=version, deleting=deleting)
    return msgspec.convert(document, views.Pod)


def group_pod(
    name: str,
    group: str = "gang",
    total: int = 2,
    *,
    gpus: int = 1,
    role: str = "",
    annotations: Mapping[str, str] | None = None,
    **pod: Any,
) -> Document:
    """Return a pod of a group as the webhook leaves it; `pod` as in `queued_pod`."""
    ours = {
        names.POD_GROUP_NAME: group,
        names.POD_GROUP_TOTAL_COUNT: str(total),
        names.ROLE_HASH: role or f"gpus{gpus}",
    }
    return queued_pod(name, gpus=gpus, annotations={**ours, **(annotations or {})}, **pod)
