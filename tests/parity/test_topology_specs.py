"""Each spec of topologies in Kueue's suites has a test here, or a reason why it has none."""

import ast
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECS = tomllib.loads(Path(__file__).with_name("topology_specs.toml").read_text())
ANSWERS = {
    f"{file}: {spec}": answer for file, specs in SPECS.items() for spec, answer in specs.items()
}


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_a_test_that_stands_for_a_spec_is_there() -> None:
    missing = []
    for spec, answer in ANSWERS.items():
        if answer.startswith("tests/"):
            file, _, name = answer.partition("::")
            if not (ROOT / file).is_file() or name not in functions_of(file):
                missing.append(f"{spec}: {answer}")

    assert missing == []


def test_a_reason_names_a_gate_of_kueue_or_a_page() -> None:
    reasons = {answer for answer in ANSWERS.values() if not answer.startswith("tests/")}

    for reason in sorted(reasons):
        *_, page = reason.rstrip(")").split("(")
        is_gate = reason.startswith("the feature gate is off by default in Kueue: ")
        assert is_gate or (ROOT / page).is_file(), reason
