"""The tables of planted faults and of judged survivors speak of the code as it is."""

from pathlib import Path

import pytest

from tests.mutants import judged, planted
from tests.mutants.judged import Judgement
from tests.mutants.planted import Fault, NotInCodeError
from tests.repo import tree

FAULTS = planted.read()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
def test_a_fault_can_be_planted_and_its_tests_are_there(fault: Fault) -> None:
    assert fault.text != fault.instead
    compile(fault.planted(tree.ROOT), fault.file, "exec")
    assert fault.tests
    assert all((tree.ROOT / test.partition("::")[0]).is_file() for test in fault.tests)


def test_faults_have_names_of_their_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("times", [0, 2])
def test_a_fault_whose_text_is_not_in_the_code_once_is_named(tmp_path: Path, times: int) -> None:
    (tmp_path / "a.py").write_text("a > b\n" * times)
    fault = Fault("X1", "", "a.py", "a > b", "a >= b", ())
    with pytest.raises(NotInCodeError, match=rf"X1: a.py has the text {times} times"):
        fault.planted(tmp_path)


def test_every_judged_mutant_is_one_of_the_code_and_has_a_reason() -> None:
    judgements = judged.read()
    assert judged.outdated(judgements, tree.ROOT) == []
    assert all(one.reason for one in judgements)
    assert len({(one.module, one.before, one.after) for one in judgements}) == len(judgements)


def test_a_judgement_about_code_that_changed_is_outdated(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a > b\n")
    here = Judgement("a.py", "a > b", "a >= b", "r")
    gone = [Judgement("a.py", "a > c", "a >= c", "r"), Judgement("b.py", "a > b", "a >= b", "r")]
    assert judged.outdated([here, *gone], tmp_path) == gone
