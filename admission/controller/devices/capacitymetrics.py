"""Gauges of GPUs per flavor; a series goes with its flavor or resource."""

from collections.abc import Mapping

from prometheus_client import Gauge

from admission.base import metrics
from admission.controller.devices.capacity import Amounts, GpuCapacity
from admission.gpu import resources
from admission.gpu.capacity import Fragmentation


class Publisher:
    """Sets the gauges, and removes the series that it set before and are not any more."""

    def __init__(self) -> None:
        self._series: dict[Gauge, set[tuple[str, str]]] = {}

    def publish(
        self,
        capacities: Mapping[str, GpuCapacity],
        fragments: Mapping[str, Mapping[str, Fragmentation]],
    ) -> None:
        """Publish the metrics of all flavors as they are now."""
        self._set(
            metrics.FLAVOR_MISMATCHED,
            {flavor: capacity.mismatched for flavor, capacity in capacities.items()},
        )
        self._set(
            metrics.FLAVOR_CARDS,
            {flavor: capacity.cards for flavor, capacity in capacities.items()},
        )
        self._set(
            metrics.FRAGMENTATION_STRANDED,
            {flavor: capacity.stranded for flavor, capacity in capacities.items()},
        )
        pieces = fragments.items()
        self._set(
            metrics.FLAVOR_CAPACITY,
            {flavor: capacity.healthy for flavor, capacity in capacities.items()},
        )
        self._set(
            metrics.FLAVOR_SICK,
            {flavor: _devices(capacity.sick) for flavor, capacity in capacities.items()},
        )
        self._set(
            metrics.FLAVOR_UNMANAGED,
            {flavor: capacity.outside for flavor, capacity in capacities.items()},
        )
        self._set(
            metrics.FLAVOR_REAL, {flavor: capacity.real for flavor, capacity in capacities.items()}
        )
        self._set(
            metrics.FRAGMENTATION_FREE,
            {
                f: {r: piece.free for r, piece in pieces_of_flavor.items()}
                for f, pieces_of_flavor in pieces
            },
        )
        self._set(
            metrics.FRAGMENTATION_LARGEST_HOLE,
            {
                f: {r: piece.largest for r, piece in pieces_of_flavor.items()}
                for f, pieces_of_flavor in pieces
            },
        )

    def _set(self, gauge: Gauge, amounts: Mapping[str, Amounts]) -> None:
        before, now = self._series.get(gauge, set()), set()
        for flavor, amounts_of_flavor in amounts.items():
            for resource, value in amounts_of_flavor.items():
                gauge.labels(flavor, resource).set(value)
                now.add((flavor, resource))
        for labels in before - now:
            gauge.remove(*labels)
        self._series[gauge] = now


def _devices(amounts: Amounts) -> Amounts:
    return {name: value for name, value in amounts.items() if resources.is_device(name)}
