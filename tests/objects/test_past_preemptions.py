"""What a Workload says of its preemptions is what scheduling reads."""

import msgspec
import pytest

from admission.base import names
from admission.objects import past_preemptions, workload
from admission.scheduling import model
from tests.builders.workloads import make_workload

PAST = model.PastPreemptions((("ml/a", 1), ("ml/b", 3)), others=2)
OTHER = {"reason": "Preempted", "underlyingCause": "", "count": 7}


def read(*evictions: dict[str, object], annotation: str = "") -> model.PastPreemptions:
    metadata = {"name": "train", "namespace": "ml", "uid": "u"}
    made = make_workload(
        metadata={**metadata, "annotations": {names.PREEMPTED_BY: annotation}},
        status={"schedulingStats": {"evictions": list(evictions)}},
    )
    view = msgspec.convert(made, workload.Workload)
    assert workload.scheduling_value(view).preempted_by == view.past_preemptions()
    return view.past_preemptions()


def test_what_is_written_into_the_status_is_read_in_its_order():
    assert read(OTHER, *past_preemptions.document(PAST)) == PAST


def test_what_was_taken_over_is_read_until_the_status_tells():
    taken_over = past_preemptions.annotation("of", PAST)
    assert read(OTHER, annotation=taken_over) == PAST

    newer = model.PastPreemptions((("ml/a", 2),))
    assert read(OTHER, *past_preemptions.document(newer), annotation=taken_over) == newer


def test_a_workload_that_was_never_preempted_says_nothing():
    assert past_preemptions.document(model.NEVER_PREEMPTED) == []
    assert read(OTHER) == model.NEVER_PREEMPTED


@pytest.mark.parametrize("text", ["no", "[]", "{}", '{"of":"u","by":[["a","1"]]}'])
def test_an_annotation_that_cannot_be_read_says_nothing(text: str):
    assert read(annotation=text) == model.NEVER_PREEMPTED


def test_it_is_told_whose_past_was_taken_over():
    metadata = {"name": "train", "annotations": {names.PREEMPTED_BY: past_preemptions.annotation(
        "uid-before", PAST)}}  # fmt: skip
    view = msgspec.convert(make_workload(metadata=metadata), workload.Workload)
    assert past_preemptions.predecessor(view.metadata) == "uid-before"
