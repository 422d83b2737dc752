"""CustomResourceDefinitions of the frameworks whose kinds are rows.

They have the names, the version and the status of the real ones, and keep every other field. The
environment variable OWNER_CRDS names a folder with the real ones to use in their place, each in a
file of its framework: ``OWNER_CRDS=/crds .venv/bin/pytest tests/integration/test_owners.py``.
"""

import os
from pathlib import Path
from typing import Any, Final

import yaml

from admission.objects.owner_rows import Row
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def install(cluster: Cluster, row: Row) -> None:
    """Has a cluster serve the kind of a row."""
    cluster.api.post(_CRDS, _real(row) or _made(row))
    waiting.until(
        lambda: (
            row.plural in cluster.kinds(row.group).get(row.kind, {row.plural})
            and cluster.api.answers(f"/apis/{row.api_version}/{row.plural}")
        ),
        what=f"{row.kind} served",
    )


def _real(row: Row) -> dict[str, Any] | None:
    folder = os.environ.get("OWNER_CRDS")
    for path in sorted(Path(folder).glob("*.yaml")) if folder else ():
        for document in yaml.safe_load_all(path.read_text()):
            if document and document["metadata"]["name"] == f"{row.plural}.{row.group}":
                found: dict[str, Any] = document
                for version in found["spec"]["versions"]:
                    version["storage"] = version["name"] == row.version
                return found
    return None


def _made(row: Row) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
    # A real CRD of these groups is approved or has none of the reserved suffixes.
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{row.plural}.{row.group}", "annotations": approved},
        "spec": {
            "group": row.group,
            "names": {
                "kind": row.kind,
                "listKind": f"{row.kind}List",
                "plural": row.plural,
                "singular": row.kind.lower(),
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": row.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
