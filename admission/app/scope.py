"""What the controller may not do although its role lets it: roles know no fields.

It holds ClusterQueues and what they are made of by a finalizer, for which it may patch them. A
policy in the API server keeps it to that: their spec belongs to administrators.
"""

from typing import Any, Final

from admission.app import rbac
from admission.base import names
from admission.controllers.queues import finalizers
from admission.settings import Settings
from admission.webhook.configuration import quote

_API_VERSION: Final = "admissionregistration.k8s.io/v1"
_NAME: Final = "gpu-admission-controller"
_HELD: Final = sorted(one.plural for one in finalizers.RESOURCES.values())
_SAME: Final = (
    "has(object.spec) == has(oldObject.spec) && "
    "(!has(object.spec) || object.spec == oldObject.spec)"
)


def documents(settings: Settings) -> list[dict[str, Any]]:
    """The policy and its binding."""
    account = f"system:serviceaccount:{settings.namespace}:{rbac.CONTROLLER_ACCOUNT}"
    rule = {
        "apiGroups": [names.KUEUE_GROUP],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": _HELD,
        "scope": "Cluster",
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [rule],
        },
        "matchConditions": [
            {
                "name": "by-the-controller",
                "expression": f"request.userInfo.username == {quote(account)}",
            }
        ],
        "validations": [
            {
                "expression": _SAME,
                "message": "the controller may change finalizers here, and no spec",
                "reason": "Forbidden",
            }
        ],
    }
    binding = {"policyName": _NAME, "validationActions": ["Deny"]}
    return [
        _document("ValidatingAdmissionPolicy", policy),
        _document("ValidatingAdmissionPolicyBinding", binding),
    ]


def _document(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": {"name": _NAME},
        "spec": spec,
    }
