"""Kubeconfigs that need no plugin: a server, and a token or a client certificate.

Most kubeconfigs are read by the package ``kubernetes``, whose import takes longer than a whole
answer of ``kubectl gpu``. `read` takes the plain ones, and gives the package all others: several
files, plugins that are run for a token, and whatever is missing or looks odd.
"""

import atexit
import base64
import binascii
import functools
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_PATHS_VARIABLE: Final = "KUBECONFIG"
_DEFAULT_PATH: Final = "~/.kube/config"
_CLUSTER_MEMBERS: Final = frozenset(
    {
        "server", "certificate-authority", "certificate-authority-data", "extensions",
        "insecure-skip-tls-verify", "tls-server-name",
    }
)  # fmt: skip
_USER_MEMBERS: Final = frozenset(
    {
        "client-certificate", "client-certificate-data", "client-key", "client-key-data",
        "extensions", "token",
    }
)  # fmt: skip
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _NotPlainError(Exception):
    """The package has to read this kubeconfig."""


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


def read(paths: str | None, context: str | None) -> Plain | None:
    """Return the access that a context describes; None if the package must read the kubeconfig.

    Args:
        paths: path, or several as in ``KUBECONFIG``; None for what kubectl would take.
        context: its name; None for the current one.
    """
    try:
        return _plain(_sole_file(paths), context)
    except (_NotPlainError, OSError, ValueError, yaml.YAMLError):
        # The package says what is wrong with it.
        return None


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


def _sole_file(paths: str | None) -> Path:
    given = paths or os.environ.get(_PATHS_VARIABLE) or _DEFAULT_PATH
    every = [Path(one).expanduser() for one in given.split(os.pathsep) if one]
    (path,) = [one for one in every if one.exists()]
    return path


def _plain(path: Path, name: str | None) -> Plain:
    document = _mapping(yaml.load(path.read_text("utf-8"), _Loader))  # noqa: S506 - a safe loader
    named = name or document.get("current-context")
    context = _named(document, "contexts", "context", named)
    cluster = _named(document, "clusters", "cluster", context.get("cluster"))
    user = _named(document, "users", "user", context["user"]) if context.get("user") else {}
    server = _text(cluster, "server")
    if (
        not server
        or not _CLUSTER_MEMBERS.issuperset(cluster)
        or not _USER_MEMBERS.issuperset(user)
    ):
        raise _NotPlainError
    folder = path.absolute().parent
    secure = server.startswith("https://")
    if not secure and not server.startswith("http://"):
        raise _NotPlainError
    verify = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(verify, bool):
        raise _NotPlainError
    return Plain(
        server=server.rstrip("/"),
        context=str(named),
        namespace=_text(context, "namespace") or "",
        verify=not verify,
        ca_file=_file(cluster, "certificate-authority", folder) if secure else None,
        cert_file=_file(user, "client-certificate", folder) if secure else None,
        key_file=_file(user, "client-key", folder) if secure else None,
        server_name=_text(cluster, "tls-server-name"),
        token=_text(user, "token"),
    )


def _mapping(found: object) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise _NotPlainError
    return found


def _named(
    document: Mapping[str, Any], items: str, member: str, name: object
) -> Mapping[str, Any]:
    """Return the only item of that name in a list."""
    found = document.get(items)
    every = [_mapping(one) for one in found] if isinstance(found, list) else []
    named = [one for one in every if one.get("name") == name]
    if not isinstance(name, str) or len(named) != 1:
        raise _NotPlainError
    return _mapping(named[0].get(member))


def _text(found: Mapping[str, Any], member: str) -> str | None:
    """Return a text that is not empty; None if the member is not there."""
    if member not in found:
        return None
    text = found[member]
    if not isinstance(text, str) or not text:
        raise _NotPlainError
    return text


def _file(found: Mapping[str, Any], member: str, folder: Path) -> str | None:
    """Return the path of a file, which is written if the kubeconfig holds its content."""
    data = _text(found, f"{member}-data")
    if data is not None:
        return _written(data)
    named = _text(found, member)
    if named is None:
        return None
    path = os.path.normpath(folder / named)
    if not Path(path).is_file():
        raise _NotPlainError
    return path


@functools.cache
def _written(data: str) -> str:
    """Return the path of a file with the decoded content; it is removed with this process.

    TLS takes client certificates and keys from files only.
    """
    try:
        content = base64.standard_b64decode(data)
    except binascii.Error as error:
        raise _NotPlainError from error
    descriptor, name = tempfile.mkstemp(prefix="gpu-admission-")  # readable for the owner only
    atexit.register(_remove, name, os.getpid())
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return name


def _remove(name: str, owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked uses the file, too, and may end earlier
        Path(name).unlink(missing_ok=True)
