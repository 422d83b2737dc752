"""What rules and boards ask for is there on a running system, and their queries return data."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typing_extensions import override

from admission.base import names
from tests.controlplane import waiting
from tests.controlplane.rest import RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed
from tests.observability import asking, boards, files, promql
from tests.observability.asking import Asked

A100 = "NVIDIA-A100-SXM4-80GB"
CONFIG = (
    {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]},
    },
)
RARE = {
    "gpu_admission_flavor_mismatched",
    "gpu_admission_flavor_sick",
    "gpu_admission_ledger_drift",
    "gpu_admission_node_ledger_drift",
    "gpu_admission_quota_without_node",
    "gpu_admission_quota_without_node_timestamp_seconds",
    "gpu_admission_undecodable_objects_total",
}
"""Metrics without a series as long as nothing is wrong: their names are on the page alone."""
DCGM = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="node-1",namespace="{0}",pod="ads-0",container="main"}} 80
DCGM_FI_DEV_GPU_UTIL{{gpu="1",Hostname="node-1",namespace="{0}",pod="ads-1",container="main"}} 10
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{{gpu="0",Hostname="node-1",namespace="{0}",pod="ads-0",container="main"}} 61
DCGM_FI_DEV_GPU_TEMP{{gpu="3",Hostname="node-1"}} 41
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{{gpu="0",Hostname="node-1",namespace="{0}",pod="ads-0"}} 40000
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{{gpu="0",Hostname="node-1",namespace="{0}",pod="ads-0"}} 41000
# TYPE DCGM_FI_DEV_FB_RESERVED gauge
DCGM_FI_DEV_FB_RESERVED{{gpu="0",Hostname="node-1",namespace="{0}",pod="ads-0"}} 500
# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="0",Hostname="node-1"}} 0
# TYPE DCGM_FI_DEV_ROW_REMAP_FAILURE gauge
DCGM_FI_DEV_ROW_REMAP_FAILURE{{gpu="0",Hostname="node-1"}} 0
# TYPE kube_pod_owner gauge
kube_pod_owner{{namespace="{0}",pod="ads-0",{1}}} 1
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{{gpu="0",Hostname="node-1"}} 0
DCGM_FI_DEV_XID_ERRORS{{gpu="3",Hostname="node-1"}} 79
"""
"""As dcgm-exporter and kube-state-metrics write it."""
OWNER = 'owner_kind="Job",owner_name="ads",owner_is_controller="true"'

RULES = [rule for group in files.rules()["groups"] for rule in group["rules"]]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
QUERIES = {
    f"{board.uid}: {panel.title} {query.name}": query.expr
    for board in boards.read()
    for panel in board.panels
    for query in panel.queries
}
ALWAYS = {
    where: expr
    for where, expr in QUERIES.items()
    if "vector(0)" in expr or not {name for name, _ in promql.names(expr).metrics} & RARE
}
FAILED_OPEN = "apiserver_admission_webhook_fail_open_count"
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Busy:
    """A running system with work that holds GPUs, waits, borrows, was evicted and refused."""

    system: Installed
    borrower: str

    def page(self, name: str) -> str:
        """The text of a ``/metrics``."""
        match name:
            case "controller":
                return self.system.page(self.system.metrics_url, "/metrics")[1]
            case "webhook":
                return self.system.page(self.system.webhook_url, "/metrics")[1]
            case "apiserver":
                return self.system.api.text("GET", "/metrics")
            case _:
                return DCGM.format(self.borrower, OWNER)


def add_team(system: Installed, name: str, **queue: Any) -> str:
    namespace = system.cluster.create_namespace(name)
    system.add_cluster_queue(name, flavors=("a100",), **queue)
    system.add_local_queue(namespace, name)
    system.wait_for_queue(namespace)
    return namespace


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    folder = tmp_path_factory.mktemp("busy")
    with snapshot.prepared(folder, Installed, whole=True) as system:
        config = system.folder / "config.yaml"
        config.write_text(yaml.safe_dump_all(CONFIG))
        system.install("--config", str(config))
        system.start("--config", str(config))
        yield fill(system)


def fill(system: Installed) -> Busy:
    """One team borrows what another waits for, one is alone, and a pod is outside every queue."""
    system.cluster.add_gpu_node("node-1", product=A100, gpus=6)
    system.add_flavor("a100", A100)
    ads = add_team(system, "ads", quota=2, cohortName="all")
    research = add_team(system, "research", quota=2, cohortName="all")
    music = add_team(system, "music", quota=1)
    outside = system.cluster.create_namespace("outside")
    system.create_pod(outside, "guest")
    for number in range(3):
        system.create_pod(ads, f"ads-{number}")
        system.wait_released(ads, f"ads-{number}")
    system.create_pod(research, "train", gpus=2)
    system.wait_condition(research, "train")
    system.create_pod(music, "play")
    system.wait_released(music, "play")
    path = f"{KUEUE}/namespaces/{music}/workloads"
    (workload,) = system.api.get(path)["items"]
    name = workload["metadata"]["name"]
    system.api.patch(f"{path}/{name}", {"spec": {"active": False}})
    waiting.until(
        lambda: not system.api.answers(f"/api/v1/namespaces/{music}/pods/play"), what="evicted"
    )
    with pytest.raises(RestError):
        system.create_pod(music, "wrong", annotations={names.GPU_MEMORY: "much"})
    pass_over_a_webhook(system, ads)
    found = Busy(system=system, borrower=ads)
    waiting.until(
        lambda: "gpu_admission_flavor_unmanaged{" in found.page("controller"),
        what="the pod outside every queue is seen",
    )
    return found


def pass_over_a_webhook(system: Installed, namespace: str) -> None:
    """Let the API server create objects though a webhook does not answer, until it counts that."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE"],
    }  # fmt: skip
    absent = {
        "name": "absent.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    system.api.post(path, {"metadata": {"name": "absent"}, "webhooks": [absent]})

    def is_counted() -> bool:
        made = {"metadata": {"generateName": "passed-"}}
        system.api.post(f"/api/v1/namespaces/{namespace}/configmaps", made)
        return f"{FAILED_OPEN}{{" in system.api.text("GET", "/metrics")

    waiting.until(is_counted, what="the API server passes over the webhook")
    system.api.delete(f"{path}/absent")


# ----------------------------------------------------------------------------- without Prometheus


def exposed(pages: Iterable[str]) -> dict[str, set[str]]:
    """Labels of all series by their name."""
    found: dict[str, set[str]] = {}
    for text in pages:
        for name, labels in _SAMPLE.findall(text):
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


@pytest.mark.controlplane
def test_what_rules_and_boards_name_is_on_the_pages_of_a_running_system(busy: Busy) -> None:
    pages = [busy.page(name) for name in ("controller", "webhook", "apiserver", "dcgm")]
    found = exposed(pages)
    declared = set(re.findall(r"^# TYPE (\S+) ", "\n".join(pages), re.MULTILINE))
    missing = []
    for expr in (*(rule["expr"] for rule in RULES), *QUERIES.values()):
        for metric, asked in promql.names(expr).metrics:
            if metric in RECORDED:
                continue
            if metric in RARE:
                assert metric in declared
            elif metric not in found:
                missing.append(metric)
            else:
                # Labels of dcgm-exporter's target are Prometheus' doing.
                unknown = asked - found[metric] - {"exported_namespace", "exported_pod"}
                missing += [f"{metric}: {label}" for label in sorted(unknown)]
    assert sorted(set(missing)) == []


# -------------------------------------------------------------------------------- with Prometheus


@contextmanager
def served(page: Callable[[str], str]) -> Iterator[int]:
    """Serve each page under its name on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(self.path.strip("/")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def scrapes(busy: Busy, port: int) -> list[dict[str, Any]]:
    (monitor, webhook) = yaml.safe_load_all((files.FOLDER / "monitors.yaml").read_text("utf-8"))
    honors = monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"]
    assert webhook["spec"]["endpoints"][0]["honorLabels"] is honors

    def job(name: str, target: str, **more: Any) -> dict[str, Any]:
        targets = [{"targets": [target], "labels": {"namespace": "of-the-target"}}]
        return {"job_name": name, "honor_labels": honors, "static_configs": targets, **more}

    authority = str(busy.system.certificates / "ca.crt")
    return [
        job("controller", f"127.0.0.1:{busy.system.metrics_port}"),
        job("webhook", f"127.0.0.1:{busy.system.webhook_port}", scheme="https",
            tls_config={"ca_file": authority, "server_name": "127.0.0.1"}),
        job("apiserver", f"127.0.0.1:{port}", metrics_path="/apiserver"),
        job("dcgm", f"127.0.0.1:{port}", metrics_path="/dcgm"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def asked(
    prometheus: Path, busy: Busy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        served(busy.page) as port,
        asking.running(prometheus, folder, scrapes(busy, port), files.rules()) as found,
    ):
        waiting.until(
            lambda: len(found.query("count_over_time(up[1h]) > 3 and up == 1")) == 4,
            what="everything scraped several times",
        )
        yield found


def as_grafana_asks(expr: str) -> str:
    """An expression with Grafana's variables replaced: everything is chosen."""
    chosen = {"$__rate_interval": "1m", "$__range": "5m", "$cluster_queue": ".*",
              "$namespace": ".*"}  # fmt: skip
    for variable, value in chosen.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return expr


@pytest.mark.controlplane
@pytest.mark.parametrize("where", ALWAYS)
def test_a_query_of_a_board_returns_data(asked: Asked, where: str) -> None:
    expr = as_grafana_asks(ALWAYS[where])
    waiting.until(lambda: asked.query(expr), what=f"data of {expr}")


@pytest.mark.controlplane
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recording_rule_records(asked: Asked, name: str) -> None:
    waiting.until(lambda: asked.query(name), what=f"{name} is recorded")


@pytest.mark.controlplane
def test_only_what_is_wrong_is_about_to_alert(asked: Asked) -> None:
    """One waits for what is its own while another borrows it; a GPU has an XID, one a guest."""
    wrong = {"GpuAdmissionUnfair", "GpuAdmissionUnmanagedGpus", "GpuAdmissionXid"}

    def raised() -> set[str]:
        return {one["metric"]["alertname"] for one in asked.query("ALERTS")}

    waiting.until(lambda: raised() >= wrong, what="alerts of what is wrong")
    assert raised() == wrong


@pytest.mark.controlplane
def test_figures_are_those_of_the_namespace_of_the_team(asked: Asked, busy: Busy) -> None:
    def of_borrower(name: str) -> list[str]:
        return [one["value"][1] for one in asked.query(f'{name}{{namespace="{busy.borrower}"}}')]

    assert waiting.until(lambda: of_borrower("gpu_admission:namespace_quota_used")) == ["3"]
    assert waiting.until(lambda: of_borrower("gpu_admission:namespace_gpus_measured")) == ["2"]
    assert [one["value"][1] for one in asked.query("gpu_admission:quota_owed")] == ["2"]
