"""Which metrics and labels an expression of PromQL names. Not a parser: it knows what ours use."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<window>\[[^\]]*\])
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<number>\d+(?:\.\d+)?[smhdw]?)
  | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},])
  | (?P<space>\s+)
    """,
    re.VERBOSE,
)
_GROUPS: Final = frozenset(
    {"by", "without", "on", "ignoring", "group_left", "group_right"},
)
_WORDS: Final = frozenset({"and", "or", "unless", "offset", "bool", "inf", "nan"})


@dataclass(frozen=True)
class Named:
    """What an expression names.

    Attributes:
        metrics: metrics, each with the labels that it is asked for in braces.
        labels: labels by which is grouped or matched.
    """

    metrics: tuple[tuple[str, frozenset[str]], ...]
    labels: frozenset[str]


def names(expr: str) -> Named:
    """Return what an expression names.

    Raises:
        ValueError: it has a character that is not known.
    """
    tokens = list(_tokens(expr))
    metrics: list[tuple[str, frozenset[str]]] = []
    labels: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if kind != "name" or text.lower() in _WORDS:
            at += 1
        elif text in _GROUPS:
            at += 1
            if following == "(":
                end = _closing(tokens, at, ")")
                labels |= {word for sort, word in tokens[at:end] if sort == "name"}
                at = end
        elif following == "(" or (following in _GROUPS and not text.islower()):
            at += 1  # a function
        elif following in _GROUPS and _is_aggregation(text):
            at += 1
        elif following == "{":
            end = _closing(tokens, at, "}")
            asked = {
                word
                for (sort, word), (_, sign) in zip(
                    tokens[at + 2 : end], tokens[at + 3 : end + 1], strict=True
                )
                if sort == "name" and sign in {"=", "!=", "=~", "!~"}
            }
            metrics.append((text, frozenset(asked)))
            at = end
        else:
            metrics.append((text, frozenset()))
            at += 1
    return Named(tuple(metrics), frozenset(labels))


def _is_aggregation(word: str) -> bool:
    return word in {"sum", "max", "min", "avg", "count", "group", "topk", "bottomk", "stddev"}


def _closing(tokens: list[tuple[str, str]], start: int, sign: str) -> int:
    return next(at for at in range(start, len(tokens)) if tokens[at][1] == sign)


def _tokens(expr: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expr):
        found = _TOKEN.match(expr, at)
        if found is None:
            raise ValueError(f"{expr[at : at + 20]!r} in {expr!r} is not known")
        at = found.end()
        kind = str(found.lastgroup)
        if kind not in {"space", "window", "text", "number"}:
            yield kind, found[0]
