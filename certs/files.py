"""Certificates in a directory: made when absent, renewed when due, never touched when good.

The directory holds ``ca.crt``, ``ca.key``, ``tls.crt`` and ``tls.key``, the layout of a mounted
Secret. ``ca.crt`` and ``ca.key`` hold several authorities one after the other. A directory with a
certificate and without ``ca.key`` belongs to somebody else and is only read.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from certs import rotation
from certs.rotation import Lifetimes

_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """Paths of PEM files.

    Attributes:
        ca: certificates of the authorities, what clients trust (``caBundle``).
        certificate: serving certificate.
        key: private key of the serving certificate, readable by its owner only.
    """

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, directory: Path) -> "CertificateFiles":
        """Return the files of a directory."""
        return cls(
            ca=directory / rotation.AUTHORITIES,
            certificate=directory / rotation.CERTIFICATE,
            key=directory / rotation.KEY,
        )


def ensure(
    directory: Path,
    hosts: Iterable[str],
    now: datetime,
    lifetimes: Lifetimes = Lifetimes(),  # noqa: B008 - a value
) -> CertificateFiles:
    """Make sure that the directory holds a serving certificate that is good for the hosts.

    See `certs.rotation` for when what is renewed.

    Args:
        directory: made if absent.
        hosts: DNS names and IP addresses that clients connect to.
        now: aware present moment.
        lifetimes: of what is issued.

    Raises:
        ValueError: no host, or one that is neither a DNS name nor an IP address.
        OSError: the directory needs a write and is not writable.
    """
    files = CertificateFiles.of(directory)
    wanted = tuple(hosts)
    if _renewed(directory, wanted, now, lifetimes) is None:
        return files
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        changed = _renewed(directory, wanted, now, lifetimes)
        if changed is not None:  # another process may have been first
            write(directory, changed)
    return files


def read(directory: Path) -> dict[str, bytes]:
    """Return what the directory holds; files that cannot be read are left out."""
    found = {}
    for name in rotation.NAMES:
        with contextlib.suppress(OSError):
            found[name] = (directory / name).read_bytes()
    return found


def write(directory: Path, content: Mapping[str, bytes]) -> None:
    """Replace what has changed, each file in one step.

    Clients learn of new authorities from ``ca.crt``, so that comes before what they sign. A reader
    between key and certificate sees a pair that does not match and keeps what it has.

    Raises:
        OSError: the directory is not writable.
    """
    present = read(directory)
    for name, mode in (
        (rotation.AUTHORITY_KEYS, _PRIVATE),
        (rotation.AUTHORITIES, _PUBLIC),
        (rotation.KEY, _PRIVATE),
        (rotation.CERTIFICATE, _PUBLIC),
    ):
        if present.get(name) != content[name]:
            _write(directory / name, content[name], mode)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep out other processes that renew the directory.

    Raises:
        OSError: the directory is not writable.
    """
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, _PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _renewed(
    directory: Path, hosts: Iterable[str], now: datetime, lifetimes: Lifetimes
) -> dict[str, bytes] | None:
    """The content as it is to be; None where it is so, or is somebody else's."""
    found = read(directory)
    if rotation.is_foreign(found) and rotation.KEY in found:
        return None
    held = rotation.read(found)
    renewed = rotation.renew(held, hosts, now, lifetimes)
    return None if renewed == held else rotation.write(renewed)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Replaces a file in one step: a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
