"""Every numbered GPU requirement has a test here, or a line that says where it is met."""

import re
from pathlib import Path

COUNT = 31

ELSEWHERE = {
    20: "tolerations are added by admission.policy",
    21: "selectors are tightened at release by admission.controllers",
    22: "quota of ended pods is returned by admission.state and admission.controllers",
    24: "gangs are recognised by admission.controllers",
    25: "all-or-nothing is decided by admission.engine",
    26: "Kueue's own keys are kept by admission.policy",
    29: "live changes are followed by admission.controllers (test_capacity, test_one_currency)",
}


def test_every_requirement_is_met_somewhere():
    tested = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("def test_"):
                tested |= {int(number) for number in re.findall(r"req_(\d\d)", line)}
    assert tested | set(ELSEWHERE) == set(range(1, COUNT + 1))
    assert not tested & set(ELSEWHERE)


def test_every_trap_but_the_dashboards_is_tested():
    """T6 is how the single strategy is read (requirement 9), T14 is about dashboards."""
    tested = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        text = path.read_text("utf-8")
        for name in re.findall(r"^def test_trap_(\S+?)\(", text, re.MULTILINE):
            tested |= {int(number) for number in re.findall(r"(?:^|_)(\d\d)(?=_)", name)}
    assert tested == set(range(1, 14)) - {6}
