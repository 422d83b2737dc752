"""The owner and the requester of a Workload or pod."""

from typing import Final

from admission.base import names
from admission.objects import viewbase, views
from admission.objects.workload import Workload

UNKNOWN: Final = names.UNKNOWN_REQUESTER
"""The requester where no review saw who created the owner."""


def owner_of(workload: Workload) -> str:
    """Return the kind and name of what a Workload was made for; empty where nothing owns it."""
    owners = workload.metadata.owner_references or ()
    owner = workload.metadata.controller() or next(iter(owners), None)
    if owner is None:
        return ""
    others_text = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    return f"{owner.kind} {owner.name}{others_text}"


def typed(owner: viewbase.OwnerReference | None) -> str:
    """Return an owner as kubectl takes it, such as ``job.batch/train``; empty for none."""
    if owner is None:
        return ""
    group, separator, _ = owner.api_version.rpartition("/")
    return f"{owner.kind.lower()}{separator and f'.{group}'}/{owner.name}"


def requester_of(metadata: views.ObjectMeta) -> str:
    """Return who asked for a Workload or pod."""
    return metadata.annotation(names.REQUESTER) or UNKNOWN


def shown(namespace: str, owner: str, workload: str) -> str:
    """Return whose it is, as people know it: ``team/job/train``, with what `why` takes.

    Args:
        namespace: of it.
        owner: as `owner_of` returns it; empty where nothing owns the Workload.
        workload: name of the Workload; empty where there is none.
    """
    kind, _, name = owner.partition(" ")
    named = f"{kind.lower()}/{name}" if name else f"workload/{workload}"
    return f"{namespace}/{named}"
