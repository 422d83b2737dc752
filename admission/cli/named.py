"""Names that a shell completes: those of the objects that the user may list.

A shell waits for the answer while somebody types. So it takes two seconds at most, asks for one
page of each kind, and says nothing where it fails.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final

import click
from click.shell_completion import CompletionItem

from admission.cli import targets
from admission.gpu import topology_labels
from admission.kube import kubeconfig, resources
from admission.kube.api import Api
from admission.kube.resources import Resource
from admission.objects import views

WAIT_SECONDS: Final = 2.0
MOST: Final = 500
"""Objects of a kind that are asked for."""

_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_BY_KIND: Final[Mapping[str, Resource]] = {
    "clusterqueue": resources.CLUSTER_QUEUES,
    "deployment": resources.DEPLOYMENTS,
    "job": resources.JOBS,
    "localqueue": resources.LOCAL_QUEUES,
    "pod": resources.PODS,
    "workload": resources.WORKLOADS,
}
"""Kinds that are completed after ``KIND/``."""
_RELEASED: Final[Mapping[str, Resource]] = {
    "deployment": resources.DEPLOYMENTS,
    "job": resources.JOBS,
    "namespace": resources.NAMESPACES,
    "pod": resources.PODS,
}
"""Kinds that ``break-glass release`` completes; it takes others, too."""


def namespaces(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return namespaces."""
    return _found(context, typed, lambda api, _: _names(api, resources.NAMESPACES))


def contexts(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return contexts of the kubeconfig; no server is asked."""
    context_names = kubeconfig.contexts(context.params.get("kubeconfig"))
    return [CompletionItem(name) for name in context_names if name.startswith(typed)]


def queues(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return ClusterQueues and Cohorts."""
    return _found(context, typed, _cluster_wide(resources.CLUSTER_QUEUES, resources.COHORTS))


def levels(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return labels of nodes that say how close these are to each other."""

    def every(api: Api, _: str) -> Iterator[str]:
        page = api.list(resources.NODES, limit=MOST, into=views.Node)
        of_nodes = {label for node in page.items for label in node.metadata.labels or {}}
        yield from (label for label in topology_labels.LEVELS if label in of_nodes)

    return _found(context, typed, every)


def waiting(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return ClusterQueues and LocalQueues, those of the own namespace by their name alone."""

    def every(api: Api, namespace: str) -> Iterator[str]:
        yield from _cluster_wide(resources.CLUSTER_QUEUES)(api, namespace)
        yield from _local_queues(api, namespace)

    return _found(context, typed, every)


def holders(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return queues, Cohorts and nodes."""

    def every(api: Api, namespace: str) -> Iterator[str]:
        kinds = (resources.CLUSTER_QUEUES, resources.COHORTS, resources.NODES)
        yield from _cluster_wide(*kinds)(api, namespace)
        yield from _local_queues(api, namespace)

    return _found(context, typed, every)


def subjects(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return pods of the namespace and ``KIND/``; after that, the objects of the kind.

    After another word, which may be a namespace, the pods of that.
    """
    kind, slash, _rest = typed.partition("/")

    def every(api: Api, namespace: str) -> Iterator[str]:
        if slash:
            resource = _BY_KIND.get(kind)
            found_names = (
                _names(api, resources.PODS, kind)
                if resource is None
                else _names(api, resource, namespace)
            )
            yield from (f"{kind}/{name}" for name in found_names)
            return
        yield from _names(api, resources.PODS, namespace)

    names_found = _found(context, typed, every)
    kinds = (
        ()
        if slash
        else (f"{known_kind}/" for known_kind in _BY_KIND if known_kind.startswith(typed))
    )
    return [*names_found, *map(CompletionItem, kinds)]


def released_kinds(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return kinds of what can be let run outside of quota; no server is asked."""
    del context
    return [CompletionItem(kind) for kind in sorted(_RELEASED) if kind.startswith(typed)]


def released(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return objects of the kind that was typed before."""
    resource = _RELEASED.get(str(context.params.get("kind") or "").lower())
    if resource is None:
        return []
    return _found(
        context,
        typed,
        lambda api, namespace: _names(api, resource, namespace if resource.namespaced else ""),
    )


def _cluster_wide(*kinds: Resource) -> Callable[[Api, str], Iterator[str]]:
    def every(api: Api, _: str) -> Iterator[str]:
        for resource in kinds:
            yield from _names(api, resource)

    return every


def _local_queues(api: Api, namespace: str) -> Iterator[str]:
    """Return LocalQueues of all namespaces; those of the own one where only they may be listed."""
    try:
        page = api.list(resources.LOCAL_QUEUES, limit=MOST)
    except Exception:  # noqa: BLE001 - who may not list all of them may list their own
        yield from _names(api, resources.LOCAL_QUEUES, namespace)
        return
    for queue in page.items:
        metadata = queue["metadata"]
        is_own = metadata["namespace"] == namespace
        yield metadata["name"] if is_own else f"{metadata['namespace']}/{metadata['name']}"


def _names(api: Api, resource: Resource, namespace: str = "") -> Iterator[str]:
    """Return the names of a page of a kind; none where it may not be listed."""
    with contextlib.suppress(Exception):
        for document in api.list(resource, namespace, limit=MOST).items:
            yield document["metadata"]["name"]


def _found(
    context: click.Context, typed: str, names: Callable[[Api, str], Iterator[str]]
) -> list[CompletionItem]:
    """Return the names that begin with what was typed, as far as they came in time."""
    names_found: set[str] = set()
    options = context.params
    target = targets.chosen(options.get("kubeconfig"), options.get("context"))

    def ask() -> None:
        # A shell has no place for an error: it would stand in the line that is typed.
        with contextlib.suppress(Exception):
            namespace = options.get("namespace") or target.namespace()
            api = target.connect(connections=1, timeout_seconds=WAIT_SECONDS)
            with closing(api):
                names_found.update(
                    name for name in names(api, namespace) if name.startswith(typed)
                )

    asking = threading.Thread(target=ask, name="completion", daemon=True)
    asking.start()
    asking.join(WAIT_SECONDS)
    return [CompletionItem(name) for name in sorted(names_found.copy())]
