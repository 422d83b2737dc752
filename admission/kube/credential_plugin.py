"""Plugins of kubeconfigs: a program that is run for a token or a client certificate.

EKS, GKE, AKS and sign-in by OIDC work like this.
Source: client-go's plugin/pkg/client/auth/exec, and
https://kubernetes.io/docs/reference/config-api/client-authentication.v1.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from admission.base.clock import Clock
from admission.kube import errors

GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_INFO: Final = "KUBERNETES_EXEC_INFO"
_MOST_SECONDS: Final = 60
"""How long a plugin may take that asks nobody."""
_STANDARD_INPUT: Final = ("Never", "IfAvailable", "Always")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plugin:
    """A program that gives credentials, as the user of a kubeconfig names it.

    Attributes:
        command: its path, or its name on the ``PATH``.
        arguments: what follows the command.
        environment: variables that it gets besides those of this process.
        version: ``apiVersion`` of what it is given and gives.
        standard_input: ``Never``, ``IfAvailable`` or ``Always``: whether it may ask the user.
        cluster: what it is told of the cluster; None where it is told nothing.
        hint: how it is installed; empty if the kubeconfig does not say.
    """

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    version: str
    standard_input: str
    cluster: Mapping[str, Any] | None
    hint: str

    def __post_init__(self) -> None:
        """Raise a ``ValueError`` for what no client knows."""
        if self.version not in VERSIONS:
            raise ValueError(f"the plugin {self.command} has the apiVersion {self.version!r}")
        if self.standard_input not in _STANDARD_INPUT:
            raise ValueError(f"the plugin {self.command} has another interactiveMode")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credential:
    """What a plugin gave. Never log it.

    Attributes:
        token: bearer token, if it gave one.
        certificate: client certificate in PEM, if it gave one.
        key: its key in PEM.
        expires: time from which on the plugin has to be asked again; None if it does not say.
    """

    token: str | None
    certificate: str | None
    key: str | None
    expires: datetime | None


def run(plugin: Plugin) -> Credential:
    """Run a plugin; what it writes to the standard error output goes to ours.

    Raises:
        ConfigurationError: it cannot be run, failed, or gave no credential.
    """
    # Another thread has no user to ask, and no line of a terminal to write to.
    is_command = threading.current_thread() is threading.main_thread()
    interactive = (
        plugin.standard_input != "Never"
        and is_command
        and sys.stdin is not None
        and sys.stdin.isatty()
    )
    if plugin.standard_input == "Always" and not interactive:
        raise _failed(plugin, "it has to ask the user, and the standard input is no terminal")
    spec = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = dict(plugin.cluster)
    info = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec}
    try:
        ended = subprocess.run(  # noqa: S603 - the kubeconfig of the user names it
            [plugin.command, *plugin.arguments],
            env={**os.environ, **plugin.environment, _INFO: json.dumps(info, default=str)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_command else subprocess.DEVNULL,
            timeout=None if interactive else _MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(plugin, f"no answer within {_MOST_SECONDS} seconds") from None
    except OSError as error:
        raise _failed(plugin, (error.strerror or "it cannot be run").lower()) from None
    if ended.returncode:
        raise _failed(plugin, f"exit code {ended.returncode}")
    try:
        return _credential(plugin, json.loads(ended.stdout))
    except (ValueError, KeyError, TypeError, AttributeError):
        # Nothing of the answer may end up in the message.
        raise _failed(plugin, f"its answer is no ExecCredential of {plugin.version}") from None


def _credential(plugin: Plugin, answer: Any) -> Credential:
    status = answer["status"]
    expires = status.get("expirationTimestamp")
    credential = Credential(
        token=status.get("token") or None,
        certificate=status.get("clientCertificateData") or None,
        key=status.get("clientKeyData") or None,
        expires=None if expires is None else datetime.fromisoformat(expires),
    )
    texts = (credential.token, credential.certificate, credential.key)
    if (
        answer["kind"] != "ExecCredential"
        or answer["apiVersion"] != plugin.version
        or not any(texts)
        or not all(text is None or isinstance(text, str) for text in texts)
        or (credential.certificate is None) != (credential.key is None)
        or (credential.expires is not None and credential.expires.tzinfo is None)
    ):
        raise ValueError
    return credential


def _failed(plugin: Plugin, reason: str) -> errors.KubeConfigurationError:
    hint = f". {plugin.hint}" if plugin.hint else ""
    return errors.KubeConfigurationError(
        f"no credentials from the plugin {plugin.command} of the kubeconfig: {reason}{hint}"
    )


class PluginAuthorization:
    """The ``Authorization`` header of a plugin, which is run again when its token expires."""

    def __init__(self, plugin: Plugin, clock: Clock) -> None:
        """Run the plugin.

        Raises:
            ConfigurationError: it gave no credential.
        """
        self._plugin = plugin
        self._clock = clock
        self._lock = threading.Lock()
        self.credential = run(plugin)

    def __call__(self) -> str | None:
        """Return the current header; None where the plugin gives certificates only.

        Raises:
            TransportError: the token expired, and the plugin gave no other one.
        """
        with self._lock:
            expires = self.credential.expires
            if expires is not None and self._clock.now() >= expires:
                try:
                    self.credential = run(self._plugin)
                except errors.KubeConfigurationError as error:
                    raise errors.TransportError(str(error)) from None
            token = self.credential.token
            return None if token is None else f"Bearer {token}"
