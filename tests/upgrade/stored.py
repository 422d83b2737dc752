"""Objects of a cluster in a file, and back from it into the etcd of another cluster.

The API server would give objects that are created new uids and times, and refuse a status and a
deletion that has begun. So they are written where it stores them, in JSON, which it reads as well
as its own form.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from admission.base import clock as clocks
from admission.base.clock import SystemClock
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, Rest

_NAMESPACED: Final = "namespaces/"
_TIME: Final = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z"')
_APIEXTENSIONS: Final = "apiextensions.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_KUEUE: Final = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True, slots=True)
class Stored:
    """A kind, and where etcd has it.

    Attributes:
        api_version: of its objects.
        plural: its resource.
        prefix: below ``/registry/``; empty for ``<group>/<plural>``, as custom resources have it.
    """

    api_version: str
    plural: str
    prefix: str = ""

    @property
    def path(self) -> str:
        """Path of all its objects."""
        root = "apis" if "/" in self.api_version else "api"
        return f"/{root}/{self.api_version}/{self.plural}"

    @property
    def folder(self) -> str:
        """Where etcd has all its objects."""
        group = self.api_version.partition("/")[0]
        return f"/registry/{self.prefix or f'{group}/{self.plural}'}/"

    def key(self, document: Json) -> str:
        """Where etcd has an object."""
        metadata = document["metadata"]
        parts = [metadata.get("namespace", ""), metadata["name"]]
        return self.folder + "/".join(filter(None, parts))

    def object_path(self, document: Json) -> str:
        """Path of an object."""
        metadata, root = document["metadata"], self.path.removesuffix(self.plural)
        namespace = metadata.get("namespace", "")
        where = f"{_NAMESPACED}{namespace}/" if namespace else ""
        return f"{root}{where}{self.plural}/{metadata['name']}"


CRDS: Final = Stored(_APIEXTENSIONS, "customresourcedefinitions")
PODS: Final = Stored("v1", "pods", "pods")
JOBS: Final = Stored("batch/v1", "jobs", "jobs")
WORKLOADS: Final = Stored(_KUEUE, "workloads")
WEBHOOKS: Final = tuple(
    Stored(_ADMISSION, plural, plural)
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
)
KUEUE: Final = (
    *(
        Stored(_KUEUE, plural)
        for plural in (
            "topologies",
            "resourceflavors",
            "admissionchecks",
            "workloadpriorityclasses",
            "cohorts",
            "clusterqueues",
            "localqueues",
        )
    ),
    WORKLOADS,
)
BUILT_IN: Final = (
    Stored("v1", "namespaces", "namespaces"),
    Stored("v1", "nodes", "minions"),
    *(
        Stored(_RBAC, plural, plural)
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    ),
    Stored("v1", "serviceaccounts", "serviceaccounts"),
    *(
        Stored(_ADMISSION, plural, plural)
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    ),
    *WEBHOOKS,
    *(
        Stored("apps/v1", plural, plural)
        for plural in ("deployments", "replicasets", "statefulsets", "controllerrevisions")
    ),
    JOBS,
    PODS,
)
"""Kinds of Kubernetes that an installation, teams and their work consist of."""


def read(api: Rest, kinds: Iterable[Stored]) -> dict[str, Json]:
    """All objects of some kinds, by their keys in etcd."""
    return {
        kind.key(one): {**_identity(kind, listed), **one}
        for kind in kinds
        for listed in (api.get(kind.path),)
        for one in listed["items"]
    }


def _identity(kind: Stored, listed: Json) -> Json:
    """The members of objects that lists say once."""
    name = str(listed["kind"]).removesuffix("List")
    return {"apiVersion": kind.api_version, "kind": name}


def save(path: Path, documents: Mapping[str, Json]) -> None:
    """Writes objects to a file, as they were at this moment."""
    taken = {"at": clocks.to_wire(SystemClock().now())}
    lines = [json.dumps(taken)]
    for key, document in documents.items():
        metadata = {k: v for k, v in document["metadata"].items() if k != "resourceVersion"}
        lines.append(json.dumps([key, {**document, "metadata": metadata}], sort_keys=True))
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content, 9, mtime=0))


def load(path: Path) -> dict[str, Json]:
    """The objects of a file by their keys in etcd, as if they had been saved now.

    All times in them are moved, so that nothing is overdue because the file is old.
    """
    first, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    age = SystemClock().now() - clocks.from_wire(json.loads(first)["at"])
    whole = timedelta(seconds=round(age.total_seconds()))
    return dict(json.loads(_moved(line, whole)) for line in lines)


def _moved(text: str, by: timedelta) -> str:
    def later(found: re.Match[str]) -> str:
        moved = datetime.fromisoformat(found[1]) + by
        return f'"{moved.isoformat()}{found[2] or ""}Z"'

    return _TIME.sub(later, text)


def write(cluster: Cluster, documents: Mapping[str, Json]) -> None:
    """Writes objects to the etcd of a cluster, and starts its API server anew on them."""
    cluster.stop_apiserver()
    cluster.etcd.put({key: json.dumps(value).encode() for key, value in documents.items()})
    cluster.start_apiserver()


def get(cluster: Cluster, key: str) -> Json:
    """A custom resource as etcd has it."""
    ((_, value),) = cluster.etcd.values(key)
    document: Json = json.loads(value)
    return document


def of(documents: Mapping[str, Json], kind: Stored) -> Iterator[Json]:
    """The objects of one kind."""
    return (one for key, one in documents.items() if key.startswith(kind.folder))


def condition(document: Json, type_: str) -> Json:
    """A condition of an object, or an empty one."""
    found = document.get("status", {}).get("conditions") or ()
    return next((dict(one) for one in found if one["type"] == type_), {})
