"""Rules, boards, monitors and the guide of alerts fit together, and name only what is exported."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY, CollectorRegistry

from admission.admin import manifests
from admission.base import metrics
from admission.config.derived import Settings
from admission.controller import core
from admission.gpu import health
from admission.installed import serving_certificate
from tests.observability import boards, files, promql
from tests.repo import tree

GUIDE = tree.ROOT / "docs" / "guides" / "alerts.md"
RULES = [rule for group in files.rules()["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
BOARDS = boards.read()
QUERIES = [
    (f"{board.uid}: {panel.title}", query.expr)
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries
]
EXPRESSIONS = [(str(rule.get("alert", rule.get("record"))), rule["expr"]) for rule in RULES]

SOURCES = ("kustomization.yaml", "rules.yaml", "boards.yaml")
OF_OTHERS = {
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_admission_duration_seconds_bucket": {"name", "type", "le"},
    "DCGM_FI_DEV_XID_ERRORS": {"gpu", "UUID", "Hostname", "namespace", "pod", "container"},
    "DCGM_FI_DEV_GPU_UTIL": {
        "gpu", "UUID", "Hostname", "namespace", "pod", "container", "exported_namespace",
        "exported_pod",
    },
    "kube_pod_owner": {"namespace", "pod", "owner_kind", "owner_name", "owner_is_controller"},
    **{
        name: {"gpu", "UUID", "Hostname", "GPU_I_ID", "namespace", "pod", "container"}
        for name in (
            "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE",
            "DCGM_FI_DEV_FB_RESERVED",
        )
    },
}  # fmt: skip
"""Metrics of the API server, kube-state-metrics and dcgm-exporter, and labels of theirs."""


def exported() -> dict[str, set[str]]:
    """Every series of ours by its name, with its labels."""
    assert callable(core.Core)
    found: dict[str, set[str]] = {}
    registry = CollectorRegistry()
    metrics.WebhookProcessMetrics(registry)
    for collector in (*REGISTRY._collector_to_names, *registry._collector_to_names):
        name, labels = getattr(collector, "_name", None), getattr(collector, "_labelnames", ())
        if name is None:
            continue
        match getattr(collector, "_type", ""):
            case "counter":
                found[f"{name}_total"] = set(labels)
            case "histogram":
                found[f"{name}_bucket"] = {*labels, "le"}
                found[f"{name}_count"] = found[f"{name}_sum"] = set(labels)
            case _:
                found[name] = set(labels)
    return found


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((files.FOLDER / name).read_text("utf-8")))


# ------------------------------------------------------------------------------------------ files


def test_what_is_committed_is_what_make_manifests_writes() -> None:
    made = files.files()
    assert {name: (files.FOLDER / name).read_text("utf-8") for name in made} == made
    boards_there = {f"boards/{path.name}" for path in (files.FOLDER / "boards").iterdir()}
    assert boards_there == {name for name in made if name.startswith("boards/")}


def test_what_the_program_carries_for_the_chart_is_what_make_manifests_writes() -> None:
    paths = [path for path in files.OF_CHART.rglob("*") if path.is_file()]
    carried = {str(path.relative_to(files.OF_CHART)): path.read_text("utf-8") for path in paths}
    assert carried == files.of_chart()
    assert yaml.safe_load(carried["rules.yaml"]) == files.rules()


def test_the_object_for_the_operator_holds_the_same_rules() -> None:
    (wrapped,) = documents("prometheus-rule.yaml")
    assert wrapped["spec"] == files.rules()


def test_the_kustomization_lists_every_file() -> None:
    (found,) = documents("kustomization.yaml")
    (generated,) = found["configMapGenerator"]
    listed = {*found["resources"], *generated["files"], *SOURCES}
    paths = (path for path in files.FOLDER.rglob("*") if path.is_file())
    assert {str(path.relative_to(files.FOLDER)) for path in paths} == listed


@pytest.mark.parametrize("name", ["PodMonitor", "ServiceMonitor"])
def test_a_monitor_finds_a_port_of_ours_and_keeps_our_label_namespace(name: str) -> None:
    """Without honorLabels Prometheus would rename the namespace of a LocalQueue."""
    (monitor,) = [one for one in documents("monitors.yaml") if one["kind"] == name]
    base = manifests.base(Settings(), manifests.DEFAULT_IMAGE)
    objects = [one for part in base.values() for one in part]
    spec, selector = monitor["spec"], monitor["spec"]["selector"]["matchLabels"]
    (endpoint,) = spec.get("endpoints", []) + spec.get("podMetricsEndpoints", [])
    if name == "ServiceMonitor":
        (target,) = [
            one for one in objects
            if one["kind"] == "Service" and selector.items() <= one["metadata"]["labels"].items()
        ]  # fmt: skip
        ports = {port["name"] for port in target["spec"]["ports"]}
        assert endpoint["tlsConfig"]["serverName"] in serving_certificate.service_hosts(Settings())
        assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == serving_certificate.SECRET
    else:
        (template,) = [
            one["spec"]["template"] for one in objects
            if one["kind"] == "Deployment"
            and selector.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        ]  # fmt: skip
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert monitor["metadata"]["namespace"] == Settings().namespace
    assert endpoint["port"] in ports
    assert endpoint["honorLabels"] is True


# ------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize(("where", "expr"), [*EXPRESSIONS, *QUERIES])
def test_an_expression_names_only_metrics_and_labels_that_exist(where: str, expr: str) -> None:
    known = exported()
    labels_known = {label for labels in known.values() for label in labels} | {
        label for labels in OF_OTHERS.values() for label in labels
    }
    found = promql.names(expr)
    assert found.metrics, where
    assert found.labels - labels_known == set()
    for metric, asked in found.metrics:
        if metric in RECORDED:
            assert asked <= labels_known
        else:
            assert metric in {**known, **OF_OTHERS}, metric
            assert asked <= {**known, **OF_OTHERS}[metric], metric


@pytest.mark.parametrize(
    ("expr", "metrics_named", "labels"),
    [
        ('sum by (a, b) (up{c="x", d=~"y.*"}) > 0', {"up": {"c", "d"}}, {"a", "b"}),
        ("rate(x_total[$__range]) / on (a) group_left (b) max(y)", {"x_total": set(), "y": set()},
         {"a", "b"}),
        ("x unless x offset 1h", {"x": set()}, set()),
        ("time() - gpu:x:p95", {"gpu:x:p95": set()}, set()),
    ],
)  # fmt: skip
def test_names_of_an_expression(
    expr: str, metrics_named: dict[str, set[str]], labels: set[str]
) -> None:
    found = promql.names(expr)
    assert dict(found.metrics) == metrics_named
    assert found.labels == labels


def test_the_xids_that_are_left_out_are_those_that_are_not_sickness() -> None:
    left_out = set(map(int, re.findall(r"== (\d+)", ALERTS["GpuAdmissionXid"]["expr"])))
    assert left_out == health.PLUGIN_IGNORES | health.DISPUTED


# ----------------------------------------------------------------------------------------- alerts


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(name: str) -> None:
    alert = ALERTS[name]
    assert name.startswith("GpuAdmission")
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    said = alert["annotations"]
    assert said.keys() == {"summary", "description", "runbook_url"}
    assert said["runbook_url"] == f"docs/guides/alerts.md#{name.lower()}"
    assert said["summary"].endswith(".")
    assert not said["summary"].startswith("{{ $value | humanizeDuration")
    assert "gpu_admission_" not in said["summary"]


def test_the_guide_says_how_bad_each_alert_is_and_after_how_long_it_fires() -> None:
    row = re.compile(r"^\| \[(\w+)\]\(#\w+\) \| `(\w+)` \| (.+) \|$", re.MULTILINE)
    shown = row.findall(GUIDE.read_text())
    assert shown == [
        (name, alert["labels"]["severity"], alert.get("for", "at once"))
        for name, alert in ALERTS.items()
    ]


def sections() -> Iterator[tuple[str, str]]:
    """Title and text of each section of the guide that is about an alert."""
    parts = re.split(r"^### (.+)$", GUIDE.read_text("utf-8"), flags=re.MULTILINE)
    return zip(parts[1::2], parts[2::2], strict=True)


def test_the_guide_has_a_section_for_each_alert_in_the_order_of_the_rules() -> None:
    assert [title for title, _ in sections()] == list(ALERTS)


@pytest.mark.parametrize(("title", "text"), list(sections()))
def test_a_section_says_what_it_means_how_to_look_and_what_to_do(title: str, text: str) -> None:
    said = re.findall(r"^\*\*(.+?)\*\* \S", text, re.MULTILINE)
    assert said == ["What it means.", "How to look.", "What to do."], title


# ----------------------------------------------------------------------------------------- boards


@pytest.mark.parametrize("path", sorted((files.FOLDER / "boards").iterdir()), ids=lambda p: p.stem)
def test_a_board_is_one_that_grafana_can_show(path: Path) -> None:
    board = json.loads(path.read_text("utf-8"))
    assert board["uid"] == path.stem
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"].endswith(".")
    chosen = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", path.read_text("utf-8")))
    assert used == chosen


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_what_is_chosen_on_a_board_is_a_label_of_the_metric_that_lists_it(
    board: boards.Board,
) -> None:
    for variable in board.variables:
        assert variable.name in exported()[variable.metric]
