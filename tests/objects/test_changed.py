"""A changed copy equals what `dataclasses.replace` makes, for every value that is copied so."""

from dataclasses import fields, replace
from typing import Any

import pytest

from admission.base.names import LocalQueueKey, PodSetName, Uid, WorkloadKey
from admission.objects.gpu_transformation import changed
from admission.scheduling import model

POD_SET = model.PodSet(name=PodSetName("main"), count=3, group="a")
WORKLOAD = model.Workload(
    key=WorkloadKey("ml", "train"), uid=Uid("u"), queue=LocalQueueKey("ml", "q"), priority=7
)


@pytest.mark.parametrize(
    ("value", "changes"),
    [(POD_SET, {"count": 1, "unsuited": {"a": "b"}}), (WORKLOAD, {"pod_sets": (POD_SET,)})],
    ids=["PodSet", "Workload"],
)
def test_a_changed_copy_is_equal_to_a_replaced_one(value: Any, changes: dict[str, Any]) -> None:
    before = replace(value)
    made = changed(value, **changes)
    assert made == replace(value, **changes)
    assert type(made) is type(value)
    assert value == before


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(AttributeError):
        changed(POD_SET, cuont=1)


@pytest.mark.parametrize("kind", [model.PodSet, model.Workload])
def test_values_that_are_copied_so_need_nothing_but_their_slots(kind: type[Any]) -> None:
    assert list(kind.__slots__) == [one.name for one in fields(kind)]
    assert not hasattr(kind, "__post_init__")
