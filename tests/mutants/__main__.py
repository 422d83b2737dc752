"""``python -m tests.mutants``: measure which faults tests notice."""

import argparse
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.mutants import closest, judged, planted, running
from tests.mutants.closest import Closest
from tests.mutants.judged import Judgement
from tests.mutants.mutations import Mutation, mutations
from tests.mutants.planted import Fault, NotInCodeError
from tests.mutants.running import Outcome

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("scheduling", "owners", "controller", "gpu", "webhook")
_LEAST_SECONDS: Final = 20.0
_TIMES_CLEAN: Final = 3
_CLEAN_SECONDS: Final = 900.0
_CLOSEST: Final = Closest(ROOT)


class UncleanError(Exception):
    """Tests fail without any fault, so they cannot tell anything of one."""


class Runner:
    """Runs tests on faults, for some times as long as the same tests take without one."""

    def __init__(self, tests: tuple[str, ...]) -> None:
        """Run tests without a fault.

        Args:
            tests: all tests that are run later, or more.

        Raises:
            UncleanError: they fail.
        """
        run = running.run(tests, {}, _CLEAN_SECONDS)
        if run.outcome is not Outcome.PASSED:
            raise UncleanError(f"{run.outcome.value}: {' '.join(tests)}\n{run.output}")
        self._seconds = max(_LEAST_SECONDS, _TIMES_CLEAN * run.seconds)

    def catches(self, tests: tuple[str, ...], file: str, text: str) -> bool:
        """Return whether tests fail, or do not end, with another text of one file."""
        name = closest.module_name(ROOT / file, ROOT)
        return running.run(tests, {name: text}, self._seconds).outcome is not Outcome.PASSED


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
    return sorted(drawn, key=lambda one: (one.file, one.mutation))


@dataclass(frozen=True, slots=True)
class Course:
    """How the mutants of all packages are run.

    Attributes:
        judgements: survivors that were judged before.
        stages: how many stages of tests are run, see `Closest.stages`.
        until: time of the performance counter at which no further mutant is run.
    """

    judgements: tuple[Judgement, ...]
    stages: int
    until: float

    def measure(self, score: Score, mutants: Sequence[Mutant]) -> None:
        """Run the tests of each mutant and write down what became of it.

        Raises:
            UncleanError: the tests fail without one.
        """
        stages = {
            mutant.file: _CLOSEST.stages(ROOT / mutant.file)[: self.stages] for mutant in mutants
        }
        used = {test for found in stages.values() for tests in found for test in tests}
        runner = Runner(tuple(sorted(used)))
        for number, mutant in enumerate(mutants, start=1):
            if any(one.is_about(mutant.file, mutant.mutation) for one in self.judgements):
                score.judged += 1
            elif time.perf_counter() > self.until:
                score.left += 1
            else:
                _run(score, mutant, stages[mutant.file], runner)
            if number % 10 == 0:
                print(f"{score.package}: {number} of {len(mutants)}", file=sys.stderr, flush=True)


def _run(score: Score, mutant: Mutant, stages: Iterable[tuple[str, ...]], runner: Runner) -> None:
    text = mutant.mutation.applied((ROOT / mutant.file).read_text())
    for number, tests in enumerate(stages):
        if runner.catches(tests, mutant.file, text):
            if number == 0:
                score.closest += 1
            else:
                score.further += 1
            return
    score.survivors.append(mutant)
    print(f"survived: {mutant.shown()}", flush=True)


def run_sample(options: argparse.Namespace) -> int:
    """Run a sample of each package; return 1 if there are new survivors, 0 otherwise."""
    judgements = judged.read()
    if outdated := judged.outdated(judgements, ROOT):
        for one in outdated:
            print(f"judged.toml: the code has no such mutant: {one.module}: {one.after}")
        return 2
    until = time.perf_counter() + 60 * options.minutes
    course = Course(judgements, 1 if options.closest else 2, until)
    scores: list[Score] = []
    for package in options.package or PACKAGES:
        mutants = population(package)
        scores.append(Score(package, len(mutants)))
        course.measure(scores[-1], sample(package, mutants, options.sample, options.seed))
    print(_HEAD, *(score.shown() for score in scores), sep="\n")
    return int(any(score.survivors for score in scores))


# ------------------------------------------------------------------------------- planted by hand


def run_planted(faults: Iterable[Fault]) -> int:
    """Plant each fault; return 1 if one survives, 2 if one cannot be planted, 0 otherwise.

    Raises:
        UncleanError: tests fail without a fault.
    """
    texts: dict[Fault, str] = {}
    code = 0
    for fault in faults:
        try:
            texts[fault] = fault.planted(ROOT)
        except NotInCodeError as error:
            print(error)
            code = 2
    runner = Runner(tuple(sorted({test for fault in texts for test in fault.tests})))
    for fault, text in texts.items():
        is_caught = runner.catches(fault.tests, fault.file, text)
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
        "--closest", action="store_true", help="run only the tests that are closest to a module"
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
