"""What the statuses of ClusterQueue and LocalQueue share."""

from admission.api.common import Conditions
from admission.api.model import Model
from admission.api.scalars import Int32


class QueueCounts(Model):
    """Conditions and numbers of workloads."""

    conditions: Conditions | None = None
    """``Active`` says whether the queue admits, and if not, why."""

    pending_workloads: Int32 | None = None
    """Workloads that wait for quota."""

    reserving_workloads: Int32 | None = None
    """Workloads that hold quota, admitted or not."""

    admitted_workloads: Int32 | None = None
    """Workloads that are admitted and not finished."""
