"""Tells metrics whether break glass is on, as every controller sees it, also one that waits."""

import math
from typing import Final

from admission.base import logs, metrics
from admission.base.periodic_thread import PeriodicThread
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.kube.connectivity import warn
from admission.objects import broken_glass

_PAUSE_SECONDS: Final = 30.0


class GlassWatch:
    """Looks again and again whether the record of break glass is there."""

    def __init__(self, api: Api, namespace: str) -> None:
        """Know nothing yet.

        Args:
            api: where the record is.
            namespace: of the program.
        """
        self._api = api
        self._namespace = namespace
        self._log = logs.get("glass")
        self._problem = ""
        self._rounds = PeriodicThread("break-glass", self._round, self._failed)

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        metrics.BREAK_GLASS.set(math.nan)
        self._rounds.start()

    def stop(self) -> None:
        """Look no more."""
        self._rounds.stop()

    def step(self) -> None:
        """Look once.

        Where that cannot be seen, the metric is no number: what was so before may be over.
        """
        try:
            self._api.get(resources.CONFIG_MAPS, broken_glass.RECORD, self._namespace)
        except errors.NotFoundError:
            metrics.BREAK_GLASS.set(0)
        except errors.KubeError as error:
            metrics.BREAK_GLASS.set(math.nan)
            if str(error) != self._problem:
                warn(self._log, "not known whether break-glass is on", error)
            self._problem = str(error)
            return
        else:
            metrics.BREAK_GLASS.set(1)
        self._problem = ""

    def _round(self) -> float:
        self.step()
        return _PAUSE_SECONDS

    def _failed(self, error: Exception) -> float:
        self._log.error("not known whether break-glass is on", exc_info=error)
        return _PAUSE_SECONDS
