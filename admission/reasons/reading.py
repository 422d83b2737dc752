"""Values of conditions and sentences that were written before; nothing else reads texts.

Kueue, or an older version, wrote the conditions of a Workload that a command or a page is asked
about, and who has no right to read ClusterQueues learns from them what is free. Nothing that
decides or writes reads a text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from admission.base import causes, names, quantity
from admission.base.causes import NoFlavor, Refusal, RefusedPodSet, Why
from admission.base.conditions import (
    EvictionReason,
    PodsReadyReason,
    PreemptionReason,
    WaitReason,
)
from admission.base.errors import InvalidValueError
from admission.base.names import FlavorName, FlavorResource, PodSetName, ResourceName
from admission.reasons import kueue, sentences

# ---------------------------------------------------------------------- why a Workload waits


class RequestedLevel(NamedTuple):
    """How close together the pods of a pod set ask to be.

    Attributes:
        level: label of a topology level.
        is_one: whether one domain of the level has to take all pods; else it should.
        size: pods of a slice; 1 where pods are placed one by one.
    """

    level: str
    is_one: bool
    size: int = 1


def of_condition(
    reason: str,
    message: str,
    levels: Mapping[str, RequestedLevel] = MappingProxyType({}),
) -> Why:
    """Return why a Workload has no quota.

    Args:
        reason: reason of QuotaReserved=False, or of Evicted=True.
        message: message of the same condition.
        levels: what each pod set asks for, which the message does not tell, by its name.

    Returns:
        `Stated` where another program wrote it, or where it means nothing else.
    """
    message = _ENDING.sub("", message)
    for pattern, value in _WHOLE:
        match = pattern.fullmatch(message)
        if match is not None:
            return value(match)
    if reason == WaitReason.WAITING_FOR_NODE and _POD_SET.search(message):
        never = _nodes_never(message)
        if never is not None:
            return never
        return causes.Stated(reason, f"Waits for a node: {_without_quota(message)}")
    return _no_flavor(reason, message, levels) or causes.Stated(reason, message)


_ENDING: Final = re.compile(
    r"\. Pending the end of (\d+) pod\(s\) with (\S+) (\S+) of flavor (\S+?)(?: until (\S+))?$"
)


def ending(message: str) -> causes.EndingPods | None:
    """Return which pods the message of QuotaReserved=False waits for; None where for none."""
    match = _ENDING.search(message)
    if match is None:
        return None
    return causes.EndingPods(
        resource=match[3],
        flavor=match[4],
        amount=_amount(match[3], match[2]),
        pods=int(match[1]),
        until=match[5] or "",
    )


_PREEMPTION_OF: Final[Mapping[str, PreemptionReason]] = MappingProxyType(
    {words: cause for cause, words in kueue.PREEMPTED_FOR.items()}
)
_CUT_OF: Final[Mapping[str, causes.QuotaCut]] = MappingProxyType(
    {words: cut for cut, words in kueue.CUT_FOR.items()}
)


def _preempted(match: re.Match[str]) -> Why:
    cause = _PREEMPTION_OF.get(match["cause"])
    if cause is None:
        return causes.Stated(EvictionReason.PREEMPTED, match[0])
    return causes.Preempted(
        cause,
        uid=match["uid"].removeprefix("UNKNOWN"),
        job_uid=match["job_uid"].removeprefix("UNKNOWN"),
        preemptor_path=match["preemptor"],
        preemptee_path=match["preemptee"],
        cut=_CUT_OF.get(match["cut"] or ""),
    )


_RANKS: Final = "; preemptor effective priority: "
_PREVIOUSLY: Final = "Previously: "


def preemption(message: str) -> causes.Preempted | None:
    """Return what a condition or an event says of a preemption; None where it says of none.

    Args:
        message: of Evicted, Requeued or Preempted, or of the event Preempted on a Workload, which
            has priorities besides.
    """
    match = _WHOLE_PREEMPTED.fullmatch(message.removeprefix(_PREVIOUSLY).partition(_RANKS)[0])
    why = None if match is None else _preempted(match)
    return why if isinstance(why, causes.Preempted) else None


def _pending_preemption(match: re.Match[str]) -> Why:
    return causes.PendingPreemption(_pod_sets(match[1]), int(match[2]))


_PREEMPTED: Final = (
    r"Preempted to accommodate a workload \(UID: (?P<uid>[^,]*), JobUID: (?P<job_uid>[^)]*)\)"
    r" due to (?P<cause>[^;]+); preemptor path: (?P<preemptor>[^;]*);"
    r" preemptee path: (?P<preemptee>[^;]*)(?P<cut>; .*)?"
)
_WHOLE_PREEMPTED: Final = re.compile(_PREEMPTED, re.DOTALL)
_WHOLE: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Why]], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), value)
    for pattern, value in (
        (r"(LocalQueue|ClusterQueue) (\S+) doesn't exist",
         lambda m: causes.QueueMissing(m[1], m[2])),
        (r"(LocalQueue|ClusterQueue) (\S+) is terminating or missing",
         lambda m: causes.QueueGone(m[1], m[2])),
        (r"(LocalQueue|ClusterQueue) (\S+) is inactive",
         lambda m: causes.QueueInactive(m[1], m[2])),
        (r"(LocalQueue|ClusterQueue) (\S+) is stopped",
         lambda m: causes.QueueStopped(m[1], m[2])),
        (re.escape(kueue.message(causes.NamespaceNotServed())),
         lambda _: causes.NamespaceNotServed()),
        (r'workload namespace "([^"]*)" does not exist.*',
         lambda m: causes.NamespaceMissing(m[1])),
        (re.escape(kueue.message(causes.PodsOfOthersNotReady())),
         lambda _: causes.PodsOfOthersNotReady()),
        (re.escape(kueue.message(causes.PodsComing())), lambda _: causes.PodsComing()),
        (re.escape(kueue.message(causes.Paused())), lambda _: causes.Paused()),
        (rf"{re.escape(kueue.message(causes.Deactivated()))}(?: due to (.+))?",
         lambda m: causes.Deactivated(m[1] or "")),
        (r"Admission is gated by: (.+)", lambda m: causes.Gated(m[1])),
        (re.escape(kueue.message(causes.NotTried())), lambda _: causes.NotTried()),
        (re.escape(kueue.message(causes.GatesCleared())), lambda _: causes.GatesCleared()),
        (re.escape(kueue.message(causes.ReservedTwice())), lambda _: causes.ReservedTwice()),
        (re.escape(kueue.message(causes.FailedChecks())), lambda _: causes.FailedChecks()),
        (re.escape(kueue.message(causes.SetAside())), lambda _: causes.SetAside()),
        (re.escape(kueue.message(causes.Deferred())), lambda _: causes.Deferred()),
        (re.escape(kueue.message(causes.Overtaken())), lambda _: causes.Overtaken()),
        (re.escape(kueue.message(causes.Overtaken(takes_victims=True))),
         lambda _: causes.Overtaken(takes_victims=True)),
        (r"(.*)Pending the preemption of (\d+) workload\(s\)", _pending_preemption),
        (_PREEMPTED, _preempted),
    )
)  # fmt: skip
"""Whole messages of conditions of Workloads."""

_NODES: Final = re.compile(r"\bnodes? of ")
_NODES_TOO_SMALL: Final = re.compile(
    r"\bno node of (\S+(?: and \S+)*) can take a pod with (\S+) (\S+): \d+ (?:is|are) too small,"
    r" the largest has ([^\s,;]+)"
)
_NODES_TOO_FEW: Final = re.compile(
    r"\bneeds room on nodes of (\S+(?: and \S+)*?)(?: with the same (\S+(?: and \S+)*))?"
    r" for (\d+) pods with (\S+) (\S+) each, \d+ fits?;"
    r"[^,;]*(?:, at most \S+ on one node \([^)]*\))?"
    r"; at most (\d+) fits? once the nodes are empty"
)
_POD_SET: Final = re.compile(r"couldn't assign flavors to pod set (\S+): ")
_OF_FLAVORS: Final = frozenset(
    {
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.EXCEEDS_MAX_QUOTA,
        WaitReason.NO_MATCHING_FLAVOR,
        WaitReason.WAITING_FOR_PREEMPTED,
        WaitReason.TOPOLOGY_PLACEMENT_FAILED,
    }
)
_UNCOVERED: Final = re.compile(r"resource (\S+) unavailable in ClusterQueue")
_TOO_SMALL: Final = (
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests"
    r" \((\S+)\) \+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_IN_USE: Final = r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed"
_OF_QUOTA: Final = re.compile(f"(?:{_TOO_SMALL}|{_IN_USE})(?:, )?")
_CONTRADICTS: Final = (
    r"flavor (\S+) selects other nodes than flavor (\S+), which is given with it: label (\S+) is"
    r" (\S*) and ([^\s,;]*)"
)
_DOMAINS_TOO_SMALL: Final = (
    r'topology "([^"]+)" (?:allows to fit only (\d+) out of|doesn\'t allow to fit any of) (\d+)'
    r" (pod|slice)\(s\)(?:\. Total nodes: (\d+); excluded: ([^;]+))?"
)
_TAINT: Final = re.compile(r'taint "([^"=:]+)(?:=([^":]*))?:(\w+)": (\d+)')


def _domains_too_small(match: re.Match[str]) -> causes.DomainsTooSmall:
    """Return it without the level and the size of slices, which the message does not tell."""
    taints = tuple(
        ((taint[1], taint[2] or "", taint[3]), int(taint[4]))
        for taint in _TAINT.finditer(match[6] or "")
    )
    return causes.DomainsTooSmall(
        topology=match[1],
        level="",
        fitting=int(match[2] or 0),
        needed=int(match[3]),
        size=1 if match[4] == "pod" else 0,
        is_one=False,
        excluded=causes.NodesExcluded(int(match[5] or 0), taints=taints),
    )


_REFUSALS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Refusal]], ...]] = tuple(
    (re.compile(pattern), value)
    for pattern, value in (
        (_IN_USE,
         lambda m: causes.QuotaInUse(m[1], m[2], _amount(m[1], m[3]))),
        (_TOO_SMALL,
         lambda m: causes.QuotaTooSmall(m[1], m[2], *(_amount(m[1], m[i]) for i in (3, 4, 5)))),
        (r"flavor (\S+) doesn't match node affinity", lambda m: causes.OtherNodes(m[1])),
        (r"untolerated taint \{(\S*) (\S*) (\S*) <nil>\} in flavor ([^\s,;]+)",
         lambda m: causes.UntoleratedTaint(m[4], m[1], m[2], m[3])),
        (_CONTRADICTS, lambda m: causes.Contradicts(*m.groups())),
        (r"flavor (\S+) not found", lambda m: causes.FlavorMissing(m[1])),
        (r"resource (\S+) unavailable in ClusterQueue", lambda m: causes.NotCovered(m[1])),
        (_DOMAINS_TOO_SMALL, _domains_too_small),
        (r'Flavor "([^"]+)" does not support TopologyAwareScheduling',
         lambda m: causes.NoTopology(m[1])),
        (r'Flavor "([^"]+)" does not contain the requested level',
         lambda m: causes.LevelMissing(m[1])),
        (r"no TAS flavor assigned", lambda _: causes.NoTopologyGiven()),
        (r"no topology domains at level: ([^\s,;]+)", lambda m: causes.NoDomains(m[1])),
    )
)  # fmt: skip
"""Parts of a message that say why flavors are not given."""


def _nodes_never(message: str) -> NoFlavor | None:
    """Return that nodes never take the pods; None where those of any flavor may yet.

    Nodes are too small for one pod, or too few for all of them.
    """
    too_small = tuple(
        causes.NoPlace(
            flavors=tuple(map(FlavorName, match[1].split(" and "))),
            pod_set=PodSetName(""),
            count=1,
            fitting=0,
            resource=match[3],
            asks=_amount(match[3], match[2]),
            free=0,
            largest=_amount(match[3], match[4]),
        )
        for match in _NODES_TOO_SMALL.finditer(message)
    )
    too_few = tuple(
        causes.NoPlace(
            flavors=tuple(map(FlavorName, match[1].split(" and "))),
            pod_set=PodSetName(""),
            count=int(match[3]),
            fitting=0,
            resource=match[5],
            asks=_amount(match[5], match[4]),
            free=0,
            together=tuple(match[2].split(" and ")) if match[2] else (),
            at_most=int(match[6]),
        )
        for match in _NODES_TOO_FEW.finditer(message)
    )
    of_one_kind = too_small or too_few
    refusals = (*of_one_kind, *_refusals(message))
    never = NoFlavor(WaitReason.WAITING_FOR_NODE, (RefusedPodSet("", refusals),))
    is_all = len(_NODES.findall(message)) == len(of_one_kind) > 0
    may_fit = never.waits_for_other_flavor or never.is_of_domains
    return never if is_all and not may_fit else None


def _without_quota(message: str) -> str:
    """Return what nodes lack, without the flavors that lack quota: these take it neither way."""
    _, *parts = _POD_SET.split(message)
    of_pod_sets = (_OF_QUOTA.sub("", part).strip(",; ") for part in parts[1::2])
    of_nodes = "; ".join(part for part in of_pod_sets if _NODES.search(part))
    return of_nodes or _POD_SET.sub("", message)


def _no_flavor(reason: str, message: str, levels: Mapping[str, RequestedLevel]) -> NoFlavor | None:
    """Return which flavors are refused and why; None where the message tells nothing of it."""
    is_uncovered = _UNCOVERED.search(message) is not None
    if reason not in _OF_FLAVORS and not is_uncovered:
        return None
    pod_sets = tuple(
        RefusedPodSet(name, tuple(_with_level(refusal, levels.get(name)) for refusal in refusals))
        for name, refusals in _pod_sets(message)
    )
    if not any(refusals for _, refusals in pod_sets):
        return None
    code = reason if reason in _OF_FLAVORS else WaitReason.NO_MATCHING_FLAVOR
    return NoFlavor(WaitReason(code), pod_sets)


def _with_level(refusal: Refusal, level: RequestedLevel | None) -> Refusal:
    if level is None:
        return refusal
    if isinstance(refusal, causes.DomainsTooSmall):
        return replace(refusal, level=level.level, is_one=level.is_one, size=level.size)
    is_told = not isinstance(refusal, causes.LevelMissing) or level.size == 1  # else of slices
    if isinstance(refusal, causes.LacksTopology) and is_told:
        return replace(refusal, level=level.level, is_one=level.is_one)
    return refusal


def _pod_sets(message: str) -> tuple[RefusedPodSet, ...]:
    """Return the pod sets that a message tells of; one without a name where it names none."""
    head, *parts = _POD_SET.split(message)
    if not parts:
        return (RefusedPodSet("", tuple(_refusals(head))),)
    named = zip(parts[::2], parts[1::2], strict=True)
    return tuple(RefusedPodSet(name, tuple(_refusals(part))) for name, part in named)


def _refusals(message: str) -> Iterator[Refusal]:
    """Yield why flavors are refused, in the order of the message."""
    places = [
        (match.start(), value(match))
        for pattern, value in _REFUSALS
        for match in pattern.finditer(message)
    ]
    yield from (refusal for _, refusal in sorted(places, key=lambda place: place[0]))


def _amount(resource: str, text: str) -> int:
    try:
        return quantity.to_canonical(resource, text)
    except InvalidValueError:
        return 0


_FLAVOR: Final = re.compile(r"\b(?<!no TAS )flavor ([^\s,;]+)|\bFlavor \"([^\"]+)\"")


def tried_flavors(message: str) -> frozenset[str]:
    """Return the flavors that the message of QuotaReserved=False tells of.

    They are those that were tried the last time, which need not be all.
    """
    return frozenset(match[1] or match[2] for match in _FLAVOR.finditer(message))


def refusing_flavors(message: str) -> Mapping[str, frozenset[str]]:
    """Return the flavors that no quota helps to, by pod set: their nodes do not take its pods.

    Args:
        message: of QuotaReserved=False; flavors that were not tried the last time are not in it.
    """
    return {
        name: frozenset(
            refusal.flavor for refusal in refusals if isinstance(refusal, causes.NODES_REFUSE)
        )
        for name, refusals in _pod_sets(message)
        if name
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
    amounts: dict[Told, None] = {}
    for refusal in _refusals(message):
        if isinstance(refusal, causes.QuotaInUse):
            amounts[Told(refusal.resource, refusal.flavor, more=refusal.missing)] = None
        elif isinstance(refusal, causes.QuotaTooSmall):
            amounts[Told(refusal.resource, refusal.flavor, reach=refusal.limit)] = None
    return tuple(amounts)


class StatedLack(NamedTuple):
    """What a sentence of `sentences` says of one resource in one flavor; canonical units.

    Attributes:
        resource: of which something is short.
        flavor: in which.
        asks: how much is asked for; None where the sentence does not say it.
        free: what the ClusterQueue could take; None likewise.
        reach: the most that it could ever take; None likewise.
    """

    resource: str
    flavor: str
    asks: int | None
    free: int | None = None
    reach: int | None = None


_KIND_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GPU memory": names.GPU_MEMORY,
        "GPU slices": names.GPU_SLICES,
        "GPU": names.GPU_RESOURCE,
        "GPUs": names.GPU_RESOURCE,
    }
)
_NEED: Final = r"(?P<asks>\S+) (?:(?P<what>GPU memory|GPU slices|\S+) of )?(?P<flavor>[^\s,;()]+)"
_ROOM: Final = r"(?P<free>\S+) free(?: of (?P<reach>[^\s,;()]*[^\s,;().]))?"
_IN_ONE: Final = re.compile(rf"\bneeds {_NEED}, {_ROOM}")
_IN_EACH: Final = re.compile(rf"\b{_NEED} \({_ROOM}\)")
_IN_ANY: Final = re.compile(
    rf"\bneeds (?P<asks>\S+) (?P<what>GPU memory|GPU slices|[^\s;]+);"
    rf"(?P<parts>(?:,? [^\s,;()]+ {_ROOM})+)".replace("?P<free>", "").replace("?P<reach>", "")
)
_PART: Final = re.compile(rf"(?P<flavor>[^\s,;()]+) {_ROOM}")
_BEYOND_ONE: Final = re.compile(
    rf"^Too big: asks {_NEED}, \S+ can reach (?P<reach>[^\s,;()]*[^\s,;().])(?=[.;]|$)"
)
_BEYOND_ALL: Final = re.compile(
    r"^Too big: asks (?P<asks>\S+) (?P<what>GPU memory|GPU slices|[^\s,]+), \S+ can reach \S+ in"
    r" one flavor \((?P<parts>[^()]+)\)"
)
_REACH: Final = re.compile(r"(?P<flavor>[^\s,]+) (?P<reach>[^\s,]+)(?=,|$| and )")


def stated_lacks(sentence: str) -> tuple[StatedLack, ...]:
    """Return the numbers that a sentence about a wait for quota says, by flavor.

    Args:
        sentence: of a condition of ours or of an event; empty for none.
    """
    for whole, part in ((_IN_ANY, _PART), (_BEYOND_ALL, _REACH)):
        match = whole.search(sentence)
        if match is not None:
            of_all = {"asks": match["asks"], "what": match["what"]}
            rows = [{**each.groupdict(), **of_all} for each in part.finditer(match["parts"])]
            return tuple(map(_stated_lack, rows))
    each = [*_IN_EACH.finditer(sentence)] if " needs " in sentence else []
    alone = _IN_ONE.search(sentence) or _BEYOND_ONE.search(sentence)
    return tuple(_stated_lack(match.groupdict()) for match in each or filter(None, (alone,)))


def smaller_request(sentence: str) -> str:
    """Return which smaller request would not lack quota, as a sentence about a wait says it.

    Args:
        sentence: of a condition of ours, of an event or of a verdict; nothing is known of others.

    Returns:
        As ``3 a100 or 1 h100``, or ``3 a100, which stops work of others``; empty where nothing
        is free, or it is not known.
    """
    match = _SMALLER.search(sentence)
    if match is not None:
        return f"{match[1]}, which stops work of others"
    return " or ".join(
        f"{quantity.in_words(lack.resource, lack.free)} {lack.flavor}"
        for lack in stated_lacks(sentence)
        if lack.resource == names.GPU_RESOURCE
        and lack.free
        and lack.asks is not None
        and lack.free < lack.asks
    )


_SMALLER: Final = re.compile(r"\ba request for at most ([^;]+?) would stop work of others\b")


def _stated_lack(parts: Mapping[str, str | None]) -> StatedLack:
    noun = parts.get("what") or "GPU"
    resource = _KIND_OF.get(noun, noun)

    def amount(key: str) -> int | None:
        try:
            return quantity.to_canonical(resource, parts.get(key) or "")
        except InvalidValueError:
            return None

    return StatedLack(
        resource, parts["flavor"] or "", amount("asks"), amount("free"), amount("reach")
    )


# ------------------------------------------------------------------------ pods that do not run

_BEYOND: Final = re.compile(r"a pod asks [^,;]+, the largest node has [^\s;]+(?: \([^)]*\))?")
_LARGEST_NODE: Final = re.compile(r"a pod asks [^,;]+, the largest node has ([^\s;(]*[^\s;(.])")
_NOT_READY: Final = re.compile(r"pods are ready: node.* not ready")


class NotRunning(NamedTuple):
    """What the condition PodsReady says of pods that do not run.

    Attributes:
        missing: what is missing, as a clause.
        beyond: that a pod asks for more than any node has; empty where it does not say so.
    """

    missing: str
    beyond: str


def not_running(reason: str, message: str) -> NotRunning | None:
    """Return what PodsReady=False says of pods; None where it has no more than Kueue's message."""
    if reason not in kueue.PODS_READY:
        return None
    plain = kueue.pods_ready(PodsReadyReason(reason)).message
    if message == plain:
        return None
    beyond = _BEYOND.search(message)
    return NotRunning(message.removeprefix(f"{plain}: "), beyond[0] if beyond else "")


def largest_node(message: str) -> str:
    """Return how much the largest node has, as a sentence of `sentences` says it; else nothing."""
    match = _LARGEST_NODE.search(message)
    return match[1] if match else ""


_REACHES_NOTHING: Final = re.compile(r" can reach 0(?: in one flavor \([^)]*\))?(?:\.|$)")


def reaches_nothing(message: str) -> bool:
    """Return whether a sentence of `sentences` says that a queue has nothing of what is asked."""
    return sentences.NO_QUOTA in message or _REACHES_NOTHING.search(message) is not None


def says_lost_node(message: str) -> bool:
    """Return whether a message with counts says that a node is not ready."""
    return _NOT_READY.search(message) is not None


# -------------------------------------------------------------------------------- ClusterQueues

_SHORT: Final = re.compile(
    r"(\S+) in flavor (\S+): quota promises \S+, (\S+) exist"
    r"(?:, (\S+) promised to other queues(?: and flavors)? first)? \(([^()]*)\)"
)
# An earlier version says no more than what all queues before it are promised.
_PROMISED_BEFORE: Final = re.compile(r"(\S+) promised to queues(?: and flavors)? before this one")


class ExistingQuota(NamedTuple):
    """What exists of the quota that a ClusterQueue promises; canonical units.

    Attributes:
        share: what exists of it.
        elsewhere: what of the rest others are promised before, also when all GPUs are well.
    """

    share: int
    elsewhere: int = 0


def existing_quota(message: str) -> dict[FlavorResource, ExistingQuota]:
    """Return what exists of what a ClusterQueue promises too much of.

    Args:
        message: of CapacitySufficient=False.
    """
    existing = {}
    for resource, flavor, exist, first, parts in _SHORT.findall(message):
        before = _PROMISED_BEFORE.search(parts)
        elsewhere = first or ("" if before is None else before[1])
        existing[FlavorResource(FlavorName(flavor), ResourceName(resource))] = ExistingQuota(
            _amount(resource, exist), _amount(resource, elsewhere) if elsewhere else 0
        )
    return existing


_SICK: Final = re.compile(r"\S+ in flavor (\S+): [^;]*\bsick\b")


def sick_flavors(message: str) -> frozenset[str]:
    """Return flavors of which GPUs are sick, held by pods or not.

    Args:
        message: of CapacitySufficient.
    """
    return frozenset(_SICK.findall(message))


# --------------------------------------------------------------------------- places in a queue


class ToldPlace(NamedTuple):
    """A place as a sentence of `sentences` says it.

    Attributes:
        number: from 1.
        is_about: whether it was rounded.
        cluster_queue: the queue, as the sentence shows its name.
        words: the place as the sentence says it, such as ``about 40th``.
    """

    number: int
    is_about: bool
    cluster_queue: str
    words: str


_PLACE_IN: Final = re.compile(
    r"((?:about )?(\d[\d,]*)(?:st|nd|rd|th)) in queue ([^\s;]+?)(?=[;.]?(?:\s|$))"
)


def told_place(message: str) -> ToldPlace | None:
    """Return the place that a sentence of `sentences` says; None where it says none."""
    match = _PLACE_IN.search(message)
    if match is None:
        return None
    number = int(match[2].replace(",", ""))
    return ToldPlace(number, match[1].startswith("about "), match[3], match[1])
