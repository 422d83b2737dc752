"""Follows kinds that a cluster may or may not serve."""

import threading
from typing import Any, Final

from admission.kube.api import Api
from admission.kube.errors import KubeError
from admission.kube.reflector import Reflector

_ASK_AGAIN_SECONDS: Final = 300.0


class OptionalWatch:
    """Starts a reflector once its kind is served; asks quietly until then."""

    def __init__(self, api: Api, reflector: Reflector[Any]) -> None:
        self._api = api
        self._reflector = reflector
        self._stopping = threading.Event()
        name = f"optional-{reflector.resource.plural}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Asks in a thread of its own, and follows in the same."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it at once."""
        self._stopping.set()
        self._reflector.stop()

    def is_served(self) -> bool:
        """Whether the kind can be listed now."""
        try:
            self._api.list(self._reflector.resource, limit=1)
        except KubeError:
            return False
        return True

    def _run(self) -> None:
        while not self.is_served():
            if self._stopping.wait(_ASK_AGAIN_SECONDS):
                return
        self._reflector.run()
