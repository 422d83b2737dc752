"""The bypass policies where there is no CEL: the embedded store asks the same rules in Python.

Only the creation of pods is judged, as `bypass_policies.CREATE_POLICY` does in an API server.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from admission.admin import bypass_policies
from admission.base import names
from admission.base.namespaces import AUDIT, BYPASS_CHOICES, DENY, DENY_STRICT
from admission.config.derived import Settings
from admission.config.gpu_configuration import Modes
from admission.gpu import bypass_rules, resources
from admission.gpu.bypass_rules import Bypass, Certainty
from admission.kube import errors
from admission.kube import resources as kinds
from admission.kube.api import Api
from admission.sandbox.embedded.reviews import WebhookCaller, WriteOperation


def reviewer(api: Api, settings: Settings) -> WebhookCaller:
    """Return a reviewer that judges new pods as their namespace's label says.

    Args:
        api: where the namespaces are.
        settings: the managed resources and namespaces.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    managed = resources.managed(settings.gpu.managed_resources)
    namespaces = settings.managed_namespaces

    def judge(review: Mapping[str, Any]) -> Mapping[str, Any]:
        request = review["request"]
        labels = _labels(api, request["namespace"])
        if namespaces.leave_out(request["namespace"], labels):
            return {"response": _response(request["uid"], AUDIT, [], [])}
        choice = _choice(labels, settings.gpu.effective_modes)
        findings = bypass_rules.of_pod(request["object"], managed)
        sure = [finding for finding in findings if _is_refused(finding, choice)]
        noticed = [finding for finding in findings if finding not in sure and _is_noticed(finding)]
        return {"response": _response(request["uid"], choice, sure, noticed)}

    return WebhookCaller(
        name=bypass_policies.CREATE_POLICY,
        resource=kinds.PODS,
        operations=frozenset({WriteOperation.CREATE}),
        mutating=False,
        call=judge,
    )


def _labels(api: Api, namespace: str) -> Mapping[str, str]:
    try:
        namespace_document = api.get(kinds.NAMESPACES, namespace)
    except errors.NotFoundError:
        return {}
    labels: Mapping[str, str] = namespace_document["metadata"].get("labels", {})
    return labels


def _choice(labels: Mapping[str, str], modes: Modes) -> str:
    choice = labels.get(names.BYPASS_LABEL, "")
    if choice in BYPASS_CHOICES:
        return choice
    return (modes.with_queue if names.HAS_QUEUE_LABEL in labels else modes.without_queue).bypass


def _is_refused(finding: Bypass, choice: str) -> bool:
    """Return whether a namespace that makes this choice does more than notice it."""
    if finding.severity is Certainty.SUSPICIOUS:
        return choice == DENY_STRICT and finding.rule in bypass_rules.STRICT
    return finding.severity is Certainty.BYPASS


def _is_noticed(finding: Bypass) -> bool:
    return finding.rule in {"visible-devices", "hidden-devices"}


def _response(
    uid: str, choice: str, findings: Iterable[Bypass], noticed: Iterable[Bypass]
) -> dict[str, Any]:
    texts = [f"{finding.field}: {finding.text}" for finding in findings]
    if texts and choice in {DENY, DENY_STRICT}:
        status = {"code": HTTPStatus.FORBIDDEN, "message": "; ".join(texts)}
        return {"uid": uid, "allowed": False, "status": status}
    texts += [f"{finding.field}: {finding.text}" for finding in noticed]
    return {"uid": uid, "allowed": True, "warnings": [] if choice == AUDIT else texts}
