"""Figures as text for people."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.bench.figures import Figures

TITLES: Final = {
    "a": "(a) one pod on an idle cluster",
    "b": "(b) many pods at once",
    "c": "(c) yardstick: the same writes, no quota, no webhook",
    "bc": "(b) many pods at once, and (c) the yardstick",
    "d": "(d) reviews over TLS",
    "e": "(e) Workloads made by hand, 5 cohorts of 6 queues",
    "f": "(f) pod groups of 20 pods",
    "g": "(g) Workloads made by hand, 10 cohorts of 100 queues, as many namespaces",
    "h": "(h) 10,000 Workloads wait in 1,000 queues, 50 namespaces a second change",
    "i": "(i) start with 50,000 Workloads and 50,000 bound pods",
    "racks": "(racks) Workloads made by hand, 5 cohorts of 6 queues, 640 nodes in 10 racks",
    "engine": "(engine) scheduling cycles alone",
    "places": "(places) room on 5,000 nodes with 50,000 bound pods; goals are upper bounds",
    "recovery": "(recovery) until somebody is admitted again after a failure, in seconds",
    "stall": "(stall) what one client can take from the others",
    "availability": "(availability) what users notice when one of two replicas fails, in seconds",
    "pages": "(pages) pages of the dashboard: 1,000 queues, 5,000 nodes",
    "waiting": "(waiting) 10,000 pods wait in 1,000 queues, and ten browsers watch",
}
OF_KUEUE: Final = " of Kueue"
"""What the name of a part ends with that Kueue's manager ran."""
_NAME_WIDTH: Final = 44


def text(found: Figures) -> str:
    """All parts, one below the other."""
    return "\n\n".join(
        "\n".join([_title(part), *_lines(part, figures)]) for part, figures in found.items()
    )


def _title(part: str) -> str:
    ours = part.removesuffix(OF_KUEUE)
    return TITLES[ours] if ours == part else f"{TITLES[ours]}, by Kueue's manager"


def _lines(part: str, found: Figures) -> Iterator[str]:
    if part == "bc":
        yield from _side_by_side(found["system"], found["yardstick"])
        yield from _tree({"ratio (system / yardstick)": found["ratio"]}, 1)
    else:
        yield from _tree(found, 1)


def _side_by_side(left: Figures, right: Figures) -> Iterator[str]:
    """Two sets of figures in two columns."""
    first, second = dict(_flat(left)), dict(_flat(right))
    yield _line("", "system", "yardstick")
    for name in [*first, *(name for name in second if name not in first)]:
        yield _line(name, _shown(first.get(name)), _shown(second.get(name)))


def _flat(found: Figures, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(dict(value), f"{prefix}{name}: ")
        else:
            yield f"{prefix}{name}".replace("_", " "), value


def _tree(found: Figures, depth: int) -> Iterator[str]:
    for name, value in found.items():
        label = "  " * (depth - 1) + name.replace("_", " ")
        if not isinstance(value, Mapping):
            yield _line(label, _shown(value))
        elif any(isinstance(inner, Mapping) for inner in value.values()):
            yield _line(label)
            yield from _tree(dict(value), depth + 1)
        else:
            parts = [f"{key.replace('_', ' ')} {_shown(inner)}" for key, inner in value.items()]
            yield _line(label, ", ".join(parts))


def _line(label: str, *values: str) -> str:
    columns = "".join(f" {value:>13}" for value in values)
    return f"  {label:{_NAME_WIDTH}}{columns}".rstrip()


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)
