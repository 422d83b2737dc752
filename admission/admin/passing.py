"""What passes without quota, or would: what an administrator lets run, and what nobody held."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.admin import outside_quota
from admission.base import names, structs
from admission.base.errors import InvalidValueError
from admission.base.namespaces import ManagedNamespaces
from admission.kube import resources
from admission.kube.api import Api
from admission.objects import broken_glass, pods, resource_claim, views
from admission.objects.broken_glass import BrokenTime
from admission.objects.workload import Workload
from admission.owners import pod as pod_owner
from admission.owners.framework import Integration
from admission.owners.integrations import Kinds
from admission.owners.workload import PriorityClasses

_ANY_PRIORITY: Final = PriorityClasses(workload={}, pod={}, kept={})
"""What stands for the priority of owners of which only the requests are read."""
_AS_WORKLOAD: Final = structs.converter(Workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """A pod or owner that passes without quota.

    Attributes:
        kind: of it.
        namespace: of it.
        name: of it.
        gpus: what it requests, by resource; of an owner what all of its pods do. None where that
            is not known, as with a ResourceClaim.
        node: the node of a pod; empty while it has none, and for an owner.
        is_charged: whether a controller charges it to a queue.
    """

    kind: str
    namespace: str
    name: str
    gpus: Mapping[str, int] | None
    node: str = ""
    is_charged: bool = True

    @property
    def label(self) -> str:
        """Namespace and name, with the kind of an owner between them."""
        kind = "" if self.kind == resources.PODS.kind else f"{self.kind.lower()}/"
        return f"{self.namespace}/{kind}{self.name}"


def sums(passing: Iterable[Passing]) -> tuple[dict[str, int], bool]:
    """Return what all of them request, by resource, and whether that is known of each."""
    amounts: dict[str, int] = {}
    is_whole = True
    for each in passing:
        is_whole = is_whole and each.gpus is not None
        for resource, amount in (each.gpus or {}).items():
            amounts[resource] = amounts.get(resource, 0) + amount
    return amounts, is_whole


def would_run(api: Api, kinds: Kinds) -> Iterator[Passing]:
    """Yield what waits for quota, and would be let run: owners, then pods.

    Raises:
        KubeError: the API server refused.
    """
    for integration, _, document in outside_quota.queued_owners(api, kinds):
        if outside_quota.is_startable(integration, document):
            yield _of_owner(integration, document)
    for pod in outside_quota.gated_pods(api):
        yield _of_pod(pod)


def let_run_pods(listed_pods: Iterable[views.Pod]) -> Iterator[Passing]:
    """Yield the pods that an administrator let run and that have not ended."""
    for pod in listed_pods:
        if pod.metadata.annotation(names.OUTSIDE_QUOTA) and not pods.has_ended(pod):
            yield _of_pod(pod)


def let_run_owners(api: Api, kinds: Kinds) -> Iterator[Passing]:
    """Yield the owners that an administrator let run, and that were not stopped since.

    Raises:
        KubeError: the API server refused.
    """
    for integration, _, document in outside_quota.queued_owners(api, kinds):
        if not document.metadata.annotation(names.OUTSIDE_QUOTA):
            continue
        owner = integration.owner(integration.view(document))
        if owner.finished() is None and not owner.is_held():
            yield _of_owner(integration, document)


def created_within(
    listed_pods: Iterable[views.Pod], times: Sequence[BrokenTime], namespaces: ManagedNamespaces
) -> Iterator[Passing]:
    """Yield the pods with GPUs that were created without anybody holding them, and have not ended.

    Args:
        listed_pods: all of them.
        times: in one of which they were created.
        namespaces: which are managed.
    """
    for pod in listed_pods:
        if not pod_owner.has_passed(pod, namespaces):
            continue
        if broken_glass.time_of(pod.metadata.creation_timestamp or "", times) is None:
            continue
        passing = _of_pod(pod, is_charged=False)
        if passing.gpus is None or passing.gpus:
            yield passing


def _of_pod(pod: views.Pod, *, is_charged: bool = True) -> Passing:
    metadata = pod.metadata
    return Passing(
        kind=resources.PODS.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        gpus=_gpus([(pod.spec, 1)]),
        node=pod.spec.node_name,
        is_charged=is_charged and bool(metadata.label(names.QUEUE_LABEL)),
    )


def _of_owner(integration: Integration[Any, Any], document: Any) -> Passing:
    view = integration.view(document)
    built = _AS_WORKLOAD(integration.build(view, document, _ANY_PRIORITY, ()))
    return Passing(
        kind=integration.kind.name,
        namespace=document.metadata.namespace,
        name=document.metadata.name,
        gpus=_gpus(
            (pod_set.template.spec, pod_set.count) for pod_set in built.spec.pod_sets or ()
        ),
    )


def _gpus(specs: Iterable[tuple[views.PodSpec, int]]) -> dict[str, int] | None:
    """Return what so many pods of each spec request; None where that is not known."""
    amounts: dict[str, int] = {}
    for spec, count in specs:
        if resource_claim.concerned(spec):
            return None
        try:
            for resource, amount in pods.gpus_of(spec).items():
                amounts[resource] = amounts.get(resource, 0) + count * amount
        except InvalidValueError:
            return None
    return amounts
