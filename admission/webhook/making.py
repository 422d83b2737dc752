"""Whether the controller of an admitted owner makes an object: what is counted with that owner."""

from admission.objects import views
from admission.owners import review
from admission.owners.review import Mark
from admission.webhook.review_context import Context, Lister, Rules


def is_by_controller(
    metadata: views.ObjectMeta,
    marks: frozenset[Mark],
    context: Context,
    rules: Rules,
    lister: Lister,
) -> bool:
    """Return whether the controller of the owner that an object names makes or changes it.

    Anybody can write the mark of an admission, and name an owner. A maker of the owner's kind is
    trusted, other than a controller of Kubernetes itself, only where this owner exists and was
    admitted with these marks. Where that is not known, it is not trusted (ADR 0134).

    Args:
        metadata: of the object.
        marks: what the object says that was admitted: with which Workload, as which pod set, and
            how many devices for each pod. Its pods are counted by these.
        context: what the review says besides the objects.
        rules: what the installation chose.
        lister: what was last seen of the cluster.
    """
    owner, held_kind = metadata.controller(), rules.kinds.of_controller(metadata)
    if owner is None or held_kind is None or context.user not in held_kind.makers:
        return False
    if review.is_of_control_plane(context.user):
        return True
    admitted = lister.admissions(held_kind, context.namespace, owner, marks)
    return admitted is not None and marks <= admitted
