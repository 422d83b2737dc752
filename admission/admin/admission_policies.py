"""What templates of ValidatingAdmissionPolicies are filled with."""

from collections.abc import Iterable
from typing import Any

from admission.admin.webhooks import quote
from admission.base.namespaces import ManagedNamespaces


def choice_of(namespaces: ManagedNamespaces) -> dict[str, Any]:
    """Return the values by which a template of policies chooses the managed namespaces.

    What is left out by name is a condition and no selector: the API server looks at selectors for
    every write of whatever kind. Only what managed namespaces must have as labels takes one.
    """
    required = [requirement.document() for requirement in namespaces.requirements]
    return {
        "namespace_selector": {"matchExpressions": required} if required else {},
        "unmanaged": listed(namespaces.unmanaged),
    }


def listed(values: Iterable[str]) -> str:
    """Return texts as the members of a CEL list."""
    return ", ".join(map(quote, values))
