"""Access of the pod that we run in: the API server in the environment, and a service account.

The kubelet mounts a token and the CA of the API server, and renews the token.
Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from admission.base.clock import Clock
from admission.kube import errors
from admission.kube.kubeconfig import Plain

_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SOURCE: Final = "the pod's service account"
_READ_AGAIN_SECONDS: Final = 60
"""How long a token is used before its file is read again, as in client-go."""


def is_here() -> bool:
    """Return whether the environment is that of a pod."""
    return bool(os.environ.get(_HOST))


def read() -> Plain:
    """Return the access of the pod, without the token.

    Raises:
        ConfigurationError: the environment or the mounted files lack something.
    """
    host, port = os.environ.get(_HOST), os.environ.get(_PORT)
    if not host or not port:
        raise _unusable(f"the environment lacks {_PORT if host else _HOST}")
    authority = _FOLDER / "ca.crt"
    _text_of(authority)
    return Plain(
        context="",
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace(),
        verify=True,
        ca_file=str(authority),
        cert_file=None,
        key_file=None,
        server_name=None,
        token=None,
    )


def namespace() -> str:
    """Return the namespace of the pod; empty if it is not known."""
    with suppress(OSError):
        return (_FOLDER / "namespace").read_text("utf-8").strip()
    return ""


class TokenFileAuthorization:
    """The ``Authorization`` header with a token of a file, which is read again as it ages."""

    def __init__(self, clock: Clock, path: Path | None = None, source: str = _SOURCE) -> None:
        """Read the token.

        Args:
            clock: tells when the token is read again.
            path: its file; None for that of the pod.
            source: whose token it is, for messages.

        Raises:
            ConfigurationError: there is none.
        """
        self._clock = clock
        self._path = path or _FOLDER / "token"
        self._source = source
        self._lock = threading.Lock()
        self._header = self._current()
        self._good_until = clock.monotonic() + _READ_AGAIN_SECONDS

    def __call__(self) -> str:
        """Return the current header; while the file cannot be read, the last one."""
        with self._lock:
            if self._clock.monotonic() >= self._good_until:
                with suppress(errors.KubeConfigurationError):
                    self._header = self._current()
                    self._good_until = self._clock.monotonic() + _READ_AGAIN_SECONDS
            return self._header

    def _current(self) -> str:
        return f"Bearer {_text_of(self._path, self._source)}"


def _text_of(path: Path, source: str = _SOURCE) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        # Nothing of the content may end up in the message.
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "no text"
        raise _unusable(f"{path} cannot be read ({reason})", source) from None
    if not text:
        raise _unusable(f"{path} is empty", source)
    return text


def _unusable(reason: str, source: str = _SOURCE) -> errors.KubeConfigurationError:
    return errors.KubeConfigurationError(f"no access to an API server from {source}: {reason}")
