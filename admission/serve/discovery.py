"""What an API server and its clients ask before they ask for lists: which resources there are.

Source: k8s.io/api apidiscovery/v2, k8s.io/apimachinery meta/v1 (APIGroupList, APIResourceList),
kueue pkg/visibility/storage: the queues themselves are named, but can do nothing.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from admission.base import names
from admission.kube import resources as kinds
from admission.serve import lists

GROUP: Final = names.VISIBILITY_GROUP
SUBRESOURCE: Final = "pendingworkloads"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_TITLE: Final = "gpu-admission visibility"
_QUEUES: Final = (("clusterqueues", "clusterqueue", False), ("localqueues", "localqueue", True))
_USAGE: Final = kinds.USAGE_RECORDS
_USAGE_LIST: Final = f"{_USAGE.kind}List"
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "format": "int64"}
_POSITION: Final = {"type": "integer", "format": "int32"}


def groups() -> dict[str, Any]:
    """Return the document of ``/apis``."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def group() -> dict[str, Any]:
    """Return the document of ``/apis/GROUP``."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def resources(version: str) -> dict[str, Any]:
    """Return the document of ``/apis/GROUP/VERSION``."""
    listed: list[dict[str, Any]] = []
    for plural, singular, namespaced in _QUEUES:
        common = {"namespaced": namespaced, "kind": lists.KIND}
        listed += (
            {"name": plural, "singularName": singular, **common, "verbs": []},
            {"name": f"{plural}/{SUBRESOURCE}", "singularName": "", **common, "verbs": ["get"]},
        )
    listed.append(
        {
            "name": _USAGE.plural,
            "singularName": _USAGE.kind.lower(),
            "namespaced": True,
            "kind": _USAGE.kind,
            "verbs": ["list"],
        }
    )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": listed,
    }


def aggregated() -> dict[str, Any]:
    """Return the document of ``/apis`` for those who accept everything at once."""
    versions = [
        {"version": version, "freshness": "Current", "resources": _aggregated_resources(version)}
        for version in lists.VERSIONS
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{"metadata": {"name": GROUP}, "versions": versions}],
    }


def accepts_aggregated(accept: str) -> bool:
    """Return whether a header ``Accept`` names the aggregated form in its version v2."""
    parts = set(AGGREGATED.split(";"))
    return any(parts <= {part.strip() for part in media.split(";")} for media in accept.split(","))


def openapi_v2() -> dict[str, Any]:
    """Return the document of ``/openapi/v2``."""
    paths: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for version in lists.VERSIONS:
        paths |= _paths(version, _swagger_operation)
        definitions |= _schemas(version, "#/definitions/")
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": lists.VERSIONS[0]},
        "paths": paths,
        "definitions": definitions,
    }


def openapi_v3() -> dict[str, Any]:
    """Return the document of ``/openapi/v3``: where the document of each version is."""
    paths = {}
    for version in lists.VERSIONS:
        digest = hashlib.sha256(msgspec.json.encode(openapi_v3_of(version))).hexdigest()
        path = f"apis/{GROUP}/{version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest.upper()}"}
    return {"paths": paths}


def openapi_v3_of(version: str) -> dict[str, Any]:
    """Return the document of one version."""
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": version},
        "paths": _paths(version, _operation),
        "components": {"schemas": _schemas(version, "#/components/schemas/")},
    }


# ----------------------------------------------------------------------------------------- parts


def _group() -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{GROUP}/{version}", "version": version} for version in lists.VERSIONS
    ]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _aggregated_resources(version: str) -> list[dict[str, Any]]:
    answer = {"group": GROUP, "version": version, "kind": lists.KIND}
    return [
        {
            "resource": plural,
            "responseKind": answer,
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": singular,
            "verbs": [],
            "subresources": [
                {"subresource": SUBRESOURCE, "responseKind": answer, "verbs": ["get"]}
            ],
        }
        for plural, singular, namespaced in _QUEUES
    ] + [
        {
            "resource": _USAGE.plural,
            "responseKind": {"group": GROUP, "version": version, "kind": _USAGE.kind},
            "scope": "Namespaced",
            "singularResource": _USAGE.kind.lower(),
            "verbs": ["list"],
        }
    ]


class _ReadablePath(NamedTuple):
    """What is described of a path that can be read.

    Attributes:
        path: of the API, with parameters in braces.
        parameters: in the path.
        query: names and types of those in the query.
        description: a sentence.
        name: last part of the operation's id.
        action: as Kubernetes calls it.
        kind: of the objects.
        answer: kind of the answer.
    """

    path: str
    parameters: tuple[str, ...]
    query: tuple[tuple[str, dict[str, str]], ...]
    description: str
    name: str
    action: str
    kind: str
    answer: str


def _reads(version: str) -> Iterator[_ReadablePath]:
    root = f"/apis/{GROUP}/{version}"
    for plural, singular, namespaced in _QUEUES:
        scope = "namespaces/{namespace}/" if namespaced else ""
        yield _ReadablePath(
            path=f"{root}/{scope}{plural}/{{name}}/{SUBRESOURCE}",
            parameters=("namespace", "name") if namespaced else ("name",),
            query=(("limit", _NUMBER), ("offset", _NUMBER)),
            description=f"Workloads that wait in a {singular}, in the order of their positions.",
            name=f"{singular.capitalize()}Pending",
            action="get",
            kind=lists.KIND,
            answer=lists.KIND,
        )
    yield _ReadablePath(
        path=f"{root}/namespaces/{{namespace}}/{_USAGE.plural}",
        parameters=("namespace",),
        query=(("limit", _NUMBER), ("continue", _TEXT)),
        description="The GPU-time of a namespace, a record for each hour or day.",
        name=_USAGE.kind,
        action="list",
        kind=_USAGE.kind,
        answer=_USAGE_LIST,
    )


def _paths(
    version: str, operation: Callable[[str, _ReadablePath], dict[str, Any]]
) -> dict[str, Any]:
    return {read.path: {"get": operation(version, read)} for read in _reads(version)}


def _common(version: str, read: _ReadablePath) -> dict[str, Any]:
    return {
        "description": read.description,
        "operationId": f"readVisibility{version.capitalize()}{read.name}",
        "x-kubernetes-action": read.action,
        "x-kubernetes-group-version-kind": _gvk(version, read.kind),
    }


def _swagger_operation(version: str, read: _ReadablePath) -> dict[str, Any]:
    in_query = [{"name": name, "in": "query", **form} for name, form in read.query]
    in_path = [
        {"name": name, "in": "path", "required": True, "type": "string"}
        for name in read.parameters
    ]
    schema = {"$ref": f"#/definitions/{_schema_name(version, read.answer)}"}
    return {
        **_common(version, read),
        "produces": ["application/json"],
        "parameters": [*in_path, *in_query],
        "responses": {"200": {"description": "OK", "schema": schema}},
    }


def _operation(version: str, read: _ReadablePath) -> dict[str, Any]:
    in_query = [{"name": name, "in": "query", "schema": form} for name, form in read.query]
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in read.parameters
    ]
    schema = {"$ref": f"#/components/schemas/{_schema_name(version, read.answer)}"}
    content = {"application/json": {"schema": schema}}
    return {
        **_common(version, read),
        "parameters": [*in_path, *in_query],
        "responses": {"200": {"description": "OK", "content": content}},
    }


def _schema_name(version: str, kind: str) -> str:
    return f"io.x-k8s.kueue.visibility.{version}.{kind}"


def _gvk(version: str, kind: str) -> dict[str, str]:
    return {"group": GROUP, "version": version, "kind": kind}


def _schemas(version: str, at: str) -> dict[str, Any]:
    metadata = {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "namespace": _TEXT,
            "creationTimestamp": {"type": "string", "format": "date-time"},
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
                },
            },
        },
    }
    workload = {
        "description": "A Workload that waits, and its places in line, counted from 0.",
        "type": "object",
        "required": [
            "priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"
        ],
        "properties": {
            "metadata": metadata,
            "priority": _POSITION,
            "localQueueName": _TEXT,
            "positionInClusterQueue": _POSITION,
            "positionInLocalQueue": _POSITION,
        },
    }  # fmt: skip
    item = _schema_name(version, "PendingWorkload")
    summary = {
        "description": "Workloads that wait in a queue, in the order in which they are tried.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": {"$ref": f"{at}{item}"}},
        },
        "x-kubernetes-group-version-kind": [_gvk(version, lists.KIND)],
    }
    return {
        item: workload,
        _schema_name(version, lists.KIND): summary,
        **_usage_schemas(version, at),
    }


def _usage_schemas(version: str, at: str) -> dict[str, Any]:
    head = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}}
    record = {
        "description": "The rows of a namespace in the record of an hour or a day.",
        "type": "object",
        "properties": {
            **head,
            "data": {"type": "object", "additionalProperties": _TEXT},
        },
        "x-kubernetes-group-version-kind": [_gvk(version, _USAGE.kind)],
    }
    item = _schema_name(version, _USAGE.kind)
    page = {
        "description": "Records of GPU-time in the order of their names.",
        "type": "object",
        "required": ["items"],
        "properties": {**head, "items": {"type": "array", "items": {"$ref": f"{at}{item}"}}},
        "x-kubernetes-group-version-kind": [_gvk(version, _USAGE_LIST)],
    }
    return {item: record, _schema_name(version, _USAGE_LIST): page}
