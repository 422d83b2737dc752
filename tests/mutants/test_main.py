"""What is drawn, what is printed, and the exit code."""

from typing import Any

import pytest

from tests.mutants import __main__ as program
from tests.mutants.__main__ import Course, Mutant, Score
from tests.mutants.judged import Judgement
from tests.mutants.mutations import mutations
from tests.mutants.planted import Fault

QUOTA = "admission/scheduling/quota.py"
MUTANTS = [Mutant(QUOTA, one) for one in mutations((program.ROOT / QUOTA).read_text())]
NEVER = float("inf")


class Noticed:
    """Stands for tests that notice some changes and no others."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __call__(self, tests: tuple[str, ...]) -> "Noticed":
        return self

    def catches(self, tests: tuple[str, ...], file: str, text: str) -> bool:
        return any(one in text for one in self.texts)


def fault(name: str, **changes: Any) -> Fault:
    text = "def withheld(node: QuotaNode, fr: FlavorResource) -> int:"
    values = {"breaks": "a rule", "file": QUOTA, "text": text, "instead": f"# {name}"}
    return Fault(name=name, tests=("tests/scheduling/test_quota.py",), **(values | changes))


def test_the_same_seed_draws_the_same_mutants_and_another_one_others() -> None:
    drawn = [program.sample("scheduling", MUTANTS, 9, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 9
    assert program.sample("scheduling", MUTANTS, 10**6, 1) == MUTANTS


@pytest.mark.parametrize(
    ("faults", "noticed", "code"),
    [
        ((fault("X1"),), ("X1",), 0),
        ((fault("X1"), fault("X2")), ("X1",), 1),
        ((fault("X1"), fault("X2", text="nowhere")), ("X1",), 2),
        ((fault("X1"), fault("X2", text="nowhere")), (), 2),
    ],
    ids=["all caught", "one survives", "one cannot be planted", "both"],
)
def test_the_exit_code_of_planted_faults(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[Fault, ...], noticed: tuple[str, ...], code: int
) -> None:
    monkeypatch.setattr(program, "Runner", Noticed(*noticed))
    assert program.run_planted(faults) == code


@pytest.mark.parametrize(
    ("is_noticed", "is_judged", "until", "expected"),
    [
        (True, False, NEVER, (1, 0, 0, 0)),
        (False, False, NEVER, (0, 0, 1, 0)),
        (False, True, NEVER, (0, 1, 0, 0)),
        (False, False, -1.0, (0, 0, 0, 1)),
    ],
    ids=["noticed", "survived", "judged", "no time left"],
)
def test_what_became_of_a_mutant_is_counted(
    monkeypatch: pytest.MonkeyPatch,
    is_noticed: bool,
    is_judged: bool,
    until: float,
    expected: tuple[int, ...],
) -> None:
    mutant = MUTANTS[0]
    monkeypatch.setattr(program, "Runner", Noticed(*([""] if is_noticed else [])))
    about = Judgement(QUOTA, mutant.mutation.before, mutant.mutation.after, "r")
    score = Score("scheduling", len(MUTANTS))
    Course((about,) if is_judged else (), 2, until).measure(score, [mutant])
    counted = (score.closest, score.judged, len(score.survivors), score.left)
    assert counted == expected


def test_the_score_is_the_share_of_those_that_were_run_and_unknown_without_any() -> None:
    assert Score("gpu", 10, closest=2, survivors=[MUTANTS[0]]).shown().endswith(" 67 %")
    assert Score("gpu", 10, judged=3).shown().endswith(" ?")
