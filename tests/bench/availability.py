"""(availability) What users notice when one of two replicas fails, with the chart as shipped."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tests.bench.figures import Figures
from tests.controlplane import nodes
from tests.e2e import charted, faults
from tests.e2e.charted import Charted

TEAM = "research"


def measure(runs: int, say: Callable[[str], None]) -> Figures:
    """Start what is needed, and measure each fault."""
    with charted.charted() as system:
        prepare(system)
        return {name: _worst(system, name, runs, say) for name in faults.FAULTS}


def prepare(system: Charted) -> None:
    """Install the chart, and make a queue that admits."""
    system.cluster.add_gpu_node("gpu-0", taints=[nodes.GPU_TAINT])
    system.make_namespace()
    system.apply("install", {})
    system.wait_rolled_out()
    system.wait_leader()
    system.wait_reviewed()
    system.run("init", "--team", TEAM, "--apply")
    system.create_pod(TEAM, "first")
    system.wait_running(TEAM, "first")


def _worst(system: Charted, name: str, runs: int, say: Callable[[str], None]) -> Figures:
    """The worst of the runs, figure by figure."""
    found: list[dict[str, Any]] = []
    for _ in range(runs):
        found.append(asdict(faults.notice(system, TEAM, faults.FAULTS[name])))
        say(f"(availability) {name}: {found[-1]}")
    return {key: max(one[key] for one in found) for key in found[0]}
