"""Addresses to listen on, as files and arguments write them: ``HOST:PORT``."""

from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import AfterValidator

from admission.base.errors import InvalidValueError
from admission.config.model import SHOWN_IF_SET

ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - asked for
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts at which only this machine, or this pod, is reached."""
NOWHERE: Final = "0"
"""Text that turns listening off, as controller-runtime has it."""
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen.

    Attributes:
        host: IP address or name.
        port: TCP port; 0 for a free one.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address that a text says: ``HOST:PORT``, or ``:PORT`` for all interfaces.

        Raises:
            InvalidValueError: the text is no address.
        """
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdecimal() or int(port) > _MAX_PORT:
            raise InvalidValueError(text, "must be HOST:PORT, :PORT, or 0 for off")
        return cls(host.strip("[]") or ANY_HOST, int(port))

    def text(self) -> str:
        """Return ``HOST:PORT``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address | None:
    """Return where to listen; None where the text is empty or says nowhere.

    Raises:
        InvalidValueError: the text is no address.
    """
    return None if text in {"", NOWHERE} else Address.parse(text)


def _written(text: str) -> str:
    """Return the one text of an address; what is none stays as it is, for the rules to name it."""
    try:
        return text if (address := parse(text)) is None else address.text()
    except InvalidValueError:
        return text


BindAddress = Annotated[str, AfterValidator(_written)]
"""An address in a file."""
OptionalBindAddress = Annotated[
    str, AfterValidator(lambda text: "" if text == NOWHERE else _written(text)), SHOWN_IF_SET
]
"""An address in a file; nowhere is the default, and empty."""
