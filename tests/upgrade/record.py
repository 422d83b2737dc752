"""Has the older version fill a cluster, and writes to a file what is stored there.

Usage: ``python -m tests.upgrade.record``. The file is what `test_stored_objects` starts from; it
is made anew when `older.COMMIT` or the scene changes.
"""

import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.cluster import Cluster
from tests.integration.installed import Installed
from tests.upgrade import older, stored
from tests.upgrade.older import Older
from tests.upgrade.scene import KINDS, Scene, prepare
from tests.upgrade.stored import Stored

FILE: Final = Path(__file__).parent / "data" / "older.jsonl.gz"
_AT_FIRST: Final = (*stored.BUILT_IN, stored.CRDS)
ROWS: Final = tuple(Stored(row.api_version, row.plural) for row in KINDS)
EVERYTHING: Final = (*_AT_FIRST, *stored.KUEUE, *ROWS)
_OF_CLUSTERS: Final = ("kube-", "system:", "default/")


def run(system: Installed, version: Older) -> None:
    """Has a system be that of another version from now on."""
    system.program, system.program_folder = version.program, version.folder


def record(version: Older, path: Path, folder: Path) -> int:
    """Writes what a version stores of the scene; how many objects."""
    with Cluster.start() as cluster:
        cluster.start_whole()
        before = stored.read(cluster.api, _AT_FIRST)
        prepare(cluster)
        system = Installed(cluster, folder)
        run(system, version)
        system.install()
        try:
            system.start()
            scene = Scene(system)
            scene.add_queues()
            scene.fill()
        finally:
            system.stop()
        scene.let_release()
        found = stored.read(cluster.api, EVERYTHING)
    kept = {
        key: document
        for key, document in found.items()
        if key not in before and not _is_of_cluster(key)
    }
    stored.save(path, kept)
    return len(kept)


def _is_of_cluster(key: str) -> bool:
    """Whether the control plane makes it by itself in every cluster."""
    name = key.split("/", 3)[-1]
    is_account = key.startswith("/registry/serviceaccounts/")
    return name.startswith(_OF_CLUSTERS) or (is_account and name.endswith("/default"))


def main() -> None:
    """Records the commit of `older`."""
    FILE.parent.mkdir(exist_ok=True)
    with older.checked_out() as version, tempfile.TemporaryDirectory() as folder:
        count = record(version, FILE, Path(folder))
    print(f"{count} objects written to {FILE} ({FILE.stat().st_size} bytes)")


if __name__ == "__main__":
    main()
