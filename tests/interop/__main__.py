"""``make interop``: the real operators of other frameworks, on the test control plane.

Each operator is compiled from its Go module and runs as its manifests run it. Each of its samples
runs once over its quota, and once within it: to the state that the operator reaches with pods that
run nothing, with an eviction on the way where it can be suspended. Then every command of kueuectl
runs against an installation, and the place of Kueue's real manager is taken under load. The exit
code is 1 if anything else came than is expected.

    make interop ARGS="--only JobSet"
    make interop ARGS="--only kueuectl"
    make interop ARGS="--only Kueue"
    make interop ARGS="--only Kueue --record"
    make interop ARGS=--record
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.controlplane.processes import StartError
from tests.controlplane.rest import RestError
from tests.interop import cases, from_kueue, kueue_objects, kueuectl, recordings
from tests.interop.cases import CaseError, Recording
from tests.interop.kueuectl import Tried
from tests.interop.lab import Lab, lab
from tests.interop.modules import ModuleError, say
from tests.interop.operators import OPERATORS, REFUSED, Operator

_KUEUECTL = "kueuectl"
_KUEUE = "Kueue"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    operator: str
    version: str
    sample: str
    within_quota: str
    over_quota: str
    failed: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop",
        description="Runs real operators, and kueuectl, against gpu-admission.",
    )
    names = [*(one.name for one in OPERATORS), _KUEUECTL, _KUEUE]
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--sample", action="append", help="only these samples; may be repeated")
    parser.add_argument("--record", action="store_true", help="write what operators say")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args(arguments)
    rows = []
    for operator in OPERATORS:
        if options.only and operator.name not in options.only:
            continue
        samples = [one for one in operator.samples if one in (options.sample or operator.samples)]
        rows += _run(operator, samples, record=options.record)
    if not options.only:
        for name, module in REFUSED.items():
            said = f"not built: the registry refuses {module}"
            rows.append(Row(name, module.partition("@")[2], "", said, said, failed=False))
    tried = _run_kueuectl() if not options.only or _KUEUECTL in options.only else []
    tried += _run_kueue(options.record) if not options.only or _KUEUE in options.only else []
    if options.json:
        told = [*map(asdict, rows), *map(asdict, tried)]
        print(json.dumps(told, indent=2))
    else:
        print("\n\n".join(table for table in (_table(rows), _commands(tried)) if table))
    return int(any(one.failed for one in rows) or any(one.failed for one in tried))


def _run_kueuectl() -> list[Tried]:
    """Run every command of kueuectl; a line for each."""
    try:
        return kueuectl.run()
    except (ModuleError, StartError, TimeoutError, RestError, kueuectl.Failed) as failure:
        say(f"kueuectl: {failure}")
        return [Tried("", f"not run: {str(failure).splitlines()[0]}", failed=True)]


def _run_kueue(record: bool) -> list[Tried]:
    """Take Kueue's place, and give it back; a line for each."""
    try:
        if record:
            kueue_objects.record()
        return from_kueue.run()
    except (ModuleError, StartError, TimeoutError, RestError, from_kueue.BrokenError) as failure:
        say(f"Kueue: {failure}")
        return [Tried("migrate kueue", f"not run: {str(failure).splitlines()[0]}", failed=True)]


def _run(operator: Operator, samples: Sequence[str], *, record: bool) -> list[Row]:
    """Run the samples of an operator; a line for each."""
    version = operator.module.version
    try:
        with tempfile.TemporaryDirectory() as folder, lab(operator, Path(folder)) as made:
            return [_sample(made, name, record=record) for name in samples]
    except (ModuleError, StartError, TimeoutError, RestError) as failure:
        say(f"{operator.name}: {failure}")
        said = f"not started: {str(failure).splitlines()[0]}"
        return [Row(operator.name, version, "", said, said, failed=True)]


def _sample(made: Lab, name: str, *, record: bool) -> Row:
    operator = made.operator
    sample = cases.read(name)
    results = []
    recording = Recording() if record else None
    failed = False
    for case in (cases.over, cases.within):
        try:
            results.append(case(made, sample, recording))
        except (CaseError, RestError) as failure:
            failed = True
            results.append(f"FAILED: {failure}")
            say(f"{operator.name} {name}: {failure}\n{made.tail()}")
        else:
            say(f"{operator.name} {name}: {results[-1]}")
    over, within = results
    if recording is not None and not failed:
        recordings.write(name, operator.module, recording)
    version = operator.module.version
    return Row(operator.name, version, sample.manifest["kind"], within, over, failed)


def _table(rows: Sequence[Row]) -> str:
    """The lines as a table of Markdown; empty for none."""
    return _markdown(
        ("operator", "version", "kind", "within quota", "over quota"),
        [
            (one.operator, one.version, one.sample, one.within_quota, one.over_quota)
            for one in rows
        ],
    )


def _commands(tried: Sequence[Tried]) -> str:
    """The commands as a table of Markdown; empty for none."""
    return _markdown(("command", "result"), [(f"`{one.command}`", one.result) for one in tried])


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---" for _ in heads], *rows] if rows else []
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
