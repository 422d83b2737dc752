"""The examples for Argo CD and Flux: they render the same each time, and nothing of it drifts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.admin import manifests
from admission.config.derived import Settings
from tests.deploy import helm

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "gitops"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def of_kind(name: str, kind: str) -> dict[str, Any]:
    return next(one for one in documents(name) if one["kind"] == kind)


def argo() -> dict[str, Any]:
    spec: dict[str, Any] = of_kind("argocd.yaml", "Application")["spec"]
    return spec


def flux() -> dict[str, Any]:
    spec: dict[str, Any] = of_kind("flux.yaml", "HelmRelease")["spec"]
    return spec


def bundles() -> Iterator[tuple[str, str, str]]:
    """Kind, name and pointer of each ``caBundle`` that is written after the installation."""
    for part in manifests.base(Settings(), manifests.DEFAULT_IMAGE).values():
        for one in part:
            name = one["metadata"]["name"]
            for number, _ in enumerate(one.get("webhooks", ())):
                yield one["kind"], name, f"/webhooks/{number}/clientConfig/caBundle"
            if one["kind"] == "CustomResourceDefinition" and one["spec"].get("conversion"):
                yield one["kind"], name, "/spec/conversion/webhook/clientConfig/caBundle"


@pytest.mark.controlplane
@pytest.mark.parametrize("tool", ["argo", "flux"])
def test_what_is_rendered_twice_is_the_same(tool: str, tmp_path: Path) -> None:
    values = argo()["source"]["helm"]["valuesObject"] if tool == "argo" else flux()["values"]
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), "utf-8")
    first, second = (helm.template(ROOT / "deploy" / "chart", "-f", str(file)) for _ in "ab")
    assert first == second


def test_every_bundle_that_is_written_later_is_ignored_by_flux() -> None:
    ignored = [
        (one["target"]["kind"], one["target"].get("name"), path)
        for one in flux()["driftDetection"]["ignore"]
        for path in one["paths"]
    ]
    missing = [
        one for one in bundles() if one not in ignored and (one[0], None, one[2]) not in ignored
    ]
    assert missing == [], "add these pointers to deploy/gitops/flux.yaml"


def test_every_bundle_that_is_written_later_is_ignored_by_argo() -> None:
    ignored = {
        (one["kind"], path)
        for one in argo()["ignoreDifferences"]
        for path in one["jqPathExpressions"]
    }
    wanted = {
        (kind, ".webhooks[]?.clientConfig.caBundle")
        if pointer.startswith("/webhooks")
        else (kind, ".spec.conversion.webhook.clientConfig.caBundle")
        for kind, _, pointer in bundles()
    }
    assert wanted <= ignored
    options = argo()["syncPolicy"]["syncOptions"]
    assert {"ServerSideApply=true", "RespectIgnoreDifferences=true"} <= {*options}


def test_queues_and_workloads_have_health_checks() -> None:
    (found,) = documents("argocd-health.yaml")
    of_argo = {key.rpartition("_")[2] for key in found["data"]}
    exprs = of_kind("flux.yaml", "Kustomization")["spec"]["healthCheckExprs"]
    assert {one["kind"] for one in exprs} == of_argo == {"ClusterQueue", "LocalQueue", "Workload"}
