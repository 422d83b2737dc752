"""Certificates in a directory: made when absent, renewed when due, never touched when good.

The directory holds ``ca.crt``, ``ca.key``, ``tls.crt`` and ``tls.key``, the layout of a mounted
Secret. A good directory is only read, so it may be mounted read-only and lack ``ca.key``.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from certs import authority
from certs.authority import Pair

RENEW_AFTER: Final = (2, 3)
"""The part of a serving certificate's life after which it is renewed, as a fraction."""

_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """Paths of PEM files.

    Attributes:
        ca: certificate of the authority, what clients trust (``caBundle``).
        certificate: serving certificate.
        key: private key of the serving certificate, readable by its owner only.
    """

    ca: Path
    certificate: Path
    key: Path


def ensure(directory: Path, hosts: Iterable[str], now: datetime) -> CertificateFiles:
    """Makes sure the directory holds a serving certificate that is good for the hosts.

    It is renewed when absent, unreadable, signed by another authority, without one of the hosts,
    or past two thirds of its life. The authority is kept while it can sign for a full serving
    life; a new one changes what clients must trust.

    Args:
        directory: made if absent.
        hosts: DNS names and IP addresses that clients connect to.
        now: aware present moment.

    Raises:
        ValueError: no host, or one that is neither a DNS name nor an IP address.
        OSError: the directory needs a write and is not writable.
    """
    wanted = authority.normalise_hosts(hosts)
    files = CertificateFiles(
        ca=directory / "ca.crt", certificate=directory / "tls.crt", key=directory / "tls.key"
    )
    if _is_good(files, wanted, now):
        return files
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        if not _is_good(files, wanted, now):  # another process may have been first
            _renew(files, directory / "ca.key", wanted, now)
    return files


def _renew(
    files: CertificateFiles, authority_key: Path, hosts: tuple[str, ...], now: datetime
) -> None:
    signer = _read_pair(files.ca, authority_key)
    if signer is None or not _can_sign(signer.certificate, now):
        signer = authority.issue_authority(now)
        _write(authority_key, signer.key_pem(), _PRIVATE)
        _write(files.ca, signer.certificate_pem(), _PUBLIC)
    serving = authority.issue_serving(signer, hosts, now)
    # A reader between the two writes sees a pair that does not match and keeps what it has.
    _write(files.key, serving.key_pem(), _PRIVATE)
    _write(files.certificate, serving.certificate_pem(), _PUBLIC)


def _is_good(files: CertificateFiles, hosts: tuple[str, ...], now: datetime) -> bool:
    serving = _read_pair(files.certificate, files.key)
    issuer = _read_certificate(files.ca)
    if serving is None or issuer is None:
        return False
    certificate = serving.certificate
    return (
        certificate.not_valid_before_utc <= now < _renewal_time(certificate)
        and now < issuer.not_valid_after_utc
        and authority.hosts_of(certificate).issuperset(hosts)
        and authority.is_issued_by(certificate, issuer)
    )


def _renewal_time(certificate: x509.Certificate) -> datetime:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    numerator, denominator = RENEW_AFTER
    return start + (end - start) * numerator / denominator


def _can_sign(certificate: x509.Certificate, now: datetime) -> bool:
    lasts = certificate.not_valid_after_utc >= now + authority.SERVING_LIFETIME
    return certificate.not_valid_before_utc <= now and lasts


def _read_pair(certificate: Path, key: Path) -> Pair | None:
    try:
        return authority.parse_pair(certificate.read_bytes(), key.read_bytes())
    except (OSError, ValueError, TypeError):
        return None


def _read_certificate(path: Path) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError):
        return None


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


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keeps other processes that run ``ensure`` on the directory out."""
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, _PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
