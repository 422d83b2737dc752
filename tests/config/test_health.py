"""What a configuration file says about sick GPUs."""

from admission.config.derived import Settings
from admission.gpu.health import BAD_CONDITIONS, HealthPolicy
from tests.config import files

HEALTH = files.gpu(
    health={
        "ignoredXids": [13, 109],
        "reportedXids": [],
        "nodeConditions": {"GpuProblem": "True", "GpuReady": "False"},
        "label": "example.com/gpu",
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
        loss_grace_us=300_000_000,
        gain_grace_us=10_000_000,
    )


def test_what_is_shown_gives_the_same_settings():
    settings = files.settings(HEALTH)
    assert files.settings(*settings.documents()) == settings


def test_a_temperature_is_told_to_have_no_effect() -> None:
    file = files.gpu(health={"hotCelsius": 90, "coolCelsius": 95})
    assert files.settings(file) == Settings()
    assert files.unused(file) == ["health.coolCelsius", "health.hotCelsius"]
    (why,) = {field.why for field in files.effective(file).unused}
    assert "nothing that gpu-admission reads tells a temperature" in why
