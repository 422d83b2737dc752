"""What every view has: metadata and conditions. Used as part of `admission.objects.views`."""

from typing import Annotated, Final

import msgspec

from admission.base import names, shared
from admission.objects.fields import (
    CONDITION_TYPE,
    MESSAGE,
    REASON,
    REQUIRED,
    Int64,
    Timestamp,
    one_of,
)
from admission.objects.markers import keywords

_OUR_DOMAINS: Final = (names.KUEUE_GROUP, names.OWN_DOMAIN)


class View(msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False):
    """Base of all views."""


class OwnerReference(View, frozen=True, kw_only=True):
    """metav1.OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


def _ours(members: dict[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations below our domain or Kueue's."""
    entries = (members or {}).items()
    return {key: value for key, value in entries if key.partition("/")[0].endswith(_OUR_DOMAINS)}


class ObjectMeta(View, frozen=True, kw_only=True):
    """metav1.ObjectMeta. ``namespace`` is empty for cluster-scoped objects."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    def __post_init__(self) -> None:
        shared.share_texts(self, "namespace", "creation_timestamp")
        if self.labels and len(self.labels) > 1:
            shared.share_members(self, "labels")

    def label(self, key: str) -> str:
        """Value of a label; empty when absent."""
        return (self.labels or {}).get(key, "")

    def annotation(self, key: str) -> str:
        """Value of an annotation; empty when absent."""
        return (self.annotations or {}).get(key, "")

    def is_alike(self, other: "ObjectMeta") -> bool:
        """Return whether two versions of an object differ in nothing that concerns us.

        Labels and annotations of other programs, and the versions themselves, do not.
        """
        return _what_concerns_us(self) == _what_concerns_us(other)

    def controller(self) -> OwnerReference | None:
        """The controlling owner, if any."""
        for reference in self.owner_references or ():
            if reference.controller:
                return reference
        return None


def _what_concerns_us(metadata: ObjectMeta) -> ObjectMeta:
    return msgspec.structs.replace(
        metadata,
        resource_version="",
        generation=0,
        labels=_ours(metadata.labels),
        annotations=_ours(metadata.annotations),
    )


class Object(View, frozen=True, kw_only=True):
    """What every object has."""

    metadata: ObjectMeta = ObjectMeta()


class Condition(View, frozen=True, kw_only=True):
    """One aspect of the object's state."""

    type: Annotated[str, CONDITION_TYPE]
    """Type of the condition."""

    status: Annotated[str, one_of("True", "False", "Unknown")]
    """Status of the condition: True, False or Unknown."""

    reason: Annotated[str, REQUIRED, REASON] = ""
    """Reason as one word, for programs."""

    message: Annotated[str, REQUIRED, MESSAGE] = ""
    """Reason as a sentence, for people; may be empty."""

    last_transition_time: Annotated[Timestamp, REQUIRED] = ""
    """When the status last changed."""

    observed_generation: Annotated[Int64, keywords(minimum=0)] = 0
    """Generation of the object that the condition was computed from."""

    def __post_init__(self) -> None:
        shared.share_texts(self, "type", "status", "reason", "message", "last_transition_time")
