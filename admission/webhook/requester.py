"""The requester: the user who creates the topmost owner that a review sees.

The name is an annotation (ADR 0164). Reviews write it when an object is created, over whatever it
says. Nobody else sets or changes it: rules here for objects that are reviewed, and policies of the
API server for pods, Workloads and the pod templates of owners that serve.
"""

from collections.abc import Iterator
from typing import Final

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError, FieldPath
from admission.objects import views
from admission.webhook.review_context import Context, Rules

_PATH: Final = FieldPath.of("metadata", "annotations").key(names.REQUESTER)
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_CONTROLLERS: Final = "system:serviceaccount:kube-system:"
_PARTS: Final = (
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:node:",
)
COPIES: Final = frozenset(
    _CONTROLLERS + name for name in ("replicaset-controller", "statefulset-controller")
)
"""They make pods of templates in which only a review may have written a name."""


def stamp(metadata: views.ObjectMeta, context: Context, rules: Rules) -> dict[str, str]:
    """Return the annotation of an object that is being created; empty where it needs none.

    A controller asks for nobody: what it makes has the name that its owner has, if a review wrote
    that there, else none.
    """
    present = metadata.annotation(names.REQUESTER)
    if context.user in COPIES and metadata.controller() is not None:
        return {}
    name = _name(metadata, context, rules)
    return {names.REQUESTER: name} if name != names.UNKNOWN_REQUESTER or present else {}


def created(metadata: views.ObjectMeta, context: Context, rules: Rules) -> Iterator[FieldError]:
    """Yield why a new object may not have the name that it has."""
    present = metadata.annotation(names.REQUESTER)
    requester = stamp(metadata, context, rules).get(names.REQUESTER, present)
    if present and present != requester:
        yield fielderrors.forbidden(_PATH, "it names who creates the object: leave it out")


def changed(old: views.ObjectMeta, new: views.ObjectMeta) -> Iterator[FieldError]:
    """Yield why a name may not change; to lose it is allowed, as `kubectl replace` does."""
    present = new.annotation(names.REQUESTER)
    if present and present != old.annotation(names.REQUESTER):
        rule = "it names who created the object, and does not change: leave it as it is"
        yield fielderrors.forbidden(_PATH, rule)


def _name(metadata: views.ObjectMeta, context: Context, rules: Rules) -> str:
    user = context.user
    is_made = metadata.controller() is not None and user.startswith(_SERVICE_ACCOUNT)
    is_part = user.startswith((_CONTROLLERS, *_PARTS))
    if not user or is_made or is_part or user in rules.kinds.makers:
        return names.UNKNOWN_REQUESTER
    return user
