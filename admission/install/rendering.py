"""Documents of an installation from the YAML files in ``templates``.

A scalar ``${NAME}`` stands for a value, whatever its type; in a longer text it stands for the
value's text. Nothing else is replaced: which documents are chosen is decided by whoever renders.
"""

import functools
import re
from importlib import resources
from typing import Any, Final

import yaml

Document = dict[str, Any]

_NAME: Final = re.compile(r"\$\{([A-Z_]+)\}")


def documents(name: str, **values: Any) -> list[Document]:
    """Return the documents of a template.

    Args:
        name: of the file, without ``.yaml``.
        values: of the names in it, in lower case.

    Raises:
        KeyError: the template has a name without a value.
    """
    found: list[Document] = [_filled(one, values) for one in _parsed(name)]
    return found


@functools.cache
def _parsed(name: str) -> tuple[Any, ...]:
    text = resources.files(__package__).joinpath("templates", f"{name}.yaml").read_text("utf-8")
    return tuple(yaml.safe_load_all(text))


def _filled(node: Any, values: dict[str, Any]) -> Any:
    """Return a copy with the values put in."""
    if isinstance(node, dict):
        return {_filled(key, values): _filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(item, values) for item in node]
    if not isinstance(node, str):
        return node
    if whole := _NAME.fullmatch(node):
        return values[whole[1].lower()]
    return _NAME.sub(lambda found: str(values[found[1].lower()]), node)
