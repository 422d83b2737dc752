"""CustomResourceDefinitions of the frameworks whose kinds are rows.

They have the names, the version and the status of the real ones, and keep every other field. The
environment variable OWNER_CRDS names a folder with the real ones to use in their place, each in a
file of its framework: ``OWNER_CRDS=/crds .venv/bin/pytest tests/integration/test_owners.py``.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from admission.objects.owner_rows import Row
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_AMOUNT: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_AMOUNTS: Final = {
    "xgboostjobs": "xgbReplicaSpecs.*.template.spec.containers.[].resources.requests.*",
}
"""Where the spec of a kind has quantities and its schema, as the real one, says so."""


def install(cluster: Cluster, *rows: Row) -> None:
    """Has a cluster serve the kinds of rows: all are made before it waits for one of them."""
    for row in rows:
        _make(cluster, row.group, row.version, row.kind, row.plural)
    for row in rows:
        _wait_served(cluster, row.group, row.version, row.kind, row.plural)


def install_kind(
    cluster: Cluster, group: str, version: str, kind: str, plural: str, scope: str = "Namespaced"
) -> None:
    """Has a cluster serve a kind."""
    _make(cluster, group, version, kind, plural, scope)
    _wait_served(cluster, group, version, kind, plural)


def _make(
    cluster: Cluster, group: str, version: str, kind: str, plural: str, scope: str = "Namespaced"
) -> None:
    real = _real(group, version, plural)
    cluster.api.post(_CRDS, real or definition(group, version, kind, plural, scope))


def _wait_served(cluster: Cluster, group: str, version: str, kind: str, plural: str) -> None:
    waiting.until(
        lambda: (
            plural in cluster.kinds(group).get(kind, {plural})
            and cluster.api.answers(f"/apis/{group}/{version}/{plural}")
        ),
        what=f"{kind} served",
    )


def _real(group: str, version: str, plural: str) -> dict[str, Any] | None:
    found = _reals(os.environ.get("OWNER_CRDS", "")).get(f"{plural}.{group}")
    for one in found["spec"]["versions"] if found else ():
        one["storage"] = one["name"] == version
    return found


@lru_cache(maxsize=1)
def _reals(folder: str) -> dict[str, dict[str, Any]]:
    """The real ones by name; they are read once, as each is up to a megabyte."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {
        document["metadata"]["name"]: document
        for path in (sorted(Path(folder).glob("*.yaml")) if folder else ())
        for document in yaml.load_all(path.read_text(), loader)
        if document
    }


def definition(
    group: str, version: str, kind: str, plural: str, scope: str = "Namespaced"
) -> dict[str, Any]:
    """A CustomResourceDefinition that takes anything."""
    spec = _with_amounts(_AMOUNTS[plural]) if plural in _AMOUNTS else _ANYTHING
    schema = {"type": "object", "properties": {"spec": spec, "status": _ANYTHING}}
    # A real CRD of these groups is approved or has none of the reserved suffixes.
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "scope": scope,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def _with_amounts(path: str) -> dict[str, Any]:
    """The schema of anything with quantities at a path."""
    found: dict[str, Any] = dict(_AMOUNT)
    for step in reversed(path.split(".")):
        if step == "[]":
            found = {"type": "array", "items": found}
        elif step == "*":
            found = {"type": "object", "additionalProperties": found}
        else:
            found = {**_ANYTHING, "properties": {step: found}}
    return found
