"""Where the API server is and who we are: from a kubeconfig or from the pod that we run in."""

import functools
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import kubernetes.config
import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException

from admission.base.clock import Clock, SystemClock
from admission.kube import errors

_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_HEADER_SECONDS: Final = 5.0
_DEFAULT_NAMESPACE: Final = "default"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_UNUSABLE: Final = (ConfigException, OSError, ValueError, KeyError, TypeError, yaml.YAMLError)
_TLS: Final = (
    "assert_fingerprint", "assert_hostname", "ca_cert_dir", "ca_certs", "cert_file", "cert_reqs",
    "key_file", "key_password", "ssl_maximum_version", "ssl_minimum_version", "ssl_version",
)  # fmt: skip
"""What a pool of TLS connections gives each of them besides its own arguments."""


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
    """Finds the server and our credentials.

    Args:
        kubeconfig: path of a kubeconfig. None takes the service account of the pod that we run
            in, and outside of a cluster what kubectl would take (``KUBECONFIG``, home folder).
        context: context of the kubeconfig; None for its current one.
        connections: connections that are kept open; each watch holds one, each writer another.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None and os.environ.get(_IN_CLUSTER):
            kubernetes.config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
    except _UNUSABLE as error:
        source = kubeconfig or "the pod's service account or the default kubeconfig"
        raise errors.ConfigurationError(
            f"no access to an API server from {source}: {_in_one_line(error)}"
        ) from error
    return _endpoint(configuration, connections)


def namespace(kubeconfig: str | None = None, *, context: str | None = None) -> str:
    """The namespace that is meant where none is named; that of the context, else ``default``.

    Args:
        kubeconfig: as for `load`.
        context: as for `load`.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    if kubeconfig is None and os.environ.get(_IN_CLUSTER):
        return _own_namespace()
    try:
        contexts, current = kubernetes.config.list_kube_config_contexts(  # type: ignore[no-untyped-call]
            config_file=kubeconfig
        )
    except _UNUSABLE as error:
        raise errors.ConfigurationError(f"no kubeconfig: {_in_one_line(error)}") from error
    found = next((one for one in contexts if one["name"] == context), current)
    return str((found.get("context") or {}).get("namespace") or _DEFAULT_NAMESPACE)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text("utf-8").strip() or _DEFAULT_NAMESPACE
    except OSError:
        return _DEFAULT_NAMESPACE


def _endpoint(configuration: Configuration, connections: int) -> Endpoint:
    configuration.connection_pool_maxsize = connections
    # A half-open connection is noticed by the kernel, also where nobody reads.
    configuration.keep_alive = True
    url = urllib3.util.parse_url(configuration.host)
    manager = RESTClientObject(configuration).pool_manager
    pool = manager.connection_from_url(configuration.host)
    return Endpoint(
        pool=pool,
        connect=functools.partial(_connected, pool) if pool.proxy is None else None,
        connections=connections,
        prefix=(url.path or "").rstrip("/"),
        authorization=_Authorization(configuration, SystemClock()),
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


class _Authorization:
    """The ``Authorization`` header, asked of the package at most every few seconds.

    Asking costs more than a request's encoding: the package sets the whole configuration anew.
    """

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self._configuration = configuration
        self._clock = clock
        self._lock = threading.Lock()
        self._header: str | None = None
        self._good_until = clock.monotonic()

    def __call__(self) -> str | None:
        with self._lock:
            if self._clock.monotonic() >= self._good_until:
                self._header = self._current()
                self._good_until = self._clock.monotonic() + _HEADER_SECONDS
            return self._header

    def _current(self) -> str | None:
        try:
            found = self._configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
        except (ConfigException, OSError, ValueError) as error:
            # Nothing of the credentials may end up in the message.
            kind = type(error).__name__
            raise errors.TransportError(f"the credentials cannot be refreshed ({kind})") from None
        # The package keeps the line end of a token file.
        return found.strip() if found else None
