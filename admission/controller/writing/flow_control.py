"""Flow control: what may be sent to the API server now, and when the controller decides.

This is the only place that says "not now"; `docs/internals/flow-control.md` explains it.

* At most one request about a Workload or a queue is open. Of one without a usable answer a watch
  may tell, else it is sent again; one that was refused, or the fourth in a row that comes too
  late, makes its object rest.
* Requests have one of four priorities: decisions first, then releases, then everything else that
  keeps objects right, then what only people read.
* One limit of requests in flight follows the answers of the API server.
* Cycles, statuses, conditions and repeated events give way while there is much to send.
"""

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple

from typing_extensions import override

from admission.base import metrics
from admission.base.clock import Clock
from admission.base.events import Event, Events
from admission.controller.seeing import object_cache
from admission.controller.writing import api_requests
from admission.controller.writing.api_requests import (
    ApiRequest,
    QueueKey,
    RequestKey,
    RequestResult,
    Result,
    Verb,
    WritePurpose,
)
from admission.controller.writing.writer import Writer
from admission.kube.resources import Resource
from admission.objects import views

UNINSTALLED_SECONDS: Final = 30.0
"""Between two looks whether Workloads exist as a kind again."""
LEAVING_SECONDS: Final = 1.0
"""After an owner was deleted, until its Workload is looked at again."""
ODD_SECONDS: Final = 60.0
"""Between two looks at a Workload that cannot be dealt with."""

_UNKNOWN_SECONDS: Final = (1.0, 2.0, 5.0)
"""Until a request is sent again that got no usable answer once, twice and so on."""
_PATIENCE_FACTOR: Final = 2.0
"""An answer is waited for this many times as long as the last ones took."""
_LONGEST_UNKNOWN_SECONDS: Final = 60.0
"""The longest wait for a watch to tell of a request, from when it was sent."""
_LONGEST_ANSWER_SECONDS: Final = 60.0
"""An answer counts as no later than that. One that seems to take an hour tells that the process or
its machine was stopped, and nothing of the API server."""
_TOLD_SECONDS: Final = 1.0
"""So long an answer is waited for before what a watch has told counts in its place."""
_REFUSED_SECONDS: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
"""How long an object rests after it was refused something once, twice and so on."""
_CONFLICT_SECONDS: Final = (0.0, 0.0, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""How long an object rests after the first, second and so on of its conflicts in a row."""

_ALWAYS: Final = 8
"""Requests that may be in flight however slow answers are, unless they fail to come."""
_LEAST: Final = 2
"""The lowest limit."""
_SLOW_FACTOR: Final = 2
"""An answer that takes this many times the usual one says that requests wait for one another."""
_QUICK_FACTOR: Final = 1.25
"""One that takes less than this says that they do not, and that one more may be tried."""
_BATCH: Final = 16
"""Answers in one measurement."""
_SLOW_SECONDS: Final = 1.0
_SLOW_PROBES: Final = 4
"""Answers that tell the usual time where each takes a second: more would take a minute."""
_WINDOW_SECONDS: Final = 300.0
"""How long the usual time of an answer is kept while no request is alone."""
_DISTURBED_SECONDS: Final = 10.0
"""So long after quota was taken back, more may soon be."""
_HANDED_OVER_PERCENT: Final = 125
"""Requests that are handed over, of the limit, so that no writer waits for the next one."""
_REPORT_PERCENT: Final = 40
"""Share of the limit that may be used for what only people read; one request at least."""
_CALM_SECONDS: Final = 1.0
"""After the last request that does more than report, until nothing but reports is to be sent."""
_CALM_PERCENT: Final = 75
"""Share of the limit that reports may use then; the rest is for a decision that comes."""
_CONDITIONS_A_SECOND: Final = 168
"""Conditions that say why a Workload waits, in a second in which nothing else is sent."""
_CONDITION_LAG_SECONDS: Final = 0.1
"""So much of the time in which none was sent is made up for."""
_CONDITION_PAUSE_SECONDS: Final = 0.2
_LONGEST_CONDITION_PAUSE_SECONDS: Final = 5.0
"""Between two conditions that say why a Workload waits, while other requests are sent."""

_FIRST_REST_SECONDS: Final = 0.001
_LONGEST_REST_SECONDS: Final = 1.0
"""After a cycle that decided nothing: from a millisecond, doubled each time."""
_PAUSE_PER_CYCLE: Final = 3.0
_LONGEST_PAUSE_SECONDS: Final = 5.0
"""Cycles take at most a quarter of the time: requests and watches need the rest. A cycle seems to
take an hour where the process or its machine was stopped for an hour in the middle of it."""
_LONGEST_HOLD_SECONDS: Final = 1.0
"""So long at most the next cycle waits for open decisions to be written."""
_GATHERING_SECONDS: Final = 0.01
"""From one turn to the next while nothing can be decided: a turn costs much the same for one
message and for many (ADR 0066)."""

_ROOM_SECONDS: Final = 1.0
"""After as much was sent as may be, until queue statuses follow each change again."""
_MANY_A_SECOND: Final = 50
"""Statuses a second above which the interval of each grows."""
_LONGEST_STRETCH: Final = 2
"""By how much it grows at most."""
_PATIENCE_SECONDS: Final = 2.0
"""So long a status waits while other requests take all the room."""
_EVENT_MS: Final = 200
_EVENTS_AT_ONCE: Final = 50
"""Events that repeat a condition: fifty at once, and one in each 200 ms."""


class _Target(NamedTuple):
    """The object of a request; which of several watches shows it does not matter."""

    group: str
    plural: str
    namespace: str
    name: str

    @classmethod
    def of(cls, resource: Resource, namespace: str, name: str) -> "_Target":
        return cls(resource.group, resource.plural, namespace, name)


def _target(request: ApiRequest) -> _Target:
    return _Target.of(request.resource, request.namespace, request.name)


def _tells(request: ApiRequest, view: views.Object, *, is_gone: bool) -> bool:
    """Return whether a request can have no effect any more once its object looks like this."""
    made_for = request.made_for
    is_newer = made_for is not None and object_cache.version(view) > made_for
    match request.verb:
        case Verb.READ:
            return False
        case Verb.CREATE:
            return not is_gone
        case Verb.DELETE:
            return is_newer or (is_gone and view.metadata.uid == request.uid)
        case _:
            return is_newer or is_gone


class _Limit:
    """How many requests may be in flight, from how long answers take.

    As in a congestion window. The usual time of an answer is that of requests which were nearly
    alone. While answers take longer than twice that, requests wait for one another in the API
    server, and fewer do as much. While they take about as long, and all that may be in flight is,
    one more is tried: a distant server answers late without being busy. Where requests are never
    alone, a batch is sent at the lowest limit now and then, so that the usual time is known.

    Attributes:
        congestion: the limit that follows the time of answers, from `_LEAST` to the most.
        failing: the limit that follows requests without an answer: it falls by half where half of
            what is in flight fails in a row, and grows by one with each answer, and with each
            batch of them from where it began.
        latest: seconds that the last answers took, as a mean that forgets old ones.
    """

    def __init__(self, maximum: int, now: float) -> None:
        self._most, self._least = maximum, min(_LEAST, maximum)
        self._always = min(_ALWAYS, maximum)
        self.congestion = self._always
        self.failing = maximum
        self._usual, self._usual_of, self._usual_at = 0.0, 0, now
        self.latest = 0.0
        self._slowness = 1.0
        self._answers, self._seconds = 0, 0.0
        self._was_full = False
        self._failures = 0
        """Requests without an answer since the last answer."""
        self._probing = 0

    @property
    def requests(self) -> int:
        """How many requests may be in flight."""
        if self._probing:
            return self._least
        return min(max(self.congestion, self._always), self.failing)

    @property
    def handed_over(self) -> int:
        """How many requests may be handed over, so that no writer waits for the next one."""
        if self._probing:
            return self._least
        return math.ceil(self.requests * _HANDED_OVER_PERCENT / 100)

    @property
    def decisions(self) -> int:
        """How many decisions may be open while what they give away may be taken back."""
        return min(self.congestion, self.requests)

    @property
    def slowness(self) -> float:
        """How many times the usual time answers take now."""
        return self._slowness

    def fill(self) -> None:
        """Take that as much is in flight as may be."""
        self._was_full = True

    def fail(self) -> None:
        """Take that a request got no usable answer."""
        self._failures += 1
        if self._failures >= max(1, self.requests // 2):
            self.failing = max(self._least, self.requests // 2)
            self._failures = 0

    def answer(self, seconds: float, beside: int, now: float) -> None:
        """Take how long an answer took.

        Args:
            seconds: from request to answer.
            beside: how many requests were in flight when it was sent or answered, with it.
            now: the present.
        """
        seconds = min(seconds, _LONGEST_ANSWER_SECONDS)
        if beside <= self._least:
            self._usual_of = min(self._usual_of + 1, _BATCH)
            self._usual += (seconds - self._usual) / self._usual_of
            self._usual_at = now
        self.latest += (seconds - self.latest) / _BATCH if self.latest else seconds
        is_slow = seconds >= _SLOW_SECONDS
        self._probing = max(0, self._probing - (_BATCH // _SLOW_PROBES if is_slow else 1))
        self._failures = 0
        if self.failing < self._always:
            self.failing += 1  # as much again with each round of answers
        self._answers += 1
        self._seconds += seconds
        if self._answers < max(self.requests, _BATCH):
            return
        is_known = self._usual_of >= (_SLOW_PROBES // 2 if is_slow else _BATCH // 2)
        if self._was_full and (not is_known or now - self._usual_at >= _WINDOW_SECONDS):
            self._probing, self._usual_of = _BATCH, 0
        elif is_known:
            self._follow(self._seconds / self._answers / max(self._usual, 1e-9))
        if self.failing >= self._always:
            self.failing = min(self._most, self.failing + 1)
        self._was_full = False
        self._answers, self._seconds = 0, 0.0

    def _follow(self, slowness: float) -> None:
        self._slowness = slowness
        if slowness > _SLOW_FACTOR:
            fewer = max(self.congestion // 2, int(self.congestion * _SLOW_FACTOR / slowness))
            self.congestion = max(self._least, min(fewer, self.congestion - 1))
        elif self.congestion < self._always or (self._was_full and slowness < _QUICK_FACTOR):
            self.congestion = min(self._most, self.congestion + 1)


@dataclass(slots=True)
class _Sent:
    """How an open request was sent.

    Attributes:
        at: when it was sent first.
        beside: beside how many others it was sent last.
        attempts: how often it got no answer.
        again_at: when it is sent again, if it got none.
        has_failed: whether that was counted as a failure.
    """

    at: float
    beside: int = 1
    attempts: int = 0
    again_at: float = 0.0
    has_failed: bool = False


class _CyclePace:
    """When the next scheduling cycle may run; times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._rest = 0.0
        self._at = self._paused_until = self._held_until = 0.0

    def hurry(self) -> None:
        """Take that something has changed that cycles depend on."""
        self._rest = 0.0
        self._at = self._paused_until

    def end(self, began: float, now: float, *, decided: bool) -> None:
        """Take when a cycle began, which has just ended, and whether it decided anything."""
        pause = _PAUSE_PER_CYCLE * (now - began)
        self._paused_until = now + min(pause, _LONGEST_PAUSE_SECONDS)
        self._held_until = now + _LONGEST_HOLD_SECONDS
        if decided:
            self.hurry()
        else:
            self._rest = min(max(self._rest * 2, _FIRST_REST_SECONDS), _LONGEST_REST_SECONDS)
            self._at = max(self._paused_until, began + self._rest)

    def at(self, *, is_full: bool) -> float:
        """Return the time before which no cycle runs; later where enough is decided."""
        return max(self._at, self._held_until) if is_full else self._at


class _ConditionPace:
    """When the next condition may be sent; times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._at = self._next_at = 0.0

    def sent(self, now: float, slowness: float) -> None:
        """Take that one is sent now, and how slow answers are."""
        pause = _CONDITION_PAUSE_SECONDS * max(1.0, slowness / _SLOW_FACTOR)
        self._at = now + min(pause, _LONGEST_CONDITION_PAUSE_SECONDS)
        began = max(self._next_at, now - _CONDITION_LAG_SECONDS)
        self._next_at = began + 1 / _CONDITIONS_A_SECOND

    def at(self, *, is_calm: bool) -> float:
        """Return the time from which the next one may be sent."""
        return self._next_at if is_calm else self._at


class FlowControl:
    """Sends requests through a writer, as far as they may be sent now.

    Attributes:
        room_at: monotonic time from which queue statuses follow each change; later while as much
            is sent as may be.
    """

    def __init__(self, writer: Writer, clock: Clock, *, maximum: int) -> None:
        """Begin as if the API server answered at once.

        Args:
            writer: sends.
            clock: the present.
            maximum: requests that may ever be in flight at once.
        """
        self._writer = writer
        self._clock = clock
        self._limit = _Limit(maximum, clock.monotonic())
        self._open: dict[RequestKey, ApiRequest] = {}
        self._sent: dict[RequestKey, _Sent] = {}
        self._about: dict[_Target, RequestKey] = {}
        """Keys of open requests by their object."""
        self._unknown: dict[RequestKey, int] = {}
        """How often an open request got no answer that is not under way now."""
        self._shown: dict[RequestKey, views.Object | None] = {}
        """What a watch has shown, since it was sent, of the object of a request under way."""
        self._told: list[RequestResult] = []
        """Outcomes that a watch has told of, and that were not taken yet."""
        self._awaited: dict[int, ApiRequest] = {}
        """Requests whose outcome is known and whose answer the writer still waits for."""
        self._retries = deque[ApiRequest]()
        self._resting: set[RequestKey] = set()
        self._refusals: dict[RequestKey, int] = {}
        self._conflicts: dict[RequestKey, int] = {}
        """In a row; of objects that were written since there are none."""
        self._versions: dict[RequestKey, tuple[str, bool]] = {}
        """Of the object that the last change about a key was answered with, and whether the change
        was a report."""
        self._wakes: list[tuple[float, int, RequestKey]] = []
        self._numbers = count()
        self._sending = self._reserving = self._reporting = 0
        self._acted_at = self._evicted_at = -math.inf
        self.room_at = clock.monotonic()
        self._conditions = _ConditionPace()
        self._cycles = _CyclePace()
        metrics.DECISIONS_OPEN_LIMIT.set_function(lambda: self.most_decisions)
        metrics.REQUESTS_IN_FLIGHT_LIMIT.set_function(lambda: self._limit.requests)

    # ------------------------------------------------------------------- one request per object

    @property
    def in_flight(self) -> int:
        """Requests that are sent, or are to be sent again, whose outcome is open."""
        return len(self._open)

    @property
    def sending(self) -> int:
        """Requests handed to the writer whose outcome was not reported."""
        return self._sending

    @property
    def unknown(self) -> int:
        """Requests of which nobody knows what became of them, and that are not under way."""
        return len(self._unknown)

    def open(self) -> Iterable[RequestKey]:
        """Return the objects about which a request is open."""
        return tuple(self._open)

    def is_busy(self, key: RequestKey) -> bool:
        """Return whether a request about an object is open, or the object rests."""
        return key in self._open or key in self._resting

    def purpose(self, key: RequestKey) -> WritePurpose | None:
        """Return why a request about an object was sent whose outcome is open; None for none."""
        request = self._open.get(key)
        return None if request is None else request.operation

    def submit(self, request: ApiRequest) -> None:
        """Send a request about an object that is not busy."""
        assert request.key not in self._open, request
        self._open[request.key] = request
        self._about[_target(request)] = request.key
        if request.operation in api_requests.REPORTS:
            self._reporting += 1
        else:
            self._acted_at = self._clock.monotonic()
        self._send(request)

    def complete(self, outcome: RequestResult) -> RequestResult | None:
        """Take an outcome; return it if it is final, else the same request goes out again.

        Of a request without an answer a watch may have told meanwhile: its object is another than
        the one that the request was made for, so that it took effect, or never can.
        """
        key = outcome.request.key
        if self._awaited.pop(id(outcome.request), None) is not None:
            return None
        beside = self._end_attempt(outcome.request)
        if outcome.result is Result.UNKNOWN:
            if key in self._shown:
                return self._settle(outcome.request, self._shown[key])
            sent = self._sent[key]
            if self._clock.monotonic() - sent.at < _SLOW_SECONDS:
                self._limit.fail()  # else a watch may tell that it is only slow
                sent.has_failed = True
            sent.attempts += 1
            sent.beside = beside
            self._unknown[key] = sent.attempts
            seconds = self._unknown_seconds(sent)
            sent.again_at = self._clock.monotonic() + seconds
            self._wake_at(key, seconds)
            return None
        self._close(outcome.request)
        if outcome.result is Result.REFUSED or self._is_in_vain(outcome):
            refusals = self._refusals.get(key, 0)
            self._refusals[key] = refusals + 1
            self.rest(key, _REFUSED_SECONDS[min(refusals, len(_REFUSED_SECONDS) - 1)])
        else:
            self._refusals.pop(key, None)
        self._follow_conflict(key, outcome.result)
        if outcome.result is Result.DONE:
            now = self._clock.monotonic()
            if outcome.request.operation is WritePurpose.EVICT:
                self._evicted_at = now
            if outcome.request.verb is not Verb.READ:
                self._limit.answer(outcome.seconds, beside, now)
        return outcome

    def _unknown_seconds(self, sent: _Sent) -> float:
        """Return how long a watch may take to tell of a request without an answer.

        As long as the last answers took, and as long again; a server that is that slow would have
        twice the work with a second request.
        """
        minimum = _UNKNOWN_SECONDS[min(sent.attempts, len(_UNKNOWN_SECONDS)) - 1]
        maximum = min(_PATIENCE_FACTOR * self._limit.latest, _LONGEST_UNKNOWN_SECONDS)
        return max(minimum, sent.at + maximum - self._clock.monotonic())

    def _end_attempt(self, request: ApiRequest) -> int:
        """Take that a request is not under way any more; return beside how many it was."""
        sent = self._sent[request.key]
        beside, sent.beside = max(sent.beside, self._sending), 1
        self._sending -= 1
        self._reserving -= request.operation is WritePurpose.RESERVE_QUOTA
        return beside

    def awaits(self, resource: Resource) -> bool:
        """Return whether a request about an object of a kind is open."""
        kind = resource.group, resource.plural
        return any((request.group, request.plural) == kind for request in self._about)

    def show(
        self, resource: Resource, view: views.Object, *, is_gone: bool
    ) -> RequestResult | None:
        """Take an object as a watch shows it; return what that tells of a request, if anything.

        Args:
            resource: its kind.
            view: the object.
            is_gone: whether it was deleted.
        """
        metadata = view.metadata
        key = self._about.get(_Target.of(resource, metadata.namespace, metadata.name))
        request = None if key is None else self._open.get(key)
        if key is None or request is None or not _tells(request, view, is_gone=is_gone):
            return None
        shown = None if is_gone else view
        if key in self._unknown:
            return self._settle(request, shown)
        self._shown[key] = shown
        return None

    def take_told(self) -> list[RequestResult]:
        """Return the outcomes that watches have told of in the place of answers that are late."""
        announced, self._told = self._told, []
        return announced

    def _settle(self, request: ApiRequest, shown: views.Object | None) -> RequestResult:
        """Return the outcome of a request without an answer, by what a watch has shown.

        The server has done what it was asked for, so this counts as an answer of that time.
        """
        now, key = self._clock.monotonic(), request.key
        sent = self._sent[key]
        # Where it was sent more than once nobody knows which of them was answered.
        beside = max(sent.beside, _ALWAYS) if sent.attempts > 1 else sent.beside
        self._limit.answer(now - sent.at, beside, now)
        self._close(request)
        result = Result.GONE if shown is None else Result.CONFLICT
        return RequestResult(request=request, result=result, object=shown)

    def _close(self, request: ApiRequest) -> None:
        """Take that the outcome of a request is known."""
        key = request.key
        self._reporting -= self._open.pop(key).operation in api_requests.REPORTS
        if self._about.get(_target(request)) == key:
            del self._about[_target(request)]
        self._unknown.pop(key, None)
        self._shown.pop(key, None)
        self._sent.pop(key, None)

    def _follow_conflict(self, key: RequestKey, result: Result) -> None:
        """Let an object rest whose changes come too late again and again.

        Somebody else writes it as often: each attempt costs the API server a request and a read.
        """
        if result is not Result.CONFLICT:
            self._conflicts.pop(key, None)
            return
        before = self._conflicts.get(key, 0)
        self._conflicts[key] = before + 1
        seconds = _CONFLICT_SECONDS[min(before, len(_CONFLICT_SECONDS) - 1)]
        if seconds:
            self.rest(key, seconds)

    def _is_in_vain(self, outcome: RequestResult) -> bool:
        """Return whether a change was accepted a second time and has changed nothing.

        So it is where the schema of a kind drops a field that is written again and again.
        """
        key, verb = outcome.request.key, outcome.request.verb
        if outcome.result is not Result.DONE or verb not in {Verb.PATCH, Verb.REPLACE}:
            return False
        answered = outcome.object
        version = answered.metadata.resource_version if isinstance(answered, views.Object) else ""
        before, _ = self._versions.get(key, ("", False))
        self._versions[key] = version, outcome.request.operation in api_requests.REPORTS
        return bool(version) and before == version

    def rest(self, key: RequestKey, seconds: float) -> None:
        """Send nothing about an object for a while."""
        self._resting.add(key)
        self._wake_at(key, seconds)

    def pause(self, key: RequestKey) -> None:
        """Take that nothing but reports is to be written about an object now.

        What is written later repeats nothing.
        """
        _, is_of_report = self._versions.get(key, ("", True))
        if not is_of_report:
            del self._versions[key]

    def forget(self, key: RequestKey) -> None:
        """Forget how often an object was refused something: it is gone."""
        self._refusals.pop(key, None)
        self._conflicts.pop(key, None)
        self._versions.pop(key, None)

    def due(self) -> list[RequestKey]:
        """Return the objects whose rest is over; send open requests again that are due."""
        now, ended = self._clock.monotonic(), []
        while self._wakes and self._wakes[0][0] <= now:
            _, _, key = heapq.heappop(self._wakes)
            if key in self._unknown:
                sent = self._sent[key]
                if sent.again_at <= now:
                    if not sent.has_failed:
                        self._limit.fail()
                    sent.has_failed = False
                    self._retries.append(self._open[key])
            elif key in self._resting:
                self._resting.discard(key)
                ended.append(key)
        for key in [key_ for key_ in self._shown if self._told_at(key_) <= now]:
            self._told.append(self._settle_before_answer(self._open[key]))
        while self._retries and self._sending < self._limit.requests:
            request = self._retries.popleft()
            if self._open.get(request.key) is request and request.key in self._unknown:
                del self._unknown[request.key]
                self._send(request)
        return ended

    def _told_at(self, key: RequestKey) -> float:
        """Return when what a watch has shown counts in the place of an answer."""
        usual = _PATIENCE_FACTOR * self._limit.latest
        return self._sent[key].at + max(_TOLD_SECONDS, usual)

    def _settle_before_answer(self, request: ApiRequest) -> RequestResult:
        """Take what a watch has told of a request that the writer still waits for."""
        beside, shown = self._end_attempt(request), self._shown[request.key]
        self._sent[request.key].beside = beside
        self._awaited[id(request)] = request
        return self._settle(request, shown)

    def next_due_in(self) -> float | None:
        """Return the seconds until `due` has something to do, or None."""
        moments = [self._wakes[0][0]] if self._wakes else []
        moments += map(self._told_at, self._shown)
        return max(0.0, min(moments) - self._clock.monotonic()) if moments else None

    def _send(self, request: ApiRequest) -> None:
        self._sending += 1
        self._reserving += request.operation is WritePurpose.RESERVE_QUOTA
        sent = self._sent.get(request.key)
        if sent is None:
            sent = self._sent[request.key] = _Sent(self._clock.monotonic())
        sent.beside = self._sending
        if self._sending >= self._limit.requests:
            self._limit.fill()
        self._writer.submit(request)

    def _wake_at(self, key: RequestKey, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        heapq.heappush(self._wakes, (due, next(self._numbers), key))

    # ----------------------------------------------------------------------- how many, and whose

    @property
    def most_decisions(self) -> int:
        """How many decisions may be open now, one at least.

        Fewer while answers are slow and quota is being taken back (ADR 0066): what is decided
        then is old by the time it is written, and costs an eviction and a second reservation.
        """
        disturbed = self._clock.monotonic() - self._evicted_at < _DISTURBED_SECONDS
        return self._limit.decisions if disturbed else self._limit.requests

    def may_decide(self) -> bool:
        """Return whether the request of a decision may be sent."""
        return self.may_send() and self._reserving < self.most_decisions

    def may_send(self) -> bool:
        """Return whether a request may be sent that does more than report."""
        return self._sending + len(self._unknown) < self._limit.handed_over

    def may_report(self) -> bool:
        """Return whether a request may be sent that only people read."""
        percent = _CALM_PERCENT if self._is_calm() else _REPORT_PERCENT
        return self._reporting < max(1, self._limit.requests * percent // 100)

    def _is_calm(self) -> bool:
        """Return whether for a while nothing was sent but reports."""
        only_reports = self.in_flight == self._reporting
        return only_reports and self._clock.monotonic() - self._acted_at >= _CALM_SECONDS

    def may_report_condition(self) -> bool:
        """Return whether a condition may be sent that says why a Workload waits.

        There are at most 168 a second of them while nothing else is sent. Else there is a longer
        pause between two, which grows while answers are slow.
        """
        return self._clock.monotonic() >= self.condition_at

    def report_condition(self, request: ApiRequest) -> None:
        """Send a condition that says why a Workload waits."""
        self._conditions.sent(self._clock.monotonic(), self._limit.slowness)
        self.submit(request)

    @property
    def condition_at(self) -> float:
        """Monotonic time from which the next condition may be sent."""
        return self._conditions.at(is_calm=self._is_calm())

    # ------------------------------------------------------------------------- turns and cycles

    def hurry_cycle(self) -> None:
        """Take that something has changed that cycles depend on."""
        self._cycles.hurry()

    def end_cycle(self, began: float, *, decided: bool) -> None:
        """Take when a cycle began, which has just ended, and whether it decided anything."""
        self._cycles.end(began, self._clock.monotonic(), decided=decided)

    def cycle_at(self, open_decisions: int) -> float:
        """Return the monotonic time before which no cycle runs."""
        return self._cycles.at(is_full=open_decisions >= self.most_decisions)

    def end_turn(self, open_decisions: int) -> None:
        """Take how much is decided and not written after all was sent that may be."""
        if open_decisions >= self.most_decisions or not self.may_send():
            self.room_at = self._clock.monotonic() + _ROOM_SECONDS

    def gathering_seconds(self, open_decisions: int) -> float:
        """Return the least time between the starts of two turns, so that messages gather."""
        return _GATHERING_SECONDS if open_decisions >= self.most_decisions else 0.0


class _Mark(NamedTuple):
    """A status that is to be written, and since when."""

    at: float
    number: int
    key: QueueKey


class StatusQueue:
    """Queue statuses that are to be written, each at most once in an interval.

    While more are marked than 50 a second would allow, the interval grows, up to twice.
    Times are seconds of the monotonic clock. A key that is marked either rests, until its
    interval is over, or waits; those that wait are kept in the order in which they were marked,
    so that to look for what is due costs as much as there is.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._stretched = interval_seconds
        self._numbers = count()
        self._marks: dict[QueueKey, _Mark] = {}
        self._next: dict[QueueKey, float] = {}
        self._waiting: list[_Mark] = []
        self._resting: list[tuple[float, _Mark]] = []
        """A heap by the end of the rest; some are unmarked since."""

    def mark(self, key: QueueKey, now: float) -> None:
        """Mark an object whose status may have changed."""
        if key not in self._marks:
            self._add(key, now, now)

    def forget(self, key: QueueKey) -> None:
        """Forget an object that is gone."""
        self._remove(key)
        self._next.pop(key, None)

    def due(self, now: float, room_at: float) -> list[QueueKey]:
        """Return marked keys whose turn has come, in the order in which they were marked.

        Args:
            now: the present.
            room_at: time from which statuses follow each change; one that was marked two seconds
                ago does not wait for it.
        """
        interval = max(self._interval, len(self._marks) / _MANY_A_SECOND)
        self._stretched = min(interval, _LONGEST_STRETCH * self._interval)
        while self._resting and self._resting[0][0] <= now:
            _, mark = heapq.heappop(self._resting)
            if self._marks.get(mark.key) == mark:
                insort(self._waiting, mark)
        last = len(self._waiting)
        if now < room_at:
            last = bisect_right(self._waiting, now, key=_waits_until)
        return [mark.key for mark in self._waiting[:last]]

    def take(self, key: QueueKey, now: float) -> None:
        """Unmark a key; its next turn is after the interval."""
        self._remove(key)
        self._next[key] = now + self._stretched

    def postpone(self, key: QueueKey, now: float) -> None:
        """Give a key its next turn after the interval; it waits from when it was marked."""
        self._next[key] = now + self._stretched
        marked = self._remove(key)
        if marked is not None:
            self._add(key, marked.at, now)

    def next_due(self, room_at: float) -> float | None:
        """Return when there may be something due; None when nothing is marked."""
        moments = [end for end, _ in self._resting[:1]]
        if self._waiting:
            first = self._waiting[0]
            moments.append(max(first.at, min(_waits_until(first), room_at)))
        return min(moments, default=None)

    def _add(self, key: QueueKey, marked_at: float, now: float) -> None:
        mark = self._marks[key] = _Mark(marked_at, next(self._numbers), key)
        rests_until = self._next.get(key, now)
        if rests_until <= now:
            insort(self._waiting, mark)
        else:
            heapq.heappush(self._resting, (rests_until, mark))

    def _remove(self, key: QueueKey) -> _Mark | None:
        """Unmarks a key; where it rests it is passed over when the rest is over."""
        mark = self._marks.pop(key, None)
        if mark is not None:
            place = bisect_left(self._waiting, mark)
            if self._waiting[place : place + 1] == [mark]:
                del self._waiting[place]
        return mark


def _waits_until(mark: _Mark) -> float:
    """Return when it stops waiting for room."""
    return mark.at + _PATIENCE_SECONDS


class EventPace:
    """Fifty events at once, and five a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent_until_ms = 0

    @property
    def room_at(self) -> float:
        """Monotonic time from which there is room for another event."""
        return (self._spent_until_ms - (_EVENTS_AT_ONCE - 1) * _EVENT_MS) / 1000

    def has_room(self) -> bool:
        """Return whether another event may be written."""
        return self._now_ms() >= self._spent_until_ms - (_EVENTS_AT_ONCE - 1) * _EVENT_MS

    def spend(self) -> None:
        """Take that one is written."""
        self._spent_until_ms = max(self._spent_until_ms, self._now_ms()) + _EVENT_MS

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class RepeatedEvents(Events):
    """Pass on events while there is room for them; leave out and count further ones.

    They say again what a condition says (ADR 0067).
    """

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events = events
        self._pace = EventPace(clock)

    @override
    def event(self, regarding: Mapping[str, Any], event: Event) -> None:
        """Record one event, or leave it out."""
        if not self._pace.has_room():
            metrics.EVENTS_LEFT_OUT.inc()
            return
        self._pace.spend()
        self._events.event(regarding, event)
