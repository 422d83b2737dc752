"""Replicas and resources of a Deployment that an administrator has set since it was installed.

``kubectl scale`` and ``kubectl set resources`` take these fields over: the API server notes who
set a field last. An apply that left them in the document would set them back.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from admission.base import names
from admission.kube import apply, errors, resources
from admission.kube.api import Api, Document

_APPLY: Final = "Apply"
_ROLLOUT: Final = "kubectl-rollout"
_AMOUNTS: Final = ("requests", "limits")
_CONTAINERS: Final = ("f:spec", "f:template", "f:spec", "f:containers")


def without(api: Api, document: Document) -> Document:
    """Return a document without what others have set of a Deployment that we have applied.

    Args:
        api: the cluster.
        document: to be applied; of another kind it stays as it is.

    Raises:
        KubeError: the API server refused or did not answer.
    """
    resource, name, namespace = apply.locate(document)
    if resource != resources.DEPLOYMENTS:
        return document
    try:
        present = api.get(resource, name, namespace)
    except errors.NotFoundError:
        return document
    applied, foreign = _fields_by(present)
    if not applied:
        return document
    changed = copy.deepcopy(document)
    is_scaled = "f:replicas" not in _at(applied, "f:spec") and any(
        "f:replicas" in _at(fields, "f:spec") for fields in foreign
    )
    if is_scaled and present["spec"].get("replicas"):  # none would leave reviews unanswered
        changed["spec"].pop("replicas", None)
    for container in changed["spec"]["template"]["spec"]["containers"]:
        for part in _AMOUNTS:
            path = (*_CONTAINERS, _key(container["name"]), "f:resources", f"f:{part}")
            amounts = container.get("resources", {}).get(part, {})
            for key in [f"f:{resource_name}" for resource_name in amounts]:
                is_foreign = any(key in _at(fields, *path) for fields in foreign)
                if is_foreign and key not in _at(applied, *path):
                    del amounts[key.removeprefix("f:")]
            if part in container.get("resources", {}) and not amounts:
                del container["resources"][part]
    return changed


def _fields_by(present: Document) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Return the fields that we have applied and nobody has set since, and those of others.

    What ``kubectl rollout undo`` brings back is an earlier state of ours.
    """
    applied: Mapping[str, Any] = {}
    foreign: list[Mapping[str, Any]] = []
    for entry in present["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        if entry.get("manager") == names.FIELD_MANAGER:
            applied = fields if entry.get("operation") == _APPLY else applied
        elif entry.get("manager") != _ROLLOUT:
            foreign.append(fields)
    return applied, foreign


def _key(container: str) -> str:
    """Return how managed fields name a container."""
    return "k:" + json.dumps({"name": container}, separators=(",", ":"))


def _at(fields: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        fields = fields.get(key) or {}
    return fields
