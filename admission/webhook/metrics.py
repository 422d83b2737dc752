"""What the webhook measures of itself."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
)  # fmt: skip
"""Seconds: a review takes fractions of a millisecond, and the API server gives up after 5 s."""

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class WebhookMetrics:
    """Counters of one process, in a registry of their own.

    Attributes:
        registry: what ``/metrics`` shows; the application may add to it.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._reviews = Counter(
            "gpu_admission_webhook_reviews_total",
            "Reviews by path and outcome: allowed, patched, denied, malformed, failed.",
            ["path", "outcome"],
            registry=self.registry,
        )
        self._standings = Counter(
            "gpu_admission_webhook_pods_total",
            "Pods under creation by how they stand to quota.",
            ["standing"],
            registry=self.registry,
        )
        self._latency = Histogram(
            "gpu_admission_webhook_review_duration_seconds",
            "Time from the first byte of a review to its answer, without the network.",
            ["path"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._ready = Gauge(
            "gpu_admission_webhook_ready",
            "1 once every watched kind was listed.",
            registry=self.registry,
        )

    def reviewed(self, path: str, outcome: str, seconds: float) -> None:
        """Counts one answered review."""
        self._reviews.labels(path, outcome).inc()
        self._latency.labels(path).observe(seconds)

    def placed(self, standing: str) -> None:
        """Counts one pod under creation."""
        self._standings.labels(standing).inc()

    def exposition(self, *, ready: bool) -> bytes:
        """All metrics in the Prometheus text format."""
        self._ready.set(ready)
        return generate_latest(self.registry)
