"""Manifests of pods and of what owns pods, small enough to read in a test."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders import jobs
from tests.builders.pods import make_pod

Json = dict[str, Any]


def make_pod_spec(
    gpus: int = 1,
    *,
    resource: str = "nvidia.com/gpu",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, str]] = (),
    gates: Sequence[str] = (),
) -> Json:
    """Return the spec of pods that ask for a CPU and `gpus` of a resource."""
    cpu = {"cpu": "1"}
    pod = make_pod(
        gpus=gpus,
        resource=resource,
        requests=cpu,
        limits=cpu,
        gates=gates,
        nodeSelector=dict(node_selector or {}),
        tolerations=[dict(toleration) for toleration in tolerations],
        terminationGracePeriodSeconds=0,
    )
    return dict(pod["spec"])


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
    pod = {
        "labels": {"app": name, **(labels or {})},
        "annotations": {"controlplane.test/run-for": run_for},
        **spec,
    }
    return jobs.make_job(name, completions, pod=pod)
