"""What a configuration file says about sick GPUs."""

import pytest

from admission.config.derived import Settings
from admission.config.reading import ConfigurationError
from admission.gpu.health import BAD_CONDITIONS, HealthPolicy
from tests.config import files

HEALTH = files.gpu(
    health={
        "ignoredXids": [13, 109],
        "reportedXids": [],
        "nodeConditions": {"GpuProblem": "True", "GpuReady": "False"},
        "label": "example.com/gpu",
        "hotCelsius": 90,
        "coolCelsius": 80,
        "lossGrace": "5m",
        "gainGrace": "10s",
    }
)


def test_what_is_not_set_is_as_shipped():
    assert Settings().gpu.health.policy == HealthPolicy()
    label = files.settings(files.gpu(health={"label": "sick"})).gpu.health
    assert label.policy.bad_conditions == BAD_CONDITIONS


def test_req_11_polarity_and_req_12_errors_are_what_the_file_says():
    assert files.settings(HEALTH).gpu.health.policy == HealthPolicy(
        ignored_xids=frozenset({13, 109}),
        reported_xids=frozenset(),
        bad_conditions={"GpuProblem": "True", "GpuReady": "False"},
        health_label="example.com/gpu",
        hot_celsius=90,
        cool_celsius=80,
        loss_grace_us=300_000_000,
        gain_grace_us=10_000_000,
    )


def test_what_is_shown_gives_the_same_settings():
    settings = files.settings(HEALTH)
    assert files.settings(*settings.documents()) == settings


def test_a_device_must_cool_down_below_where_it_is_too_hot():
    with pytest.raises(ConfigurationError, match=r"health\.coolCelsius: 96 must not be above"):
        files.settings(files.gpu(health={"coolCelsius": 96}))
