"""Pods of elastic owners that wait: for their owner, or on their own once it has left them."""

from typing import NamedTuple

from admission.base.names import WorkloadKey
from admission.base.tables import Table
from admission.objects import views


class _Waiter(NamedTuple):
    """A pod that its owner may release.

    Attributes:
        pod: as last seen.
        workload: the Workload that it names, which is the first one of its owner.
    """

    pod: views.Pod
    workload: WorkloadKey


class ElasticWaiters:
    """Pods of elastic owners that wait to be released."""

    def __init__(self) -> None:
        """Know of none."""
        self._waiting: Table[str, _Waiter] = Table()
        """Pods that their owner may release, by UID."""
        self._of = self._waiting.index(lambda _, waiter: (waiter.workload,))
        self._left: dict[WorkloadKey, views.Pod] = {}
        """Pods that their owner has left, by the key of a Workload of their own."""

    def put(self, pod: views.Pod, workload: WorkloadKey) -> None:
        """Take a pod that its owner may release.

        Args:
            pod: the pod.
            workload: the Workload that it names.
        """
        self._waiting.put(pod.metadata.uid, _Waiter(pod, workload))

    def drop(self, uid: str) -> None:
        """Take that no owner may release a pod."""
        self._waiting.pop(uid)

    def of(self, workload: WorkloadKey) -> list[views.Pod]:
        """Return the pods that the owner of a first Workload may release."""
        return [self._waiting[uid].pod for uid in self._of.keys(workload)]

    def put_left(self, key: WorkloadKey, pod: views.Pod) -> None:
        """Take a pod that its owner has left, by the key of a Workload of its own."""
        self._left[key] = pod

    def drop_left(self, key: WorkloadKey, uid: str) -> None:
        """Take that a pod does not wait on its own; another one of its name may."""
        pod = self._left.get(key)
        if pod is not None and pod.metadata.uid == uid:
            del self._left[key]

    def left(self, key: WorkloadKey) -> views.Pod | None:
        """Return the pod that waits on its own under a key; None for none."""
        return self._left.get(key)
