"""What tests say in the place of a kubelet, after what the kubelet of the cluster says itself."""

from tests.controlplane import waiting
from tests.controlplane.rest import Json, Rest


def say_phase(api: Rest, path: str, phase: str) -> None:
    """Say in what phase a pod is.

    The kubelet of a whole cluster (kwok) says ``Running`` soon after a pod is bound, whatever
    stands there. So this waits until it has, or has nothing to say.

    Args:
        api: of somebody who may write the status of pods.
        path: of the pod.
        phase: the new phase.
    """
    waiting.until(lambda: is_settled(api.get(path)), what=f"{path} runs or cannot")
    api.patch(f"{path}/status", {"status": {"phase": phase}})


def is_settled(pod: Json) -> bool:
    """Return whether the kubelet of the cluster has nothing to say of a pod any more."""
    status = pod.get("status", {})
    is_unschedulable = any(
        (condition["type"], condition["status"], condition.get("reason"))
        == ("PodScheduled", "False", "Unschedulable")
        for condition in status.get("conditions", ())
    )
    is_gated = bool(pod["spec"].get("schedulingGates"))
    return is_gated or is_unschedulable or status.get("phase") != "Pending"
