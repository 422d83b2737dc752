"""Laws of places on nodes: nothing is missed on small clusters, and the ledger adds up."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import PodSetName, WorkloadKey
from admission.scheduling.model import PodNeeds, Spread, Taint, Toleration
from admission.scheduling.places import ledger as ledgers
from admission.scheduling.places import search
from admission.scheduling.places.ledger import NodeLedger
from admission.scheduling.places.model import BoundPod, Node, Place, PodShape, Want
from admission.scheduling.places.rooms import Rooms

HOST = "kubernetes.io/hostname"
ZONE = "zone"
GPU, CPU = "nvidia.com/gpu", "cpu"
NAMES = ("n1", "n2", "n3", "n4", "n5")
TAINT = Taint(key="t", effect="NoSchedule")


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    amounts = {CPU: draw(st.integers(1, 8)), "pods": draw(st.integers(1, 4))}
    gpus = draw(st.integers(0, 4))
    return Node(
        name=name,
        labels={HOST: name, ZONE: draw(st.sampled_from("xy"))},
        taints=draw(st.sampled_from([(), (TAINT,)])),
        amounts={**amounts, GPU: gpus} if gpus else amounts,
    )


@st.composite
def wants(draw: st.DrawFn, name: str, *, constrained: bool) -> Want:
    requests = {CPU: draw(st.integers(0, 3)), GPU: draw(st.integers(0, 3))}
    kind = draw(st.sampled_from(["", "", "apart", "spread", "together"])) if constrained else ""
    needs = PodNeeds(
        requests=tuple(sorted((r, n) for r, n in requests.items() if n)),
        devices=(GPU,) if requests[GPU] else (),
        together=(ZONE,) if kind == "together" else (),
        apart=(HOST,) if kind == "apart" else (),
        spread=(Spread(HOST, draw(st.integers(1, 2))),) if kind == "spread" else (),
    )
    labels = draw(st.sampled_from([(), (), ((ZONE, "x"),)]))
    tolerations = draw(st.sampled_from([(), (Toleration(key="t", operator="Exists"),)]))
    return Want(PodSetName(name), PodShape(needs, labels, tolerations), draw(st.integers(1, 3)))


def jointly(want: Want) -> Want:
    """Pods that are in one zone with those of all other pod sets."""
    needs = replace(want.shape.needs, together=(ZONE,), jointly=(ZONE,))
    return replace(want, shape=replace(want.shape, needs=needs))


def takes(node: Node, want: Want, declared: frozenset[str]) -> bool:
    """Whether a node could take a pod of the shape, written down once more and plainly.

    What no node declares is none of the nodes' business.
    """
    shape = want.shape
    return (
        all(node.labels.get(key) == value for key, value in shape.labels)
        and (not node.taints or bool(shape.tolerations))
        and all(node.amounts.get(r, 0) >= n for r, n in shape.needs.requests if r in declared)
    )


def is_valid(
    found: Sequence[Node],
    free: Mapping[str, Mapping[str, int]],
    asked: Sequence[Want],
    chosen: Sequence[tuple[Want, str]],
) -> bool:
    """Whether pods can be on those nodes at once."""
    by_name = {node.name: node for node in found}
    declared = frozenset(r for node in found for r in node.amounts)
    used: dict[str, Counter[str]] = {node.name: Counter() for node in found}
    counts: dict[str, Counter[str]] = {want.pod_set: Counter() for want in asked}
    for want, name in chosen:
        if not takes(by_name[name], want, declared):
            return False
        used[name].update({**dict(want.shape.needs.requests), "pods": 1})
        counts[want.pod_set][name] += 1
    for name, amounts in used.items():
        if any(n > free[name].get(r, 0) for r, n in amounts.items() if r in declared):
            return False
    for want in asked:
        on = counts[want.pod_set]
        zones = {by_name[name].labels[ZONE] for name in on}
        if want.shape.needs.together and len(zones) > 1:
            return False
        if HOST in want.shape.needs.apart and any(n > 1 for n in on.values()):
            return False
        domains = [node.name for node in found if takes(node, want, declared)]
        for constraint in want.shape.needs.spread:
            there = [on[name] for name in domains]
            if max(there, default=0) - min(there, default=0) > constraint.max_skew:
                return False
    all_zones = {by_name[name].labels[ZONE] for want, name in chosen if want.shape.needs.jointly}
    return len(all_zones) <= 1


def brute_force(
    found: Sequence[Node], free: Mapping[str, Mapping[str, int]], asked: Sequence[Want]
) -> bool:
    """Whether any way to put all pods on nodes is valid."""
    pods = [want for want in asked for _ in range(want.count)]
    return any(
        is_valid(found, free, asked, list(zip(pods, names, strict=True)))
        for names in product([node.name for node in found], repeat=len(pods))
    )


@given(st.data())
def test_a_place_is_found_where_brute_force_finds_one_and_nowhere_else(data):
    found = [data.draw(nodes(name)) for name in NAMES[: data.draw(st.integers(1, 5))]]
    count = data.draw(st.integers(1, 3))
    asked = [data.draw(wants(f"w{i}", constrained=count == 1)) for i in range(count)]
    while sum(want.count for want in asked) > 6:
        asked.pop()
    if data.draw(st.booleans()):
        asked = [jointly(want) for want in asked]
    ledger = NodeLedger()
    for node in found:
        ledger.set_node(node)
    before = {node.name: dict(ledger.free(node.name)) for node in found}

    places = search.find(ledger, asked)

    assert (places is not None) == brute_force(found, before, asked)
    assert {node.name: dict(ledger.free(node.name)) for node in found} == before
    if places is not None:
        by_name = {want.pod_set: want for want in asked}
        chosen = [(by_name[p.pod_set], p.node) for p in places for _ in range(p.count)]
        assert is_valid(found, before, asked, chosen)
        assert Counter(want.pod_set for want, _ in chosen) == {w.pod_set: w.count for w in asked}


def ways(
    found: Sequence[Node],
    free: Mapping[str, Mapping[str, int]],
    asked: Sequence[Want],
    chosen: tuple[tuple[Want, str], ...] = (),
) -> Iterator[tuple[tuple[Want, str], ...]]:
    """All ways in the order in which they are tried, written down once more and plainly.

    Pod set by pod set and node by node, and a node gets as many pods as it takes, then fewer.
    """
    pods = [want for want in asked for _ in range(want.count)]
    if len(chosen) == len(pods):
        if is_valid(found, free, asked, chosen):
            yield chosen
        return
    want, name = pods[len(chosen)], ""
    if chosen and chosen[-1][0] is want:
        name = chosen[-1][1]  # pods are alike: none of them is on a node before that of another
    for node in sorted(found, key=lambda node: node.name):
        if node.name >= name:
            yield from ways(found, free, asked, (*chosen, (want, node.name)))


@given(st.data())
def test_the_way_that_is_found_is_the_first_in_the_fixed_order(data):
    found = [data.draw(nodes(name)) for name in NAMES[: data.draw(st.integers(1, 3))]]
    asked = [data.draw(wants(f"w{i}", constrained=False)) for i in range(2)]
    if data.draw(st.booleans()):
        asked = [replace(asked[0], shape=replace(asked[0].shape, needs=replace(
            asked[0].shape.needs, apart=(HOST,)))), asked[1]]  # fmt: skip
    ledger = NodeLedger()
    for node in found:
        ledger.set_node(node)
    before = {node.name: dict(ledger.free(node.name)) for node in found}

    places = search._AllWays(ledger, asked, None, search._Steps(10_000)).run()

    first = next(ways(found, before, asked), None)
    counts = None if first is None else Counter((want.pod_set, name) for want, name in first)
    assert (places is None) == (counts is None)
    if places is not None:
        assert {(place.pod_set, place.node): place.count for place in places} == counts
    assert {node.name: dict(ledger.free(node.name)) for node in found} == before


KEYS = tuple(WorkloadKey("default", name) for name in "abc")
EVENTS = st.sampled_from(
    ["node", "lose", "bind", "delete", "end", "promise", "release", "keep", "settle"]
)


@pytest.mark.parametrize("kept", [0, 1024])
@given(data=st.data())
def test_what_is_free_is_what_a_node_has_less_its_pods_and_promises(
    data: st.DataObject, kept: int
) -> None:
    with mock.patch.object(ledgers, "_KEPT_CHANGES", kept):
        _try_events(data)


def _staying(pods: Mapping[str, BoundPod], holder: WorkloadKey) -> int:
    """How many pods of a workload are on nodes and are not being deleted."""
    workload = ("default", holder.name)
    return sum(pod.workload == workload and not pod.is_ending for pod in pods.values())


def _check_idle(ledger: NodeLedger, lifted: Sequence[WorkloadKey]) -> None:
    """A node is idle where no workload is on it, whichever of them are supposed to be gone."""
    for name in NAMES:
        on_node = ledger.workloads_on(name)
        assert ledger.is_idle(name) == (not on_node)
        assert not {*on_node} & {*lifted}
        if lifted == KEYS and name in ledger.nodes:
            assert ledger.free(name) == ledger.without_workloads(name)
    if len(lifted) < len(KEYS):
        holder = KEYS[len(lifted)]
        before = {name: ledger.workloads_on(name) for name in NAMES}
        ledger.lift(holder)
        _check_idle(ledger, (*lifted, holder))
        ledger.put_back(holder)
        assert {name: ledger.workloads_on(name) for name in NAMES} == before


def _try_events(data: st.DataObject) -> None:
    ledger = NodeLedger()
    known: dict[str, Node] = {}
    pods: dict[str, BoundPod] = {}
    shape = PodShape(PodNeeds(requests=((GPU, 1),), devices=(GPU,)))
    urgent = replace(shape, needs=replace(shape.needs, priority=5))
    promised: dict[WorkloadKey, int] = {}
    kept: dict[WorkloadKey, str] = {}
    for step in range(data.draw(st.integers(1, 25))):
        name = data.draw(st.sampled_from(NAMES))
        key = data.draw(st.sampled_from(KEYS))
        match data.draw(EVENTS):
            case "node":
                known[name] = data.draw(nodes(name))
                ledger.set_node(known[name])
            case "lose":
                known.pop(name, None)
                ledger.drop_node(name)
            case "bind":
                priority = data.draw(st.sampled_from([0, 9]))
                pod = BoundPod(name, {GPU: 1, "pods": 1}, key, "w", priority)
                pods[f"p{step}"] = pod
                ledger.set_pod(f"p{step}", pod)
            case "delete" if pods:
                uid = data.draw(st.sampled_from(sorted(pods)))
                pods[uid] = replace(pods[uid], is_ending=True)
                ledger.set_pod(uid, pods[uid])
            case "end" if pods:
                uid = data.draw(st.sampled_from(sorted(pods)))
                del pods[uid]
                ledger.drop_pod(uid)
            case "promise":
                if data.draw(st.booleans()):
                    ledger.release(key)
                count = data.draw(st.integers(1, 3))
                want = Want(PodSetName("w"), shape, count)
                ledger.promise(key, (want,), search.find(ledger, (want,)) or ())
                promised[key] = count
            case "release":
                ledger.release(key)
                promised.pop(key, None)
            case "keep" if known and key not in promised:
                ledger.keep(
                    key,
                    (Want(PodSetName("w"), shape, 1),),
                    (Place(PodSetName("w"), name, 1),),
                )
                kept[key] = name
            case "settle":
                ledger.settle()
            case _:
                pass

        for node in known.values():
            used = sum(pod.node == node.name for pod in pods.values())
            there = sum(
                place.count
                for one in KEYS
                for place in ledger.places(one)
                if place.node == node.name
            )
            there += sum(
                ledger.is_kept(key_kept)
                and node.name not in {place.node for place in ledger.places(key_kept)}
                and not _staying(
                    {uid: pod for uid, pod in pods.items() if pod.node == node.name}, key_kept
                )
                for key_kept, name_kept in kept.items()
                if name_kept == node.name
            )
            assert ledger.free(node.name).get(GPU, 0) == node.amounts.get(GPU, 0) - (
                (used + there) if GPU in node.amounts else 0
            )
        _check_idle(ledger, ())
        for holder, count in promised.items():
            bound = _staying(pods, holder)
            assert sum(place.count for place in ledger.places(holder)) <= max(0, count - bound)
        fresh = Rooms(shape, GPU)
        for node in known.values():
            declared = Counter(r for one in known.values() for r in one.amounts)
            fresh.update(node, node.name, ledger.free(node.name), declared)
        rooms = ledger.rooms(shape)
        assert (rooms.room, rooms.total, rooms.free) == (fresh.room, fresh.total, fresh.free)
        assert rooms.hole() == fresh.hole()
        emptied = Rooms(urgent, GPU)
        for node in known.values():
            declared = Counter(r for one in known.values() for r in one.amounts)
            low = [p for p in pods.values() if p.node == node.name and p.priority < 5]
            free = {
                r: n + len(low) * (r in {GPU, "pods"}) for r, n in ledger.free(node.name).items()
            }
            emptied.update(node, node.name, free, declared)
        assert ledger.rooms(urgent, by_preemption=True).room == emptied.room

    ledger.settle()
    for holder, count in promised.items():
        if not ledger.is_kept(holder):
            bound = _staying(pods, holder)
            placed = sum(place.count for place in ledger.places(holder))
            is_declared = all(GPU in node.amounts for node in known.values())
            assert placed >= count - bound or not ledger.rooms(shape).total or not is_declared
    crowded = [
        name
        for name in known
        if ledger.free(name).get(GPU, 0) < 0
        and sum(p.node == name for p in pods.values()) <= known[name].amounts.get(GPU, 0)
    ]
    assert all(
        any(ledger.is_kept(key) and place.node == name
            for key in KEYS for place in ledger.places(key))
        for name in crowded
    )  # fmt: skip
