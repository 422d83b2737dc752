"""When authorities and serving certificate are renewed, so that clients trust every server.

Two authorities with different ends are held at any time, and clients trust both. A new one is
made when the newest has half of its life left. It signs when the older one has a quarter of a life
left: by then clients have trusted the new one for a quarter of an authority's lifetime. Only an
authority that has expired is given up, so clients trust whatever a server may still hold.

All times are parts of the two lifetimes; a lifetime of a minute rotates as one of two years.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority
from certs.authority import AUTHORITY_LIFETIME, SERVING_LIFETIME, Pair

AUTHORITIES: Final = "ca.crt"
AUTHORITY_KEYS: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
NAMES: Final = (AUTHORITIES, AUTHORITY_KEYS, CERTIFICATE, KEY)
"""Names of the files of a directory, or of the data of a Secret."""

WARNED_BEFORE: Final = timedelta(days=30)
_RENEWED_AFTER: Final = (2, 3)  # of a serving certificate's life
_PEM_KEY_END: Final = re.compile(
    rb"(?<=-----END PRIVATE KEY-----)|(?<=-----END EC PRIVATE KEY-----)"
)
"""Behind a key, as this program writes it and as Helm does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long what is issued is valid.

    Attributes:
        authority: of an authority.
        serving: of a serving certificate; at most half of an authority's.
    """

    authority: timedelta = AUTHORITY_LIFETIME
    serving: timedelta = SERVING_LIFETIME


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that clients trust.

    Attributes:
        certificate: of the authority.
        key: None where it is not held: then it signs nothing.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | None = field(repr=False)

    @property
    def end(self) -> datetime:
        """When it expires."""
        return self.certificate.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate as hexadecimal digits."""
        return fingerprint(self.certificate)


@dataclass(frozen=True, slots=True)
class Holding:
    """Everything that is held.

    Attributes:
        authorities: those that clients trust, the first to expire first.
        serving: None where there is no usable pair.
    """

    authorities: tuple[Authority, ...] = ()
    serving: Pair | None = None

    def bundle(self) -> bytes:
        """Return the authorities' certificates as PEM text: what clients trust."""
        return b"".join(_pem(one.certificate) for one in self.authorities)

    def issuer(self) -> Authority | None:
        """Return who signed the serving certificate."""
        if self.serving is None:
            return None
        certificate = self.serving.certificate
        signers = (
            one for one in self.authorities if authority.is_issued_by(certificate, one.certificate)
        )
        return next(signers, None)

    def end(self) -> datetime | None:
        """Return when clients stop accepting the serving certificate; None where they do not."""
        issuer = self.issuer()
        if self.serving is None or issuer is None:
            return None
        return min(self.serving.certificate.not_valid_after_utc, issuer.end)


def read(content: Mapping[str, bytes]) -> Holding:
    """Read what files or a Secret hold; what cannot be read counts as absent.

    The keys of the authorities stand one after the other and are told by their public halves.
    """
    keys = [one for one in map(_key, _split(content.get(AUTHORITY_KEYS, b""))) if one is not None]
    authorities = {}
    for certificate in _certificates(content.get(AUTHORITIES, b"")):
        public = certificate.public_key()
        key = next((key for key in keys if key.public_key() == public), None)
        authorities[fingerprint(certificate)] = Authority(certificate, key)
    try:
        serving = authority.parse_pair(content.get(CERTIFICATE, b""), content.get(KEY, b""))
    except (ValueError, TypeError):
        serving = None
    return Holding(_in_order(authorities.values()), serving)


def hosts_of(held: Holding) -> tuple[str, ...]:
    """Return the DNS names and IP addresses of the serving certificate, sorted."""
    return (
        () if held.serving is None else tuple(sorted(authority.hosts_of(held.serving.certificate)))
    )


def write(held: Holding) -> dict[str, bytes]:
    """Return the content of files or of a Secret; `read` gives the same back.

    Raises:
        ValueError: there is no serving certificate.
    """
    if held.serving is None:
        raise ValueError("there is no serving certificate")
    keys = (
        Pair(certificate=one.certificate, key=one.key).key_pem()
        for one in held.authorities
        if one.key is not None
    )
    return {
        AUTHORITIES: held.bundle(),
        AUTHORITY_KEYS: b"".join(keys),
        CERTIFICATE: held.serving.certificate_pem(),
        KEY: held.serving.key_pem(),
    }


def is_foreign(content: Mapping[str, bytes]) -> bool:
    """Return whether somebody else issues: a certificate is held without its authority's key."""
    return bool(content.get(CERTIFICATE)) and not content.get(AUTHORITY_KEYS)


def renew(
    held: Holding,
    hosts: Iterable[str],
    now: datetime,
    lifetimes: Lifetimes,
    trusted: Collection[str] | None = None,
) -> Holding:
    """Return what is to be held now; equal to ``held`` where nothing is due.

    Args:
        held: what is held.
        hosts: DNS names and IP addresses that clients connect to.
        now: aware present moment.
        lifetimes: of what is issued.
        trusted: fingerprints of authorities that every client trusts by now; None for those that
            are held. Others sign only where no certificate is left that clients accept.

    Raises:
        ValueError: no host, or one that is neither a DNS name nor an IP address.
    """
    wanted = authority.normalise_hosts(hosts)
    if trusted is None:
        trusted = {one.fingerprint for one in held.authorities}
    after = Holding(_authorities(held.authorities, now, lifetimes), held.serving)
    if not is_due(after, wanted, now):
        return after
    is_usable = _is_usable(after, now)
    signers = [one for one in after.authorities if one.fingerprint in trusted or not is_usable]
    signer = _signer(signers, now, lifetimes)
    if signer is None or signer.key is None:
        return after
    if is_usable and after.serving is not None and not _gains(after.serving, signer, wanted):
        return after
    pair = Pair(certificate=signer.certificate, key=signer.key)
    serving = authority.issue_serving(pair, wanted, now, lifetimes.serving)
    return replace(after, serving=serving)


def is_due(held: Holding, hosts: Iterable[str], now: datetime) -> bool:
    """Return whether the serving certificate is to be renewed: old, unusable, other hosts."""
    if held.serving is None or not _is_usable(held, now):
        return True
    certificate = held.serving.certificate
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    numerator, denominator = _RENEWED_AFTER
    is_old = now >= start + (end - start) * numerator / denominator
    return is_old or not authority.hosts_of(certificate).issuperset(hosts)


def is_expiring(certificate_pem: bytes, end: datetime, now: datetime) -> bool:
    """Return whether to warn of a certificate's end: 30 days, or a quarter of its life, are left.

    Args:
        certificate_pem: whose life counts.
        end: when clients stop to accept it.
        now: aware present moment.

    Raises:
        ValueError: no certificate in the text.
    """
    certificate = _first(certificate_pem)
    start, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= end - min(WARNED_BEFORE, (last - start) / 4)


def life(certificate_pem: bytes) -> timedelta:
    """Return the time from the start of a certificate's validity to its end.

    Raises:
        ValueError: no certificate in the text.
    """
    certificate = _first(certificate_pem)
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc


@dataclass(frozen=True, slots=True)
class Ends:
    """When certificates expire; None where there is none.

    Attributes:
        serving: the serving certificate.
        authority: the authority that signed it.
    """

    serving: datetime | None
    authority: datetime | None

    @property
    def accepted(self) -> datetime | None:
        """When clients stop accepting the serving certificate, as far as it is known."""
        return min((end for end in (self.serving, self.authority) if end), default=None)


def ends(content: Mapping[str, bytes]) -> Ends:
    """Return when what files or a Secret hold expires, whoever has issued it."""
    try:
        leaf = _first(content.get(CERTIFICATE, b""))
    except (ValueError, IndexError):
        return Ends(None, None)
    issuers = (
        one.not_valid_after_utc
        for one in _certificates(content.get(AUTHORITIES, b""))
        if authority.is_issued_by(leaf, one)
    )
    return Ends(leaf.not_valid_after_utc, max(issuers, default=None))


def is_private(content: Mapping[str, bytes]) -> bool:
    """Return whether the certificate's authority is among what is held, so no public one."""
    return ends(content).authority is not None


def accepted_until(chain_pem: bytes, trusted_pem: bytes) -> datetime | None:
    """Return when clients stop accepting a server's chain; None where they do not trust it at all.

    Args:
        chain_pem: the serving certificate, then those between it and the authority.
        trusted_pem: certificates that clients trust.

    Raises:
        ValueError: no certificate in the first text.
    """
    leaf, *between = x509.load_pem_x509_certificates(chain_pem)
    trusted = _certificates(trusted_pem)
    current, end = leaf, leaf.not_valid_after_utc
    for _ in range(len(between) + 1):
        ends = [
            one.not_valid_after_utc
            for one in trusted
            if one == current or authority.is_issued_by(current, one)
        ]
        if ends:
            return min(end, max(ends))
        issuers = (one for one in between if authority.is_issued_by(current, one))
        issuer = next(issuers, None)
        if issuer is None:
            return None
        current, end = issuer, min(end, issuer.not_valid_after_utc)
    return None


def fingerprints(bundle_pem: bytes) -> frozenset[str]:
    """Return the fingerprints of the certificates of a bundle; none where it cannot be read."""
    return frozenset(map(fingerprint, _certificates(bundle_pem)))


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate as hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


# ---------------------------------------------------------------------------------------- parts


def _authorities(
    held: Iterable[Authority], now: datetime, lifetimes: Lifetimes
) -> tuple[Authority, ...]:
    """Those that are held, or where a new one is due that and those that have not expired.

    An expired one stays until then: each change of the bundle costs the API server something.
    """
    present = tuple(held)
    valid = [one for one in present if now < one.end]
    signing = [one for one in valid if one.key is not None]
    half = lifetimes.authority / 2
    made: list[Pair] = []
    if not signing:
        made = [authority.issue_authority(now, half)]
    if len(signing) + len(made) < 2 or max(one.end for one in signing) <= now + half:  # noqa: PLR2004
        made.append(authority.issue_authority(now, lifetimes.authority))
    if not made:
        return present
    return _in_order([*valid, *(Authority(one.certificate, one.key) for one in made)])


def _signer(
    candidates: Iterable[Authority], now: datetime, lifetimes: Lifetimes
) -> Authority | None:
    """The first to expire of those with enough life left, else the last to expire."""
    enough = now + min(lifetimes.serving, lifetimes.authority / 4)
    signing = _in_order(
        one
        for one in candidates
        if one.key is not None and one.certificate.not_valid_before_utc <= now < one.end
    )
    return next((one for one in signing if one.end >= enough), signing[-1] if signing else None)


def _gains(serving: Pair, signer: Authority, hosts: Iterable[str]) -> bool:
    """Whether a certificate by the signer would be any better than the one that is usable."""
    certificate = serving.certificate
    is_longer = signer.end > certificate.not_valid_after_utc
    return is_longer or not authority.hosts_of(certificate).issuperset(hosts)


def _is_usable(held: Holding, now: datetime) -> bool:
    end = held.end()
    if held.serving is None or end is None:
        return False
    return held.serving.certificate.not_valid_before_utc <= now < end


def _in_order(authorities: Iterable[Authority]) -> tuple[Authority, ...]:
    return tuple(sorted(authorities, key=lambda one: (one.end, one.fingerprint)))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _first(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(pem)[0]


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _split(pem: bytes) -> list[bytes]:
    """Each private key of a text that holds several."""
    *parts, _ = _PEM_KEY_END.split(pem)
    return [part + b"\n" for part in parts]


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(pem.strip() + b"\n", password=None)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None
