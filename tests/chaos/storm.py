"""A seeded storm over a whole cluster, and a verdict from outside.

``python -m tests.chaos.storm --seed 1 --minutes 10``, or ``make chaos SEED=1 MINUTES=10``.

For some time it does at random what users, nodes, crashes and operators do, see
`tests.chaos.actions`. All the while `tests.chaos.checker` judges every release. Then everything is
healed, and what must come true is waited for: every GPU that is charged is held, every GPU that is
held is charged, and what fits is released. At last all pods are deleted, and nothing may be
charged any more.
"""

import argparse
import heapq
import json
import random
import shutil
import signal
import ssl
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from admission.admin import rbac
from admission.base import names
from admission.base.clock import SystemClock
from tests.chaos import actions, alerts, site, stops
from tests.chaos.actions import KINDS, Made
from tests.chaos.budget import Budget
from tests.chaos.checker import Checker
from tests.chaos.rooms import RoomJudge
from tests.chaos.site import CONTROLLERS, HELPERS, LOST_NODE_SECONDS, SERVERS, WEBHOOK, Site
from tests.chaos.training_operator import TrainingOperator
from tests.chaos.watching import Feed, Times
from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json, RestError
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.integration.installed import KUEUE
from tests.observability.asking import Asked

DEFAULT_SEED: Final = 1
DEFAULT_MINUTES: Final = 10.0
LONGEST_MINUTES: Final = 45.0
"""The token of the controllers ends after an hour."""
SENDERS: Final = 8
_TICK_SECONDS: Final = 0.05
_PROGRESS_SECONDS: Final = 5.0
_CALM_AFTER_SECONDS: Final = 3.0
"""How long after a fault the clock of the windows stands still at least: programs connect."""
_FIRST_SECONDS: Final = 30.0
"""How long is waited for what must come true where the first finding is enough."""
_MOMENT_SECONDS: Final = 5.0
"""What is wrong for less is on its way."""
_AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "users": [f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{rbac.CONTROLLER_ACCOUNT}"],
            "verbs": ["delete", "patch", "update"],
            "resources": [
                {"group": "", "resources": ["pods"]},
                {"group": "batch", "resources": ["jobs"]},
                {"group": "kubeflow.org", "resources": ["pytorchjobs"]},
            ],
        },
        {"level": "None"},
    ],
}
"""Who stops pods, Jobs and PyTorchJobs is said by the API server alone."""


class CalmClock:
    """Seconds that stand still while something that decides or writes is down."""

    def __init__(self) -> None:
        self._steady = SystemClock().monotonic
        self._lock = threading.Lock()
        self._open = 0
        self._since = 0.0
        self._lost = 0.0

    def read(self) -> float:
        """Return the seconds until now that were calm."""
        with self._lock:
            return self._read()

    def _read(self) -> float:
        return self._since if self._open else self._steady() - self._lost

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it stand still inside the block."""
        self.stop()
        try:
            yield
        finally:
            self.go_on()

    def stop(self) -> None:
        """Let it stand still until `go_on` was called as often."""
        with self._lock:
            if not self._open:
                self._since = self._read()
            self._open += 1

    def go_on(self) -> None:
        """Let it go on."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._lost = self._steady() - self._since


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What storm it is.

    Attributes:
        seed: decides every action.
        seconds: how long actions are started.
        kinds: names of the kinds of actions.
        alerts: whether Prometheus watches, and no alert may fire once all is calm.
        first: whether to end at the first release above quota.
    """

    seed: int
    seconds: float
    kinds: Collection[str]
    alerts: bool = False
    first: bool = False


@dataclass(kw_only=True)
class Report:
    """What a storm did and what was found.

    Attributes:
        seed: of the storm.
        seconds: of the storm.
        log: file with every action.
        actions: number by kind, and by what became of it.
        raises: releases that were judged.
        surges: those of them that surge quota allowed.
        exercised: how often something else happened that rules are about.
        after: second of the storm in which something was found first, by part of the report.
        violations: releases above quota.
        halted: releases in a ClusterQueue that was stopped.
        taken: Workloads of a group of pods that a Job controls.
        unchecked: releases before the admission checks were ready.
        overcap: releases above a cap.
        hurried: what was preempted and stopped before its notice had ended.
        leaked: GPUs that are charged and not held.
        uncharged: GPUs that are held and not charged.
        stuck: what fits and was not released.
        outranked: what waits for quota that pods with a lower priority hold.
        unplaced: what was released and is on no node, though no node has changed.
        nowhere: what was released, and got no node in time though the nodes did not change.
        in_vain: what was preempted for something that got no node.
        kept_out: what waits although there are quota and nodes for it.
        scattered: Jobs and groups whose pods have to be in one rack and are in several.
        stranded: pods of Jobs that were told a host which takes none.
        half: groups of which a part runs.
        stopped: running pods, Jobs and PyTorchJobs that the controller stopped without a decision.
        restarts: programs that ended by themselves, by name.
        drifts: differences that an audit of the controller found.
        alerts: alerts that fired though all was calm.
        faults: what went wrong with the storm itself.
    """

    seed: int
    seconds: float
    log: str
    actions: dict[str, dict[str, int]] = field(default_factory=dict)
    raises: int = 0
    surges: int = 0
    exercised: dict[str, int] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    halted: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    overcap: list[str] = field(default_factory=list)
    hurried: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    uncharged: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    outranked: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    nowhere: list[str] = field(default_factory=list)
    in_vain: list[str] = field(default_factory=list)
    kept_out: list[str] = field(default_factory=list)
    scattered: list[str] = field(default_factory=list)
    stranded: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    restarts: dict[str, int] = field(default_factory=dict)
    drifts: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    UNSAFE = (
        *("violations", "halted", "unchecked", "overcap", "taken", "hurried"),
        *("leaked", "uncharged", "stopped", "drifts"),
    )
    FOUND = (
        *(*UNSAFE, "stuck", "outranked", "unplaced", "nowhere", "in_vain", "kept_out"),
        *("scattered", "stranded", "half", "alerts", "faults"),
    )

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not any(getattr(self, name) for name in self.FOUND)

    def text(self) -> str:
        """The report for people."""
        total: Counter[str] = Counter()
        for results in self.actions.values():
            total.update(results)
        lines = [
            f"storm of seed {self.seed}, {self.seconds:.0f} s: {sum(total.values())} actions, "
            + ", ".join(f"{count} {name}" for name, count in sorted(total.items()))
            + f"; {self.raises} releases judged, {self.surges} in surge quota",
            "exercised: " + ", ".join(f"{count} {name}" for name, count in self.exercised.items()),
            "actions: "
            + ", ".join(
                f"{sum(one.values())} {kind}" for kind, one in sorted(self.actions.items())
            ),
            ", ".join(f"{len(getattr(self, name))} {name}" for name in self.FOUND),
        ]
        for name in self.FOUND:
            lines += [f"{name}: {one}" for one in getattr(self, name)]
        if self.after:
            seconds = ", ".join(f"{name} {at:.0f} s" for name, at in self.after.items())
            lines.append(f"found first after: {seconds}")
        if self.restarts:
            lines.append(f"ended by themselves and started again: {self.restarts}")
        return "\n".join([*lines, f"every action: {self.log}"])


@dataclass(order=True)
class _Due:
    at: float
    number: int
    run: Callable[[], None] = field(compare=False)


class Storm:
    """Carries actions out; the host of `tests.chaos.actions`.

    Attributes:
        report: what happened until now.
    """

    def __init__(
        self, one: Site, options: Options, folder: Path, tell: Callable[[str], None]
    ) -> None:
        """Prepare it.

        Args:
            one: where it rages; set up.
            options: what storm it is.
            folder: for the log.
            tell: takes lines about the progress.
        """
        self._site = one
        self._options = options
        self._tell = tell
        self._steady = SystemClock().monotonic
        self._started = self._steady()
        self._made = Made()
        self._due: list[_Due] = []
        self._number = 0
        self._now = 0.0
        self._down: dict[str, str] = {}
        self._has_snapshot = False
        self._hurried_told = 0
        self._lock = threading.Lock()
        self._results: dict[str, Counter[str]] = {}
        self._restarts: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(SENDERS)
        self._calm = CalmClock()
        self._feed = Feed(
            one.cluster.port,
            ssl.create_default_context(cafile=str(one.cluster.ca_file)),
            one.cluster.admin_token,
            Times(self._steady, self._calm.read, lambda: SystemClock().now().timestamp()),
        )
        self._checker = Checker(
            {name: name for name in site.ALL_NAMESPACES},
            classes=site.CLASSES,
            lost_node_seconds=LOST_NODE_SECONDS,
            scarce=frozenset({site.SCARCE, site.RACKED}),
        )
        self._rooms = (
            RoomJudge(site.SCARCE, site.SCARCE, site.L4),
            RoomJudge(site.RACKED, site.RACKED, site.V100, site.RACK),
        )
        self._folder = folder
        self._audit = folder / "audit.log"
        path = folder / f"storm-{options.seed}.jsonl"
        self._log = path.open("a")
        self.report = Report(seed=options.seed, seconds=options.seconds, log=str(path))
        self.admin = one.cluster.client(one.cluster.admin_kubeconfig)
        self.editor = one.cluster.client(one.cluster.kubeconfig(site.EDITOR))
        self._operator = TrainingOperator(one.operator(), self.report.faults.append)
        answers = random.Random(f"{options.seed}/budget")
        self._budget = Budget(self.admin, site.CHECKED, answers, self.report.faults.append)

    # --------------------------------------------------------------------- what actions call

    def send(self, kind: str, what: str, call: Callable[[], object]) -> None:
        """Make a request beside everything else, and log it with its answer."""
        self._pool.submit(self._carry_out, kind, what, call)

    def _carry_out(self, kind: str, what: str, call: Callable[[], object]) -> None:
        sent = self._steady() - self._started
        result, detail = "done", ""
        try:
            answer = call()
            detail = answer if isinstance(answer, str) else ""
        except RestError as refused:
            result = "refused" if refused.status < 500 else "failed"
            detail = str(refused)
        except OSError as failure:
            result, detail = "failed", repr(failure)
        except Exception as bug:  # noqa: BLE001 - a bug of the storm must not pass unseen
            result, detail = "bug", repr(bug)
            self.report.faults.append(f"{kind}: {what}: {bug!r}")
        self._note(kind, what, result, detail, sent)

    def _note(self, kind: str, what: str, result: str, detail: str, sent: float) -> None:
        line = {"at": round(sent, 3), "kind": kind, "what": what, "result": result}
        if detail:
            line["detail"] = detail[:500]
        with self._lock:
            self._results.setdefault(kind, Counter())[result] += 1
            self._log.write(f"{json.dumps(line)}\n")
            self._log.flush()

    def later(self, seconds: float, kind: str, what: str, call: Callable[[], object]) -> None:
        """Do something after some seconds of the storm, also where the storm ends before."""
        self._push(self._now + seconds, partial(self.send, kind, what, call))

    def kill(self, program: str, seconds: float) -> None:
        """Kill a program, and start it after some seconds."""
        if self._is_busy(program, "kill"):
            return
        self._calm.stop()
        self._down[program] = "killed"
        self._site.cluster.program(program).stop()
        self._fault("kill", f"{program} for {seconds:.1f} s")
        self._push(self._now + seconds, partial(self._revive, program))

    def _revive(self, program: str) -> None:
        self._site.start_program(program)
        del self._down[program]
        self._push(self._now + _CALM_AFTER_SECONDS, self._calm_down)
        self._fault("start", program)

    def _calm_down(self) -> None:
        """Let the clock of the windows go on, once the API server tells us everything."""
        if not self._feed.behind:
            self._calm.go_on()
        else:
            self._push(self._now + 0.5, self._calm_down)

    def freeze(self, program: str, seconds: float) -> None:
        """Stop a program by SIGSTOP for some seconds."""
        if self._is_busy(program, "freeze"):
            return
        self._calm.stop()
        self._down[program] = "frozen"
        self._site.cluster.program(program).signal(signal.SIGSTOP)
        self._fault("freeze", f"{program} for {seconds:.1f} s")
        self._push(self._now + seconds, partial(self._thaw, program))

    def _thaw(self, program: str) -> None:
        self._site.cluster.program(program).signal(signal.SIGCONT)
        del self._down[program]
        self._push(self._now + _CALM_AFTER_SECONDS, self._calm_down)
        self._fault("thaw", program)

    def snapshot(self) -> None:
        """Take a snapshot of the store."""
        if "etcd" in self._down:
            self._note("restore-etcd", "snapshot", "skipped", "etcd is down", self._seconds())
            return
        self._site.take_snapshot()
        self._has_snapshot = True
        self._fault("snapshot", "of etcd")

    def restore(self) -> None:
        """Put the snapshot back, as soon as no server is down."""
        self._push(self._now, self._restore)

    def _restore(self) -> None:
        if not self._has_snapshot:
            return
        if set(SERVERS) & set(self._down):
            self._push(self._now + 1, self._restore)
            return
        began = self._steady()
        with self._calm.stopped():
            self._feed.pause()
            self._judge(everything=True)
            self._site.put_snapshot_back()
            self._feed.resume()
        self._has_snapshot = False
        self._started += self._steady() - began  # the plan waits meanwhile
        self._fault("restore", "etcd")
        # The snapshot may hold a kind Workload that is being deleted.
        self.send("restore-etcd", "apply the kind Workload", self._site.apply_workload_kind)

    def drop_kind(self, seconds: float) -> None:
        """Delete the kind Workload, and create it after some seconds."""
        self.send("drop-kind", "delete the kind Workload", self._site.delete_workload_kind)
        self.later(seconds, "drop-kind", "apply the kind Workload", self._site.apply_workload_kind)

    def _is_busy(self, program: str, what: str) -> bool:
        if program in self._down:
            state = self._down[program]
            self._note(what, program, "skipped", f"is {state}", self._seconds())
            return True
        return False

    def _fault(self, kind: str, what: str) -> None:
        self._note(kind, what, "done", "", self._seconds())

    # ----------------------------------------------------------------------------- the storm

    def run(self) -> Report:
        """Rage, heal, settle and empty; return what was found."""
        self._feed.start()
        self._operator.start()
        self._budget.start()
        try:
            self._await(lambda: not self._feed.behind, "all watches connected")
            with ExitStack() as stack:
                asked = None
                if self._options.alerts:
                    asked = stack.enter_context(alerts.watched(self._site, self._folder))
                self._started = self._steady()
                self._rage()
                if not self._is_decided:
                    self._heal()
                    self._settle()
                    if asked is not None:
                        self._stay_calm(asked)
                    if not self._is_decided:
                        self._empty()
            self._pool.shutdown()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._operator.stop()
            self._budget.stop()
            self._feed.stop()
        self.report.faults += self._feed.faults
        self._judge(everything=True)
        self.report.violations = [one.text() for one in self._checker.violations]
        for name in _LAWS:
            setattr(self.report, name, list(getattr(self._checker, name).values()))
        for name in _PLACES:
            texts = [text for judge in self._rooms for text in getattr(judge, name).values()]
            setattr(self.report, name, texts)
        self.report.raises = self._checker.raises
        self.report.surges = self._checker.surges
        exercised = Counter(self._checker.exercised)
        for rooms in self._rooms:
            exercised.update(rooms.exercised)
        self.report.exercised = dict(exercised)
        self.report.stopped = self._stopped()
        self.report.hurried = self._hurried()
        self.report.drifts = self._drifts()
        self.report.restarts = dict(self._restarts)
        self.report.actions = {kind: dict(found) for kind, found in self._results.items()}
        self._log.close()
        Path(self.report.log).with_suffix(".txt").write_text(f"{self.report.text()}\n")
        return self.report

    def _push(self, at: float, run: Callable[[], None]) -> None:
        """Do something at a second of the storm, at the end of the storm at the latest."""
        self._number += 1
        heapq.heappush(self._due, _Due(at, self._number, run))

    def _rage(self) -> None:
        told = 0.0
        upcoming = actions.plan(self._options.seed, self._options.seconds, self._options.kinds)
        following = next(upcoming)
        while (now := self._seconds()) < self._options.seconds and not self._is_decided:
            while min([following.at, *(due.at for due in self._due[:1])]) <= now:
                if self._due and self._due[0].at <= following.at:
                    due = heapq.heappop(self._due)
                    self._now = due.at
                    due.run()
                else:
                    self._now = following.at
                    KINDS[following.kind].act(self, self._made, following.rng)
                    following = next(upcoming)
            self._tick()
            if now >= told + _PROGRESS_SECONDS:
                told = now
                self._progress(f"{now:.0f}/{self._options.seconds:.0f} s")

    @property
    def _is_decided(self) -> bool:
        """Whether what was asked for is known: a wrong release, where one is enough."""
        return self._options.first and bool(self.report.after)

    def _seconds(self) -> float:
        return self._steady() - self._started

    def _tick(self) -> None:
        for name in self._site.supervise(self._down):
            self._restarts[name] += 1
            self._fault("supervise", f"{name} had ended")
        self._judge()
        threading.Event().wait(_TICK_SECONDS)

    def _judge(self, *, everything: bool = False) -> None:
        before = len(self._checker.violations)
        laws: list[tuple[Checker | RoomJudge, str]] = [
            *((self._checker, name) for name in _LAWS),
            *((rooms, name) for rooms in self._rooms for name in _PLACES),
        ]
        told = [len(getattr(judge, name)) for judge, name in laws]
        hurried = len(self._checker.hurried)
        for event in self._feed.take(everything=everything):
            self._checker.take(event)
            for rooms in self._rooms:
                rooms.take(event)
        for one in self._checker.violations[before:]:
            self._found("violations", one.text())
        for (judge, name), count in zip(laws, told, strict=True):
            for text in list(getattr(judge, name).values())[count:]:
                self._found(name, text)
        if len(self._checker.hurried) > hurried:
            for text in self._hurried()[self._hurried_told :]:
                self._hurried_told += 1
                self._found("hurried", text)

    def _found(self, part: str, text: str) -> None:
        """Note what is wrong, at the second at which it is known."""
        self.report.after.setdefault(part, round(self._seconds(), 1))
        self._tell(f"{part.upper()}: {text}")
        self._note("checker", text, "violation", "", self._seconds())

    def _progress(self, when: str) -> None:
        quotas = self._checker.quotas()
        held = ", ".join(
            f"{cohort} {self._checker.held(cohort).total()}/{quota.total()}"
            for cohort, quota in quotas.items()
        )
        with self._lock:
            count = sum(sum(one.values()) for one in self._results.values())
        down = f", down: {', '.join(self._down)}" if self._down else ""
        if behind := self._feed.behind:
            down += f", not watched: {', '.join(behind)}"
        self._tell(
            f"{when}: {count} actions, {self._checker.raises} releases judged, "
            f"{len(self._checker.violations)} violations, held: {held}{down}"
        )

    def _heal(self) -> None:
        """Do at once what would have been healed later."""
        patience = waiting.Patience()
        while self._due and not patience.is_over:
            due = heapq.heappop(self._due)
            self._now = due.at
            due.run()
            self._tick()
        # A restore brings old faults back, and pods of others.
        self._pool.submit(self._site.mend_nodes).result()
        outside = f"/api/v1/namespaces/{site.OUTSIDE}/pods?gracePeriodSeconds=0"
        self._pool.submit(actions.surely, partial(self.admin.delete, outside)).result()
        try:
            self._site.apply_workload_kind()
        except TimeoutError as late:
            self.report.stuck.append(str(late))
        try:  # a kind that was made again a moment ago is watched a moment later
            self._await(lambda: not self._feed.behind, "all watches connected")
        except TimeoutError:
            self.report.faults.append(f"heal: not watched: {', '.join(self._feed.behind)}")
        for name in (WEBHOOK, *CONTROLLERS):
            try:
                self._await(partial(self._site.is_ready_program, name), f"{name} ready")
            except TimeoutError as late:
                self.report.stuck.append(str(late))
        self._fault("heal", "everything")

    def _settle(self) -> None:
        """Wait for what must come true; what does not is reported, and the first part may do.

        What lingers is charged for as long as it does, so this is looked at first.
        """
        self._await_quiet({"uncharged": self._checker.uncharged}, "linger")
        if self._is_decided:
            return
        self._pool.submit(self._end_lingering).result()
        self._pool.submit(self._end_groups).result()
        self._pool.submit(actions.let_go_on, self.admin).result()
        self._budget.let_all_in()
        for namespace in site.ALL_NAMESPACES:
            self._pool.submit(actions.activate, self.admin, namespace).result()
        self._await_quiet(
            {
                "leaked": self._checker.leaked,
                "uncharged": self._checker.uncharged,
                "stuck": self._checker.stuck,
                "outranked": self._checker.outranked,
                "unplaced": self._checker.unplaced,
                "kept_out": lambda: {
                    uid: text for rooms in self._rooms for uid, text in rooms.kept_out().items()
                },
                "half": self._checker.half,
            },
            "settle",
        )

    def _stay_calm(self, asked: Asked) -> None:
        """Do nothing for a while; report which alerts fire then."""
        self._progress(f"during: {', '.join(alerts.firing(asked)) or 'no alert'}")
        until = self._steady() + alerts.CALM_SECONDS
        while self._steady() < until:
            self._tick()
        self.report.alerts = alerts.firing(asked)

    def _end_lingering(self) -> None:
        """End the containers of all pods that are being deleted, as kubelets do at last."""
        for one in self.admin.get("/api/v1/pods")["items"]:
            metadata = one["metadata"]
            if "deletionTimestamp" in metadata and one["spec"].get("nodeName"):
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                with suppress(RestError):
                    self.admin.patch(f"{path}/status", {"status": {"phase": "Failed"}})

    def _end_groups(self) -> None:
        """Say of all groups that nobody takes the place of members that are gone.

        A group that could get others keeps the quota for them. It is enough that a pod says so.
        """
        change = {"metadata": {"annotations": {names.RETRIABLE_IN_GROUP: "false"}}}
        for namespace in site.ALL_NAMESPACES:
            path = f"/api/v1/namespaces/{namespace}/pods"
            ended: set[str] = set()
            for pod in self.admin.get(path)["items"]:
                marks = pod["metadata"].get("annotations") or {}
                group = marks.get(names.POD_GROUP_NAME, "")
                if not group or group in ended or pod["metadata"].get("ownerReferences"):
                    continue
                if marks.get(names.RETRIABLE_IN_GROUP) != "false":
                    with suppress(RestError):  # it has just gone
                        self.admin.patch(f"{path}/{pod['metadata']['name']}", change)
                        ended.add(group)

    def _empty(self) -> None:
        """Delete all owners and pods; then nothing is charged, and no Workload waits or runs.

        A Workload that has finished may stay: the garbage collector takes the owner off that of a
        Job which was deleted without its pods. So may that of an evicted group, which waits for
        pods that take the place of those that are gone.
        """
        for namespace in site.ALL_NAMESPACES:
            for plural in actions.OWNERS:
                path = f"{actions.collection(plural, namespace)}?propagationPolicy=Background"
                actions.surely(partial(self.admin.delete, path))
            path = f"/api/v1/namespaces/{namespace}/pods"
            actions.surely(partial(self.admin.delete, path, {"gracePeriodSeconds": 0}))

        def left() -> dict[str, str]:
            found = self.admin.get(f"{KUEUE}/workloads")["items"]
            return {
                one["metadata"]["uid"]: f"Workload {'/'.join(_ref(one))} is left"
                for one in found
                if one["metadata"].get("ownerReferences")
                or not (_is_finished(one) or _awaits_pods(one))
            }

        self._await_quiet({"leaked": lambda: self._checker.leaked() | left()}, "empty")

    def _await_quiet(self, looks: dict[str, Callable[[], dict[str, str]]], what: str) -> None:
        """Return once nothing stays wrong; note what does.

        Pods come and go meanwhile, so something is wrong for a moment all the time.
        """
        began = told = self._steady()
        patience = waiting.Patience(_FIRST_SECONDS if self._options.first else PATIENCE_SECONDS)
        since: dict[tuple[str, str], float] = {}
        while True:
            self._tick()
            now = self._steady()
            wrong = {
                (name, one): text for name, look in looks.items() for one, text in look().items()
            }
            since = {key: since.get(key, now) for key in wrong}
            lasting = [key for key, start in since.items() if now - start >= _MOMENT_SECONDS]
            if now - began >= 2 * _MOMENT_SECONDS and not lasting and not self._feed.behind:
                return
            if now > told + _PROGRESS_SECONDS:
                told = now
                self._progress(f"{what}, {len(lasting)} wrong")
            if patience.is_over:
                for key in lasting:
                    self.report.after.setdefault(key[0], round(self._seconds(), 1))
                    getattr(self.report, key[0]).append(f"{what}: {wrong[key]}")
                return

    def _await(self, look: Callable[[], bool], what: str) -> None:
        patience = waiting.Patience()
        while not look():
            self._tick()
            if patience.is_over:
                raise TimeoutError(f"{what}: not within {patience.waited_seconds:.0f} s")

    # ----------------------------------------------------------- who stopped what: the audit log

    def _drifts(self) -> list[str]:
        """Return what the audits of the controllers logged."""
        logs = self._site.cluster.logs
        lines = [line for name in CONTROLLERS for line in logs[name].read_text().splitlines()]
        return [line for line in lines if _DRIFT in line]

    def _stopped(self) -> list[str]:
        """Return what the controller stopped without a decision."""
        logs = self._site.cluster.logs
        lines = (line for name in CONTROLLERS for line in logs[name].read_text().splitlines())
        return stops.undecided(self._checker.stopped, self._audit.read_text().splitlines(), lines)

    def _hurried(self) -> list[str]:
        """Return what the controller stopped before its notice had ended."""
        audit = self._audit.read_text().splitlines()
        ours = {stop.key for stop in stops.by_controller(audit)}
        return [text for key, text in self._checker.hurried.items() if key in ours]


_LAWS: Final = ("halted", "unchecked", "overcap", "taken")
"""Parts of a report that the checker finds at once, besides violations."""
_PLACES: Final = ("nowhere", "in_vain", "scattered", "stranded")
"""Parts of a report that are found at once about places on nodes."""
_DRIFT: Final = "charged quota differs from held quota"
"""What an audit logs that finds a difference."""


def _ref(document: Json) -> tuple[str, str]:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _awaits_pods(workload: Json) -> bool:
    """Return whether a Workload is that of an evicted group, and holds no quota."""
    is_true = {
        one["type"]
        for one in workload.get("status", {}).get("conditions") or ()
        if one["status"] == "True"
    }
    is_of_group = names.IS_GROUP_WORKLOAD in (workload["metadata"].get("annotations") or {})
    return is_of_group and "Evicted" in is_true and "QuotaReserved" not in is_true


def _is_finished(workload: Json) -> bool:
    conditions = workload.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)


def rage(options: Options, folder: Path, tell: Callable[[str], None]) -> Report:
    """Set a cluster up, run a storm over it and return what was found.

    Args:
        options: what storm it is.
        folder: for logs; it must exist.
        tell: takes lines about the progress.
    """
    policy = folder / "audit-policy.yaml"
    policy.write_text(json.dumps(_AUDIT))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}"]
    with Cluster.start(api_flags=flags) as cluster:
        one = Site(cluster, folder)
        try:
            one.set_up()
            tell("the cluster is set up")
            return Storm(one, options, folder, tell).run()
        finally:
            for name in (*SERVERS, *HELPERS, WEBHOOK, *CONTROLLERS):
                with suppress(KeyError, OSError):
                    shutil.copy(cluster.logs[name], folder)


def chosen(only: str, without: str) -> frozenset[str]:
    """Return the names of kinds that two lists with commas leave.

    Raises:
        ValueError: there is no such kind.
    """
    listed = [set(filter(None, text.split(","))) for text in (only, without)]
    for name in sorted(set.union(*listed) - set(KINDS)):
        raise ValueError(f"there is no kind {name!r}; there are {', '.join(sorted(KINDS))}")
    return frozenset((listed[0] or set(KINDS)) - listed[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a command; return its exit code: 0 good, 1 something was found, 2 bad arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.storm",
        description="Run a seeded storm over a whole cluster, and judge from outside whether "
        "quota was kept.",
        epilog="Kinds of actions: " + ", ".join(KINDS) + ". Example: "
        "python -m tests.chaos.storm --seed 7 --minutes 2 --without restore-etcd,drop-kind",
    )
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default %(default)s")
    parser.add_argument(
        "--minutes", type=float, default=DEFAULT_MINUTES, help="default %(default)s"
    )
    parser.add_argument(
        "--only", default="", help="kinds of actions, with commas; others stay out"
    )
    parser.add_argument("--without", default="", help="kinds of actions to leave out, with commas")
    parser.add_argument("--folder", type=Path, help="for the logs; default: a new temporary one")
    parser.add_argument(
        "--alerts", action="store_true",
        help="run Prometheus beside it (`make alerts` compiles it); no alert may fire in calm",
    )  # fmt: skip
    parser.add_argument(
        "--first", action="store_true", help="end at the first release above quota"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args(arguments)
    try:
        kinds = chosen(given.only, given.without)
    except ValueError as problem:
        parser.error(str(problem))
    if not 0 < given.minutes <= LONGEST_MINUTES:
        parser.error(f"--minutes: {given.minutes} is not above 0 and at most {LONGEST_MINUTES}")
    folder = given.folder or Path(tempfile.mkdtemp(prefix="storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    options = Options(
        seed=given.seed,
        seconds=given.minutes * 60,
        kinds=kinds,
        alerts=given.alerts,
        first=given.first,
    )
    report = rage(options, folder, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(asdict(report), indent=2) if given.json else report.text())
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
