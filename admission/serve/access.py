"""Authorization of requests by the API server, with SubjectAccessReviews.

Source: k8s.io/apiserver pkg/server/options/authorization.go (10 s for each answer, nothing asked
about system:masters), pkg/endpoints/handlers/responsewriters/errors.go (the message).
"""

from dataclasses import dataclass
from typing import Any, Final

from admission.base import names
from admission.base.clock import Clock
from admission.kube import resources
from admission.serve import statuses
from admission.serve.callers import Caller, Reviews
from admission.serve.memory import ExpiringCache

_REMEMBERED_SECONDS: Final = 10.0
_MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """What a request is about: a path, or an object, a collection of them or a subresource.

    Attributes:
        verb: of the request, as ``get``.
        path: where nothing but a path is asked for; empty otherwise.
        group: of the API; empty for the core group.
        version: of the API.
        plural: such as ``clusterqueues``.
        subresource: of it; empty for the object itself.
        namespace: empty for a kind without namespaces, and for all namespaces.
        name: of the object; empty for a collection.
    """

    verb: str
    path: str = ""
    group: str = names.VISIBILITY_GROUP
    version: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def attributes(self) -> dict[str, Any]:
        """Return part of the spec of a SubjectAccessReview."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "version": self.version,
            "resource": self.plural,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {"resourceAttributes": {key: value for key, value in attributes.items() if value}}


class Access:
    """Asks whether users may; remembers the answers for seconds."""

    def __init__(self, api: Reviews, clock: Clock) -> None:
        self._api = api
        self._known: ExpiringCache[tuple[Caller, RequestTarget], tuple[bool, str]] = ExpiringCache(
            clock, _REMEMBERED_SECONDS
        )

    def check(self, caller: Caller, target: RequestTarget) -> None:
        """Return if the user may; raise if not.

        Raises:
            RefusedError: the user may not.
            KubeError: the API server refused or did not answer.
        """
        if _MASTERS in caller.groups:
            return
        allowed, reason = self._known.get((caller, target), lambda: self._review(caller, target))
        if not allowed:
            raise _forbidden(caller, target, reason)

    def _review(self, caller: Caller, target: RequestTarget) -> tuple[bool, str]:
        resource = resources.SUBJECT_ACCESS_REVIEWS
        spec = {
            "user": caller.name,
            "groups": list(caller.groups),
            **({"uid": caller.uid} if caller.uid else {}),
            **({"extra": {k: list(v) for k, v in caller.extra}} if caller.extra else {}),
            **target.attributes(),
        }
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        status = self._api.create(resource, review).get("status", {})
        # "denied" is stronger than "allowed", which is then false; both are looked at.
        allowed = bool(status.get("allowed")) and not status.get("denied")
        return allowed, str(status.get("reason", ""))


def _forbidden(caller: Caller, target: RequestTarget, reason: str) -> statuses.RefusedError:
    tail = f": {reason}" if reason else ""
    if target.path:
        text = f'User "{caller.name}" cannot {target.verb} path "{target.path}"'
        return statuses.forbidden(f"forbidden: {text}{tail}", {})
    group = target.group
    resource = "/".join(part for part in (target.plural, target.subresource) if part)
    where = (
        f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    )
    name = f' "{target.name}"' if target.name else ""
    kind = ".".join(part for part in (target.plural, group) if part)
    message = (
        f'{kind}{name} is forbidden: User "{caller.name}" cannot {target.verb} '
        f'resource "{resource}" in API group "{group}" {where}{tail}'
    )
    return statuses.forbidden(
        message, {"name": target.name, "group": group, "kind": target.plural}
    )
