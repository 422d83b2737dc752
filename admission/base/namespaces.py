"""Which namespaces are managed, and what holds there about pods outside of quota.

Pods and Jobs of namespaces that are not managed are left alone.

Source: kueue ``managedJobsNamespaceSelector``, which holds whatever labels a pod or Job has.
"""

from dataclasses import dataclass
from typing import Final, Literal

from admission.base import names
from admission.base.selectors import Labels, Requirement

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The API server gives every namespace this label, with its name."""
NEVER_MANAGED: Final = frozenset({"kube-system", names.SYSTEM_NAMESPACE})

DENY: Final = "deny"
DENY_STRICT: Final = "deny-strict"
WARN: Final = "warn"
AUDIT: Final = "audit"
BypassChoice = Literal["deny", "deny-strict", "warn", "audit"]
"""What can become of a pod that reaches GPUs around quota."""

BYPASS_CHOICES: Final[tuple[BypassChoice, ...]] = (DENY, DENY_STRICT, WARN, AUDIT)


@dataclass(frozen=True, slots=True)
class ManagedNamespaces:
    """A choice of namespaces, by their names and labels.

    Attributes:
        excluded: names of namespaces that are not managed, besides `NEVER_MANAGED`.
        requirements: what the labels of a managed namespace satisfy, each of them.
        queue_required: whether what asks for GPUs there is held until it has a queue.
        enforced_with_queue: whether it is refused without a queue, in namespaces with a LocalQueue
            whose label says nothing else.
        enforced_without_queue: likewise in namespaces without a LocalQueue.
    """

    excluded: frozenset[str] = frozenset()
    requirements: tuple[Requirement, ...] = ()
    queue_required: bool = False
    enforced_with_queue: bool = False
    enforced_without_queue: bool = False

    @property
    def unmanaged(self) -> tuple[str, ...]:
        """Names of namespaces that are not managed whatever their labels are, sorted."""
        return tuple(sorted(NEVER_MANAGED | self.excluded))

    def leave_out(self, name: str, labels: Labels | None) -> bool:
        """Return whether a namespace is surely not managed.

        Args:
            name: of the namespace.
            labels: of the namespace; None where it was not seen yet, so only its name counts.
        """
        if name in NEVER_MANAGED or name in self.excluded:
            return True
        return labels is not None and not all(
            requirement.matches(labels) for requirement in self.requirements
        )

    def include(self, name: str, labels: Labels | None) -> bool:
        """Return whether a namespace is surely managed; arguments as of `leave_out`."""
        if labels is None and self.requirements:
            return False
        return not self.leave_out(name, labels)

    def enforces(self, labels: Labels, *, has_queue: bool = False) -> bool:
        """Return whether what asks for GPUs in a managed namespace is refused without a queue.

        It is refused even where `queue_required` would hold it.

        Args:
            labels: of the namespace.
            has_queue: whether it is known to have a LocalQueue; its labels may say so later.
        """
        label = labels.get(names.ENFORCE_LABEL)
        if label in {"true", "false"}:
            return label == "true"
        if has_queue or names.HAS_QUEUE_LABEL in labels:
            return self.enforced_with_queue
        return self.enforced_without_queue


MANAGED: Final = ManagedNamespaces()
"""What is managed where nothing is chosen."""
