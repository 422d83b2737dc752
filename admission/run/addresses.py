"""Checks that a process can listen on its addresses, before anything is started."""

import errno
import os
import socket
from collections.abc import Mapping
from typing import Final

from admission.base.errors import AdmissionError
from admission.config.addresses import Address

_HOLDER: Final = (
    "another process uses this address, such as an earlier gpu-admission; see which with: "
    "ss -ltnp 'sport = :{port}'. Stop it, or choose another address with {option}"
)
_ADVICE: Final = {
    errno.EADDRINUSE: _HOLDER,
    errno.EADDRNOTAVAIL: "no interface of this machine has that address; choose one with {option}",
    errno.EACCES: "a port below 1024 needs more rights; choose a higher one with {option}",
}


class AddressError(AdmissionError):
    """A process cannot listen on an address.

    Attributes:
        advice: what to do about it.
    """

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


def check_free(addresses: Mapping[str, Address | None]) -> None:
    """Listen on each address for a moment; raises if one is in use.

    Args:
        addresses: by the option that chooses them; None and port 0 are always free.

    Raises:
        AddressError: one cannot be listened on.
    """
    for option, address in addresses.items():
        if address is not None and address.port:
            _check(option, address)


def _check(option: str, address: Address) -> None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        next_step = "choose another address with {option}"
        number = error.errno or 0  # negative where a name is not known
        advice = _ADVICE.get(number, next_step).format(port=address.port, option=option)
        reason = os.strerror(number).lower() if number > 0 else str(error)
        raise AddressError(f"cannot listen on {address.text()}: {reason}", advice) from error
