"""A queue with an admission check."""

from admission.base import patches
from admission.kube import resources
from tests.controllers.world import World, cluster_queue, local_queue


def add_checked_queue(world: World) -> None:
    """A LocalQueue ``checked`` whose ClusterQueue asks for the check ``budget``."""
    strategy = {"admissionChecks": [{"name": "budget"}]}
    world.add(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": "budget"},
            "spec": {"controllerName": "example.com/budget"},
        },
        cluster_queue("checked", admissionChecksStrategy=strategy),
        local_queue("checked", "checked"),
    )
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "",
              "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    status = patches.merge({"status": {"conditions": [active]}})
    world.store.patch(resources.ADMISSION_CHECKS, "budget", status, subresource="status")
