"""The Grafana boards: from what each panel asks to the JSON that Grafana imports.

What is asked stands in deploy/observability/boards.yaml; how Grafana draws it follows from the
kind of a panel.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import yaml

from tests.repo import tree

Json = dict[str, Any]

SOURCE: Final = tree.ROOT / "deploy" / "observability" / "boards.yaml"
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked, and how each series is called.

    Attributes:
        expr: PromQL, with Grafana's variables.
        name: of a series; labels in double braces.
    """

    expr: str
    name: str = ""


class Panel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question, and its answer as a picture.

    Attributes:
        title: the question, in the words of who looks.
        about: what the figures mean.
        queries: what is asked.
        kind: of Grafana's panels: ``timeseries``, ``stat`` or ``table``.
        unit: Grafana's name of the unit.
        width: in columns of 24.
        stacked: whether series are shown on top of each other.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 12
    stacked: bool = False


class Variable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that is chosen at the top of a board: values of a label.

    Attributes:
        name: of variable and label.
        metric: that has the label.
    """

    name: str
    metric: str


class Board(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Panels for somebody.

    Attributes:
        uid: by which Grafana knows it.
        title: its name.
        about: for whom it is.
        variables: what is chosen.
        panels: in order.
    """

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def read() -> tuple[Board, ...]:
    """Return the boards as they are written down."""
    found = yaml.safe_load(SOURCE.read_text("utf-8"))
    return tuple(msgspec.convert(found, list[Board]))


# ---------------------------------------------------------------------------------------- JSON


def text(board: Board) -> str:
    """Return a board as Grafana imports it."""
    return json.dumps(_document(board), indent=1, ensure_ascii=False) + "\n"


def _document(board: Board) -> Json:
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "tags": ["gpu-admission"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source(), *map(_variable, board.variables)]},
        "panels": list(_panels(board.panels)),
    }


def _source() -> Json:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Prometheus",
    }


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({variable.metric}, {variable.name})", "refId": "values"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panels(panels: Iterable[Panel]) -> Iterable[Json]:
    """Return the panels, each beside the one before as long as a line has room."""
    x = y = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        yield _panel(number, panel, {"x": x, "y": y, "w": panel.width, "h": _HEIGHT})
        x += panel.width


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> Json:
    is_now = panel.kind != "timeseries"
    defaults: Json = {"unit": panel.unit}
    if not is_now:
        defaults["custom"] = {
            "fillOpacity": 20 if panel.stacked else 0,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
        }
    found: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": dict(place),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + position),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.name or "__auto",
                **({"instant": True, "range": False} if is_now else {}),
                **({"format": "table"} if panel.kind == "table" else {}),
            }
            for position, query in enumerate(panel.queries)
        ],
    }
    if panel.kind == "table":
        found["transformations"] = [
            {"id": "organize", "options": {"excludeByName": {"Time": True}}}
        ]
    return found
