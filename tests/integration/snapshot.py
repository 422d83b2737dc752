"""A finished installation as a file: clusters start with it, and none is installed again.

`taken` makes it once for each state of the product and each day, and keeps it beside the compiled
control plane. It is what ``install --mode warn`` leaves in a new cluster. The port of the webhook
is the one thing in it that differs from cluster to cluster, and is replaced in etcd.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from admission.base.clock import SystemClock
from tests.controlplane import build, programs, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.integration.installed import Installed
from tests.integration.reviewed import Reviewed, is_discovered, is_served

System = TypeVar("System", bound=Installed)

_ROOT: Final = Path(__file__).parents[2]
_PARTS: Final = ("admission", "certs", "tests/integration", "tests/controlplane")
_KEPT: Final = 4
_PORT: Final = "port"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A finished installation.

    Attributes:
        folder: ``etcd`` is what is stored, ``certs`` the webhook's certificates.
        port: where the webhook is, in what is stored.
    """

    folder: Path
    port: int

    @classmethod
    def read(cls, folder: Path) -> Self:
        """A snapshot that was made before."""
        return cls(folder, int((folder / _PORT).read_text()))

    def start(self, port: int, *, api_flags: Sequence[str] = ()) -> Cluster:
        """Starts a cluster with the installation in it, and its webhook expected at a port."""
        replaced = {f"127.0.0.1:{self.port}": f"127.0.0.1:{port}"}
        etcd = self.folder / "etcd"
        return Cluster.start(stored=etcd, replaced=replaced, api_flags=api_flags)


@contextmanager
def prepared(
    folder: Path,
    kind: Callable[[Cluster, Path], System],
    *,
    whole: bool = False,
    api_flags: Sequence[str] = (),
) -> Iterator[System]:
    """A new cluster with an installation whose processes were not started yet.

    Args:
        folder: for its files.
        kind: makes it.
        whole: whether pods are bound and run, see `Cluster.start_whole`.
        api_flags: further flags of kube-apiserver.
    """
    snapshot, port = taken(), free_port()
    with snapshot.start(port, api_flags=api_flags) as cluster:
        if whole:
            cluster.start_whole()
        system = kind(cluster, folder)
        system.use_webhook_port(port)
        shutil.copytree(snapshot.folder / "certs", system.certificates)
        try:
            yield system
        finally:
            system.stop()


@contextmanager
def started(folder: Path, *, whole: bool = False) -> Iterator[Installed]:
    """A new cluster with an installation whose processes run."""
    with prepared(folder, Installed, whole=whole) as system:
        system.start()
        yield system


@contextmanager
def reviewed(folder: Path) -> Iterator[Reviewed]:
    """A new cluster with an installation of which only the webhook runs."""
    with prepared(folder, Reviewed) as system:
        system.start()
        waiting.until(lambda: is_served(system), what="both versions of every kind served")
        waiting.until(lambda: is_discovered(system), what="both versions of every kind discovered")
        yield system


def taken() -> Snapshot:
    """The snapshot of the product as it is now, which is made where there is none."""
    root = build.cache_root() / "installations"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / _key()
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _forget_old(root)
            _make(folder)
        os.utime(folder)
    return Snapshot.read(folder)


def _make(folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    with Cluster.start() as cluster:
        system = Installed(cluster, partial)
        system.install()
        waiting.until(lambda: is_discovered(system), what="all kinds discovered")
        cluster.stop_apiserver(grace_seconds=waiting.PATIENCE_SECONDS)
        cluster.program("etcd").stop(grace_seconds=waiting.PATIENCE_SECONDS)
        shutil.copytree(cluster.folder / "etcd", partial / "etcd")
        (partial / _PORT).write_text(str(system.webhook_port))
    partial.rename(folder)


def _key() -> str:
    """Names the state of the product, and the day: certificates grow old."""
    found = hashlib.sha256(programs.key().encode())
    found.update(SystemClock().now().date().isoformat().encode())
    for part in _PARTS:
        for file in sorted((_ROOT / part).rglob("*")):
            if file.is_file() and file.suffix != ".pyc" and not file.name.startswith("test_"):
                found.update(file.name.encode())
                found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _forget_old(root: Path) -> None:
    finished = (f for f in root.iterdir() if f.is_dir() and not f.suffix)
    by_age = sorted(finished, key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in by_age[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink(missing_ok=True)
