"""Each alert fires on its cause, not before its time, and not while all is calm."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.base import durations
from tests.observability import files

Series = Mapping[str, str]
"""Values by series, in promtool's notation: one value a minute."""

_A100 = 'flavor="a100", resource="nvidia.com/gpu"'
_BUCKETS = ("0.5", "1", "5", "+Inf")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What makes an alert fire, and what does not.

    Attributes:
        cause: series from the first minute on.
        calm: series that look alike, and are all right.
        minute: at which it has fired.
        labels: of the alert, beside its name and severity.
        since: minute of the cause, where it is not there from the start.
    """

    cause: Series
    calm: Series
    labels: Mapping[str, str] = field(default_factory=dict)
    minute: int = 120
    since: int = 0


def histogram(name: str, labels: str, *values: str) -> dict[str, str]:
    """Buckets with the bounds 0.5, 1, 5 and infinity."""
    return {
        f'{name}_bucket{{{labels}, le="{bound}"}}': value
        for bound, value in zip(_BUCKETS, values, strict=True)
    }


def waits(bound: int, steps: str) -> dict[str, str]:
    """Admissions to ``research``, of which all take up to that many seconds."""
    name = 'kueue_admission_wait_time_seconds_bucket{cluster_queue="research", priority_class=""'
    return {
        f'{name}, le="640"}}': "0x600" if bound > 640 else steps,
        f'{name}, le="40960"}}': steps,
        f'{name}, le="+Inf"}}': steps,
    }


def quota(queue: str, *, nominal: int, used: int, root: str = "all") -> dict[str, str]:
    """A ClusterQueue with quota of A100s."""
    of = f'cohort="{root}", cluster_queue="{queue}", {_A100}'
    return {
        f"kueue_cluster_queue_nominal_quota{{{of}}}": f"{nominal}x600",
        f"kueue_cluster_queue_resource_reservation{{{of}}}": f"{used}x600",
        f'kueue_cluster_queue_status{{cluster_queue="{queue}", status="active"}}': "1x600",
        f'kueue_cluster_queue_info{{cluster_queue="{queue}", root_cohort="{root}"}}': "1x600",
    }


def pending(queue: str, gpus: int) -> dict[str, str]:
    of = f'cluster_queue="{queue}", resource="nvidia.com/gpu"'
    return {f"kueue_cluster_queue_resource_pending{{{of}}}": f"{gpus}x600"}


_RESEARCH = {"cluster_queue": "research"}
_HELD_A100 = '{cluster_queue="research", flavor="a100", resource="nvidia.com/gpu"}'
_ON_GPU_0 = '{node="gpu-0", resource="nvidia.com/gpu"}'
_OF_A100 = {"flavor": "a100", "resource": "nvidia.com/gpu"}
_OLDEST = 'gpu_admission_oldest_pending_timestamp_seconds{cluster_queue="research"}'
_REVIEWS = "gpu_admission_webhook_reviews_total"
_REJECTED = "apiserver_admission_webhook_rejection_count"
_FAILED_OPEN = "apiserver_admission_webhook_fail_open_count"
_EXPIRY = 'gpu_admission_certificate_expiry_timestamp_seconds{certificate="serving"}'

_GPU_3 = {"gpu": "3", "Hostname": "node-1"}


def gpu(field: str, number: str = "3") -> str:
    """A series of dcgm-exporter about a GPU."""
    return f'DCGM_FI_DEV_{field}{{gpu="{number}", Hostname="node-1"}}'


def busy(namespace: str, *values: str) -> dict[str, str]:
    """How busy the GPUs of a namespace are, in percent: one pod for each."""
    return {
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}", Hostname="node-1", namespace="{namespace}",'
        f' pod="{namespace}-{number}", container="main"}}': value
        for number, value in enumerate(values)
    }


def holds(namespace: str) -> dict[str, str]:
    """Quota of a namespace that is in use."""
    name = "kueue_local_queue_resource_reservation"
    return {f'{name}{{namespace="{namespace}", name="default", {_A100}}}': "2x600"}


CASES: Mapping[str, Case] = {
    "GpuAdmissionNoLeader": Case(
        cause={'gpu_admission_leader{pod="a"}': "0x600", 'gpu_admission_leader{pod="b"}': "0x600"},
        calm={'gpu_admission_leader{pod="a"}': "1x600", 'gpu_admission_leader{pod="b"}': "0x600"},
    ),
    "GpuAdmissionLeaderFlapping": Case(
        cause={
            'gpu_admission_leader{pod="a"}': "0x80 1 0 1 0 1x600",
            'gpu_admission_leader{pod="b"}': "1x80 0 1 0 1 0x600",
        },
        calm={  # an upgrade: each pod is replaced, and each leads once
            'gpu_admission_leader{pod="a"}': "1x85 stale",
            'gpu_admission_leader{pod="b"}': "0x85 1x5 stale",
            'gpu_admission_leader{pod="c"}': "_x80 0x12 1x600",
        },
        since=80,
    ),
    "GpuAdmissionWebhookDown": Case(
        cause={"gpu_admission_webhook_ready": "0x600"},
        calm={
            'gpu_admission_webhook_ready{pod="a"}': "0x600",
            'gpu_admission_webhook_ready{pod="b"}': "1x600",
        },
    ),
    "GpuAdmissionWebhookUnreachable": Case(
        cause={f'{_REJECTED}{{name="vpod.kb.io", error_type="calling_webhook_error"}}': "0+3x600"},
        calm={
            f'{_REJECTED}{{name="vpod.kb.io", error_type="no_error"}}': "0+3x600",
            f'{_REJECTED}{{name="v.example.com", error_type="calling_webhook_error"}}': "0+3x600",
        },
        labels={"name": "vpod.kb.io"},
    ),
    "GpuAdmissionReviewsSkipped": Case(
        cause={f'{_FAILED_OPEN}{{name="mpod.kb.io", type="admit"}}': "0+3x600"},
        calm={
            f'{_FAILED_OPEN}{{name="mpod.kb.io", type="admit"}}': "3x600",
            f'{_FAILED_OPEN}{{name="v.example.com", type="validating"}}': "0+3x600",
        },
        labels={"name": "mpod.kb.io"},
    ),
    "GpuAdmissionWebhookErrors": Case(
        cause={f'{_REVIEWS}{{path="/mutate--v1-pod", outcome="failed"}}': "_x115 1x600"},
        calm={
            f'{_REVIEWS}{{path="/mutate--v1-pod", outcome="denied"}}': "_x115 1+1x600",
            f'{_REVIEWS}{{path="/validate--v1-pod", outcome="failed"}}': "1x600",
        },
        labels={"path": "/mutate--v1-pod"},
        since=115,
    ),
    "GpuAdmissionWebhookSlow": Case(
        cause=histogram(
            "gpu_admission_webhook_review_duration_seconds",
            'path="/mutate--v1-pod"',
            "0+90x600", "0+90x600", "0+100x600", "0+100x600",
        ),
        calm=histogram(
            "gpu_admission_webhook_review_duration_seconds",
            'path="/mutate--v1-pod"',
            "0+100x600", "0+100x600", "0+100x600", "0+100x600",
        ),
        labels={"path": "/mutate--v1-pod"},
    ),
    "GpuAdmissionCertificateNearItsEnd": Case(
        cause={_EXPIRY: f"{20 * 86400}x600"},
        calm={_EXPIRY: f"{120 * 86400}x600"},
        labels={"certificate": "serving"},
    ),
    "GpuAdmissionCertificateEndsSoon": Case(
        cause={_EXPIRY: f"{2 * 86400}x600"},
        calm={_EXPIRY: f"{20 * 86400}x600"},
        labels={"certificate": "serving"},
    ),
    "GpuAdmissionBreakGlass": Case(
        cause={
            'gpu_admission_break_glass{pod="a"}': "1x5 stale",
            'gpu_admission_break_glass{pod="b"}': "1x600",
        },
        calm={
            'gpu_admission_break_glass{pod="a"}': "0x600",
            'gpu_admission_break_glass{pod="b"}': "1x12 0x600",
        },
    ),
    "GpuAdmissionApiThrottled": Case(
        cause={"gpu_admission_requests_throttled_total": "0+30x600"},
        calm={"gpu_admission_requests_throttled_total": "0+1x600"},
    ),
    "GpuAdmissionWritesSlow": Case(
        cause=histogram(
            "gpu_admission_write_duration_seconds", 'purpose="evict", result="done"',
            "0+50x600", "0+60x600", "0+90x600", "0+100x600",
        ),
        calm=histogram(
            "gpu_admission_write_duration_seconds", 'purpose="evict", result="done"',
            "0+96x600", "0+99x600", "0+100x600", "0+100x600",
        ),
    ),
    "GpuAdmissionUnreadableObjects": Case(
        cause={'gpu_admission_undecodable_objects_total{kind="Workload"}': "_x100 1x600"},
        calm={'gpu_admission_undecodable_objects_total{kind="Workload"}': "1x600"},
        labels={"kind": "Workload"},
        since=100,
    ),
    "GpuAdmissionLedgerDrift": Case(
        cause={f'gpu_admission_ledger_drift{{cluster_queue="research", {_A100}}}': "-2x600"},
        calm={f'gpu_admission_ledger_drift{{cluster_queue="research", {_A100}}}': "0x600"},
        labels={**_RESEARCH, **_OF_A100},
    ),
    "GpuAdmissionNodeLedgerDrift": Case(
        cause={f"gpu_admission_node_ledger_drift{_ON_GPU_0}": "-1x600"},
        calm={f"gpu_admission_node_ledger_drift{_ON_GPU_0}": "-1x25 0x600"},
        labels={"node": "gpu-0", "resource": "nvidia.com/gpu"},
    ),
    "GpuAdmissionStopsHeldBack": Case(
        cause={"gpu_admission_stops_held_back": "40x600"},
        calm={"gpu_admission_stops_held_back": "0x600"},
    ),
    "GpuAdmissionPaused": Case(
        cause={"gpu_admission_paused": "1x600"}, calm={"gpu_admission_paused": "0x600"}
    ),
    "GpuAdmissionQuotaHeldByEndingPods": Case(
        cause={'gpu_admission_releasing_pods{cluster_queue="research"}': "1x600"},
        calm={'gpu_admission_releasing_pods{cluster_queue="research"}': "0 1x30 0x600"},
        labels=_RESEARCH,
    ),
    "GpuAdmissionQuotaWithoutNode": Case(
        cause={
            f"gpu_admission_quota_without_node{_HELD_A100}": "4x600",
            f"gpu_admission_quota_without_node_timestamp_seconds{_HELD_A100}": "0x600",
        },
        calm={
            f"gpu_admission_quota_without_node{_HELD_A100}": "4x600",
            f"gpu_admission_quota_without_node_timestamp_seconds{_HELD_A100}": "0+60x600",
        },
        labels={**_RESEARCH, **_OF_A100},
    ),
    "GpuAdmissionWaitLong": Case(
        cause=waits(40960, "0+1x600"), calm=waits(640, "0+1x600"), labels=_RESEARCH
    ),
    "GpuAdmissionStarvation": Case(
        cause={
            _OLDEST: "-100000x600",
            'kueue_admitted_workloads_total{cluster_queue="research"}': "0+1x600",
        },
        calm={  # nobody passes by: the cluster is full
            _OLDEST: "-100000x600",
            'kueue_admitted_workloads_total{cluster_queue="research"}': "5x600",
        },
        labels=_RESEARCH,
    ),
    "GpuAdmissionUnfair": Case(
        cause={
            **quota("research", nominal=8, used=2), **pending("research", 4),
            **quota("ads", nominal=8, used=14), **pending("ads", 0),
        },
        calm={
            **quota("research", nominal=8, used=8), **pending("research", 4),  # uses its own
            **quota("ads", nominal=8, used=14),
            **quota("video", nominal=8, used=2), **pending("video", 0),  # wants nothing
            **quota("music", nominal=8, used=2, root="other"), **pending("music", 4),
        },
        labels={**_RESEARCH, **_OF_A100, "cohort": "all", "root_cohort": "all"},
    ),
    "GpuAdmissionQuotaAboveCapacity": Case(
        cause={
            **quota("research", nominal=8, used=0), **quota("ads", nominal=8, used=0),
            f"gpu_admission_flavor_real{{{_A100}}}": "12x600",
        },
        calm={
            **quota("research", nominal=8, used=0), **quota("ads", nominal=4, used=0),
            f"gpu_admission_flavor_real{{{_A100}}}": "12x600",
        },
        labels=_OF_A100,
    ),
    "GpuAdmissionSickGpus": Case(
        cause={f"gpu_admission_flavor_sick{{{_A100}}}": "1x600"},
        calm={f"gpu_admission_flavor_sick{{{_A100}}}": "0x600"},
        labels=_OF_A100,
    ),
    "GpuAdmissionXid": Case(
        cause={'DCGM_FI_DEV_XID_ERRORS{gpu="3", Hostname="node-1"}': "79x600"},
        calm={
            'DCGM_FI_DEV_XID_ERRORS{gpu="3", Hostname="node-1"}': "0x600",
            'DCGM_FI_DEV_XID_ERRORS{gpu="4", Hostname="node-1"}': "31x600",
        },
        labels={"gpu": "3", "Hostname": "node-1"},
    ),
    "GpuAdmissionGpuHot": Case(
        cause={gpu("GPU_TEMP"): "90x600"},
        calm={
            gpu("GPU_TEMP"): "60 90 90 60x600",  # for a moment
            gpu("GPU_TEMP", "4"): "83x600",
        },
        labels=_GPU_3,
    ),
    "GpuAdmissionGpuMemoryErrors": Case(
        cause={gpu("ECC_DBE_VOL_TOTAL"): "0x100 1x600", gpu("ROW_REMAP_FAILURE"): "0x600"},
        calm={gpu("ECC_DBE_VOL_TOTAL"): "0x600", gpu("ROW_REMAP_FAILURE", "4"): "0x600"},
        labels=_GPU_3,
        since=101,
    ),
    "GpuAdmissionGpuMemoryFull": Case(
        cause={gpu("FB_USED"): "80000x600", gpu("FB_FREE"): "1000x600"},
        calm={
            gpu("FB_USED"): "60000x600", gpu("FB_FREE"): "21000x600",
            # full but for what the driver keeps
            gpu("FB_USED", "4"): "76000x600", gpu("FB_FREE", "4"): "1000x600",
            gpu("FB_RESERVED", "4"): "4000x600",
        },
        labels=_GPU_3,
    ),
    "GpuAdmissionGpuGone": Case(
        cause={gpu("GPU_TEMP"): "50x99 stale", gpu("GPU_TEMP", "4"): "50x600"},
        calm={  # a pod took the GPU over from another one
            'DCGM_FI_DEV_GPU_TEMP{gpu="3", Hostname="node-1", pod="a"}': "50x50 stale",
            'DCGM_FI_DEV_GPU_TEMP{gpu="3", Hostname="node-1", pod="b"}': "_x51 50x600",
            gpu("GPU_TEMP", "4"): "50x600",
        },
        labels=_GPU_3,
        since=100,
    ),
    "GpuAdmissionDeviceReportsStopped": Case(
        cause={gpu("GPU_TEMP"): "50x99 stale", gpu("GPU_TEMP", "4"): "50x99 stale"},
        calm={gpu("GPU_TEMP"): "50x90 _x3 50x600", gpu("GPU_TEMP", "4"): "50x600"},  # a restart
        labels={"Hostname": "node-1"},
        since=100,
    ),
    "GpuAdmissionGpusIdle": Case(
        cause={**busy("research", "10x600", "20x600"), **holds("research")},
        calm={
            **busy("research", "10x600", "90x600"), **holds("research"),
            **busy("ads", "80x20 5x10 80x600"), **holds("ads"),  # loads its data
            **busy("drivers", "0x600"),  # holds no quota
        },
        labels={"namespace": "research"},
    ),
    "GpuAdmissionUnmanagedGpus": Case(
        cause={f"gpu_admission_flavor_unmanaged{{{_A100}}}": "2x600"},
        calm={f"gpu_admission_flavor_unmanaged{{{_A100}}}": "0x600"},
        labels=_OF_A100,
    ),
}  # fmt: skip

ALERTS = {
    rule["alert"]: rule
    for group in files.rules()["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
_RUNS = {"gpu_admission_leader": "1x600", "gpu_admission_webhook_ready": "1x600"}
"""Without these two series something is wrong, whatever else there is."""


def run(promtool: Path, folder: Path, *tests: dict[str, Any]) -> None:
    """Have promtool evaluate the rules over series; fail where they differ."""
    text = {
        "rule_files": [str(files.RULES)], "evaluation_interval": "1m", "tests": list(tests)
    }  # fmt: skip
    path = folder / "tests.yaml"
    path.write_text(yaml.safe_dump(text))
    done = subprocess.run(
        [str(promtool), "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def over(series: Series, *expected: tuple[str, int, list[str]]) -> dict[str, Any]:
    """A test: what an expression gives at a minute, as series with the value 1."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": value} for name, value in series.items()],
        "promql_expr_test": [
            {
                "expr": expr, "eval_time": f"{minute}m",
                "exp_samples": [{"labels": one, "value": 1} for one in samples],
            }
            for expr, minute, samples in expected
        ],
    }  # fmt: skip


def firing(name: str) -> str:
    return f'ALERTS{{alertname="{name}", alertstate="firing"}}'


def alerted(name: str, labels: Mapping[str, str]) -> str:
    """The series of an alert that fires."""
    own = {"alertname": name, "alertstate": "firing", **ALERTS[name]["labels"], **labels}
    pairs = ", ".join(f'{key}="{value}"' for key, value in own.items())
    return f"ALERTS{{{pairs}}}"


def minutes_of_for(name: str) -> int:
    return durations.parse(ALERTS[name].get("for", "0s")) // 60_000_000


def test_every_alert_has_a_case() -> None:
    assert list(CASES) == list(ALERTS)


@pytest.mark.parametrize("name", CASES)
def test_the_words_of_an_alert_use_only_labels_that_it_has(name: str) -> None:
    text = " ".join(ALERTS[name]["annotations"].values())
    used = set(re.findall(r"\$labels\.(\w+)", text))
    assert used <= {*CASES[name].labels, "cluster_queue"} - (
        set() if "cluster_queue" in CASES[name].labels else {"cluster_queue"}
    )


def test_promtool_takes_the_rules(promtool: Path) -> None:
    done = subprocess.run(
        [str(promtool), "check", "rules", "--lint=all", "--lint-fatal", str(files.RULES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_on_its_cause_when_it_has_lasted(
    promtool: Path, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    lasts = minutes_of_for(name)
    early: list[tuple[str, int, list[str]]] = []
    if lasts:
        early = [(firing(name), case.since + lasts - 1, [])]
    run(
        promtool,
        tmp_path,
        over({**_without(case.cause), **case.cause}, *early,
             (firing(name), case.minute, [alerted(name, case.labels)])),
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_alert_fires_while_all_is_calm(promtool: Path, tmp_path: Path, name: str) -> None:
    """Also no other alert: what is calm for one is so for all."""
    case = CASES[name]
    series = {**_without(case.calm), **case.calm}
    others = {"GpuAdmissionCertificateNearItsEnd"} if name.endswith("EndsSoon") else set()
    unwanted = "|".join(sorted(set(ALERTS) - others))
    expr = f'ALERTS{{alertname=~"{unwanted}", alertstate="firing"}}'
    run(promtool, tmp_path, over(series, *((expr, minute, []) for minute in (65, case.minute))))


def _without(series: Series) -> dict[str, str]:
    """Return what runs, without what is said of it in the series."""
    named = {name.partition("{")[0] for name in series}
    return {name: value for name, value in _RUNS.items() if name not in named}


@pytest.mark.parametrize(
    ("metric", "name"),
    [("gpu_admission_leader", "GpuAdmissionNoLeader"),
     ("gpu_admission_webhook_ready", "GpuAdmissionWebhookDown")],
)  # fmt: skip
def test_what_prometheus_does_not_reach_at_all_is_missing(
    promtool: Path, tmp_path: Path, metric: str, name: str
) -> None:
    others = {key: value for key, value in _RUNS.items() if key != metric}
    run(promtool, tmp_path, over(others, (firing(name), 10, [alerted(name, {})])))


def test_gpu_hours_and_waits_are_what_they_say(promtool: Path, tmp_path: Path) -> None:
    """8 GPUs for half an hour, then 4 for the other half; another pod leads after 20 minutes."""
    of = f'cohort="all", cluster_queue="research", {_A100}'
    name = "kueue_cluster_queue_resource_reservation"
    series = {
        f'{name}{{{of}, pod="a"}}': "8x19 stale",
        f'{name}{{{of}, pod="b"}}': "_x20 8x9 4x300",
        'gpu_admission_oldest_pending_timestamp_seconds{cluster_queue="research"}': "600x100",
        **waits(640, "0+1x100"),
    }
    test = over(series)
    test["promql_expr_test"] = [
        {
            "expr": 'sum(gpu_admission:gpu_hours:1h{cluster_queue="research"})',
            "eval_time": "59m",
            "exp_samples": [{"labels": "{}", "value": 6}],
        },
        {
            "expr": "gpu_admission:oldest_pending_seconds",
            "eval_time": "60m",
            "exp_samples": [
                {
                    "labels": 'gpu_admission:oldest_pending_seconds{cluster_queue="research"}',
                    "value": 3000,
                }
            ],
        },
        {
            "expr": "sum(gpu_admission:admission_wait_seconds:p50_1h)",
            "eval_time": "60m",
            "exp_samples": [{"labels": "{}", "value": 320}],
        },
    ]
    run(promtool, tmp_path, test)


@pytest.mark.parametrize("gives_way", [False, True], ids=["exported_namespace", "honorLabels"])
def test_how_busy_gpus_are_is_counted_for_the_namespace_of_the_pod(
    promtool: Path, tmp_path: Path, *, gives_way: bool
) -> None:
    exporter = 'namespace="gpu-operator", pod="exporter-1", container="nvidia-dcgm-exporter"'
    if gives_way:
        busy = 'gpu="0", namespace="research", pod="train", container="main"'
    else:
        busy = (
            f'gpu="0", {exporter}, exported_namespace="research", exported_pod="train",'
            ' exported_container="main"'
        )
    series = {
        f"DCGM_FI_DEV_GPU_UTIL{{{busy}}}": "50x60",
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="1", {exporter}}}': "0x60",  # a GPU without a pod
    }
    test = over(series)
    test["promql_expr_test"] = [
        {
            "expr": name, "eval_time": "10m",
            "exp_samples": [{"labels": f'{name}{{namespace="research"}}', "value": value}],
        }
        for name, value in (
            ("gpu_admission:namespace_gpus_busy", 0.5),
            ("gpu_admission:namespace_gpus_measured", 1),
        )
    ]  # fmt: skip
    run(promtool, tmp_path, test)


@pytest.mark.parametrize("gives_way", [False, True], ids=["exported_pod", "honorLabels"])
def test_how_busy_gpus_are_is_counted_for_the_owner_of_the_pod(
    promtool: Path, tmp_path: Path, *, gives_way: bool
) -> None:
    def of_pod(number: int) -> str:
        of = f'namespace="research", pod="train-{number}"'
        if gives_way:
            return f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}", {of}, container="main"}}'
        of = of.replace("namespace", "exported_namespace").replace("pod=", "exported_pod=")
        return (
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}", namespace="gpu-operator", pod="exporter-1",'
            f" {of}}}"
        )

    owner = 'owner_kind="Job", owner_name="train"'
    series = {of_pod(0): "50x60", of_pod(1): "100x60"} | {
        f'kube_pod_owner{{namespace="research", pod="train-{number}", {owner},'
        f' owner_is_controller="true"}}': "1x60"
        for number in range(2)
    }
    name = "gpu_admission:owner_gpus_busy"
    test = over(series)
    test["promql_expr_test"] = [
        {
            "expr": name, "eval_time": "10m",
            "exp_samples": [
                {"labels": f'{name}{{namespace="research", {owner}}}', "value": 1.5}
            ],
        }
    ]  # fmt: skip
    run(promtool, tmp_path, test)
