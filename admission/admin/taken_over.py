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
_AMOUNTS: Final = ("requests", "limits")


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
    fields = _applied_fields(present)
    if fields is None:
        return document
    changed = copy.deepcopy(document)
    if "f:replicas" not in fields.get("f:spec", {}) and "replicas" in present["spec"]:
        changed["spec"].pop("replicas", None)
    containers = _at(fields, "f:spec", "f:template", "f:spec", "f:containers")
    for container in changed["spec"]["template"]["spec"]["containers"]:
        key = "k:" + json.dumps({"name": container["name"]}, separators=(",", ":"))
        of_container = _at(containers, key, "f:resources")
        live = _resources_of(present, container["name"])
        for part in _AMOUNTS:
            amounts = container.get("resources", {}).get(part, {})
            for resource_name in list(amounts):
                is_ours = f"f:{resource_name}" in _at(of_container, f"f:{part}")
                if not is_ours and resource_name in live.get(part, {}):
                    del amounts[resource_name]
            if part in container.get("resources", {}) and not amounts:
                del container["resources"][part]
    return changed


def _applied_fields(present: Document) -> Mapping[str, Any] | None:
    """Return the fields that we have applied and nobody has set since; None for never applied."""
    for entry in present["metadata"].get("managedFields") or ():
        if entry.get("manager") == names.FIELD_MANAGER and entry.get("operation") == _APPLY:
            fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
            return fields
    return None


def _at(fields: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        fields = fields.get(key) or {}
    return fields


def _resources_of(present: Document, name: str) -> Mapping[str, Any]:
    """Return the resources of a container of a Deployment."""
    containers = present["spec"]["template"]["spec"]["containers"]
    container: Mapping[str, Any] = next((each for each in containers if each["name"] == name), {})
    amounts: Mapping[str, Any] = container.get("resources") or {}
    return amounts
