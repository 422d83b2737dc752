"""Policies in the API server that warn about what this program leaves without effect.

The policies are the template ``warnings``. They are ValidatingAdmissionPolicies with the action
Warn (ADR 0091).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from admission.admin import admission_policies, rendering, webhooks
from admission.admin.rendering import Document
from admission.admin.webhooks import quote
from admission.config.derived import Settings
from admission.gpu import foreign, resources
from admission.gpu.foreign import Foreign
from admission.kube import resources as api_resources
from admission.owners import integrations
from admission.owners.integrations import Kinds

OWNERS_POLICY: Final = "gpu-admission-warn-queue-label"
POD_NAMES_POLICY: Final = "gpu-admission-warn-gpu-names"
_EARLIER: Final = ("gpu-admission-warn-resourceflavor-fields",)
"""Policies that earlier versions installed."""

OWNERS: Final[Sequence[tuple[str, tuple[str, ...]]]] = (
    ("jobset.x-k8s.io", ("jobsets",)),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",)),
    ("ray.io", ("rayclusters", "rayjobs", "rayservices")),
    (
        "kubeflow.org",
        ("jaxjobs", "mpijobs", "mxjobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"),
    ),
    ("trainer.kubeflow.org", ("trainjobs",)),
    ("workload.codeflare.dev", ("appwrappers",)),
    ("sparkoperator.k8s.io", ("sparkapplications",)),
)
"""Kinds besides Deployment and StatefulSet on which people put a queue; none need exist here."""


def documents(settings: Settings) -> list[Document]:
    """Return the policies, each followed by its binding.

    Args:
        settings: the managed resources and the managed namespaces.

    Raises:
        InvalidValueError: a managed resource is no name and no prefix.
    """
    kinds = integrations.kinds_of(settings)
    owner_rules = list(_rules_of_owners(kinds))
    managed = webhooks.names_managed("r", resources.managed(settings.gpu.managed_resources))
    rendered = rendering.documents(
        "warnings",
        **admission_policies.choice_of(settings.managed_namespaces),
        managed=managed,
        serving=admission_policies.listed(
            kind.kind.plural for kind in kinds.serving if kind.kind.group == "apps"
        ),
        owner_rules=owner_rules,
        gpu_names=[_gpu_name(row, managed) for row in foreign.TABLE],
        names=_pattern(row.pattern for row in foreign.TABLE if not row.is_annotation),
        annotations=_pattern(row.pattern for row in foreign.TABLE if row.is_annotation),
    )
    if owner_rules:
        return rendered
    # The API server refuses a policy that concerns nothing.
    return [policy for policy in rendered if policy["metadata"]["name"] != OWNERS_POLICY]


def leftovers(settings: Settings) -> list[Document]:
    """Return what an earlier installation may have and this one has not, enough to delete it."""
    present = {document["metadata"]["name"] for document in documents(settings)}
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
        }
        for name in sorted({OWNERS_POLICY, *_EARLIER} - present)
        for resource in (
            api_resources.VALIDATING_POLICY_BINDINGS,
            api_resources.VALIDATING_POLICIES,
        )
    ]


def _rules_of_owners(kinds: Kinds) -> Iterable[Document]:
    """Changes of the owners whose queue label is not read."""
    read = {
        (kind.group, kind.plural)
        for kind in (*(kind.kind for kind in kinds.held), *(kind.kind for kind in kinds.serving))
    }
    for group, plurals in OWNERS:
        unread = [plural for plural in plurals if (group, plural) not in read]
        if unread:
            yield {
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": unread,
                "scope": "Namespaced",
            }


def _gpu_name(row: Foreign, managed: str) -> Document:
    """Return the warning about a GPU resource name that no quota counts."""
    (policy,) = rendering.documents(
        "warnings-annotation" if row.is_annotation else "warnings-resource",
        pattern=_pattern([row.pattern]),
        managed=managed,
        example=row.examples[0],
        vendor=row.vendor,
        unit=row.unit,
        mend=f"{row.mend.value[:1].upper()}{row.mend.value[1:]}",
    )
    return policy


def _pattern(patterns: Iterable[str]) -> str:
    return quote(f"^({'|'.join(patterns)})$")
