"""The bypass guard where there is no CEL: the embedded store asks the same rules in Python.

Only the creation of pods is judged, as the policy `guard.CREATE_POLICY` does in an API server.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from admission.app import guard
from admission.gpu import bypass, resources
from admission.gpu.bypass import Bypass, Severity
from admission.kube import errors
from admission.kube import resources as kinds
from admission.kube.api import Api
from admission.kube.embedded.reviews import Operation, Reviewer
from admission.settings import Settings
from admission.webhook import configuration


def reviewer(api: Api, settings: Settings) -> Reviewer:
    """Judges new pods as their namespace's label says.

    Args:
        api: where the namespaces are.
        settings: the managed resources and the excluded namespaces.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    managed = resources.managed(settings.gpu.managed_resources)
    excluded = {*configuration.ALWAYS_EXCLUDED, *settings.gpu.excluded_namespaces}

    def judge(review: Mapping[str, Any]) -> Mapping[str, Any]:
        request = review["request"]
        found = [
            one
            for one in bypass.of_pod(request["object"], managed)
            if one.severity is Severity.BYPASS and request["namespace"] not in excluded
        ]
        return {"response": _response(request["uid"], _choice(api, request["namespace"]), found)}

    return Reviewer(
        name=guard.CREATE_POLICY,
        resource=kinds.PODS,
        operations=frozenset({Operation.CREATE}),
        mutating=False,
        call=judge,
    )


def _choice(api: Api, namespace: str) -> str:
    try:
        found = api.get(kinds.NAMESPACES, namespace)
    except errors.NotFoundError:
        return guard.WARN
    choice: str = found["metadata"].get("labels", {}).get(guard.LABEL, guard.WARN)
    return choice


def _response(uid: str, choice: str, found: Iterable[Bypass]) -> dict[str, Any]:
    texts = [f"{one.field}: {one.text}" for one in found]
    if texts and choice == guard.DENY:
        status = {"code": HTTPStatus.FORBIDDEN, "message": "; ".join(texts)}
        return {"uid": uid, "allowed": False, "status": status}
    return {"uid": uid, "allowed": True, "warnings": [] if choice == guard.AUDIT else texts}
