"""Kubeconfigs: a server, and how we sign in there.

`read` takes what people have: one file or several, a token, a client certificate, a password, or a
plugin that is run for them. What it does not take, `problem` says, and the package ``kubernetes``
is asked where it is installed; its import takes longer than a whole answer of ``kubectl gpu``.
Source: client-go's tools/clientcmd (loader.go, client_config.go).
"""

import atexit
import base64
import binascii
import functools
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from admission.kube import errors
from admission.kube.credential_plugin import Plugin
from admission.kube.impersonation import Identity

_PATHS_VARIABLE: Final = "KUBECONFIG"
_DEFAULT_PATH: Final = "~/.kube/config"
_CLUSTER_MEMBERS: Final = frozenset(
    {
        "server", "certificate-authority", "certificate-authority-data", "extensions",
        "insecure-skip-tls-verify", "proxy-url", "tls-server-name",
    }
)  # fmt: skip
_USER_MEMBERS: Final = frozenset(
    {
        "client-certificate", "client-certificate-data", "client-key", "client-key-data", "exec",
        "extensions", "password", "token", "tokenFile", "username",
        "as", "as-groups", "as-uid", "as-user-extra",
    }
)  # fmt: skip
_IMPERSONATION: Final = frozenset({"as", "as-groups", "as-uid", "as-user-extra"})
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is handed to plugins."""
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UnreadError(Exception):
    """This reader does not take the kubeconfig; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plain:
    """What one context of a kubeconfig, or the account of a pod, says.

    Attributes:
        server: URL of the API server.
        context: its name; empty for the account of a pod.
        namespace: that of the context; empty if it names none.
        verify: whether the server's certificate is verified.
        ca_file: path of the CAs; None for those of the system.
        cert_file: path of the client certificate, if there is one.
        key_file: path of its key.
        server_name: name in the server's certificate, if it is not the host of the URL.
        token: bearer token, if there is one. Never log it.
        token_file: path of a file with a bearer token that is read again as it ages.
        login: user and password, if there are any. Never log them.
        plugin: what is run for a token or a client certificate, if nothing else is named.
        proxy: URL of the proxy that the cluster names; None for that of the environment.
        identity: whom the user acts as; None for the user itself.
    """

    server: str
    context: str
    namespace: str
    verify: bool
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    server_name: str | None
    token: str | None
    token_file: Path | None = None
    login: tuple[str, str] | None = None
    plugin: Plugin | None = None
    proxy: str | None = None
    identity: Identity | None = None


def read(paths: str | None, context: str | None) -> Plain | None:
    """Return the access that a context describes; None if `problem` says why not.

    Args:
        paths: path, or several as in ``KUBECONFIG``; None for what kubectl would take.
        context: its name; None for the current one.

    Raises:
        ConfigurationError: whoever it describes must not be taken for somebody else.
    """
    merged = _read(paths, context)
    return None if isinstance(merged, str) else merged


def problem(paths: str | None, context: str | None) -> str:
    """Return why `read` does not take a kubeconfig; empty if it does.

    Args:
        paths: as for `read`.
        context: as for `read`.

    Raises:
        ConfigurationError: as for `read`.
    """
    merged = _read(paths, context)
    return merged if isinstance(merged, str) else ""


def _read(paths: str | None, context: str | None) -> Plain | str:
    try:
        return _plain(_merged(_files(paths)), context)
    except _UnreadError as error:
        return str(error)
    except yaml.YAMLError:
        return "it is no YAML"  # the parser quotes the text, and so a token
    except OSError as error:
        return f"{error.filename}: {(error.strerror or 'it cannot be read').lower()}"
    except ValueError as error:
        return str(error)


def contexts(paths: str | None) -> list[str]:
    """Return the names of the contexts of a kubeconfig, in order; none where it cannot be read.

    Args:
        paths: path, or several as in ``KUBECONFIG``; None for what kubectl would take.
    """
    files = (paths or os.environ.get(_PATHS_VARIABLE) or _DEFAULT_PATH).split(os.pathsep)
    contexts_of_files = set[str]()
    for path in (Path(file).expanduser() for file in files if file):
        try:
            document = yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506 - a safe loader
            contexts_of_files.update(str(entry["name"]) for entry in document["contexts"])
        except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
            continue
    return sorted(contexts_of_files)


def missing(paths: str | None) -> str:
    """Return that no file of a kubeconfig exists; empty where one does."""
    texts = (paths or os.environ.get(_PATHS_VARIABLE, "")).split(os.pathsep)
    files = [text for text in texts if text]
    if any(map(os.path.exists, files or [os.path.expanduser(_DEFAULT_PATH)])):  # noqa: PTH111
        return ""
    if not files:
        return f"{_DEFAULT_PATH} does not exist, and {_PATHS_VARIABLE} names no other file"
    return f"{', '.join(files)} {'does not exist' if len(files) == 1 else 'do not exist'}"


def _files(paths: str | None) -> list[Path]:
    """Return the files that exist of those that are meant.

    Raises:
        _UnreadError: none does.
    """
    paths_given = paths or os.environ.get(_PATHS_VARIABLE) or _DEFAULT_PATH
    every = [Path(path).expanduser() for path in paths_given.split(os.pathsep) if path]
    existing = [path for path in every if path.exists()]
    if not existing:
        raise _UnreadError(missing(paths) or f"{_DEFAULT_PATH} does not exist")
    return existing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A cluster, user or context, and the folder that paths in it begin at."""

    members: Mapping[str, Any]
    folder: Path


@dataclass(slots=True, kw_only=True)
class _Merged:
    """What several files say: of two that say the same thing, the first counts."""

    current: str | None = None
    clusters: dict[str, _Item] = field(default_factory=dict)
    users: dict[str, _Item] = field(default_factory=dict)
    contexts: dict[str, _Item] = field(default_factory=dict)

    def item(self, kind: str, name: object) -> _Item:
        every: dict[str, _Item] = getattr(self, f"{kind}s")
        if not isinstance(name, str) or name not in every:
            raise _UnreadError(f"it has no {kind} {name}" if name else f"it names no {kind}")
        return every[name]


def _merged(paths: Iterable[Path]) -> _Merged:
    merged = _Merged()
    for path in paths:
        document = _mapping(yaml.load(path.read_text("utf-8"), _Loader) or {})  # noqa: S506 - a safe loader
        if merged.current is None and document.get("current-context"):
            merged.current = _text(document, "current-context")
        for kind in ("cluster", "user", "context"):
            listed = document.get(f"{kind}s") or []
            every: dict[str, _Item] = getattr(merged, f"{kind}s")
            items_here = _items(listed, kind, path.absolute().parent)
            every.update({name: item for name, item in items_here.items() if name not in every})
    return merged


def _items(listed: object, kind: str, folder: Path) -> dict[str, _Item]:
    items: dict[str, _Item] = {}
    for entry in map(_mapping, listed if isinstance(listed, list) else [listed]):
        name = entry.get("name")
        if not isinstance(name, str) or name in items:
            raise _UnreadError(f"it has two {kind}s of the name {name}, or one without a name")
        items[name] = _Item(members=_mapping(entry.get(kind) or {}), folder=folder)
    return items


def _plain(merged: _Merged, name: str | None) -> Plain:
    named = name or merged.current
    context = merged.item("context", named).members
    cluster = merged.item("cluster", context.get("cluster"))
    user = (
        merged.item("user", context["user"])
        if context.get("user")
        else _Item(members={}, folder=cluster.folder)
    )
    try:
        return _access(str(named), context, cluster, user)
    except (_UnreadError, OSError, ValueError) as error:
        if impersonated := _IMPERSONATION & user.members.keys():
            # The package reads such a user without it, and would act with the rights of another.
            raise errors.KubeConfigurationError(
                f"the user {context['user']} of the kubeconfig has {min(impersonated)}, and the"
                f" kubeconfig cannot be used: {error}"
            ) from error
        raise


def _access(named: str, context: Mapping[str, Any], cluster: _Item, user: _Item) -> Plain:
    for members, ours in ((cluster.members, _CLUSTER_MEMBERS), (user.members, _USER_MEMBERS)):
        if unknown := members.keys() - ours:
            raise _UnreadError(f"it has {min(map(str, unknown))}, which is not supported")
    server = _text(cluster.members, "server")
    if not server or not server.startswith(("https://", "http://")):
        raise _UnreadError(f"the cluster {context['cluster']} has no http or https server")
    secure = server.startswith("https://")
    verify = cluster.members.get("insecure-skip-tls-verify", False)
    if not isinstance(verify, bool):
        raise _UnreadError("insecure-skip-tls-verify is neither true nor false")
    token_file = _text(user.members, "tokenFile")
    return Plain(
        server=server.rstrip("/"),
        context=named,
        namespace=_text(context, "namespace") or "",
        verify=not verify,
        ca_file=_file(cluster, "certificate-authority") if secure else None,
        cert_file=_file(user, "client-certificate") if secure else None,
        key_file=_file(user, "client-key") if secure else None,
        server_name=_text(cluster.members, "tls-server-name"),
        token=_text(user.members, "token"),
        token_file=None if token_file is None else user.folder / token_file,
        login=_login(user.members),
        plugin=_plugin(cluster, user) if "exec" in user.members else None,
        proxy=_text(cluster.members, "proxy-url"),
        identity=_identity(user.members),
    )


def _identity(user: Mapping[str, Any]) -> Identity | None:
    if not _IMPERSONATION & user.keys():
        return None
    name = _text(user, "as")
    if not name:
        raise _UnreadError("it has as-groups, as-uid or as-user-extra, and no as")
    extra = _mapping(user.get("as-user-extra") or {})
    return Identity(
        user=name,
        groups=_texts(user, "as-groups"),
        uid=_text(user, "as-uid") or "",
        extra=tuple((str(key), _texts(extra, key)) for key in sorted(extra)),
    )


def _texts(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = members.get(name) or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _UnreadError(f"its {name} is no list of texts")
    return tuple(texts)


def _login(user: Mapping[str, Any]) -> tuple[str, str] | None:
    name = _text(user, "username")
    return None if name is None else (name, _text(user, "password") or "")


def _plugin(cluster: _Item, user: _Item) -> Plugin:
    """Return the plugin of a user.

    Raises:
        ValueError: it has an ``apiVersion`` or an ``interactiveMode`` that nobody knows.
    """
    members = _mapping(user.members["exec"])
    command = _text(members, "command")
    if command is None:
        raise _UnreadError("its exec has no command")
    arguments = members.get("args") or []
    variables = [_mapping(entry) for entry in members.get("env") or []]
    return Plugin(
        # A name without a folder is looked for on the PATH, as client-go does.
        command=str(user.folder / command) if "/" in command else command,
        arguments=tuple(map(str, arguments)),
        environment={
            str(entry.get("name", "")): str(entry.get("value") or "") for entry in variables
        },
        version=_text(members, "apiVersion") or "",
        standard_input=_text(members, "interactiveMode") or "IfAvailable",
        cluster=_told(cluster) if members.get("provideClusterInfo") else None,
        hint=" ".join(str(members.get("installHint") or "").split()),
    )


def _told(cluster: _Item) -> Mapping[str, Any]:
    """Return what a plugin is told of the cluster."""
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    members = {name: cluster.members[name] for name in names if name in cluster.members}
    if authority := _file(cluster, "certificate-authority"):
        content = base64.standard_b64encode(Path(authority).read_bytes())
        members["certificate-authority-data"] = content.decode("ascii")
    for entry in map(_mapping, cluster.members.get("extensions") or []):
        if entry.get("name") == _EXEC_EXTENSION:
            members["config"] = entry.get("extension")
    return members


def _mapping(mapping: object) -> Mapping[str, Any]:
    if not isinstance(mapping, dict):
        raise _UnreadError("it is no kubeconfig")
    return mapping


def _text(mapping: Mapping[str, Any], member: str) -> str | None:
    """Return a text that is not empty; None if the member is not there."""
    if member not in mapping:
        return None
    text = mapping[member]
    if not isinstance(text, str) or not text:
        raise _UnreadError(f"{member} is empty or no text")
    return text


def _file(item: _Item, member: str) -> str | None:
    """Return the path of a file, which is written if the kubeconfig holds its content."""
    data = _text(item.members, f"{member}-data")
    if data is not None:
        try:
            return written(base64.standard_b64decode(data))
        except binascii.Error as error:
            raise _UnreadError(f"{member}-data is no base64") from error
    named = _text(item.members, member)
    if named is None:
        return None
    path = os.path.normpath(item.folder / named)
    if not Path(path).is_file():
        raise _UnreadError(f"{path} does not exist")
    return path


@functools.cache
def written(content: bytes) -> str:
    """Return the path of a file with a content; it is removed with this process.

    TLS takes client certificates and keys from files only.
    """
    descriptor, name = tempfile.mkstemp(prefix="gpu-admission-")  # readable for the owner only
    atexit.register(_remove, name, os.getpid())
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return name


def _remove(name: str, owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked uses the file, too, and may end earlier
        Path(name).unlink(missing_ok=True)
