"""Settings to what `scheduling` takes."""

from typing import Final

from admission.base import quantity
from admission.base.names import ResourceName
from admission.config.settings import QuotaSettings
from admission.scheduling import model, transformation

_HEADS_PER_CYCLE: Final = 200
"""Bounds the time of one cycle where there are many queues; their trees take turns."""


def engine_config(quota: QuotaSettings) -> model.Config:
    """Return what changes decisions."""
    found, fair = quota.admission_fair_sharing, quota.fair_strategies
    return model.Config(
        fair_sharing=None
        if fair is None
        else model.FairSharing(strategies=tuple(model.FairStrategy(one) for one in fair)),
        admission_fair_sharing=None
        if found is None
        else model.AdmissionFairSharing(
            half_life_us=found.half_life_us,
            sampling_us=found.sampling_us,
            weights={
                ResourceName(name): quantity.parse_nano(weight)
                for name, weight in found.weights.items()
            },
        ),
        ignore_undeclared=quota.ignore_undeclared,
        requeue_by_eviction=quota.requeue_by_eviction,
        one_at_a_time=quota.one_at_a_time,
        paused=quota.paused,
        heads_per_cycle=_HEADS_PER_CYCLE,
    )


def rules(quota: QuotaSettings) -> transformation.Rules:
    """What changes how requests are counted."""
    return transformation.Rules(
        excluded_prefixes=quota.excluded_prefixes,
        transformations={
            one.input: transformation.Transformation(
                outputs={name: quantity.parse_nano(text) for name, text in one.outputs.items()},
                keep=one.keep,
                multiply_by=one.multiply_by,
            )
            for one in quota.transformations
        },
        device_classes=quota.device_classes,
    )
