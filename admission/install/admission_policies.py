"""The frame of ValidatingAdmissionPolicies and their bindings, as documents.

Which rules they hold is in `guard`, `protection`, `scope` and `warnpolicies`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from admission.base.namespaces import ManagedNamespaces
from admission.install.webhooks import quote

Document = dict[str, Any]

_API_VERSION: Final = "admissionregistration.k8s.io/v1"


def policy(
    name: str,
    rules: Iterable[Document],
    validations: Iterable[Document],
    *,
    fails: bool = True,
    namespaces: ManagedNamespaces | None = None,
    conditions: Iterable[Document] = (),
    variables: Iterable[Document] = (),
) -> Document:
    """Return a policy.

    Args:
        name: of the policy.
        rules: the requests that it is about; see `rule`.
        validations: what must hold of them.
        fails: whether a request is refused if an expression cannot be evaluated.
        namespaces: the managed ones, if it is about no others.
        conditions: which of the requests it is about.
        variables: parts of the expressions.
    """
    required = [one.document() for one in namespaces.requirements] if namespaces else []
    matched = [*([not_in(namespaces.unmanaged)] if namespaces else ()), *conditions]
    defined = list(variables)
    spec: Document = {
        "failurePolicy": "Fail" if fails else "Ignore",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": required} if required else {},
            "objectSelector": {},
            "resourceRules": list(rules),
        },
        **({"matchConditions": matched} if matched else {}),
        **({"variables": defined} if defined else {}),
        "validations": list(validations),
    }
    return _document("ValidatingAdmissionPolicy", name, spec)


def binding(
    policy_name: str,
    actions: Sequence[str],
    *,
    choice: str = "",
    selector: Mapping[str, Any] | None = None,
) -> Document:
    """Return what puts a policy in force.

    Args:
        policy_name: of the policy.
        actions: ``Deny``, ``Warn``, ``Audit``.
        choice: distinguishes several bindings of one policy.
        selector: of namespaces; None stands for all.
    """
    name = f"{policy_name}-{choice}" if choice else policy_name
    spec = {
        "policyName": policy_name,
        "validationActions": list(actions),
        "matchResources": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": dict(selector or {}),
            "objectSelector": {},
        },
    }
    return _document("ValidatingAdmissionPolicyBinding", name, spec)


def rule(
    group: str,
    resources: Iterable[str],
    operations: Iterable[str],
    *,
    version: str = "v1",
    scope: str = "Namespaced",
) -> Document:
    """Return the requests for some resources of an API group."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": scope,
    }


def choice_of(namespaces: ManagedNamespaces) -> dict[str, Any]:
    """Return the values by which a template of policies chooses the managed namespaces.

    What is left out by name is a condition and no selector: the API server looks at selectors for
    every write of whatever kind. Only what managed namespaces must have as labels takes one.
    """
    required = [one.document() for one in namespaces.requirements]
    return {
        "namespace_selector": {"matchExpressions": required} if required else {},
        "unmanaged": listed(namespaces.unmanaged),
    }


def not_in(namespaces: Iterable[str]) -> Document:
    """Return the condition that a request is for none of some namespaces.

    It is no selector: the API server looks at those for every write of whatever kind. Only what
    managed namespaces must have as labels takes one.
    """
    expression = f"!(request.namespace in [{listed(namespaces)}])"
    return {"name": "not-in-an-excluded-namespace", "expression": expression}


def listed(values: Iterable[str]) -> str:
    """Return texts as the members of a CEL list."""
    return ", ".join(map(quote, values))


def _document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
