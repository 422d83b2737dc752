"""ClusterQueues, LocalQueues, Cohorts, flavors, admission checks and priority classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from admission.base import names
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_flavor import ResourceFlavor
from tests.builders.metadata import Document, make_kueue, make_metadata

Quotas = Mapping[str, Mapping[str, Any]]
"""Nominal quota by flavor and resource; a tuple adds the borrowing and the lending limit."""


def make_flavor(
    name: str = "a100",
    *,
    product: str | None = None,
    annotations: Mapping[str, str] | None = None,
    node_labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """Return a ResourceFlavor of tainted GPU nodes; the product is its name if none is given."""
    metadata = make_metadata(name, annotations=annotations)
    if node_labels is None:
        node_labels = {names.GPU_PRODUCT_LABEL: name if product is None else product}
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    defaults = {"nodeLabels": dict(node_labels), "tolerations": [toleration]}
    return make_kueue("ResourceFlavor", metadata, spec={**defaults, **spec})


def reviewed(document: Document) -> Document:
    """Return a ClusterQueue or flavor as the webhook leaves it; others as they are."""
    if document["kind"] in {"ClusterQueue", "ResourceFlavor"}:
        document["metadata"].setdefault("finalizers", [names.RESOURCE_IN_USE])
    return document


def flavor_view(name: str, product: str = "", **marks: str) -> ResourceFlavor:
    """Return a flavor with nothing but annotations of ours, such as `mig_profile`."""
    stated = {"product": product, **marks} if product else marks
    document = make_flavor(name, annotations=own(**stated), node_labels={}, tolerations=[])
    return msgspec.convert(document, ResourceFlavor)


def own(**marks: str) -> dict[str, str]:
    """Return annotations of ours: `mig_profile` is ``gpu-admission.dev/mig-profile``."""
    return {f"{names.OWN_DOMAIN}/{key.replace('_', '-')}": text for key, text in marks.items()}


def make_quota(resource: str, amount: Any) -> Document:
    """Return the quota of a resource: the nominal one, or with limits as in `Quotas`."""
    limits = ("nominalQuota", "borrowingLimit", "lendingLimit")
    amounts = amount if isinstance(amount, tuple) else (amount,)
    return {"name": resource, **dict(zip(limits, amounts, strict=False))}


def make_group(quotas: Quotas) -> Document:
    """Return a resource group that covers what its first flavor has quota for."""
    return {
        "coveredResources": list(next(iter(quotas.values()), ())),
        "flavors": [
            {"name": flavor, "resources": [make_quota(*one) for one in amounts.items()]}
            for flavor, amounts in quotas.items()
        ],
    }


def make_cluster_queue(
    name: str = "gpus",
    *,
    quota: Any = 4,
    flavors: Sequence[str] = ("a100",),
    quotas: Quotas | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    """Return a ClusterQueue of one resource group for all namespaces.

    Args:
        name: its name.
        quota: GPUs of each flavor.
        flavors: names of the flavors.
        quotas: instead of both.
        annotations: its annotations.
        status: its status.
        **spec: more members of its spec.
    """
    given = {one: {names.GPU_RESOURCE: quota} for one in flavors} if quotas is None else quotas
    return make_kueue(
        "ClusterQueue",
        make_metadata(name, annotations=annotations),
        spec={"namespaceSelector": {}, "resourceGroups": [make_group(given)], **spec},
        **({"status": status} if status else {}),
    )


def cluster_queue_view(quotas: Quotas, name: str = "gpus", **queue: Any) -> ClusterQueue:
    """Return what the program decodes such a ClusterQueue to."""
    return msgspec.convert(make_cluster_queue(name, quotas=quotas, **queue), ClusterQueue)


def make_local_queue(
    name: str = "team-a", queue: str = "gpus", namespace: str = "ml", **spec: Any
) -> Document:
    """Return a LocalQueue of a ClusterQueue."""
    spec = {"clusterQueue": queue, **spec}
    return make_kueue("LocalQueue", make_metadata(name, namespace), spec=spec)


def local_queue_view(
    name: str = "default", queue: str = "gpus", namespace: str = "team-a", **spec: Any
) -> LocalQueue:
    """Return what the program decodes such a LocalQueue to."""
    return msgspec.convert(make_local_queue(name, queue, namespace, **spec), LocalQueue)


def make_cohort(name: str = "pool", **spec: Any) -> Document:
    """Return a Cohort."""
    return make_kueue("Cohort", make_metadata(name), spec=spec)


def make_check(name: str = "budget", controller: str = "example.com/budget") -> Document:
    """Return an AdmissionCheck."""
    return make_kueue("AdmissionCheck", make_metadata(name), spec={"controllerName": controller})


def make_class(name: str, value: int) -> Document:
    """Return a WorkloadPriorityClass."""
    return make_kueue("WorkloadPriorityClass", make_metadata(name), value=value)
