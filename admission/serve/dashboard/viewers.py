"""The callers of the dashboard, and what each may see.

A browser sends the bearer token in a cookie that no script can read; nothing is kept here. A proxy
in front sends it as a header. The API server says whose it is, and what its owner may.
"""

from dataclasses import dataclass
from typing import Final

import flask

from admission.base.clock import Clock
from admission.kube.resources import Resource
from admission.serve import statuses
from admission.serve.access import Access, RequestTarget
from admission.serve.callers import Caller, Reviews, Tokens
from admission.serve.statuses import RefusedError

COOKIE: Final = "gpu-admission-token"
LONGEST_TOKEN: Final = 3_800
"""Bytes; browsers drop cookies of more than 4,096 with their name."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A caller, and what the API server says of them.

    Attributes:
        caller: the user of the token.
        access: asks what they may.
    """

    caller: Caller
    access: Access

    def may(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
        """Return whether `kubectl` would answer the caller; no namespace means all of them.

        Raises:
            KubeError: the API server refused or did not answer.
        """
        try:
            self.need(verb, resource, namespace, name)
        except RefusedError:
            return False
        return True

    def need(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> None:
        """Return if `kubectl` would answer the caller.

        Raises:
            RefusedError: it would not.
            KubeError: the API server refused or did not answer.
        """
        self.access.check(
            self.caller,
            RequestTarget(
                verb=verb,
                group=resource.group,
                version=resource.version,
                plural=resource.plural,
                namespace=namespace,
                name=name,
            ),
        )

    def may_list(self, resource: Resource, namespace: str) -> bool:
        """Return whether the caller may list a kind in a namespace, or in all of them."""
        return self.may("list", resource) or self.may("list", resource, namespace)


class Sessions:
    """Identifies callers by their tokens."""

    def __init__(self, api: Reviews, clock: Clock) -> None:
        self._tokens = Tokens(api, clock)
        self._access = Access(api, clock)

    def viewer(self, request: flask.Request) -> Viewer:
        """Return who asks.

        Raises:
            RefusedError: nobody says who, or the token is not good.
            KubeError: the API server refused or did not answer.
        """
        header = request.headers.get("Authorization", "")
        authorization = header or f"Bearer {request.cookies.get(COOKIE, '')}"
        caller = self.owner(authorization)
        if caller is None:
            raise statuses.unauthorized()
        return Viewer(caller, self._access)

    def owner(self, authorization: str) -> Caller | None:
        """Return whose token such a header holds; None if it is not good."""
        return self._tokens.caller([("authorization", authorization)])
