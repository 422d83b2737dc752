"""What makes an API server pass requests for pending workloads on: a Service and APIServices.

While an APIService cannot be reached, the namespace controller deletes no namespace, whoever owns
it; so APIServices are put into a cluster on request only. See
docs/adr/0060-visibility-on-request.md.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from admission.base import names
from admission.insight.visibility import lists

Document = dict[str, Any]

SERVICE: Final = "gpu-admission-visibility"
PORT: Final = 443
_PRIORITY: Final = 100  # Source: kueue config/components/visibility, below that of CRDs


def host(namespace: str) -> str:
    """The name that the serving certificate must have; API servers check no other."""
    return f"{SERVICE}.{namespace}.svc"


def service(metadata: Document, ports: Mapping[str, int]) -> Document:
    """Reaches the controller's pods by their port ``visibility``.

    Args:
        metadata: whose labels are those of the pods.
        ports: of the pods, by name.
    """
    assert "visibility" in ports
    port = {"name": "visibility", "port": PORT, "protocol": "TCP", "targetPort": "visibility"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "ClusterIP", "selector": metadata["labels"], "ports": [port]},
    }


def outside(namespace: str, host_name: str) -> Document:
    """Reaches a controller outside the cluster, by a name or address that API servers can reach.

    An API server that was told to find pods by itself (``--enable-aggregator-routing``) does not
    follow it.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": host_name},
    }


def api_services(namespace: str, port: int, authority: bytes) -> list[Document]:
    """One APIService a version.

    Args:
        namespace: of the Service.
        port: of the Service.
        authority: PEM text of who signed the serving certificate; empty to accept any, as Kueue's
            own manifests do.
    """
    bundle = base64.b64encode(authority).decode()
    trust = {"caBundle": bundle} if bundle else {"insecureSkipTLSVerify": True}
    return [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{names.VISIBILITY_GROUP}"},
            "spec": {
                "group": names.VISIBILITY_GROUP,
                "version": version,
                "groupPriorityMinimum": _PRIORITY,
                "versionPriority": _PRIORITY,
                "service": {"namespace": namespace, "name": SERVICE, "port": port},
                **trust,
            },
        }
        for version in lists.VERSIONS
    ]
