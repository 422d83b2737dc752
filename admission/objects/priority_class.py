"""WorkloadPriorityClass: a priority for quota, apart from the priority of pods."""

from typing import Annotated

from admission.objects.fields import REQUIRED, Int32, text
from admission.objects.viewbase import Object


class WorkloadPriorityClass(Object, frozen=True, kw_only=True):
    """A named priority of workloads. It orders queues and preemption, not the scheduler."""

    value: Annotated[Int32, REQUIRED] = 0
    """The priority; higher goes first. A change reaches the workloads that use the class."""

    description: Annotated[str, text(at_most=2048)] = ""
    """What the class is for."""
