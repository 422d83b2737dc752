"""Templates are plain YAML in which named values are put in, and nothing else."""

import re
from pathlib import Path

import pytest
import yaml

from admission.admin import rendering, webhooks
from admission.base import conditions, names

TEMPLATES = sorted((Path(rendering.__file__).parent / "templates").glob("*.yaml"))
NAMES = {
    value
    for module in (names, conditions)
    for value in vars(module).values()
    if isinstance(value, str)
}
SIZE = re.compile(r"size\([\w.${}]+\) (?:>|<=|==) (\d+)")
OURS = re.compile(r"[\w.]*(?:kueue\.x-k8s\.io|gpu-admission\.dev)/[\w.-]+")


def test_a_scalar_that_is_a_name_takes_the_value_and_its_type() -> None:
    first, _ = rendering.documents("visibility", namespace="quota", port=8082)
    assert first["spec"]["service"]["port"] == 8082
    assert first["spec"]["service"]["namespace"] == "quota"


def test_a_rendered_document_is_nobody_elses() -> None:
    first, _ = rendering.documents("visibility", namespace="quota", port=8082)
    first["spec"]["service"]["namespace"] = "changed"
    again, _ = rendering.documents("visibility", namespace="quota", port=8082)
    assert again["spec"]["service"]["namespace"] == "quota"


def test_a_template_may_name_parts_of_its_own() -> None:
    found = rendering.documents("scope", controller='"me"', unmanaged='"none"')
    expressions = [
        rule["expression"] for one in found for rule in one["spec"].get("validations", ())
    ]
    assert not any("${" in one for one in expressions)
    assert all(one["kind"].startswith("ValidatingAdmissionPolicy") for one in found)


def test_a_name_without_a_value_is_refused() -> None:
    with pytest.raises(KeyError, match="port"):
        rendering.documents("visibility", namespace="quota")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_is_yaml_and_uses_names_that_the_program_knows(path: Path) -> None:
    assert all(isinstance(one, dict) for one in yaml.safe_load_all(path.read_text()))
    unknown = {
        name
        for name in (found.rstrip(".") for found in OURS.findall(path.read_text()))
        if name not in NAMES and not name.startswith(names.AGGREGATION_PREFIX)
    }
    assert unknown == set()


def test_templates_look_at_as_many_members_as_the_webhook_configurations() -> None:
    sizes = {
        int(found)
        for path in TEMPLATES
        for found in SIZE.findall(path.read_text())
        if found != "0"
    }
    assert sizes == {webhooks.MOST}
