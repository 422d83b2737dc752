"""How a process reaches its API server."""

from dataclasses import dataclass

from admission.kube import client
from admission.kube.client import Client


@dataclass(frozen=True, slots=True)
class Target:
    """An API server to connect to.

    Attributes:
        kubeconfig: path; None for ``$KUBECONFIG``, ``~/.kube/config`` or the pod's own account.
    """

    kubeconfig: str | None

    def connect(
        self,
        *,
        connections: int,
        timeout_seconds: float,
        silence_seconds: float = client.SILENCE_SECONDS,
    ) -> Client:
        """A client that keeps up to that many connections open.

        Args:
            connections: kept open; each watch holds one.
            timeout_seconds: bound on one request.
            silence_seconds: how long a watch may say nothing.

        Raises:
            KubeError: the kubeconfig cannot be read or used.
        """
        return Client.connect(
            self.kubeconfig,
            connections=connections,
            timeout_seconds=timeout_seconds,
            silence_seconds=silence_seconds,
        )
