"""Addresses as arguments: ``HOST:PORT``."""

from typing import Any

import click
from typing_extensions import override

from admission.base.errors import InvalidValueError
from admission.config.addresses import Address


class AddressType(click.ParamType[Address]):
    """``127.0.0.1:9443``, ``[::1]:9443``, or ``:9443`` for all interfaces; port 0 = a free one."""

    name = "HOST:PORT"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        if isinstance(value, Address):
            return value
        try:
            return Address.parse(str(value))
        except InvalidValueError:
            self.fail(f"{value!r} is no HOST:PORT such as 127.0.0.1:9443", param, ctx)


ADDRESS = AddressType()
