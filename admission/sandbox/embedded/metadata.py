"""What an API server does with ``metadata``, whatever the kind.

Source: k8s.io/apiserver pkg/registry/rest/{create,update,delete}.go and apimachinery
pkg/api/validation/objectmeta.go, v1.36.
"""

import random
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.sandbox.embedded import refusals
from admission.sandbox.embedded.refusals import RefusalCause

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words
_SUFFIX_LENGTH: Final = 5
_BASE_LENGTH: Final = 63 - _SUFFIX_LENGTH
_NAME_LENGTH: Final = 253
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
_FREE_NAMES: Final = "rbac.authorization.k8s.io"
_SYSTEM: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
)  # fmt: skip
_LEFT_OUT_WHEN_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def complete(resource: Resource, obj: Mapping[str, Any]) -> Document:
    """Return a document with apiVersion, kind and metadata, by default those of the resource.

    Raises:
        BadRequestError: it says it is of another kind.
    """
    document = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    if (document["apiVersion"], document["kind"]) != (resource.api_version, resource.kind):
        kind_text = f"{document['apiVersion']}, Kind={document['kind']}"
        expected = f"{resource.api_version}, Kind={resource.kind}"
        raise refusals.bad_request(
            f"the object provided is {kind_text}, but {expected} is expected"
        )
    document["metadata"] = tidy(document.get("metadata") or {})
    return document


def tidy(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without empty and null members, and without managedFields."""
    kept = {key: value for key, value in metadata.items() if value is not None}
    kept.pop("managedFields", None)
    for key in _LEFT_OUT_WHEN_EMPTY:
        if not kept.get(key):
            kept.pop(key, None)
    return kept


def locate(resource: Resource, document: Document, namespace: str) -> None:
    """Put a document into the namespace of the request.

    Raises:
        BadRequestError: it names another, or none at all is given.
    """
    metadata = document["metadata"]
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if namespace and metadata.get("namespace", namespace) != namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = metadata.get("namespace") or namespace
    if not metadata["namespace"]:
        raise refusals.bad_request("an empty namespace may not be set during creation")


def wipe(document: Document) -> None:
    """Drop what a client may not choose for a new object."""
    for key in _SYSTEM:
        document["metadata"].pop(key, None)


def name(document: Document, rng: random.Random) -> None:
    """Make a name from generateName where there is none."""
    metadata = document["metadata"]
    if not metadata.get("name") and metadata.get("generateName"):
        suffix = "".join(rng.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
        metadata["name"] = metadata["generateName"][:_BASE_LENGTH] + suffix


def stamp(document: Document, rng: random.Random, now: str, *, generation: bool) -> None:
    """Give a new object its identity."""
    metadata = document["metadata"]
    metadata["uid"] = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    metadata["creationTimestamp"] = now
    if generation:
        metadata["generation"] = 1


def keep_system_fields(new: Document, old: Document) -> None:
    """Undo changes of what only the server writes."""
    for key in _SYSTEM:
        if key in old["metadata"]:
            new["metadata"][key] = old["metadata"][key]
        else:
            new["metadata"].pop(key, None)


def creation_rules(resource: Resource, document: Document) -> Iterator[RefusalCause]:
    """Yield the broken rules of the metadata of a new object."""
    name = document["metadata"].get("name", "")
    if not name:
        yield refusals.required("metadata.name", "name or generateName is required")
    elif resource.group == _FREE_NAMES:
        return
    elif re.fullmatch(_SUBDOMAIN, name) is None:
        yield refusals.invalid_value("metadata.name", name, _SUBDOMAIN_RULE)
    elif len(name) > _NAME_LENGTH:
        yield RefusalCause("metadata.name", f"Too long: may not be more than {_NAME_LENGTH} bytes")


def update_rules(new: Document, old: Document) -> Iterator[RefusalCause]:
    """Yield the broken rules of changed metadata."""
    if new["metadata"].get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
        yield refusals.invalid_value(
            "metadata.uid", new["metadata"]["uid"], "field is immutable"
        )  # fmt: skip
    if "deletionTimestamp" not in old["metadata"]:
        return
    finalizers = old["metadata"].get("finalizers", [])
    added = [item for item in new["metadata"].get("finalizers", []) if item not in finalizers]
    if added:
        shown = ", ".join(f'"{item}"' for item in added)
        yield refusals.forbidden(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{shown}}}",
        )


def is_deleting(document: Document) -> bool:
    """Return whether the object only waits for its finalizers."""
    return "deletionTimestamp" in document["metadata"]


def without_nulls(value: Any) -> Any:
    """Return a document without null members, as typed kinds are stored."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def bump_generation(new: Document, old: Document) -> None:
    """Count a change of anything but metadata and status."""
    if _wanted_state(new) != _wanted_state(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _wanted_state(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in {"metadata", "status"}}
