"""Writes the pages of docs/reference from the code: ``make reference``."""

import ast
import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from prometheus_client import CollectorRegistry
from pydantic.fields import FieldInfo

from admission.base import causes, conditions, durations, metrics, names
from admission.base.conditions import PreemptionReason, WaitReason
from admission.config.gpu_configuration import GpuConfiguration
from admission.config.kueue_configuration import Configuration
from admission.config.model import ConfigModel, Unused
from admission.reasons import added_conditions, kueue
from admission.reasons.next_steps import CATALOGUE
from tests.guides import dependencies, keys
from tests.repo import tree

FOLDER: Final = tree.ROOT / "docs" / "reference"
_HEAD: Final = "<!-- Made by `make reference`; do not edit. -->\n"
_SECTION: Final = re.compile(r"^# -{5,} (.+)$", re.MULTILINE)
_ATTRIBUTE: Final = re.compile(r"^    (\w+): ", re.MULTILINE)
_KEY: Final = re.compile(r"[\w.]*(?:kueue\.x-k8s\.io|gpu-admission\.dev)/.")
_SHOWN_ITEMS: Final = 6


def pages() -> dict[str, Callable[[], str]]:
    """Return what makes each page, by the name of its file."""
    return {
        "annotations-and-labels.md": _keys,
        "conditions.md": _conditions,
        "configuration.md": _configuration,
        "dependencies.md": _dependencies,
        "metrics.md": _metrics,
    }


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(head)
    lines = [titles, ("---",) * len(titles), *map(tuple, rows)]
    cells = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "\n" + "".join(f"| {line} |\n" for line in cells)


def _page(title: str, text: str, *parts: str) -> str:
    return "\n".join([f"{_HEAD}# {title}\n{text}\n", *parts])


# -------------------------------------------------------------------- annotations and labels


def _keys() -> str:
    listed = {one.constant for one in (*keys.SET, *keys.READ)}
    return _page(
        "Annotations and labels",
        "Keys of objects, made from `admission/base/names.py`.",
        "## What people set\n" + _key_table(keys.SET),
        "## What people read\n" + _key_table(keys.READ),
        "## Other keys\nKept by the program, unless a guide says otherwise.\n"
        + _table(("key", "where"), sorted(_others(listed))),
    )


def _key_table(rows: Iterable[keys.Key]) -> str:
    shown = ((f"`{getattr(names, row.constant)}`", *row[1:]) for row in rows)
    return _table(("key", "is a", "on", "meaning"), sorted(shown))


def _others(listed: set[str]) -> Iterator[tuple[str, str]]:
    """Keys that no table has, with the comment beside them."""
    comments = dict(
        re.findall(r"^([A-Z_]+): Final = .*?  # (.+)$", inspect.getsource(names), re.MULTILINE)
    )
    for constant, value in vars(names).items():
        is_key = isinstance(value, str) and _KEY.match(value) is not None
        if is_key and constant not in {*listed, "CONFIG_API_VERSION"}:
            yield f"`{value}`", comments.get(constant, "")


# ------------------------------------------------------------------------------- conditions


def _conditions() -> str:
    modules = (conditions, kueue, added_conditions)
    titles = [found[1] for one in modules for found in _SECTION.finditer(inspect.getsource(one))]
    by_section: dict[str, list[tuple[str, str]]] = {title: [] for title in sorted(titles)}
    of_values = list(_texts_of_values())
    told = {(title, row[0]) for title, row in of_values}
    written = [(title, row) for title, row in _written_texts() if (title, row[0]) not in told]
    for title, row in (*written, *of_values):
        rows = by_section.setdefault(title, [])
        if row not in rows:
            rows.append(row)
    types_ = (
        (f"`{getattr(conditions, constant)}`", *told) for constant, told in keys.CONDITIONS.items()
    )
    waits = ", ".join(f"`{reason}`" for reason in conditions.WaitReason)
    ending = kueue.pods_end(causes.EndingPods("RESOURCE", "FLAVOR", 4, 4, "TIME"))
    return _page(
        "Conditions",
        "Types, reasons and texts, made from `admission/base/conditions.py`,"
        " `admission/base/causes.py` and `admission/reasons`. In texts a word like `NAME`, or an"
        " amount of 4, stands for what differs. Types that begin with `gpu-admission.dev/` are"
        " ours.",
        "## Types\n" + _table(("type", "on", "meaning when True"), types_),
        f"## Why a pod or an owner waits\nReasons of `{conditions.POD_ADMITTED}=False`, and codes "
        "of `kubectl gpu why`: see [why does it wait](../guides/why-does-it-wait.md).\n"
        + _table(("reason", "when"), ((f"`{code}`", it.title) for code, it in CATALOGUE.items())),
        f"## Why a Workload waits\nReasons of `QuotaReserved=False`: {waits}.\n\n"
        f"Where pods that are ending hold what it waits for, the message ends with: {ending}.\n",
        *(
            f"## {title}\n" + _table(("reason", "text"), sorted(rows))
            for title, rows in by_section.items()
            if rows
        ),
    )


def _written_texts() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the texts that the modules write, each with the title of its section."""
    for module in (conditions, kueue, added_conditions):
        source = inspect.getsource(module)
        starts = [(found.start(), found[1]) for found in _SECTION.finditer(source)]
        lines = [(source.count("\n", 0, at) + 1, title) for at, title in starts]
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Text"):
                continue
            titles = [title for line, title in lines if line <= node.lineno]
            row = (f"`{_said(node.args[0])}`", _said(node.args[1]) if len(node.args) > 1 else "")
            reason = row[0].strip("`")
            if titles and reason.isidentifier() and not reason.isupper():
                yield titles[-1], row


def _texts_of_values() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the texts of all values of `why`, each with the title of its section."""
    refusals = sorted(map(_sample, get_args(causes.Refusal)), key=kueue.refusal)
    pod_set = causes.RefusedPodSet("NAME", (causes.Unsuited("FLAVOR", "PROBLEM"),))
    reasons = (WaitReason.WAITING_FOR_QUOTA, WaitReason.EXCEEDS_MAX_QUOTA)
    for kind in get_args(causes.Why):
        values: list[Any] = []
        if kind is causes.NoFlavor:
            values = [kind(reason, (pod_set,)) for reason in (*reasons, _NO_FLAVOR)]
        elif kind is causes.PendingPreemption:
            values = [kind((pod_set,), 4)]
        elif kind is causes.Preempted:
            values = [_sample(kind, cause) for cause in PreemptionReason]
            reclaimed = _sample(kind, PreemptionReason.IN_COHORT_RECLAMATION)
            values += [replace(reclaimed, cut=cut) for cut in causes.QuotaCut]
        elif kind not in {causes.Stated, causes.EvictedBefore}:
            values = [_sample(kind)]
        title = (
            "Workloads: Evicted" if kind is causes.Preempted else "Workloads: QuotaReserved=False"
        )
        for value in values:
            reason, message = kueue.text(value)
            yield title, (f"`{reason}`", message)
    for refusal in refusals:
        title = "Workloads: why a flavor is not given, in the messages of QuotaReserved=False"
        yield title, ("", kueue.refusal(refusal))
    for kind in get_args(causes.QueueBlocker):
        reason, message = kueue.blocker(_sample(kind))
        yield "ClusterQueues: Active", (f"`{reason}`", message)


_NO_FLAVOR: Final = WaitReason.NO_MATCHING_FLAVOR


def _sample(kind: Any, *given: Any) -> Any:
    """Return a value with the names of its fields in place of what differs."""
    lists: dict[str, Any] = {
        "pairs": (("TOPOLOGY", "FLAVOR"),),
        "place": causes.CapPlace("QUEUE", "", "USER", ""),
        "hole": causes.NodeFree("NODE", 4),
        "refusals": (),
        "telling": (),
        "possible": (),
        "taints": (),
        "cut": None,
        "largest": None,
        "layers": (),
        "excluded": causes.NodesExcluded(4, resources=(("RESOURCE", 4),)),
    }
    values = list(given)
    for field in dataclasses.fields(kind)[len(given) :]:
        name = field.name.upper()
        plain: Any = (name,) if str(field.type).startswith("tuple") else name
        plain = 4 if field.type is int else plain
        values.append(field.default if field.type is bool else lists.get(field.name, plain))
    return kind(*values)


def _said(node: ast.expr) -> str:
    """A text in the code, with the names of what is put into it."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(_said(part) for part in node.values)
        case ast.FormattedValue():
            return _placeholder(node.value)
        case ast.BinOp():
            return _said(node.left) + _said(node.right)
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            found = getattr(getattr(conditions, owner, None), attribute, None)
            return _placeholder(node) if found is None else str(found)
        case ast.Name(id=name) if isinstance(getattr(conditions, name, None), str):
            return str(getattr(conditions, name))
        case _:
            return _placeholder(node)


def _placeholder(node: ast.expr) -> str:
    called = re.findall(r"[a-z_]{2,}", ast.unparse(node))
    return called[-1].strip("_").upper() if called else "NAME"


# ---------------------------------------------------------------------------------- metrics


def _metrics() -> str:
    found: dict[str, tuple[str, ...]] = {}
    for constant, value in vars(metrics).items():
        for metric in value if isinstance(value, metrics.ByQueue) else (value,):
            if constant.isupper() and hasattr(metric, "_labelnames"):
                found.update([_metric(metric)])
    of_webhook = metrics.WebhookProcessMetrics(CollectorRegistry())
    served = (one for one in vars(of_webhook).values() if hasattr(one, "_labelnames"))
    return _page(
        "Metrics",
        "Made from `admission/base/metrics.py`. What differs from Kueue:"
        " [metrics](metrics-and-boards.md).",
        "## Controller\n" + _table(_METRIC, [found[name] for name in sorted(found)]),
        "## Webhook\n" + _table(_METRIC, sorted(dict(map(_metric, served)).values())),
    )


_METRIC: Final = ("metric", "type", "labels", "meaning")


def _metric(metric: Any) -> tuple[str, tuple[str, ...]]:
    name = metric._name + ("_total" if metric._type == "counter" else "")
    labels = ", ".join(f"`{label}`" for label in metric._labelnames)
    return name, (f"`{name}`", metric._type, labels, metric._documentation)


# ---------------------------------------------------------------------------- configuration


def _configuration() -> str:
    return _page(
        "Configuration",
        "A file may hold both documents. `gpu-admission config --config FILE` checks one,"
        " `gpu-admission config --print` shows every default. Made from `admission/config`.",
        "## GpuConfiguration\nOur own part, `config.gpu-admission.dev/v1alpha1`.\n"
        + _table(_FIELD, _fields(GpuConfiguration)),
        "## Configuration\nKueue's, `config.kueue.x-k8s.io/v1beta2`; v1beta1 is read, too.\n"
        + _table(_FIELD, _fields(Configuration)),
    )


_FIELD: Final = ("field", "value", "default", "meaning")


def _fields(model: type[ConfigModel], path: str = "") -> Iterator[tuple[str, ...]]:
    texts = _attributes(model)
    for name, field in model.model_fields.items():
        where = f"{path}{field.alias}"
        unused = next((one for one in field.metadata if isinstance(one, Unused)), None)
        inner, suffix = _inner(field.annotation)
        text = texts.get(name, "")
        if unused is not None:
            yield f"`{where}`", "", "", f"no effect: {unused.why}"
            continue
        if inner is None or text:
            shown = "" if inner else _default(field)
            yield f"`{where}`", _value(field.annotation), shown, text
        if inner is not None:
            yield from _fields(inner, f"{where}{suffix}.")


def _attributes(model: type[ConfigModel]) -> Mapping[str, str]:
    """What the docstring says of each field."""
    text = inspect.getdoc(model) or ""
    listed = text.partition("Attributes:\n")[2]
    parts = _ATTRIBUTE.split("\n" + listed)
    said = zip(parts[1::2], parts[2::2], strict=True)
    return {name: " ".join(words.split()).removesuffix(".") for name, words in said}


def _inner(kind: Any) -> tuple[type[ConfigModel] | None, str]:
    """The model of a field, and how its path goes on."""
    if isinstance(kind, type) and issubclass(kind, ConfigModel):
        return kind, ""
    for part in get_args(kind):
        found, suffix = _inner(part)
        if found is not None:
            return found, "[]" if get_origin(kind) is list else suffix
    return None, ""


def _value(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts if part)
    if origin in {Union, types.UnionType}:
        return _value(next(part for part in parts if part is not types.NoneType))
    if origin is list:
        return "list"
    if origin is dict:
        return "map"
    if origin is not None:
        return _value(parts[0])
    known = {bool: "`true`, `false`", int: "integer", timedelta: "duration", str: "text"}
    return known.get(kind, "object")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "follows from others"
    return _shown(field.default)


def _shown(value: Any) -> str:
    match value:
        case None | "" | [] | {}:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case timedelta():
            return f"`{durations.to_wire(value // timedelta(microseconds=1))}`"
        case list():
            more = ", ..." if len(value) > _SHOWN_ITEMS else ""
            return ", ".join(f"`{one}`" for one in value[:_SHOWN_ITEMS]) + more
        case _:
            return f"`{value}`"


# -------------------------------------------------------------------------------- dependencies


def _dependencies() -> str:
    head = ("package", "version", "licence", "needed by", "loaded")
    return _page(
        "Dependencies",
        "Packages that an image holds besides the program, made from `deploy/requirements.lock`"
        " and what each package says of itself. Loaded is what controller and webhook import when"
        " they start; the others are installed because a package asks for them.",
        _table(head, dependencies.rows()),
    )


def main(folder: Path = FOLDER) -> None:
    """Write the pages."""
    folder.mkdir(exist_ok=True)
    for name, make in pages().items():
        (folder / name).write_text(make())


if __name__ == "__main__":
    main()
