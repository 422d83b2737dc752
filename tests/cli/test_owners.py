"""Kinds of owners from a configuration file: validated, and tried on a sample."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from admission.admin import manifests
from admission.cli.main import main
from admission.owners import integrations
from tests.config import files
from tests.config.files import gpu
from tests.owners.samples import RUN

SAMPLE = """
apiVersion: example.com/v1
kind: TrainingRun
metadata: {name: train}
spec:
  leader:
    template: {spec: {containers: [{name: main, image: train}]}}
  groups:
  - name: Workers
    replicas: 3
    template:
      spec:
        containers:
        - name: main
          image: train
          resources: {limits: {nvidia.com/gpu: 4}}
status: {phase: Running, groups: [{active: 2}]}
"""


def check(tmp_path: Path, owners: list[Any], *more: str, sample: str = SAMPLE) -> Result:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(gpu(owners=owners)))
    arguments = ["owners", "check", str(path), "-f", "-", *more]
    return CliRunner().invoke(main, arguments, input=sample)


def test_a_sample_shows_what_is_read_from_it(tmp_path: Path) -> None:
    result = check(tmp_path, [RUN], "-o", "json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert found["framework"] == "example.com/trainingrun"
    assert (found["suspended"], found["active"], found["ready"]) == (False, True, True)
    assert [(one["name"], one["count"], one["path"]) for one in found["pod_sets"]] == [
        ("leader", 1, "spec.leader.template"),
        ("workers", 3, "spec.groups[0].template"),
    ]
    text = check(tmp_path, [RUN]).stdout
    assert "pod set workers: 3 pods from spec.groups[0].template" in text
    assert "each limited to nvidia.com/gpu 4" in text


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ("{apiVersion: x/v1, kind: X, metadata: {name: x}}", "this kind is not configured"),
        (SAMPLE.replace("replicas: 3", "replicas: many"), "must be a whole number, 0 or more"),
        (SAMPLE.replace("name: Workers", "title: Workers"), "spec.groups[0].name: must be a name"),
    ],
)
def test_a_sample_that_lacks_something_is_a_failure(
    tmp_path: Path, sample: str, problem: str
) -> None:
    result = check(tmp_path, [RUN], sample=sample)
    assert result.exit_code == 1
    assert problem in result.stdout


def test_names_in_a_sample_are_shown_as_they_are(tmp_path: Path) -> None:
    sample = SAMPLE.replace("metadata: {name: train}", 'metadata: {name: "[red]x[/] :bomb:"}')
    text = check(tmp_path, [RUN], sample=sample).stdout
    assert text.startswith("example.com/v1 TrainingRun [red]x[/] :bomb:: example.com/trainingrun")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"apiVersion": "batch/v1"}, "kinds of Kubernetes cannot be added"),
        ({"suspend": "status.paused"}, "owners[0].suspend"),
        ({"podSets": [{"at": "spec.leader"}]}, "must have either name or nameAt"),
        ({"podSets": [{"at": "spec.groups[*]", "name": "a"}]}, "each item of spec.groups[*]"),
        ({"ready": {"condition": "Ready", "path": "status.x"}}, "either condition or path"),
        ({"podSets": []}, "owners[0].podSets"),
        ({"kind": "PyTorchJob"}, "PyTorchJob is a known kind of another group"),
    ],
)
def test_a_wrong_row_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    result = check(tmp_path, [RUN | change])
    assert result.exit_code != 0
    assert problem in result.output


def test_webhooks_and_roles_follow_from_the_file() -> None:
    settings = files.settings(gpu(owners=[RUN]))
    config = {"url": "https://127.0.0.1:9443", "caBundle": "Q0E="}
    named = {
        hook["name"]
        for document in manifests.webhook_configurations(config, settings)
        for hook in document["webhooks"]
    }
    assert {"mtrainingrun.kb.io", "vtrainingrun.kb.io", "ptrainingrun.kb.io"} <= named
    rules = [
        rule
        for document in manifests.roles(settings)
        for rule in document.get("rules", ())
        if rule.get("resources") == ["trainingruns"]
    ]
    assert rules
    assert "system:serviceaccount:training:operator" in integrations.kinds_of(settings).makers


def test_a_row_takes_the_place_of_the_known_one() -> None:
    other = RUN | {"apiVersion": "ray.io/v1", "kind": "RayCluster"}
    rows = integrations.rows_of(files.settings(gpu(owners=[other])))
    (found,) = (one for one in rows if one.kind == "RayCluster")
    assert found.suspend == "spec.control.paused"
