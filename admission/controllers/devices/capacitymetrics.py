"""Gauges of GPUs per flavor; a series goes with its flavor or resource."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import Gauge

from admission.controllers.devices.capacity import Amounts, Stock
from admission.gpu.capacity import Fragmentation

_LABELS: Final = ("flavor", "resource")
_CAPACITY: Final = Gauge(
    "gpu_admission_flavor_capacity", "Healthy GPUs of the flavor's nodes, by resource.", _LABELS
)
_SICK: Final = Gauge(
    "gpu_admission_flavor_sick", "GPUs of the flavor's nodes that cannot be used.", _LABELS
)
_OUTSIDE: Final = Gauge(
    "gpu_admission_flavor_unmanaged", "GPUs held by pods that no queue admitted.", _LABELS
)
_REAL: Final = Gauge(
    "gpu_admission_flavor_real", "GPUs that admitted pods have or can have.", _LABELS
)
_MISMATCHED: Final = Gauge(
    "gpu_admission_flavor_mismatched",
    "Devices of which a node's labels and its capacity disagree whether they exist.",
    _LABELS,
)
_CARDS: Final = Gauge(
    "gpu_admission_flavor_cards", "GPUs in the machines, however cut or shared.", _LABELS
)
_FREE: Final = Gauge("gpu_admission_fragmentation_free", "Healthy GPUs held by nobody.", _LABELS)
_LARGEST: Final = Gauge(
    "gpu_admission_fragmentation_largest_hole", "The most of them on one node.", _LABELS
)
_STRANDED: Final = Gauge(
    "gpu_admission_fragmentation_stranded",
    "Slices of MIG GPUs that belong to no instance and that no profile can use.",
    _LABELS,
)


class Publisher:
    """Sets the gauges, and removes the series that it set before and are not any more."""

    def __init__(self) -> None:
        self._series: dict[Gauge, set[tuple[str, str]]] = {}

    def publish(
        self,
        stocks: Mapping[str, Stock],
        fragments: Mapping[str, Mapping[str, Fragmentation]],
    ) -> None:
        """Shows all flavors as they are now."""
        self._set(_MISMATCHED, {flavor: stock.mismatched for flavor, stock in stocks.items()})
        self._set(_CARDS, {flavor: stock.cards for flavor, stock in stocks.items()})
        self._set(_STRANDED, {flavor: stock.stranded for flavor, stock in stocks.items()})
        pieces = fragments.items()
        self._set(_CAPACITY, {flavor: stock.healthy for flavor, stock in stocks.items()})
        self._set(_SICK, {flavor: stock.sick for flavor, stock in stocks.items()})
        self._set(_OUTSIDE, {flavor: stock.outside for flavor, stock in stocks.items()})
        self._set(_REAL, {flavor: stock.real for flavor, stock in stocks.items()})
        self._set(_FREE, {f: {r: one.free for r, one in found.items()} for f, found in pieces})
        self._set(
            _LARGEST, {f: {r: one.largest for r, one in found.items()} for f, found in pieces}
        )

    def _set(self, gauge: Gauge, amounts: Mapping[str, Amounts]) -> None:
        before, now = self._series.get(gauge, set()), set()
        for flavor, found in amounts.items():
            for resource, value in found.items():
                gauge.labels(flavor, resource).set(value)
                now.add((flavor, resource))
        for labels in before - now:
            gauge.remove(*labels)
        self._series[gauge] = now
