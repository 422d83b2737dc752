"""Manifests that users already write, and how tests read them."""

from pathlib import Path
from typing import Any

import yaml


def load(name: str) -> list[dict[str, Any]]:
    """The documents of one file."""
    text = Path(__file__).with_name(name + ".yaml").read_text("utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


def named(file: str, kind: str, name: str) -> dict[str, Any]:
    """The document of that kind and name."""
    found = [d for d in load(file) if d["kind"] == kind and d["metadata"]["name"] == name]
    assert len(found) == 1, f"{kind} {name}: {len(found)} in {file}"
    return found[0]
