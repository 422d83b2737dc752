"""The mutations of a module: small changes of its text that alter what it does.

A mutation is a piece of text in place of another one, found by way of the syntax tree, so that
everything around it stays as it was written. Texts, annotations, decorators, assertions, what is
raised and what is logged stay: whatever they say, nothing is decided by them.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Gt: (r">", (">=", "<=")),
    ast.GtE: (r">=", (">", "<")),
    ast.Lt: (r"<", ("<=", ">=")),
    ast.LtE: (r"<=", ("<", ">")),
    ast.Eq: (r"==", ("!=",)),
    ast.NotEq: (r"!=", ("==",)),
    ast.Is: (r"\bis\b", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: (r"//", "*"),
    ast.Mod: (r"%", "//"),
}
_OTHER_FUNCTION: Final = {"max": "min", "min": "max", "any": "all", "all": "any"}
_EMPTY: Final = {"bool": ("True", "False"), "int": ("0",), "str": ('""',)}
_LOGS: Final = frozenset({"log", "_log", "logger", "debug", "info", "warning", "exception"})
_UNTOUCHED_FIELDS: Final = frozenset({"annotation", "returns", "decorator_list", "type_comment"})


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """One change of the text of a module; they are ordered by their places.

    Attributes:
        line: line number at which it begins, from 1.
        start: offset in the text of the module at which it begins, in characters.
        end: offset behind the text that it replaces.
        text: the text instead.
        before: the touched lines as they are, each without its indent.
        after: the same lines as they become.
    """

    line: int
    start: int
    end: int
    text: str
    before: str
    after: str

    def applied(self, source: str) -> str:
        """Return the text of the module with the change."""
        return source[: self.start] + self.text + source[self.end :]


def mutations(source: str) -> tuple[Mutation, ...]:
    """Return all mutations of a module, in the order of their places.

    Raises:
        SyntaxError: the text is no Python.
    """
    return _Finder(source).mutations()


class _Finder:
    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def mutations(self) -> tuple[Mutation, ...]:
        changes: set[tuple[int, int, str]] = set()
        for start, end, text in self._visit(ast.parse(self._source), None):
            if self._source[start:end] != text:
                changes.add((start, end, text))
        return tuple(self._mutation(*change) for change in sorted(changes))

    def _mutation(self, start: int, end: int, text: str) -> Mutation:
        first = self._source.rfind("\n", 0, start) + 1
        last = self._source.find("\n", end)
        last = len(self._source) if last < 0 else last
        before = self._source[first:last]
        after = self._source[first:start] + text + self._source[end:last]
        line = self._source.count("\n", 0, start) + 1
        return Mutation(line, start, end, text, _stripped(before), _stripped(after))

    def _visit(
        self, node: ast.AST, function: ast.FunctionDef | None
    ) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant) or _is_log(node.value):
                return
            if isinstance(node.value, ast.Call):
                yield (*self._span(node), "pass")
        yield from self._changes(node, function)
        inner = node if isinstance(node, ast.FunctionDef) else function
        for name, value in ast.iter_fields(node):
            if name in _UNTOUCHED_FIELDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._visit(child, inner)

    def _changes(
        self, node: ast.AST, function: ast.FunctionDef | None
    ) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare():
                yield from self._comparisons(node)
            case ast.BoolOp():
                other = "or" if isinstance(node.op, ast.And) else "and"
                pattern = r"\band\b" if isinstance(node.op, ast.And) else r"\bor\b"
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(left, right, pattern, (other,))
            case ast.UnaryOp(op=ast.Not()):
                start, end = self._span(node)
                yield start, end, self._source[start:end].removeprefix("not").lstrip()
            case ast.If() | ast.While() | ast.IfExp():
                yield from self._negated(node.test)
            case ast.match_case(guard=ast.expr() as guard):
                yield from self._negated(guard)
            case ast.comprehension():
                for test in node.ifs:
                    yield from self._negated(test)
            case ast.Constant(value=bool(value)):
                yield (*self._span(node), str(not value))
            case ast.Constant(value=int(value)):
                yield (*self._span(node), str(value + 1))
                yield (*self._span(node), str(value - 1))
            case ast.BinOp() if not (_is_text(node.left) or _is_text(node.right)):
                if change := _ARITHMETIC.get(type(node.op)):
                    yield from self._between(node.left, node.right, change[0], (change[1],))
            case ast.AugAssign() if not _is_text(node.value):
                if change := _ARITHMETIC.get(type(node.op)):
                    pattern, text = f"{change[0]}=", f"{change[1]}="
                    yield from self._between(node.target, node.value, pattern, (text,))
            case ast.Call(func=ast.Name(id=name)) if name in _OTHER_FUNCTION:
                yield (*self._span(node.func), _OTHER_FUNCTION[name])
                if name in {"max", "min"}:
                    yield from self._arguments(node)
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                for text in _returned(function):
                    yield (*self._span(value), text)
            case ast.Break():
                yield (*self._span(node), "continue")
            case ast.Continue():
                yield (*self._span(node), "break")
            case _:
                return

    def _comparisons(self, node: ast.Compare) -> Iterator[tuple[int, int, str]]:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            pattern, others = _COMPARISONS[type(operator)]
            yield from self._between(left, right, pattern, others)

    def _negated(self, test: ast.expr) -> Iterator[tuple[int, int, str]]:
        is_single = isinstance(test, ast.Compare) and len(test.ops) == 1
        if is_single or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            return
        start, end = self._span(test)
        yield start, end, f"not ({self._source[start:end]})"

    def _arguments(self, call: ast.Call) -> Iterator[tuple[int, int, str]]:
        """Changes to each single argument of a ``max`` or ``min``."""
        if len(call.args) > 1 and not any(isinstance(one, ast.Starred) for one in call.args):
            for argument in call.args:
                start, end = self._span(argument)
                yield (*self._span(call), f"({self._source[start:end]})")

    def _between(
        self, left: ast.expr, right: ast.expr, pattern: str, others: tuple[str, ...]
    ) -> Iterator[tuple[int, int, str]]:
        start, end = self._span(left)[1], self._span(right)[0]
        operator = re.compile(pattern).search(self._source, start, end)
        if operator is not None:
            for text in others:
                yield operator.start(), operator.end(), text

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno, node.end_col_offset),
        )

    def _offset(self, line: int, column: int) -> int:
        """Offset in characters of a place that the syntax tree gives in bytes of its line."""
        start = self._starts[line - 1]
        text = self._source[start : self._starts[line]]
        return start + len(text.encode()[:column].decode())


def _stripped(lines: str) -> str:
    return "\n".join(line.strip() for line in lines.splitlines())


def _is_text(node: ast.expr) -> bool:
    """Return whether an operand can be no number."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_log(node: ast.expr) -> bool:
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Attribute):
            if node.attr in _LOGS:
                return True
            node = node.value
        else:
            node = node.func
    return isinstance(node, ast.Name) and node.id in _LOGS


def _returned(function: ast.FunctionDef | None) -> tuple[str, ...]:
    """Return what a function may return instead: values of its type where that is known."""
    if function is None or function.returns is None:
        return ("None",)
    kind = ast.unparse(function.returns)
    if kind in _EMPTY:
        return _EMPTY[kind]
    if kind.startswith("tuple[") and kind.endswith(", ...]"):
        return ("()",)
    if kind.startswith(("list[", "Iterable[", "Sequence[")):
        return ("[]",)
    if kind.startswith(("dict[", "Mapping[")):
        return ("{}",)
    return ("None",)
