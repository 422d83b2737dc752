"""One test's share of a whole cluster: a namespace, and nodes that only its pods select."""

import itertools
import secrets
from typing import Any, Unpack

from tests.controlplane import nodes, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError

POOL_LABEL = "controlplane.test/pool"
REMOVED = ("write refused",)
"""Errors of the product about a namespace that was taken away with what ran in it."""


class Pool:
    """Nodes with a label of their own, and a namespace.

    Attributes:
        cluster: where they are.
        name: value of the nodes' label.
        namespace: name of the namespace.
        selector: node selector that only these nodes satisfy.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"pool-{secrets.token_hex(3)}"
        self.namespace = cluster.create_namespace("e2e")
        self.selector = {POOL_LABEL: self.name}
        self._nodes: list[str] = []
        self._numbers = itertools.count()

    def add_node(self, **facts: Unpack[nodes.Facts]) -> str:
        """Adds a GPU node to the pool, waits until it is Ready, and gives its name."""
        name = f"{self.name}-{next(self._numbers)}"
        labels = {**facts.get("labels", {}), **self.selector}
        self._nodes.append(name)
        facts["labels"] = labels
        self.cluster.add_gpu_node(name, **facts)
        return name

    def remove_node(self, name: str) -> None:
        """Takes a node away; its pods are deleted by the cluster."""
        self._nodes.remove(name)
        self.cluster.api.delete(f"/api/v1/nodes/{name}")

    def path(self, plural: str, name: str = "", *, api: str = "api/v1") -> str:
        """Path of an object, or of all, in the namespace."""
        return f"/{api}/namespaces/{self.namespace}/{plural}/{name}".rstrip("/")

    def create(self, plural: str, body: Json, *, api: str = "api/v1") -> Json:
        """Creates an object in the namespace."""
        return self.cluster.api.post(self.path(plural, api=api), body)

    def pod(self, name: str) -> Json:
        """A pod of the namespace."""
        return self.cluster.api.get(self.path("pods", name))

    def pods(self, phase: str = "") -> list[Json]:
        """The pods of the namespace, or those in one phase."""
        found: list[Json] = self.cluster.api.get(self.path("pods"))["items"]
        return [pod for pod in found if phase in {"", pod["status"].get("phase")}]

    def remove(self) -> None:
        """Takes the nodes and the namespace away.

        Does not wait for the end of the namespace: the controller that empties it lets five
        seconds pass first.
        """
        path = f"/api/v1/namespaces/{self.namespace}"
        if self.cluster.api.answers(path):
            self.cluster.api.delete(path)
        for node in self._nodes:
            self.cluster.api.delete(f"/api/v1/nodes/{node}")

    def delete_namespace(self) -> None:
        """Deletes the namespace and returns when nothing is left of it.

        Raises:
            TimeoutError: something holds it up; names its conditions.
        """
        path = f"/api/v1/namespaces/{self.namespace}"
        self.cluster.api.delete(path)
        try:
            waiting.until(lambda: not self.cluster.api.answers(path))
        except TimeoutError as late:
            late.add_note(f"{self._state(path)}")
            raise

    def _state(self, path: str) -> Any:
        try:
            return self.cluster.api.get(path)["status"]
        except RestError as refusal:
            return refusal


def condition(thing: Json, type_: str) -> Json:
    """A condition of an object, or an empty one."""
    conditions: list[Json] = thing.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == type_), {})
