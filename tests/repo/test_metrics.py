"""Metrics are defined in one module, and each constant is called like its metric."""

import ast
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from admission.base import metrics

ROOT = Path(__file__).parents[2]
HOME = ROOT / "admission" / "base" / "metrics.py"
KINDS = {"Counter", "Gauge", "Histogram", "Summary", "Info"}
MODULES = sorted(path for path in (ROOT / "admission").rglob("*.py") if path != HOME)


def test_metrics_are_defined_in_one_module():
    found = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "prometheus_client"
            for alias in node.names
        } & KINDS
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in imported
        ]
    assert found == []


@pytest.mark.parametrize("constant", [name for name in vars(metrics) if name.isupper()])
def test_a_constant_is_called_like_its_metric(constant):
    value = getattr(metrics, constant)
    metric = value.cluster_queue if isinstance(value, metrics.ByQueue) else value
    name = getattr(metric, "_name", None)
    if name is None or constant.startswith("_"):
        return
    short = name.removeprefix("kueue_").removeprefix("gpu_admission_")
    assert constant.removesuffix("_GAUGE") == short.upper()


def test_every_help_text_is_a_sentence():
    webhook = metrics.WebhookProcessMetrics(CollectorRegistry())
    texts = [one.documentation for one in webhook.registry.collect()]
    texts += [
        metric._documentation
        for name, value in vars(metrics).items()
        for metric in (value if isinstance(value, metrics.ByQueue) else (value,))
        if name.isupper() and hasattr(metric, "_documentation")
    ]
    assert texts
    assert [text for text in texts if not text.endswith(".")] == []
