"""What quota is charged for the requests of one pod: transformations and excluded prefixes.

Amounts come in as nano units (exact integers of 1e-9) and leave as canonical integers. The
requests themselves are computed in ``base.pod_resources``.

Source: kueue pkg/resources/requests.go, KEP 2937 (transformations).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from admission.base import amount, quantity
from admission.base.names import ResourceName

NANO: Final = 10**9
_CPU_UNIT: Final = 10**6  # one milli-CPU in nano units

Nanos = Mapping[str, int]
"""Amounts per resource in units of 1e-9; a missing key is no request, which is not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """How a requested resource is counted as others.

    Attributes:
        outputs: amount of each output for one unit of the input, in units of 1e-9; may be
            negative.
        keep: whether the input is counted, too.
        multiply_by: a resource whose request multiplies the outputs; empty for none.
    """

    outputs: Nanos = field(default_factory=dict)
    keep: bool = True
    multiply_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformationRules:
    """Settings that change what is counted.

    Attributes:
        excluded_prefixes: resources whose names start so are not counted.
        transformations: by input resource.
        device_classes: the resource as which the devices of a DeviceClass are counted.
    """

    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    device_classes: Mapping[str, str] = field(default_factory=dict)


NO_RULES: Final = TransformationRules()


def counted(requests: Nanos, rules: TransformationRules = NO_RULES) -> dict[ResourceName, int]:
    """Return what quota is charged for one pod, in canonical units, negatives floored to 0.

    Args:
        requests: of the pod, in units of 1e-9.
        rules: settings that change what is counted.
    """
    kept = {r: v for r, v in requests.items() if not r.startswith(rules.excluded_prefixes)}
    if not rules.excluded_prefixes:
        kept = dict(requests)
    exact = _transformed(kept, rules.transformations)
    return {ResourceName(r): max(0, _canonical(r, value)) for r, value in exact.items()}


def _transformed(
    requests: Nanos, transformations: Mapping[str, Transformation]
) -> Mapping[str, int | Fraction]:
    if transformations.keys().isdisjoint(requests):
        return requests
    retained: dict[str, Fraction] = {}
    generated: dict[str, Fraction] = {}
    for resource, value in requests.items():
        rule = transformations.get(resource)
        if rule is None or rule.keep:
            retained[resource] = Fraction(value)
        if rule is not None:
            factor = Fraction(value * requests.get(rule.multiply_by, NANO), NANO)
            for output, per_unit in rule.outputs.items():
                generated[output] = generated.get(output, Fraction(0)) + factor * per_unit / NANO
    for output, amount_made in generated.items():
        retained[output] = retained.get(output, Fraction(0)) + max(amount_made, Fraction(0))
    return retained


def _canonical(resource: str, nano: int | Fraction) -> int:
    """Rounded up to the canonical unit."""
    unit = _CPU_UNIT if resource == quantity.CPU else NANO
    return amount.clamp(-int(-nano // unit))
