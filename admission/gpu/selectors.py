"""What a CEL selector of devices demands for certain.

A selector is read as tokens, as the API server's parser does, so comments and texts say nothing.
Only comparisons with ``==`` are read that must hold for the whole selector to hold. All other
parts can exclude further devices, but admit none.

Source: CEL language definition (syntax: comments, strings, precedence of operators);
Kubernetes resource.k8s.io v1 (``device.driver``, ``device.attributes``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from admission.base import names

Tokens = tuple[str, ...]

_STRING: Final = r"'(?:[^'\\\r\n]|\\[^\r\n])*'|\"(?:[^\"\\\r\n]|\\[^\r\n])*\""
_TOKEN: Final = re.compile(
    rf"""(?P<blank>[ \t\r\n\f]+|//[^\n]*)
    |(?P<token>{_STRING}|[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z.]*|&&|\|\||[=!<>]=|[-+*/%!<>?:.,()\[\]{{}}])""",
    re.VERBOSE,
)
_PREFIX: Final = re.compile(r"[A-Za-z_'\"]")
"""What stands directly before a quote where a string of another kind begins."""

_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_AND: Final = "&&"
_UNCERTAIN: Final = {"||", "?"}
_OF_DRIVER: Final = tuple(
    ("device", ".", "attributes", "[", f"{quote}{names.DRA_DRIVER}{quote}", "]") for quote in "'\""
)


def demanded(expressions: Iterable[str], attribute: str) -> frozenset[str]:
    """Return the values that selectors, which must all hold, demand of an attribute.

    Args:
        expressions: CEL selectors.
        attribute: name of an attribute of NVIDIA's driver, such as ``profile``.

    Returns:
        The values. It is empty if no value is demanded for certain. With more than one value the
        selectors match no device.
    """
    paths = _paths(attribute)
    names_found: set[str] = set()
    for expression in expressions:
        for term in _terms(_tokens(expression)):
            value = _compared(term, paths)
            if value is not None:
                names_found.add(value)
    return frozenset(names_found)


def _paths(attribute: str) -> tuple[Tokens, ...]:
    """All ways to write an attribute of NVIDIA's driver."""
    ends = ((".", attribute), ("[", f"'{attribute}'", "]"), ("[", f'"{attribute}"', "]"))
    return tuple((*start, *end) for start in _OF_DRIVER for end in ends)


def _compared(term: Tokens, paths: Iterable[Tokens]) -> str | None:
    """The text that a term compares one of some paths with by ``==``; None if it does not."""
    for path in paths:
        if term[:-1] == (*path, "=="):
            return _text(term[-1])
        if term[1:] == ("==", *path):
            return _text(term[0])
    return None


def _text(token: str) -> str | None:
    """The value of a string without escapes; None of any other token."""
    is_plain = token[:1] in {"'", '"'} and "\\" not in token
    return token[1:-1] if is_plain else None


def _terms(tokens: Tokens) -> Iterator[Tokens]:
    """The parts that must all hold for an expression to hold, as far as that is certain."""
    unread = [tokens]
    while unread:
        term = unread.pop()
        if _is_enclosed(term):
            unread.append(term[1:-1])
            continue
        parts = _parts(term)
        if len(parts) == 1:
            yield term
        else:
            unread += parts


def _parts(tokens: Tokens) -> tuple[Tokens, ...]:
    """The operands of ``&&`` outside of all brackets; none where another operator binds less."""
    parts: list[list[str]] = [[]]
    open_brackets: list[str] = []
    for token in tokens:
        if token in _OPENING:
            open_brackets.append(_OPENING[token])
        elif open_brackets and token == open_brackets[-1]:
            open_brackets.pop()
        elif not open_brackets and token in _UNCERTAIN:
            return ()
        if token == _AND and not open_brackets:
            parts.append([])
        else:
            parts[-1].append(token)
    return () if open_brackets else tuple(tuple(part) for part in parts)


def _is_enclosed(part: Sequence[str]) -> bool:
    """Whether one pair of parentheses stands around everything."""
    if not part or part[0] != "(":
        return False
    depth = 0
    for index, token in enumerate(part):
        depth += (token in _OPENING) - (token in _OPENING.values())
        if depth == 0:
            return index == len(part) - 1
    return False


@lru_cache(maxsize=4096)
def _tokens(expression: str) -> Tokens:
    """The tokens of an expression; none if any of it is not understood.

    Raw, bytes and long strings end by other rules. They are not read, and no selector needs them.
    """
    tokens: list[str] = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            return ()
        position, token = match.end(), match["token"]
        if token and _PREFIX.match(token) and expression[position : position + 1] in {"'", '"'}:
            return ()
        if token:
            tokens.append(token)
    return tuple(tokens)
