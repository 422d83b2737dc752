"""Upgrades from the older version to this one under load, and goes back.

Usage: ``make upgrade``. It needs the history of the repository, from which the older version is
taken. Exits with 1 if a review failed, or something that ran or was decided is otherwise.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from admission.base.clock import SystemClock
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Json
from tests.upgrade import judge, older, record, stored
from tests.upgrade.load import Load
from tests.upgrade.rolling import Rolling, Version
from tests.upgrade.scene import BLUE, RED, Scene, prepare


def run(before: Version, folder: Path) -> list[str]:
    """There and back; what went wrong."""
    with Cluster.start() as cluster:
        cluster.start_whole()
        prepare(cluster)
        system = Rolling(cluster, folder)
        with system.serving():
            system.use(before)
            system.install()
            system.start_all()
            scene = Scene(system)
            scene.add_queues()
            scene.fill()
            found = stored.read(cluster.api, record.EVERYTHING)
            problems = _move(system, Version("this version"), found)
            scene.let_release()
            system.wait_released(RED, "releasing")
            scene.await_decision()
            problems += [*judge.lost(found, cluster.api), *judge.over_quota(cluster.api)]
            found = stored.read(cluster.api, record.EVERYTHING)
            problems += _move(system, before, found)
            scene.make_room()
            problems += judge.over_quota(cluster.api)
    return problems


def _move(system: Rolling, version: Version, before: Mapping[str, Json]) -> list[str]:
    """Replaces all processes under load; what was refused, or is otherwise than before."""
    clock, load = SystemClock(), Load()
    began = clock.monotonic()
    system.use(version)
    with load.on(system, BLUE):
        changes = [one for one in system.install() if one["effect"] != "unchanged"]
        system.replace_all()
        Scene(system).await_decision()
    lost = [*judge.lost(before, system.api), *judge.over_quota(system.api)]
    print(
        f"to {version.name}: {len(changes)} objects of the installation changed, "
        f"{load.asked} reviews, {len(load.failed)} failed, the slowest took "
        f"{load.slowest:.2f} s; {len(lost)} things are otherwise than before; "
        f"{clock.monotonic() - began:.0f} s"
    )
    return [*load.failed, *lost]


def main() -> int:
    """Runs it, and shows what was found."""
    with older.checked_out() as found, tempfile.TemporaryDirectory() as folder:
        version = Version("the version before", found.program, found.folder)
        problems = run(version, Path(folder))
    for one in problems[:20]:
        print(one)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
