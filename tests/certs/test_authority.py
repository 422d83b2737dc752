"""What is issued passes the strict verifier, for the right host, at the right time only."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509 import verification

from certs import authority
from certs.authority import Pair

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTS = ("gpu-admission-webhook.gpu-admission-system.svc", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def signer():
    return authority.issue_authority(NOW)


@pytest.fixture(scope="module")
def serving(signer):
    return authority.issue_serving(signer, HOSTS, NOW)


def verify(
    signer: Pair, serving: Pair, subject: verification.Subject, moment: datetime
) -> list[x509.Certificate]:
    builder = verification.PolicyBuilder().store(verification.Store([signer.certificate]))
    return builder.time(moment).build_server_verifier(subject).verify(serving.certificate, [])


@pytest.mark.parametrize(
    "subject",
    [
        x509.DNSName(HOSTS[0]),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ],
    ids=str,
)
def test_the_strict_verifier_accepts_every_host(signer, serving, subject):
    chain = verify(signer, serving, subject, NOW)
    assert chain == [serving.certificate, signer.certificate]


@pytest.mark.parametrize(
    "shift", [-timedelta(minutes=59), authority.SERVING_LIFETIME - timedelta(minutes=1)]
)
def test_it_is_valid_from_an_hour_before_issue_to_the_end_of_its_life(signer, serving, shift):
    assert verify(signer, serving, x509.DNSName(HOSTS[0]), NOW + shift)


@pytest.mark.parametrize(
    ("subject", "shift"),
    [
        (x509.DNSName("elsewhere.example"), timedelta()),
        (x509.DNSName(HOSTS[0]), -timedelta(minutes=61)),
        (x509.DNSName(HOSTS[0]), authority.SERVING_LIFETIME + timedelta(minutes=1)),
    ],
    ids=["another host", "too early", "too late"],
)
def test_the_strict_verifier_refuses(signer, serving, subject, shift):
    with pytest.raises(verification.VerificationError):
        verify(signer, serving, subject, NOW + shift)


def test_another_authority_of_the_same_name_is_not_the_issuer(serving, signer):
    other = authority.issue_authority(NOW)
    assert authority.is_issued_by(serving.certificate, signer.certificate)
    assert not authority.is_issued_by(serving.certificate, other.certificate)
    with pytest.raises(verification.VerificationError):
        verify(other, serving, x509.DNSName(HOSTS[0]), NOW)


def test_a_serving_certificate_ends_no_later_than_its_authority(signer):
    late = NOW + authority.AUTHORITY_LIFETIME - timedelta(days=1)
    issued = authority.issue_serving(signer, HOSTS, late)
    assert issued.certificate.not_valid_after_utc == signer.certificate.not_valid_after_utc


def test_a_pair_survives_pem(serving):
    read = authority.parse_pair(serving.certificate_pem(), serving.key_pem())
    assert read.certificate == serving.certificate
    assert read.key.private_numbers() == serving.key.private_numbers()


def test_a_key_of_another_certificate_is_refused(serving, signer):
    with pytest.raises(ValueError, match="another certificate"):
        authority.parse_pair(serving.certificate_pem(), signer.key_pem())


def test_hosts_are_compared_in_one_spelling(serving):
    assert authority.hosts_of(serving.certificate) == frozenset(HOSTS)
    assert authority.normalise_hosts(["A.Example.", "[::1]", "a.example"]) == ("a.example", "::1")


@pytest.mark.parametrize("hosts", [(), ("",), ("127.0.0.1:9443",), ("https://x",), ("a b",)])
def test_what_is_no_host_is_refused(hosts):
    with pytest.raises(ValueError, match=r"DNS name|at least one"):
        authority.normalise_hosts(hosts)
