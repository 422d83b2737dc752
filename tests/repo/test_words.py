"""What no file may say, and what no test may do."""

import ast
import re
from collections.abc import Iterator

from tests.repo import tree

BANNED = {
    "a path of somebody's machine": re.compile(
        r"(?<![\w.])/(?:work|root|home/[a-z]+|Users/\w+)/\.?\w"
    ),
    "a package registry": re.compile(r"--index[-]url|GOPROXY\s*="),
    "an unfinished thought": re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b"),
    "a file outside the repository": re.compile(r"\b(?:brief|iface)[.]md\b|\.\./shared/"),
}


def texts() -> Iterator[tuple[str, str]]:
    """Name and content of every text file."""
    for path in tree.files():
        try:
            yield tree.name(path), path.read_text()
        except UnicodeDecodeError:
            continue


def test_no_file_says_what_only_holds_on_one_machine_or_is_unfinished():
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1} holds {what}: {match[0]}"
        for name, text in texts()
        for what, pattern in BANNED.items()
        for match in pattern.finditer(text)
    ]
    assert found == []


def sleeps(source: str) -> list[int]:
    """Lines that call ``time.sleep``, under whatever name it was imported."""
    tree_ = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree_)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name == "sleep"
    }
    return [
        node.lineno
        for node in ast.walk(tree_)
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) == "time.sleep" or ast.unparse(node.func) in names)
    ]


def test_no_test_sleeps():
    found = {tree.name(path): sleeps(path.read_text()) for path in tree.modules("tests")}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_sleep_is_found_under_any_name():
    assert sleeps("import time\ntime.sleep(1)\n") == [2]
    assert sleeps("from time import sleep as nap\nnap(1)\n") == [2]
    assert sleeps("import time\ntime.monotonic()\n") == []


def test_every_python_file_ends_with_a_newline_and_no_line_has_a_tab():
    bad = [
        tree.name(path)
        for path in tree.modules()
        if (text := path.read_text()) and ("\t" in text or not text.endswith("\n"))
    ]
    assert bad == []
