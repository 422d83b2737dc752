"""What every test may use: the control plane's fixtures; and how hypothesis draws its examples."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.plugin"]

# The same examples each time and no look at the clock: a busy machine fails nothing. Others are
# drawn by `pytest --hypothesis-profile=search`.
settings.register_profile(
    "guard", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("guard")
