"""The kinds of owners that are served; a new kind is registered here."""

from typing import Any, Final

from admission.objects import views
from admission.objects.workload import Workload
from admission.owners import batch_job, batch_job_review, pod, pod_group
from admission.owners.framework import Integration
from admission.owners.review import HeldKind

INTEGRATIONS: Final[tuple[Integration[Any, Any], ...]] = (batch_job.INTEGRATION, pod.INTEGRATION)
"""In the order in which they are asked whose business a Workload is."""

HELD: Final[tuple[HeldKind, ...]] = (batch_job_review.HELD,)
"""Those that are held as a whole: reviews of them, webhooks and roles follow from these rows."""


def owns(workload: Workload) -> bool:
    """Return whether a Workload was made for an owner of a kind that is served, or adopted."""
    return pod_group.KIND.owns(workload) or any(one.kind.owns(workload) for one in INTEGRATIONS)


def of_controller(metadata: views.ObjectMeta) -> HeldKind | None:
    """Return the kind of the owner that an object names as its controller, if it is held.

    Whether that owner exists and has a queue is not known.
    """
    owner = metadata.controller()
    if owner is None:
        return None
    names = (owner.api_version, owner.kind)
    return next((one for one in HELD if (one.kind.api_version, one.kind.name) == names), None)
