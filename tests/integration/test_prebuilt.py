"""Owners that name their Workload, on a real API server: it is awaited, compared, and adopted."""

import pytest

from admission.base import conditions, names
from tests.builders.pods import make_pod
from tests.controlplane import waiting
from tests.integration import applied
from tests.integration.applied import Json, Workloads
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def system(installation: Installed) -> Installed:
    return installation


class Named:
    """A pod that names the Workload ``wl``, in a namespace of its own."""

    def __init__(self, system: Installed) -> None:
        self.api = system.api
        self.team = system.add_team(4)
        self.pods = f"/api/v1/namespaces/{self.team}/pods"
        self.workloads = Workloads(system, self.team)
        annotations = {names.PREBUILT_WORKLOAD: "wl"}
        self.api.post(
            self.pods, make_pod("one", annotations=annotations, gpus=1, restartPolicy="Never")
        )

    def get(self) -> Json:
        return self.api.get(f"{self.pods}/one")

    def is_gated(self) -> bool:
        return bool(self.get()["spec"].get("schedulingGates"))

    def wait_told(self) -> str:
        """Why the pod waits."""

        def look() -> list[str]:
            return [
                one["message"]
                for one in self.get()["status"].get("conditions", [])
                if one["type"] == conditions.POD_ADMITTED and one["status"] == "False"
            ]

        return waiting.until(look, what="a condition of the pod")[0]

    def add_workload(self, gpus: int = 1) -> None:
        """Asks for what the pod does as it is stored, but for other GPUs."""
        spec = self.get()["spec"]
        amount = {names.GPU_RESOURCE: str(gpus)}
        amounts = {"requests": amount, "limits": amount}
        containers = [{**spec["containers"][0], "resources": amounts}]
        self.workloads.create("wl", pod_set={"pod": {**spec, "containers": containers}})


def test_a_pod_waits_for_the_workload_it_names_and_is_released_with_it(
    system: Installed,
) -> None:
    pod = Named(system)
    assert pod.wait_told() == f'Prebuilt workload "{pod.team}/wl" not found'
    assert pod.is_gated()
    assert system.api.get(pod.workloads.path)["items"] == []
    pod.add_workload()
    waiting.until(lambda: not pod.is_gated(), what="the pod released")
    metadata = pod.workloads.get("wl")["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Pod", pod.get()["metadata"]["uid"])
    applied.wait_reserved(system, pod.team, 1)

    system.api.delete(f"{pod.pods}/one", {"gracePeriodSeconds": 0})
    waiting.until(lambda: not pod.workloads.exists("wl"), what="no Workload left")
    applied.wait_reserved(system, pod.team, 0)


def test_a_named_workload_that_asks_for_fewer_gpus_ends_and_its_pod_stays_gated(
    system: Installed,
) -> None:
    pod = Named(system)
    pod.wait_told()
    pod.add_workload(gpus=0)
    found = pod.workloads.wait("wl", "Finished", "True", "OutOfSync")
    assert found["message"] == "The prebuilt workload is out of sync with its user job"
    applied.wait_reserved(system, pod.team, 0)
    assert pod.is_gated()
