"""Policies with which the API server holds pods and Jobs while the webhook does not answer.

The policies are the template ``hold``: MutatingAdmissionPolicies put our gate on pods and suspend
Jobs, before any webhook is asked. See docs/adr/0084-while-the-webhook-does-not-answer.md.
"""

from typing import Final

from admission.admin import admission_policies, rendering, webhooks
from admission.admin.admission_policies import listed
from admission.admin.rendering import Document
from admission.config.derived import Settings
from admission.gpu import resources as gpu_resources
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.owners import integrations
from admission.webhook import requester

PODS_POLICY: Final = "gpu-admission-hold-pods"
JOBS_POLICY: Final = "gpu-admission-hold-jobs"


def documents(
    settings: Settings, api_version: str = resources.MUTATING_POLICIES.api_version
) -> list[Document]:
    """Return the policies, each followed by its binding.

    Args:
        settings: the managed resources, the managed namespaces, and the kinds of owners.
        api_version: of MutatingAdmissionPolicies, as the API server serves them.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    kinds = integrations.kinds_of(settings)
    managed = gpu_resources.managed(settings.gpu.managed_resources)
    users = {user for kind in kinds.held if not kind.holds_children for user in kind.makers}
    return rendering.documents(
        "hold",
        **admission_policies.choice_of(settings.managed_namespaces),
        **webhooks.quota_needs(managed, kinds),
        api_version=api_version,
        copies=listed(sorted(requester.COPIES)),
        job_makers=listed(sorted(users)),
    )


def served_version(api: Api) -> str:
    """Return the ``apiVersion`` of the MutatingAdmissionPolicies that the API server serves.

    Empty where it serves none.

    Raises:
        KubeError: the API server refused.
    """
    for version in resources.versions(resources.MUTATING_POLICIES):
        try:
            api.list(version, limit=1)
        except errors.NotFoundError:
            continue
        return version.api_version
    return ""


def is_installed(api: Api) -> bool:
    """Return whether the policies are in the cluster; False for a user who may not look.

    Raises:
        KubeError: the API server did not answer.
    """
    for version in resources.versions(resources.MUTATING_POLICIES):
        try:
            api.get(version, PODS_POLICY)
        except (errors.NotFoundError, errors.ForbiddenError):
            continue
        return True
    return False
