"""Kueue's own manager in the place of the controller, for parts with Workloads made by hand.

It runs as its manifests have it, but for what slows it down without need: no reviews, and no
limit on its requests.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.bench import processes
from tests.bench.stage import settled
from tests.controlplane.cluster import Cluster
from tests.integration.installed import Installed
from tests.interop.kueue_manager import Manager


class KueueStage:
    """A cluster with Kueue; what `handmade.Handmade` asks of a stage.

    Attributes:
        cluster: etcd and kube-apiserver.
        installed: creates queues.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.installed = Installed(cluster, folder)
        self._manager = Manager(cluster, folder)
        self._manager.install_kinds()
        self._pid: int | None = None

    @contextmanager
    def controller_alone(self) -> Iterator[None]:
        """The manager runs inside the block."""
        with self._manager.process() as process:
            self._pid = process.pid
            try:
                yield
            finally:
                self._pid = None

    def pids(self) -> Mapping[str, tuple[int, ...]]:
        """Processes of each program that runs now."""
        plane = {name: (self.cluster.pid(name),) for name in ("kube-apiserver", "etcd")}
        return plane if self._pid is None else {"kueue": (*processes.tree(self._pid),), **plane}

    def settle(self) -> str:
        """Waits until nobody writes any more; the API server's metrics then."""
        return settled(self.cluster)

    def controller_metrics(self) -> str:
        """Nothing: its cycles are not read."""
        return ""
