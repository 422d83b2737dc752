"""Access to an API server as the package ``kubernetes`` finds it.

It knows plugins that give tokens, and kubeconfigs of several files. Imported only where
`admission.kube.kubeconfig` does not do: the import takes 0.2 s, and an image lacks the package.
"""

import threading
from typing import Any, Final

import kubernetes.config
import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException

from admission.base.clock import Clock
from admission.kube import errors
from admission.kube import kubeconfig as kubeconfigs

_HEADER_SECONDS: Final = 5.0
_UNUSABLE: Final = (ConfigException, OSError, ValueError, KeyError, TypeError, yaml.YAMLError)


def from_kubeconfig(kubeconfig: str | None, context: str | None) -> Configuration:
    """Return the access of a kubeconfig.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
    """
    configuration = Configuration()
    try:
        _require_file(kubeconfig)
        kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=kubeconfig,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except _UNUSABLE as error:
        source = kubeconfig or "the default kubeconfig"
        raise errors.KubeConfigurationError(
            f"no access to an API server from {source}: {_in_one_line(error)}"
        ) from error
    return configuration


def pool(configuration: Configuration, connections: int) -> urllib3.HTTPConnectionPool:
    """Return a pool of connections to the server."""
    configuration.connection_pool_maxsize = connections
    # A half-open connection is noticed by the kernel, also where nobody reads.
    configuration.keep_alive = True
    manager = RESTClientObject(configuration).pool_manager
    return manager.connection_from_url(configuration.host)


def namespace(kubeconfig: str | None, context: str | None) -> str:
    """Return the namespace of the context; empty if it names none.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    context_ = _context(kubeconfig, context).get("context") or {}
    return str(context_.get("namespace") or "")


def context_name(kubeconfig: str | None, context: str | None) -> str:
    """Return the name of the context that is used.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    return str(_context(kubeconfig, context).get("name") or "")


def _context(kubeconfig: str | None, context: str | None) -> dict[str, Any]:
    """Return a context of a kubeconfig; the current one if none is named.

    Raises:
        ConfigurationError: there is no kubeconfig, or it cannot be used.
    """
    try:
        _require_file(kubeconfig)
        contexts, current = kubernetes.config.list_kube_config_contexts(  # type: ignore[no-untyped-call]
            config_file=kubeconfig
        )
    except _UNUSABLE as error:
        raise errors.KubeConfigurationError(f"no kubeconfig: {_in_one_line(error)}") from error
    context_: dict[str, Any] = next(
        (context_item for context_item in contexts if context_item["name"] == context), current
    )
    return context_


def _require_file(kubeconfig: str | None) -> None:
    """Raise where no file of a kubeconfig exists: the package only says that it is invalid."""
    if missing := kubeconfigs.missing(kubeconfig):
        raise FileNotFoundError(missing)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class PackagedAuthorization:
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
        """Return the current header; None where there is no token."""
        with self._lock:
            if self._clock.monotonic() >= self._good_until:
                self._header = self._current()
                self._good_until = self._clock.monotonic() + _HEADER_SECONDS
            return self._header

    def _current(self) -> str | None:
        try:
            token = self._configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
        except (ConfigException, OSError, ValueError) as error:
            # Nothing of the credentials may end up in the message.
            kind = type(error).__name__
            raise errors.TransportError(f"the credentials cannot be refreshed ({kind})") from None
        # The package keeps the line end of a token file.
        return token.strip() if token else None
