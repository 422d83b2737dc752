"""The part that only RayJobs and RayServices need: pod counts from their RayClusters.

See ADR 0157.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import msgspec

from admission.base.clock import Clock
from admission.base.events import Events
from admission.base.names import WorkloadKey
from admission.controller.queues.configuration import WatchedConfiguration
from admission.controller.seeing.informers import Informer
from admission.controller.seeing.object_cache import ObjectCache
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.running_pods import RunningPods
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.controller.writing.work_queue import WorkQueue
from admission.objects import views
from admission.owners import ray_growth, row_owner
from admission.owners.framework import Integration
from admission.owners.ray_growth import Cluster, RayDocument
from admission.owners.row_owner import RowView


class RayOwners(HeldOwners[RowView, RayDocument]):
    """RayJobs or RayServices with a queue."""

    def __init__(
        self,
        integration: Integration[RowView, RayDocument],
        workloads: WorkloadIndex,
        configuration: WatchedConfiguration,
        events: Events,
        clock: Clock,
        look_at: Callable[[Iterable[WorkloadKey]], None],
        running: RunningPods,
        queue: WorkQueue,
    ) -> None:
        """Prepare an empty index; see `HeldOwners`."""
        self._as_held = integration.view
        self._clusters: ObjectCache[str, Cluster] = ObjectCache()
        """By their own UID."""
        self._of: dict[str, dict[str, None]] = {}
        """UIDs of RayClusters by that of their owner."""
        super().__init__(
            replace(integration, view=self._view),
            workloads,
            configuration,
            events,
            clock,
            look_at,
            running,
            queue,
        )
        informer = Informer("RayCluster", self._see_cluster, self._lose_cluster)
        self.informers = {**self.informers, ray_growth.CLUSTERS[self._kind.name]: informer}

    def _view(self, document: RayDocument | RowView) -> RowView:
        """Return an owner with the RayClusters that it controls."""
        if isinstance(document, RowView):
            return document
        clusters_known = (
            self._clusters.get(uid) for uid in self._of.get(document.metadata.uid, ())
        )
        clusters = tuple(cluster for cluster in clusters_known if cluster is not None)
        return self._as_held(msgspec.structs.replace(document, clusters=clusters))

    def _see_cluster(self, document: row_owner.RowDocument) -> None:
        cluster, uid = ray_growth.cluster(document), document.metadata.uid
        before = self._clusters.get(uid)
        if not self._clusters.put(uid, cluster):
            return
        if before is not None:
            self._leave(before)
        owner = cluster.metadata.controller()
        if owner is not None and self._kind.is_of(owner):
            self._of.setdefault(owner.uid, {})[uid] = None
            self._reread(cluster, owner)

    def _lose_cluster(self, gone: views.Object) -> None:
        cluster = self._clusters.get(gone.metadata.uid)
        # The watch is by a label, so a later version may be seen again.
        if cluster is not None and self._clusters.remove(
            gone.metadata.uid, gone.metadata.uid, cluster
        ):
            self._leave(cluster)

    def _leave(self, cluster: Cluster) -> None:
        """Count a RayCluster no more with the owner that it named."""
        owner = cluster.metadata.controller()
        if owner is None or owner.uid not in self._of:
            return
        self._of[owner.uid].pop(cluster.metadata.uid, None)
        if not self._of[owner.uid]:
            del self._of[owner.uid]
        self._reread(cluster, owner)

    def _reread(self, cluster: Cluster, owner: views.OwnerReference) -> None:
        """Read the owner of a RayCluster again: it may have another size."""
        metadata = views.ObjectMeta(
            namespace=cluster.metadata.namespace, name=owner.name, uid=owner.uid
        )
        key = self._kind.key_of(views.Object(metadata=metadata))
        view = self.index.get(key)
        if view is not None and view.metadata.uid == owner.uid:
            read = self._view(cast(RayDocument, view.document))
            self.index.reread(key, read)
            self._tell_running(key, read)
