"""Which GPU requirements of docs/reference/rules.md are met in part only."""

from tests.repo import rules

PARTLY = {
    12: (
        "Temperatures: no agent that is read tells one, so a hot GPU is not sick."
        " health.hotCelsius and health.coolCelsius are accepted, and told to have no effect."
    ),
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


def test_the_requirements_that_are_met_in_part_are_listed():
    assert set(PARTLY) <= rules.numbers("req")
