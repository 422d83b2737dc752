"""The codes of reasons, each with its heading in the guide "Why does it wait" and a next step."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from admission.base import conditions, names
from admission.base.conditions import WaitReason

GUIDE: Final = "docs/guides/why-does-it-wait.md"


class Code(StrEnum):
    """The code by which programs tell reasons apart; it is Kueue's reason where Kueue has one."""

    # quota
    WAITING_FOR_QUOTA = WaitReason.WAITING_FOR_QUOTA.value
    HELD_BY_PREVIOUS_REVISION = "HeldByPreviousRevision"
    CAPACITY_MISSING = "CapacityMissing"
    CAPACITY_PROMISED = "CapacityPromised"
    WAITING_FOR_PREEMPTED = WaitReason.WAITING_FOR_PREEMPTED.value
    EXCEEDS_MAX_QUOTA = WaitReason.EXCEEDS_MAX_QUOTA.value
    CAP_REACHED = WaitReason.CAP_REACHED.value
    EXCEEDS_CAP = WaitReason.EXCEEDS_CAP.value
    EXCEEDS_LARGEST_NODE = "ExceedsLargestNode"
    EXCEEDS_NODES = "ExceedsNodes"
    WAITING_FOR_NODE = WaitReason.WAITING_FOR_NODE.value
    NO_MATCHING_FLAVOR = WaitReason.NO_MATCHING_FLAVOR.value
    NO_TOPOLOGY = "NoTopology"
    RESOURCE_NOT_COVERED = "ResourceNotCovered"
    RESOURCE_MISSPELLED = "ResourceMisspelled"
    RESOURCE_NOT_OFFERED = "ResourceNotOffered"
    PENDING_EVALUATION = WaitReason.PENDING_EVALUATION.value
    # queues
    QUEUE_REQUIRED = "QueueRequired"
    LOCAL_QUEUE_NOT_FOUND = "LocalQueueNotFound"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    CLUSTER_QUEUE_NOT_FOUND = "ClusterQueueNotFound"
    CLUSTER_QUEUE_INACTIVE = "ClusterQueueInactive"
    NAMESPACE_NOT_SELECTED = "NamespaceNotSelected"
    MISCONFIGURED = WaitReason.MISCONFIGURED.value
    # somebody holds it
    ADMISSION_PAUSED = WaitReason.ADMISSION_PAUSED.value
    ADMISSION_GATED = WaitReason.ADMISSION_GATED.value
    ON_HOLD = conditions.ON_HOLD
    DEACTIVATED = WaitReason.DEACTIVATED.value
    WAITING_FOR_PODS_READY = WaitReason.WAITING_FOR_PODS_READY.value
    WAITING_FOR_CHECKS = "WaitingForAdmissionChecks"
    # what it is made of
    POD_GROUP_INCOMPLETE = conditions.GROUP_INCOMPLETE
    POD_GROUP_INVALID = conditions.GROUP_INVALID
    WAITS_FOR_OWNER = "WaitsForOwner"
    GATED_BY_OTHERS = "GatedByOthers"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    PRIORITY_CLASS_NOT_FOUND = conditions.PRIORITY_CLASS_NOT_FOUND
    NO_WORKLOAD = "NoWorkload"
    # admitted and not running
    START_REFUSED = "StartRefused"
    PODS_NOT_RUNNING = "PodsNotRunning"
    # it loses its quota
    PREEMPTION_NOTICE = "PreemptionNotice"
    STOP_HELD_BACK = "StopHeldBack"
    EVICTED = "Evicted"
    WAITING_FOR_RETRY = "WaitingForRetry"
    # nothing to wait for
    ADMITTED = "Admitted"
    CHARGED_RUNNING = "ChargedWhileRunning"
    FINISHED = "Finished"
    NOT_MANAGED = "NotManaged"
    # of ClusterQueues
    QUEUE_READY = "QueueReady"
    QUEUE_STOPPED = "QueueStopped"
    QUEUE_REFERS_TO_MISSING = "QueueRefersToMissing"
    QUEUE_CHECKS_INACTIVE = "QueueChecksInactive"
    QUEUE_UNSUPPORTED = "QueueUnsupported"
    QUEUE_IN_USE = "QueueInUse"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A reason, its heading and its next steps.

    Attributes:
        title: heading in the guide, without the code.
        step: what to do next. ``{queue}`` is the ClusterQueue, ``{local}`` the LocalQueue,
            ``{namespace}`` the namespace, ``{at}`` the option that names it, ``{name}``
            the name of what is asked about, ``{less}`` how much it may ask for.
        without_rights: the same for who may not read ClusterQueues; empty where it is the same.
        without_owner: the same for a pod that nothing controls; empty likewise.
        at_first: the same for what is first in its queue; empty likewise.
        without_quota: the same where the queue has no quota of what it asks for; empty likewise.
    """

    title: str
    step: str
    without_rights: str = ""
    without_owner: str = ""
    at_first: str = ""
    without_quota: str = ""


IGNORE_DISRUPTIONS: Final = (
    "create it anew with a podFailurePolicy whose first rule has action: Ignore and "
    "onPodConditions: [{type: DisruptionTarget}], which needs restartPolicy: Never; pods that a "
    "drain evicts do not count as failures then"
)
"""The next step of a Job that failed as its pods were disrupted."""


CATALOGUE: Final[Mapping[Code, CatalogueEntry]] = MappingProxyType(
    {
        Code.WAITING_FOR_QUOTA: CatalogueEntry(
            "It waits for quota",
            "wait, or ask for {less}; who holds it: kubectl gpu who {queue}{at}",
            without_rights="wait, or ask for {less}; what your team holds: kubectl gpu who{at}",
        ),
        Code.HELD_BY_PREVIOUS_REVISION: CatalogueEntry(
            "The previous revision of its Deployment holds the quota",
            "set maxSurge: 0 and maxUnavailable: 1 in the strategy of the Deployment",
        ),
        Code.CAPACITY_MISSING: CatalogueEntry(
            "GPUs that the quota promises are sick or missing",
            "ask an administrator to repair or add nodes; "
            "which are sick: kubectl gpu top {queue}{at}",
        ),
        Code.CAPACITY_PROMISED: CatalogueEntry(
            "GPUs of its quota are promised to other queues first",
            "ask an administrator to lower the quota of one of these queues, so that together "
            "they promise what exists; what each has: kubectl gpu top",
        ),
        Code.WAITING_FOR_PREEMPTED: CatalogueEntry(
            "It waits until others have left",
            "wait: the others were told to stop; "
            "who still holds quota: kubectl gpu who {queue}{at}",
        ),
        Code.EXCEEDS_MAX_QUOTA: CatalogueEntry(
            "It is too big for its queue",
            "ask for less, or have the quota raised: it never starts as it is",
            without_quota="ask for another flavor, of which {queue} has quota, or have quota of "
            "this one added",
        ),
        Code.CAP_REACHED: CatalogueEntry(
            "Its user or its LocalQueue holds as much as it may",
            "end other work that counts, or wait until it ends; who holds what:"
            " kubectl gpu who {queue}{at}",
        ),
        Code.EXCEEDS_CAP: CatalogueEntry(
            "It asks for more than its user or its LocalQueue may hold",
            "ask for less, or have the cap of the queue raised: it never starts as it is",
        ),
        Code.EXCEEDS_LARGEST_NODE: CatalogueEntry(
            "One of its pods asks for more than any node has",
            "create it again and ask for {less} in one pod, or have a larger node added",
        ),
        Code.EXCEEDS_NODES: CatalogueEntry(
            "Its pods do not all fit on the nodes, even once these are empty",
            "create it again with fewer pods, with less for each pod, or without the rule that "
            "keeps its pods together or apart; or have nodes added: kubectl gpu top {queue}{at}",
        ),
        Code.WAITING_FOR_NODE: CatalogueEntry(
            "It has quota to take, and no node has room for it",
            "wait until pods on these nodes end, or ask for less on one node; what is free on "
            "each: kubectl gpu top --by hostname",
            without_rights="wait until pods on these nodes end, or ask for less on one node",
        ),
        Code.NO_MATCHING_FLAVOR: CatalogueEntry(
            "No flavor of its queue matches",
            "create it again with another nodeSelector, affinity or tolerations: it never starts "
            "as it is; an administrator sees the flavors: kubectl gpu why clusterqueue/{queue}",
        ),
        Code.NO_TOPOLOGY: CatalogueEntry(
            "It asks for a topology that its queue does not have",
            "create it again without its topology annotation (a podAffinity by "
            "kubernetes.io/hostname keeps pods on one node), or ask an administrator for a flavor "
            "with such a topology",
        ),
        Code.RESOURCE_NOT_COVERED: CatalogueEntry(
            "Its queue has no quota for one of its resources",
            "remove the request, or have the resource added to coveredResources of the queue",
        ),
        Code.RESOURCE_MISSPELLED: CatalogueEntry(
            "It asks for GPUs by a name that is misspelled",
            f"ask for {names.GPU_RESOURCE}, and create it anew",
        ),
        Code.RESOURCE_NOT_OFFERED: CatalogueEntry(
            "Nothing offers one of its resources",
            f"ask for one that there is, and create it anew: a GPU is {names.GPU_RESOURCE}, and "
            f"nodeSelector {names.GPU_PRODUCT_LABEL} chooses its product",
        ),
        Code.PENDING_EVALUATION: CatalogueEntry(
            "Its turn has not come yet",
            "wait; who is before it: kubectl gpu queue {queue}{at}",
            at_first="wait",
        ),
        Code.QUEUE_REQUIRED: CatalogueEntry(
            "It has no queue, and needs one",
            f"give it the label {names.QUEUE_LABEL}; queues: kubectl get localqueues -n "
            "{namespace}; if there is none, ask an administrator for one named "
            f"{names.DEFAULT_LOCAL_QUEUE}",
        ),
        Code.LOCAL_QUEUE_NOT_FOUND: CatalogueEntry(
            "Its LocalQueue does not exist",
            f"change the label {names.QUEUE_LABEL}, or ask an administrator to create it; "
            "those there are: kubectl get localqueues -n {namespace}",
        ),
        Code.LOCAL_QUEUE_STOPPED: CatalogueEntry(
            "Its LocalQueue is stopped",
            "ask who runs the queue to set stopPolicy: None of LocalQueue {local}",
        ),
        Code.CLUSTER_QUEUE_NOT_FOUND: CatalogueEntry(
            "Its ClusterQueue does not exist",
            "ask an administrator to create it, or use another LocalQueue: "
            "kubectl get localqueues -n {namespace}",
        ),
        Code.CLUSTER_QUEUE_INACTIVE: CatalogueEntry(
            "Its ClusterQueue admits nothing",
            "ask an administrator, who sees why: kubectl gpu why clusterqueue/{queue}",
        ),
        Code.NAMESPACE_NOT_SELECTED: CatalogueEntry(
            "Its ClusterQueue does not serve its namespace",
            "ask an administrator to have ClusterQueue {queue} select namespace {namespace}: by "
            "its namespaceSelector, or by a label of the namespace",
        ),
        Code.MISCONFIGURED: CatalogueEntry(
            "It breaks a rule",
            "correct what the message names, and create it anew",
        ),
        Code.ADMISSION_PAUSED: CatalogueEntry(
            "Admission is paused",
            "wait: an administrator resumes it (admission: Active in GpuConfiguration)",
        ),
        Code.ADMISSION_GATED: CatalogueEntry(
            "An admission gate holds it",
            f"whoever set the annotation {names.ADMISSION_GATED_BY} has to remove it",
        ),
        Code.ON_HOLD: CatalogueEntry(
            "Somebody keeps it out of the queue",
            "ask who set the reason OnHold on its Workload",
        ),
        Code.DEACTIVATED: CatalogueEntry(
            "It is deactivated",
            "correct what stopped it, then delete and create it again, or ask an administrator to "
            "say: kubectl patch workload {workload} -n {namespace} "
            '--type=merge -p \'{{"spec":{{"active":true}}}}\'',
        ),
        Code.WAITING_FOR_PODS_READY: CatalogueEntry(
            "The pods of others are not ready",
            "wait until the pods of admitted workloads are ready; of your own, delete those that "
            "never are",
        ),
        Code.WAITING_FOR_CHECKS: CatalogueEntry(
            "It waits for admission checks",
            "see what the check says: kubectl describe workload {workload} -n {namespace}",
        ),
        Code.POD_GROUP_INCOMPLETE: CatalogueEntry(
            "Its group lacks pods",
            "create the pods that are missing, or see why their owner does not",
            without_owner="create the pods that are missing",
        ),
        Code.POD_GROUP_INVALID: CatalogueEntry(
            "The pods of its group do not go together",
            "correct what the message names; the pods have to be created anew",
        ),
        Code.WAITS_FOR_OWNER: CatalogueEntry(
            "It waits for its owner",
            "see what the owner waits for: kubectl gpu why KIND/NAME -n {namespace}",
        ),
        Code.GATED_BY_OTHERS: CatalogueEntry(
            "Another controller holds it",
            "wait for the controllers whose gates the message names; an administrator can set "
            "whileGatedByOthers: Admit in GpuConfiguration",
        ),
        Code.REFERENCE_NOT_FOUND: CatalogueEntry(
            "Something that it names does not exist",
            "create what the message names, or create it anew with another name",
        ),
        Code.PRIORITY_CLASS_NOT_FOUND: CatalogueEntry(
            "Its priority class does not exist",
            "name a class that exists, or create it anew without the class; an administrator can "
            "create the class",
        ),
        Code.NO_WORKLOAD: CatalogueEntry(
            "The controller has not taken it up",
            "ask an administrator whether the controller runs: its /readyz and its log",
        ),
        Code.START_REFUSED: CatalogueEntry(
            "It has quota, and the API server does not let it start",
            "correct what the message names; it is tried again by itself",
        ),
        Code.PODS_NOT_RUNNING: CatalogueEntry(
            "It has quota, and its pods do not run",
            "see what keeps the pods: kubectl get events -n {namespace}",
        ),
        Code.PREEMPTION_NOTICE: CatalogueEntry(
            "It is preempted, and runs on for a while",
            "save your work: it is stopped at the time that the message names; what has an owner "
            "waits again, a single pod is deleted: create it again",
        ),
        Code.STOP_HELD_BACK: CatalogueEntry(
            "It is to be stopped, and the stop is held back",
            "an administrator has them carried out with: gpu-admission stops allow",
        ),
        Code.EVICTED: CatalogueEntry(
            "It has lost its quota",
            "wait: what has an owner goes back to the queue by itself; pods without an owner are "
            "deleted: create them again",
        ),
        Code.WAITING_FOR_RETRY: CatalogueEntry(
            "It is tried again later",
            "wait until the time that the message names",
        ),
        Code.ADMITTED: CatalogueEntry("It is admitted", ""),
        Code.CHARGED_RUNNING: CatalogueEntry(
            "It runs, and its quota was charged afterwards",
            "nothing: it goes on running; new pods of its owner pass through the queue",
        ),
        Code.FINISHED: CatalogueEntry("It has finished", ""),
        Code.NOT_MANAGED: CatalogueEntry(
            "No quota is kept for it",
            f"to put it in a queue, create it anew with the label {names.QUEUE_LABEL}; queues: "
            "kubectl get localqueues -n {namespace}; if there is none, ask an administrator for "
            "one",
        ),
        Code.QUEUE_READY: CatalogueEntry(
            "The queue admits", "who waits in it: kubectl gpu queue {queue}{at}"
        ),
        Code.QUEUE_STOPPED: CatalogueEntry(
            "The ClusterQueue is stopped",
            "set stopPolicy: None to let it admit again",
        ),
        Code.QUEUE_REFERS_TO_MISSING: CatalogueEntry(
            "The ClusterQueue refers to something that does not exist",
            "create what is missing, or take it out of the spec of the ClusterQueue",
        ),
        Code.QUEUE_CHECKS_INACTIVE: CatalogueEntry(
            "Nobody answers an admission check of the ClusterQueue",
            "see the condition Active of the check: kubectl describe admissionchecks",
        ),
        Code.QUEUE_UNSUPPORTED: CatalogueEntry(
            "The spec of the ClusterQueue cannot be served",
            "correct what the message names, in the spec of the ClusterQueue or of its Cohorts",
        ),
        Code.QUEUE_IN_USE: CatalogueEntry(
            "The ClusterQueue is being deleted, and is in use",
            "it goes when the last workload with its quota has ended: kubectl gpu who {queue}{at}",
        ),
    }
)
"""Every reason, in the order of the guide."""


NEVER_STARTS: Final = frozenset(
    {
        Code.EXCEEDS_MAX_QUOTA,
        Code.EXCEEDS_CAP,
        Code.EXCEEDS_LARGEST_NODE,
        Code.EXCEEDS_NODES,
        Code.NO_MATCHING_FLAVOR,
        Code.NO_TOPOLOGY,
        Code.RESOURCE_NOT_COVERED,
        Code.RESOURCE_MISSPELLED,
    }
)
"""Reasons of what never starts as it is, whoever else ends."""


_LONGEST_STEP: Final = 130


def labels_to_select(flavors: Mapping[str, Mapping[str, str]]) -> str:
    """Return which labels of nodes pods have to select to match a flavor; empty for none.

    ``set nvidia.com/gpu.product to NVIDIA-L4 (l4) or NVIDIA-A100-SXM4-80GB (a100)``

    Args:
        flavors: labels that the pods contradict, by flavor; those with few are named first, and no
            more than fit into one line of a terminal.
    """
    step, key = "", ""
    for flavor, labels in sorted(flavors.items(), key=lambda item: len(item[1])):
        if not labels:
            continue
        keys = " and ".join(labels)
        is_same = len(labels) == 1 and keys == key
        text = " and ".join(
            value if is_same else f"{label} to {value}" for label, value in labels.items()
        )
        if flavor not in labels.values():
            text = f"{text} ({flavor})"
        longer = f"{step} or {text}" if step else f"set {text}"
        if len(longer) <= _LONGEST_STEP:
            step, key = longer, keys
    return step


def for_flavors(flavors: Mapping[str, Mapping[str, str]]) -> str:
    """Return the next step of what matches no flavor, whose labels are known; empty for none.

    Args:
        flavors: labels that its pods contradict, by flavor.
    """
    labels = labels_to_select(flavors)
    return f"create it again, and {labels}: it never starts as it is" if labels else ""


def is_code(text: str) -> bool:
    """Return whether a text is a code of this module."""
    return text in _CODES


_CODES: Final = frozenset(Code)


class _Blank(dict[str, str]):
    """Names for a step; one that is not known stands as it is typed in a manual: ``QUEUE``."""

    def __missing__(self, key: str) -> str:
        return key.upper()


def at(namespace: str) -> str:
    """Return the option that names a namespace, for the end of a command; empty for none."""
    return f" -n {namespace}" if namespace else ""


def next_step(
    code: str,
    place: Mapping[str, str] = MappingProxyType({}),
    *,
    sees_queues: bool = True,
    is_alone: bool = False,
    is_first: bool = False,
    is_without_quota: bool = False,
) -> str:
    """Return what to do about a reason; empty for nothing.

    Args:
        code: of this module; nothing is known about others.
        place: ``queue``, ``local``, ``namespace``, ``name``, ``workload``, and as ``less`` the
            most that it may ask for, as far as known.
        sees_queues: whether who asks may read ClusterQueues.
        is_alone: whether it is about a pod that nothing controls.
        is_first: whether it is about what is first in its queue.
        is_without_quota: whether the queue has no quota of what it asks for.
    """
    reason = CATALOGUE.get(Code(code)) if is_code(code) else None
    values = {key: value for key, value in place.items() if value}
    values["less"] = f"at most {values['less']}" if "less" in values else "less"
    values["at"] = at(values.get("namespace", ""))  # who may read one only has to name it
    if reason is None:
        return ""
    variants = (
        reason.without_quota if is_without_quota else "",
        reason.at_first if is_first else "",
        reason.without_owner if is_alone else "",
        "" if sees_queues else reason.without_rights,
    )
    step = next(filter(None, variants), reason.step)
    return step.format_map(_Blank(values))
