"""``python -m tests.bench``: what the system costs and how fast it is, on a real API server.

(a) one pod on an idle cluster; (b) 1,000 pods at once over 4 queues of 100 GPUs, 500 ms each;
(c) the yardstick of (b): a bare loop with the same writes, without quota or webhook; (d) reviews;
(e) 15,000 Workloads made by hand over 30 queues, no webhook registered; (f) 500 pod groups of 20
pods at once over the queues of (b), of one run; (g) 50,000 Workloads made by hand over 1,000
queues of as many namespaces, no webhook registered; (h) decisions while 10,000 Workloads wait and
the labels of 50 namespaces a second change; (i) start of a controller that finds 50,000 Workloads
and as many bound pods; ``racks`` 15,000 Workloads of 2 to 8 pods made by hand for 640 nodes in
10 racks, beside Kueue's manager with ``--beside-kueue``; ``engine`` the scheduling cycles alone;
``places`` what room on nodes costs, and its goals;
``recovery`` how long nobody is admitted after a failure; ``stall`` what one client can take from
the others; ``waiting`` how soon 10,000 pods in 1,000 queues say why they wait, and what ten
browsers cost; ``availability`` what users notice when one of two replicas fails, the worst of the
runs; ``pages`` what the pages of the dashboard weigh and cost. Each other figure is the median of
the runs; of ``recovery`` and ``stall`` all runs are given, too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench import availability, pages, recovery, report, stall
from tests.bench.beside_kueue import KueueStage
from tests.bench.cold import Cold
from tests.bench.crowd import Waiting
from tests.bench.figures import Figures
from tests.bench.handmade import Handmade
from tests.bench.labelled import Labelled
from tests.bench.parts import Bench
from tests.bench.stage import Stage
from tests.controlplane import forked
from tests.controlplane.cluster import Cluster

PARTS: Final = (
    *("a", "b", "c", "d", "e", "f", "g", "h", "i", "racks", "engine", "places"),
    *("recovery", "stall", "waiting", "availability", "pages"),
)
_ON_ONE_STAGE: Final = frozenset({"a", "b", "c", "bc", "d", "f"})
_HANDMADE: Final = ("e", "g", "racks")
_RUNS: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _parser().parse_args(arguments)
    os.environ[forked.EXECUTE_ALL] = "1"  # what is measured is started as users start it
    wanted = _together(options.part or PARTS)
    found: Figures = {}
    measured = [part for part in wanted if part in _ON_ONE_STAGE]
    if measured:
        with _stage(options.profile) as stage:
            bench = Bench(stage, options.scale, _say)
            for part in measured:
                runs = 1 if part == "f" else _RUNS
                found[part] = bench.run(part, options.runs or runs)
    for part in _HANDMADE:
        if part in wanted:
            with _stage(options.profile, "--no-older-versions") as stage:
                handmade = Handmade(stage, options.scale, _say, part, options.slower)
                found[part] = handmade.run(options.runs or 1)
    if options.beside_kueue:
        for part in [part for part in wanted if part in _HANDMADE]:
            with Cluster.start() as cluster, tempfile.TemporaryDirectory() as folder:
                kueue = KueueStage(cluster, Path(folder))
                handmade = Handmade(kueue, options.scale, _say, part, options.slower)
                found[f"{part}{report.OF_KUEUE}"] = handmade.run(options.runs or 1)
    for part, measured_part in (("h", Labelled), ("i", Cold)):
        if part in wanted:
            with _stage(options.profile, "--no-older-versions") as stage:
                found[part] = measured_part(stage, options.scale, _say).run()
    if "engine" in wanted:
        _say("(engine)")
        found["engine"] = _engine()
    if "places" in wanted:
        _say("(places)")
        found["places"] = _places()
    if "recovery" in wanted:
        found["recovery"] = recovery.measure(options.runs or _RUNS, _say)
    if "stall" in wanted:
        found["stall"] = stall.measure(options.runs or _RUNS, _say)
    if "waiting" in wanted:
        with _stage(options.profile) as stage:
            found["waiting"] = Waiting(stage, options.scale, _say).run()
    if "availability" in wanted:
        found["availability"] = availability.measure(options.runs or 1, _say)
    if "pages" in wanted:
        found["pages"] = pages.measure(options.runs or 0)
    print(json.dumps(found, indent=2) if options.json else report.text(found))
    return 0


@contextmanager
def _stage(profile: Path | None, *options: str) -> Iterator[Stage]:
    """A cluster with the system installed by a command with these options."""
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as folder:
        yield Stage(cluster, Path(folder), profile, *options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, help="only these")
    parser.add_argument(
        "--runs", type=int, help=f"runs of each part ({_RUNS}; 1 of e, f, g, racks, availability)"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the load, as 0.1")
    parser.add_argument(
        "--slower",
        type=int,
        default=1,
        help=f"multiply intervals and run times of {', '.join(_HANDMADE)}, as 500: what Workloads "
        "wait for then is the controller and not an API server without time",
    )
    parser.add_argument(
        "--beside-kueue",
        action="store_true",
        help=f"run {', '.join(_HANDMADE)} with Kueue's manager, too, which is compiled first",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="DIRECTORY",
        help="run webhook and controller under cProfile, which slows them; profiles go there",
    )
    return parser


def _together(parts: Sequence[str]) -> list[str]:
    """Parts in order; (b) and (c) become one that measures both by turns."""
    chosen = [part for part in PARTS if part in parts]
    if {"b", "c"} <= set(chosen):
        chosen[chosen.index("b")] = "bc"
        chosen.remove("c")
    return chosen


def _engine() -> Figures:
    """The engine's own cases."""
    command = [sys.executable, "-m", "tests.bench.engine", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cases = [json.loads(line) for line in output.splitlines()]
    return {case.pop("case"): case for case in cases}


def _places() -> Figures:
    """Room on nodes, in a process of its own for the sake of its memory."""
    command = [sys.executable, "-m", "tests.bench.places"]
    figures: Figures = json.loads(subprocess.check_output(command, text=True))
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
