"""Members that objects of every kind have."""

from collections.abc import Mapping
from typing import Any

CREATED = "2026-01-01T00:00:00Z"

Document = dict[str, Any]


def make_metadata(
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Document:
    """Return metadata without the members that are empty."""
    stated: Document = {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    return {key: value for key, value in stated.items() if value}


def store(
    document: Document, *, uid: str = "", version: str = "1", deleting: bool = False
) -> None:
    """Add the metadata that an API server gives a stored object."""
    document["metadata"] |= {
        "uid": uid or f"uid-{document['metadata']['name']}",
        "resourceVersion": version,
        "creationTimestamp": CREATED,
        **({"deletionTimestamp": CREATED} if deleting else {}),
    }


def make_condition(
    kind: str, status: str = "True", reason: str = "R", message: str = "m"
) -> Document:
    """Return a condition."""
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": CREATED,
    }  # fmt: skip


def make_kueue(kind: str, metadata: Document, **members: Any) -> Document:
    """Return an object of a kind of Kueue."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **members,
    }  # fmt: skip
