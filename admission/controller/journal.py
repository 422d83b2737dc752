"""Records for how long whose work held how many GPUs, in ConfigMaps (docs/adr/0190).

`Counting` is owned by the core's thread and takes every change of what is held. `UsageJournal` is
a thread of its own: about once a minute, while this process leads, it takes what was not recorded
and writes it into the record of the hour. The record says up to when it counts, and is replaced by
its version; so what one process has recorded, no other one records again.
"""

import contextlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Final, Protocol, TypeVar

from admission.base import conditions, logs, names
from admission.base.clock import Clock
from admission.base.names import ChargeKey, WorkloadKey
from admission.base.periodic_thread import PeriodicThread
from admission.config.gpu_configuration import JournalSettings as Settings
from admission.controller import usage_tally
from admission.controller.usage_tally import RecordedHolding, TakenUsage, UsageTally
from admission.controller.workloads import times
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.gpu import resources as gpu_resources
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.kube.connectivity import warn
from admission.objects import usage_record, views
from admission.objects.usage_record import DAY, HOUR, Account, Period, Record, RecordedOwner
from admission.scheduling.reserving import ReservingWorkload
from admission.scheduling.state import SchedulerState

HOURS_KEPT: Final = 48
"""For so long there are records of hours; then those of a day become one."""
_SETTLE_SECONDS: Final = 30
"""Nothing younger is recorded: the write of a reservation may take four tries of 5 s."""
_NOT_READY_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 30.0
_LONGEST_USER: Final = 253
_POD: Final = ("v1", resources.PODS.kind)

Answer = TypeVar("Answer")


class Ask(Protocol):
    """Has the core's thread answer a question about what was counted."""

    def __call__(self, question: "Callable[[Counting], Answer]") -> Answer:
        """Return the answer.

        Raises:
            TimeoutError: the core did not get to it.
        """
        ...


def _no_deployment(_: WorkloadKey) -> str:
    return ""


class Counting:
    """What is held and for how long, as the core sees it; also in a standby.

    Attributes:
        tally: the times.
    """

    def __init__(
        self,
        state: SchedulerState,
        workloads: WorkloadIndex,
        clock: Clock,
        settings: Settings,
        *,
        deployment_of: Callable[[WorkloadKey], str] = _no_deployment,
    ) -> None:
        """Know nothing yet.

        Args:
            state: says what is charged.
            workloads: say for what they were made.
            clock: source of time.
            settings: say whether anything is recorded, and whether users are.
            deployment_of: names the Deployment of the pod of a Workload; empty for none.
        """
        self._state = state
        self._workloads = workloads
        self._clock = clock
        self._is_on = settings.enabled
        self._has_users = settings.users
        self._has_looked_back = False
        self.tally = UsageTally()
        self._deployment_of = deployment_of

    def update(self, is_synced: Callable[[], bool]) -> None:
        """Take what has changed since the last call; nothing before all was listed once."""
        touched = self._state.take_touched()
        if not self._is_on:
            return
        if self.tally.covers_from is not None:
            now = self._now() if touched else 0
            for key in touched:
                self.tally.update(key, self._holding(key), now)
        elif is_synced():
            holdings = {key: self._holding(key) for key in self._state.charges()[0]}
            held_now = {key: holding for key, holding in holdings.items() if holding is not None}
            self.tally.begin(held_now, self._now())

    def resume(self, counted_to: int | None) -> int | None:
        """Begin to count where the newest record ends.

        Args:
            counted_to: where; None without any record: where this process began, or now.

        Returns:
            From when on time is counted; None while not everything was listed.
        """
        covers_from = self.tally.covers_from
        if covers_from is None:
            return None
        now = self._now()
        if counted_to is None:
            counted_to = self.tally.counted_to or now
        begin = max(counted_to, _first_hour(now))
        if begin < covers_from and not self._has_looked_back:
            self._add_ended(begin)
        self._has_looked_back = True
        self.tally.counted(begin)
        return begin

    def _add_ended(self, begin: int) -> None:
        """Add what ended while nobody looked, as far as its Workload still tells."""
        for key in self._workloads:
            view, charge = self._workloads.get(key), self._state.last_charge(key)
            ended = None if view is None else times.moment(view, conditions.FINISHED)
            if charge is None or ended is None or ended.timestamp() <= begin:
                continue
            holding = self._made(key, charge)
            if holding is not None and holding.since:
                self.tally.add_ended(holding, max(holding.since, int(ended.timestamp())))

    def _holding(self, key: ChargeKey) -> RecordedHolding | None:
        charge = self._state.written_charge(key)
        return None if charge is None else self._made(key, charge)

    def _made(self, key: ChargeKey, charge: ReservingWorkload) -> RecordedHolding | None:
        """Return what is recorded of a charge; None where it has no GPUs."""
        user = charge.user.name[:_LONGEST_USER] if self._has_users else ""
        amounts = {
            Account(
                namespace=key.namespace,
                cluster_queue=charge.cluster_queue,
                local_queue=charge.local_queue.name,
                user=user,
                flavor=pair.flavor,
                resource=pair.resource,
            ): amount
            for pair, amount in charge.usage.items()
            if amount and _is_gpu(pair.resource)
        }
        if not amounts:
            return None
        return RecordedHolding(
            uid=charge.uid,
            since=charge.reserved_us // 1_000_000,
            owner=self._owner(key) if isinstance(key, WorkloadKey) else None,
            amounts=tuple(sorted(amounts.items())),
        )

    def _owner(self, key: WorkloadKey) -> RecordedOwner:
        view = self._workloads.get(key)
        owner = None if view is None else view.metadata.controller()
        if owner is None:
            return RecordedOwner(key.namespace, resources.WORKLOADS.kind, key.name)
        is_pod = (owner.api_version, owner.kind) == _POD
        made_for = self._deployment_of(key) if is_pod else ""
        if made_for:
            return RecordedOwner(key.namespace, resources.DEPLOYMENTS.kind, made_for)
        return RecordedOwner(key.namespace, owner.kind, owner.name)

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _is_gpu(resource: str) -> bool:
    return gpu_resources.is_device(resource) or gpu_resources.is_virtual(resource)


def _first_hour(now: int) -> int:
    """Return when the first hour begins of which a record is still made."""
    return Period.HOUR.start_of(now) - HOURS_KEPT * HOUR


class UsageJournal:
    """Writes the records, while this process leads."""

    def __init__(
        self,
        api: Api,
        ask: Ask,
        namespace: str,
        settings: Settings,
        clock: Clock,
        may_write: Callable[[], bool],
    ) -> None:
        """Write nothing yet.

        Args:
            api: where the records are.
            ask: has the core's thread answer a question about what was counted.
            namespace: of the program.
            settings: how often is written, and how long it is kept.
            clock: source of time.
            may_write: whether this process leads.
        """
        self._api = api
        self._ask = ask
        self._namespace = namespace
        self._settings = settings
        self._clock = clock
        self._may_write = may_write
        self._settle = min(_SETTLE_SECONDS, settings.interval // timedelta(seconds=1))
        self._log = logs.get("journal")
        self._begin: int | None = None
        """Up to when all is recorded; None where the newest record has to be read first."""
        self._head: tuple[Record, str] | None = None
        """The record that is written now, and its version."""
        self._told = ""
        """The error that was logged last; it is not repeated until something was recorded."""
        self._rounds = PeriodicThread("journal", self._round, self.failed)

    def start(self) -> None:
        """Begin to write, in a thread of its own; do nothing where it is switched off."""
        if self._settings.enabled:
            self._rounds.start()

    def stop(self) -> None:
        """Write nothing more; do not wait for a request that is under way."""
        self._rounds.stop()

    def step(self) -> bool:
        """Record what is not recorded yet; return whether it could be."""
        if not self._may_write():
            return False
        now = int(self._clock.now().timestamp()) - self._settle
        is_late = self._begin is not None and self._begin < _first_hour(now)
        if (self._begin is None or is_late) and not self._resume():
            return False
        assert self._begin is not None
        while self._begin < now and self._may_write():
            until = min(now, Period.HOUR.start_of(self._begin) + HOUR)
            self._write(self._ask(partial(_taken, until=until)))
        return True

    def _round(self) -> float:
        is_done = self.step()
        return self._settings.interval.total_seconds() if is_done else _NOT_READY_SECONDS

    def failed(self, error: Exception) -> float:
        """Begin anew: nobody knows what has become of the last request.

        Returns:
            Seconds until it is tried again.
        """
        self._begin = self._head = None
        if not isinstance(error, errors.KubeError | TimeoutError):
            self._log.error("usage not recorded", exc_info=error)
        elif str(error) != self._told:
            warn(self._log, "usage not recorded", error)
            self._told = str(error)
        return min(_RETRY_SECONDS, self._settings.interval.total_seconds())

    # ---------------------------------------------------------------------------- one record

    def _resume(self) -> bool:
        """Find the newest record, and count from where it ends."""
        newest: tuple[Record, str] | None = None
        for document in self._listed(Period.HOUR):
            record = self._read(document)
            if record is not None and (newest is None or record.until > newest[0].until):
                newest = record, document["metadata"]["resourceVersion"]
        counted_to = None if newest is None else newest[0].until
        self._begin = self._ask(lambda counting: counting.resume(counted_to))
        self._head = newest
        if self._begin is not None:
            self._tidy()
        return self._begin is not None

    def _write(self, taken: TakenUsage) -> None:
        tallied, hour = usage_tally.record(taken), Period.HOUR
        head = self._head
        if head is not None and hour.start_of(head[0].begin) == hour.start_of(tallied.begin):
            whole = usage_record.bounded(usage_record.merged((head[0], tallied)))
            written = self._api.replace(
                resources.CONFIG_MAPS,
                usage_record.document(whole, hour, self._namespace, head[1]),
            )
        else:
            whole = usage_record.bounded(tallied)
            written = self._create(usage_record.document(whole, hour, self._namespace))
            self._tidy()
        self._head = whole, written["metadata"]["resourceVersion"]
        self._begin = self._ask(partial(_counted, until=taken.until))
        self._told = ""

    def _create(self, document: Document) -> Document:
        """Create a record; one that is there already and cannot be read is replaced."""
        try:
            return self._api.create(resources.CONFIG_MAPS, document)
        except errors.AlreadyExistsError:
            name = document["metadata"]["name"]
            present = self._api.get(resources.CONFIG_MAPS, name, self._namespace)
            if self._read(present) is not None:
                raise
            version = present["metadata"]["resourceVersion"]
            metadata = {**document["metadata"], "resourceVersion": version}
            return self._api.replace(resources.CONFIG_MAPS, {**document, "metadata": metadata})

    def _read(self, document: Document) -> Record | None:
        try:
            return usage_record.read(document)
        except ValueError as error:
            self._log.error("record left out", error=str(error))
            return None

    def _listed(self, period: Period) -> list[Document]:
        page = self._api.list(
            resources.CONFIG_MAPS,
            self._namespace,
            label_selector=f"{names.USAGE_LABEL}={period.value}",
        )
        return list(page.items)

    # ---------------------------------------------------------------------------- old records

    def _tidy(self) -> None:
        """Make one record of the hours of each day that is old enough; delete what is too old."""
        now = int(self._clock.now().timestamp())
        days: dict[int, list[Document]] = {}
        for document in self._listed(Period.HOUR):
            record = self._read(document)
            if record is not None and Period.DAY.start_of(record.begin) + DAY <= _first_hour(now):
                days.setdefault(Period.DAY.start_of(record.begin), []).append(document)
        for hours in days.values():
            self._make_day(hours)
        oldest = usage_record.name_of(
            Period.DAY, now - self._settings.retention // timedelta(seconds=1)
        )
        for view in self._days():
            if view.metadata.name < oldest:  # the names of days sort as the days do
                self._delete(view.metadata.name, view.metadata.uid)

    def _days(self) -> Iterable[views.Object]:
        """Return the records of days, without what they hold."""
        selector = f"{names.USAGE_LABEL}={Period.DAY.value}"
        page = self._api.list(
            resources.CONFIG_MAPS, self._namespace, label_selector=selector, into=views.Object
        )
        return page.items

    def _make_day(self, hours: list[Document]) -> None:
        """Create the record of a day, if there is none, and delete those of its hours."""
        whole = usage_record.bounded(usage_record.merged(map(usage_record.read, hours)))
        document = usage_record.document(whole, Period.DAY, self._namespace)
        with contextlib.suppress(errors.AlreadyExistsError):  # who made it deleted no hour
            self._api.create(resources.CONFIG_MAPS, document)
        for hour in hours:
            self._delete(hour["metadata"]["name"], hour["metadata"]["uid"])

    def _delete(self, name: str, uid: str) -> None:
        with contextlib.suppress(errors.NotFoundError):
            self._api.delete(resources.CONFIG_MAPS, name, self._namespace, uid=uid)


def _taken(counting: Counting, until: int) -> TakenUsage:
    return counting.tally.take(until)


def _counted(counting: Counting, until: int) -> int:
    counting.tally.counted(until)
    return until
