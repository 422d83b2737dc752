"""What kubectl asks an API server before it asks for objects: versions, groups, resources.

Source: k8s.io/apimachinery meta/v1 (APIVersions, APIGroupList, APIResourceList);
k8s.io/cli-runtime pkg/resource/query_param_verifier_v3.go: kubectl leaves validation to a server
whose OpenAPI lists the parameter ``fieldValidation`` for a kind's patch.
"""

import platform
from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.kube.resources import Resource
from admission.objects import kinds

_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SHORT_NAMES: Final = {
    "configmaps": ["cm"],
    "customresourcedefinitions": ["crd", "crds"],
    "deployments": ["deploy"],
    "limitranges": ["limits"],
    "namespaces": ["ns"],
    "nodes": ["no"],
    "pods": ["po"],
    "priorityclasses": ["pc"],
    "resourcequotas": ["quota"],
    "serviceaccounts": ["sa"],
    "services": ["svc"],
    **{kind.plural: list(kind.short_names) for kind in kinds.KINDS},
}
_IN_ALL: Final = frozenset({"deployments", "jobs", "pods", "replicasets", "services"})
_MINOR: Final = "36"


def documents(resources: Iterable[Resource]) -> Mapping[str, dict[str, Any]]:
    """Return everything that is said about what is served, by path."""
    by_version: dict[str, list[Resource]] = {}
    for resource in resources:
        by_version.setdefault(resource.api_version, []).append(resource)
    groups = {
        resource.group: resource
        for listed in by_version.values()
        for resource in listed
        if resource.group
    }
    paths: dict[str, dict[str, Any]] = {
        "/version": _version(),
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(resource) for _, resource in sorted(groups.items())],
        },
        "/openapi/v3": {
            "paths": {
                _root(version): {"serverRelativeURL": f"/openapi/v3/{_root(version)}"}
                for version in by_version
            }
        },
    }
    for name, resource in groups.items():
        paths[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(resource)}
    for version, listed in by_version.items():
        paths[f"/{_root(version)}"] = _resources(version, listed)
        paths[f"/openapi/v3/{_root(version)}"] = _openapi(listed)
    return paths


def _version() -> dict[str, Any]:
    return {
        "major": "1",
        "minor": _MINOR,
        "gitVersion": f"v1.{_MINOR}.0+gpu-admission-embedded",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _root(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _group(resource: Resource) -> dict[str, Any]:
    version = {"groupVersion": resource.api_version, "version": resource.version}
    return {"name": resource.group, "versions": [version], "preferredVersion": version}


def _resources(api_version: str, listed: Iterable[Resource]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": [
            {
                "name": resource.plural,
                "singularName": resource.kind.lower(),
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": _VERBS,
                "shortNames": _SHORT_NAMES.get(resource.plural, []),
                "categories": ["all"] if resource.plural in _IN_ALL else [],
            }
            for resource in listed
        ],
    }


def _openapi(listed: Iterable[Resource]) -> dict[str, Any]:
    """No schemas: only that the server, not kubectl, judges fields."""
    validation = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    return {
        "openapi": "3.0.0",
        "info": {"title": "embedded store", "version": f"v1.{_MINOR}"},
        "paths": {
            resource.path("{namespace}" if resource.namespaced else "", "{name}"): {
                "patch": {
                    "parameters": [validation],
                    "responses": {},
                    "x-kubernetes-group-version-kind": {
                        "group": resource.group,
                        "version": resource.version,
                        "kind": resource.kind,
                    },
                }
            }
            for resource in listed
        },
    }
