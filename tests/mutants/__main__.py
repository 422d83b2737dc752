"""``python -m tests.mutants``: measure which faults tests notice."""

import argparse
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.mutants import judged, planted, running
from tests.mutants.closest import Tests
from tests.mutants.judged import Judgement
from tests.mutants.mutations import Mutation, mutations
from tests.mutants.planted import Fault, NotInCodeError
from tests.mutants.running import Outcome, Run

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("scheduling", "owners", "controller", "gpu", "webhook")
_LEAST_SECONDS: Final = 20.0
_TIMES_CLEAN: Final = 5
_CLEAN_SECONDS: Final = 900.0


class UncleanError(Exception):
    """Tests fail without any fault, so they cannot tell anything of one."""


@dataclass(slots=True)
class Runner:
    """Runs tests on faults, and knows how long the same tests take without one."""

    _clean: dict[tuple[str, ...], float] = field(default_factory=dict)

    def run(self, tests: tuple[str, ...], file: str, text: str) -> Run:
        """Run tests with another text of one file, for some times as long as they take without.

        Raises:
            UncleanError: the tests fail without it, too.
        """
        name = running.module_name(ROOT / file, ROOT)
        seconds = max(_LEAST_SECONDS, _TIMES_CLEAN * self._clean_seconds(tests))
        return running.run(tests, {name: text}, seconds)

    def _clean_seconds(self, tests: tuple[str, ...]) -> float:
        if tests not in self._clean:
            run = running.run(tests, {}, _CLEAN_SECONDS)
            if run.outcome is not Outcome.PASSED:
                raise UncleanError(f"{run.outcome.value}: {' '.join(tests)}\n{run.output}")
            self._clean[tests] = run.seconds
        return self._clean[tests]


# -------------------------------------------------------------------------------------- a sample


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of one module.

    Attributes:
        file: file of the repository.
        mutation: the change.
    """

    file: str
    mutation: Mutation

    def shown(self) -> str:
        """Return place and change, the lines without their indent."""
        before = "".join(f"\n  - {line}" for line in self.mutation.before.splitlines())
        after = "".join(f"\n  + {line}" for line in self.mutation.after.splitlines())
        return f"{self.file}:{self.mutation.line}{before}{after}"


@dataclass(slots=True)
class Score:
    """What became of the mutants of a package.

    Attributes:
        package: its name.
        population: how many mutants it has.
        closest: mutants that the closest tests noticed.
        further: mutants that only further tests of the package noticed.
        judged: mutants that nothing can notice.
        survivors: the others.
        left: mutants of the sample that were not run, as the time was over.
    """

    package: str
    population: int
    closest: int = 0
    further: int = 0
    judged: int = 0
    left: int = 0
    survivors: list[Mutant] = field(default_factory=list)

    def shown(self) -> str:
        """Return the line of the package in the table."""
        caught = self.closest + self.further
        run = caught + len(self.survivors)
        percent = f"{100 * caught / run:.0f} %" if run else "?"
        survivors = len(self.survivors)
        return (
            f"{self.package:<11} {self.population:>10} {run:>4} {self.closest:>8} "
            f"{self.further:>8} {self.judged:>7} {survivors:>9} {self.left:>8}  {percent}"
        )


_HEAD: Final = "package      of mutants  run  closest  further  judged  survivors  not run  score"


def population(package: str) -> list[Mutant]:
    """Return all mutants of a package, in the order of files and places."""
    return [
        Mutant(str(path.relative_to(ROOT)), mutation)
        for path in sorted((ROOT / "admission" / package).glob("**/*.py"))
        for mutation in mutations(path.read_text())
    ]


def sample(package: str, mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return some mutants of a package; the same ones for the same code and seed."""
    drawn = random.Random(f"{seed} {package}").sample(mutants, min(count, len(mutants)))
    return sorted(drawn, key=lambda one: (one.file, one.mutation.start, one.mutation.text))


def measure(
    package: str,
    mutants: Sequence[Mutant],
    judgements: Iterable[Judgement],
    runner: Runner,
    until: float,
) -> Score:
    """Run the tests of each mutant, until a time of the performance counter."""
    drawn = Score(package, 0)
    tests = Tests(ROOT)
    for number, mutant in enumerate(mutants, start=1):
        if any(one.is_about(mutant.file, mutant.mutation) for one in judgements):
            drawn.judged += 1
            continue
        if time.perf_counter() > until:
            drawn.left += 1
            continue
        text = mutant.mutation.applied((ROOT / mutant.file).read_text())
        caught = None
        for stage, files in enumerate(tests.stages(ROOT / mutant.file)):
            if runner.run(files, mutant.file, text).outcome is not Outcome.PASSED:
                caught = stage
                break
        match caught:
            case None:
                drawn.survivors.append(mutant)
                print(f"survived: {mutant.shown()}", flush=True)
            case 0:
                drawn.closest += 1
            case _:
                drawn.further += 1
        if number % 10 == 0:
            print(f"{package}: {number} of {len(mutants)}", file=sys.stderr, flush=True)
    return drawn


def run_sample(options: argparse.Namespace) -> int:
    """Run a sample of each package; return 1 if there are new survivors, 0 otherwise."""
    judgements = judged.read()
    if outdated := judged.outdated(judgements, ROOT):
        for one in outdated:
            print(f"judged.toml: the code has no such mutant: {one.module}: {one.after}")
        return 2
    until = time.perf_counter() + 60 * options.minutes
    scores: list[Score] = []
    runner = Runner()
    for package in options.package or PACKAGES:
        mutants = population(package)
        score = measure(
            package,
            sample(package, mutants, options.sample, options.seed),
            judgements,
            runner,
            until,
        )
        score.population = len(mutants)
        scores.append(score)
    print(_HEAD, *(score.shown() for score in scores), sep="\n")
    return int(any(score.survivors for score in scores))


# ------------------------------------------------------------------------------- planted by hand


def run_planted(faults: Iterable[Fault]) -> int:
    """Plant each fault; return 1 if one survives, 2 if one cannot be planted, 0 otherwise."""
    code = 0
    runner = Runner()
    for fault in faults:
        try:
            text = fault.planted(ROOT)
        except NotInCodeError as error:
            print(error)
            code = 2
            continue
        is_caught = runner.run(fault.tests, fault.file, text).outcome is not Outcome.PASSED
        print(f"{fault.name} {'caught' if is_caught else 'survived'}: {fault.breaks}", flush=True)
        code = max(code, int(not is_caught))
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says.

    Returns:
        0 if every fault was noticed, 1 if one survived, 2 if the measurement is not possible.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "--package", action="append", choices=PACKAGES, help="only this package; may be repeated"
    )
    parser.add_argument(
        "--sample", type=int, default=40, help="mutants of each package (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=120, help="for all packages (default: %(default)s)"
    )
    parser.add_argument(
        "--planted", action="store_true", help="plant the faults of planted.toml instead"
    )
    parser.add_argument("--only", action="append", help="with --planted: only this fault")
    options = parser.parse_args(arguments)
    try:
        if options.planted:
            faults = planted.read()
            return run_planted(f for f in faults if not options.only or f.name in options.only)
        return run_sample(options)
    except UncleanError as error:
        print(f"the tests fail without a fault: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
