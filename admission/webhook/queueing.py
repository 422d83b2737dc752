"""Which pods are managed, and the queue of each.

A pod is ours with a queue label, or when it asks for a managed resource in a namespace with a
LocalQueue named ``default``. Differs from Kueue, where such a LocalQueue takes every pod of the
namespace, and where a stopped one takes none: here it still holds GPU pods back.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from admission.base import clock, names
from admission.objects import gangs, pods
from admission.objects.reviewed_pod import ReviewedPod
from admission.owners import review
from admission.webhook import making, metadata_rules, requests
from admission.webhook.review_context import Context, Lister, Rules

SETTLING_US: Final = 30_000_000
"""Age below which a namespace may have queues that were not seen yet, in microseconds."""


class ManagementState(Enum):
    """How a pod relates to quota; the value is a metric label."""

    QUEUED = "queued"  # ours, with a queue
    SUSPENDED = "suspended"  # held for a parent that is queued as a whole
    OF_JOB = "of_job"  # counted with the owner that made it
    IN_DOUBT = "in_doubt"  # held until it is known whether it is ours, or has a queue
    UNMANAGED = "unmanaged"  # takes a managed resource outside every queue
    REFUSED = "refused"  # would be unmanaged where that is forbidden
    FREE = "free"  # none of our business


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueingResult:
    """Result of looking at one pod.

    Attributes:
        standing: how it stands to quota.
        queue: name of the LocalQueue; empty where there is none.
        wants: managed resources it asks for, sorted by name.
    """

    standing: ManagementState
    queue: str = ""
    wants: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """Return whether the pod needs the admission gate."""
        return self.standing in _HELD


_HELD: Final = {ManagementState.QUEUED, ManagementState.SUSPENDED, ManagementState.IN_DOUBT}


def place(pod: ReviewedPod, context: Context, rules: Rules, lister: Lister) -> QueueingResult:
    """Return where a pod that is being created belongs; the first rule that fits decides."""
    if is_left_alone(pod, context, rules, lister):
        return QueueingResult(standing=ManagementState.FREE)
    wants = requests.managed_names(pod, rules.managed)
    if is_of_admitted_owner(pod, context, rules, lister):
        return QueueingResult(standing=ManagementState.OF_JOB, wants=wants)
    return _place(pod, wants, context, rules, lister)


def is_left_alone(pod: ReviewedPod, context: Context, rules: Rules, lister: Lister) -> bool:
    """Return whether a pod is a mirror of a static one, or in a namespace that is not managed."""
    is_mirror = pods.MIRROR_ANNOTATION in (pod.metadata.annotations or {})
    return is_mirror or is_left_out(context.namespace, rules, lister)


def is_looked_at(pod: ReviewedPod, context: Context, rules: Rules, lister: Lister) -> bool:
    """Return whether a new pod is judged by itself: not left alone, nor of an admitted owner."""
    if is_of_admitted_owner(pod, context, rules, lister):
        return False
    return not is_left_alone(pod, context, rules, lister)


def _place(
    pod: ReviewedPod, wants: tuple[str, ...], context: Context, rules: Rules, lister: Lister
) -> QueueingResult:
    """Return the placement of a pod that is not counted with an owner."""
    if pod.spec.node_name:  # the API server refuses a gate beside a node name
        return _outside(wants, context, rules, lister)
    if names.POD_SUSPENDING_PARENT in (pod.metadata.annotations or {}):
        label = pod.metadata.label(names.QUEUE_LABEL)
        return QueueingResult(standing=ManagementState.SUSPENDED, queue=label, wants=wants)
    if _waits_for_gang(pod, wants, context, lister):
        return QueueingResult(standing=ManagementState.IN_DOUBT, wants=wants)
    queue = _queue(pod, wants, context, lister)
    if queue:
        return QueueingResult(standing=ManagementState.QUEUED, queue=queue, wants=wants)
    if _may_want_devices(pod, wants) and _is_kept(wants, context, rules, lister):
        return QueueingResult(standing=ManagementState.IN_DOUBT, wants=wants)
    return _outside(wants, context, rules, lister)


def _queue(pod: ReviewedPod, wants: tuple[str, ...], context: Context, lister: Lister) -> str:
    label = pod.metadata.label(names.QUEUE_LABEL)
    if label or not wants:
        return label
    return names.DEFAULT_LOCAL_QUEUE if has_default_queue(context.namespace, lister) else ""


def _waits_for_gang(
    pod: ReviewedPod, wants: tuple[str, ...], context: Context, lister: Lister
) -> bool:
    """Return whether the PodGroup of a pod may say its queue; only the controller knows it."""
    _, group = metadata_rules.group_name(pod)
    if not wants or pod.metadata.label(names.QUEUE_LABEL) or group or pod.gang() is None:
        return False
    return bool(lister.local_queue_names(context.namespace))


def gang_of(pod: ReviewedPod, rules: Rules) -> gangs.Reference | None:
    """Return the PodGroup of a pod that is being created, or its controller where that is one.

    None where it names a group of Kueue. A controller whose kind is served is held itself.
    """
    _, group = metadata_rules.group_name(pod)
    if group:
        return None
    is_served = rules.kinds.of_controller(pod.metadata) is not None
    return pod.gang() or (None if is_served else gangs.of_controller(pod.metadata))


def lacks_a_queue(
    pod: ReviewedPod, placement: QueueingResult, context: Context, lister: Lister
) -> bool:
    """Return whether a pod that is held without a queue waits for one, as far as is known."""
    is_settled = not _may_lag(context, lister) and pod.gang() is None
    return is_settled and bool(placement.wants)


def _may_want_devices(pod: ReviewedPod, wants: tuple[str, ...]) -> bool:
    """A ResourceClaim or a DeviceClass may be for a GPU: only the controller can tell."""
    return bool(wants or pod.spec.resource_claims or requests.of_classes(pod))


def _is_kept(wants: tuple[str, ...], context: Context, rules: Rules, lister: Lister) -> bool:
    """Return whether a pod without a queue is held until it is known if it wants devices."""
    if _may_lag(context, lister):
        return True
    enforced = is_enforced(context.namespace, rules, lister)
    if wants:
        return rules.namespaces.queue_required and not enforced
    by_queue = enforced or has_default_queue(context.namespace, lister)
    return by_queue or rules.namespaces.queue_required


def is_of_admitted_owner(pod: ReviewedPod, context: Context, rules: Rules, lister: Lister) -> bool:
    """Return whether the pod was made from a template of an owner that has quota for its pods.

    The mark in its annotations was put into that template together with the permission to run.
    """
    mark = review.mark_of(pod.metadata.labels, pod.metadata.annotations)
    if not mark.workload:
        return False
    marks = frozenset({mark})
    return making.is_by_controller(pod.metadata, marks, context, rules, lister)


def has_default_queue(namespace: str, lister: Lister) -> bool:
    """Return whether the namespace has a LocalQueue named ``default``, stopped or not."""
    return lister.local_queue(namespace, names.DEFAULT_LOCAL_QUEUE) is not None


def is_enforced(namespace: str, rules: Rules, lister: Lister) -> bool:
    """Return whether GPU pods without a queue are refused in the namespace."""
    labels_ = lister.namespace(namespace)
    if labels_ is None:
        return False
    has_queue = bool(lister.local_queue_names(namespace))
    return rules.namespaces.enforces(labels_.metadata.labels or {}, has_queue=has_queue)


def enforcer(namespace: str, lister: Lister) -> str:
    """Return the words for a namespace in which queues are enforced, and what says so there."""
    labels_ = lister.namespace(namespace)
    labels = {} if labels_ is None else labels_.metadata.labels or {}
    by_label = names.ENFORCE_LABEL in labels
    rule = f"{names.ENFORCE_LABEL}=true" if by_label else "where queues are enforced by default"
    return f"namespace {namespace} ({rule})"


def advice(context: Context, lister: Lister) -> str:
    """Return the words that say which queues a label can name in the namespace."""
    queues = lister.local_queue_names(context.namespace)
    return f"one of {', '.join(queues)}" if queues else "a LocalQueue; the namespace has none"


def is_left_out(namespace: str, rules: Rules, lister: Lister) -> bool:
    """Return whether the namespace is not managed, as far as its labels are known here.

    The API server asks about managed namespaces only, if it was told which they are.
    """
    labels_ = lister.namespace(namespace)
    labels = None if labels_ is None else labels_.metadata.labels or {}
    return rules.namespaces.leave_out(namespace, labels)


def _outside(
    wants: tuple[str, ...], context: Context, rules: Rules, lister: Lister
) -> QueueingResult:
    if not wants:
        return QueueingResult(standing=ManagementState.FREE)
    refused = is_enforced(context.namespace, rules, lister)
    return QueueingResult(
        standing=ManagementState.REFUSED if refused else ManagementState.UNMANAGED, wants=wants
    )


def _may_lag(context: Context, lister: Lister) -> bool:
    """Return whether the namespace may have a default queue that was not seen yet."""
    labels_ = lister.namespace(context.namespace)
    if not lister.synced or labels_ is None:
        return True
    created = labels_.metadata.creation_timestamp
    if created is None:
        return True
    age = context.now_us - int(clock.from_wire(created).timestamp()) * 1_000_000
    return age < SETTLING_US
