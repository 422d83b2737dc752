"""Commands that texts and pages name exist, and take the options that stand behind them."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from admission.cli import kubectl, main
from tests.repo import printed, tree

PROGRAMS = {"gpu-admission": main.main, "kubectl gpu": kubectl.main}
PAGES = [path for path in tree.files() if path.suffix == ".md"]
_TYPED = re.compile(r"\b(gpu-admission|kubectl gpu) ([^`\n;|,:\"]+)")
_CODE = re.compile(r"`([^`\n]+)`|^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


def misused(program: str, words: list[str]) -> str:
    """What is wrong with a whole command line; empty for nothing.

    Files that a text names need not be there, and what lists the commands of a program is one.
    """
    command: click.Command = PROGRAMS[program]
    # Commands keep the help option that they are given first: -h comes from the context.
    context = click.Context(command, **command.context_settings)
    typed = f"{program} {' '.join(words)}"
    while isinstance(command, click.Group) and words:
        inner = command.get_command(context, words[0])
        if inner is None:
            break
        command, words = inner, words[1:]
    if isinstance(command, click.Group) and not words:
        return ""
    try:
        command.make_context(program, words, parent=context)
    except click.exceptions.Exit:  # --help
        return ""
    except click.UsageError as error:
        is_missing = "No such file" in error.message or "does not exist" in error.message
        return "" if is_missing else f"{typed}: {error.format_message()}"
    return ""


def ours(module: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands of ours in the texts of a module: the program, and the words behind it."""
    for text in printed.texts(module):
        for words in printed.commands(text):
            if words[0] == "kubectl" and words[1] == "gpu" and len(words) > 2:
                yield "kubectl gpu", words[2:]
            elif words[0] == "gpu-admission" and words[1] in main.COMMANDS:
                yield "gpu-admission", words[1:]


_PROSE = {"gpu-admission init from the nodes of this cluster"}
_NAMES_ONLY = {"kubectl gpu why", "kubectl gpu who", "kubectl gpu doctor"}
"""Commands that a sentence is about, without what they are asked."""


@pytest.mark.parametrize("module", printed.MODULES, ids=tree.name)
def test_a_command_in_a_text_of_the_product_can_be_typed(module: Path) -> None:
    lines = [
        (program, words)
        for program, words in ours(module)
        if f"{program} {' '.join(words)}" not in _PROSE | _NAMES_ONLY
    ]
    assert list(filter(None, (misused(program, words) for program, words in lines))) == []


def test_what_is_no_part_of_a_command_is_left_out_of_it() -> None:
    text = "wait; see (kubectl get pods -n x), or: kubectl patch q 'a b'. Then gpu-admission run."
    assert [" ".join(words) for words in printed.commands(text)] == [
        "kubectl get pods -n x", "kubectl patch q 'a b'", "gpu-admission run",
    ]  # fmt: skip


def test_a_command_of_the_other_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kubectl.main(["install"])
    assert "gpu-admission install" in capsys.readouterr().err
