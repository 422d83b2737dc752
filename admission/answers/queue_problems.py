"""What is hardly meant about a queue, Cohort or flavor, although Kubernetes accepts it.

The webhook says it when the object is created or changed, and the doctor later, in the same words.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.answers import spelling
from admission.base import names
from admission.gpu import foreign, resources
from admission.objects import caps, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.resource_group import ResourceGroupSpec
from admission.reasons import kueue, sentences

_SHORTEST_WORD: Final = 3
_LONGEST_COMPARED: Final = 253
_LONGEST_KEY: Final = 63
_SLIP: Final = 0.8
"""How alike a key is to the one that was meant: one letter in five may differ."""
_KEYS_SHOWN: Final = 5
_PREFIX: Final = f"{names.OWN_DOMAIN}/"
_CORE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_HUGE_PAGES: Final = "hugepages-"
_RUN_TIMES: Final = (
    names.MINIMUM_RUN_TIME, names.DEFAULT_RUN_TIME, names.MAXIMUM_RUN_TIME,
    names.PREEMPTION_NOTICE,
)  # fmt: skip

ANNOTATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": (
        *_RUN_TIMES, names.MAX_PER_USER, names.CAPACITY_GUARD, names.SURGE_QUOTA,
        names.TAKEN_OVER_FROM,
    ),
    "LocalQueue": (*_RUN_TIMES, names.MAX_PER_USER, names.MAX_IN_USE, names.TAKEN_OVER_FROM),
    "Cohort": (names.TAKEN_OVER_FROM,),
    "ResourceFlavor": (
        names.FLAVOR_PRODUCT, names.FLAVOR_SHARING, names.FLAVOR_REPLICAS, names.MIG_PROFILE,
        names.FAIL_ABOVE_ONE, names.PLACEMENT, names.SPARE_NODES, names.LARGEST_NODE,
        names.TAKEN_OVER_FROM,
    ),
}  # fmt: skip
"""Annotations of this project that have a meaning on a kind."""

_OF_OTHERS: Final[Mapping[str, str]] = {
    names.ENFORCE_LABEL: "a namespace, as a label",
    names.BYPASS_LABEL: "a namespace, as a label",
    names.MIN_GPU_MEMORY: "a LimitRange, as a resource",
    names.GPU_SLICES: "queues, as a resource",
}
"""Where other keys belong that people set."""

Holder = ClusterQueue | Cohort
"""What has quota, and a Cohort above it."""


@dataclass(frozen=True, slots=True)
class QueueProblem:
    """Something about an object that is hardly meant.

    Attributes:
        text: what is wrong and what follows, as a clause without a full stop.
        mend: what to do about it.
    """

    text: str
    mend: str


# ------------------------------------------------------------------------------------- references


def missing_flavors(holder: Holder, flavors: Collection[str]) -> Iterator[QueueProblem]:
    """Yield that flavors of a ClusterQueue or Cohort do not exist.

    Args:
        holder: the ClusterQueue or Cohort.
        flavors: names of the ResourceFlavors that exist.
    """
    groups = holder.spec.resource_groups or ()
    listed = [flavor.name for group in groups for flavor in group.flavors]
    missing = tuple(name for name in dict.fromkeys(listed) if name not in flavors)
    if missing:
        is_cohort = isinstance(holder, Cohort)
        verdict = "its quota counts for nobody" if is_cohort else "it admits nothing"
        yield QueueProblem(
            f"{verdict} until ResourceFlavor {', '.join(missing)} exists",
            _instead(holder, missing, flavors),
        )


def _instead(holder: Holder, missing: Iterable[str], flavors: Collection[str]) -> str:
    """Return what to do about flavors that do not exist."""
    for name in missing:
        if hint := spelling.similar(name, flavors):
            return f"{hint}If so, correct it: {_edit(holder)}"
    return (
        "create it with spec.nodeLabels of its nodes (none selects all): "
        "kubectl get nodes --show-labels"
    )


def missing_cluster_queue(
    queue: LocalQueue, cluster_queues: Collection[str]
) -> Iterator[QueueProblem]:
    """Yield that the ClusterQueue of a LocalQueue does not exist.

    Args:
        queue: the LocalQueue.
        cluster_queues: names of the ClusterQueues that exist.
    """
    name = queue.spec.cluster_queue
    if name not in cluster_queues:
        hint = spelling.similar(name, cluster_queues)
        yield QueueProblem(
            f"its pods wait until ClusterQueue {name} exists",
            f"{hint}If so, delete the LocalQueue and create it anew: clusterQueue cannot change"
            if hint
            else "create the ClusterQueue, or delete the LocalQueue: clusterQueue cannot change",
        )


def selects_nothing(queue: ClusterQueue) -> Iterator[QueueProblem]:
    """Yield that a ClusterQueue has no namespace selector: then it serves no namespace."""
    if queue.spec.namespace_selector is None:
        yield QueueProblem(
            "it admits nothing: spec.namespaceSelector is not set; {} selects all namespaces",
            f"set it: {_edit(queue)}",
        )


# ---------------------------------------------------------------------------------------- Cohorts


def cycle(holder: Holder, parents: Mapping[str, str]) -> Iterator[QueueProblem]:
    """Yield that a Cohort is above itself, or that a ClusterQueue or Cohort is below such ones.

    Args:
        holder: the ClusterQueue or Cohort, as it would be.
        parents: the parent of each Cohort; empty for none.
    """
    path: list[str] = []
    at = _parent(holder)
    if isinstance(holder, Cohort):
        path, parents = [holder.metadata.name], {**parents, holder.metadata.name: at}
    while at and at not in path:
        path.append(at)
        at = parents.get(at, "")
    if not at:
        return
    members = path[path.index(at) :]
    first = members.index(min(members))
    is_cohort = isinstance(holder, Cohort)
    verdict = "no ClusterQueue below it admits anything" if is_cohort else "it admits nothing"
    yield QueueProblem(
        f"{verdict}: {kueue.cycle(members[first:] + members[:first])}",
        "correct spec.parentName of one of them",
    )


def resembling_cohort(holder: Holder, holders: Iterable[Holder]) -> Iterator[QueueProblem]:
    """Yield that nobody else names the Cohort above, and that its name resembles another one.

    A Cohort need not exist as an object, so a name that resembles none is not doubted.

    Args:
        holder: the ClusterQueue or Cohort, as it would be.
        holders: every ClusterQueue and Cohort; the holder may be among them, as it is.
    """
    if meant := meant_cohort(holder, holders):
        field = "parentName" if isinstance(holder, Cohort) else "cohortName"
        yield QueueProblem(
            f"{alone(holder)}; did you mean {meant}?", f"if so, correct spec.{field}"
        )


def meant_cohort(holder: Holder, holders: Iterable[Holder]) -> str:
    """Return the Cohort that was probably meant by one that nobody else names; empty for none.

    Args:
        holder: the ClusterQueue or Cohort, as it would be.
        holders: every ClusterQueue and Cohort; the holder may be among them, as it is.
    """
    parent = _parent(holder)
    cohorts = {name for other in holders if not _is_same(holder, other) for name in _named(other)}
    if isinstance(holder, Cohort):
        cohorts.add(holder.metadata.name)
    return _meant(parent, cohorts) if parent and parent not in cohorts else ""


def alone(holder: Holder) -> str:
    """Return that nobody else names the Cohort of a ClusterQueue, or the parent of a Cohort."""
    return f"it shares with nobody: no other queue or Cohort names Cohort {_parent(holder)}"


def top_of(name: str, parents: Mapping[str, str]) -> str:
    """Return the cohort above all others that a cohort is in; empty for none, or for a cycle."""
    passed: set[str] = set()
    while parents.get(name) and name not in passed:
        passed.add(name)
        name = parents[name]
    return "" if name in passed else name


def _parent(holder: Holder) -> str:
    return holder.spec.parent_name if isinstance(holder, Cohort) else holder.spec.cohort_name


def _named(holder: Holder) -> tuple[str, ...]:
    """Return the Cohorts that an object names, and itself where it is one."""
    own_name = (holder.metadata.name,) if isinstance(holder, Cohort) else ()
    return (*own_name, _parent(holder)) if _parent(holder) else own_name


def _is_same(left: Holder, right: Holder) -> bool:
    return type(left) is type(right) and left.metadata.name == right.metadata.name


# -------------------------------------------------------------------------------------- resources


def misspelled(holder: Holder) -> Iterator[QueueProblem]:
    """Yield each resource of a ClusterQueue or Cohort that is a GPU whose name nobody offers."""
    for resource in covered(holder.spec.resource_groups):
        if re.fullmatch(names.MISSPELLED_GPU, resource):
            yield QueueProblem(
                f"it has quota of {resource}, which is misspelled: a GPU is {names.GPU_RESOURCE}",
                f"correct it in spec.resourceGroups: {_edit(holder)}",
            )


def resources_of_others(holder: Holder, holders: Iterable[Holder]) -> set[str]:
    """Return the resources of which others than a ClusterQueue or Cohort have quota."""
    return {
        resource
        for other in holders
        if not _is_same(holder, other)
        for resource in covered(other.spec.resource_groups)
    }


def resembling_resource(holder: Holder, in_use: Collection[str]) -> Iterator[QueueProblem]:
    """Yield each resource of a ClusterQueue or Cohort that resembles one in use, and is not.

    Args:
        holder: the ClusterQueue or Cohort, as it would be.
        in_use: resources of which others have quota, or that nodes offer.
    """
    for resource in covered(holder.spec.resource_groups):
        if resource in in_use or _is_known_resource(resource):
            continue
        if meant := _meant(resource, (*_CORE, names.GPU_RESOURCE, *in_use)):
            yield QueueProblem(
                f"it has quota of {resource}, and no other queue has; did you mean {meant}?",
                f"if so, correct it in spec.resourceGroups: {_edit(holder)}",
            )


def _edit(holder: Holder) -> str:
    kind = "cohort" if isinstance(holder, Cohort) else "clusterqueue"
    return f"kubectl edit {kind} {holder.metadata.name}"


def covered(groups: Sequence[ResourceGroupSpec] | None) -> Iterator[str]:
    """Yield the resources of which groups have quota; groups are None where there are none."""
    for group in groups or ():
        yield from group.covered_resources


def _is_known_resource(resource: str) -> bool:
    """Return whether a resource has a meaning of its own, or was said to be misspelled."""
    return (
        resource in _CORE
        or resource.startswith(_HUGE_PAGES)
        or resources.is_device(resource)
        or resources.is_virtual(resource)
        or any(
            re.fullmatch(row.pattern, resource) for row in foreign.TABLE if not row.is_annotation
        )
    )


def _meant(written: str, choices: Collection[str]) -> str:
    """Return the name that was probably meant; empty where none is likely."""
    if len(written) > _LONGEST_COMPARED:
        return ""
    return next((choice for choice in sorted(choices) if is_slip(written, choice)), "")


def is_slip(written: str, meant: str) -> bool:
    """Return whether a name is another one with one slip of the hand.

    Names that people tell apart on purpose are not: ``pool-1`` and ``pool-2``, ``a`` and ``b``.
    """
    written_words, meant_words = re.split(r"[-._/]", written), re.split(r"[-._/]", meant)
    if written != meant and "".join(written_words) == "".join(meant_words):
        return True
    if len(written_words) != len(meant_words):
        return False
    pairs = zip(written_words, meant_words, strict=True)
    differing = [(left, right) for left, right in pairs if left != right]
    if len(differing) != 1:
        return False
    ((left, right),) = differing
    has_digits = any(letter.isdigit() for letter in left + right)
    return (
        not has_digits and min(len(left), len(right)) >= _SHORTEST_WORD and _is_edit(left, right)
    )


def _is_edit(left: str, right: str) -> bool:
    """Return whether one letter is added, left out or another, or two are exchanged."""
    start = next(
        (index for index, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
    rest, other_rest = left[start:], right[start:]
    return (
        rest[1:] == other_rest
        or rest == other_rest[1:]
        or rest[1:] == other_rest[1:]
        or (rest[:2] == other_rest[:2][::-1] and rest[2:] == other_rest[2:])
    )


# ------------------------------------------------------------------------------------ annotations


def annotations_without_effect(kind: str, metadata: views.ObjectMeta) -> Iterator[QueueProblem]:
    """Yield each annotation of this project that means nothing on a kind.

    Args:
        kind: one of `ANNOTATIONS`.
        metadata: of an object of the kind.
    """
    choices = ANNOTATIONS[kind]
    present = sorted(key for key in metadata.annotations or {} if key.startswith(_PREFIX))
    for key in [key for key in present if key not in choices][:_KEYS_SHOWN]:
        if place := home(key):
            advice = f"set it on {place}"
        elif meant := similar_key(key, choices):
            advice = f"did you mean {meant}?"
        else:
            advice = "remove it"
        yield QueueProblem(f"annotation {key} has no effect on a {kind}", advice)


def home(key: str) -> str:
    """Return on what a key of this project belongs that is not of pods; empty for others.

    ``a ResourceFlavor``, ``a ClusterQueue or LocalQueue``, ``a namespace, as a label``
    """
    kinds = [kind for kind, keys in ANNOTATIONS.items() if key in keys]
    return f"a {' or '.join(kinds)}" if kinds else _OF_OTHERS.get(key, "")


def similar_key(key: str, choices: Sequence[str]) -> str:
    """Return the key of a label or annotation that was probably meant; empty for none.

    That is one with a slip of the hand, with other capitals or hyphens, or of which some whole
    words were left out at its start or end.

    Args:
        key: as it was written, with its domain.
        choices: keys that have an effect; those of other domains are not looked at.
    """
    domain, _, written = key.rpartition("/")
    by_name = {
        choice.rpartition("/")[2]: choice
        for choice in choices
        if choice.rpartition("/")[0] == domain
    }
    if not _SHORTEST_WORD <= len(written) <= _LONGEST_KEY:
        return ""
    plain = _without_hyphens(written)
    near = [name for name in by_name if _without_hyphens(name) == plain]
    near = near or difflib.get_close_matches(written.lower(), by_name, n=1, cutoff=_SLIP)
    near = near or [name for name in by_name if plain in _parts(name)]
    return by_name[near[0]] if near else ""


def _parts(name: str) -> set[str]:
    """Return the words at the start, and those at the end, of a name without hyphens."""
    words = name.split("-")
    heads = {"".join(words[:count]) for count in range(1, len(words))}
    return heads | {"".join(words[count:]) for count in range(1, len(words))}


def _without_hyphens(name: str) -> str:
    return re.sub("[-_.]", "", name).lower()


def caps_without_effect(metadata: views.ObjectMeta, queue: ClusterQueue) -> Iterator[QueueProblem]:
    """Yield each cap on a resource of which the ClusterQueue has no quota: it limits nothing.

    Args:
        metadata: of the ClusterQueue, or of a LocalQueue of it.
        queue: the ClusterQueue.
    """
    covered_resources = dict.fromkeys(covered(queue.spec.resource_groups))
    for key in (names.MAX_PER_USER, names.MAX_IN_USE):
        unknown = [r for r in caps.readable(metadata, key) if r not in covered_resources]
        if unknown and covered_resources:
            yield QueueProblem(
                f"cap {key.removeprefix(_PREFIX)} does not limit {sentences.listed(unknown)}:"
                f" ClusterQueue {queue.metadata.name} has no quota of it",
                f"name one of {sentences.listed(covered_resources)}",
            )
