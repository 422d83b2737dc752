"""Settings to what GPU knowledge takes."""

from typing import Final

from admission.config.settings import GpuSettings, HealthSettings
from admission.gpu import catalogue
from admission.gpu.catalogue import Catalogue
from admission.gpu.health import HealthPolicy

_DEFAULT: Final = HealthPolicy()
_SECOND_US: Final = 1_000_000


def catalogue_of(settings: GpuSettings) -> Catalogue:
    """The GPUs that an installation knows: the shipped table and what it adds or replaces.

    Raises:
        InvalidValueError: lists everything that is wrong with the products it adds.
    """
    if not settings.products:
        return catalogue.load()
    return catalogue.load({"version": "configured", "products": settings.products})


def health_policy(settings: HealthSettings) -> HealthPolicy:
    """What an installation takes for sickness; what is not set is as shipped."""
    ignored, reported = settings.ignored_xids, settings.reported_xids
    conditions = settings.node_conditions
    return HealthPolicy(
        ignored_xids=_DEFAULT.ignored_xids if ignored is None else frozenset(ignored),
        reported_xids=_DEFAULT.reported_xids if reported is None else frozenset(reported),
        bad_conditions=_DEFAULT.bad_conditions if conditions is None else dict(conditions),
        health_label=settings.label or _DEFAULT.health_label,
        hot_celsius=_or(settings.hot_celsius, _DEFAULT.hot_celsius),
        cool_celsius=_or(settings.cool_celsius, _DEFAULT.cool_celsius),
        loss_grace_us=_us(settings.loss_grace_seconds, _DEFAULT.loss_grace_us),
        gain_grace_us=_us(settings.gain_grace_seconds, _DEFAULT.gain_grace_us),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _us(seconds: float | None, default: int) -> int:
    return default if seconds is None else round(seconds * _SECOND_US)
