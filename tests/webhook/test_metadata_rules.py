"""Kueue's rules for labels and annotations of pods, with their texts; and our own beside them."""

from functools import partial
from typing import Any

import pytest

from admission.objects import admission_gates
from admission.webhook import metadata_rules, topology
from tests.builders.pods import make_pod
from tests.objects import rows
from tests.objects.case import Case
from tests.repo import rules as listed
from tests.webhook import pod_cases
from tests.webhook.builders import make_cluster, validate
from tests.webhook.pod_cases import GATES, LABELS, K, labelled, running


@pytest.mark.parametrize("case", pod_cases.CASES, ids=str)
def test_a_rule_says(case: Case) -> None:
    cluster = make_cluster(*(["default"] if case.has_default_queue else []))
    errors = validate(case.new, cluster, old=case.old)
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    assert (text if errors else "") == case.message


TABLES: tuple[Any, ...] = (
    metadata_rules.CREATED, metadata_rules.CHANGED, metadata_rules.ALWAYS, admission_gates.GATES,
    admission_gates.CHANGES, topology.ANNOTATIONS, topology.LAYERS,
)  # fmt: skip
ROWS = [row.id for table in TABLES for row in table]


def test_every_row_has_a_case_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()
    cluster = make_cluster("default")
    for case in pod_cases.CASES:
        found |= rows.broken(monkeypatch, partial(validate, case.new, cluster, old=case.old))
    assert found == set(ROWS)


def test_the_rows_have_names_of_their_own() -> None:
    assert len(set(ROWS)) == len(ROWS)


def test_every_listed_rule_has_a_case_that_breaks_it() -> None:
    broken = {case.row for case in pod_cases.CASES if case.message}
    assert broken == {f"Pod {number}" for number in listed.numbers("Pod")}


def test_a_queue_name_longer_than_any_label_is_told_whole():
    """A real API server refuses the label before it asks."""
    name = "a" * 254
    assert validate(labelled(queue_name=name), make_cluster()) == [
        f'{LABELS}[{K}/queue-name]: Invalid value: "{name}": must be no more than 253 characters'
    ]


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ({}, {"managed": "true"}, False),
        ({"managed": "true"}, {}, True),
        ({"managed": "true"}, {"managed": "true"}, True),
        ({}, {}, True),
    ],
    ids=["marked now", "not marked any more", "marked before", "never marked"],
)
def test_only_a_pod_that_is_marked_as_managed_now_may_change_its_queue_while_it_runs(
    before: dict[str, str], after: dict[str, str], refused: bool
) -> None:
    """A pod that ran without a Workload gets one and is charged from now on."""
    old = running(labelled(queue_name="a", **before))
    errors = validate(running(labelled(queue_name="b", **after)), make_cluster(), old=old)
    expected = f'{LABELS}[{K}/queue-name]: Invalid value: "b": {pod_cases.IMMUTABLE}'
    assert errors == ([expected] if refused else [])


def test_a_signed_number_of_seconds_is_a_number():
    """As above: no label."""
    assert validate(labelled(max_exec_time_seconds="+7"), make_cluster()) == []


def test_a_pod_that_ran_and_waits_again_may_change_its_queue():
    """As above: nobody can put a gate back."""
    old, new = running(labelled(queue_name="a")), labelled(queue_name="b")
    assert validate(new, make_cluster(), old=old) == []


def test_a_pod_that_slipped_past_the_mutating_review_is_denied():
    """Another webhook added the request after ours was skipped, or took the gate off."""
    for pod in (make_pod(gpus=1), make_pod(labels={f"{K}/queue-name": "default"})):
        (error,) = validate(pod, make_cluster("default"))
        assert error.startswith("spec.schedulingGates: Required value: the pod belongs to")
        assert validate({**pod, "spec": {**pod["spec"], "schedulingGates": GATES}},
                        make_cluster("default")) == []  # fmt: skip


def test_gpus_outside_queues_are_denied_where_enforced_and_allowed_elsewhere():
    assert validate(make_pod(gpus=1), make_cluster("batch")) == []
    (error,) = validate(make_pod(gpus=1), make_cluster("batch", enforce=True))
    assert error.startswith(f"{LABELS}[{K}/queue-name]: Required value: the pod asks for")


def test_a_gate_may_be_taken_off_an_existing_pod():
    old = make_pod(gpus=1, labels={f"{K}/queue-name": "default"}, schedulingGates=GATES)
    assert validate(running(old), make_cluster("default"), old=old) == []
