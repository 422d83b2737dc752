"""What a command that failed advises: what fits the error, else what fits the command."""

import errno
import os

import pytest

from admission.base.errors import InvalidValueError
from admission.cli import output
from admission.kube import errors

FITTING = {
    "no answer": (errors.TransportError("connection refused by 127.0.0.1:6443"), "API server"),
    "401": (errors.make(401, "who are you"), "credentials"),
    "403": (errors.make(403, "no"), "kubectl auth can-i"),
    "429": (errors.make(429, "later"), "overloaded"),
    "500": (errors.make(500, "etcd"), "its log"),
    "port in use": (OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)), "another address"),
}


def printed(error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit), output.reported("see the pods there are"):
        raise error
    return capsys.readouterr().err


@pytest.mark.parametrize(("error", "hint"), FITTING.values(), ids=FITTING)
def test_a_hint_fits_the_error(
    error: Exception, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = printed(error, capsys).splitlines()
    assert first == f"error: {error}"
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize(
    "error", [errors.make(404, 'pods "train" not found'), InvalidValueError("x", "must be y")]
)
def test_else_it_is_that_of_the_command(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(error, capsys).endswith("hint: see the pods there are\n")
