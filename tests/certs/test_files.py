"""The directory is filled once, renewed when due, and otherwise left alone."""

import http.server
import shutil
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from admission.base.clock import SystemClock
from certs import authority, files, rotation
from tests.controlplane.waiting import PATIENCE_SECONDS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTS = ("localhost", "127.0.0.1")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}


def test_an_absent_directory_is_filled_and_keys_are_private(tmp_path):
    directory = tmp_path / "deep" / "certs"
    made = files.ensure(directory, HOSTS, NOW)
    assert (made.ca, made.certificate, made.key) == tuple(
        directory / name for name in ("ca.crt", "tls.crt", "tls.key")
    )
    assert sorted(contents(directory)) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    for key in ("ca.key", "tls.key"):
        assert stat.S_IMODE((directory / key).stat().st_mode) == 0o600


def test_a_good_directory_is_left_alone(tmp_path):
    files.ensure(tmp_path, HOSTS, NOW)
    before = contents(tmp_path)
    files.ensure(tmp_path, ("LOCALHOST",), NOW + timedelta(days=200))
    assert contents(tmp_path) == before


def test_a_mounted_secret_without_the_authority_key_is_good(tmp_path):
    files.ensure(tmp_path, HOSTS, NOW)
    (tmp_path / "ca.key").unlink()
    before = contents(tmp_path)
    files.ensure(tmp_path, HOSTS, NOW)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("spoil", "hosts", "later"),
    [
        (lambda _: None, HOSTS, timedelta(days=250)),
        (lambda _: None, (*HOSTS, "webhook.example"), timedelta()),
        (lambda path: (path / "tls.key").unlink(), HOSTS, timedelta()),
        (lambda path: (path / "tls.crt").write_text("half a"), HOSTS, timedelta()),
        (lambda path: shutil.copy(path / "ca.key", path / "tls.key"), HOSTS, timedelta()),
    ],
    ids=["due", "new host", "no key", "garbage", "key of another"],
)
def test_a_bad_certificate_is_renewed_under_the_same_authority(tmp_path, spoil, hosts, later):
    files.ensure(tmp_path, HOSTS, NOW)
    before = contents(tmp_path)
    spoil(tmp_path)
    files.ensure(tmp_path, hosts, NOW + later)
    after = contents(tmp_path)
    assert (after["ca.crt"], after["ca.key"]) == (before["ca.crt"], before["ca.key"])
    assert after["tls.crt"] != before["tls.crt"]
    pair = authority.parse_pair(after["tls.crt"], after["tls.key"])
    assert authority.hosts_of(pair.certificate) == frozenset(hosts)


@pytest.mark.parametrize(
    ("spoil", "later"),
    [
        (lambda _: None, authority.AUTHORITY_LIFETIME - timedelta(days=300)),
        (lambda path: (path / "ca.crt").unlink(), timedelta()),
        (lambda path: (path / "ca.crt").write_bytes(foreign_authority()), timedelta()),
    ],
    ids=["ends too soon", "gone", "another authority"],
)
def test_an_authority_that_cannot_sign_is_replaced(tmp_path, spoil, later):
    files.ensure(tmp_path, HOSTS, NOW)
    before = contents(tmp_path)
    spoil(tmp_path)
    made = files.ensure(tmp_path, HOSTS, NOW + later)
    after = contents(tmp_path)
    assert after["ca.key"] != before["ca.key"]
    signer = authority.parse_pair(after["ca.crt"], after["ca.key"])
    serving = authority.parse_pair(made.certificate.read_bytes(), made.key.read_bytes())
    assert authority.is_issued_by(serving.certificate, signer.certificate)


def foreign_authority() -> bytes:
    return authority.issue_authority(NOW).certificate_pem()


def test_no_temporary_file_stays_behind_when_a_write_fails(tmp_path, monkeypatch):
    def refuse(_source, _target):
        raise OSError("disk is gone")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk is gone"):
        files.ensure(tmp_path, HOSTS, NOW)
    assert contents(tmp_path) == {}


def test_processes_that_start_together_agree_on_one_authority(tmp_path):
    threads = [
        threading.Thread(target=files.ensure, args=(tmp_path, HOSTS, NOW)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = contents(tmp_path)
    signer = authority.parse_pair(found["ca.crt"], found["ca.key"])
    serving = authority.parse_pair(found["tls.crt"], found["tls.key"])
    assert authority.is_issued_by(serving.certificate, signer.certificate)


def test_a_tls_client_that_trusts_the_authority_connects(tmp_path):
    made = files.ensure(tmp_path, HOSTS, SystemClock().now())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    trusting = ssl.create_default_context(cafile=str(made.ca))
    try:
        with (
            socket.create_connection(
                ("127.0.0.1", server.server_port), timeout=PATIENCE_SECONDS
            ) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            assert secure.version() == "TLSv1.3"
    finally:
        thread.join()
        server.server_close()


def test_a_directory_of_somebody_else_is_not_written_even_when_it_has_expired(tmp_path):
    files.ensure(tmp_path, HOSTS, NOW)
    (tmp_path / "ca.key").unlink()
    before = contents(tmp_path)
    files.ensure(tmp_path, ("elsewhere.example",), NOW + timedelta(days=400))
    assert contents(tmp_path) == before


def test_an_expired_certificate_is_renewed_by_the_authority_that_lives(tmp_path):
    files.ensure(tmp_path, HOSTS, NOW)
    before = rotation.fingerprints((tmp_path / "ca.crt").read_bytes())
    later = NOW + timedelta(days=400)
    made = files.ensure(tmp_path, HOSTS, later)
    after = made.ca.read_bytes()
    end = rotation.accepted_until(made.certificate.read_bytes(), after)
    assert end is not None
    assert end > later
    assert len(before & rotation.fingerprints(after)) == 1
