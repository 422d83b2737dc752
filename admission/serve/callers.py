"""Authentication: the user whose request an API server passes on, or the owner of a token.

Source: k8s.io/apiserver pkg/authentication/request/headerrequest (what the ConfigMap
``extension-apiserver-authentication`` means), pkg/authentication/token/cache.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import unquote

from admission.base import structs
from admission.base.clock import Clock
from admission.kube import resources
from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.serve.memory import ExpiringCache

CONFIG_MAP: Final = "extension-apiserver-authentication"
CONFIG_MAP_NAMESPACE: Final = "kube-system"
Headers = Sequence[tuple[str, str]]
"""Headers of a request as they came: none merged, none renamed."""

_BEARER: Final = "bearer "
_REMEMBERED_SECONDS: Final = 10.0
_ANONYMOUS: Final = "system:anonymous"
_KNOWN: Final = "system:authenticated"
_UNKNOWN: Final = "system:unauthenticated"
_TEXTS: Final = structs.decoder(tuple[str, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A user.

    Attributes:
        name: of the user.
        uid: of the user; empty if unknown.
        groups: groups of the user.
        extra: what else is known, as pairs of key and values, sorted by key.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """How the API server authenticates itself and names the user.

    Attributes:
        authority: PEM text of the authority of its client certificate.
        names: common names of that certificate that are accepted; empty for every one.
        user_headers: the first of these that is there names the user.
        uid_headers: the same for the user's uid.
        group_headers: all of these name groups.
        extra_prefixes: headers that begin so hold the rest.
    """

    authority: str
    names: frozenset[str] = frozenset()
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, str]) -> "FrontProxy | None":
        """Read the ConfigMap's data; return None where this API server passes no requests on.

        Raises:
            msgspec.DecodeError: a list in it is none.
        """
        authority = data.get("requestheader-client-ca-file", "")
        if not authority:
            return None
        return cls(
            authority=authority,
            names=frozenset(_texts(data, "requestheader-allowed-names")),
            user_headers=_texts(data, "requestheader-username-headers"),
            uid_headers=_texts(data, "requestheader-uid-headers"),
            group_headers=_texts(data, "requestheader-group-headers"),
            extra_prefixes=_texts(data, "requestheader-extra-headers-prefix"),
        )

    def caller(self, peer: str | None, headers: Headers) -> Caller | None:
        """Return the user in whose name a request is passed on; None if it is not.

        Args:
            peer: common name of the client certificate, which the authority signed; None if the
                client showed none.
            headers: of the request.
        """
        if peer is None or (self.names and peer not in self.names):
            return None
        try:
            lowered = [(name.lower(), _decoded(value)) for name, value in headers]
        except UnicodeError:
            return None
        name = _first(self.user_headers, lowered)
        if not name:
            return None
        groups = [v for header in self.group_headers for v in _values(header, lowered) if v]
        return Caller(
            name=name,
            uid=_first(self.uid_headers, lowered),
            groups=_with_everybody(name, groups),
            extra=self._extra(lowered),
        )

    def _extra(self, headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
        extra: dict[str, list[str]] = {}
        for prefix in self.extra_prefixes:
            for name, value in headers:
                if name.startswith(prefix.lower()):
                    key = unquote(name[len(prefix) :]).lower()
                    extra.setdefault(key, []).append(value)
        return tuple((key, tuple(extra[key])) for key in sorted(extra))


class Reviews(Protocol):
    """The part of an API server that answers reviews."""

    def create(self, resource: Resource, obj: Mapping[str, Any], /) -> Document:
        """Send a review; the answer is in its status."""
        ...


class Tokens:
    """Asks the API server whose a bearer token is; remembers the answer for seconds."""

    def __init__(self, api: Reviews, clock: Clock) -> None:
        self._api = api
        self._known: ExpiringCache[bytes, Caller | None] = ExpiringCache(
            clock, _REMEMBERED_SECONDS
        )

    def caller(self, headers: Headers) -> Caller | None:
        """Return the owner of the request's token; None if it has none that is good.

        Raises:
            KubeError: the API server refused or did not answer.
        """
        values = [value for name, value in headers if name.lower() == "authorization"]
        if len(values) != 1 or not values[0].lower().startswith(_BEARER):
            return None
        token = values[0][len(_BEARER) :].strip()
        if not token:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        return self._known.get(digest, lambda: self._review(token))

    def _review(self, token: str) -> Caller | None:
        resource = resources.TOKEN_REVIEWS
        review = {
            "apiVersion": resource.api_version, "kind": resource.kind, "spec": {"token": token},
        }  # fmt: skip
        status = self._api.create(resource, review).get("status", {})
        return _user(status.get("user") or {}) if status.get("authenticated") else None


def _with_everybody(name: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Adds the group of everybody who is known, which the API server's own users do not name.

    Source: k8s.io/apiserver pkg/authentication/group/authenticated_group_adder.go.
    """
    if name == _ANONYMOUS or {_KNOWN, _UNKNOWN} & set(groups):
        return tuple(groups)
    return (*groups, _KNOWN)


def _user(user: Mapping[str, Any]) -> Caller:
    extra = user.get("extra") or {}
    return Caller(
        name=user.get("username", ""),
        uid=user.get("uid", ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple((key, tuple(extra[key])) for key in sorted(extra)),
    )


def _texts(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    return _TEXTS.decode(data.get(key) or "[]")


def _decoded(value: str) -> str:
    """The text of a header, which the server read as if every byte were a letter."""
    return value.strip().encode("latin-1").decode()


def _values(header: str, headers: Headers) -> Iterable[str]:
    return (value for name, value in headers if name == header.lower())


def _first(header_names: Iterable[str], headers: Headers) -> str:
    values = (value for header in header_names for value in _values(header, headers))
    return next((value for value in values if value), "")
