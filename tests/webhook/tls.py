"""What a server shows in a handshake."""

import socket
import ssl

from tests.controlplane.waiting import PATIENCE_SECONDS


def served_chain(port: int) -> bytes:
    """PEM text of the certificate that a server on 127.0.0.1 serves on a new connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain) as secure,
    ):
        shown = secure.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown).encode()
