"""Owners that were admitted and that the API server refuses to have started."""

from typing import Final

from admission.base.names import WorkloadKey
from admission.controller.writing.api_requests import RequestResult, Result, WritePurpose
from admission.kube import errors

_STARTS: Final = frozenset({WritePurpose.PREPARE_OWNER, WritePurpose.START_OWNER})


class Refusals:
    """The last refusal of the API server to release each owner, until the owner is released."""

    def __init__(self) -> None:
        """Prepare an empty memory."""
        self._said: dict[WorkloadKey, str] = {}

    def of(self, key: WorkloadKey) -> str:
        """Return the last refusal to start the owner of a Workload; empty if there is none."""
        return self._said.get(key, "")

    def complete(self, key: WorkloadKey, outcome: RequestResult) -> None:
        """Take what came of a write about a Workload or its owner."""
        if outcome.request.operation not in _STARTS:
            return
        if outcome.result is Result.REFUSED and not errors.is_failed_test(outcome.error):
            self._said[key] = str(outcome.error)
        elif outcome.result in {Result.DONE, Result.GONE}:
            self.forget(key)

    def forget(self, key: WorkloadKey) -> None:
        """Take that a Workload is gone, or not admitted any more."""
        self._said.pop(key, None)
