"""Acting as somebody else: who that is, and how a request says it.

The API server allows it to whoever has the verb ``impersonate`` for the user and the groups.
Source: client-go's transport/round_trippers.go, tools/clientcmd/api (AuthInfo).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose rights a request has in place of those of whoever sends it.

    Attributes:
        user: name of the user.
        groups: of the user.
        uid: of the user; empty for none.
        extra: further attributes of the user, with their values.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of a request, a name and a value each; names may repeat."""
        yield "Impersonate-User", self.user
        for group in self.groups:
            yield "Impersonate-Group", group
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for key, values in self.extra:
            for value in values:
                yield f"Impersonate-Extra-{quote(key, safe='')}", value
