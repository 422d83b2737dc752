"""Access to an API server as the package ``kubernetes`` finds it.

It knows the service account of a pod, plugins that give tokens, and kubeconfigs of several files.
Imported only where `admission.kube.kubeconfig` does not do: the import takes 0.2 s.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

import kubernetes.config
import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException

from admission.base.clock import Clock
from admission.kube import errors
from admission.kube.kubeconfig import PATHS_VARIABLE

_HEADER_SECONDS: Final = 5.0
_UNUSABLE: Final = (ConfigException, OSError, ValueError, KeyError, TypeError, yaml.YAMLError)


def in_cluster() -> Configuration:
    """Return the access of the pod that we run in.

    Raises:
        ConfigurationError: it cannot be used.
    """
    configuration = Configuration()
    try:
        kubernetes.config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except _UNUSABLE as error:
        raise _no_access("the pod's service account", error) from error
    return configuration


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
        raise _no_access(kubeconfig or "the default kubeconfig", error) from error
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
    try:
        _require_file(kubeconfig)
        contexts, current = kubernetes.config.list_kube_config_contexts(  # type: ignore[no-untyped-call]
            config_file=kubeconfig
        )
    except _UNUSABLE as error:
        raise errors.ConfigurationError(f"no kubeconfig: {_in_one_line(error)}") from error
    found: dict[str, Any] = next((one for one in contexts if one["name"] == context), current)
    return str((found.get("context") or {}).get("namespace") or "")


def _no_access(source: str, error: Exception) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"no access to an API server from {source}: {_in_one_line(error)}"
    )


def _require_file(kubeconfig: str | None) -> None:
    """Raise where no file of a kubeconfig exists: the package only says that it is invalid."""
    paths = [kubeconfig] if kubeconfig else [*filter(None, _listed(os.environ))]
    if paths and not any(map(os.path.exists, paths)):
        verb = "does not exist" if len(paths) == 1 else "do not exist"
        raise FileNotFoundError(f"{', '.join(paths)} {verb}")


def _listed(environment: Mapping[str, str]) -> list[str]:
    return environment.get(PATHS_VARIABLE, "").split(os.pathsep)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class Authorization:
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
            found = self._configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
        except (ConfigException, OSError, ValueError) as error:
            # Nothing of the credentials may end up in the message.
            kind = type(error).__name__
            raise errors.TransportError(f"the credentials cannot be refreshed ({kind})") from None
        # The package keeps the line end of a token file.
        return found.strip() if found else None
