"""Policies in the API server: what only the controller may change of pods and Jobs.

The policies are the template ``protection``. See ADR 0114.
"""

from admission.admin import admission_policies, rendering
from admission.admin.admission_policies import listed
from admission.admin.rendering import Document
from admission.config.derived import Settings
from admission.owners import integrations


def documents(settings: Settings) -> list[Document]:
    """Return the policies, each followed by its binding.

    Args:
        settings: the managed namespaces.
    """
    kinds = integrations.kinds_of(settings)
    users = {user for kind in kinds.held if not kind.holds_children for user in kind.makers}
    return rendering.documents(
        "protection",
        **admission_policies.choice_of(settings.managed_namespaces),
        pod_makers=listed(kinds.makers),
        job_makers=listed(sorted(users)),
    )
