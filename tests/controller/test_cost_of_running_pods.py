"""What a pod costs that no reservation covers: it follows what changes, not how many pods run."""

from collections.abc import Callable
from datetime import datetime, timedelta
from unittest.mock import MagicMock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.base import clock as clocks
from admission.base import names
from admission.base.names import PodCharge, WorkloadKey
from admission.config.gpu_configuration import GpuConfiguration
from admission.controller.devices.lost_nodes import LostNodes
from admission.controller.plans import PlanDraft
from admission.controller.watched_owners.running_pods import RunningPods
from admission.kube import resources
from admission.objects import views
from admission.objects.workload import PodSet, PodTemplate, Workload, WorkloadSpec
from tests.clocks import FakeClock

PODS = 80
WORKLOAD = WorkloadKey("ml", "job-train")
GRACE = timedelta(seconds=30)


def pod(number: int, *, ends: datetime | None = None, name: str = "", node: str = "") -> views.Pod:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    metadata = {
        "name": name or f"p{number}", "namespace": "ml", "uid": f"u{number:05}",
        "labels": {
            names.PODSET_LABEL: "main", names.LOCAL_QUEUE_NAME_LABEL: "team-a",
            names.CLUSTER_QUEUE_NAME_LABEL: "gpus",
        },
        "annotations": {names.WORKLOAD_ANNOTATION: WORKLOAD.name},
        "ownerReferences": [{**owner, "controller": True}],
        **({"deletionTimestamp": clocks.to_wire(ends)} if ends else {}),
    }  # fmt: skip
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return msgspec.convert({"metadata": metadata, "spec": spec}, views.Pod)


class Running:
    """Running pods of one pod set, and what is charged for them on their own.

    Attributes:
        covered: how many pods the reservation of their Workload is for.
        charged: UID of the pod, by the key of each charge.
        calls: how often anything was charged.
    """

    def __init__(
        self,
        covered: int = 0,
        clock: FakeClock | None = None,
        nodes: LostNodes | None = None,
        *,
        are_workloads_listed: bool = True,
    ) -> None:
        self.covered = covered
        self.charged: dict[PodCharge, str] = {}
        self.calls = 0
        self.clock = clock or FakeClock()
        self.nodes = nodes or LostNodes()
        self.has_queue = True
        ledger, configuration, inventory = MagicMock(), MagicMock(), MagicMock()
        self.ledger = ledger
        self.workloads = workloads = MagicMock()
        ledger.charged_pods.side_effect = lambda *_: self.covered
        ledger.share.return_value = None
        ledger.pod_left.return_value = ()
        ledger.charge.side_effect = self._charge
        ledger.on_delete.side_effect = lambda key: self.charged.pop(key, None)
        configuration.manages.return_value = True
        configuration.cluster_queue_of.side_effect = lambda *_: "gpus" if self.has_queue else ""
        inventory.node_labels.return_value = {}
        inventory.lost_nodes = self.nodes
        workloads.first.side_effect = workloads.current.side_effect = lambda key: key
        workloads.get.return_value = None
        self.pods = RunningPods(
            ledger, configuration, inventory, self.clock, MagicMock(), GpuConfiguration(),
            lambda _: None, workloads, PlanDraft(),
        )  # fmt: skip
        if are_workloads_listed:
            self.pods.workloads_listed()

    def _charge(
        self, key: PodCharge, view: Workload, queue: str, labels: dict[str, str], **_: object
    ) -> None:
        self.calls += 1
        self.charged[key] = view.metadata.uid

    def see(self, view: views.Pod) -> None:
        self.pods.on_update(view, resources.RELEASED_PODS)

    def lose(self, view: views.Pod) -> None:
        self.pods.on_delete(view, resources.RELEASED_PODS, for_good=True)

    def charge_again(self, covered: int, *, has_room: bool) -> None:
        """Have the reservation be for so many pods, if there is room for that."""

        def answer(*_: object) -> bool:
            self.covered = covered if has_room else self.covered
            return has_room

        self.ledger.charge_again.side_effect = answer
        workload = {"metadata": {"name": WORKLOAD.name, "namespace": WORKLOAD.namespace}}
        self.pods.charge_again(msgspec.convert(workload, Workload), {})

    def uids(self) -> set[str]:
        return set(self.charged.values())

    def node(self, name: str, not_ready_since: datetime | None = None) -> None:
        when = {"lastTransitionTime": clocks.to_wire(not_ready_since)} if not_ready_since else {}
        condition = {"type": "Ready", "status": "False" if not_ready_since else "True", **when}
        node = {"metadata": {"name": name}, "status": {"conditions": [condition]}}
        self.nodes.on_update(msgspec.convert(node, views.Node))
        for changed in self.nodes.take_changed():
            self.pods.node_changed(changed)


def come(running: Running) -> None:
    for number in range(PODS):
        running.see(pod(number))


def come_and_end(running: Running) -> None:
    come(running)
    for number in range(PODS):
        running.see(pod(number, ends=running.clock.now() + GRACE))


def come_and_go(running: Running) -> None:
    come(running)
    for number in range(PODS):
        running.lose(pod(number))


def come_and_be_looked_at(running: Running) -> None:
    come(running)
    for number in range(PODS):
        running.pods.next_request(PodCharge("ml", f"p{number}"))


def come_while_the_workload_changes(running: Running) -> None:
    for number in range(PODS):
        running.see(pod(number))
        running.pods.recount(WORKLOAD)


def come_to_nodes_that_change(running: Running) -> None:
    for number in range(PODS):
        running.node(f"n{number}")
        running.see(pod(number, node=f"n{number}"))
    for number in range(PODS):
        running.node(f"n{number}", running.clock.now())


@pytest.mark.parametrize("covered", [0, PODS // 2, PODS - 1])
@pytest.mark.parametrize(
    "happens",
    [
        come,
        come_and_end,
        come_and_go,
        come_and_be_looked_at,
        come_while_the_workload_changes,
        come_to_nodes_that_change,
    ],
    ids=lambda happens: happens.__name__,
)
def test_charges_grow_with_the_pods_and_not_with_their_square(
    happens: Callable[[Running], None], covered: int
) -> None:
    running = Running(covered)
    happens(running)
    assert running.calls <= 4 * PODS


def test_pods_are_charged_at_once_as_their_reservation_goes() -> None:
    running = Running(covered=PODS)
    come(running)
    assert running.calls == 0
    running.covered = 3
    running.pods.recount(WORKLOAD)
    assert running.uids() == {f"u{number:05}" for number in range(3, PODS)}
    assert running.calls == PODS - 3


def test_pods_that_are_seen_before_any_workload_are_charged_once_workloads_were_listed() -> None:
    running = Running(covered=PODS - 3, are_workloads_listed=False)
    come(running)
    assert running.calls == 0
    running.pods.workloads_listed()
    assert len(running.uids()) == running.calls == 3


def test_a_pod_that_asks_for_more_than_was_admitted_is_compared_with_each_reservation() -> None:
    running = Running(covered=2)
    plain, larger = pod(0), pod(1)
    containers = [views.Container(name=name) for name in ("c", "sidecar")]
    larger = msgspec.structs.replace(
        larger, spec=msgspec.structs.replace(larger.spec, containers=tuple(containers))
    )
    admitted = PodSet(name="main", count=2, template=PodTemplate(spec=plain.spec))
    workload = Workload(spec=WorkloadSpec(pod_sets=(admitted,)))
    beyond = running.ledger.charge_beyond

    def hold(share: tuple[tuple[str, int], ...] | None) -> list[PodCharge]:
        """Let their Workload hold so much for each pod; return which pods are compared."""
        beyond.reset_mock()
        running.ledger.share.return_value = share
        running.workloads.get.return_value = None if share is None else workload
        running.pods.recount(WORKLOAD)
        return [call.args[0] for call in beyond.call_args_list]

    running.see(plain)
    running.see(larger)
    assert hold((("cpu", 1),)) == [PodCharge("ml", "p1")]
    assert hold((("cpu", 1),)) == []
    assert hold((("cpu", 2),)) == [PodCharge("ml", "p1")]
    running.lose(larger)
    assert hold((("cpu", 3),)) == []
    assert hold(None) == []
    running.see(larger)
    assert hold((("cpu", 3),)) == [PodCharge("ml", "p1")]


def test_a_pod_is_charged_once_its_queue_is_there() -> None:
    running = Running()
    running.has_queue = False
    running.see(pod(1))
    assert running.uids() == set()
    running.has_queue = True
    running.pods.recount(WORKLOAD)
    assert running.uids() == {"u00001"}


def test_of_pods_of_one_name_the_other_is_charged_once_one_is_gone() -> None:
    running = Running()
    running.see(pod(1, name="same"))
    running.see(pod(2, name="same"))
    assert running.uids() == {"u00002"}
    running.lose(pod(2, name="same"))
    assert running.uids() == {"u00001"}


def test_a_pod_of_a_lost_node_makes_room_for_another_once_its_time_is_over() -> None:
    running = Running(covered=1)
    running.node("lost")
    running.node("ready")
    now = running.clock.now()
    for number, node in ((1, "lost"), (2, "ready"), (3, "ready")):
        running.see(pod(number, node=node, ends=now))
    running.node("lost", now)
    assert running.uids() == {"u00002", "u00003"}
    running.clock.advance(3600)
    running.pods.recount(WORKLOAD)
    assert running.uids() == {"u00003"}


@st.composite
def histories(draw):
    number = st.integers(0, 6)
    event = st.one_of(
        st.tuples(st.just("come"), number, st.sampled_from(["n0", "n1"])),
        st.tuples(st.just("end"), number, st.integers(0, 400)),
        st.tuples(st.just("go"), number),
        st.tuples(st.just("cover"), st.integers(0, 7)),
        st.tuples(st.just("charge again"), st.integers(0, 7), st.booleans()),
        st.tuples(st.just("lose node"), st.sampled_from(["n0", "n1"])),
        st.tuples(st.just("find node"), st.sampled_from(["n0", "n1"])),
        st.tuples(st.just("pass time"), st.integers(1, 400)),
        st.tuples(st.just("look"), number),
    )
    return draw(st.lists(event, max_size=25))


@settings(deadline=None)
@given(histories())
def test_each_change_leaves_charged_what_counting_all_anew_charges(history) -> None:
    running = Running(covered=2)
    running.node("n0")
    running.node("n1")
    there: dict[int, views.Pod] = {}
    for kind, value, *rest in history:
        now = running.clock.now()
        match kind:
            case "come" if value not in there:
                there[value] = pod(value, node=rest[0])
                running.see(there[value])
            case "end" if value in there and not there[value].metadata.deletion_timestamp:
                ends = now + timedelta(seconds=rest[0])
                there[value] = pod(value, node=there[value].spec.node_name, ends=ends)
                running.see(there[value])
            case "go" if value in there:
                running.lose(there.pop(value))
            case "cover":
                running.covered = value
            case "charge again":
                running.charge_again(value, has_room=rest[0])
            case "lose node":
                running.node(value, now)
            case "find node":
                running.node(value)
            case "pass time":
                running.clock.advance(value)
            case "look":
                running.pods.next_request(PodCharge("ml", f"p{value}"))
            case _:
                pass
        running.pods.recount(WORKLOAD)
        again = Running(running.covered, running.clock, running.nodes)
        cold = Running(running.covered, running.clock, running.nodes, are_workloads_listed=False)
        for view in there.values():
            again.see(view)
            cold.see(view)
        cold.pods.workloads_listed()
        assert running.uids() == again.uids() == cold.uids()
