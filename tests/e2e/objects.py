"""Manifests of pods and of what owns pods, small enough to read in a test."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def make_pod_spec(
    gpus: int = 1,
    *,
    resource: str = "nvidia.com/gpu",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, str]] = (),
    gates: Sequence[str] = (),
) -> Json:
    """A pod of one container that wants ``gpus`` devices of a resource."""
    amounts = {"cpu": "1", resource: str(gpus)}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "containers": [{"name": "main", "image": "train", "resources": resources}],
        "nodeSelector": dict(node_selector or {}),
        "tolerations": [dict(toleration) for toleration in tolerations],
        "schedulingGates": [{"name": gate} for gate in gates],
        "terminationGracePeriodSeconds": 0,
    }


def make_pod(name: str, spec: Json, labels: Mapping[str, str] | None = None) -> Json:
    """A pod that nobody owns."""
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def make_deployment(
    name: str, replicas: int, spec: Json, labels: Mapping[str, str] | None = None
) -> Json:
    """A Deployment whose pods carry its name as label ``app``, and more labels if given."""
    template = {"metadata": {"labels": {"app": name, **(labels or {})}}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def make_job(
    name: str,
    completions: int,
    spec: Json,
    *,
    run_for: str = "200ms",
    labels: Mapping[str, str] | None = None,
) -> Json:
    """A Job that runs all its pods at once; each succeeds after ``run_for``."""
    metadata = {
        "labels": {"app": name, **(labels or {})},
        "annotations": {"controlplane.test/run-for": run_for},
    }
    template = {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}
    return {
        "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": completions, "template": template},
    }
