"""What is there in a cluster, so that a test can say that nothing has changed."""

from admission.kube import resources
from admission.kube.api import Api, every_served

_BY_ITSELF = frozenset({resources.EVENTS, resources.LEASES, resources.NODES})
"""Kinds of which a cluster writes objects by itself."""


def everything(api: Api) -> dict[str, str]:
    """Versions of all objects, by kind, namespace and name."""
    return {
        f"{resource.kind}/{metadata.get('namespace', '')}/{metadata['name']}": metadata[
            "resourceVersion"
        ]
        for resource in dict.fromkeys((*resources.BUILT_IN, *resources.CUSTOM))
        if resource not in _BY_ITSELF
        for metadata in (each["metadata"] for each in every_served(api, resource))
    }
