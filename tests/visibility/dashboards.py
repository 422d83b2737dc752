"""A dashboard with made-up quota, asked as a browser asks it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from admission.base.names import (
    ClusterQueueName,
    CohortName,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    ResourceName,
)
from admission.kube.resources import Resource
from admission.run.pages import PageServer
from admission.scheduling.model import ResourceQuota
from admission.scheduling.overview import Amounts, CohortOverview, Overview, QueueOverview
from admission.visibility.dashboard import app, sessions
from tests.clocks import FakeClock
from tests.visibility.builders import Lines, line, waiting

GPU = ResourceName("nvidia.com/gpu")
TOKEN = "good"


def on(flavor: str, amount: int, resource: str = GPU) -> dict[FlavorResource, int]:
    """An amount of one flavor."""
    return {FlavorResource(FlavorName(flavor), ResourceName(resource)): amount}


def queue(
    name: str,
    cohort: str = "",
    nominal: int = 8,
    used: int = 4,
    *,
    amounts: Amounts | None = None,
    **more: Any,
) -> QueueOverview:
    """A queue with a quota of one flavor."""
    values: dict[str, Any] = {
        "quotas": {pair: ResourceQuota(nominal=one) for pair, one in on("a100", nominal).items()},
        "used": on("a100", used) if amounts is None else amounts,
        "leaving": {},
        "holding": used,
        "pending": 0,
        "requested": {},
        "active": True,
        **more,
    }
    return QueueOverview(name=ClusterQueueName(name), cohort=cohort, **values)


def cohort(name: str, parent: str = "", nominal: int = 0) -> CohortOverview:
    """A cohort, with or without a quota of its own."""
    quotas = {pair: ResourceQuota(nominal=one) for pair, one in on("a100", nominal).items()}
    return CohortOverview(name=CohortName(name), parent=parent, quotas=quotas if nominal else {})


class Reviews:
    """Knows one token; its owner may what is listed, as ``verb plural [namespace]``."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.asked: list[str] = []

    def create(self, resource: Resource, obj: Mapping[str, Any], /) -> dict[str, Any]:
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            return {
                "status": {"authenticated": spec["token"] == TOKEN, "user": {"username": "ann"}}
            }
        found = spec["resourceAttributes"]
        parts = (found["verb"], found["resource"], found.get("namespace"), found.get("name"))
        self.asked.append(" ".join(part for part in parts if part))
        return {"status": {"allowed": self.asked[-1] in self.allowed}}


class Known(Lines):
    """What the controller knows."""

    def __init__(self) -> None:
        members = [waiting(f"train-{number}", at=number) for number in range(3)]
        found = line(*members)
        super().__init__({ClusterQueueName("research"): found, LocalQueueKey("ml", "team"): found})
        self.found = Overview(
            (
                queue("research", "gpus", 8, 12, pending=3, requested={GPU: 24}),
                queue("serving", "gpus", 8, 2, leaving=on("a100", 2)),
                queue("lab", active=False),
            ),
            (cohort("gpus"),),
        )

    def overview(self) -> Overview:
        return self.found


class Dashboard:
    """The application and what it is made from."""

    def __init__(self, *allowed: str) -> None:
        self.reviews = Reviews(*allowed)
        self.known = Known()
        self.app = app.create_app(self.known, self.reviews, FakeClock(), is_secure=False)
        self.client = self.app.test_client()

    def sign_in(self) -> "Dashboard":
        """The same, with the cookie of the one who is known."""
        self.client.set_cookie(sessions.COOKIE, TOKEN)
        return self

    def text(self, path: str) -> str:
        """The page of an address."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)


@contextmanager
def served(board: Dashboard) -> Iterator[str]:
    """Serves a dashboard; gives the address of its first page."""
    server = PageServer(board.app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def everything() -> Iterable[str]:
    """What one may who may see all."""
    return ("list clusterqueues", "list cohorts")
