"""GPUs held by pods that are not watched; listed at intervals, as exact timing does not matter.

A watch of all pods of a cluster would cost more than everything else the controller does. A pod
that no queue has admitted is listed at most ``interval_seconds`` after it was bound; only pods
that are bound and have not ended are asked for, page by page.
"""

from collections.abc import Callable
from typing import Final

from admission.base import logs, names
from admission.base.errors import InvalidValueError
from admission.base.rounds import Rounds
from admission.controller.devices.capacity import Amounts
from admission.controller.devices.node_inventory import Listed
from admission.kube import resources
from admission.kube.api import PAGE, Api, every
from admission.kube.connectivity import warn
from admission.kube.errors import KubeError
from admission.objects import pods, views
from admission.objects.resource_claim import ObjectKey

_RETRY_SECONDS: Final = 5.0
_LABELS: Final = f"{names.MANAGED_LABEL}!={names.MANAGED_VALUE},!{names.PODSET_LABEL}"
"""Pods with the other label are watched, and judged one by one."""
_FIELDS: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


def look(api: Api, page_size: int = PAGE) -> Listed:
    """Return the GPUs that pods that are not watched hold now.

    Raises:
        KubeError: a page could not be had.
    """
    claims: set[ObjectKey] = set()
    outside: dict[str, dict[str, int]] = {}
    listed = every(
        api,
        resources.PODS,
        label_selector=_LABELS,
        field_selector=_FIELDS,
        page_size=page_size,
        into=views.Pod,
    )
    for pod in listed:
        _add(outside, pod)
        claims.update(pods.claims_of(pod))
    return Listed(outside, frozenset(claims))


def _add(held: dict[str, dict[str, int]], pod: views.Pod) -> None:
    try:
        amounts: Amounts = pods.held_gpus(pod)
    except InvalidValueError:
        return  # no API server stores such a pod
    for name, amount in amounts.items():
        on_node = held.setdefault(pod.spec.node_name, {})
        on_node[name] = on_node.get(name, 0) + amount


class Lister:
    """Lists these pods at intervals, in a thread of its own, and reports what has changed."""

    def __init__(
        self, api: Api, tell: Callable[[Listed], object], interval_seconds: float
    ) -> None:
        self._api = api
        self._tell = tell
        self._interval = interval_seconds
        self._rounds = Rounds("outside", self._round, self._failed)
        self._log = logs.get("outside")
        self._last: Listed | None = None

    def start(self) -> None:
        """Look at once, and then at intervals."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop looking; does not wait for a request that is under way."""
        self._rounds.stop()

    def look(self) -> bool:
        """Look once; return whether that was possible."""
        try:
            found = look(self._api)
        except KubeError as error:
            warn(self._log, "pods without a queue not counted", error)
            return False
        if found != self._last:
            self._last = found
            self._tell(found)
        return True

    def _round(self) -> float:
        return self._interval if self.look() else min(self._interval, _RETRY_SECONDS)

    def _failed(self, error: Exception) -> float:
        self._log.error("pods without a queue not counted", exc_info=error)
        return self._interval
