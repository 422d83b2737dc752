"""Reviews that are asked for while a version runs or is replaced."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from admission.base.clock import SystemClock
from tests.builders.pods import make_pod
from tests.controlplane.rest import Json, RestError
from tests.integration.installed import Installed
from tests.upgrade.judge import is_gated

_CLIENTS: Final = 2


@dataclass
class Load:
    """Reviews that are asked for all the while.

    Attributes:
        asked: how many.
        failed: what was said where one failed.
        slowest: seconds of the slowest one.
    """

    asked: int = 0
    failed: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @contextmanager
    def on(self, system: Installed, namespace: str) -> Iterator[None]:
        """Creates pods as dry runs, with several clients, inside the block."""
        over, lock = threading.Event(), threading.Lock()
        clock = SystemClock()
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

        def ask() -> None:
            while not over.wait(0.02):
                began = clock.monotonic()
                problem = _problem(lambda: system.api.post(path, make_pod("asked", gpus=1)))
                with lock:
                    self.asked += 1
                    self.slowest = max(self.slowest, clock.monotonic() - began)
                    self.failed += [problem] if problem else []

        threads = [threading.Thread(target=ask) for _ in range(_CLIENTS)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            over.set()
            for one in threads:
                one.join()


def _problem(create: Callable[[], Json]) -> str:
    """What is wrong with the review of a pod; empty for nothing."""
    try:
        made = create()
    except (OSError, RestError) as failure:
        return str(failure)
    return "" if is_gated(made) else "a pod was not gated"
