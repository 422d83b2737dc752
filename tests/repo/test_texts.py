"""What conditions, events and reasons say stands in one module each."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from admission.kube import resources
from tests.repo import tree

BASE = tree.ROOT / "admission" / "base"
WORDS = tree.ROOT / "admission" / "reasons"
WORD_MODULES = sorted(WORDS.glob("*.py"))
HOMES = (BASE / "conditions.py", BASE / "events.py", BASE / "causes.py", *WORD_MODULES)
OTHERS = {
    "admission/sandbox/embedded": "writes what a real API server writes",
    "admission/objects": "schemas list the values that clients may send",
}
"""Packages whose literals are not ours."""

TAKES_TEXT = {"Text", "Next", "Wait", "Evict", "QueueStatus", "Condition", "PodCondition"}
"""Values that carry the reason or the message of a condition."""
WRITES = {"make", "patch", "finish", "evict", "withdraw", "requeue", "target", "not_reserved"}
"""Functions that write a condition."""
SAYS = {"type", "kind", "reason", "message"}
TWO_WORDS = re.compile(r"([A-Z][a-z]+){2,}")
"""A reason or type that means nothing else by chance."""


def modules() -> Iterator[Path]:
    for path in tree.modules("admission"):
        is_other = any(path.is_relative_to(tree.ROOT / package) for package in OTHERS)
        if path not in HOMES and not is_other:
            yield path


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Calls, with the last part of the name of what is called."""
    for node in nodes(path):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                yield function.attr, node
            else:
                yield getattr(function, "id", ""), node


def is_text(node: ast.AST) -> bool:
    """Whether a text is written where the node is."""
    is_literal = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
    return bool(is_literal) or isinstance(node, ast.JoinedStr)


def says(node: ast.Call) -> bool:
    """Whether a type, reason or message is written in a call by its name."""
    return any(one.arg in SAYS and is_text(one.value) for one in node.keywords)


def place(path: Path, node: ast.expr) -> str:
    return f"{tree.name(path)}:{node.lineno}"


def known() -> set[str]:
    """Types and reasons of at least two words, without those that are kinds, too."""
    found: set[str] = set()
    for path in HOMES:
        for name, call in calls(path):
            position = {"Text": 0, "Event": 1}.get(name)
            if position is not None and len(call.args) > position:
                found.add(str(getattr(call.args[position], "value", "")))
        found |= {
            node.value.value
            for node in nodes(path)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        }
    kinds = {one.kind for one in vars(resources).values() if isinstance(one, resources.Resource)}
    return {one for one in found if TWO_WORDS.fullmatch(one)} - kinds


def test_events_are_made_in_one_module() -> None:
    found = [
        place(path, call)
        for path in modules()
        for name, call in calls(path)
        if name == "Event" and any(map(is_text, (*call.args, *(k.value for k in call.keywords))))
    ]
    assert found == []


def test_conditions_get_their_texts_from_one_module() -> None:
    found = [
        place(path, call)
        for path in modules()
        for name, call in calls(path)
        if (name in TAKES_TEXT and (says(call) or any(map(is_text, call.args))))
        or (name in WRITES and says(call))
    ]
    assert found == []


def test_a_condition_is_asked_for_by_a_constant() -> None:
    found = [
        place(path, call)
        for path in modules()
        for name, call in calls(path)
        if name in {"condition", "is_true"} and any(map(is_text, call.args))
    ]
    assert found == []


def test_a_reason_is_compared_with_a_constant() -> None:
    found = [
        place(path, node)
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "reason"
        and any(map(is_text, node.comparators))
    ]
    assert found == []


def test_a_type_or_reason_is_written_in_one_module() -> None:
    words = known()
    some = {"QuotaReserved", "WaitingForQuota", "PodsReadyTimeout", "CertificateExpiring"}
    assert some <= words
    found = [
        f"{place(path, node)}: {node.value}"
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value in words
    ]
    assert found == []
