"""A healthy cluster as the doctor reads it, to be broken by tests."""

import base64
import copy
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from admission.admin import manifests
from admission.admin.doctor import picture as pictures
from admission.admin.doctor.picture import Overload, Picture, TimedPod, Trial
from admission.base import clock as clocks
from admission.base import names
from admission.config.derived import Settings
from admission.installed import serving_certificate
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import views
from admission.objects.workload import Workload
from certs import rotation
from tests.builders.metadata import Document
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.controlplane.nodes import make_gpu_node

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRODUCT = "NVIDIA-A100-SXM4-80GB"
SYSTEM = names.SYSTEM_NAMESPACE
SETTINGS = Settings()


def at(seconds: float) -> str:
    """A time of the API server, so many seconds before now."""
    return clocks.to_wire(NOW - timedelta(seconds=seconds))


@cache
def issued(days_ago: float = 0) -> dict[str, bytes]:
    """Certificates of an installation that was made some days ago and never renewed."""
    moment = NOW - timedelta(days=days_ago)
    hosts = serving_certificate.service_hosts(SETTINGS)
    return rotation.write(rotation.renew(rotation.Holding(), hosts, moment, rotation.Lifetimes()))


@cache
def _base() -> tuple[Document, ...]:
    files = manifests.base(SETTINGS, manifests.DEFAULT_IMAGE)
    return tuple(one for documents in files.values() for one in documents)


class Broken:
    """A cluster with an installation inside, one team, two nodes; tests change its parts.

    Attributes:
        objects: documents by kind.
        pods: documents of pods in all namespaces.
        nodes: documents.
        workloads: documents.
        more: other attributes of the picture.
    """

    def __init__(self) -> None:
        self.objects: dict[Resource, list[Document]] = {}
        for document in copy.deepcopy(_base()):
            resource = resources.of_kind(document["apiVersion"], document["kind"])
            assert resource is not None, document["kind"]
            self.objects.setdefault(resource, []).append(document)
        content = issued()
        self.trust(content["ca.crt"])
        for one in self.objects[resources.CRDS]:
            one["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        for one in self.objects[resources.DEPLOYMENTS]:
            one["status"] = {"readyReplicas": one["spec"].get("replicas", 1)}
        self.objects[pictures.OWN_CONFIG] = self.objects.pop(resources.CONFIG_MAPS)
        self.add(
            resources.LEASES, names.LEASE_NAME, SYSTEM,
            spec={
                "holderIdentity": "a", "leaseDurationSeconds": 15,
                "renewTime": clocks.to_wire_micro(NOW - timedelta(seconds=3)),
            },
        )  # fmt: skip
        self.pods: list[Document] = []
        self.workloads: list[Document] = []
        self.nodes = [self.make_node("gpu-0"), self.make_node("gpu-1")]
        for name in ("kube-system", SYSTEM, "team"):
            self.add(resources.NAMESPACES, name)
        self.objects[resources.RESOURCE_FLAVORS] = [make_flavor("a100", product=PRODUCT)]
        queue = make_cluster_queue("research", quota=16)
        queue["status"] = {
            "conditions": [
                {"type": "Active", "status": "True", "reason": "Ready", "message": "Can admit"}
            ]
        }
        self.objects[resources.CLUSTER_QUEUES] = [queue]
        local = make_local_queue("default", "research", "team")
        local["metadata"]["creationTimestamp"] = at(86400)
        self.objects[resources.LOCAL_QUEUES] = [local]
        gated = {"spec": {"schedulingGates": [{"name": names.ADMISSION_GATE}]}}
        self.more: dict[str, Any] = {
            "here": NOW,
            "settings": SETTINGS,
            "settings_known": True,
            "secret": {name: content[name] for name in ("ca.crt", "tls.crt")},
            "trial": Trial(namespace="team", pod=gated),
            "overload": Overload(refused={"workload-low": 0}),
        }

    def make_node(self, name: str, **facts: Any) -> Document:
        """A node that is Ready and renews its Lease."""
        node = make_gpu_node(name, **facts)
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        self.objects.setdefault(pictures.NODE_LEASES, []).append(
            {"metadata": {"name": name}, "spec": {"renewTime": at(5)}}
        )
        return node

    def add(self, resource: Resource, name: str, namespace: str = "", **members: Any) -> Document:
        """Adds an object of a kind."""
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        document = {
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": metadata, **members,
        }  # fmt: skip
        self.objects.setdefault(resource, []).append(document)
        return document

    def one(self, resource: Resource, name: str = "") -> Document:
        """The object of a kind by its name; the first without one."""
        listed = self.objects[resource]
        return next(one for one in listed if name in {"", one["metadata"]["name"]})

    def drop(self, resource: Resource, name: str) -> None:
        """Takes an object away."""
        listed = self.objects[resource]
        assert any(one["metadata"]["name"] == name for one in listed)
        self.objects[resource] = [one for one in listed if one["metadata"]["name"] != name]

    def trust(self, authority: bytes) -> None:
        """Writes the caBundle wherever one belongs."""
        bundle = base64.b64encode(authority).decode()
        for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
            for one in self.objects[resource]:
                for hook in one["webhooks"]:
                    hook["clientConfig"]["caBundle"] = bundle
        for one in self.objects[resources.CRDS]:
            if (one["spec"].get("conversion") or {}).get("strategy") == "Webhook":
                one["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = bundle

    def picture(self) -> Picture:
        """What the doctor looks at."""
        return Picture(
            now=NOW,
            objects={kind: tuple(listed) for kind, listed in self.objects.items()},
            pods=tuple(msgspec.convert(one, TimedPod) for one in self.pods),
            nodes=tuple(msgspec.convert(one, views.Node) for one in self.nodes),
            workloads=tuple(msgspec.convert(one, Workload) for one in self.workloads),
            **self.more,
        )
