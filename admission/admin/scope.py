"""Policies in the API server: what the controller's account may change of which objects.

Roles know no fields. So the policies of the template ``scope`` limit the controller's writes to
the fields that its code changes, and keep it out of the excluded namespaces; those of
``scope-certificates`` limit it to each caBundle. See
docs/adr/0083-the-controllers-account-changes-few-fields.md.
"""

from admission.admin import rbac, rendering
from admission.admin.admission_policies import listed
from admission.admin.rendering import Document
from admission.admin.webhooks import quote
from admission.config.derived import Settings
from admission.owners import integrations


def documents(settings: Settings) -> list[Document]:
    """Return the policies, each followed by its binding."""
    account = quote(f"system:serviceaccount:{settings.namespace}:{rbac.CONTROLLER_ACCOUNT}")
    unmanaged = listed(settings.managed_namespaces.unmanaged)
    documents = rendering.documents("scope", controller=account, unmanaged=unmanaged)
    for kind in integrations.kinds_of(settings).held:
        if kind.changes:
            documents += rendering.documents(
                "scope-owner",
                controller=account,
                unmanaged=unmanaged,
                kind=kind.kind.name,
                name=kind.kind.name.lower(),
                group=kind.kind.group,
                plural=kind.kind.plural,
                changes=listed(kind.changes),
            )
    if settings.kueue.internal_cert_management.enable:
        documents += rendering.documents("scope-certificates", controller=account)
    return documents
