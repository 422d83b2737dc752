"""Messages about domains of topologies as Kueue writes them.

Source: kueue pkg/cache/scheduler/tas_flavor_snapshot.go (texts).
"""

from collections.abc import Iterator
from typing import Final, assert_never

from admission.base import causes

_HOSTNAME: Final = "kubernetes.io/hostname"


def refusal(reason: causes.TopologyRefusal) -> str:
    """Return why pods get no domains, as a part of a message."""
    match reason:
        case causes.DomainsTooSmall():
            return _too_small(reason)
        case causes.NoDomains():
            return f"no topology domains at level: {reason.level}"
        case causes.NoLevelAsked():
            return "topology level not specified"
        case causes.LevelNotInTopology():
            return f"no requested topology level: {reason.level}"
        case causes.SlicesAboveLevel():
            return (
                f"podset slice topology {reason.slices} is above the podset topology"
                f" {reason.level}"
            )
        case causes.LayerNotBelow():
            return (
                f"additional slice layer topology {reason.level} must be at a lower level than"
                f" {reason.outer}"
            )
        case causes.LayerNotDividing():
            return (
                f"additional slice layer size {reason.size} must evenly divide parent layer size"
                f" {reason.outer}"
            )
        case causes.SlicesNotWhole():
            return (
                f"the pod set has {reason.count} pod(s), which fill no whole number of slices of"
                f" {reason.size} pod(s): choose a size that divides the count"
            )
        case causes.GroupWithoutLeader():
            counts = " and ".join(str(count) for count in reason.counts)
            return (
                f'the pod sets of group "{reason.group}" have {counts} pods: a group is a leader,'
                " which is one pod, and one pod set of workers"
            )
        case causes.StaleDomain():
            return (
                "Cannot replace the node, because the existing topologyAssignment is invalid, as"
                f" it contains the stale domain {reason.domain}"
            )
        case _:
            assert_never(reason)


def shortage(reason: causes.DomainsTooSmall | causes.NoDomains) -> str:
    """Return what people are told where no domain takes pods, without a full stop.

    ``needs 8 pods in one rack of topology default; at most 6 fit into one``
    """
    if isinstance(reason, causes.NoDomains):
        return (
            "no node of the flavor has the labels of all topology levels; level"
            f" {reason.level} has no domain"
        )
    if not reason.level:
        return f"{_as_far_as_told(reason)}{_not_counted(reason)}"
    needs = _counted(reason.needed, _members(reason.size))
    fit = "fits" if reason.fitting == 1 else "fit"
    if not reason.is_one:
        head = f"needs room for {needs} in topology {reason.topology}"
        amount = f"{reason.fitting or 'none'} {fit}"
    else:
        head = f"needs {needs} in one {unit(reason.level)} of topology {reason.topology}"
        amount = f"at most {reason.fitting} {fit} into one" if reason.fitting else "none fits now"
    if reason.fitting >= reason.needed:
        amount = "there is no room for the leader or for inner slices beside them"
    return f"{head}; {amount}{_not_counted(reason)}"


def unit(level: str) -> str:
    """Return what a domain of a level is called, by its label: ``rack``, ``node``."""
    return "node" if level == _HOSTNAME else level.rpartition("/")[2]


def _as_far_as_told(reason: causes.DomainsTooSmall) -> str:
    """Return it where only Kueue's message is known, which does not tell the level."""
    needed = _counted(reason.needed, _members(reason.size))
    room = reason.fitting or "none"
    return f"topology {reason.topology} has room for {room} of {needed} as close as they must be"


def _not_counted(reason: causes.DomainsTooSmall) -> str:
    tainted = "".join(
        f"; not counting {_counted(count, 'node')} with taint {taint[0]}"
        for taint, count in reason.excluded.taints
    )
    kept = f"; not counting {_counted(reason.spares, 'spare node')}" if reason.spares else ""
    return f"{tainted}{kept}"


def _members(size: int) -> str:
    if size == 1:
        return "pod"
    return f"slice of {size} pods" if size else "slice"


def _counted(count: int, noun: str) -> str:
    plural = noun.replace(" of", "s of", 1) if " of" in noun else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def _too_small(reason: causes.DomainsTooSmall) -> str:
    members = "pod(s)" if reason.size == 1 else "slice(s)"
    head = f'topology "{reason.topology}"'
    if reason.layers:
        fits = "".join(
            f"; {layer.fitting}/{layer.needed} slice(s) fit on level {layer.level}"
            for layer in reason.layers
        )
        text = f"{head} doesn't allow to fit{fits}"
    elif reason.fitting:
        text = f"{head} allows to fit only {reason.fitting} out of {reason.needed} {members}"
    else:
        text = f"{head} doesn't allow to fit any of {reason.needed} {members}"
    parts = sorted(_excluded(reason.excluded))
    if not parts:
        return text
    return f"{text}. Total nodes: {reason.excluded.total}; excluded: {', '.join(parts)}"


def _excluded(nodes: causes.NodesExcluded) -> Iterator[str]:
    if nodes.selector:
        yield f"nodeSelector: {nodes.selector}"
    if nodes.affinity:
        yield f"affinity: {nodes.affinity}"
    if nodes.elsewhere:
        yield f"topologyDomain: {nodes.elsewhere}"
    for (key, value, effect), count in nodes.taints:
        yield f'taint "{key}{f"={value}" if value else ""}:{effect}": {count}'
    for resource, count in nodes.resources:
        yield f'resource "{resource}": {count}'
