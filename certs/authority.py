"""A certificate authority and the serving certificates it signs, on the curve P-256.

What is issued satisfies Go's verifier and the strict one of ``cryptography.x509``: host names only
in the subject alternative names, key identifiers on both sides, critical basic constraints and
key usage, and the purpose of server authentication.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_NAME: Final = "gpu-admission-ca"
SERVING_NAME: Final = "gpu-admission-webhook"

AUTHORITY_LIFETIME: Final = timedelta(days=730)
SERVING_LIFETIME: Final = timedelta(days=365)
BACKDATE: Final = timedelta(hours=1)
"""How far before the moment of issue validity begins at most, for peers whose clock is behind."""

_BACKDATED_PART: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and the private key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        """Return the certificate as PEM text."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """Return the private key as unencrypted PKCS #8 PEM text."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def issue_authority(now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Pair:
    """Return a new self-signed authority that may sign end-entity certificates only.

    Args:
        now: aware moment of issue; validity begins a tenth of the lifetime earlier, at most
            BACKDATE.
        lifetime: from the moment of issue.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(AUTHORITY_NAME)
    builder = _builder(name, name, key, now, now + lifetime)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    ).add_extension(_key_usage(is_authority=True), critical=True)
    return Pair(certificate=builder.sign(key, hashes.SHA256()), key=key)


def issue_serving(
    authority: Pair,
    hosts: Iterable[str],
    now: datetime,
    lifetime: timedelta = SERVING_LIFETIME,
) -> Pair:
    """Return a new serving certificate for the hosts, never valid longer than its authority.

    Args:
        authority: the pair that signs.
        hosts: DNS names and IP addresses (``::1`` or ``[::1]``), at least one.
        now: aware moment of issue; validity begins earlier, as of `issue_authority`.
        lifetime: from the moment of issue.

    Raises:
        ValueError: no host, or one that is neither a DNS name nor an IP address.
    """
    names = normalise_hosts(hosts)
    issuer = authority.certificate
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, issuer.not_valid_after_utc)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = _builder(_name(SERVING_NAME), issuer.subject, key, now, end)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in names]), critical=False
        )
    )
    return Pair(certificate=builder.sign(authority.key, hashes.SHA256()), key=key)


def parse_pair(certificate_pem: bytes, key_pem: bytes) -> Pair:
    """Read a pair; of a bundle of certificates the first counts.

    Raises:
        ValueError: no PEM, no key on an elliptic curve, or the key of another certificate.
    """
    certificate = x509.load_pem_x509_certificates(certificate_pem)[0]
    key = serialization.load_pem_private_key(key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is on no elliptic curve")  # noqa: TRY004 - bad data
    if key.public_key() != certificate.public_key():
        raise ValueError("the private key belongs to another certificate")
    return Pair(certificate=certificate, key=key)


def hosts_of(certificate: x509.Certificate) -> frozenset[str]:
    """Return DNS names and IP addresses of a certificate, as ``normalise_hosts`` writes them."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Return whether the issuer's name and key are those that signed the certificate."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # noqa: BLE001 - the library raises InvalidSignature, ValueError, TypeError
        return False
    return True


def normalise_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct hosts in order of first use: DNS names in lower case, bare IP addresses.

    Raises:
        ValueError: no host at all, or an empty one.
    """
    names = tuple(dict.fromkeys(_normalise(host) for host in hosts))
    if not names:
        raise ValueError("a serving certificate needs at least one host name or IP address")
    return names


def _normalise(host: str) -> str:
    text = host.strip().removeprefix("[").removesuffix("]").rstrip(".").lower()
    if not text or (
        any(part.isspace() or part in "/:" for part in text) and not _is_address(text)
    ):
        raise ValueError(f"{host!r}: must be a DNS name or an IP address")
    return str(ipaddress.ip_address(text)) if _is_address(text) else text


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _general_name(host: str) -> x509.GeneralName:
    if _is_address(host):
        return x509.IPAddress(ipaddress.ip_address(host))
    return x509.DNSName(host)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(BACKDATE, (end - now) / _BACKDATED_PART))
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
