"""Configuration files for tests."""

from typing import Any

import yaml

from admission.config import reading
from admission.config.derived import Settings
from admission.config.reading import Effective

V1BETA1 = "config.kueue.x-k8s.io/v1beta1"
V1BETA2 = "config.kueue.x-k8s.io/v1beta2"


def kueue(version: str = V1BETA2, **fields: Any) -> dict[str, Any]:
    """Kueue's document."""
    return {"apiVersion": version, "kind": "Configuration", **fields}


def gpu(**fields: Any) -> dict[str, Any]:
    """Our document."""
    return {
        "apiVersion": "config.gpu-admission.dev/v1alpha1",
        "kind": "GpuConfiguration",
        **fields,
    }


def effective(*documents: dict[str, Any]) -> Effective:
    """What a file with these documents means."""
    return reading.read(yaml.safe_dump_all(documents), "file.yaml")


def settings(*documents: dict[str, Any]) -> Settings:
    """The settings of a file with these documents."""
    return effective(*documents).settings


def unused(*documents: dict[str, Any]) -> list[str]:
    """Paths of the file's fields without effect."""
    return [one.path for one in effective(*documents).unused]


def problems(*documents: dict[str, Any]) -> tuple[str, ...]:
    """What is wrong with a file."""
    try:
        effective(*documents)
    except reading.ConfigurationError as error:
        return error.problems
    return ()
