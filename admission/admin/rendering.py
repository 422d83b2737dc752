"""Documents of an installation from the YAML files in ``templates``.

A scalar ``${NAME}`` stands for a value, whatever its type; in a longer text it stands for the
value's text. As an item of a list it stands for each item of a value that is a list. Nothing else
is replaced: which documents are chosen is decided by whoever renders.

A first document with the only key ``values`` names parts of the others; each may use those above.
"""

import functools
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

import yaml

Document = dict[str, Any]

_NAME: Final = re.compile(r"\$\{([A-Z_]+)\}")


def documents(template: str, /, **values: Any) -> list[Document]:
    """Return the documents of a template.

    Args:
        template: name of the file, without ``.yaml``.
        values: of the names in it, in lower case.

    Raises:
        KeyError: the template has a name without a value.
    """
    first, *rest = _parsed(template)
    if first.keys() != {"values"}:
        return [_filled(document, values) for document in (first, *rest)]
    for name, part in first["values"].items():
        values[name.lower()] = _filled(part, values)
    return [_filled(document, values) for document in rest]


@functools.cache
def _parsed(template: str) -> tuple[Any, ...]:
    text = (
        resources.files(__package__).joinpath("templates", f"{template}.yaml").read_text("utf-8")
    )
    return tuple(yaml.safe_load_all(text))


def _filled(node: Any, values: dict[str, Any]) -> Any:
    """Return a copy with the values put in."""
    if isinstance(node, dict):
        return {_filled(key, values): _filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return list(_items(node, values))
    if not isinstance(node, str):
        return node
    if whole := _NAME.fullmatch(node):
        return values[whole[1].lower()]
    return _NAME.sub(lambda match: str(values[match[1].lower()]), node)


def _items(node: list[Any], values: dict[str, Any]) -> Iterator[Any]:
    for item in node:
        filled = _filled(item, values)
        if isinstance(item, str) and isinstance(filled, list):
            yield from filled
        else:
            yield filled
