"""A queue with an admission check."""

from admission.base import patches
from admission.kube import resources
from tests.builders.metadata import make_condition
from tests.builders.queues import make_check, make_cluster_queue, make_local_queue
from tests.controllers.world import World


def add_checked_queue(world: World) -> None:
    """A LocalQueue ``checked`` whose ClusterQueue asks for the check ``budget``."""
    strategy = {"admissionChecks": [{"name": "budget"}]}
    world.add(
        make_check(),
        make_cluster_queue("checked", admissionChecksStrategy=strategy),
        make_local_queue("checked", "checked"),
    )
    status = patches.merge({"status": {"conditions": [make_condition("Active")]}})
    world.store.patch(resources.ADMISSION_CHECKS, "budget", status, subresource="status")
