"""Commands that texts and pages name exist, and take the options that stand behind them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from admission.cli import kubectl, main
from tests.repo import tree

PROGRAMS = {"gpu-admission": main.main, "kubectl gpu": kubectl.main}
PAGES = [path for path in tree.files() if path.suffix == ".md"]
MODULES = [path for path in tree.files() if path.suffix == ".py" and "admission" in path.parts]
_TYPED = re.compile(r"\b(gpu-admission|kubectl gpu) ([^`\n;|,:\"]+)")
_ALWAYS_TYPED = re.compile(r"\b(kubectl gpu) ([^`\n;|\")(,:]+)")
_CODE = re.compile(r"`([^`\n]+)`|^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def texts(path: Path) -> Iterator[str]:
    """All texts of a module; what is put into one stands as ``X``."""
    within = set[int]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            within |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and id(node) not in within:
            yield str(node.value)


def wrong(program: str, words: list[str]) -> list[str]:
    """What is wrong with a command line as far as its words name commands and options."""
    typed = f"{program} {' '.join(words)}"
    command: click.Command = PROGRAMS[program]
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(context, words[0])
        if inner is None:
            return [] if command.invoke_without_command else [f"{typed}: no command {words[0]}"]
        command, words = inner, words[1:]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    options |= {"--help", "-h", "--version"}
    said = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [f"{typed}: no option {one}" for one in said if one not in options]


def named(text: str) -> Iterator[tuple[str, list[str]]]:
    """Command lines in a text: what begins with the name of a program and a word."""
    for program, rest in _TYPED.findall(text.replace("\\\n", " ")):
        words = re.sub(r"#.*| [2>&].*", "", rest).rstrip(".)").split()
        if words and re.fullmatch(r"[a-z-]+", words[0]):
            yield program, words


@pytest.mark.parametrize("page", PAGES, ids=tree.name)
def test_a_command_in_the_code_of_a_page_exists(page: Path) -> None:
    code = (inline or block for inline, block in _CODE.findall(page.read_text()))
    lines = [line for part in code for line in named(part)]
    assert [fault for program, words in lines for fault in wrong(program, words)] == []


@pytest.mark.parametrize("module", MODULES, ids=tree.name)
def test_a_command_in_a_text_of_the_product_exists(module: Path) -> None:
    lines = [line for text in texts(module) for line in named(text)]
    typed = [
        (program, words)
        for program, words in lines
        # the name of the program also begins sentences
        if program != "gpu-admission" or words[0] in main.COMMANDS
    ]
    assert [fault for program, words in typed for fault in wrong(program, words)] == []


def test_a_command_of_the_other_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kubectl.main(["install"])
    assert "gpu-admission install" in capsys.readouterr().err
