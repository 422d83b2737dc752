"""Where the API server is and who we are: from a kubeconfig or from the pod that we run in."""

import dataclasses
import functools
import ipaddress
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final
from urllib.request import getproxies_environment, proxy_bypass

import urllib3

from admission.base.clock import SystemClock
from admission.kube import credential_plugin, errors, service_account
from admission.kube import kubeconfig as kubeconfigs
from admission.kube.impersonation import Identity
from admission.kube.kubeconfig import Plain

DEFAULT_NAMESPACE: Final = "default"
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
        identity: whom requests act as; None for ourselves.
    """

    pool: urllib3.HTTPConnectionPool
    connect: Callable[[float], socket.socket] | None
    connections: int
    prefix: str
    authorization: Callable[[], str | None]
    identity: Identity | None = None


def load(
    kubeconfig: str | None = None,
    *,
    context: str | None = None,
    identity: Identity | None = None,
    connections: int,
) -> Endpoint:
    """Find the server and our credentials.

    Args:
        kubeconfig: path of a kubeconfig. None takes the service account of the pod that we run
            in, and outside of a cluster what kubectl would take (``KUBECONFIG``, home folder).
        context: context of the kubeconfig; None for its current one.
        identity: whom requests act as; None for whom the kubeconfig says.
        connections: connections that are kept open; each watch holds one, each writer another.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
    """
    endpoint = _signed_in_endpoint(kubeconfig, context, connections)
    return endpoint if identity is None else dataclasses.replace(endpoint, identity=identity)


def _signed_in_endpoint(kubeconfig: str | None, context: str | None, connections: int) -> Endpoint:
    authorization: Callable[[], str | None]
    if kubeconfig is None and service_account.is_here():
        plain = service_account.read()
        authorization = service_account.TokenFileAuthorization(SystemClock())
        return _endpoint(_pool(plain, connections), plain.server, connections, authorization)
    credentials_ = kubeconfigs.read(kubeconfig, context)
    if credentials_ is None:
        return _packaged(kubeconfig, context, connections)
    authorization, access = _signed_in(credentials_)
    endpoint = _endpoint(
        _pool(access, connections), credentials_.server, connections, authorization
    )
    return dataclasses.replace(endpoint, identity=credentials_.identity)


def _signed_in(plain: Plain) -> tuple[Callable[[], str | None], Plain]:
    """Return what gives the ``Authorization`` header, and the access with client certificates.

    Of several ways the first counts that client-go prefers: token file, token, password, plugin.

    Raises:
        ConfigurationError: a file cannot be read, or a plugin gives no credentials.
    """
    if plain.token_file is not None:
        source = "the token file of the kubeconfig"
        aging = service_account.TokenFileAuthorization(SystemClock(), plain.token_file, source)
        return aging, plain
    if plain.token is not None:
        header = f"Bearer {plain.token}".strip()
        return lambda: header, plain
    if plain.login is not None:
        basic = urllib3.make_headers(basic_auth=":".join(plain.login))["authorization"]
        return lambda: basic, plain
    if plain.plugin is None or plain.cert_file is not None:
        return lambda: None, plain
    authorization = credential_plugin.PluginAuthorization(plain.plugin, SystemClock())
    certificate, key = authorization.credential.certificate, authorization.credential.key
    if certificate is None or key is None:
        return authorization, plain
    access = dataclasses.replace(
        plain,
        cert_file=kubeconfigs.written(certificate.encode()),
        key_file=kubeconfigs.written(key.encode()),
    )
    return authorization, access


def namespace(kubeconfig: str | None = None, *, context: str | None = None) -> str:
    """Return the namespace if none is named: that of the context, else ``default``.

    Args:
        kubeconfig: as for `load`.
        context: as for `load`.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    if kubeconfig is None and service_account.is_here():
        return service_account.namespace() or DEFAULT_NAMESPACE
    plain = kubeconfigs.read(kubeconfig, context)
    if plain is not None:
        return plain.namespace or DEFAULT_NAMESPACE
    return _package(kubeconfig, context).namespace(kubeconfig, context) or DEFAULT_NAMESPACE


def place(kubeconfig: str | None = None, *, context: str | None = None) -> str:
    """Return which cluster is meant: the context, and the URL of the API server.

    Args:
        kubeconfig: as for `load`.
        context: as for `load`.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    if kubeconfig is None and service_account.is_here():
        return f"that of this pod ({service_account.read().server})"
    plain = kubeconfigs.read(kubeconfig, context)
    if plain is not None:
        return f"{plain.context} ({plain.server})"
    packaged = _package(kubeconfig, context)
    server = packaged.from_kubeconfig(kubeconfig, context).host
    return f"{packaged.context_name(kubeconfig, context)} ({server})"


def _package(kubeconfig: str | None, context: str | None) -> ModuleType:
    """Return the module that asks the package ``kubernetes`` what we do not read.

    Raises:
        ConfigurationError: the package is not installed, as in an image.
    """
    try:
        from admission.kube import packaged  # noqa: PLC0415 - slow to import
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kubernetes":
            raise
        source = kubeconfig or "the default kubeconfig"
        raise errors.KubeConfigurationError(
            f"no access to an API server from {source}: {kubeconfigs.problem(kubeconfig, context)}"
        ) from None
    return packaged


def _packaged(kubeconfig: str | None, context: str | None, connections: int) -> Endpoint:
    packaged = _package(kubeconfig, context)
    packaged_ = packaged.from_kubeconfig(kubeconfig, context)
    pool = packaged.pool(packaged_, connections)
    authorization = packaged.PackagedAuthorization(packaged_, SystemClock())
    return _endpoint(pool, packaged_.host, connections, authorization)


def _pool(plain: Plain, connections: int) -> urllib3.HTTPConnectionPool:
    options_: dict[str, Any] = {"server_hostname": plain.server_name} if plain.server_name else {}
    manager = _manager(plain.proxy or _proxy(plain.server))(
        maxsize=connections,
        cert_reqs=ssl.CERT_REQUIRED if plain.verify else ssl.CERT_NONE,
        ca_certs=plain.ca_file,
        cert_file=plain.cert_file,
        key_file=plain.key_file,
        ca_cert_data=None,
        socket_options=_socket_options(),
        **options_,
    )
    return manager.connection_from_url(plain.server)


def _manager(proxy: str | None) -> Callable[..., urllib3.PoolManager]:
    """Return what makes pools of connections, through a proxy if there is one.

    Raises:
        ConfigurationError: the proxy is of another kind than HTTP, or its URL cannot be read.
    """
    if proxy is None:
        return urllib3.PoolManager
    if "://" not in proxy:
        proxy = f"http://{proxy}"  # as Go reads it
    try:
        url = urllib3.util.parse_url(proxy)
    except urllib3.exceptions.LocationParseError:
        # The text of the error has the URL, which may have a password.
        raise errors.KubeConfigurationError("the URL of the proxy cannot be read") from None
    if url.scheme not in {"http", "https"}:
        raise errors.KubeConfigurationError(
            f"the proxy {url.scheme}://{url.host} is of another kind; only http and https work"
        )
    headers = urllib3.make_headers(proxy_basic_auth=url.auth) if url.auth else None
    return functools.partial(urllib3.ProxyManager, proxy, proxy_headers=headers)


def _proxy(server: str) -> str | None:
    """Return the URL of the proxy that the environment has for a server; None for none.

    Networks in ``NO_PROXY`` count, as for kubectl.
    """
    url, proxies = urllib3.util.parse_url(server), getproxies_environment()
    proxy, host = proxies.get(url.scheme or ""), (url.host or "").strip("[]")
    if not proxy or proxy_bypass(host) or proxy_bypass(url.netloc or ""):
        return None
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        for excluded in proxies.get("no", "").split(","):
            with suppress(ValueError):
                if address in ipaddress.ip_network(excluded.strip(), strict=False):
                    return None
    return proxy


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
    pool_options: dict[str, Any] = {"host": pool.host, "port": pool.port, **pool.conn_kw}
    if isinstance(pool, urllib3.HTTPSConnectionPool):
        pool_options |= {name: getattr(pool, name) for name in _TLS}
    connection = pool.ConnectionCls(timeout=seconds, **pool_options)
    assert isinstance(connection, urllib3.connection.HTTPConnection)
    connection.connect()
    return connection.sock
