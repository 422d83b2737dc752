"""Pods of the demo: when each comes, what it asks for, how long it runs."""

import importlib.resources
from dataclasses import dataclass
from typing import Any, Final

import yaml

from admission.base import names, namespaces
from admission.gpu import bypass_rules
from admission.kube.api import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPod:
    """One pod.

    Attributes:
        namespace: team.
        name: name.
        at_seconds: when it is created, after the start.
        gpus: ``nvidia.com/gpu`` it asks for.
        run_seconds: how long it runs once released.
        annotations: what it says about slices.
        env: its environment.
        about: why it is in the demo.
    """

    namespace: str
    name: str
    at_seconds: float
    gpus: int
    run_seconds: float
    annotations: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    about: str

    def document(self) -> Document:
        """Return the pod as a user writes it: without queue, selector or toleration."""
        container: Document = {"name": "main", "image": "train"}
        if self.gpus:
            amounts = {names.GPU_RESOURCE: str(self.gpus)}
            container["resources"] = {"limits": amounts, "requests": amounts}
        if self.env:
            container["env"] = [{"name": name, "value": value} for name, value in self.env]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": dict(self.annotations),
            },
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }


PODS: Final = (
    DemoPod(
        namespace="research", name="train-0", at_seconds=0.0, gpus=8, run_seconds=5.0,
        about="fills research's own A100s",
    ),
    DemoPod(
        namespace="research", name="train-1", at_seconds=0.6, gpus=4, run_seconds=7.0,
        about="its own A100s are taken: an own H100 goes before a borrowed A100",
    ),
    DemoPod(
        namespace="research", name="notebook-0", at_seconds=1.2, gpus=1, run_seconds=6.0,
        annotations=((names.MIG_PROFILE, "1g.10gb"),),
        about="asks for one GPU, wants a slice: rewritten to a MIG name",
    ),
    DemoPod(
        namespace="serving", name="chat-0", at_seconds=1.8, gpus=4, run_seconds=9.0,
        about="fills serving's own A100s",
    ),
    DemoPod(
        namespace="serving", name="chat-1", at_seconds=2.4, gpus=4, run_seconds=5.0,
        about="waits until research's A100s are idle, then borrows them",
    ),
    DemoPod(
        namespace="research", name="train-2", at_seconds=3.0, gpus=2, run_seconds=3.0,
        about="waits its turn",
    ),
    DemoPod(
        namespace="lab", name="tune-0", at_seconds=0.3, gpus=1, run_seconds=8.0,
        about="a whole A100, counted as 80Gi and 7 slices",
    ),
    DemoPod(
        namespace="lab", name="small-0", at_seconds=0.9, gpus=1, run_seconds=5.0,
        annotations=((names.GPU_MEMORY, "8Gi"),),
        about="needs 8Gi only: rewritten to a slice, counted in the same budget",
    ),
    DemoPod(
        namespace="lab", name="tune-1", at_seconds=1.5, gpus=1, run_seconds=1.5,
        about="the A100 is taken: an H100, counted as 94Gi",
    ),
    DemoPod(
        namespace="lab", name="tune-2", at_seconds=4.2, gpus=1, run_seconds=3.0,
        about="the H100 is sick: waits until it is well",
    ),
    DemoPod(
        namespace="serving", name="sneaky-0", at_seconds=3.9, gpus=0, run_seconds=1.0,
        env=((bypass_rules.VISIBLE_DEVICES, "all"),),
        about="asks for no GPU and shows itself all of them: a way around quota",
    ),
    DemoPod(
        namespace="research", name="too-big", at_seconds=3.6, gpus=64, run_seconds=1.0,
        about="more than its queue can ever reach: told so at once",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEvent:
    """Something that happens to a node.

    Attributes:
        node: which one.
        at_seconds: when, after the start.
        sick: whether its GPU is sick from then on, or well.
    """

    node: str
    at_seconds: float
    sick: bool

    def due_seconds(self, longer: int) -> float:
        """Return when it happens where pods run so many times longer.

        What falls sick does so among the pods that come; what is well again, when they end.
        """
        return self.at_seconds if self.sick else self.at_seconds * longer

    @property
    def text(self) -> str:
        """The line that the demo prints about it."""
        return f"node {self.node}: its GPU is {'sick (XID error)' if self.sick else 'well again'}"

    def conditions(self, at: str) -> list[dict[str, str]]:
        """Return the conditions that the node reports from a time on, RFC 3339."""
        sick = {
            "type": "XIDErrors", "status": str(self.sick), "reason": "Xid79",
            "lastTransitionTime": at,
        }  # fmt: skip
        return [{"type": "Ready", "status": "True"}, sick]


EVENTS: Final = (
    DemoEvent(node="lab-1", at_seconds=3.4, sick=True),
    DemoEvent(node="lab-1", at_seconds=7.0, sick=False),
)

NEVER_FITS: Final = "too-big"
WAITS_IN: Final = "serving"
WAITS: Final = "chat-1"
SICK_IN: Final = "lab"
WAITS_FOR_SICK: Final = "tune-2"
"""A pod that waits longest, and its namespace."""


def objects() -> list[Document]:
    """Return the namespaces, flavors and queues of the sample cluster."""
    text = importlib.resources.files(__package__).joinpath("cluster.yaml").read_text()
    spaces: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {names.BYPASS_LABEL: namespaces.DENY}},
        }
        for name in ("research", "serving", "lab")
    ]
    return [*spaces, *yaml.safe_load_all(text)]
