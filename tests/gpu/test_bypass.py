"""Ways to reach a GPU without asking."""

from typing import Any

import pytest

from admission.gpu import bypass_rules, resources
from admission.gpu.bypass_rules import Certainty
from tests.builders.pods import make_pod, pod_with
from tests.gpu.builders import GPU

MANAGED = resources.managed()
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
ASKING = {"resources": {"limits": {GPU: 1}}}


def host(path: str) -> dict[str, Any]:
    return {
        "volumes": [{"name": "v", "hostPath": {"path": path}}],
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/x"}]},
    }


SURE = {
    "all devices by environment": (pod_with({"env": [ALL]}), "visible-devices"),
    "devices by environment from elsewhere": (
        pod_with({"env": [{**ALL, "value": "", "valueFrom": {"fieldRef": {}}}]}),
        "visible-devices",
    ),
    "the variable beside a request": (pod_with({**ASKING, "env": [ALL]}), "visible-devices"),
    "the variable from the pod itself beside a request": (
        pod_with({**ASKING, "env": [{"name": ALL["name"], "valueFrom": {"fieldRef": {}}}]}),
        "visible-devices",
    ),
    "the variable from a file beside a request": (
        pod_with({**ASKING, "env": [{"name": ALL["name"], "valueFrom": {"fileKeyRef": {}}}]}),
        "visible-devices",
    ),
    "the variable from a ConfigMap": (
        pod_with({"env": [{"name": ALL["name"], "valueFrom": {"configMapKeyRef": {}}}]}),
        "visible-devices",
    ),
    "MIG devices to configure": (
        pod_with({**ASKING, "env": [{"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"}]}),
        "visible-devices",
    ),
    "a prefix that makes the variable of a key": (
        pod_with({"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "c"}}]}),
        "visible-devices",
    ),
    "an init container": (
        make_pod(initContainers=[{"name": "i", "env": [ALL]}]),
        "visible-devices",
    ),
    "an ephemeral container": (
        pod_with(ASKING, ephemeralContainers=[{"name": "debug", "env": [ALL]}]),
        "visible-devices",
    ),
    "all devices by CDI": (
        make_pod(annotations={"nvidia.cdi.k8s.io/container.m": "management.nvidia.com/gpu=all"}),
        "cdi-annotation",
    ),
    "one device by CDI": (
        make_pod(annotations={"cdi.k8s.io/x": "k8s.device-plugin.nvidia.com/gpu=GPU-1"}),
        "cdi-annotation",
    ),
    "a device path": (make_pod(**host("/dev/nvidia0")), "device-path"),
    "a device path in disguise": (make_pod(**host("//dev/./nvidia0")), "device-path"),
    "a device list mount": (
        pod_with(
            {"volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]}
        ),
        "device-mount",
    ),
    **{
        f"a device list mount at {path}": (
            pod_with({"volumeMounts": [{"name": "v", "mountPath": path}]}),
            "device-mount",
        )
        for path in (
            "var/run/nvidia-container-devices/all",
            "./var//run/nvidia-container-devices",
            "/var/run/x/../nvidia-container-devices/0",
            "x/../var/run/nvidia-container-devices",
        )
    },
    "a preset node": (pod_with(ASKING, nodeName="node-1"), "node-name"),
}  # fmt: skip


@pytest.mark.parametrize("case", SURE.values(), ids=SURE.keys())
def test_req_18_sure_ways_around_quota(case):
    pod, rule = case
    (finding,) = bypass_rules.of_pod(pod, MANAGED)
    assert (finding.rule, finding.severity) == (rule, Certainty.BYPASS)


MAYBE = {
    "the variable from a ConfigMap beside a request": (
        pod_with(
            {
                **ASKING,
                "env": [{"name": ALL["name"], "valueFrom": {"configMapKeyRef": {}}}],
            }
        ),
        "visible-devices",
    ),
    "the variable from a Secret beside a request": (
        pod_with({**ASKING, "env": [{"name": ALL["name"], "valueFrom": {"secretKeyRef": {}}}]}),
        "visible-devices",
    ),
    "the version of a legacy image": (
        pod_with({"env": [{"name": "CUDA_VERSION", "value": "8.0"}]}),
        "legacy-image",
    ),
    "a privileged container beside a request": (
        pod_with({**ASKING, "securityContext": {"privileged": True}}),
        "privileged",
    ),
    "a device of the node": (make_pod(**host("/dev/char/195:0")), "device-path"),
    "a directory that holds one of devices": (make_pod(**host("/var/lib")), "device-path"),
    "a privileged container": (
        pod_with({"securityContext": {"privileged": True}}),
        "privileged",
    ),
    "the nvidia runtime class": (make_pod(runtimeClassName="nvidia"), "runtime-class"),
    "the whole of /dev": (make_pod(**host("/dev/")), "device-path"),
    "the root of the node": (make_pod(**host("/")), "device-path"),
    "the device plugin's socket": (
        make_pod(**host("/var/lib/kubelet/device-plugins/x.sock")),
        "device-path",
    ),
}


@pytest.mark.parametrize("case", MAYBE.values(), ids=MAYBE.keys())
def test_req_18_settings_that_may_reach_a_gpu(case):
    pod, rule = case
    (finding,) = bypass_rules.of_pod(pod, MANAGED)
    assert (finding.rule, finding.severity) == (rule, Certainty.SUSPICIOUS)


@pytest.mark.parametrize("value", bypass_rules.SHOWS_NOTHING)
def test_a_value_that_shows_nothing_hides_what_the_container_asks_for(value):
    pod = pod_with({**ASKING, "env": [{**ALL, "value": value}]})
    (finding,) = bypass_rules.of_pod(pod, MANAGED)
    assert (finding.rule, finding.severity) == ("hidden-devices", Certainty.MISTAKE)


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(),
        pod_with(ASKING, schedulerName="volcano"),
        pod_with({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}),
        pod_with({"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}),
        pod_with({"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}),
        pod_with({"env": [{"name": "CUDA_VERSION"}, {**ALL, "value": "void"}]}),
        pod_with({**ASKING, "env": [{"name": "CUDA_VERSION", "value": "8.0"}]}),
        pod_with({**ASKING, "env": [{"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": ""}]}),
        pod_with({"envFrom": [{"configMapRef": {"name": "c"}}]}),
        pod_with({"envFrom": [{"prefix": "NVIDIA_X", "configMapRef": {"name": "c"}}]}),
        make_pod(**host("/data")),
        make_pod(**host("/developers")),
        make_pod(nodeName="node-1"),
        make_pod(annotations={"cdi.k8s.io/x": "vendor.com/nic=1"}),
        {},
    ],
)
def test_honest_pods_have_no_findings(pod):
    assert bypass_rules.of_pod(pod, MANAGED) == ()


GATED = pod_with(ASKING, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])

UPDATES = {
    "more GPUs by resize": (
        {**GATED, "spec": {**GATED["spec"], "containers": [
            {"name": "main", "resources": {"limits": {GPU: 2}}}
        ]}},
        "resize",
    ),
    "an ephemeral container that sees all": (
        {**GATED, "spec": {**GATED["spec"], "ephemeralContainers": [{"name": "d", "env": [ALL]}]}},
        "visible-devices",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UPDATES.values(), ids=UPDATES.keys())
def test_req_18_changes_that_reach_more_gpus(case):
    new, rule = case
    assert [finding.rule for finding in bypass_rules.of_update(GATED, new, MANAGED)] == [rule]


def test_an_update_is_not_blamed_for_what_was_there_before():
    old = pod_with({**ASKING, "env": [ALL]})
    assert bypass_rules.of_update(old, old, MANAGED) == ()


def test_req_23_findings_are_in_a_stable_order_and_say_what_to_do():
    asking = {"name": "check", **ASKING}
    seeing = {"env": [ALL], "securityContext": {"privileged": True}}
    pod = pod_with(seeing, nodeName="n", initContainers=[asking])
    found = bypass_rules.of_pod(pod, MANAGED)
    assert [finding.field for finding in found] == [
        "spec.containers[0].env[0]",
        "spec.containers[0].securityContext.privileged",
        "spec.nodeName",
    ]
    assert "remove it, and request GPUs in resources.limits" in found[0].text
