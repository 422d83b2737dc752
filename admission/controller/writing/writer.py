"""Sends writes and finds out what became of each, from a pool of threads.

A write whose answer got lost is sent again. That is safe because each carries a precondition: if
the first one took effect, the second is refused as a conflict, and reading the object tells.
"""

import math
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from admission.base import logs, metrics
from admission.base.clock import Clock
from admission.controller.writing.api_requests import ApiRequest, RequestResult, Result, Verb
from admission.kube import errors
from admission.kube.api import Api
from admission.kube.connectivity import warn

LeadershipCheck = Callable[[], bool]
"""Whether a request sent now would end while this process may still write."""

_REFUSALS: Final = (
    errors.BadRequestError,
    errors.UnauthorizedError,
    errors.ForbiddenError,
    errors.InvalidError,
)
_ATTEMPTS: Final = 4
_BACKOFF_SECONDS: Final = (0.05, 0.1, 0.2, 0.5)
_LONGEST_PAUSE_SECONDS: Final = 5.0
_FENCE_SECONDS: Final = 0.05
_SLOW_SECONDS: Final = 1.0
"""A server that did not answer for so long is busy: more requests would not help, and a watch may
tell what became of this one."""


class Writer(Protocol):
    """Takes writes; each one's outcome is reported once, from any thread."""

    def submit(self, request: ApiRequest) -> None:
        """Queue the write to be sent soon."""
        ...


class Sender:
    """Sends writes and tells what is known of each afterwards."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        stopping: threading.Event,
        fence: LeadershipCheck = lambda: True,
    ) -> None:
        self._api = api
        self._clock = clock
        self._stopping = stopping
        self._fence = fence
        self._unknown_at = -math.inf
        self._log = logs.get("writer")

    @property
    def unknown_at(self) -> float:
        """Monotonic time when a request last ended without telling whether it took effect.

        The API server may still work on that one.
        """
        return self._unknown_at

    def note_unknown(self) -> None:
        """Take a request of which nobody can tell whether it took effect."""
        self._unknown_at = self._clock.monotonic()

    def send(self, request: ApiRequest) -> RequestResult:
        """Send the write, with a few retries if needed; never raises for what a server can do."""
        for attempt in range(_ATTEMPTS):
            if not self._may_write():
                return RequestResult(request=request, result=Result.DROPPED)
            started = self._clock.monotonic()
            try:
                outcome = self._attempt(request)
            except errors.KubeError as error:
                if error.outcome_unknown:
                    self.note_unknown()
                is_slow = self._clock.monotonic() - started >= _SLOW_SECONDS
                self._log_failure(request, _ATTEMPTS - 1 if is_slow else attempt, error)
                if is_slow:
                    break
                self._pause(error, attempt)
                continue
            outcome = replace(outcome, seconds=self._clock.monotonic() - started)
            _observe(outcome)
            return outcome
        return RequestResult(request=request, result=Result.UNKNOWN)

    def _may_write(self) -> bool:
        """Waits until the fence is open; false once the process stops."""
        while not self._fence():
            if self._stopping.wait(_FENCE_SECONDS):
                return False
        return not self._stopping.is_set()

    def _attempt(self, request: ApiRequest) -> RequestResult:
        try:
            return RequestResult(
                request=request, result=Result.DONE, object=self._request(request)
            )
        except (errors.ConflictError, errors.AlreadyExistsError):
            return self._after_conflict(request)
        except errors.NotFoundError as error:
            if request.verb is Verb.CREATE:  # its namespace is gone, which may come back
                return RequestResult(request=request, result=Result.REFUSED, error=error)
            return RequestResult(request=request, result=Result.GONE)
        except _REFUSALS as error:
            return RequestResult(request=request, result=Result.REFUSED, error=error)

    def _request(self, request: ApiRequest) -> Any:
        match request.verb:
            case Verb.READ:
                return self._api.get(
                    request.resource, request.name, request.namespace, into=request.into
                )
            case Verb.CREATE:
                return self._api.create(
                    request.resource, request.document or {}, request.namespace, into=request.into
                )
            case Verb.REPLACE:
                return self._api.replace(
                    request.resource, request.document or {},
                    subresource=request.subresource, into=request.into,
                )  # fmt: skip
            case Verb.PATCH:
                assert request.patch is not None
                return self._api.patch(
                    request.resource, request.name, request.patch, request.namespace,
                    subresource=request.subresource, into=request.into,
                )  # fmt: skip
            case Verb.DELETE:
                self._api.delete(
                    request.resource, request.name, request.namespace,
                    uid=request.uid, resource_version=request.version,
                    propagation=request.propagation or None,
                )  # fmt: skip
                return None

    def _after_conflict(self, request: ApiRequest) -> RequestResult:
        try:
            document = self._api.get(
                request.resource, request.name, request.namespace, into=request.into
            )
        except errors.NotFoundError:
            return RequestResult(request=request, result=Result.GONE)
        return RequestResult(request=request, result=Result.CONFLICT, object=document)

    def _log_failure(self, request: ApiRequest, attempt: int, error: errors.KubeError) -> None:
        """Only the last of several attempts is logged; nearly always one of the next succeeds."""
        fields = {
            "operation": request.operation.value,
            "namespace": request.namespace,
            "name": request.name,
        }
        if attempt == _ATTEMPTS - 1:
            warn(self._log, "write failed, will retry", error, **fields)
        else:
            self._log.debug("write failed, will retry", error=str(error), **fields)

    def _pause(self, error: errors.KubeError, attempt: int) -> None:
        asked_seconds = error.retry_after if isinstance(error, errors.ApiError) else None
        if errors.is_unavailable(error):
            asked_seconds = None  # a server that starts asks to wait for longer than it takes
        pause = _BACKOFF_SECONDS[attempt] if asked_seconds is None else asked_seconds
        self._stopping.wait(min(pause, _LONGEST_PAUSE_SECONDS))


class WriterPool:
    """Threads that send writes and report outcomes; one more is started while all are busy."""

    def __init__(
        self, sender: Sender, report: Callable[[RequestResult], None], *, threads: int
    ) -> None:
        """Prepare a pool of up to so many threads."""
        self._log = logs.get("writer")
        self._sender = sender
        self._report = report
        self._queue: queue.SimpleQueue[ApiRequest | None] = queue.SimpleQueue()
        self._most = threads
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._is_started = False

    def start(self) -> None:
        """Begin to send what was submitted."""
        self._is_started = True
        for _ in range(min(self._queue.qsize(), self._most)):
            self._start_thread()

    def _start_thread(self) -> None:
        name = f"writer-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def submit(self, request: ApiRequest) -> None:
        """Send the write as soon as a thread is free; called by one thread."""
        self._queue.put(request)
        if self._idle.acquire(blocking=False) or not self._is_started:
            return
        if len(self._threads) < self._most:
            self._start_thread()

    def stop(self, timeout_seconds: float) -> bool:
        """End the threads after what was submitted; writes not yet sent are dropped.

        Returns:
            Whether all threads have ended, so that none waits for an answer.
        """
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout_seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (request := self._next()) is not None:
            self._report(self._sent(request))

    def _next(self) -> ApiRequest | None:
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            self._idle.release()
            return self._queue.get()

    def _sent(self, request: ApiRequest) -> RequestResult:
        """Sends a write; whatever goes wrong, its lane must not stay taken for ever."""
        try:
            return self._sender.send(request)
        except Exception:  # noqa: BLE001  # the thread must live on
            self._sender.note_unknown()
            self._log.exception(
                "writer failed", purpose=request.operation.value, name=request.name
            )
            return RequestResult(request=request, result=Result.UNKNOWN)


def _observe(outcome: RequestResult) -> None:
    labels = outcome.request.operation.value, outcome.result.name.lower()
    metrics.WRITE_DURATION_SECONDS.labels(*labels).observe(outcome.seconds)
