"""The pods that run, kept once, and what is looked up of them otherwise than by UID."""

from typing import NamedTuple

from admission.base import names
from admission.base.names import PodCharge, WorkloadKey
from admission.base.tables import Table
from admission.kube.resources import Resource
from admission.objects import views


class RunningPod(NamedTuple):
    """A pod that was released and has not ended.

    Attributes:
        view: the pod.
        workload: the Workload that let it start; pods name the first one of their owner.
        resource: the resource with which it is watched.
    """

    view: views.Pod
    workload: WorkloadKey
    resource: Resource

    @property
    def key(self) -> PodCharge:
        """Return the key under which the pod is charged on its own."""
        return PodCharge(self.view.metadata.namespace, self.view.metadata.name)

    @property
    def pod_set(self) -> str:
        """Return the name of the pod set; empty where it cannot be a label."""
        return self.view.metadata.label(names.PODSET_LABEL)


class RunningPodStore(Table[str, RunningPod]):
    """Pods that run, by UID.

    Attributes:
        on_node: by the node that they are on.
        of_pod_set: by Workload and pod set.
        pod_sets: how many there are by Workload and pod set.
    """

    def __init__(self) -> None:
        """Declare what is looked up."""
        super().__init__()
        self.on_node = self.index(_node_of)
        self.of_pod_set = self.index(lambda _, tracked: ((tracked.workload, tracked.pod_set),))
        self.pod_sets = self.tally(lambda _, tracked: (tracked.workload, tracked.pod_set))


def _node_of(_: str, tracked: RunningPod) -> tuple[str, ...]:
    node = tracked.view.spec.node_name
    return (node,) if node else ()
