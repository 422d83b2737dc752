"""Every numbered GPU requirement has a test that carries its number in its name."""

import re
from pathlib import Path

COUNT = 31
TESTS = Path(__file__).parents[1]

PARTLY = {
    24: (
        "Gangs of other frameworks are not recognised; a pod group of Kueue is told on its pods"
        " that it is not supported. What is recognised is a batch Job or a Workload made by hand."
        " The pods of other gangs take quota one by one, as they would without gang scheduling."
    ),
    25: (
        "Whether the nodes can hold all pods of a gang at once is not searched: the free GPUs of a"
        " flavor are known by number and largest hole, not which pod the scheduler puts where. The"
        " guard holds a gang to the GPUs that exist, and the largest hole is told and exported."
    ),
}
"""What of a requirement is not met, why not, and what holds instead."""


def numbers(pattern: str, prefix: str = "test_") -> set[int]:
    """Numbers that a pattern finds in the names of all tests that begin like this."""
    found = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        for name in re.findall(rf"^ *def ({prefix}\w+)\(", text, re.MULTILINE):
            found |= {int(number) for number in re.findall(pattern, name)}
    return found


def test_every_requirement_has_a_test():
    assert numbers(r"req_(\d\d)") == set(range(1, COUNT + 1))
    assert set(PARTLY) <= set(range(1, COUNT + 1))


def test_every_trap_but_the_dashboards_is_tested():
    """T14 is about dashboards."""
    assert numbers(r"(?<=_)(\d\d)(?=_)", "test_trap_") == set(range(1, 14))
