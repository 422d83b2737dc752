"""Where the API server is and who we are: from a kubeconfig or from the pod that we run in."""

import functools
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import urllib3

from admission.base.clock import SystemClock
from admission.kube import kubeconfig as kubeconfigs
from admission.kube.kubeconfig import Plain

_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_DEFAULT_NAMESPACE: Final = "default"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TLS: Final = (
    "assert_fingerprint", "assert_hostname", "ca_cert_dir", "ca_certs", "cert_file", "cert_reqs",
    "key_file", "key_password", "ssl_maximum_version", "ssl_minimum_version", "ssl_version",
)  # fmt: skip
"""What a pool of TLS connections gives each of them besides its own arguments."""
_IDLE_OPTION: Final = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"
_KEEP_ALIVE: Final = ((_IDLE_OPTION, 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9))
"""How the kernel finds out that a server is gone: seconds, seconds, attempts."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Endpoint:
    """A ready connection pool and what goes with each request.

    Attributes:
        pool: connections to the server, with its CA and our client certificate.
        connect: makes a connection of its own like those of the pool, within so many seconds;
            None where a proxy stands between.
        connections: how many are to be kept open.
        prefix: path before every request's own, empty for most servers.
        authorization: gives the current ``Authorization`` header, refreshed as needed; None where
            the client certificate suffices. Never log what it returns.
    """

    pool: urllib3.HTTPConnectionPool
    connect: Callable[[float], socket.socket] | None
    connections: int
    prefix: str
    authorization: Callable[[], str | None]


def load(
    kubeconfig: str | None = None, *, context: str | None = None, connections: int
) -> Endpoint:
    """Find the server and our credentials.

    Args:
        kubeconfig: path of a kubeconfig. None takes the service account of the pod that we run
            in, and outside of a cluster what kubectl would take (``KUBECONFIG``, home folder).
        context: context of the kubeconfig; None for its current one.
        connections: connections that are kept open; each watch holds one, each writer another.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
    """
    if kubeconfig is None and os.environ.get(_IN_CLUSTER):
        return _packaged(None, None, connections, in_cluster=True)
    plain = None if _proxied() else kubeconfigs.read(kubeconfig, context)
    if plain is None:
        return _packaged(kubeconfig, context, connections, in_cluster=False)
    header = None if plain.token is None else f"Bearer {plain.token}".strip()
    return _endpoint(_pool(plain, connections), plain.server, connections, lambda: header)


def namespace(kubeconfig: str | None = None, *, context: str | None = None) -> str:
    """Return the namespace if none is named: that of the context, else ``default``.

    Args:
        kubeconfig: as for `load`.
        context: as for `load`.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    if kubeconfig is None and os.environ.get(_IN_CLUSTER):
        return _own_namespace()
    plain = kubeconfigs.read(kubeconfig, context)
    if plain is not None:
        return plain.namespace or _DEFAULT_NAMESPACE
    from admission.kube import packaged  # noqa: PLC0415 - slow to import

    return packaged.namespace(kubeconfig, context) or _DEFAULT_NAMESPACE


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text("utf-8").strip() or _DEFAULT_NAMESPACE
    except OSError:
        return _DEFAULT_NAMESPACE


def _packaged(
    kubeconfig: str | None, context: str | None, connections: int, *, in_cluster: bool
) -> Endpoint:
    from admission.kube import packaged  # noqa: PLC0415 - slow to import

    found = packaged.in_cluster() if in_cluster else packaged.from_kubeconfig(kubeconfig, context)
    pool = packaged.pool(found, connections)
    authorization = packaged.Authorization(found, SystemClock())
    return _endpoint(pool, found.host, connections, authorization)


def _proxied() -> bool:
    """Return whether the environment names a proxy, which the package knows how to use."""
    return any(name.lower().endswith("_proxy") and os.environ[name] for name in os.environ)


def _pool(plain: Plain, connections: int) -> urllib3.HTTPConnectionPool:
    given: dict[str, Any] = {"server_hostname": plain.server_name} if plain.server_name else {}
    manager = urllib3.PoolManager(
        maxsize=connections,
        cert_reqs=ssl.CERT_REQUIRED if plain.verify else ssl.CERT_NONE,
        ca_certs=plain.ca_file,
        cert_file=plain.cert_file,
        key_file=plain.key_file,
        ca_cert_data=None,
        socket_options=_socket_options(),
        **given,
    )
    return manager.connection_from_url(plain.server)


def _socket_options() -> list[tuple[int, int, int]]:
    """A half-open connection is noticed by the kernel, also where nobody reads."""
    options = list(urllib3.connection.HTTPConnection.default_socket_options)
    options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _endpoint(
    pool: urllib3.HTTPConnectionPool,
    server: str,
    connections: int,
    authorization: Callable[[], str | None],
) -> Endpoint:
    return Endpoint(
        pool=pool,
        connect=functools.partial(_connected, pool) if pool.proxy is None else None,
        connections=connections,
        prefix=(urllib3.util.parse_url(server).path or "").rstrip("/"),
        authorization=authorization,
    )


def _connected(pool: urllib3.HTTPConnectionPool, seconds: float) -> socket.socket:
    """A new connection as the pool would make it: verified, with our client certificate.

    Files are read anew each time, so a rotated certificate is taken up.

    Raises:
        HTTPError, OSError: no connection; nothing was sent on it.
    """
    given: dict[str, Any] = {"host": pool.host, "port": pool.port, **pool.conn_kw}
    if isinstance(pool, urllib3.HTTPSConnectionPool):
        given |= {name: getattr(pool, name) for name in _TLS}
    connection = pool.ConnectionCls(timeout=seconds, **given)
    assert isinstance(connection, urllib3.connection.HTTPConnection)
    connection.connect()
    return connection.sock
