"""LimitRanges and RuntimeClasses of a real API server decide what Workloads are charged for."""

from collections.abc import Iterator
from typing import Any

import pytest

from admission.base import names
from tests.builders.cluster import make_limit_range
from tests.controlplane import waiting
from tests.controlplane.rest import Rest
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with snapshot.prepared(tmp_path_factory.mktemp("installed"), Installed) as it:
        for name in ("kata", "heavy"):  # known to the controller before it is ready
            add_runtime_class(it.api, name)
        it.start()
        yield it


@pytest.fixture
def team(system: Installed) -> str:
    """A namespace whose queue covers cpu and GPUs."""
    name = system.cluster.create_namespace("team")
    system.add_flavor(name)
    system.add_cluster_queue(name, quotas={name: {"cpu": "10", names.GPU_RESOURCE: "4"}})
    system.add_local_queue(name, name)
    system.wait_for_queue(name)
    return name


def add_limits(system: Installed, team: str, **item: Any) -> str:
    """Path of a new LimitRange for containers."""
    path = f"/api/v1/namespaces/{team}/limitranges"
    system.api.post(path, make_limit_range("limits", {"type": "Container", **item}))
    return f"{path}/limits"


def add_runtime_class(api: Rest, name: str) -> None:
    overhead = {"podFixed": {"cpu": "250m"}}
    body = {"metadata": {"name": name}, "handler": "runc", "overhead": overhead}
    api.post(RUNTIME_CLASSES, body)


def add_workload(
    system: Installed, team: str, name: str, runtime: str = "kata", **asked: str
) -> None:
    """One of two pods, made by hand."""
    container = {
        "name": "main",
        "image": "train",
        "resources": {"requests": asked, "limits": asked},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never",
                         "runtimeClassName": runtime}}  # fmt: skip
    pods = [{"name": "main", "count": 2, "template": template}]
    system.api.post(
        f"{KUEUE}/namespaces/{team}/workloads",
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": team},
            "spec": {"queueName": "default", "podSets": pods},
        },
    )


def status(system: Installed, team: str, name: str) -> dict[str, Any]:
    found = system.api.get(f"{KUEUE}/namespaces/{team}/workloads/{name}")
    return dict(found.get("status", {}))


def usage(system: Installed, team: str, name: str) -> dict[str, str]:
    """What a Workload holds, once it holds something."""
    admission = waiting.until(
        lambda: status(system, team, name).get("admission"), what=f"quota of {team}/{name}"
    )
    return dict(admission["podSetAssignments"][0]["resourceUsage"])


def wait_reason(system: Installed, team: str, name: str, reason: str) -> str:
    """Waits until a Workload waits for that reason; the message."""

    def message() -> str:
        return next(
            (
                str(one["message"])
                for one in status(system, team, name).get("conditions", [])
                if one["type"] == "QuotaReserved" and one["reason"] == reason
            ),
            "",
        )

    return waiting.until(message, what=f"{team}/{name} says {reason}")


def wait_limited(system: Installed, team: str) -> None:
    """Waits until the controller has seen a LimitRange, which it may after a Workload.

    It says so of a Workload that is above its maximum, and above any quota, too.
    """
    add_workload(system, team, "excessive", cpu="100")
    wait_reason(system, team, "excessive", "Misconfigured")


def test_a_workload_made_by_hand_is_charged_defaults_and_overhead(
    system: Installed, team: str
) -> None:
    most = {"cpu": "50"}
    add_limits(system, team, defaultRequest={"cpu": "1"}, default={"cpu": "2"}, max=most)
    wait_limited(system, team)
    add_workload(system, team, "silent")
    add_workload(system, team, "asks", cpu="1500m")

    assert usage(system, team, "silent") == {"cpu": "2500m"}
    assert usage(system, team, "asks") == {"cpu": "3500m"}


def test_a_pod_holds_what_the_api_server_made_of_it(system: Installed, team: str) -> None:
    add_limits(system, team, defaultRequest={"cpu": "1"}, default={"cpu": "2"})
    created = system.create_pod(team, "train", runtimeClassName="kata")
    assert created["spec"]["overhead"] == {"cpu": "250m"}
    system.wait_released(team, "train")
    (found,) = system.api.get(f"{KUEUE}/namespaces/{team}/workloads")["items"]

    assert usage(system, team, found["metadata"]["name"]) == {
        "cpu": "1250m",
        names.GPU_RESOURCE: "1",
    }


def test_what_is_out_of_bounds_waits_until_the_bounds_are_gone(
    system: Installed, team: str
) -> None:
    path = add_limits(system, team, max={"cpu": "1"})
    wait_limited(system, team)
    add_workload(system, team, "large", cpu="2")

    assert wait_reason(system, team, "large", "Misconfigured").endswith(
        'containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max'
    )
    system.api.delete(path)
    assert usage(system, team, "large") == {"cpu": "4500m"}


def test_what_waits_is_counted_anew_when_a_runtime_class_takes_less(
    system: Installed, team: str
) -> None:
    add_workload(system, team, "first", "heavy", cpu="3")
    assert usage(system, team, "first") == {"cpu": "6500m"}
    add_workload(system, team, "second", "heavy", cpu="1600m")
    wait_reason(system, team, "second", "WaitingForQuota")

    # Its overhead cannot be changed in place.
    system.api.delete(f"{RUNTIME_CLASSES}/heavy")
    assert usage(system, team, "second") == {"cpu": "3200m"}
    assert usage(system, team, "first") == {"cpu": "6500m"}
