"""Follows kinds that a cluster may or may not serve."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from admission.base import logs
from admission.base.rounds import Rounds
from admission.kube import errors
from admission.kube.api import Api
from admission.kube.reflector import Reflector

_ASK_AGAIN_SECONDS: Final = 60.0
_TRY_AGAIN_SECONDS: Final = 2.0


class OptionalWatch:
    """Starts a reflector once its kind is served; asks quietly until then.

    Attributes:
        reflector: follows the kind once it is served.
        is_absent: the server said that the kind is not to be had, and has not said otherwise.
    """

    def __init__(
        self, api: Api, reflectors: Sequence[Reflector[Any]], absent: Callable[[], None]
    ) -> None:
        """Prepares it; `start` starts it.

        Args:
            api: where the kind may be.
            reflectors: follow it, each in one version; the first that is served is started.
            absent: told once when the kind is not served, or may not be read.
        """
        self._api = api
        self._versions = tuple(reflectors)
        self.reflector = self._versions[0]
        self.is_absent = False
        self._absent = absent
        name = f"optional-{self.reflector.resource.plural}"
        self._rounds = Rounds(name, self._round, self._failed)
        self._log = logs.get("optional").bind(resource=self.reflector.resource.qualified)

    @property
    def is_settled(self) -> bool:
        """Return whether it is known what there is of the kind."""
        return self.is_absent or self.reflector.has_synced

    def start(self) -> None:
        """Asks in a thread of its own, and follows in the same."""
        self._rounds.start()

    def stop(self) -> None:
        """Ends it at once."""
        self._rounds.stop()
        for one in self._versions:
            one.stop()

    def ask(self) -> float | None:
        """Asks whether the kind can be listed; seconds until the next time, None if it can."""
        refusals = []
        for one in self._versions:
            try:
                self._api.list(one.resource, limit=1)
            except (errors.NotFoundError, errors.ForbiddenError) as error:
                refusals.append(str(error))
            except errors.KubeError:
                return _TRY_AGAIN_SECONDS
            else:
                self.reflector = one
                return None
        if not self.is_absent:
            self._log.info("kind not followed", error="; ".join(refusals))
            self._absent()
        self.is_absent = True
        return _ASK_AGAIN_SECONDS

    def _round(self) -> float | None:
        pause = self.ask()
        if pause is None:
            self.is_absent = False
            self.reflector.run()
        return pause

    def _failed(self, error: Exception) -> float:
        self._log.error("asking for the kind failed", exc_info=error)
        return _ASK_AGAIN_SECONDS
