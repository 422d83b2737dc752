"""One sentence for users about why something waits or does not run, from its value.

That is the condition ``gpu-admission.dev/Admitted`` of pods and owners, an event, a warning, a row
of the dashboard, and the first line of ``kubectl gpu why``. Each function returns a code of the
`next_steps` and a sentence of at most `MOST` characters.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from admission.base import amount as amounts
from admission.base import causes, conditions, names, quantity
from admission.base.causes import (
    ALL_NAMED,
    BorrowingLimit,
    LargestNode,
    MemberCounts,
    Refusal,
    Shortage,
    UnnamedHolders,
    Why,
)
from admission.base.conditions import EvictionReason, PreemptionReason, Text, WaitReason
from admission.base.names import FlavorResource
from admission.reasons import domains, kueue, placing
from admission.reasons.next_steps import Code, is_code

MOST: Final = 200
"""Most characters of a sentence."""

_NAME: Final = 40
"""Most characters of a name in a sentence."""
_CUT: Final = "…"
_LISTED: Final = 3
"""Most members of a list in a sentence."""

# ---------------------------------------------------------------------------------- sentences


def sentence(head: str, *clauses: str) -> str:
    """Return ``head; clause; clause.``, without the last clauses where it would be too long."""
    text = clipped(head.rstrip("."), MOST - 1)
    for clause in filter(None, clauses):
        if len(text) + len("; ") + len(clause) < MOST:
            text = f"{text}; {clause}"
    return text if text.endswith((_CUT, "!", "?")) else f"{text}."


def fitted(text: Text) -> Text:
    """Return a text whose message is a sentence of the length that `MOST` allows.

    What the API server refuses keeps its whole cause: that stands at the end of its message.
    """
    message = text.message
    if text.reason == Code.START_REFUSED:
        return text
    return text if len(message) <= MOST else Text(text.reason, clipped(message, MOST))


def clipped(text: str, limit: int) -> str:
    """Return a text within a number of characters; a longer one ends at a word."""
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    at_word = kept.rpartition(" ")[0]
    return f"{at_word if len(at_word) > limit // 2 else kept}{_CUT}"


def without_last_clauses(text: str, limit: int) -> str:
    """Return a sentence within a number of characters, without the last clauses of a longer one.

    It is cut at a word where its first clause is too long, too.
    """
    clauses = text.rstrip(".").split("; ")
    while len(clauses) > 1 and len("; ".join(clauses)) >= limit:
        clauses.pop()
    kept = "; ".join(clauses)
    return f"{kept}." if len(kept) < limit else clipped(text, limit)


def name(text: str) -> str:
    """Return a name as sentences show it."""
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}{_CUT}"


def is_cut(text: str) -> bool:
    """Return whether a sentence shows a name not in full."""
    return text.endswith(_CUT)


def listed(members: Iterable[str], separator: str = ", ") -> str:
    """Return the members of a list, ``and 3 more`` for those beyond the first three."""
    every = list(members)
    rest = len(every) - _LISTED
    shown = separator.join(every[:_LISTED])
    return f"{shown} and {rest} more" if rest > 0 else shown


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
        owns_none: whether the ClusterQueue is known to have no quota of it itself.
        promised_to: ClusterQueues and Cohorts that it is promised to.
        holders: ClusterQueues with what they use, largest first.
        unnamed: how many others use it, and how much together; empty for none.
        hold_more: whether that is more than the ClusterQueue itself could ever take.
        never: whether it asks for more than it could ever take.
        exists_not: whether it would fit if all existed that is promised.
        borrower: ClusterQueue or Cohort whose borrowing limit alone stands in the way; empty for
            none.
        may_borrow: the most that it may borrow.
        smaller: the most that a smaller request would get, as the ClusterQueue takes back what
            others borrow; empty where that is not more than is free.
    """

    resource: str
    flavor: str
    asks: str
    free: str
    reach: str
    withheld: str = ""
    elsewhere: str = ""
    is_all_elsewhere: bool = False
    owns_none: bool = False
    promised_to: tuple[str, ...] = ()
    holders: tuple[tuple[str, str], ...] = ()
    unnamed: tuple[int, str] | None = None
    hold_more: bool = False
    never: bool = False
    exists_not: bool = False
    borrower: str = ""
    may_borrow: str = ""
    smaller: str = ""

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
    ``Waits: needs 8 a100, 2 free of 10; queue research may borrow 2 a100 at most; held by
    research (8).``

    Args:
        lacks: what it lacks, at least one.
        cluster_queue: where it waits.
        place: in its queue, such as ``about 10th``; empty where it is not known.
        deployment: whose previous revision holds the quota; empty for none.
    """
    of_resource = [lack for lack in lacks if lack.resource == lacks[0].resource]
    if len(of_resource) == 1:
        head = f"Waits: needs {of_resource[0].need}, {of_resource[0].room}"
    elif len({lack.amount for lack in of_resource}) > 1:  # what it costs differs by flavor
        head = f"Waits: needs {' or '.join(f'{lack.need} ({lack.room})' for lack in of_resource)}"
    else:
        parts = listed(f"{name(lack.flavor)} {lack.room}" for lack in of_resource)
        head = f"Waits: needs {of_resource[0].amount}; {parts}"
    missing = next((lack for lack in lacks if lack.exists_not), None)
    at = _at(place, cluster_queue)
    if missing is not None:
        code = Code.CAPACITY_PROMISED if missing.is_all_elsewhere else Code.CAPACITY_MISSING
        return Text(code, sentence(head, _withheld(missing), at))
    if deployment:
        cause = (
            f"the previous revision of Deployment {name(deployment)} holds quota: set maxSurge: 0"
        )
        return Text(Code.HELD_BY_PREVIOUS_REVISION, sentence(head, cause, at))
    limits = [*_limits(lacks), *_smaller(lacks)]
    holders = of_resource[0].holders if len(of_resource) == 1 else ()
    unnamed = of_resource[0].unnamed if holders else None
    users = holders_listed(holders, unnamed)
    is_held_by_others = bool(unnamed) or any(queue != cluster_queue for queue, _ in holders)
    where = " in its Cohort" if of_resource[0].hold_more and is_held_by_others else ""
    held_by = f"held{where} by {users}" if users else ""
    short = next((lack for lack in of_resource if lack.withheld), None)
    sick = "" if short is None else _withheld(short)
    return Text(Code.WAITING_FOR_QUOTA, sentence(head, sick, at, *limits, held_by))


def holders_listed(
    holders: Iterable[tuple[str, str]], unnamed: tuple[int, str] | None = None
) -> str:
    """Return who uses a resource, as ``serving (9), research (4) and 7 more (12)``.

    Args:
        holders: ClusterQueues with what they use.
        unnamed: how many others there are, and what they use together.
    """
    parts = [f"{name(queue)} ({used})" for queue, used in holders]
    shown = ", ".join(parts)
    return f"{shown} and {unnamed[0]:,} more ({unnamed[1]})" if unnamed else shown


def free_when_said() -> str:
    """Return that what is free may be otherwise by now, as a clause."""
    return "what is free is as of the last update of its condition, and may be more or less now"


def _limits(lacks: Sequence[Lack]) -> list[str]:
    """Return which borrowing limits stand in the way, each once; none where one lack has none.

    What is free above would be enough, so nobody else has to give anything back.
    """
    if not all(lack.borrower for lack in lacks):
        return []
    return list(
        dict.fromkeys(
            f"{lack.borrower} may borrow {lack.may_borrow} {_what_of(lack)} at most"
            if lack.may_borrow != "0"
            else f"{lack.borrower} may borrow no {_what_of(lack)}"
            for lack in lacks
        )
    )


def _smaller(lacks: Sequence[Lack]) -> list[str]:
    """Return which smaller request would not wait; none where another resource is short, too."""
    if len({lack.resource for lack in lacks}) > 1:
        return []
    parts = [f"{lack.smaller} {_what_of(lack)}" for lack in lacks if lack.smaller]
    if not parts:
        return []
    return [f"a request for at most {' or '.join(parts)} would stop work of others that borrows"]


def _what_of(lack: Lack) -> str:
    if lack.resource == names.GPU_RESOURCE:
        return name(lack.flavor)
    return f"{_what(lack.resource)} of {name(lack.flavor)}"


def _at(place: str, cluster_queue: str) -> str:
    return f"{place} in queue {name(cluster_queue)}" if place else ""


def too_big(lacks: Sequence[Lack], cluster_queue: str) -> Text:
    """Return that a Workload asks for more than its queue can ever take.

    ``Too big: asks 64 GPUs, research can reach 16 in one flavor (a100 16, h100 8).``
    ``Too big: asks 1 h100, vision can reach 0; vision has no quota of h100 of its own, and can
    borrow none now.``

    What may be borrowed can come back: the capacity guard may hold the quota of lenders.

    Args:
        lacks: what no flavor can ever give, at least one, the largest reach first.
        cluster_queue: where it waits.
    """
    of_resource = [lack for lack in lacks if lack.resource == lacks[0].resource]
    queue = name(cluster_queue)
    first = of_resource[0]
    if {lack.flavor for lack in of_resource} != {lack.flavor for lack in lacks}:
        return Text(Code.EXCEEDS_MAX_QUOTA, sentence(_apart(lacks, queue)))
    if len(of_resource) == 1:
        head = f"Too big: asks {first.need}, {queue} can reach {first.reach}"
    else:
        parts = listed(f"{name(lack.flavor)} {lack.reach}" for lack in of_resource)
        reach = f"{queue} can reach {first.reach} in one flavor"
        head = f"Too big: asks {first.amount}, {reach} ({parts})"
    none = (
        f"{queue}{NO_QUOTA}{listed(_what_of(lack) for lack in of_resource)} of its own, and can "
        "borrow none now"
        if all(lack.reach == "0" and lack.owns_none for lack in of_resource)
        else ""
    )
    return Text(Code.EXCEEDS_MAX_QUOTA, sentence(head, none or _withheld(first)))


NO_QUOTA: Final = " has no quota of "
"""Between a queue and the flavors of which it has none itself and can borrow none now."""


def _apart(lacks: Sequence[Lack], queue: str) -> str:
    """Return that each flavor has enough of some of the resources, and none of all of them."""
    amounts = " with ".join({lack.resource: lack.amount for lack in lacks}.values())
    of_flavor: dict[str, str] = {}
    for lack in lacks:
        reach = f"{name(lack.flavor)} {lack.reach} {_unit(lack.resource)}"
        of_flavor.setdefault(lack.flavor, reach)
    parts = listed(of_flavor.values())
    return f"Too big: asks {amounts}, no flavor of {queue} can reach all of it ({parts})"


def _unit(resource: str) -> str:
    return "GPUs" if resource == names.GPU_RESOURCE else _what(resource)


def _withheld(lack: Lack) -> str:
    """Return why what is promised is not there: sick, missing, or promised to others before."""
    if not lack.withheld:
        return ""
    promised = f"{lack.withheld} more promised"
    owners = listed(map(name, lack.promised_to)) or "other queues"
    if not lack.elsewhere:
        return f"{promised}, but sick or missing"
    if lack.is_all_elsewhere:
        return f"{promised}, but they are promised to {owners} first"
    return f"{promised}: {lack.elsewhere} of them to {owners} first, the rest is sick or missing"


_LARGEST_NODE: Final = ", the largest node has "


def exceeds_largest_node(nodes: Sequence[LargestNode]) -> Text:
    """Return that a pod asks for more than any node of the flavors has that it may get.

    ``Too big: a pod asks 16 a100, the largest node has 8.``

    Args:
        nodes: one for each flavor, at least one, all of one resource.
    """
    return Text(Code.EXCEEDS_LARGEST_NODE, sentence(f"Too big: {beyond_largest_node(nodes)}"))


def beyond_largest_node(nodes: Sequence[LargestNode]) -> str:
    """Return the same as a clause: ``a pod asks 16 a100, the largest node has 8``."""
    first, *rest = map(_of_node, sorted(nodes, key=lambda node: (-node.has, node.flavor)))
    asks = first.amount if rest else first.need
    head = f"a pod asks {asks}{_LARGEST_NODE}{first.reach}"
    parts = listed(f"{name(lack.flavor)} {lack.reach}" for lack in (first, *rest))
    return f"{head} ({parts})" if rest else head


def _of_node(node: LargestNode) -> Lack:
    asks, has = (quantity.in_words(node.resource, value) for value in (node.asks, node.has))
    return Lack(node.resource, node.flavor, asks, free="", reach=has)


def no_node_has_free(nodes: causes.NoNodeFree) -> str:
    """Return that a pod waits for one node with enough that is free, as a clause."""
    asks = quantity.in_words(nodes.resource, nodes.asks)
    lack = Lack(nodes.resource, nodes.flavor, asks, free="", reach="")
    return f"a pod asks {lack.need}, and no node has as many free"


def waits_for_node(refused: causes.NoFlavor, cluster_queue: str, *, place: str = "") -> Text:
    """Return that a Workload waits until nodes have room for its pods.

    ``Waits for a node: needs 8 nvidia.com/gpu on one node of a100; 12 are free, at most 3 on one
    node (node-4).``
    Where the nodes are too small for them: ``Too big: 2 pods with 5 nvidia.com/gpu each on nodes
    of a100 with the same rack; at most 1 fits once the nodes are empty.``

    It is not too big where another flavor may take it as other work ends.

    Args:
        refused: what is in the way, nodes without room among it.
        cluster_queue: the ClusterQueue in which it waits.
        place: its place in the queue, such as ``about 10th``; empty where it is not known.
    """
    no_places, other_flavor_may = refused.no_places, refused.waits_for_other_flavor
    too_small = [
        LargestNode(no_place.resource, flavor, no_place.asks, no_place.largest)
        for no_place in no_places
        if no_place.largest is not None
        for flavor in no_place.told_flavors
    ]
    if not other_flavor_may and all(no_place.largest is not None for no_place in no_places):
        resource = too_small[0].resource
        return exceeds_largest_node([node for node in too_small if node.resource == resource])
    if not other_flavor_may and all(no_place.at_most is not None for no_place in no_places):
        never = dict.fromkeys(map(placing.too_many, no_places))
        return Text(Code.EXCEEDS_NODES, sentence(f"Too big: {' and '.join(never)}"))
    head, *other_reasons = dict.fromkeys(map(placing.shortage, no_places))
    clauses = (*other_reasons, _at(place, cluster_queue))
    return Text(Code.WAITING_FOR_NODE, sentence(f"Waits for a node: {head}", *clauses))


def waits_for_domain(
    refusals: Sequence[causes.DomainsTooSmall | causes.NoDomains],
    cluster_queue: str,
    *,
    place: str = "",
    beside: Iterable[str] = (),
) -> Text:
    """Return that a Workload waits until domains of a topology have room for its pods.

    ``Waits for nodes: needs 8 pods in one rack of topology default; at most 6 fit into one.``

    Args:
        refusals: what does not take them, at least one.
        cluster_queue: the ClusterQueue in which it waits.
        place: its place in the queue; empty where it is not known.
        beside: what is against other flavors, a clause each.
    """
    head, *clauses = dict.fromkeys(map(domains.shortage, refusals))
    return Text(
        Code.WAITING_FOR_NODE,
        sentence(f"Waits for nodes: {head}", *clauses, *beside, _at(place, cluster_queue)),
    )


def waits_for_preempted(count: int, *, until: str = "") -> Text:
    """Return that a Workload waits for those that it preempts.

    Args:
        count: of them.
        until: time at which the last of them is stopped; empty where they are stopped already.
    """
    victims = f"{_counted(count, 'workload')} that it preempts"
    has = "has" if count == 1 else "have"
    end = f"the last is stopped at {until}" if until else ""
    return Text(Code.WAITING_FOR_PREEMPTED, sentence(f"Waits until {victims} {has} stopped", end))


def with_ending(text: Text, ending: causes.EndingPods | None) -> Text:
    """Return a text with the pods that end and hold what a Workload waits for.

    ``Waits until 1 workload that it preempts has stopped; 2 pods that are ending hold 16 a100
    until 2026-11-30 09:37:46 UTC at the latest.`` Where that is too long, the last clauses of the
    text make way: who holds quota now matters less than when it is free.

    Args:
        text: why it waits.
        ending: these pods; None for none.
    """
    if ending is None:
        return text
    hold = (
        "1 pod that is ending holds"
        if ending.pods == 1
        else f"{ending.pods} pods that are ending hold"
    )
    amount = Lack(
        resource=ending.resource,
        flavor=ending.flavor,
        asks=quantity.in_words(ending.resource, ending.amount),
        free="",
        reach="",
    ).need
    clause = f"{hold} {amount}"
    if ending.until:
        clause += f" until {ending.until[:10]} {ending.until[11:19]} UTC at the latest"
    if clause in text.message:
        return text
    head, *clauses = text.message.rstrip(".").split("; ")
    while clauses and len("; ".join((head, *clauses, clause))) >= MOST:
        clauses.pop()
    return Text(text.reason, sentence(head, *clauses, clause))


def overtaken(place: str = "", cluster_queue: str = "") -> Text:
    """Return that another Workload got the quota of this one in the same moment."""
    head = "Waits: another workload took the quota first; it is tried again at once"
    return Text(Code.WAITING_FOR_QUOTA, sentence(head, _at(place, cluster_queue)))


def waits_for_pods(place: str = "", cluster_queue: str = "") -> Text:
    """Return that pods on their way may take the nodes that a Workload would get."""
    head = (
        "Waits for a node: pods that were admitted before it may start on the nodes that it would"
        " get; it is tried again once they have nodes"
    )
    return Text(Code.WAITING_FOR_NODE, sentence(head, _at(place, cluster_queue)))


def not_judged(place: str = "", cluster_queue: str = "") -> Text:
    """Return that a Workload has not been tried yet.

    ``Waits: its queue looks at it next; 1st in queue research.``
    """
    head = "Waits: its turn in the queue has not come yet"
    if place:
        is_first = place == _ordinal(1)
        next_up = "its queue looks at it next" if is_first else "its queue looks at others first"
        head = f"Waits: {next_up}"
    return Text(Code.PENDING_EVALUATION, sentence(head, _at(place, cluster_queue)))


def resources_misspelled(requested: Iterable[str]) -> Text | None:
    """Return which resource is not one but a GPU that is misspelled; None where none is.

    ``Never starts as it is: nvidia.com/gpus is misspelled: a GPU is nvidia.com/gpu.``
    """
    wrong = sorted(resource for resource in set(requested) if _MISSPELLED.fullmatch(resource))
    if not wrong:
        return None
    head = f"Never starts as it is: {listed(wrong)} is misspelled: a GPU is {names.GPU_RESOURCE}"
    return Text(Code.RESOURCE_MISSPELLED, sentence(head))


_MISSPELLED: Final = re.compile(names.MISSPELLED_GPU)


def gpu_of_products(requested: Iterable[str]) -> str:
    """Return how a GPU is asked for instead of by its product, as a clause; empty for nothing.

    ``a GPU is nvidia.com/gpu, and nodeSelector nvidia.com/gpu.product chooses its product``

    Args:
        requested: names of resources.
    """
    wrong = set(requested)
    if any(map(_NVIDIA_PRODUCT.fullmatch, wrong)):
        selector = f"nodeSelector {names.GPU_PRODUCT_LABEL}"
        return f"a GPU is {names.GPU_RESOURCE}, and {selector} chooses its product"
    if any(map(_AMD_PRODUCT.fullmatch, wrong)):
        return "a GPU is amd.com/gpu, and a nodeSelector chooses its product"
    return ""


_NVIDIA_PRODUCT: Final = re.compile(names.NVIDIA_PRODUCT)
_AMD_PRODUCT: Final = re.compile(names.AMD_PRODUCT)


def resources_not_covered(missing: Iterable[str], cluster_queue: str = "") -> Text:
    """Return that the queue of a Workload has no quota for resources.

    One that is misspelled is told instead: no queue ever has quota for it. Of the name of a
    product, it is told how a GPU is asked for.
    """
    every = list(missing)
    misspelled = resources_misspelled(every)
    if misspelled is not None:
        return misspelled
    queue = f"queue {name(cluster_queue)}" if cluster_queue else "its queue"
    resources = listed(name(resource) for resource in every)
    instead = gpu_of_products(every)
    return Text(
        Code.RESOURCE_MISSPELLED if names.GPU_RESOURCE in instead else Code.RESOURCE_NOT_COVERED,
        sentence(f"Never starts as it is: {queue} has no quota for {resources}", instead),
    )


def resources_not_offered(
    missing: Iterable[str], offered: Iterable[str], *, knows_nodes: bool
) -> Text:
    """Return that no queue counts resources and, where nodes are known, that none offers them.

    ``Waits: no node and no queue offers nvidia.com/a100; there are: nvidia.com/gpu.``

    Args:
        missing: the resources.
        offered: those of devices that there are.
        knows_nodes: whether nodes could be read.
    """
    place = (
        "no node and no queue offers" if knows_nodes else "no queue of its namespace has quota for"
    )
    head = f"Waits: {place} {listed(name(resource) for resource in sorted(missing))}"
    every = listed(name(resource) for resource in sorted(offered)) or "none of GPUs"
    whether = "" if knows_nodes else "whether a node offers it is not known to your user"
    return Text(Code.RESOURCE_NOT_OFFERED, sentence(head, f"there are: {every}", whether))


def no_matching_flavor(why: Iterable[str], cluster_queue: str = "") -> Text:
    """Return that pods may not run on any flavor of the queue.

    Args:
        why: what is against each flavor.
        cluster_queue: where it waits; empty where it is not known.
    """
    queue = f"queue {name(cluster_queue)}" if cluster_queue else "its queue"
    head, against = f"Matches no flavor of {queue}", listed(why, "; ")
    return Text(Code.NO_MATCHING_FLAVOR, sentence(f"{head}: {against}" if against else head))


def no_topology(lacking: Sequence[causes.LacksTopology], cluster_queue: str = "") -> Text:
    """Return that pods ask for a topology, or a level of one, that their queue does not have.

    ``Never starts as it is: it asks for one rack (label example.com/rack), and no flavor of queue
    research has a topology.``

    Args:
        lacking: what is against each flavor, at least one; a level that is missing first.
        cluster_queue: where it waits; empty where it is not known.
    """
    first = min(lacking, key=lambda refusal: not isinstance(refusal, causes.LevelMissing))
    queue = f"queue {name(cluster_queue)}" if cluster_queue else "its queue"
    match first:
        case causes.LevelMissing():
            cause = f"no topology of {queue} has that level"
        case causes.NoTopologyGiven():
            cause = f"for no resource for which {queue} has a topology"
        case _:
            cause = f"no flavor of {queue} has a topology"
    head = f"Never starts as it is: it asks for {_closeness(first)}, and {cause}"
    return Text(Code.NO_TOPOLOGY, sentence(head))


def _closeness(refusal: causes.LacksTopology) -> str:
    """Return how close together pods ask to be: ``one rack (label example.com/rack)``."""
    if not refusal.level:
        level = "a level of a topology" if isinstance(refusal, causes.LevelMissing) else ""
        return level or "a topology"
    place = f"one {domains.unit(refusal.level)}" if refusal.is_one else "nodes close together"
    return f"{place} (label {name(refusal.level)})"


def waits_for_flavors(flavors: Iterable[str]) -> Text:
    """Return that a Workload waits for quota of flavors that were not tried the last time."""
    choices = listed((name(flavor) for flavor in flavors), " or ")
    return Text(Code.WAITING_FOR_QUOTA, sentence(f"Waits for quota of {choices}"))


# ------------------------------------------------------------------ from values of the engine


def waiting(
    reason: Why,
    cluster_queue: str,
    *,
    shortages: Sequence[Shortage] = (),
    nodes: Sequence[LargestNode] = (),
    preempting: int = 0,
    place: str = "",
    until: str = "",
    deployment: str = "",
) -> Text:
    """Return why a Workload waits.

    Args:
        reason: why it has no quota.
        cluster_queue: the ClusterQueue in which it waits; empty where it is not known.
        shortages: what it lacks; none where quota is not the cause.
        nodes: the largest of each flavor, where a pod asks for more than each of them has.
        preempting: number of workloads that it preempts.
        place: its place in the queue, such as ``about 10th``; empty where it is not known.
        until: time at which the last is stopped that it preempts; empty where that is not known.
        deployment: the Deployment whose previous revision holds the quota; empty for none.
    """
    if nodes:
        return exceeds_largest_node(nodes)
    match reason:
        case causes.PendingPreemption() | causes.Deferred() if preempting or until:
            return waits_for_preempted(preempting, until=until)
        case causes.NotTried() | causes.GatesCleared():
            return not_judged(place, cluster_queue)
        case causes.Overtaken():
            return overtaken(place, cluster_queue)
        case causes.PodsComing():
            return waits_for_pods(place, cluster_queue)
        case causes.NoFlavor() if reason.reason == WaitReason.WAITING_FOR_NODE:
            return waits_for_node(reason, cluster_queue, place=place)
        case causes.NoFlavor() if reason.no_domains and not shortages:
            return waits_for_domain(reason.no_domains, cluster_queue, place=place)
        case causes.NoFlavor() if shortages:
            sentence_of_kueue = text(reason, cluster_queue)
            if sentence_of_kueue.reason not in _OF_SHORTAGES:
                return sentence_of_kueue
            return of_shortages(shortages, cluster_queue, place=place, deployment=deployment)
        case _:
            return text(reason, cluster_queue)


_OF_SHORTAGES: Final = frozenset(
    {
        Code.WAITING_FOR_QUOTA,
        Code.EXCEEDS_MAX_QUOTA,
        Code.NO_MATCHING_FLAVOR,
        Code.NO_TOPOLOGY,
    }
)


def of_shortages(
    shortages: Iterable[Shortage], queue: str, *, place: str = "", deployment: str = ""
) -> Text:
    """Return that a Workload waits for quota, or is too big where no flavor can ever give enough.

    Kueue's reason is that of the most hopeless flavor, and the Workload may get another one.

    Args:
        shortages: what it lacks, at least one.
        queue: the ClusterQueue.
        place: its place in the queue; empty if it is not known.
        deployment: the Deployment whose previous revision holds the quota; empty for none.
    """
    decisive = deciding(shortages)
    if decisive[0].never:
        return too_big(decisive, queue)
    return waits_for_quota(decisive, queue, place=place, deployment=deployment)


def deciding(shortages: Iterable[Shortage]) -> list[Lack]:
    """Return what `of_shortages` tells of, first what it says first; empty for no shortages."""
    by_pod_set: dict[str, list[Shortage]] = {}
    for shortage in shortages:
        by_pod_set.setdefault(shortage.pod_set, []).append(shortage)
    waits: list[Shortage] = []
    for shorts in by_pod_set.values():
        never = {shortage.flavor for shortage in shorts if _is_never(shortage)}
        rest = [shortage for shortage in shorts if shortage.flavor not in never]
        if not rest:
            return [lack for lack in lacks(shorts) if lack.never]
        waits += rest
    return lacks(waits)


_OF_EVERY_NODE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def lacks(shortages: Iterable[Shortage]) -> list[Lack]:
    """Return shortages as people read them: devices first, then the largest reach first."""
    largest: dict[FlavorResource, Shortage] = {}
    for shortage in shortages:
        fr = FlavorResource(shortage.flavor, shortage.resource)
        if fr not in largest or largest[fr].requested < shortage.requested:
            largest[fr] = shortage
    in_order = sorted(
        largest.values(),
        key=lambda short: (
            short.resource in _OF_EVERY_NODE,
            short.resource,
            -short.limit,
            short.flavor,
        ),
    )
    return [_lack(shortage) for shortage in in_order]


def _lack(shortage: Shortage) -> Lack:
    resource, withheld, promised = shortage.resource, shortage.withheld, shortage.elsewhere
    room = max(0, min(shortage.available, shortage.limit))
    holders, unnamed = holders_in_words(resource, shortage.holders, shortage.unnamed)
    used_in_all = sum(used for _, used in shortage.holders) + shortage.unnamed.amount
    return Lack(
        resource=resource,
        flavor=shortage.flavor,
        asks=quantity.in_words(resource, shortage.requested),
        free=quantity.in_words(resource, shortage.available),
        reach=_limited(resource, shortage.limit),
        withheld=_limited(resource, withheld) if withheld else "",
        elsewhere=_limited(resource, lowest) if (lowest := min(withheld, promised.amount)) else "",
        is_all_elsewhere=0 < withheld <= promised.amount,
        owns_none=not shortage.nominal and not withheld,
        promised_to=promised.owners,
        borrower="" if (limit := shortage.borrowing_limit) is None else _borrower(limit),
        may_borrow="" if limit is None else quantity.in_words(resource, limit.amount),
        smaller=quantity.in_words(resource, room + shortage.reclaimable)
        if 0 < shortage.reclaimable < shortage.requested - room
        else "",
        holders=holders,
        unnamed=unnamed,
        hold_more=used_in_all + room > shortage.limit,
        never=_is_never(shortage),
        exists_not=room < shortage.requested <= amounts.add(room, withheld),
    )


def holders_in_words(
    resource: str,
    holders: Iterable[tuple[str, int]],
    beyond: UnnamedHolders = ALL_NAMED,
) -> tuple[tuple[tuple[str, str], ...], tuple[int, str] | None]:
    """Return who uses a resource as `holders_listed` takes it; a few of them are named.

    Args:
        resource: that they use.
        holders: ClusterQueues with what they use, largest first.
        beyond: those that are not among them.
    """
    using = [holder for holder in holders if holder[1] > 0]
    rest = using[_LISTED:]
    count = len(rest) + beyond.queues
    amount = sum(used for _, used in rest) + beyond.amount
    return (
        tuple((queue, quantity.in_words(resource, used)) for queue, used in using[:_LISTED]),
        (count, quantity.in_words(resource, amount)) if count else None,
    )


def _borrower(limit: BorrowingLimit) -> str:
    return f"{'Cohort' if limit.is_of_cohort else 'queue'} {name(limit.name)}"


def _is_never(shortage: Shortage) -> bool:
    """Return whether more is asked for than there could ever be, even if all existed."""
    return shortage.requested > amounts.add(shortage.limit, shortage.withheld)


def _limited(resource: str, value: int) -> str:
    """Return an amount; empty where nothing limits it."""
    return "" if value == amounts.UNLIMITED else quantity.from_canonical(resource, value)


def text(reason: Why, cluster_queue: str = "") -> Text:
    """Return why a Workload has no quota, without the numbers of the queues.

    Args:
        reason: why it has none.
        cluster_queue: the ClusterQueue in which it waits; empty where it is not known.
    """
    match reason:
        case causes.NoFlavor():
            return _of_refusals(reason, cluster_queue)
        case causes.PendingPreemption():
            return waits_for_preempted(reason.count)
        case causes.Deferred():
            head = "Waits until workloads that others preempt have stopped; then it fits"
            return Text(Code.WAITING_FOR_PREEMPTED, sentence(head))
        case causes.Overtaken():
            return overtaken()
        case causes.PodsComing():
            return waits_for_pods()
        case causes.CapReached() | causes.ExceedsCap():
            return Text(Code(reason.reason), sentence(kueue.capped(reason)))
        case causes.NotTried() | causes.GatesCleared():
            return not_judged()
        case causes.ReservedTwice():
            head = "Waits again: its quota was given twice while the leader changed"
            return Text(Code.PENDING_EVALUATION, sentence(head))
        case causes.FailedChecks():
            head = "Waits: an admission check has not let it pass"
            return Text(Code.WAITING_FOR_CHECKS, sentence(head))
        case causes.SetAside():
            head = (
                "Waits: an error of gpu-admission ended the decision about it; it is tried again"
                " every minute. Tell an administrator: the log of the controller has the error"
            )
            return Text(Code.PENDING_EVALUATION, sentence(head))
        case causes.PodsOfOthersNotReady():
            head = "Waits: nothing is admitted until the pods of all admitted workloads are ready"
            return Text(Code.WAITING_FOR_PODS_READY, sentence(head))
        case causes.Paused():
            head = "Waits: admission is paused by an administrator; it keeps its place"
            return Text(Code.ADMISSION_PAUSED, sentence(head))
        case causes.Deactivated():
            if reason.cause.startswith(_RAN_TOO_LONG):
                limit = reason.cause.removeprefix(_RAN_TOO_LONG)
                head = f"Stopped for good: it has run as long as it may{limit}"
            else:
                cause = f", {reason.cause}" if reason.cause else " (spec.active)"
                head = f"Stopped: it is deactivated{cause}"
            return Text(Code.DEACTIVATED, sentence(head))
        case causes.Gated():
            head = f"Waits: held by the admission gate {name(reason.gates)}"
            return Text(Code.ADMISSION_GATED, sentence(head))
        case (
            causes.QueueMissing()
            | causes.QueueInactive()
            | causes.QueueGone()
            | causes.QueueStopped()
        ):
            return _of_queue(reason)
        case causes.NamespaceMissing():
            head = f"Waits: namespace {name(reason.namespace)} does not exist"
            return Text(Code.MISCONFIGURED, sentence(head))
        case causes.NamespaceNotServed():
            head = "Waits: its ClusterQueue does not serve its namespace (namespaceSelector)"
            return Text(Code.NAMESPACE_NOT_SELECTED, sentence(head))
        case causes.Misconfigured():
            return stated(reason.reason, reason.problem)
        case causes.Preempted():
            return preempted(reason)
        case causes.EvictedBefore():
            if reason.preempted is not None:
                return preempted(reason.preempted)
            return stated(reason.reason, reason.stated)
        case causes.Stated():
            return stated(reason.reason, reason.message)
        case _:
            assert_never(reason)


def _of_queue(
    reason: causes.QueueMissing | causes.QueueInactive | causes.QueueGone | causes.QueueStopped,
) -> Text:
    """Return that a Workload waits because of its LocalQueue or ClusterQueue."""
    is_local = reason.kind == causes.LOCAL_QUEUE
    queue = f"{reason.kind} {name(reason.name)}"
    if isinstance(reason, causes.QueueInactive | causes.QueueStopped):
        if is_local:
            return Text(Code.LOCAL_QUEUE_STOPPED, sentence(f"Waits: {queue} is stopped"))
        head = f"Waits: {queue} admits nothing at present"
        return Text(Code.CLUSTER_QUEUE_INACTIVE, sentence(head))
    code = Code.LOCAL_QUEUE_NOT_FOUND if is_local else Code.CLUSTER_QUEUE_NOT_FOUND
    if isinstance(reason, causes.QueueGone):
        return Text(code, sentence(f"Waits: {queue} is being deleted, or does not exist"))
    if is_local:
        return Text(code, sentence(f"Waits: {queue} does not exist in its namespace"))
    return Text(code, sentence(f"Waits: its LocalQueue names {queue}, which does not exist"))


def _of_refusals(reason: causes.NoFlavor, cluster_queue: str) -> Text:
    """Return why no flavor fits, as far as refusals tell it; the numbers of the queue are better.

    Of what nobody can do anything about, the first counts: a resource that the queue does not
    cover, quota that is in use, quota that is too small, nodes that do not take the pods.
    """
    if reason.reason == WaitReason.WAITING_FOR_NODE:
        return waits_for_node(reason, cluster_queue)
    if reason.no_domains:
        return waits_for_domain(reason.no_domains, cluster_queue)
    refusals = sorted(
        reason.refusals,
        key=lambda refusal: (
            getattr(refusal, "resource", ""),
            getattr(refusal, "flavor", ""),
            repr(refusal),
        ),
    )
    uncovered = [
        refusal.resource for refusal in refusals if isinstance(refusal, causes.NotCovered)
    ]
    if uncovered:
        return resources_not_covered(uncovered, cluster_queue)
    in_use = [refusal for refusal in refusals if isinstance(refusal, causes.QuotaInUse)]
    if in_use:
        # Flavors of one resource are a choice.
        is_choice = len({refusal.resource for refusal in in_use}) == 1
        needs = listed(map(_more, in_use), " or " if is_choice else ", ")
        near = dict.fromkeys(
            domains.shortage(refusal)
            for refusal in refusals
            if isinstance(refusal, causes.DomainsTooSmall | causes.NoDomains)
        )
        return Text(Code.WAITING_FOR_QUOTA, sentence(f"Waits: needs {needs}", *near))
    beyond = [refusal for refusal in refusals if isinstance(refusal, causes.QuotaTooSmall)]
    if beyond:
        beyond.sort(key=lambda refusal: -refusal.limit)
        return too_big([_beyond(refusal) for refusal in beyond], cluster_queue or "its queue")
    lacking = [refusal for refusal in refusals if isinstance(refusal, causes.LacksTopology)]
    if lacking and len(lacking) == len(refusals):
        return no_topology(lacking, cluster_queue)
    against = dict.fromkeys(filter(None, map(_against, refusals)))
    too_full = [
        refusal
        for refusal in refusals
        if isinstance(refusal, causes.DomainsTooSmall | causes.NoDomains)
    ]
    if too_full and len(too_full) + len(lacking) == len(refusals):
        return waits_for_domain(too_full, cluster_queue, beside=against)
    if against:
        return no_matching_flavor(against, cluster_queue)
    return stated(reason.reason, kueue.message(reason))


def _more(refusal: causes.QuotaInUse) -> str:
    missing = quantity.in_words(refusal.resource, refusal.missing)
    if refusal.resource == names.GPU_RESOURCE:
        return f"{missing} more {name(refusal.flavor)}"
    return f"{missing} more {_what(refusal.resource)} of {name(refusal.flavor)}"


def _beyond(refusal: causes.QuotaTooSmall) -> Lack:
    asks, reach = (
        quantity.in_words(refusal.resource, value) for value in (refusal.asked, refusal.limit)
    )
    return Lack(refusal.resource, refusal.flavor, asks, free="", reach=reach, never=True)


def _against(refusal: Refusal) -> str:
    """Return what is against a flavor, as a clause; empty for what is no matter of its nodes."""
    match refusal:
        case causes.OtherNodes():
            return f"{name(refusal.flavor)} is on other nodes than the pod selects"
        case causes.UntoleratedTaint():
            value = f"={name(refusal.value)}" if refusal.value else ""
            taint = f"{name(refusal.key)}{value}:{refusal.effect}"
            flavor = name(refusal.flavor)
            return f"{flavor} has the taint {taint}, which the pod does not tolerate"
        case causes.Contradicts():
            both = f"in {name(refusal.flavor)} and in {name(refusal.other)}"
            values = f"{name(refusal.value)} in one and {name(refusal.other_value)} in the other"
            return f"no node is {both}: label {name(refusal.key)} is {values}"
        case causes.FlavorMissing():
            return f"{name(refusal.flavor)} does not exist"
        case causes.NoTopology():
            return f"{name(refusal.flavor)} has no topology, which the pod asks for"
        case causes.LevelMissing():
            level = f" {name(refusal.level)}" if refusal.level else ""
            return f"the topology of {name(refusal.flavor)} lacks the level{level}"
        case _:
            return ""


def preempted(reason: causes.Preempted) -> Text:
    """Return that a Workload has lost its quota to another one."""
    queue = reason.preemptor_path.rpartition("/")[2]
    taker = f"a workload of queue {name(queue)}" if queue else "another workload"
    cause = _QUOTA_CUT[reason.cut] if reason.cut else kueue.PREEMPTED_FOR[reason.cause]
    return Text(Code.EVICTED, sentence(f"Lost its quota to {taker}", f"why: {cause}"))


_QUOTA_CUT: Final[Mapping[causes.QuotaCut, str]] = MappingProxyType(
    {
        causes.QuotaCut.SICK: "GPUs of its quota are sick or missing",
        causes.QuotaCut.PROMISED: "GPUs of its quota are promised to other queues first",
    }
)


def preempted_by(reason: causes.Preempted) -> str:
    """Return why a Workload was preempted, in few words."""
    return _QUOTA_CUT[reason.cut] if reason.cut else PREEMPTED_BY[reason.cause]


PREEMPTED_BY: Final[Mapping[PreemptionReason, str]] = MappingProxyType(
    {
        PreemptionReason.IN_CLUSTER_QUEUE: "priority in its queue",
        PreemptionReason.IN_COHORT_RECLAMATION: "reclaim of borrowed quota",
        PreemptionReason.IN_COHORT_FAIR_SHARING: "fair sharing",
        PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "priority, while both borrow",
    }
)
"""Why a Workload was preempted, in few words."""


def stated(reason: str, message: str) -> Text:
    """Return a message that needs no other words, or that another program wrote.

    Args:
        reason: reason of its condition.
        message: message of the same condition.
    """
    code = reason if is_code(reason) else _NEAREST.get(reason, reason)
    return Text(code, sentence(_IN_WORKLOAD.sub("", message) or reason or "Waits"))


_RAN_TOO_LONG: Final = kueue.execution_time_exceeded("").message
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
        EvictionReason.PODS_RUN_AGAIN: Code.EVICTED,
        EvictionReason.POD_GROUP_STOPPED: Code.EVICTED,
        EvictionReason.FAILED_TO_START: Code.START_REFUSED,
        **{kueue.queue_drained(kind).reason: Code.EVICTED for kind in
           ("LocalQueue", "ClusterQueue")},
        # what is said of pods and owners that have no Workload
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
"""Reasons beside those of `next_steps`, and what they are a case of."""


# --------------------------------------------------------------------- admitted, evicted, ended


def admitted(
    cluster_queue: str,
    flavors: Iterable[str] = (),
    *,
    pods_held: int = 0,
    pods_asked: int | None = None,
) -> Text:
    """Return that something has its quota.

    Args:
        cluster_queue: whose quota it is.
        flavors: of it.
        pods_held: for how many it holds quota; matters where these are fewer than `pods_asked`.
        pods_asked: for how many it asked; None where that does not matter.
    """
    shown = listed(name(flavor) for flavor in dict.fromkeys(flavors))
    where = f"Admitted by ClusterQueue {name(cluster_queue)}"
    part = ""
    if pods_asked == 0:
        part = "it asks for no pods, and holds no quota"
    elif pods_asked is not None and pods_held < pods_asked:
        part = f"it holds quota for {pods_held} of {_counted(pods_asked, 'pod')}"
    return Text(Code.ADMITTED, sentence(f"{where}{shown and f' on {shown}'}", part))


def waits_for_checks(checks: Iterable[tuple[str, str]]) -> Text:
    """Return that a Workload has quota, and waits for admission checks.

    Args:
        checks: names of those that are open, and what each says.
    """
    open_checks = list(checks)
    first = next((message for _, message in open_checks if message), "")
    shown = listed(name(check) for check, _ in open_checks) or "some"
    noun = "admission check" if len(open_checks) == 1 else "admission checks"
    return Text(Code.WAITING_FOR_CHECKS, sentence(f"Has quota, waits for {noun} {shown}", first))


def pods_not_running(missing: str, beyond: str = "") -> Text:
    """Return that a Workload is admitted and its pods do not run.

    Args:
        missing: what it lacks to run, as a clause.
        beyond: that a pod asks for more than any node has, as a clause; empty where none does.
    """
    if beyond:
        holds = "it holds its quota until it is deleted"
        return Text(Code.EXCEEDS_LARGEST_NODE, sentence(f"Too big: {beyond}", holds))
    return Text(Code.PODS_NOT_RUNNING, sentence(f"Admitted, but {missing}"))


def members_not_running(counts: MemberCounts) -> Text:
    """Return that pods of an owner are admitted one by one and do not run."""
    return pods_not_running(hint(counts))


def pods_left(*, why: str, at: str, is_ending: bool, pause_seconds: int | None) -> Text:
    """Return that the pods of an owner have left, and that its controller makes new ones.

    ``Admitted, but has no pod now; a pod left node n1: it was evicted, as kubectl drain does
    (10:15:35 UTC); its controller makes new ones, normally after about 10 s.``

    Args:
        why: what was said of them, a sentence; empty where nothing was.
        at: when, RFC 3339.
        is_ending: whether some of them are still ending.
        pause_seconds: for how long the controller may make none; None where that is not known.
    """
    head = "Admitted, but its pods are ending" if is_ending else "Admitted, but has no pod now"
    cause = f"{why[:1].lower()}{why[1:].rstrip('.')} ({at[11:19]} UTC)" if why else ""
    when = "" if pause_seconds is None else f", normally after about {pause_seconds} s"
    after = " once they have ended" if is_ending else ""
    makes = f"its controller makes new ones{after}{when}"
    return Text(Code.PODS_NOT_RUNNING, sentence(head, cause, makes))


def failed_by_disruptions(
    count: int, failed: int, backoff_limit: int | None, last: str, at: str
) -> str:
    """Return how many failures of a Job were disruptions, without a full stop.

    ``2 of its 3 failed pods were disrupted, which backoffLimit (2) counts like any other failure;
    the last: a pod left node n1: it was evicted, as kubectl drain does (10:15:35 UTC)``

    Args:
        count: how many were.
        failed: how many of its pods failed.
        backoff_limit: of the Job; None where it is not told.
        last: what was said of the last one.
        at: when, RFC 3339.
    """
    were = "was" if count == 1 else "were"
    limit = "" if backoff_limit is None else f" ({backoff_limit})"
    time_text = f" ({at[11:19]} UTC)" if at else ""
    return (
        f"{count} of its {failed} failed pods {were} disrupted, which backoffLimit{limit} counts "
        f"like any other failure; the last: {last[:1].lower()}{last[1:]}{time_text}"
    )


def missing(counts: MemberCounts) -> str:
    """Return the first thing that a Workload lacks to run, as a clause."""
    total, scheduled = counts.asked, counts.scheduled
    if counts.created < total:
        return f"{counts.created} of {total} pods are created"
    if scheduled < total:
        cause = unscheduled(counts)
        return f"{scheduled} of {total} pods are scheduled{cause and f': {cause}'}"
    ready = f"{counts.ready} of {total} pods are ready"
    return f"{ready}: {_not_ready(counts.lost_nodes)}" if counts.lost_nodes else ready


def hint(counts: MemberCounts) -> str:
    """Return the same with where to look for the cause."""
    where = "; the events of its owner may say why" if counts.created < counts.asked else ""
    return f"{missing(counts)}{where}"


def unscheduled(counts: MemberCounts) -> str:
    """Return why pods have no node, as a clause; empty where nobody says it."""
    nodes = counts.nodes
    if not counts.why or nodes is None:
        return counts.why
    if isinstance(nodes, causes.NodeAwaited):
        awaited = f"no node of {name(nodes.flavor)} has room yet, an autoscaler may add one"
        return f"{awaited}; {counts.why}"
    if isinstance(nodes, causes.BeyondNodes):
        return f"{beyond_largest_node(nodes.nodes)}; {counts.why}"
    return f"{no_node_has_free(nodes)}; {counts.why}"


_NODES_NAMED: Final = 3


def _not_ready(nodes: Sequence[str]) -> str:
    """Return which nodes are not ready."""
    rest = len(nodes) - _NODES_NAMED
    named = ", ".join(nodes[:_NODES_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return f"node {named} is not ready" if len(nodes) == 1 else f"nodes {named} are not ready"


def not_started_in_time(minutes: float, counts: MemberCounts) -> Text:
    """Return why a Workload is evicted whose pods did not all start in time.

    Args:
        minutes: how long they had.
        counts: how many of its pods exist, have a node and are ready.
    """
    waited = f"{minutes:g} minutes" if minutes != 1 else "1 minute"
    message = f"Not all pods were ready within {waited}: {hint(counts)}"
    return Text(EvictionReason.PODS_READY_TIMEOUT, message)


def evicted(reason: Why, *, until: str = "") -> Text:
    """Return that a Workload has lost its quota, and why.

    Args:
        reason: why it was evicted.
        until: when it is tried again; empty where it is in the queue.
    """
    cause = text(reason)
    if cause.reason == Code.DEACTIVATED or not until:
        return cause
    head = f"Waits: it is tried again at {until}"
    return Text(Code.WAITING_FOR_RETRY, sentence(head, cause.message.rstrip(".")))


def preemption_notice(message: str) -> Text:
    """Return the text about a workload that is preempted and runs on; see `conditions`."""
    return Text(Code.PREEMPTION_NOTICE, sentence(message))


def finished(message: str) -> Text:
    """Return that something has ended."""
    return Text(Code.FINISHED, sentence("Finished", message.rstrip(".")))


def not_managed() -> Text:
    """Return that no quota is kept for something."""
    return Text(Code.NOT_MANAGED, sentence("No quota is kept for it: it is in no queue"))


def suspended_without_queue() -> Text:
    """Return that something is suspended and asks for GPUs without a queue."""
    head = "Waits: it is suspended and in no queue; it runs once it has a queue, or is resumed"
    return Text(Code.QUEUE_REQUIRED, sentence(head))


def no_workload() -> Text:
    """Return that the controller has made no Workload for something."""
    return Text(Code.NO_WORKLOAD, sentence("Waits: the controller has not taken it up yet"))


def priority_class_not_found(kind: str, class_name: str, step: str = "") -> Text:
    """Return that something names a priority class that does not exist.

    Args:
        kind: ``WorkloadPriorityClass`` or ``PriorityClass``.
        class_name: that does not exist.
        step: what to do, as a clause; empty where the next step is told apart.
    """
    reason, message = kueue.priority_class_not_found(kind, class_name)
    return Text(reason, sentence(f"Waits: {message}", step))


def class_without_effect(class_name: str) -> Text:
    """Return that something that has a priority names a WorkloadPriorityClass in vain.

    Args:
        class_name: that does not exist.
    """
    reason, message = kueue.priority_class_not_found("WorkloadPriorityClass", class_name)
    return Text(reason, sentence(f"Without effect: {message}, so its priority stays as it was"))


def other_priority_class(
    class_name: str, classes: Iterable[str], again: str = "create it again"
) -> str:
    """Return what to do where a WorkloadPriorityClass does not exist, as a clause.

    Args:
        class_name: that does not exist.
        classes: names of those that exist.
        again: what to do with the object: the label cannot be taken off.
    """
    near = near_first(class_name, classes)
    lack = "" if near else "the cluster has none: "
    use = f" with one of {listed(map(name, near))}, or" if near else ""
    label = f"the label {names.PRIORITY_CLASS_LABEL}"
    return f"{lack}{again}{use} without {label}; an administrator can create the class"


def priority_classes(class_name: str, classes: Iterable[str]) -> str:
    """Return which WorkloadPriorityClasses exist beside one that does not, as a clause."""
    near = near_first(class_name, classes)
    return f"the cluster has {listed(map(name, near)) or 'none'}"


def near_first(typed: str, candidates: Iterable[str]) -> list[str]:
    """Return names, those first that may be meant by one that does not exist; then by name."""
    in_order = sorted(set(candidates))
    near = difflib.get_close_matches(typed, in_order, _LISTED)
    return [*near, *(candidate for candidate in in_order if candidate not in near)]


def group_lacks_pods(group: str) -> Text:
    """Return that a group does not compete, as pods of it have failed or were deleted."""
    head = f"Pods of group {name(group)} failed or were deleted"
    rest = "it is admitted when others have taken their place"
    return Text(Code.POD_GROUP_INCOMPLETE, sentence(head, rest))


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
        kueue.CAN_ADMIT.reason: Code.QUEUE_READY,
        kueue.blocker(causes.QueueIsStopped()).reason: Code.QUEUE_STOPPED,
        kueue.blocker(causes.QueueEnds()).reason: Code.QUEUE_IN_USE,
        kueue.blocker(causes.FlavorsMissing(())).reason: Code.QUEUE_REFERS_TO_MISSING,
        kueue.blocker(causes.ChecksMissing(())).reason: Code.QUEUE_REFERS_TO_MISSING,
        kueue.blocker(causes.TopologiesMissing(())).reason: Code.QUEUE_REFERS_TO_MISSING,
        kueue.blocker(causes.ChecksInactive(())).reason: Code.QUEUE_CHECKS_INACTIVE,
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
    if code is Code.QUEUE_IN_USE:
        return Text(code, sentence("Admits nothing: it is being deleted"))
    why = text.message.removeprefix("Can't admit new workloads: ").rstrip(".")
    name_of_queue = "it " if why.startswith(("is ", "references ")) else ""
    return Text(code, sentence(f"Admits nothing: {name_of_queue}{why}"))


_OF_LOCAL_QUEUE: Final[Mapping[str, Code]] = MappingProxyType(
    {
        kueue.CAN_SUBMIT.reason: Code.QUEUE_READY,
        kueue.LOCAL_QUEUE_STOPPED.reason: Code.LOCAL_QUEUE_STOPPED,
        kueue.CLUSTER_QUEUE_MISSING.reason: Code.CLUSTER_QUEUE_NOT_FOUND,
        kueue.CLUSTER_QUEUE_INACTIVE.reason: Code.CLUSTER_QUEUE_INACTIVE,
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
    shown = listed(name(holder) for holder in holders)
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


def places(numbers: Iterable[int], *, is_about: bool = False) -> str:
    """Return the first and the last of some places in a queue: ``1st to 7th``.

    Args:
        numbers: the places, at least one.
        is_about: whether they were said some time ago, or rounded.
    """
    listed_places = sorted(set(numbers))
    ends = dict.fromkeys((listed_places[0], listed_places[-1]))
    return f"{'about ' if is_about else ''}{' to '.join(map(_ordinal, ends))}"


def _ordinal(number: int) -> str:
    is_teen = 10 <= number % 100 <= 20  # noqa: PLR2004
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
