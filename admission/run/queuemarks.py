"""A label on namespaces that have a LocalQueue, for policies of the API server.

A policy sees the labels of a namespace, and not what is in it. So the leader gives namespaces with
a LocalQueue the label ``gpu-admission.dev/has-queue``, and takes it off again
(docs/adr/0006-which-work-is-held.md).
"""

import threading
from collections.abc import Callable
from typing import Final

from admission.base import logs, names, patches
from admission.base.periodic_thread import PeriodicThread
from admission.controller.core import Message, WatchMessage
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.kube.connectivity import warn
from admission.kube.reflector import Arrived, Deleted, Replaced
from admission.objects import views

_PAUSE_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 30.0
_MARK: Final = "true"


class QueueMarks:
    """Tracks the namespaces that have a LocalQueue or the label; the leader corrects the label."""

    def __init__(self, api: Api, may_write: Callable[[], bool]) -> None:
        """Know nothing yet.

        Args:
            api: where the namespaces are.
            may_write: whether this process leads.
        """
        self._api = api
        self._may_write = may_write
        self._log = logs.get("queuemarks")
        self._lock = threading.Lock()
        self._queues: dict[str, set[str]] = {}
        self._labels: dict[str, str | None] = {}
        self._listed: set[str] = set()
        self._is_settled = False
        self._rounds = PeriodicThread("namespace-labels", self._round, self._failed)

    def start(self) -> None:
        """Begin to write, in a thread of its own."""
        self._rounds.start()

    def stop(self) -> None:
        """Write nothing more; do not wait for a request that is under way."""
        self._rounds.stop()

    def on_update(self, message: Message) -> None:
        """Take what a watch saw, from any thread."""
        if not isinstance(message, WatchMessage):
            return
        if message.resource == resources.LOCAL_QUEUES:
            self._see(message, self._see_queue, self._lose_queue, self._queues.clear)
        elif message.resource == resources.NAMESPACES:
            self._see(message, self._see_namespace, self._lose_namespace, self._labels.clear)

    def due(self) -> list[str]:
        """Return the namespaces whose label is wrong, sorted; none before all is known."""
        with self._lock:
            if len(self._listed) < 2:  # noqa: PLR2004 - namespaces and LocalQueues
                return []
            return sorted(
                name
                for name, label in self._labels.items()
                if label != (_MARK if name in self._queues else None)
            )

    def step(self) -> bool:
        """Write what is due; return whether nothing failed that has to be tried again."""
        if self._is_settled or not self._may_write():
            return True
        self._is_settled = True  # until something is seen
        failed = [name for name in self.due() if not self._write(name)]
        if failed:
            self._is_settled = False
        return not failed

    def _write(self, namespace: str) -> bool:
        with self._lock:
            value = _MARK if namespace in self._queues else None
        change = patches.merge({"metadata": {"labels": {names.HAS_QUEUE_LABEL: value}}})
        try:
            self._api.patch(resources.NAMESPACES, namespace, change)
        except errors.NotFoundError:
            pass
        except errors.KubeError as error:
            warn(self._log, "namespace not labelled", error, namespace=namespace)
            return False
        with self._lock:
            if namespace in self._labels:
                self._labels[namespace] = value
        return True

    def _round(self) -> float:
        return _PAUSE_SECONDS if self.step() else _RETRY_SECONDS

    def _failed(self, error: Exception) -> float:
        self._log.error("namespaces not labelled", exc_info=error)
        return _RETRY_SECONDS

    # ------------------------------------------------------------------------------- what is seen

    def _see(
        self,
        message: WatchMessage,
        put: Callable[[views.Object], None],
        drop: Callable[[views.Object], None],
        clear: Callable[[], None],
    ) -> None:
        change = message.change
        if isinstance(change, Arrived):
            return  # it comes again
        with self._lock:
            self._is_settled = False
            if isinstance(change, Replaced):
                clear()
                for item in change.items:
                    put(item)
                self._listed.add(message.resource.plural)
            elif isinstance(change, Deleted):
                drop(change.object)
            else:
                put(change.object)

    def _see_queue(self, queue: views.Object) -> None:
        self._queues.setdefault(queue.metadata.namespace, set()).add(queue.metadata.name)

    def _lose_queue(self, queue: views.Object) -> None:
        namespace = queue.metadata.namespace
        left = self._queues.get(namespace, set())
        left.discard(queue.metadata.name)
        if not left:
            self._queues.pop(namespace, None)

    def _see_namespace(self, namespace: views.Object) -> None:
        labels = namespace.metadata.labels or {}
        self._labels[namespace.metadata.name] = labels.get(names.HAS_QUEUE_LABEL)

    def _lose_namespace(self, namespace: views.Object) -> None:
        self._labels.pop(namespace.metadata.name, None)
