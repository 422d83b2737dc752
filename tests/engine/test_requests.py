"""What one pod is charged for."""

from typing import Any

import pytest

from admission.base import quantity
from admission.base.names import ResourceName
from admission.engine import limits, requests
from admission.engine.requests import Container, Pod, Rules, Transformation

CPU = ResourceName("cpu")


def nanos(**amounts: Any) -> dict[str, int]:
    return {r.replace("_", "."): quantity.parse_nano(str(v)) for r, v in amounts.items()}


def box(
    restartable: bool = False, limits: dict[str, Any] | None = None, **amounts: Any
) -> Container:
    return Container(
        requests=nanos(**amounts), limits=nanos(**(limits or {})), restartable=restartable
    )


def millis(pod: Pod) -> int | None:
    return requests.counted(requests.of_pod(pod)).get(CPU)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (Pod(containers=(box(cpu=1), box(cpu=2))), 3000),
        (Pod(containers=(box(cpu=1),), init_containers=(box(cpu=4),)), 4000),
        (Pod(containers=(box(cpu=1),), init_containers=(box(restartable=True, cpu=4),)), 5000),
        (
            Pod(
                containers=(box(cpu=1), box(cpu=2)),
                init_containers=(
                    box(cpu=4),
                    box(restartable=True, cpu="500m"),
                    box(cpu=3),
                ),
                overhead=nanos(cpu="100m"),
            ),
            4100,
        ),
        (Pod(containers=(box(cpu=1),), pod_level=box(cpu=3), overhead=nanos(cpu=1)), 4000),
        (Pod(containers=(box(cpu="1u"),)), 1),
        (Pod(), None),
    ],
    ids=[
        "containers add up",
        "the largest init container counts",
        "sidecars add to the containers",
        "sidecars count for init containers after them, overhead on top",
        "pod-level requests win",
        "a fraction of the unit is a unit",
        "nothing asked, nothing charged",
    ],
)
def test_cpu_of_a_pod(pod, expected):
    assert millis(pod) == expected


def test_pod_level_requests_do_not_hide_devices():
    pod = Pod(containers=(box(nvidia=1),), pod_level=box(cpu=3, nvidia=7))

    assert requests.counted(requests.of_pod(pod)) == {"cpu": 3000, "nvidia": 1}


def test_missing_requests_are_taken_from_limits():
    pod = Pod(containers=(box(limits={"cpu": 2, "memory": "1Gi"}, cpu=1),))

    filled = requests.with_limits_as_requests(pod)

    assert requests.counted(requests.of_pod(filled)) == {"cpu": 1000, "memory": 1 << 30}


def test_excluded_prefixes_are_not_counted():
    rules = Rules(excluded_prefixes=("example.com/",))

    counted = requests.counted({"example.com/a": 10**9, "cpu": 10**9}, rules)

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
    assert requests.counted(asked, Rules(transformations=rules)) == expected


def test_requests_above_limits_are_named():
    pod = Pod(
        containers=(box(cpu=1), box(limits={"cpu": 1, "memory": 1}, cpu=2, memory=2)),
        init_containers=(box(limits={"cpu": 1}, cpu=2),),
        pod_level=box(limits={"cpu": 1}, cpu=2),
    )

    assert limits.violations(pod, "spec") == (
        'spec.initContainers[0]: Invalid value: ["cpu"]: requests must not exceed its limits',
        'spec.containers[1]: Invalid value: ["cpu","memory"]: requests must not exceed its limits',
        'spec.resources: Invalid value: ["cpu"]: requests must not exceed its limits',
    )
