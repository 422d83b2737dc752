"""How a process reaches its API server."""

from dataclasses import dataclass

from admission.kube import client, credentials
from admission.kube.client import Client
from admission.kube.impersonation import Identity


@dataclass(frozen=True, slots=True)
class ApiServerTarget:
    """An API server to connect to.

    Attributes:
        kubeconfig: path; None for ``$KUBECONFIG``, ``~/.kube/config`` or the pod's own account.
        context: context of the kubeconfig; None for its current one.
        identity: whom we act as; None for whom the kubeconfig says.
    """

    kubeconfig: str | None
    context: str | None = None
    identity: Identity | None = None

    def namespace(self) -> str:
        """Return the namespace that is meant where none is named.

        Raises:
            KubeError: the kubeconfig cannot be read or used.
        """
        return credentials.namespace(self.kubeconfig, context=self.context)

    def place(self) -> str:
        """Return which cluster is meant: the context, and the URL of the API server.

        Raises:
            KubeError: the kubeconfig cannot be read or used.
        """
        place = credentials.place(self.kubeconfig, context=self.context)
        return place if self.identity is None else f"{place} as {self.identity.user}"

    def check(self) -> None:
        """Read the kubeconfig, and ask no server.

        Raises:
            KubeError: the kubeconfig cannot be read or used.
        """
        credentials.load(self.kubeconfig, context=self.context, connections=1)

    def connect(
        self,
        *,
        connections: int,
        timeout_seconds: float,
        silence_seconds: float = client.SILENCE_SECONDS,
    ) -> Client:
        """Return a client that keeps up to that many connections open.

        Args:
            connections: kept open; each watch holds one.
            timeout_seconds: bound on one request.
            silence_seconds: how long a watch may say nothing.

        Raises:
            KubeError: the kubeconfig cannot be read or used.
        """
        return Client.connect(
            self.kubeconfig,
            context=self.context,
            identity=self.identity,
            connections=connections,
            timeout_seconds=timeout_seconds,
            silence_seconds=silence_seconds,
        )
