"""When workloads start, estimated from time limits: tables, and the engine as the judge."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.base.names import ClusterQueueName, FlavorName, FlavorResource, WorkloadKey
from admission.scheduling import model, quota, starts
from admission.scheduling.hierarchy import CohortHierarchy
from admission.scheduling.starts import Candidate, Choices, QuotaEnd
from tests.builders.scheduling import (
    CPU,
    NOW_US,
    SECOND_US,
    STD_CPU,
    amount,
    cluster_queue,
    cohort,
    group,
    waiting,
)
from tests.scheduling.worlds import world

A, B = ClusterQueueName("a"), ClusterQueueName("b")
HOUR = 3600
ENOUGH = 100_000
FAST = FlavorResource(FlavorName("fast"), CPU)
SLOW = FlavorResource(FlavorName("slow"), CPU)


def forest(*queues: model.ClusterQueue, cohorts: Sequence[model.Cohort] = ()) -> CohortHierarchy:
    made = CohortHierarchy()
    for one in cohorts:
        made.set_cohort(one)
    for queue in queues:
        made.set_queue(queue)
    made.refresh()
    return made


def cores(number: int, pair: FlavorResource = STD_CPU) -> starts.Usage:
    return ((pair, amount("cpu", number)),)


def hold(
    made: CohortHierarchy, queue: ClusterQueueName, number: int, hours: float | None,
    pair: FlavorResource = STD_CPU,
) -> list[QuotaEnd]:  # fmt: skip
    """Hold cores, for some hours or for ever."""
    quota.add_all(made.queues[queue], dict(cores(number, pair)))
    if hours is None:
        return []
    at_us = NOW_US + int(hours * HOUR * SECOND_US)
    return [QuotaEnd(cluster_queue=queue, usage=cores(number, pair), at_us=at_us)]


def candidate(
    name: str, number: int, hours: float | None = None, *, priority: int = 0, age: int = 0,
    choices: Choices | None = None, enough: bool = True, certain: bool = True,
) -> Candidate:  # fmt: skip
    return Candidate(
        workload=WorkloadKey("ml", name), order=(-priority, -age, name),
        choices=((cores(number),),) if choices is None else choices,
        run_us=None if hours is None else int(hours * HOUR * SECOND_US),
        is_quota_enough=enough, is_certain=certain,
    )  # fmt: skip


def hours(found: dict[WorkloadKey, int]) -> dict[str, float]:
    """Hours from now, by name."""
    return {key.name: (at_us - NOW_US) / HOUR / SECOND_US for key, at_us in found.items()}


def estimated(
    made: CohortHierarchy,
    ends: list[QuotaEnd],
    most_steps: int = ENOUGH,
    **lines: Sequence[Candidate],
) -> dict[str, float]:
    named = {ClusterQueueName(name): line for name, line in lines.items()}
    return hours(starts.estimate(made, ends, named, NOW_US, most_steps))


def test_who_waits_starts_when_enough_quota_was_given_back():
    made = forest(cluster_queue("a", 8))
    ends = [*hold(made, A, 3, 1), *hold(made, A, 5, 3)]
    found = estimated(made, ends, a=[candidate("small", 3, age=1), candidate("large", 5)])
    assert found == {"small": 1, "large": 3}


def test_what_has_no_limit_is_never_given_back():
    made = forest(cluster_queue("a", 8))
    ends = [*hold(made, A, 3, None), *hold(made, A, 5, 2)]
    found = estimated(made, ends, a=[candidate("large", 6, age=1), candidate("small", 5)])
    assert found == {"small": 2}


def test_nobody_has_an_estimate_where_nothing_has_a_limit():
    made = forest(cluster_queue("a", 8))
    assert estimated(made, hold(made, A, 8, None), a=[candidate("train", 1)]) == {}


@pytest.mark.parametrize("ended", [0, -1])
def test_a_limit_that_has_ended_says_nothing(ended):
    made = forest(cluster_queue("a", 8))
    assert estimated(made, hold(made, A, 8, ended), a=[candidate("train", 1)]) == {}


def test_those_before_it_run_first_for_as_long_as_they_may():
    made = forest(cluster_queue("a", 8))
    line = [candidate(f"train-{n}", 8, 2, age=9 - n) for n in range(3)]
    assert estimated(made, hold(made, A, 8, 1), a=line) == {
        "train-0": 1, "train-1": 3, "train-2": 5,
    }  # fmt: skip


def test_behind_one_without_a_limit_there_is_no_estimate():
    made = forest(cluster_queue("a", 8))
    line = [candidate("endless", 8, age=2), candidate("next", 8, 1)]
    assert estimated(made, hold(made, A, 8, 1), a=line) == {"endless": 1}


def test_who_would_fit_now_has_no_estimate_and_is_counted_before_others():
    made = forest(cluster_queue("a", 8))
    ends = hold(made, A, 4, 1)
    line = [candidate("new", 4, 2, age=2), candidate("next", 8)]
    assert estimated(made, ends, a=line) == {"next": 2}


@pytest.mark.parametrize(("strict", "found"), [(True, {}), (False, {"next": 1})])
def test_one_that_waits_for_more_than_quota_stops_only_a_strict_queue(strict, found):
    made = forest(cluster_queue("a", 8, strict=strict))
    line = [candidate("held", 4, age=2, enough=False), candidate("next", 4)]
    assert estimated(made, hold(made, A, 8, 1), a=line) == found


def test_a_small_one_passes_a_large_one_only_where_the_queue_is_not_strict():
    for strict, found in ((True, {"large": 3, "small": 5}), (False, {"large": 3, "small": 1})):
        made = forest(cluster_queue("a", 8, strict=strict))
        ends = [*hold(made, A, 4, 1), *hold(made, A, 4, 3)]
        line = [candidate("large", 8, 2, age=2), candidate("small", 4, 1)]
        assert estimated(made, ends, a=line) == found


def test_quota_of_others_counts_as_far_as_it_may_be_borrowed():
    for limit, found in ((None, {"train": 2}), (2, {})):
        queues = cluster_queue("a", 4, limit, cohort="pool"), cluster_queue("b", 4, cohort="pool")
        made = forest(*queues)
        ends = [*hold(made, A, 4, 1), *hold(made, B, 4, 2)]
        assert estimated(made, ends, a=[candidate("train", 8)]) == found


def test_who_goes_first_in_another_queue_takes_what_both_could_have():
    made = forest(
        cluster_queue("a", 0, cohort="pool"), cluster_queue("b", 0, cohort="pool"),
        cohorts=[cohort("pool", 8)],
    )  # fmt: skip
    ends = hold(made, A, 8, 1)
    found = estimated(
        made, ends, a=[candidate("mine", 8, age=1)], b=[candidate("theirs", 8, 3, priority=1)]
    )
    assert found == {"theirs": 1, "mine": 4}


def test_the_first_flavor_that_is_free_is_taken():
    made = forest(
        cluster_queue("a", groups=[group({"fast": {"cpu": (8,)}, "slow": {"cpu": (8,)}})])
    )
    ends = [*hold(made, A, 8, 3, FAST), *hold(made, A, 8, 1, SLOW)]
    either = ((cores(8, FAST), cores(8, SLOW)),)
    assert estimated(made, ends, a=[candidate("train", 8, choices=either)]) == {"train": 1}


def test_all_pod_sets_start_together_or_none_takes_anything():
    made = forest(cluster_queue("a", 8))
    ends = [*hold(made, A, 4, 1), *hold(made, A, 4, 2)]
    two = ((cores(4),), (cores(4),))
    line = [candidate("two", 8, choices=two, age=1), candidate("small", 4, 1)]
    assert estimated(made, ends, a=line) == {"small": 1, "two": 2}


def test_a_flavor_that_is_not_certain_takes_quota_and_gets_no_estimate():
    made = forest(cluster_queue("a", 8))
    line = [candidate("new", 8, 2, certain=False, age=1), candidate("next", 8)]
    assert estimated(made, hold(made, A, 8, 1), a=line) == {"next": 3}


def test_no_more_are_looked_at_than_is_said():
    made = forest(cluster_queue("a", 8))
    line = [candidate(f"train-{n}", 8, 1, age=9 - n) for n in range(5)]
    found = estimated(made, hold(made, A, 8, 1), most_steps=12, a=line)
    assert found == {"train-0": 1, "train-1": 2}


# ------------------------------------------------------------------------- the engine as judge

JOBS = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 5)), min_size=1, max_size=8)
"""Cores and hours of each; no hours mean no limit."""


@given(JOBS, JOBS, st.booleans())
def test_the_engine_starts_them_when_it_was_estimated(running, line, strict):
    queue = cluster_queue("a", 8, strict=strict)
    made, ends, judge = forest(queue), [], world(queue)
    running = [job for at, job in enumerate(running) if sum(n for n, _ in running[: at + 1]) <= 8]
    until: dict[str, int] = {}
    for at, (number, length) in enumerate(running):
        ends += hold(made, A, number, length or None)
        judge.add(waiting(f"run-{at}", "a", number, created=-100 + at))
        if length:
            until[f"run-{at}"] = length
    for _ in running:
        assert judge.cycle().admitted
    candidates = []
    for at, (number, length) in enumerate(line):
        candidates.append(candidate(f"wait-{at}", number, length or None, age=99 - at))
        judge.add(waiting(f"wait-{at}", "a", number, created=at))
    found = estimated(made, ends, a=candidates)

    seen: dict[str, float] = {}
    at_hour = 0
    while True:
        for admit in [one for _ in range(len(line) + 1) for one in judge.cycle().admitted]:
            name = admit.workload.name
            seen[name] = at_hour
            length = line[int(name.removeprefix("wait-"))][1]
            if length:
                until[name] = at_hour + length
        if not until:
            break
        at_hour = min(until.values())
        ending = sorted(name for name, hour in until.items() if hour == at_hour)
        for name in ending:
            del until[name]
        judge.finish(*ending)
    assert found == {name: hour for name, hour in seen.items() if hour > 0}
