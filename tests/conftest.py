"""What every test may use: the control plane's fixtures."""

pytest_plugins = ["tests.controlplane.plugin"]
