"""The catalogue of reasons: why something waits or does not run, and what to do about it.

Each `Reason` has a code, a heading in the guide "Why does it wait", and the next step. The
functions return what is said of one case: the code, and one sentence of at most `MOST` characters
in the words of users. That is the condition ``gpu-admission.dev/Admitted`` of pods and owners, an
event, a warning, or the first line of ``kubectl gpu why``.

The conditions of Workloads keep Kueue's own reasons and messages (`conditions`); `of_condition`
says the same in the words of this catalogue.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from admission.base import conditions, names, quantity
from admission.base.conditions import EvictionReason, MemberCounts, Text, WaitReason
from admission.base.errors import InvalidValueError

MOST: Final = 200
"""Most characters of a sentence."""

_NAME: Final = 40
"""Most characters of a name in a sentence."""
_CUT: Final = "…"
_LISTED: Final = 3
"""Most members of a list in a sentence."""

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
    WAITING_FOR_NODE = WaitReason.WAITING_FOR_NODE.value
    NO_MATCHING_FLAVOR = WaitReason.NO_MATCHING_FLAVOR.value
    RESOURCE_NOT_COVERED = "ResourceNotCovered"
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
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
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
class Reason:
    """An entry of the catalogue.

    Attributes:
        title: heading in the guide, without the code.
        step: what to do next. ``{queue}`` is the ClusterQueue, ``{local}`` the LocalQueue,
            ``{namespace}`` the namespace, ``{at}`` the option that names it, ``{name}``
            the name of what is asked about.
    """

    title: str
    step: str


CATALOGUE: Final[Mapping[Code, Reason]] = MappingProxyType(
    {
        Code.WAITING_FOR_QUOTA: Reason(
            "It waits for quota",
            "wait, or ask for less; who holds it: kubectl gpu who {queue}{at}",
        ),
        Code.HELD_BY_PREVIOUS_REVISION: Reason(
            "The previous revision of its Deployment holds the quota",
            "set maxSurge: 0 and maxUnavailable: 1 in the strategy of the Deployment",
        ),
        Code.CAPACITY_MISSING: Reason(
            "GPUs that the quota promises are sick or missing",
            "ask an administrator to repair or add nodes; "
            "which are sick: kubectl gpu top {queue}{at}",
        ),
        Code.CAPACITY_PROMISED: Reason(
            "GPUs of its quota are promised to other queues first",
            "ask an administrator to lower the quota of one of these queues, so that together "
            "they promise what exists; what each has: kubectl gpu top",
        ),
        Code.WAITING_FOR_PREEMPTED: Reason(
            "It waits until others have left",
            "wait: the others were told to stop; "
            "who still holds quota: kubectl gpu who {queue}{at}",
        ),
        Code.EXCEEDS_MAX_QUOTA: Reason(
            "It is too big for its queue",
            "ask for less, or have the quota raised: it never starts as it is",
        ),
        Code.CAP_REACHED: Reason(
            "Its user or its LocalQueue holds as much as it may",
            "end other work that counts, or wait until it ends; who holds what:"
            " kubectl gpu who {queue}{at}",
        ),
        Code.EXCEEDS_CAP: Reason(
            "It asks for more than its user or its LocalQueue may hold",
            "ask for less, or have the cap of the queue raised: it never starts as it is",
        ),
        Code.EXCEEDS_LARGEST_NODE: Reason(
            "One of its pods asks for more than any node has",
            "create it again with more pods that ask for less each, or have a larger node added",
        ),
        Code.WAITING_FOR_NODE: Reason(
            "It has quota to take, and no node has room for it",
            "wait until pods on these nodes end, or ask for less on one node; what is free: "
            "kubectl gpu top{at}",
        ),
        Code.NO_MATCHING_FLAVOR: Reason(
            "No flavor of its queue matches",
            "create it again with another nodeSelector, affinity or tolerations: it never starts "
            "as it is; the flavors: an administrator, or kubectl gpu why clusterqueue/{queue}",
        ),
        Code.RESOURCE_NOT_COVERED: Reason(
            "Its queue has no quota for one of its resources",
            "remove the request, or have the resource added to coveredResources of the queue",
        ),
        Code.PENDING_EVALUATION: Reason(
            "It has not been tried yet",
            "wait; who is before it: kubectl gpu queue {queue}{at}",
        ),
        Code.QUEUE_REQUIRED: Reason(
            "It has no queue, and needs one",
            f"create a LocalQueue named {names.DEFAULT_LOCAL_QUEUE}, or recreate it with the label"
            f" {names.QUEUE_LABEL}; those there are: kubectl get localqueues -n {{namespace}}",
        ),
        Code.LOCAL_QUEUE_NOT_FOUND: Reason(
            "Its LocalQueue does not exist",
            f"create it, or change the label {names.QUEUE_LABEL}; "
            "those there are: kubectl get localqueues -n {namespace}",
        ),
        Code.LOCAL_QUEUE_STOPPED: Reason(
            "Its LocalQueue is stopped",
            "ask who runs the queue to set stopPolicy: None of LocalQueue {local}",
        ),
        Code.CLUSTER_QUEUE_NOT_FOUND: Reason(
            "Its ClusterQueue does not exist",
            "ask an administrator to create it, or use another LocalQueue: "
            "kubectl get localqueues -n {namespace}",
        ),
        Code.CLUSTER_QUEUE_INACTIVE: Reason(
            "Its ClusterQueue admits nothing",
            "ask an administrator, or see why: kubectl gpu why clusterqueue/{queue}",
        ),
        Code.NAMESPACE_NOT_SELECTED: Reason(
            "Its ClusterQueue does not serve its namespace",
            "ask an administrator to label namespace {namespace} as namespaceSelector of "
            "ClusterQueue {queue} says",
        ),
        Code.MISCONFIGURED: Reason(
            "It breaks a rule",
            "correct what the message names, and create it anew",
        ),
        Code.ADMISSION_PAUSED: Reason(
            "Admission is paused",
            "wait: an administrator resumes it (admission: Active in GpuConfiguration)",
        ),
        Code.ADMISSION_GATED: Reason(
            "An admission gate holds it",
            f"whoever set the annotation {names.ADMISSION_GATED_BY} has to remove it",
        ),
        Code.ON_HOLD: Reason(
            "Somebody keeps it out of the queue",
            "ask who set the reason OnHold on its Workload",
        ),
        Code.DEACTIVATED: Reason(
            "It is deactivated",
            "correct what stopped it, then: kubectl patch workload {workload} -n {namespace} "
            '--type=merge -p \'{{"spec":{{"active":true}}}}\'',
        ),
        Code.WAITING_FOR_PODS_READY: Reason(
            "The pods of others are not ready",
            "wait until the pods of admitted workloads are ready, or delete those that never are",
        ),
        Code.WAITING_FOR_CHECKS: Reason(
            "It waits for admission checks",
            "see what the check says: kubectl describe workload {workload} -n {namespace}",
        ),
        Code.POD_GROUP_INCOMPLETE: Reason(
            "Its group lacks pods",
            "create the pods that are missing, or see why their owner does not",
        ),
        Code.POD_GROUP_INVALID: Reason(
            "The pods of its group do not go together",
            "correct what the message names; the pods have to be created anew",
        ),
        Code.WAITS_FOR_OWNER: Reason(
            "It waits for its owner",
            "see what the owner waits for: kubectl gpu why KIND/NAME -n {namespace}",
        ),
        Code.REFERENCE_NOT_FOUND: Reason(
            "Something that it names does not exist",
            "create what the message names, or create it anew with another name",
        ),
        Code.NO_WORKLOAD: Reason(
            "The controller has not taken it up",
            "ask an administrator whether the controller runs: its /readyz and its log",
        ),
        Code.START_REFUSED: Reason(
            "It has quota, and the API server does not let it start",
            "correct what the message names; it is tried again by itself",
        ),
        Code.PODS_NOT_RUNNING: Reason(
            "It has quota, and its pods do not run",
            "see what keeps the pods: kubectl get events -n {namespace}",
        ),
        Code.PREEMPTION_NOTICE: Reason(
            "It is preempted, and runs on for a while",
            "save your work: it is stopped at the time that the message names, and waits again",
        ),
        Code.STOP_HELD_BACK: Reason(
            "It is to be stopped, and the stop is held back",
            "an administrator lets the stops go with: gpu-admission stops allow",
        ),
        Code.EVICTED: Reason(
            "It has lost its quota",
            "wait: it goes back to the queue by itself",
        ),
        Code.WAITING_FOR_RETRY: Reason(
            "It is tried again later",
            "wait until the time that the message names",
        ),
        Code.ADMITTED: Reason("It is admitted", ""),
        Code.CHARGED_RUNNING: Reason(
            "It runs, and its quota was charged afterwards",
            "nothing: it goes on running; new pods of its owner pass through the queue",
        ),
        Code.FINISHED: Reason("It has finished", ""),
        Code.NOT_MANAGED: Reason(
            "No quota is kept for it",
            f"to put it in a queue, create it anew with the label {names.QUEUE_LABEL}",
        ),
        Code.QUEUE_READY: Reason(
            "The queue admits", "who waits in it: kubectl gpu queue {queue}{at}"
        ),
        Code.QUEUE_STOPPED: Reason(
            "The ClusterQueue is stopped",
            "set stopPolicy: None to let it admit again",
        ),
        Code.QUEUE_REFERS_TO_MISSING: Reason(
            "The ClusterQueue refers to something that does not exist",
            "create what is missing, or take it out of the spec of the ClusterQueue",
        ),
        Code.QUEUE_CHECKS_INACTIVE: Reason(
            "Nobody answers an admission check of the ClusterQueue",
            "see the condition Active of the check: kubectl describe admissionchecks",
        ),
        Code.QUEUE_UNSUPPORTED: Reason(
            "The spec of the ClusterQueue cannot be served",
            "correct what the message names in the spec of the ClusterQueue",
        ),
        Code.QUEUE_IN_USE: Reason(
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
        Code.NO_MATCHING_FLAVOR,
        Code.RESOURCE_NOT_COVERED,
    }
)
"""Reasons of what never starts as it is, whoever else ends."""


class _Blank(dict[str, str]):
    """Names for a step; one that is not known stands as it is typed in a manual: ``QUEUE``."""

    def __missing__(self, key: str) -> str:
        return key.upper()


def next_step(code: str, known: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what to do about a reason; empty for nothing.

    Args:
        code: of the catalogue; nothing is known about others.
        known: ``queue``, ``local``, ``namespace``, ``name``, ``workload``, as far as known.
    """
    reason = CATALOGUE.get(Code(code)) if code in _CODES else None
    given = {key: value for key, value in known.items() if value}
    at = f" -n {given['namespace']}" if "namespace" in given else ""
    given["at"] = at  # who may read one namespace only has to name it
    return reason.step.format_map(_Blank(given)) if reason else ""


_CODES: Final = frozenset(Code)


# ---------------------------------------------------------------------------------- sentences


def sentence(head: str, *clauses: str) -> str:
    """Return ``head; clause; clause.``, without the last clauses where it would be too long."""
    text = _clipped(head.rstrip("."), MOST - 1)
    for clause in filter(None, clauses):
        if len(text) + len("; ") + len(clause) < MOST:
            text = f"{text}; {clause}"
    return text if text.endswith((_CUT, "!", "?")) else f"{text}."


def fitted(text: Text) -> Text:
    """Return a text whose message is a sentence of the length that the catalogue allows.

    What the API server refuses keeps its whole cause: that stands at the end of its message.
    """
    message = text.message
    if text.reason == Code.START_REFUSED:
        return text
    return text if len(message) <= MOST else Text(text.reason, _clipped(message, MOST))


def _clipped(text: str, most: int) -> str:
    """Return a text within a number of characters; a longer one ends at a word."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    at_word = kept.rpartition(" ")[0]
    return f"{at_word if len(at_word) > most // 2 else kept}{_CUT}"


def name(text: str) -> str:
    """Return a name as sentences show it."""
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}{_CUT}"


def listed(found: Iterable[str], separator: str = ", ") -> str:
    """Return the members of a list, ``and 3 more`` for those beyond the first three."""
    every = list(found)
    more = len(every) - _LISTED
    shown = separator.join(every[:_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


# -------------------------------------------------------------------------------------- quota


class Lack(NamedTuple):
    """What a Workload lacks of one resource in one flavor; amounts for people.

    Attributes:
        resource: that it lacks.
        flavor: in which.
        asks: how much it asks for.
        free: what the ClusterQueue could still take now.
        reach: the most that it could ever take; empty where nothing limits it.
        withheld: what it is promised beyond that and is not there; empty for nothing.
        elsewhere: what of that exists and is promised to others before; empty for nothing.
        is_all_elsewhere: whether that is all of it.
        promised_to: ClusterQueues and Cohorts that it is promised to.
        holders: ClusterQueues with what they use, largest first.
        never: whether it asks for more than it could ever take.
        exists_not: whether it would fit if all existed that is promised.
    """

    resource: str
    flavor: str
    asks: str
    free: str
    reach: str
    withheld: str = ""
    elsewhere: str = ""
    is_all_elsewhere: bool = False
    promised_to: tuple[str, ...] = ()
    holders: tuple[tuple[str, str], ...] = ()
    never: bool = False
    exists_not: bool = False

    @property
    def need(self) -> str:
        """Return ``8 a100``, or ``64 cpu of spot``."""
        if self.resource == names.GPU_RESOURCE:
            return f"{self.asks} {name(self.flavor)}"
        return f"{self.asks} {_what(self.resource)} of {name(self.flavor)}"

    @property
    def amount(self) -> str:
        """Return ``8 GPUs``, or ``64 cpu``."""
        if self.resource == names.GPU_RESOURCE:
            return f"{self.asks} {'GPU' if self.asks == '1' else 'GPUs'}"
        return f"{self.asks} {_what(self.resource)}"

    @property
    def room(self) -> str:
        """Return ``3 free of 16``."""
        return f"{self.free} free of {self.reach}" if self.reach else f"{self.free} free"


_WHAT: Final[Mapping[str, str]] = MappingProxyType(
    {names.GPU_MEMORY: "GPU memory", names.GPU_SLICES: "GPU slices"}
)


def _what(resource: str) -> str:
    return _WHAT.get(resource) or name(resource)


def waits_for_quota(
    lacks: Sequence[Lack], cluster_queue: str, *, place: str = "", deployment: str = ""
) -> Text:
    """Return that a Workload waits until quota is free.

    ``Waits: needs 8 a100, 3 free of 16; about 10th in queue research; held by team-b (6).``

    Args:
        lacks: what it lacks, at least one.
        cluster_queue: where it waits.
        place: in its queue, such as ``about 10th``; empty where it is not known.
        deployment: whose previous revision holds the quota; empty for none.
    """
    of_one = [one for one in lacks if one.resource == lacks[0].resource]
    if len(of_one) == 1:
        head = f"Waits: needs {of_one[0].need}, {of_one[0].room}"
    else:
        parts = listed(f"{name(one.flavor)} {one.room}" for one in of_one)
        head = f"Waits: needs {of_one[0].amount}; {parts}"
    missing = next((one for one in lacks if one.exists_not), None)
    at = _at(place, cluster_queue)
    if missing is not None:
        code = Code.CAPACITY_PROMISED if missing.is_all_elsewhere else Code.CAPACITY_MISSING
        return Text(code, sentence(head, _withheld(missing), at))
    if deployment:
        who = (
            f"the previous revision of Deployment {name(deployment)} holds quota: set maxSurge: 0"
        )
        return Text(Code.HELD_BY_PREVIOUS_REVISION, sentence(head, who, at))
    holders = of_one[0].holders if len(of_one) == 1 else ()
    held = listed(f"{name(queue)} ({used})" for queue, used in holders)
    return Text(Code.WAITING_FOR_QUOTA, sentence(head, at, f"held by {held}" if held else ""))


def waits_for_node(shortages: Sequence[str], cluster_queue: str, *, place: str = "") -> Text:
    """Return that a Workload waits until nodes have room for its pods.

    ``Waits for a node: needs 8 nvidia.com/gpu on one node of a100; 12 are free, at most 3 on one
    node (node-4).``

    Args:
        shortages: what nodes lack, at least one; see `placing.shortage`.
        cluster_queue: where it waits.
        place: in its queue, such as ``about 10th``; empty where it is not known.
    """
    told = dict.fromkeys(shortages)
    head = f"Waits for a node: {next(iter(told))}"
    others = tuple(told)[1:]
    return Text(Code.WAITING_FOR_NODE, sentence(head, *others, _at(place, cluster_queue)))


def _at(place: str, cluster_queue: str) -> str:
    return f"{place} in queue {name(cluster_queue)}" if place else ""


def too_big(lacks: Sequence[Lack], cluster_queue: str) -> Text:
    """Return that a Workload asks for more than its queue can ever take.

    ``Too big: asks 64 GPUs, research can reach 16 in one flavor (a100 16, h100 8).``

    Args:
        lacks: what no flavor can ever give, at least one, the largest reach first.
        cluster_queue: where it waits.
    """
    of_one = [one for one in lacks if one.resource == lacks[0].resource]
    queue = name(cluster_queue)
    first = of_one[0]
    if {one.flavor for one in of_one} != {one.flavor for one in lacks}:
        return Text(Code.EXCEEDS_MAX_QUOTA, sentence(_apart(lacks, queue)))
    if len(of_one) == 1:
        head = f"Too big: asks {first.need}, {queue} can reach {first.reach}"
    else:
        parts = listed(f"{name(one.flavor)} {one.reach}" for one in of_one)
        most = f"{queue} can reach {first.reach} in one flavor"
        head = f"Too big: asks {first.amount}, {most} ({parts})"
    return Text(Code.EXCEEDS_MAX_QUOTA, sentence(head, _withheld(first)))


def _apart(lacks: Sequence[Lack], queue: str) -> str:
    """Return that each flavor has enough of some of the resources, and none of all of them."""
    amounts = " with ".join({one.resource: one.amount for one in lacks}.values())
    of_flavor: dict[str, str] = {}
    for one in lacks:
        reach = f"{name(one.flavor)} {one.reach} {_unit(one.resource)}"
        of_flavor.setdefault(one.flavor, reach)
    parts = listed(of_flavor.values())
    return f"Too big: asks {amounts}, no flavor of {queue} can reach all of it ({parts})"


def _unit(resource: str) -> str:
    return "GPUs" if resource == names.GPU_RESOURCE else _what(resource)


def _withheld(lack: Lack) -> str:
    """Return why what is promised is not there: sick, missing, or promised to others before."""
    if not lack.withheld:
        return ""
    more, others = f"{lack.withheld} more promised", listed(map(name, lack.promised_to))
    if not lack.elsewhere:
        return f"{more}, but sick or missing"
    if lack.is_all_elsewhere:
        return f"{more}, but they are promised to {others} first"
    return f"{more}: {lack.elsewhere} of them to {others} first, the rest is sick or missing"


class LargestNode(NamedTuple):
    """What a pod asks of one node, which is more than any node of a flavor has.

    Attributes:
        resource: of which.
        flavor: of the nodes.
        asks: by one pod.
        has: the most that one node of the flavor has, sick devices included.
    """

    resource: str
    flavor: str
    asks: int
    has: int

    @property
    def lack(self) -> Lack:
        """Return the same as people read it."""
        asks, has = (quantity.in_words(self.resource, one) for one in (self.asks, self.has))
        return Lack(self.resource, self.flavor, asks, free="", reach=has)


def exceeds_largest_node(found: Sequence[LargestNode]) -> Text:
    """Return that a pod asks for more than any node of the flavors has that it may get.

    ``Too big: a pod asks 16 a100, the largest node has 8.``

    Args:
        found: one for each flavor, at least one, all of one resource.
    """
    return Text(Code.EXCEEDS_LARGEST_NODE, sentence(f"Too big: {beyond_largest_node(found)}"))


def beyond_largest_node(found: Sequence[LargestNode]) -> str:
    """Return the same as a clause: ``a pod asks 16 a100, the largest node has 8``."""
    first, *more = (one.lack for one in sorted(found, key=lambda one: (-one.has, one.flavor)))
    asks = first.amount if more else first.need
    head = f"a pod asks {asks}{conditions.LARGEST_NODE}{first.reach}"
    parts = listed(f"{name(one.flavor)} {one.reach}" for one in (first, *more))
    return f"{head} ({parts})" if more else head


def no_node_has_free(resource: str, flavor: str, asks: int) -> str:
    """Return that a pod waits for one node with enough that is free, as a clause."""
    lack = Lack(resource, flavor, quantity.in_words(resource, asks), free="", reach="")
    return f"a pod asks {lack.need}, and no node has as many free"


_BEYOND_LARGEST: Final = re.compile(
    r"a pod asks [^,;]+, the largest node has [^\s;]+(?: \([^)]*\))?"
)


def waits_for_preempted(count: int, *, until: str = "") -> Text:
    """Return that a Workload waits for those that it preempts.

    Args:
        count: of them.
        until: time at which the last of them is stopped; empty where they are stopped already.
    """
    who = f"{_counted(count, 'workload')} that it preempts"
    has = "has" if count == 1 else "have"
    end = f"the last is stopped at {until}" if until else ""
    return Text(Code.WAITING_FOR_PREEMPTED, sentence(f"Waits until {who} {has} stopped", end))


def overtaken(place: str = "", cluster_queue: str = "") -> Text:
    """Return that another Workload got the quota of this one in the same moment."""
    head = "Waits: another workload took the quota first; it is tried again at once"
    return Text(Code.WAITING_FOR_QUOTA, sentence(head, _at(place, cluster_queue)))


def not_judged(place: str = "", cluster_queue: str = "") -> Text:
    """Return that a Workload has not been tried yet."""
    at = _at(place, cluster_queue)
    return Text(Code.PENDING_EVALUATION, sentence("Waits: it has not been tried yet", at))


def resources_not_covered(missing: Iterable[str], cluster_queue: str = "") -> Text:
    """Return that the queue of a Workload has no quota for resources."""
    queue = f"queue {name(cluster_queue)}" if cluster_queue else "its queue"
    what = listed(name(one) for one in missing)
    return Text(
        Code.RESOURCE_NOT_COVERED,
        sentence(f"Never starts as it is: {queue} has no quota for {what}"),
    )


def no_matching_flavor(why: Iterable[str], cluster_queue: str = "") -> Text:
    """Return that pods may not run on any flavor of the queue.

    Args:
        why: what is against each flavor.
        cluster_queue: where it waits; empty where it is not known.
    """
    queue = f"queue {name(cluster_queue)}" if cluster_queue else "its queue"
    return Text(
        Code.NO_MATCHING_FLAVOR, sentence(f"Matches no flavor of {queue}: {listed(why, '; ')}")
    )


def waits_for_flavors(flavors: Iterable[str]) -> Text:
    """Return that a Workload waits for quota of flavors that were not tried the last time."""
    which = listed((name(one) for one in flavors), " or ")
    return Text(Code.WAITING_FOR_QUOTA, sentence(f"Waits for quota of {which}"))


# -------------------------------------------------------------- of conditions as Kueue has them

_NAMED: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Text]], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), say)
    for pattern, say in (
        (
            r"LocalQueue (\S+) doesn't exist",
            lambda m: Text(
                Code.LOCAL_QUEUE_NOT_FOUND,
                sentence(f"Waits: LocalQueue {name(m[1])} does not exist in its namespace"),
            ),
        ),
        (
            r"ClusterQueue (\S+) doesn't exist",
            lambda m: Text(
                Code.CLUSTER_QUEUE_NOT_FOUND,
                sentence(f"Waits: its LocalQueue names ClusterQueue {name(m[1])}, which does not"
                         " exist"),
            ),
        ),
        (
            r"(LocalQueue|ClusterQueue) (\S+) is terminating or missing",
            lambda m: Text(
                Code.LOCAL_QUEUE_NOT_FOUND
                if m[1] == "LocalQueue"
                else Code.CLUSTER_QUEUE_NOT_FOUND,
                sentence(f"Waits: {m[1]} {name(m[2])} is being deleted, or does not exist"),
            ),
        ),
        (
            r"LocalQueue (\S+) is (?:inactive|stopped)",
            lambda m: Text(
                Code.LOCAL_QUEUE_STOPPED, sentence(f"Waits: LocalQueue {name(m[1])} is stopped")
            ),
        ),
        (
            r"ClusterQueue (\S+) is (inactive|stopped)",
            lambda m: Text(
                Code.CLUSTER_QUEUE_INACTIVE,
                sentence(f"Waits: ClusterQueue {name(m[1])} admits nothing at present"),
            ),
        ),
        (
            re.escape(conditions.WRONG_NAMESPACE.message),
            lambda _: Text(
                Code.NAMESPACE_NOT_SELECTED,
                sentence("Waits: its ClusterQueue does not serve its namespace"
                         " (namespaceSelector)"),
            ),
        ),
        (
            r'workload namespace "([^"]*)" does not exist.*',
            lambda m: Text(
                Code.MISCONFIGURED, sentence(f"Waits: namespace {name(m[1])} does not exist")
            ),
        ),
        (
            re.escape(conditions.NOT_ALL_READY.message),
            lambda _: Text(
                Code.WAITING_FOR_PODS_READY,
                sentence("Waits: nothing is admitted until the pods of all admitted workloads are"
                         " ready"),
            ),
        ),
        (
            re.escape(conditions.PAUSED.message),
            lambda _: Text(
                Code.ADMISSION_PAUSED,
                sentence("Waits: admission is paused by an administrator; it keeps its place"),
            ),
        ),
        (
            rf"{re.escape(conditions.DEACTIVATED.message)}(?: due to (.+))?",
            lambda m: Text(
                Code.DEACTIVATED,
                sentence(
                    f"Stopped: it is deactivated{f', {m[1]}' if m[1] else ' (spec.active)'}"
                ),
            ),
        ),
        (
            r"Admission is gated by: (.+)",
            lambda m: Text(
                Code.ADMISSION_GATED,
                sentence(f"Waits: held by the admission gate {name(m[1])}"),
            ),
        ),
        (re.escape(conditions.NOT_JUDGED.message), lambda _: not_judged()),
        (re.escape(conditions.GATES_CLEARED.message), lambda _: not_judged()),
        (
            re.escape(conditions.RESERVED_TWICE.message),
            lambda _: Text(
                Code.PENDING_EVALUATION,
                sentence("Waits again: its quota was given twice while the leader changed"),
            ),
        ),
        (
            re.escape(conditions.FAILED_CHECKS.message),
            lambda _: Text(
                Code.WAITING_FOR_CHECKS,
                sentence("Waits: an admission check has not let it pass"),
            ),
        ),
        (re.escape(conditions.DEFERRED), lambda _: Text(
            Code.WAITING_FOR_PREEMPTED,
            sentence("Waits until workloads that others preempt have stopped; then it fits"),
        )),
        (re.escape(conditions.NO_LONGER_FITS), lambda _: overtaken()),
        (re.escape(conditions.OVERLAPPING_TARGETS), lambda _: overtaken()),
        (
            r".*Pending the preemption of (\d+) workload\(s\)",
            lambda m: waits_for_preempted(int(m[1])),
        ),
        (
            r"Preempted to .* due to ([^;]+); preemptor path: (?:\S*/)?([^/;]+); .*",
            lambda m: Text(
                Code.EVICTED,
                sentence(f"Lost its quota to a workload of queue {name(m[2])}", f"why: {m[1]}"),
            ),
        ),
    )
)  # fmt: skip
"""Messages of conditions of Workloads, as `conditions` makes them, and the same for users."""

_NOT_UNUSED: Final = re.compile(
    r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed"
)
_OVER_MOST: Final = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests "
    r"\((\S+)\) \+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_FLAVOR_REFUSES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(r"flavor (?P<flavor>\S+) doesn't match node affinity"),
        lambda m: f"{name(m[1])} is on other nodes than the pod selects",
    ),
    (
        re.compile(
            r"untolerated taint \{(\S*) (\S*) (\S*) <nil>\} in flavor (?P<flavor>[^\s,;]+)"
        ),
        lambda m: (
            f"{name(m[4])} has the taint {name(m[1])}{m[2] and '='}{name(m[2])}:{m[3]}, "
            "which the pod does not tolerate"
        ),
    ),
    (
        re.compile(
            r"flavor (?P<flavor>\S+) selects other nodes than flavor (\S+), which is given with"
            r" it: label (\S+) is (\S*) and (\S*)"
        ),
        lambda m: (
            f"no node is in {name(m[1])} and in {name(m[2])}: label {name(m[3])} is {name(m[4])}"
            f" in one and {name(m[5])} in the other"
        ),
    ),
    (re.compile(r"flavor (?P<flavor>\S+) not found"), lambda m: f"{name(m[1])} does not exist"),
)
_NOT_COVERED: Final = re.compile(r"resource (\S+) unavailable in ClusterQueue")


def of_condition(reason: str, message: str, cluster_queue: str = "") -> Text:
    """Return what a condition of a Workload says, in the words of the catalogue.

    Args:
        reason: of QuotaReserved=False, or of Evicted=True.
        message: of the same condition.
        cluster_queue: where it waits; empty where it is not known.
    """
    for pattern, say in _NAMED:
        found = pattern.fullmatch(message)
        if found is not None:
            return say(found)
    return _of_flavors(reason, message, cluster_queue) or _as_it_is(reason, message)


def _of_flavors(reason: str, message: str, cluster_queue: str) -> Text | None:
    """Return why no flavor fits, as far as the message tells it."""
    uncovered = dict.fromkeys(_NOT_COVERED.findall(message))
    if uncovered:
        return resources_not_covered(uncovered, cluster_queue)
    if reason not in _OF_QUOTA:
        return None
    needs = listed(
        f"{more} more {name(flavor)}"
        if resource == names.GPU_RESOURCE
        else f"{more} more {_what(resource)} of {name(flavor)}"
        for resource, flavor, more in dict.fromkeys(_NOT_UNUSED.findall(message))
    )
    if needs:
        return Text(Code.WAITING_FOR_QUOTA, sentence(f"Waits: needs {needs}"))
    lacks = [
        Lack(resource, flavor, _sum(resource, before, more), "", reach, never=True)
        for resource, flavor, before, more, reach in _OVER_MOST.findall(message)
    ]
    if lacks:
        lacks.sort(key=lambda one: -_value(one.resource, one.reach))
        return too_big(lacks, cluster_queue or "its queue")
    why = dict.fromkeys(_refusals(message))
    return no_matching_flavor(why, cluster_queue) if why else None


_OF_QUOTA: Final = frozenset(
    {
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.EXCEEDS_MAX_QUOTA,
        WaitReason.NO_MATCHING_FLAVOR,
        WaitReason.WAITING_FOR_PREEMPTED,
    }
)


_FLAVOR_TOLD: Final = re.compile(r"\bflavor ([^\s,;]+)")


def told_flavors(message: str) -> frozenset[str]:
    """Return the flavors that the message of QuotaReserved=False tells of.

    They are those that were tried the last time, which need not be all.
    """
    return frozenset(_FLAVOR_TOLD.findall(message))


_POD_SET: Final = re.compile(r"couldn't assign flavors to pod set (\S+): ")


def refusing_flavors(message: str) -> Mapping[str, frozenset[str]]:
    """Return the flavors that no quota helps to, by pod set: their nodes do not take its pods.

    Args:
        message: of QuotaReserved=False; flavors that were not tried the last time are not in it.
    """
    _, *rest = _POD_SET.split(message)
    return {
        pod_set: frozenset(
            found["flavor"] for pattern, _ in _FLAVOR_REFUSES for found in pattern.finditer(said)
        )
        for pod_set, said in zip(rest[::2], rest[1::2], strict=True)
    }


class Told(NamedTuple):
    """What the condition of a Workload says of one resource in one flavor; canonical units.

    Attributes:
        resource: of which it is short.
        flavor: in which.
        more: how much more of it would have to be free; None where it never will be.
        reach: the most that the ClusterQueue could ever give; None where that is not said.
    """

    resource: str
    flavor: str
    more: int | None = None
    reach: int | None = None


def told_amounts(message: str) -> tuple[Told, ...]:
    """Return the amounts in the message of QuotaReserved=False, in the order of the message."""
    found = [
        (match.start(), Told(match[1], match[2], more=_value(match[1], match[3])))
        for match in _NOT_UNUSED.finditer(message)
    ]
    found += [
        (match.start(), Told(match[1], match[2], reach=_value(match[1], match[5])))
        for match in _OVER_MOST.finditer(message)
    ]
    return tuple(dict.fromkeys(one for _, one in sorted(found)))


def _sum(resource: str, before: str, more: str) -> str:
    return quantity.from_canonical(resource, _value(resource, before) + _value(resource, more))


def _value(resource: str, text: str) -> int:
    try:
        return quantity.to_canonical(resource, text)
    except InvalidValueError:
        return 0


def _refusals(message: str) -> Iterator[str]:
    """Yield why each flavor refuses, in the order of the message."""
    found = [
        (match.start(), say(match))
        for pattern, say in _FLAVOR_REFUSES
        for match in pattern.finditer(message)
    ]
    yield from (text for _, text in sorted(found))


def _as_it_is(reason: str, message: str) -> Text:
    """Return a message that needs no other words, or that somebody else wrote."""
    code = reason if reason in _CODES else _NEAREST.get(reason, reason)
    return Text(code, sentence(_IN_WORKLOAD.sub("", message) or reason or "Waits"))


_IN_WORKLOAD: Final = re.compile(r"^spec\.podSets\[\d+\]\.template\.")
"""Where in a Workload a field stands that people know from the pod."""


_NEAREST: Final[Mapping[str, Code]] = MappingProxyType(
    {
        WaitReason.SUSPENDED: Code.CLUSTER_QUEUE_INACTIVE,
        EvictionReason.PREEMPTED: Code.EVICTED,
        EvictionReason.ADMISSION_CHECK: Code.EVICTED,
        EvictionReason.PODS_READY_TIMEOUT: Code.EVICTED,
        EvictionReason.NODE_FAILURES: Code.EVICTED,
        EvictionReason.CLAIMS_CHANGED: Code.EVICTED,
        EvictionReason.SURGE_ENDED: Code.EVICTED,
        EvictionReason.POD_GROUP_STOPPED: Code.EVICTED,
        EvictionReason.FAILED_TO_START: Code.START_REFUSED,
        **{conditions.queue_drained(kind).reason: Code.EVICTED for kind in
           ("LocalQueue", "ClusterQueue")},
        # what is said of pods and owners that have no Workload
        conditions.PRIORITY_CLASS_NOT_FOUND: Code.REFERENCE_NOT_FOUND,
        conditions.PREBUILT_NOT_FOUND: Code.REFERENCE_NOT_FOUND,
        "ResourceClaimUnknown": Code.REFERENCE_NOT_FOUND,
        "PodGroupNotFound": Code.REFERENCE_NOT_FOUND,
        "JobSetNotFound": Code.REFERENCE_NOT_FOUND,
        "WaitsForJob": Code.WAITS_FOR_OWNER,
        "WaitsForSparkApplication": Code.WAITS_FOR_OWNER,
        "SparkApplicationIsFull": Code.WAITS_FOR_OWNER,
        "ScaledWhileAdmitted": Code.WAITS_FOR_OWNER,
        "AsksForOtherDevices": Code.POD_GROUP_INVALID,
        conditions.GROUP_FULL: Code.WAITS_FOR_OWNER,
        "PodGroupRunning": Code.POD_GROUP_INCOMPLETE,
        "PodGroupFinished": Code.POD_GROUP_INVALID,
        conditions.WORKLOAD_NAME_CONFLICT: Code.POD_GROUP_INVALID,
    }
)  # fmt: skip
"""Reasons beside the catalogue, and what they are a case of."""


# --------------------------------------------------------------------- admitted, evicted, ended


def admitted(cluster_queue: str, flavors: Iterable[str] = ()) -> Text:
    """Return that something has its quota."""
    on = listed(name(one) for one in dict.fromkeys(flavors))
    where = f"Admitted by ClusterQueue {name(cluster_queue)}"
    return Text(Code.ADMITTED, sentence(f"{where}{on and f' on {on}'}"))


def waits_for_checks(checks: Iterable[tuple[str, str]]) -> Text:
    """Return that a Workload has quota, and waits for admission checks.

    Args:
        checks: names of those that are open, and what each says.
    """
    found = list(checks)
    said = next((message for _, message in found if message), "")
    shown = listed(name(one) for one, _ in found) or "some"
    noun = "admission check" if len(found) == 1 else "admission checks"
    return Text(Code.WAITING_FOR_CHECKS, sentence(f"Has quota, waits for {noun} {shown}", said))


def pods_not_running(message: str) -> Text:
    """Return that a Workload is admitted and its pods do not run.

    Args:
        message: of the condition PodsReady, with the counts.
    """
    beyond = _BEYOND_LARGEST.search(message)
    if beyond is not None:
        holds = "it holds its quota until it is deleted"
        return Text(Code.EXCEEDS_LARGEST_NODE, sentence(f"Too big: {beyond[0]}", holds))
    return _not_running(message.partition(": ")[2] or message)


def members_not_running(counts: MemberCounts) -> Text:
    """Return that the pods of an owner are admitted one by one and do not run."""
    return _not_running(counts.text)


def _not_running(what: str) -> Text:
    return Text(Code.PODS_NOT_RUNNING, sentence(f"Admitted, but {what}"))


def evicted(text: Text, *, until: str = "") -> Text:
    """Return that a Workload has lost its quota, and why.

    Args:
        text: reason and message of the condition Evicted.
        until: when it is tried again; empty where it is in the queue.
    """
    said = of_condition(text.reason, text.message)
    if said.reason == Code.DEACTIVATED or not until:
        return said
    head = f"Waits: it is tried again at {until}"
    return Text(Code.WAITING_FOR_RETRY, sentence(head, said.message.rstrip(".")))


def preemption_notice(message: str) -> Text:
    """Return the text about a workload that is preempted and runs on; see `conditions`."""
    return Text(Code.PREEMPTION_NOTICE, sentence(message))


def finished(message: str) -> Text:
    """Return that something has ended."""
    return Text(Code.FINISHED, sentence("Finished", message.rstrip(".")))


def not_managed() -> Text:
    """Return that no quota is kept for something."""
    return Text(Code.NOT_MANAGED, sentence("No quota is kept for it: it is in no queue"))


def no_workload() -> Text:
    """Return that the controller has made no Workload for something."""
    return Text(Code.NO_WORKLOAD, sentence("Waits: the controller has not taken it up yet"))


def no_pods() -> Text:
    """Return that an owner has no pods whose admission could be told."""
    return Text(Code.NO_WORKLOAD, "It has no pods yet that could be admitted.")


def of_pods(text: Text, waiting: int, total: int) -> Text:
    """Return what the pods of an owner wait for; each is admitted by itself.

    Args:
        text: what the first of those says that wait.
        waiting: how many wait.
        total: how many there are.
    """
    wait = "waits" if waiting == 1 else "wait"
    why = text.message.removeprefix("Waits: ")
    return Text(text.reason, sentence(f"{waiting} of {_counted(total, 'pod')} {wait}: {why}"))


def stop_held_back(message: str) -> Text:
    """Return that a workload is to be stopped, and the stop is held back; see `conditions`."""
    return Text(Code.STOP_HELD_BACK, sentence(message))


def charged_running(cluster_queue: str) -> Text:
    """Return that a workload runs whose quota was charged afterwards."""
    head = (
        f"Runs, and is charged to ClusterQueue {name(cluster_queue)} though it did not wait there"
    )
    return Text(Code.CHARGED_RUNNING, sentence(head))


# ------------------------------------------------------------------------------ ClusterQueues

_OF_QUEUE: Final[Mapping[str, Code]] = MappingProxyType(
    {
        conditions.CAN_ADMIT.reason: Code.QUEUE_READY,
        conditions.QUEUE_STOPPED.reason: Code.QUEUE_STOPPED,
        conditions.QUEUE_TERMINATING.reason: Code.QUEUE_IN_USE,
        conditions.flavors_not_found(()).reason: Code.QUEUE_REFERS_TO_MISSING,
        conditions.checks_not_found(()).reason: Code.QUEUE_REFERS_TO_MISSING,
        conditions.topologies_not_found(()).reason: Code.QUEUE_REFERS_TO_MISSING,
        conditions.checks_inactive(()).reason: Code.QUEUE_CHECKS_INACTIVE,
    }
)


def cluster_queue(text: Text) -> Text:
    """Return what the condition Active of a ClusterQueue says, for people.

    Args:
        text: its reason and message.
    """
    code = _OF_QUEUE.get(text.reason, Code.QUEUE_UNSUPPORTED)
    if code is Code.QUEUE_READY:
        return Text(code, "Admits workloads.")
    why = text.message.removeprefix("Can't admit new workloads: ").rstrip(".")
    return Text(code, sentence(f"Admits nothing: it {_without_its_name(why)}"))


def _without_its_name(why: str) -> str:
    return why if why.startswith(("is ", "references ")) else f"cannot: {why}"


_OF_LOCAL_QUEUE: Final[Mapping[str, Code]] = MappingProxyType(
    {
        conditions.CAN_SUBMIT.reason: Code.QUEUE_READY,
        conditions.LOCAL_QUEUE_STOPPED.reason: Code.LOCAL_QUEUE_STOPPED,
        conditions.CLUSTER_QUEUE_MISSING.reason: Code.CLUSTER_QUEUE_NOT_FOUND,
        conditions.CLUSTER_QUEUE_INACTIVE.reason: Code.CLUSTER_QUEUE_INACTIVE,
    }
)


def local_queue(text: Text, cluster_queue: str) -> Text:
    """Return what the condition Active of a LocalQueue says, for people.

    Args:
        text: its reason and message.
        cluster_queue: behind it.
    """
    code = _OF_LOCAL_QUEUE.get(text.reason, Code.QUEUE_UNSUPPORTED)
    behind = f"ClusterQueue {name(cluster_queue)}"
    match code:
        case Code.QUEUE_READY:
            return Text(code, sentence(f"Admits workloads through {behind}"))
        case Code.LOCAL_QUEUE_STOPPED:
            return Text(code, sentence("Admits nothing: it is stopped"))
        case Code.CLUSTER_QUEUE_NOT_FOUND:
            return Text(code, sentence(f"Admits nothing: {behind} does not exist"))
        case Code.CLUSTER_QUEUE_INACTIVE:
            return Text(code, sentence(f"Admits nothing: {behind} admits nothing at present"))
        case _:
            return Text(code, sentence(f"Admits nothing: {text.message}"))


def cluster_queue_in_use(workloads: int, holders: Iterable[str]) -> Text:
    """Return that a ClusterQueue is being deleted, and what holds it.

    Args:
        workloads: how many hold its quota.
        holders: names of the first of them.
    """
    hold = "holds" if workloads == 1 else "hold"
    head = f"Cannot go yet: {_counted(workloads, 'workload')} {hold} its quota"
    shown = listed(name(one) for one in holders)
    return Text(Code.QUEUE_IN_USE, sentence(f"{head}: {shown}" if shown else head))


# ------------------------------------------------------------------------------------- places


def place(number: int) -> str:
    """Return a place in a queue: exact up to 10, then to one digit, as ``about 300th``.

    One that waits far behind says another place rarely.
    """
    if number <= _EXACT_PLACES:
        return _ordinal(number)
    step: int = 10 ** (len(str(number)) - 1)
    return f"about {_ordinal((number + step // 2) // step * step)}"


_EXACT_PLACES: Final = 10


def exact_place(number: int) -> str:
    """Return a place in a queue, exactly: ``41st``."""
    return _ordinal(number)


class ToldPlace(NamedTuple):
    """A place as a sentence of this catalogue says it.

    Attributes:
        number: from 1.
        is_about: whether it was rounded.
    """

    number: int
    is_about: bool


_PLACE_IN: Final = re.compile(r"(about )?(\d[\d,]*)(?:st|nd|rd|th) in queue ")


def told_place(message: str) -> ToldPlace | None:
    """Return the place that a sentence of this catalogue says; None where it says none."""
    found = _PLACE_IN.search(message)
    return found and ToldPlace(int(found[2].replace(",", "")), bool(found[1]))


def _ordinal(number: int) -> str:
    is_teen = 10 <= number % 100 <= 20  # noqa: PLR2004
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
