"""Who may do what: roles of the program's own service accounts and of people.

The templates are the source of ``install`` and of ``deploy/``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from admission.admin import rendering
from admission.admin.rendering import Document
from admission.base import names
from admission.owners import integrations
from admission.owners.integrations import Kinds

CONTROLLER_ACCOUNT: Final = "gpu-admission-controller"
CERTIFICATES_ROLE: Final = "gpu-admission-controller-certificates"
WEBHOOK_ACCOUNT: Final = "gpu-admission-webhook"
METRICS_AUTH: Final = "gpu-admission-metrics-auth-role"


def documents(
    namespace: str = names.SYSTEM_NAMESPACE,
    *,
    rotates: bool = True,
    kinds: Kinds = integrations.DEFAULT,
) -> list[Document]:
    """Return service accounts, roles and bindings, in the order in which they are applied.

    Args:
        namespace: of the program.
        rotates: whether the controller renews the webhook's certificates.
        kinds: of owners that are served.
    """
    owner_rules: list[Document] = []
    owner_roles: list[Document] = []
    for kind in kinds.held:
        of_controller, *of_people = rendering.documents(
            "rbac-owner",
            name=kind.kind.name.lower(),
            group=kind.kind.group,
            plural=kind.kind.plural,
        )
        owner_rules += _of_row(of_controller["rules"]) if kind.changes else of_controller["rules"]
        owner_roles += of_people
    owner_rules += [
        {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": ["list", "watch"]}
        for resource in dict.fromkeys(
            replace(secondary.resource, part="") for secondary in kinds.secondaries
        )
    ]
    owner_rules += [
        {
            "apiGroups": [kind.kind.group],
            "resources": [kind.kind.plural],
            "verbs": ["list", "watch"],
        }
        for kind in kinds.serving
        if kind.is_watched
    ]
    checked_rules = [
        {
            "apiGroups": [kind.kind.group],
            "resources": [kind.kind.plural],
            "verbs": ["list", "watch"],
        }
        for kind in kinds.checked
    ]
    return [
        *rendering.documents(
            "rbac", namespace=namespace, owner_rules=owner_rules, checked_rules=checked_rules
        ),
        *(certificates(namespace) if rotates else ()),
        *rendering.documents("rbac-people"),
        *owner_roles,
        *rendering.documents("rbac-pending-workloads"),
    ]


def _of_row(rules: Iterable[Document]) -> Iterator[Document]:
    """Yield the rules for owners whose status the controller leaves alone, and deletes none."""
    for rule in rules:
        if not rule["resources"][0].endswith("/status"):
            yield {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]}


def certificates(namespace: str) -> list[Document]:
    """Return the role with which the controller renews the webhook's certificates, bound."""
    return rendering.documents("rbac-certificates", namespace=namespace)
