"""Pages of a list that all show the same moment."""

import base64
import itertools
import threading
from collections import OrderedDict
from typing import Final

from admission.sandbox.embedded import refusals
from admission.sandbox.embedded.journal import Stored

_KEPT: Final = 100
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You must "
    "start a new list without the continue parameter."
)


class ListPages:
    """Remembers what is left of paged lists, the newest hundred."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest: OrderedDict[str, tuple[tuple[Stored, ...], int]] = OrderedDict()
        self._numbers = itertools.count()

    def split(
        self, items: tuple[Stored, ...], version: int, limit: int
    ) -> tuple[tuple[Stored, ...], str]:
        """Return the first page and the token of the rest; no token if all fit."""
        if not limit or len(items) <= limit:
            return items, ""
        with self._lock:
            token = base64.urlsafe_b64encode(f"rest-{next(self._numbers)}".encode()).decode()
            self._rest[token] = (items[limit:], version)
            while len(self._rest) > _KEPT:
                self._rest.popitem(last=False)
        return items[:limit], token

    def rest(self, token: str) -> tuple[tuple[Stored, ...], int]:
        """Return what a token stands for.

        Raises:
            GoneError: too old.
            BadRequestError: no token of ours.
        """
        with self._lock:
            rest = self._rest.get(token)
        if rest is not None:
            return rest
        try:
            is_ours = base64.urlsafe_b64decode(token.encode()).startswith(b"rest-")
        except ValueError:
            is_ours = False
        if is_ours:
            raise refusals.expired(_TOO_OLD)
        raise refusals.bad_request("invalid continue token: continue key is not valid")

    def forget(self) -> None:
        """Expire every token."""
        with self._lock:
            self._rest.clear()
