"""A Workload under review: as it would be, as it is, and what rules ask of both."""

from typing import Any, Final

import msgspec

from admission.base import conditions, names, structs
from admission.policy.kinds.documents import Admission, Assignment, PodSet, Workload

_POD_SETS: Final[msgspec.json.Decoder[tuple[PodSet, ...] | None]] = structs.decoder(
    tuple[PodSet, ...] | None
)
_ADMISSION: Final[msgspec.json.Decoder[Admission | None]] = structs.decoder(Admission | None)
_DOCUMENT: Final = structs.decoder(Any)


class Review:
    """What the rules of one Workload read; parts are decoded once.

    Attributes:
        new: as it would be.
        old: as it is; None on creation.
        pod_sets: of ``new``.
        admission: of ``new``; None where there is none.
        is_reserved: whether ``new`` holds quota.
        was_reserved: whether ``old`` does.
        is_elastic: whether ``new`` may change its size while it runs.
    """

    __slots__ = (
        "admission", "is_elastic", "is_reserved", "new", "old", "pod_sets", "was_reserved",
    )  # fmt: skip

    def __init__(self, old: Workload | None, new: Workload) -> None:
        """Decodes the parts.

        Raises:
            msgspec.ValidationError: a field has the wrong type.
        """
        self.new = new
        self.old = old
        self.pod_sets: tuple[PodSet, ...] = _POD_SETS.decode(new.spec.pod_sets) or ()
        self.admission: Admission | None = _ADMISSION.decode(new.status.admission)
        self.is_reserved = new.status.is_true(conditions.QUOTA_RESERVED)
        self.was_reserved = old is not None and old.status.is_true(conditions.QUOTA_RESERVED)
        self.is_elastic = new.metadata.annotation(names.ELASTIC_JOB) == "true"

    def pod_set(self, name: str) -> PodSet | None:
        """The pod set of that name."""
        return next((one for one in self.pod_sets if one.name == name), None)

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the assignments of the pod sets; none without an admission."""
        return (self.admission.pod_set_assignments if self.admission else None) or ()

    def is_shrinking(self, name: str) -> bool:
        """Return whether a pod set of an elastic Workload has fewer pods than its quota is for."""
        if not self.is_elastic:
            return False
        found = self.pod_set(name)
        given = next((one.count for one in self.assignments() if one.name == name), None)
        return found is not None and given is not None and found.count < given


def has_admission(workload: Workload) -> bool:
    """Return whether ``status.admission`` is set."""
    return bytes(workload.status.admission) != b"null"


def document(part: msgspec.Raw) -> Any:
    """A part of an object as plain values."""
    return _DOCUMENT.decode(part)
