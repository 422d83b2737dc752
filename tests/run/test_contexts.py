"""Which TLS context a connection gets while the files change."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from admission.run.contexts import ContextCache
from certs import files
from certs.files import CertificateFiles

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def pair(tmp_path: Path) -> CertificateFiles:
    return files.ensure(tmp_path, ["localhost"], NOW)


@pytest.mark.parametrize("empty", ["", "\n"])
def test_where_clients_must_show_a_certificate_an_empty_file_lets_nobody_in(
    pair: CertificateFiles, empty: str
) -> None:
    with pytest.raises(OSError, match="no authority of clients"):
        ContextCache(pair, lambda: empty, require_client=True).current()


def test_a_file_of_authorities_that_becomes_empty_changes_nothing(pair: CertificateFiles) -> None:
    texts = [pair.ca.read_text()]
    contexts = ContextCache(pair, lambda: texts[-1], require_client=True)
    first = contexts.current()
    texts.append("")
    assert contexts.current() is first
    assert first.verify_mode is ssl.CERT_REQUIRED


def test_without_authorities_nobody_is_asked_for_a_certificate(pair: CertificateFiles) -> None:
    assert ContextCache(pair).current().verify_mode is ssl.CERT_NONE


def test_a_pair_that_cannot_be_loaded_is_told_once_until_it_changes(
    pair: CertificateFiles,
) -> None:
    good = pair.certificate.read_bytes()
    contexts = ContextCache(pair)
    first = contexts.current()
    with capture_logs() as logged:
        pair.certificate.write_text("garbage")
        contexts.current()
        assert logged == []  # somebody may be between writing the key and the certificate
        assert [contexts.current() for _ in range(10)] == [first] * 10
        assert [line["event"] for line in logged] == ["certificate_not_loaded"]
        pair.certificate.write_text("other garbage")
        for _ in range(10):
            contexts.current()
        assert len(logged) == 2
        pair.certificate.unlink()
        for _ in range(10):
            contexts.current()
        assert len(logged) == 3
        pair.certificate.write_bytes(good)
        contexts.current()
        pair.certificate.unlink()
        for _ in range(10):
            contexts.current()
        assert len(logged) == 4
