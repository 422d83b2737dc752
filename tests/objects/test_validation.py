"""Each row of the rules of Kueue's kinds, by its own case, and what holds of all of them."""

from functools import partial
from typing import Any

import msgspec
import pytest

from admission.base import fielderrors
from admission.base.fielderrors import FieldPath
from admission.objects import (
    admission_gates,
    cluster_queue,
    cohort,
    resource_flavor,
    resource_group,
    rule_checks,
    workload_validation,
)
from admission.webhook import kinds
from tests.objects import mark_cases, queue_cases, rows, workload_cases
from tests.objects.case import Case, Document, identified, pod_set, workload
from tests.repo import rules as listed

CASES = queue_cases.CASES + workload_cases.CASES


def judge(kind: str, old: Document | None, new: Document) -> str:
    found = kinds.VALIDATED[kind]

    def read(document: Document) -> Any:
        return found.decoder.decode(
            msgspec.json.encode(identified(kind, document), order="sorted")
        )

    errors = found.errors(None if old is None else read(old), read(new))
    return rule_checks.text(errors) if errors else ""


@pytest.mark.parametrize("case", [*CASES, *mark_cases.MARKS], ids=str)
def test_a_rule_says(case: Case) -> None:
    assert judge(case.kind, case.old, case.new) == case.message


GROUP_ROWS: tuple[Any, ...] = (
    resource_group.RESOURCES,
    resource_group.FLAVORS,
    resource_group.WEIGHTS,
)
TABLES: dict[str, tuple[Any, ...]] = {
    "ClusterQueue": (cluster_queue.RULES, resource_group.CLUSTER_QUEUE_QUOTAS, *GROUP_ROWS),
    "Cohort": (cohort.RULES, resource_group.COHORT_QUOTAS, *GROUP_ROWS),
    "LocalQueue": (),
    "ResourceFlavor": (resource_flavor.RULES, resource_flavor.TAINTS),
    "Workload": (workload_validation.RULES, admission_gates.GATES, admission_gates.CHANGES),
}


def test_every_row_has_a_case_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the rows of tables inside of tables; the cases run against a real API server, too."""
    broken: set[tuple[str, str]] = set()
    for case in CASES:
        found = rows.broken(monkeypatch, partial(judge, case.kind, case.old, case.new))
        broken |= {(case.kind, row) for row in found}
    assert broken == {
        (kind, row.id) for kind, tables in TABLES.items() for table in tables for row in table
    }


def test_every_listed_rule_has_a_case_that_breaks_it() -> None:
    broken = {case.row for case in CASES if case.message}
    assert broken == {f"{kind} {n}" for kind in TABLES for n in listed.numbers(kind)}


def test_every_kind_that_is_judged_is_in_the_tables() -> None:
    assert set(TABLES) == set(kinds.VALIDATED)


def test_the_rows_of_a_table_have_names_of_their_own() -> None:
    for table in (
        cluster_queue.RULES,
        workload_validation.RULES,
        resource_group.CLUSTER_QUEUE_QUOTAS,
        resource_group.COHORT_QUOTAS,
    ):
        ids = [row.id for row in table]
        assert len(set(ids)) == len(ids)


def test_what_was_null_or_empty_may_be_left_out() -> None:
    held = workload_cases.HELD
    bare = workload(pod_set(topologyRequest=None, template={
        "metadata": {"creationTimestamp": None, "labels": {}}, "spec": {"containers": [
            {"name": "c", "resources": {}}]}}), status=held)  # fmt: skip
    assert judge("Workload", bare, workload(status=held)) == ""


def test_values_that_a_newer_version_may_have_are_no_errors() -> None:
    queue = {"spec": {"stopPolicy": "Drain", "queueingStrategy": "Fair", "preemption": {
        "reclaimWithinCohort": "Perhaps", "borrowWithinCohort": {"policy": "Perhaps"}},
        "unknown": [1]}}  # fmt: skip
    assert judge("ClusterQueue", None, queue) == ""
    status = {"admissionChecks": [{"name": "a", "state": "Perhaps"}], "unknown": {}}
    assert judge("Workload", workload(), workload(status=status)) == ""


def test_an_error_is_told_once() -> None:
    error = fielderrors.required(FieldPath.of("spec"), "must be set")
    assert rule_checks.text([error, error]) == "spec: Required value: must be set"
