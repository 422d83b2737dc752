"""What the embedded store over HTTP says of requests that fail."""

import pytest

from admission.sandbox.rest import StoreServer
from admission.sandbox.store import Store


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(ConnectionResetError(104, "Connection reset by peer"), False), (ValueError("odd"), True)],
)
def test_a_client_that_breaks_off_leaves_no_traceback(
    capfd: pytest.CaptureFixture[str], error: Exception, is_told: bool
) -> None:
    server = StoreServer(Store(), [])
    try:
        raise error
    except (OSError, ValueError):
        server._server.handle_error(None, ("127.0.0.1", 40000))
    finally:
        server.stop()

    assert bool(capfd.readouterr().err) == is_told
