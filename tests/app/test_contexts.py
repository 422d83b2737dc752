"""Which TLS context a connection gets while the files change."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from admission.app.contexts import ContextCache
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
