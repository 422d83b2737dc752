"""What makes an API server pass requests for pending workloads on: a Service and APIServices.

While an APIService cannot be reached, the namespace controller deletes no namespace, whoever owns
it; so APIServices are put into a cluster on request only. See
docs/adr/0060-visibility-on-request.md.
"""

import base64
from typing import Final

from admission.admin import rendering
from admission.admin.rendering import Document
from admission.installed import serving_certificate

SERVICE: Final = serving_certificate.VISIBILITY_SERVICE
PORT: Final = 443


def outside(namespace: str, host_name: str) -> Document:
    """Return the Service that leads to a controller outside the cluster.

    Args:
        namespace: of the Service.
        host_name: a name or address that API servers can reach.
    """
    (document,) = rendering.documents("visibility-outside", namespace=namespace, host=host_name)
    return document


def api_services(namespace: str, port: int, authority: bytes) -> list[Document]:
    """Return one APIService a version.

    Args:
        namespace: of the Service.
        port: of the Service.
        authority: PEM text of who signed the serving certificate; empty to accept any, as Kueue's
            own manifests do.
    """
    bundle = base64.b64encode(authority).decode()
    trust = {"caBundle": bundle} if bundle else {"insecureSkipTLSVerify": True}
    documents = rendering.documents("visibility", namespace=namespace, port=port)
    for document in documents:
        document["spec"] |= trust
    return documents
