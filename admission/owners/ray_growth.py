"""RayJobs and RayServices that may grow: while one runs, RayClusters say how many pods it has.

All else about Ray is rows of `admission/objects/owner_rows.py`, which `row_owner.py` carries out.

KubeRay makes RayClusters of one, and Ray's autoscaler changes the number of workers there: never
in the owner. A RayService has a second RayCluster while it is upgraded, whose pods are more pods
of the same pod sets. See ADR 0157.
Source: kueue pkg/controller/jobs/raycluster/common.go (UpdatePodSets), rayjob and rayservice;
kuberay ray-operator/controllers/ray (rayjob_controller.go, rayservice_controller.go).
Differs: Kueue counts only the RayCluster that serves, and only with the autoscaler on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
from typing_extensions import override

from admission.base import names
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import owner_rows as rows
from admission.objects import views
from admission.objects.owner_rows import Row
from admission.owners import row_owner
from admission.owners.framework import Integration, Secondary
from admission.owners.row_owner import RowOwner, RowView

_MADE_OF: Final = "ray.io/originated-from-crd"
"""On what KubeRay makes: the kind of that of which it was made."""

_CLUSTERS: Final[Mapping[str, Resource]] = {
    "RayJob": resources.CLUSTERS_OF_RAY_JOBS,
    "RayService": resources.CLUSTERS_OF_RAY_SERVICES,
}
"""Where the RayClusters are that were made of owners of a kind."""


class Cluster(views.Object, frozen=True, kw_only=True):
    """A RayCluster that was made of an owner.

    Attributes:
        sizes: how many pods it has, by the name of the pod set.
    """

    sizes: dict[str, int]


class RayDocument(row_owner.RowDocument, frozen=True, kw_only=True):
    """An owner whole, as it was watched, with the RayClusters that it controls."""

    clusters: tuple[Cluster, ...] = msgspec.field(name=names.MADE_FOR, default=())


def _cluster(document_: row_owner.RowDocument, before: Cluster | None) -> Cluster:  # noqa: ARG001
    """Return what is read of a RayCluster, whatever it was before.

    Raises:
        msgspec.ValidationError: it does not have what a RayCluster has.
    """
    sizes = {
        row_owner.name_of(listed, member): row_owner.product(row_owner.counts_of(listed, member))
        for listed, member in row_owner.members(rows.RAY_CLUSTER, document_.content)
    }
    return Cluster(metadata=document_.metadata, sizes=sizes)


def _joined(owner: row_owner.RowDocument | RowView, clusters: tuple[Cluster, ...]) -> RayDocument:
    """Return an owner with the RayClusters that it controls."""
    document = row_owner.document_of(owner)
    assert isinstance(document, RayDocument)
    return msgspec.structs.replace(document, clusters=clusters)


def _in_use(row: Row, document_: row_owner.RowDocument) -> Iterator[Cluster]:
    """Yield the RayClusters that count: anybody can make one that names an owner.

    That of which KubeRay does not tell in the status is none, or is about to be deleted.
    """
    assert isinstance(document_, RayDocument)
    named = [rows.value_at(document_.content, path) for path in row.clusters]
    for cluster_ in document_.clusters:
        if cluster_.metadata.name in named:
            yield cluster_


def read(row: Row, document_: RayDocument | RowView) -> RowView:
    """Return what decisions depend on of an owner.

    Raises:
        msgspec.ValidationError: it does not have what the row says.
    """
    held_owner = row_owner.read(row, document_)
    if isinstance(document_, RowView) or not row_owner.is_elastic(row, held_owner):
        return held_owner
    if RowOwner(row, held_owner).is_held():
        return held_owner  # its next RayCluster begins with the numbers of the owner
    sizes: dict[str, int] = {}
    for cluster_ in _in_use(row, document_):
        for name, count in cluster_.sizes.items():
            sizes[name] = sizes.get(name, 0) + count
    resized = (
        msgspec.structs.replace(pod_set, count=sizes.get(pod_set.name, pod_set.count))
        for pod_set in held_owner.pod_sets
    )
    return msgspec.structs.replace(held_owner, pod_sets=tuple(resized))


@dataclass(frozen=True, slots=True)
class RayOwner(RowOwner):
    """A RayJob or RayService with a queue."""

    @override
    def revision(self) -> str:
        """Return that of the owner, which stays when a RayCluster grows, and of those.

        Differs: Kueue takes the generation of the RayCluster alone, which begins anew with it.
        """
        metadata = [metadata_.metadata for metadata_ in _in_use(self.row, self.view.document)]
        clusters = (f"{metadata_.uid}_{metadata_.generation}" for metadata_ in metadata)
        return "_".join((str(self.view.metadata.generation), *clusters))


def integration(row: Row) -> Integration[RowView, RayDocument]:
    """Return the kind of a row, as the controller serves it."""
    return Integration(
        kind=row_owner.kind_of(row),
        document=RayDocument,
        answer=RayDocument,
        view=partial(read, row),
        owner=partial(RayOwner, row),
        build=partial(row_owner.build, row),
        adopt=partial(row_owner.adopt, row),
        secondary=Secondary(
            resource=_CLUSTERS[row.kind],
            selector=f"{_MADE_OF}={row.kind}",
            document=row_owner.RowDocument,
            read=_cluster,
            joined=_joined,
        ),
    )
