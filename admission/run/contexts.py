"""TLS contexts of servers whose certificates are renewed while they serve."""

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from admission.base import logs
from certs.files import CertificateFiles

_log = logs.get("serving")

Stamp = tuple[int, int, int]


class ContextCache:
    """The TLS context of a certificate that may be renewed while it is in use.

    A pair that cannot be loaded, because only half of it is written yet, leaves the old one. If it
    is still so at the next connection, that is logged once.
    """

    def __init__(
        self,
        certificates: CertificateFiles,
        client_authorities: Callable[[], str] = lambda: "",
        *,
        require_client: bool = False,
    ) -> None:
        """Nothing is read yet.

        Args:
            certificates: serving certificate and key.
            client_authorities: PEM text of who may have signed a client's certificate. A client
                need not show one; the handshake fails with one of somebody else.
            require_client: a client must show one.
        """
        self._certificates = certificates
        self._client_authorities = client_authorities
        self._require_client = require_client
        self._lock = threading.Lock()
        self._stamps: tuple[Stamp, Stamp, str] | None = None
        self._refused: tuple[tuple[Stamp, Stamp, str] | None, str] | None = None
        self._told: tuple[tuple[Stamp, Stamp, str] | None, str] | None = None
        self._context: ssl.SSLContext | None = None

    def front(self) -> ssl.SSLContext:
        """Return a context for the listening socket, which gives each connection the current one.

        The library asks the callback for every handshake, also without a server name.

        Raises:
            OSError: a file cannot be read, or names no authority of clients although it must.
            ssl.SSLError: the files hold no usable pair.
        """
        self.current()
        context = self._load()

        def choose(
            connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
        ) -> None:
            connection.context = self.current()

        context.sni_callback = choose
        return context

    def current(self) -> ssl.SSLContext:
        """Return the context for the next connection; costs two stat calls while nothing changes.

        Raises:
            OSError: as of `front`, and there is no earlier context.
            ssl.SSLError: the files hold no usable pair, and there is no earlier context.
        """
        with self._lock:
            stamps = None
            try:
                stamps = (
                    _stamp(self._certificates.certificate),
                    _stamp(self._certificates.key),
                    self._client_authorities(),
                )
                if stamps != self._stamps or self._context is None:
                    self._context = self._load()
                    self._stamps = stamps
                self._refused = self._told = None
            except OSError as error:  # also what the ssl module raises
                if self._context is None:
                    raise
                # Somebody may be between writing the key and the certificate.
                refused = (stamps, str(error))
                if refused == self._refused and refused != self._told:
                    _log.warning("certificate_not_loaded", error=str(error))
                    self._told = refused
                self._refused = refused
            return self._context

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificates.certificate, self._certificates.key)
        authorities = self._client_authorities().strip()
        if self._require_client and not authorities:
            raise OSError("no authority of clients in the file of --client-ca")
        if authorities:
            context.load_verify_locations(cadata=authorities)
            context.verify_mode = ssl.CERT_REQUIRED if self._require_client else ssl.CERT_OPTIONAL
            # As in Go, whoever is named is trusted, even where somebody else has signed them.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_ino, status.st_size
