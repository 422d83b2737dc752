"""What the webhook measures of itself."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from admission.base import metrics

NO_EXPIRIES: Final[Mapping[str, float]] = MappingProxyType({})
CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class WebhookMetrics:
    """Counts what one process does."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._metrics = metrics.WebhookProcessMetrics(registry)

    @property
    def registry(self) -> CollectorRegistry:
        """Return what ``/metrics`` shows; the application may add to it."""
        return self._metrics.registry

    def reviewed(self, path: str, outcome: str, seconds: float) -> None:
        """Count one answered review."""
        self._metrics.reviews.labels(path, outcome).inc()
        self._metrics.review_duration_seconds.labels(path).observe(seconds)

    def placed(self, standing: str) -> None:
        """Count one pod under creation."""
        self._metrics.pods.labels(standing).inc()

    def exposition(self, *, ready: bool, expiries: Mapping[str, float] = NO_EXPIRIES) -> bytes:
        """Return all metrics in the Prometheus text format.

        Args:
            ready: whether every watched kind was listed.
            expiries: expiry times of certificates, by their role.
        """
        self._metrics.ready.set(ready)
        for certificate, end in expiries.items():
            self._metrics.certificate_expiry.labels(certificate).set(end)
        return generate_latest(self.registry)
