"""Whatever the lifetimes are, clients trust what servers serve, at every moment of a rotation."""

from datetime import UTC, datetime, timedelta

import pytest

from certs import authority, rotation
from certs.rotation import Holding, Lifetimes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTS = ("localhost", "127.0.0.1")
YEARS = Lifetimes()
MINUTE = Lifetimes(authority=timedelta(seconds=60), serving=timedelta(seconds=30))
SHORT = Lifetimes(authority=timedelta(days=30), serving=timedelta(days=2))


def renew(held: Holding, later: timedelta, lifetimes: Lifetimes = YEARS) -> Holding:
    return rotation.renew(held, HOSTS, NOW + later, lifetimes)


def first(lifetimes: Lifetimes = YEARS) -> Holding:
    return renew(Holding(), timedelta(), lifetimes)


def issuer(held: Holding) -> str:
    found = held.issuer()
    assert found is not None
    return found.fingerprint


@pytest.mark.parametrize("lifetimes", [YEARS, MINUTE, SHORT], ids=["years", "minute", "short"])
def test_two_authorities_that_end_at_different_times_are_made_at_first(lifetimes):
    held = first(lifetimes)
    older, newer = held.authorities
    assert older.end == NOW + lifetimes.authority / 2
    assert newer.end == NOW + lifetimes.authority
    assert issuer(held) == older.fingerprint


@pytest.mark.parametrize("lifetimes", [YEARS, MINUTE, SHORT], ids=["years", "minute", "short"])
def test_servers_that_lag_behind_are_trusted_by_clients_that_lag_behind(lifetimes):
    """Servers see a renewal late by an eighth of its life, clients a twentieth of an authority's.

    Four authorities long, every server's certificate is accepted by every client.
    """
    step = min(lifetimes.authority / 100, lifetimes.serving / 30)
    server_lag = round(lifetimes.serving / 8 / step)
    client_lag = round(lifetimes.authority / 20 / step)
    history = [first(lifetimes)]
    signers: list[str] = []
    for number in range(1, round(lifetimes.authority * 4 / step)):
        now = NOW + number * step
        trusted = rotation.fingerprints(history[max(number - client_lag, 0)].bundle())
        held = rotation.renew(history[-1], HOSTS, now, lifetimes, trusted)
        history.append(held)
        served = history[max(number - server_lag, 0)].serving
        assert served is not None
        for bundle in (held.bundle(), history[max(number - client_lag, 0)].bundle()):
            end = rotation.accepted_until(served.certificate_pem(), bundle)
            assert end is not None
            assert now < end
        if issuer(held) not in signers:
            signers.append(issuer(held))
        assert 2 <= len(held.authorities) <= 3
    assert len(signers) >= 5


def test_a_new_authority_is_trusted_for_a_quarter_of_a_lifetime_before_it_signs():
    held, known = first(), {one.fingerprint: NOW for one in first().authorities}
    step = timedelta(days=3)
    known = {one.fingerprint: NOW for one in held.authorities}
    for number in range(1, 1000):
        now = NOW + number * step
        held = rotation.renew(held, HOSTS, now, YEARS)
        for one in held.authorities:
            known.setdefault(one.fingerprint, now)
        if issuer(held) != held.authorities[0].fingerprint or known[issuer(held)] > NOW:
            assert now - known[issuer(held)] >= YEARS.authority / 4


def test_nothing_changes_while_nothing_is_due():
    held = first()
    assert renew(held, timedelta(days=200)) == held


@pytest.mark.parametrize(("days", "is_renewed"), [(230, False), (250, True)])
def test_a_serving_certificate_is_renewed_after_two_thirds_of_its_life(days, is_renewed):
    held = first()
    assert (renew(held, timedelta(days=days)).serving is not held.serving) is is_renewed


def test_an_authority_that_is_not_trusted_everywhere_does_not_sign():
    held = first()
    later = NOW + timedelta(days=300)
    older, newer = held.authorities
    kept = rotation.renew(held, HOSTS, later, YEARS, trusted={older.fingerprint})
    assert kept.serving is held.serving  # the older one has no longer to live
    renewed = rotation.renew(held, HOSTS, later, YEARS, trusted={newer.fingerprint})
    assert issuer(renewed) == newer.fingerprint


def test_where_nothing_is_accepted_any_more_a_new_authority_signs_at_once():
    held = first()
    later = NOW + timedelta(days=800)
    renewed = rotation.renew(held, HOSTS, later, YEARS, trusted=set())
    assert renewed.serving is not held.serving
    end = renewed.end()
    assert end is not None
    assert end > later


def test_one_authority_of_an_earlier_version_gets_another_beside_it():
    old = authority.issue_authority(NOW, timedelta(days=3650))
    serving = authority.issue_serving(old, HOSTS, NOW)
    content = {
        "ca.crt": old.certificate_pem(), "ca.key": old.key_pem(),
        "tls.crt": serving.certificate_pem(), "tls.key": serving.key_pem(),
    }  # fmt: skip
    held = rotation.read(content)
    renewed = renew(held, timedelta(days=1))
    assert renewed.serving is held.serving
    assert len(renewed.authorities) == 2
    assert old.certificate in [one.certificate for one in renewed.authorities]


def test_what_is_written_is_read_back():
    held = first()
    content = rotation.write(held)
    read = rotation.read(content)
    assert rotation.write(read) == content
    assert all(one.key is not None for one in read.authorities)
    assert rotation.hosts_of(read) == tuple(sorted(HOSTS))


def test_an_authority_without_its_key_is_trusted_and_does_not_sign():
    held = first()
    content = rotation.write(held)
    older = rotation.Authority(held.authorities[0].certificate, None)
    content["ca.key"] = rotation.write(Holding((held.authorities[1],), held.serving))["ca.key"]
    renewed = renew(rotation.read(content), timedelta(days=250))
    assert older.fingerprint in rotation.fingerprints(renewed.bundle())
    assert issuer(renewed) == held.authorities[1].fingerprint


@pytest.mark.parametrize(
    ("lifetimes", "early", "late"),
    [
        (YEARS, timedelta(days=330), timedelta(days=340)),
        (MINUTE, timedelta(seconds=20), timedelta(seconds=25)),
    ],
    ids=["30 days", "a quarter of its life"],
)
def test_a_certificate_that_ends_is_told_of_in_time(lifetimes, early, late):
    held = first(lifetimes)
    assert held.serving is not None
    pem, end = held.serving.certificate_pem(), held.end()
    assert end is not None
    assert not rotation.is_expiring(pem, end, NOW + early)
    assert rotation.is_expiring(pem, end, NOW + late)


def test_a_chain_is_accepted_as_long_as_all_of_it_is_valid():
    root = authority.issue_authority(NOW, timedelta(days=10))
    serving = authority.issue_serving(root, HOSTS, NOW, timedelta(days=20))
    other = authority.issue_authority(NOW)
    chain = serving.certificate_pem()
    both = other.certificate_pem() + root.certificate_pem()
    assert rotation.accepted_until(chain, both) == root.certificate.not_valid_after_utc
    assert rotation.accepted_until(chain, chain) == serving.certificate.not_valid_after_utc
    assert rotation.accepted_until(chain, other.certificate_pem()) is None
    assert rotation.accepted_until(chain, b"") is None


@pytest.mark.parametrize(
    ("content", "is_foreign"),
    [({}, False), ({"tls.crt": b"x"}, True), ({"tls.crt": b"x", "ca.key": b"x"}, False)],
)
def test_a_certificate_without_an_authoritys_key_is_somebody_elses(content, is_foreign):
    assert rotation.is_foreign(content) is is_foreign
