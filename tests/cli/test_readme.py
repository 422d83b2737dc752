"""The answer at the top of the README is what `kubectl gpu why` prints of such a cluster."""

import re
from pathlib import Path

from admission.base import patches
from admission.kube import resources
from tests.builders.cluster import make_namespace
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.cli.served import Served, served
from tests.controller.world import World
from tests.repo import tree


def test_the_answer_in_the_readme_is_real(tmp_path: Path) -> None:
    world = World()
    world.add(make_flavor())
    for team in ("research", "serving"):
        world.add(make_namespace(team))
        world.add(make_cluster_queue(team, quota=8, cohortName="lab"))
        world.add(make_local_queue("default", team, team))
    world.settle()
    world.add_pod("chat", namespace="serving", queue="default", gpus=8)
    world.add_pod("notebook", namespace="research", queue="default", gpus=4)
    world.settle()
    on_node = patches.merge({"spec": {"nodeName": "n1"}})
    world.store.patch(resources.PODS, "chat", on_node, "serving")
    world.store.patch(resources.PODS, "notebook", on_node, "research")
    world.add_pod("train", namespace="research", queue="default", gpus=8)
    world.pass_time(130.0)
    with served(world.store, resources.BUILT_IN + resources.CUSTOM, tmp_path) as kubeconfig:
        asked = Served(world.store, kubeconfig, clock=world.clock)
        answer = asked.lines("why", "pod/train", "-n", "research")

    (shown,) = re.findall(r"(?s)```console\n\$ (.*?)\n```", (tree.ROOT / "README.md").read_text())
    command, *lines = shown.splitlines()
    assert command == "kubectl gpu why pod/train -n research"
    assert lines == [re.sub(r"(?<=pod-train-)\w+$", "1f2e3", line) for line in answer]
