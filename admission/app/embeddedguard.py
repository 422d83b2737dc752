"""The bypass guard where there is no CEL: the embedded store asks the same rules in Python.

Only the creation of pods is judged, as the policy `guard.CREATE_POLICY` does in an API server.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from admission.app import guard
from admission.base import names
from admission.gpu import bypass, resources
from admission.gpu.bypass import Bypass, Severity
from admission.kube import errors
from admission.kube import resources as kinds
from admission.kube.api import Api
from admission.kube.embedded.reviews import Operation, Reviewer
from admission.settings import Settings


def reviewer(api: Api, settings: Settings) -> Reviewer:
    """Judges new pods as their namespace's label says.

    Args:
        api: where the namespaces are.
        settings: the managed resources and namespaces.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    managed = resources.managed(settings.gpu.managed_resources)
    namespaces = settings.gpu.managed_namespaces

    def judge(review: Mapping[str, Any]) -> Mapping[str, Any]:
        request = review["request"]
        found = [
            one
            for one in bypass.of_pod(request["object"], managed)
            if one.severity is Severity.BYPASS
        ]
        labels = _labels(api, request["namespace"])
        if namespaces.leave_out(request["namespace"], labels):
            found = []
        choice = labels.get(names.BYPASS_LABEL, guard.WARN)
        return {"response": _response(request["uid"], choice, found)}

    return Reviewer(
        name=guard.CREATE_POLICY,
        resource=kinds.PODS,
        operations=frozenset({Operation.CREATE}),
        mutating=False,
        call=judge,
    )


def _labels(api: Api, namespace: str) -> Mapping[str, str]:
    try:
        found = api.get(kinds.NAMESPACES, namespace)
    except errors.NotFoundError:
        return {}
    labels: Mapping[str, str] = found["metadata"].get("labels", {})
    return labels


def _response(uid: str, choice: str, found: Iterable[Bypass]) -> dict[str, Any]:
    texts = [f"{one.field}: {one.text}" for one in found]
    if texts and choice == guard.DENY:
        status = {"code": HTTPStatus.FORBIDDEN, "message": "; ".join(texts)}
        return {"uid": uid, "allowed": False, "status": status}
    return {"uid": uid, "allowed": True, "warnings": [] if choice == guard.AUDIT else texts}
