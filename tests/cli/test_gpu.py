"""Commands that know GPUs without a cluster: profiles, and checks of configurations."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from admission.cli.main import main
from tests.config import files
from tests.gpu import seeds

SEEDS = Path(seeds.__file__).parent
GIB = 2**30


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["gpu", *arguments], input=stdin)


def checked(stdin: Any, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and answer of ``check-config`` for a document."""
    text = stdin if isinstance(stdin, str) else yaml.safe_dump(stdin)
    result = run("check-config", "-", "-o", "json", *arguments, stdin=text)
    return result.exit_code, json.loads(result.stdout) if result.stdout else []


def rules(answer: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {one["name"]: [finding["rule"] for finding in one["findings"]] for one in answer}


def geometry(devices: dict[str, int]) -> dict[str, Any]:
    return {"mig-configs": {"c": [{"mig-enabled": True, "mig-devices": devices}]}}


def slicing(**more: Any) -> dict[str, Any]:
    entries = [{"name": "nvidia.com/gpu", "replicas": 4}]
    return {"version": "v1", "sharing": {"timeSlicing": {"resources": entries, **more}}}


# ------------------------------------------------------------------------------------ profiles


def test_profiles_of_one_product_with_their_cost():
    result = run("profiles", "--product", "NVIDIA-A100-SXM4-80GB")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert lines[0][0] == "A100-80GB"
    assert ["3g.40gb", "nvidia.com/mig-3g.40gb", "3", "40Gi", "2", "0,4"] in lines
    assert ["(whole)", "nvidia.com/gpu", "7", "80Gi", "1"] in lines


def test_the_same_profile_costs_differently_on_another_product():
    result = run("profiles", "-o", "json")
    products = {one["product"]: one for one in json.loads(result.stdout)}

    def cost(product: str, profile: str) -> dict[str, int]:
        (found,) = [one for one in products[product]["profiles"] if one["name"] == profile]
        return {**found["cost"], "most": found["most"]}

    slices, memory = "gpu-admission.dev/gpu-slices", "gpu-admission.dev/gpu-memory"
    assert cost("A100-80GB", "1g.10gb") == {slices: 1, memory: 10 * GIB, "most": 7}
    assert cost("A100-40GB", "1g.10gb") == {slices: 1, memory: 10 * GIB, "most": 4}
    assert products["T4"]["profiles"] == []
    assert products["T4"]["cost"] == {slices: 7, memory: 16 * GIB}


def test_a_product_without_slices_says_so():
    assert "T4: no MIG" in run("profiles", "--product", "Tesla-T4").stdout


@pytest.mark.parametrize("command", [["profiles"], ["check-config", "-"]])
def test_an_unknown_product_is_an_error_that_lists_the_known_ones(command):
    result = run(*command, "--product", "H9000", stdin="mig-configs: {}")
    assert result.exit_code == 1
    assert "error: 'H9000': unknown GPU product; known are A30-24GB, A100-40GB" in result.stderr


# -------------------------------------------------------------------------------- check-config


def test_the_seed_configurations():
    result = run("check-config", str(SEEDS / "nodes-and-devices.yaml"), "-o", "json")
    assert result.exit_code == 1
    assert rules(json.loads(result.stdout)) == {
        "ConfigMap/time-slicing-config data[any]": ["T1"],
        "ConfigMap/time-slicing-config data[inference]": ["T1"],
        "ConfigMap/time-slicing-config data[mps]": [],
        "ConfigMap/mig-parted-config data[config.yaml]": ["T3"],
    }


def test_the_seed_limits():
    result = run("check-config", str(SEEDS / "namespace-limits.yaml"), "-o", "json")
    assert result.exit_code == 1
    assert rules(json.loads(result.stdout)) == {
        "ResourceQuota/gpu-quota": ["T8"],
        "LimitRange/gpu-default-request": ["T9", "T11", "T10"],
        "LimitRange/gpu-limit": ["T10"],
    }


def test_findings_are_sentences_that_say_where_and_what_else():
    result = run("check-config", str(SEEDS / "nodes-and-devices.yaml"))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "ConfigMap/time-slicing-config data[any] (device-plugin): 1 finding"
    assert lines[4] == ("ConfigMap/time-slicing-config data[mps] (device-plugin): nothing wrong")
    assert lines[-1].startswith("  mig-configs.all-3g.40gb[0].mig-devices: 1 x 1g.10gb + ")
    assert lines[-1].endswith("{3g.40gb: 2} fits (T3)")


@pytest.mark.parametrize(
    ("config", "product", "rule"),
    [
        (slicing(renameByDefault=True), "", "T1"),
        (slicing(renameBy=True), "", "T2"),
        (geometry({"3g.40gb": 2, "1g.10gb": 1}), "", "T3"),
        (geometry({"1g.5gb": 7}), "A100-80GB", "T5"),
        (geometry({"1c.3g.40gb": 2}), "A100-80GB", "T7"),
    ],
)
def test_traps_of_node_configurations(config, product, rule):
    code, answer = checked(config, *(["--product", product] if product else []))
    assert (code, rules(answer)) == (1, {"document 1": [rule]})


@pytest.mark.parametrize(
    "config",
    [slicing(), geometry({"1g.10gb": 7}), geometry({"1g.5gb": 7}), {"flags": {}}],
    ids=str,
)
def test_a_configuration_without_fault_exits_with_0(config):
    code, answer = checked(config)
    assert (code, rules(answer)) == (0, {"document 1": []})


def test_what_kubectl_shows_of_stored_limits_is_understood():
    stored = {"max": {"nvidia.com/gpu": "8"}, "default": {"nvidia.com/gpu": "8"},
              "defaultRequest": {"nvidia.com/gpu": "8"}, "type": "Container"}  # fmt: skip
    item = {"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [stored]}}
    code, answer = checked({"kind": "List", "items": [item]})
    assert (code, rules(answer)) == (1, {"LimitRange/l": ["T10"]})


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "{"}}, "yaml"),
        ({"kind": "LimitRange", "spec": {"limits": 7}}, "shape"),
        ({"kind": "LimitRange", "spec": {"limits": [{"max": {"cpu": "x"}}]}}, "shape"),
        ({"kind": "ResourceQuota", "spec": {"hard": []}}, "shape"),
    ],
    ids=["no YAML inside", "no list", "no quantity", "no bounds"],
)
def test_what_cannot_be_read_is_a_finding(document, rule):
    code, answer = checked(document)
    assert (code, [found for one in answer for found in rules([one]).values()]) == (1, [[rule]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "error: invalid YAML: "),
        ("a: b", "error: contains no mig-parted"),
        ("", "error: contains no"),
    ],
)
def test_a_file_with_nothing_to_check_is_an_error(text, message):
    result = run("check-config", "-", stdin=text)
    assert result.exit_code == 1
    assert result.stderr.startswith(message)


def test_a_missing_file_is_a_usage_error(tmp_path):
    result = run("check-config", str(tmp_path / "gone.yaml"))
    assert result.exit_code == 2
    assert "gone.yaml" in result.stderr


@pytest.mark.parametrize("command", ["profiles", "check-config"])
def test_help_shows_examples(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Examples:\n    gpu-admission gpu {command}" in result.stdout


def test_products_of_a_configuration_file_are_known(tmp_path):
    file = tmp_path / "config.yaml"
    ours = {"id": "OURS-16GB", "memoryGb": 16}
    file.write_text(yaml.safe_dump(files.gpu(products=[ours])))
    shown = run("profiles", "--product", "OURS-16GB", "--config", str(file))
    assert shown.stdout.splitlines()[0] == "OURS-16GB: no MIG"
    told = run(
        "check-config", "-", "--product", "OURS-16GB", "--config", str(file),
        stdin=yaml.safe_dump(geometry({"1g.10gb": 1})),
    )  # fmt: skip
    assert (told.exit_code, "OURS-16GB has no MIG" in told.stdout) == (1, True)
    file.write_text(yaml.safe_dump(files.gpu(products=[{**ours, "memoryGb": 0}])))
    refused = run("profiles", "--config", str(file))
    assert (refused.exit_code, "must be positive" in refused.stderr) == (1, True)
