"""(pages) What the pages of the dashboard weigh, and how long they take, without any cluster.

1,000 queues, 3,000 Workloads that wait, 5,000 nodes. A page is asked for as a browser asks for it;
what the core would copy for it is there already. Times are of the process, in milliseconds of its
processor.
"""

import statistics
import time
from typing import Final

from tests.bench.figures import Figures
from tests.serve import scenes

PAGES: Final = {
    "overview": "/",
    "overview, searched": "/?q=team-05",
    "quota": "/quota?page=9",
    "a queue": "/queues/team-0006",
    "nodes": "/gpus",
    "nodes of a rack": "/gpus?by=topology.kubernetes.io/rack&group=rack-007",
    "nodes, 250 drawn": "/gpus?by=nvidia.com/gpu.product&group=NVIDIA-A100-SXM4-80GB",
}
_TIMES: Final = 5


def measure(runs: int) -> Figures:
    """Bytes and milliseconds of each page, the median of some times."""
    board = scenes.large().sign_in()
    found: Figures = {}
    for name, path in PAGES.items():
        size = len(board.text(path).encode())  # once before, as templates are compiled then
        spent = []
        for _ in range(runs or _TIMES):
            begin = time.process_time()
            board.text(path)
            spent.append(time.process_time() - begin)
        found[name] = {"bytes": size, "ms": round(statistics.median(spent) * 1_000, 1)}
    return found
