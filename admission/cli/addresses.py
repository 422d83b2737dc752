"""Addresses as arguments: ``HOST:PORT``."""

from typing import Any

import click
from typing_extensions import override

from admission.config.addresses import Address

_MAX_PORT = 65535


class AddressType(click.ParamType[Address]):
    """``127.0.0.1:9443``, ``[::1]:9443``, or ``:9443`` for all interfaces; port 0 = a free one."""

    name = "HOST:PORT"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        if isinstance(value, Address):
            return value
        host, separator, port = str(value).rpartition(":")
        if not separator or not port.isdecimal() or int(port) > _MAX_PORT:
            self.fail(f"{value!r} is no HOST:PORT such as 127.0.0.1:9443", param, ctx)
        return Address(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - asked for


ADDRESS = AddressType()
