"""What is recorded of GPU-time is what was held, wherever a process was killed or an answer lost.

The truth is a history of reservations that the test keeps itself. Nothing is ever counted twice,
and what is missing lies in a time that the records call a hole.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from admission.answers import usage
from admission.base import names
from admission.base.names import (
    ClusterQueueName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    ResourceName,
    Uid,
    WorkloadKey,
)
from admission.config.gpu_configuration import JournalSettings as Settings
from admission.controller.journal import Counting, UsageJournal
from admission.kube import errors, resources
from admission.objects import usage_record
from admission.objects.usage_record import Account
from admission.objects.workload import Workload
from admission.sandbox.store import Store
from admission.scheduling.model import User
from admission.scheduling.reserving import ReservingWorkload
from tests.builders.cluster import make_namespace
from tests.builders.metadata import make_condition
from tests.builders.workloads import make_workload
from tests.clocks import FakeClock

NAMESPACE = "gpu-admission-system"
SETTINGS = Settings(interval=timedelta(seconds=10), retention=timedelta(days=400))
PAIR = FlavorResource(FlavorName("a100"), ResourceName(names.GPU_RESOURCE))
HOWS = st.sampled_from(["finish", "evict", "delete"])


@dataclass
class Held:
    """A time in which a Workload held GPUs."""

    gpus: int
    begin: int
    end: int | None = None

    def seconds(self, begin: int, end: int) -> int:
        last = end if self.end is None else min(self.end, end)
        return self.gpus * max(0, last - max(self.begin, begin))


@dataclass
class Object:
    """A Workload as the API server shows it."""

    key: WorkloadKey
    held: list[Held] = field(default_factory=list)
    is_finished: bool = False
    is_there: bool = True

    def charge(self) -> ReservingWorkload:
        last = self.held[-1]
        return ReservingWorkload(
            key=self.key, uid=Uid(f"uid-{self.key.name}"), cluster_queue=ClusterQueueName("cq"),
            local_queue=LocalQueueKey(self.key.namespace, "lq"), priority=0, queue_us=0,
            reserved_us=last.begin * 10**6 + 250_000, evicted=False, admitted=True, ready=True,
            usage={PAIR: last.gpus}, user=User("ada"),
        )  # fmt: skip

    @property
    def holds(self) -> bool:
        return self.is_there and bool(self.held) and self.held[-1].end is None


class Seen:
    """What one process sees of the API server, in place of its state and its index."""

    def __init__(self, objects: dict[WorkloadKey, Object]) -> None:
        self.objects = objects
        self.touched: set[WorkloadKey] = set()

    def take_touched(self) -> set[WorkloadKey]:
        found, self.touched = self.touched, set()
        return found

    def charges(self) -> tuple[dict[WorkloadKey, ReservingWorkload], dict[str, Any]]:
        return {key: one.charge() for key, one in self.objects.items() if one.holds}, {}

    def written_charge(self, key: WorkloadKey) -> ReservingWorkload | None:
        return self.charges()[0].get(key)

    def last_charge(self, key: WorkloadKey) -> ReservingWorkload | None:
        one = self.objects[key]
        return one.charge() if one.is_finished and one.is_there else None

    def __iter__(self) -> Iterator[WorkloadKey]:
        return iter([key for key, one in self.objects.items() if one.is_there])

    def get(self, key: WorkloadKey) -> Workload | None:
        one = self.objects[key]
        if not one.is_there:
            return None
        conditions = []
        if one.is_finished:
            assert one.held[-1].end is not None
            conditions = [make_condition("Finished")]
            conditions[0]["lastTransitionTime"] = usage_record.text_of(one.held[-1].end)
        made = make_workload(key.name, status={"conditions": conditions})
        return msgspec.convert(made, Workload)


class Flaky:
    """An API server whose next write fails: before it takes effect, or after."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fault = ""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._faulty(found) if name in {"create", "replace", "delete"} else found

    def _faulty(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **more: Any) -> Any:
            fault, self.fault = self.fault, ""
            if fault == "refused":
                raise errors.TransportError("no answer")
            done = call(*args, **more)
            if fault == "lost":
                raise errors.TransportError("no answer")
            return done

        return write


class Process:
    """A controller, as far as it counts."""

    def __init__(self, objects: dict[WorkloadKey, Object], api: Any, clock: FakeClock) -> None:
        self.seen = Seen(objects)
        seen: Any = self.seen
        self.counting = Counting(seen, seen, clock, SETTINGS)
        self.journal = UsageJournal(
            api, lambda ask: ask(self.counting), NAMESPACE, SETTINGS, clock, lambda: True
        )
        self.update()

    def update(self) -> None:
        self.counting.update(lambda: True)

    def record(self) -> None:
        try:
            self.journal.step()
        except errors.KubeError as error:
            self.journal.failed(error)


class Recording(RuleBasedStateMachine):
    """Workloads come and go, while controllers record, die and take over."""

    @initialize()
    def start(self) -> None:
        self.clock = FakeClock(datetime(2026, 1, 1, 22, 50, tzinfo=UTC))
        self.store = Store(clock=self.clock)
        self.store.create(resources.NAMESPACES, make_namespace(NAMESPACE))
        self.api = Flaky(self.store)
        self.objects: dict[WorkloadKey, Object] = {}
        self.leader: Process | None = self.process()
        self.standby: Process | None = None
        self.leader.record()
        self.first = 0

    @property
    def now(self) -> int:
        return int(self.clock.now().timestamp())

    def process(self) -> Process:
        return Process(self.objects, self.api, self.clock)

    def tell(self, key: WorkloadKey) -> None:
        for one in filter(None, (self.leader, self.standby)):
            one.seen.touched.add(key)
            one.update()

    @rule(seconds=st.integers(1, 90))
    def pass_seconds(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(hours=st.integers(1, 60))
    def pass_hours(self, hours: int) -> None:
        self.clock.advance(hours * 3600)

    @rule(gpus=st.integers(1, 8))
    def reserve(self, gpus: int) -> None:
        key = WorkloadKey("ml", f"w{len(self.objects)}")
        self.objects[key] = Object(key, [Held(gpus, self.now)])
        self.tell(key)

    @precondition(lambda self: any(one.holds for one in self.objects.values()))
    @rule(index=st.integers(0, 100), how=HOWS)
    def end(self, index: int, how: str) -> None:
        holding = [one for one in self.objects.values() if one.holds]
        one = holding[index % len(holding)]
        one.held[-1].end = self.now
        one.is_finished, one.is_there = how == "finish", how != "delete"
        self.tell(one.key)

    @rule(index=st.integers(0, 100), gpus=st.integers(1, 8))
    def reserve_again(self, index: int, gpus: int) -> None:
        waiting = [
            o for o in self.objects.values() if o.is_there and not (o.holds or o.is_finished)
        ]
        if waiting:
            one = waiting[index % len(waiting)]
            one.held.append(Held(gpus, self.now))
            self.tell(one.key)

    @rule(index=st.integers(0, 100))
    def forget_finished(self, index: int) -> None:
        finished = [one for one in self.objects.values() if one.is_finished and one.is_there]
        if finished:
            one = finished[index % len(finished)]
            one.is_there = False
            self.tell(one.key)

    @rule()
    def start_standby(self) -> None:
        self.standby = self.standby or self.process()

    @rule(loses=st.sampled_from(["", "refused", "lost"]))
    def kill_leader(self, loses: str) -> None:
        """It dies, maybe with a write under way; a standby takes over if there is one."""
        if self.leader is not None:
            self.api.fault = loses
            if loses:
                self.leader.record()
            self.api.fault = ""
        self.leader, self.standby = self.standby, None
        if self.leader is not None:
            self.leader.record()
            self.judge()

    @rule(
        seconds=st.integers(1, 60),
        hours=st.sampled_from([0, 0, 0, 2, 60]),
        ends=st.lists(HOWS, max_size=3),
    )
    def outage(self, seconds: int, hours: int, ends: list[str]) -> None:
        """Nobody counts for a while, in which some of the work ends."""
        self.leader = self.standby = None
        for how in ends:
            self.clock.advance(seconds)
            if any(one.holds for one in self.objects.values()):
                self.end(0, how)
        self.clock.advance(seconds + 3600 * hours)
        self.leader = self.process()
        self.leader.record()
        self.clock.advance(seconds)
        self.leader.record()
        self.judge()

    @rule()
    def start_leader(self) -> None:
        self.leader = self.leader or self.process()

    @precondition(lambda self: self.leader is not None)
    @rule(fault=st.sampled_from(["", "", "refused", "lost"]))
    def record(self, fault: str) -> None:
        assert self.leader is not None
        self.api.fault = fault
        self.leader.record()
        self.api.fault = ""
        if not fault:
            self.judge()

    def judge(self) -> None:
        records, unreadable = usage.read(self.store, NAMESPACE)
        assert not unreadable
        if not records:
            return
        whole = usage_record.merged(records)
        self.first = self.first or whole.begin
        assert whole.begin == self.first
        counted = whole.usage.get(Account("ml", "cq", "lq", "ada", *PAIR), 0)
        assert set(whole.usage) <= {Account("ml", "cq", "lq", "ada", *PAIR)}
        truth = self.truth(whole.begin, whole.until)
        in_holes = sum(self.truth(begin, end) for begin, end in whole.holes)
        assert truth - in_holes <= counted <= truth
        assert sum(whole.owners.values()) == counted
        assert whole.owners_from == whole.begin
        assert all(run.number > 0 for run in whole.runs.values())
        for owner, run in whole.runs.items():
            held = self.objects[WorkloadKey("ml", owner.name)].held
            assert run.number <= len(held)
            assert run.seconds <= sum(one.seconds(0, self.now) for one in held)

    def truth(self, begin: int, end: int) -> int:
        held = (one for found in self.objects.values() for one in found.held)
        return sum(one.seconds(begin, end) for one in held)


Recording.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestRecording = Recording.TestCase
