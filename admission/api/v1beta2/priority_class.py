"""WorkloadPriorityClass: a priority for quota, apart from the priority of pods."""

from typing import Annotated

from pydantic import StringConstraints

from admission.api.model import Root
from admission.api.scalars import Int32


class WorkloadPriorityClass(Root):
    """A named priority of workloads. It orders queues and preemption, not the scheduler."""

    value: Int32
    """The priority; higher goes first. A change reaches the workloads that use the class."""

    description: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """What the class is for."""
