"""An API server as a user sees it who may not do everything."""

from collections.abc import Callable
from typing import Any, Final

from admission.base import names
from admission.kube import errors, resources
from admission.kube.api import DOCUMENT, Page
from admission.kube.resources import Resource
from admission.sandbox.store import Store
from tests.builders.metadata import Document

OF_CLUSTER: Final = frozenset(
    {
        resources.CLUSTER_QUEUES, resources.COHORTS, resources.RESOURCE_FLAVORS, resources.NODES,
    }
)  # fmt: skip

Lists = Callable[[Resource, str], list[Document]]
"""Answers the visibility API; raises what it refuses with."""


def refused(what: str) -> errors.ApiError:
    return errors.make(403, f"{what} is forbidden", reason="Forbidden")


def not_served(resource: Resource, _namespace: str) -> list[Document]:
    raise errors.make(404, f"{resource.plural} is not served", reason="NotFound")


class OfTeam:
    """A store as the role of a team's user shows it: one namespace, and nothing of the cluster.

    Source: admission/admin/templates/rbac-people.yaml (batch-user).
    """

    def __init__(self, store: Store, namespace: str, lists: Lists = not_served) -> None:
        self._store = store
        self._namespace = namespace
        self._lists = lists

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: Any = DOCUMENT
    ) -> Any:
        self._check(resource, namespace)
        return self._store.get(resource, name, namespace, into=into)

    def list(self, resource: Resource, namespace: str = "", **more: Any) -> Page[Any]:
        self._check(resource, namespace)
        if resource.group == names.VISIBILITY_GROUP:
            found = self._lists(resource, namespace)
            return Page(items=tuple(found), resource_version="1")
        return self._store.list(resource, namespace, **more)

    def _check(self, resource: Resource, namespace: str) -> None:
        is_of_cluster = resource in OF_CLUSTER or not resource.namespaced
        if is_of_cluster or namespace != self._namespace:
            raise refused(resource.plural)
