"""What a Workload holds, read alone: of one that cannot be read as a whole."""

from admission.objects import views
from admission.objects.workload import Admission, Workload, WorkloadSpec, WorkloadStatus


class HeldSpec(views.View, frozen=True, kw_only=True):
    """The parts of a Workload's spec that count while it holds quota."""

    queue_name: str = ""
    priority: int | None = None
    active: bool | None = None


class HeldStatus(views.View, frozen=True, kw_only=True):
    """The parts of a Workload's status that tell what it holds."""

    conditions: tuple[views.Condition, ...] | None = None
    admission: Admission | None = None


class HeldWorkload(views.Object, frozen=True, kw_only=True):
    """What a Workload holds, of one that does not fit `Workload` as a whole."""

    spec: HeldSpec = HeldSpec()
    status: HeldStatus = HeldStatus()

    def workload(self) -> Workload:
        """A Workload that holds the same and asks for nothing."""
        spec, status = self.spec, self.status
        return Workload(
            metadata=self.metadata,
            spec=WorkloadSpec(
                queue_name=spec.queue_name, priority=spec.priority, active=spec.active
            ),
            status=WorkloadStatus(conditions=status.conditions, admission=status.admission),
        )
