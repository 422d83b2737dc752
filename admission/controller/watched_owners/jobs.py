"""The part that only batch/v1 Jobs need: the Jobs that they control."""

from typing_extensions import override

from admission.base.names import WorkloadKey
from admission.controller.seeing.informers import Informer
from admission.controller.watched_owners.child_jobs import ChildJobs
from admission.controller.watched_owners.held import HeldOwners
from admission.controller.watched_owners.owner_writes import OwnerContext
from admission.controller.writing.api_requests import ApiRequest, RequestResult
from admission.kube import resources
from admission.objects import batch, views
from admission.owners import batch_job


class Jobs(HeldOwners[batch.Job, batch.JobDocument]):
    """Jobs with a queue.

    Attributes:
        children: Jobs without a queue that Jobs control.
    """

    def __init__(self, context: OwnerContext) -> None:
        """Prepare an empty index; see `Owners`.

        Args:
            context: what owners of every kind work with.
        """
        super().__init__(batch_job.INTEGRATION, context)
        self.children = ChildJobs(
            self.index, context.workloads, context.configuration, context.events,
            context.look_at, context.draft,
        )  # fmt: skip
        children = Informer("Job", self.children.on_update, self.children.on_delete)
        self.informers = {**self.informers, resources.CHILD_JOBS: children}

    @override
    def on_update(self, document: views.Object) -> None:
        super().on_update(document)
        self._look_at(self.children.below(document.metadata.uid))

    @override
    def on_delete(self, gone: views.Object, *, for_good: bool = False) -> None:
        super().on_delete(gone, for_good=for_good)
        self._look_at(self.children.below(gone.metadata.uid))

    @override
    def may_name(self, named: WorkloadKey, controller: views.OwnerReference | None) -> bool:
        has_children = controller is not None and bool(self.children.below(controller.uid))
        return has_children or super().may_name(named, controller)

    @override
    def naming(self, workload: views.Object) -> tuple[WorkloadKey, ...]:
        owner = workload.metadata.controller()
        below = () if owner is None else self.children.below(owner.uid)
        return (*super().naming(workload), *below)

    @override
    def may_take(
        self, key: WorkloadKey, controller: views.OwnerReference | None, request: ApiRequest
    ) -> bool:
        return self.children.has(key) or super().may_take(key, controller, request)

    @override
    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        self.children.complete(key, outcome)
        super().complete(key, outcome)
