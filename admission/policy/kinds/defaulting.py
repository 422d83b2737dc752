"""What reviews add to new objects: the finalizer that holds what is in use.

The controller takes it off again, see ``admission.controllers.queues.finalizers``. A Workload gets
nothing: its one default, no partial admission, belongs to a feature gate that is on. The other
kinds have none. Source: kueue pkg/webhooks.
"""

from typing import Final

from admission.base import names, patches
from admission.base.patches import Operation, PatchBuilder

_FINALIZERS: Final = patches.pointer("metadata", "finalizers")


def finalizer(present: tuple[str, ...] | None) -> tuple[Operation, ...]:
    """The patch that adds ``kueue.x-k8s.io/resource-in-use``; none where it stands."""
    patch = PatchBuilder()
    if names.RESOURCE_IN_USE not in (present or ()):
        patch.append(_FINALIZERS, present, [names.RESOURCE_IN_USE])
    return patch.operations()


def nothing(present: tuple[str, ...] | None) -> tuple[Operation, ...]:
    """No change."""
    del present
    return ()
