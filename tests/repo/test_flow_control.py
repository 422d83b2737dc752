"""docs/internals/flow-control.md has every constant of the flow control, with its value."""

import ast
import re
from typing import Final

from admission.config.gpu_configuration import ControllerSettings
from tests.repo import tree

PAGE: Final = tree.ROOT / "docs" / "internals" / "flow-control.md"
WHOLE: Final = (
    "admission/controller/core.py",
    "admission/controller/reconciling.py",
    "admission/controller/surroundings.py",
    "admission/controller/scheduler.py",
    "admission/controller/pending_conditions.py",
    *(
        tree.name(path)
        for path in tree.modules("admission")
        if path.parent.name == "writing" and path.name != "metrics.py"
    ),
)
"""Modules of which every number is on the page."""
SETTINGS: Final = "admission/config/gpu_configuration.py"

Row = tuple[str, str]


def listed() -> dict[Row, str]:
    """Return the value of each constant on the page by module and name."""
    rows = re.findall(
        r"^\| `(\w+)` \| `(admission/[\w/]+\.py)` \| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE
    )
    return {(module, name): value for name, module, value in rows}


def numbers(module: str) -> dict[Row, str]:
    """Return the numbers, and tuples of numbers, that a module sets, as they are written."""
    found = {}
    for node in ast.parse((tree.ROOT / module).read_text()).body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            continue
        names = {type(one) for one in ast.walk(node.value)}
        if ast.Constant in names and not names & {ast.Name, ast.Call, ast.Attribute, ast.Dict}:
            constants = [one for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            if all(isinstance(one.value, int | float) for one in constants):
                found[(module, ast.unparse(node.target))] = ast.unparse(node.value)
    return found


def test_the_page_has_the_values_of_the_code() -> None:
    modules = {module for module, _ in listed()}
    actual = {key: value for module in modules for key, value in numbers(module).items()}
    for name, value in ControllerSettings().model_dump(by_alias=False).items():
        actual[(SETTINGS, name)] = str(value)
    assert {row: actual.get(row, "not in the code") for row in listed()} == listed()


def test_the_page_has_every_number_of_the_flow_control() -> None:
    missing = {row for module in WHOLE for row in numbers(module)} - listed().keys()
    assert missing == set()
