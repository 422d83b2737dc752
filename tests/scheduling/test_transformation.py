"""What quota is charged for the requests of a pod."""

from typing import Any

import pytest

from admission.base import quantity
from admission.scheduling import transformation
from admission.scheduling.transformation import Transformation, TransformationRules


def nanos(**amounts: Any) -> dict[str, int]:
    return {r.replace("_", "."): quantity.parse_nano(str(v)) for r, v in amounts.items()}


def test_excluded_prefixes_are_not_counted():
    rules = TransformationRules(excluded_prefixes=("example.com/",))

    counted = transformation.counted({"example.com/a": 10**9, "cpu": 10**9}, rules)

    assert counted == {"cpu": 1000}


MIG = {
    "mig": Transformation(outputs=nanos(memory="5Gi", credits=10), keep=False),
    "gpu": Transformation(outputs=nanos(credits=60)),
}


@pytest.mark.parametrize(
    ("rules", "asked", "expected"),
    [
        (MIG, nanos(mig=2, cpu=1), {"cpu": 1000, "memory": 10 << 30, "credits": 20}),
        (MIG, nanos(gpu=1, mig=1), {"gpu": 1, "memory": 5 << 30, "credits": 70}),
        (MIG, nanos(mig=1, memory="1Gi"), {"memory": 6 << 30, "credits": 10}),
        ({"gpu": Transformation(keep=False)}, nanos(gpu=3, cpu=1), {"cpu": 1000}),
        (
            {"gpu": Transformation(outputs=nanos(credits="500m"), multiply_by="cpu")},
            nanos(gpu=2, cpu=3),
            {"gpu": 2, "cpu": 3000, "credits": 3},
        ),
        (
            {"gpu": Transformation(outputs=nanos(credits=2), multiply_by="absent")},
            nanos(gpu=2),
            {"gpu": 2, "credits": 4},
        ),
        (
            {
                "a": Transformation(outputs=nanos(x=-5), keep=False),
                "b": Transformation(outputs=nanos(x=3), keep=False),
            },
            nanos(a=1, b=1),
            {"x": 0},
        ),
    ],
    ids=[
        "replaced by outputs",
        "kept beside its outputs",
        "outputs add to what is asked",
        "replaced by nothing",
        "multiplied by another request",
        "a missing multiplier is one",
        "outputs never fall below nothing",
    ],
)
def test_transformations(rules, asked, expected):
    assert transformation.counted(asked, TransformationRules(transformations=rules)) == expected
