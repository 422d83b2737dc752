"""Field errors read as those of an API server."""

import pytest

from admission.base import fielderrors
from admission.base.fielderrors import FieldPath

LABELS = FieldPath.of("metadata", "labels")
CONTAINERS = FieldPath.of("spec", "containers")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            fielderrors.invalid(LABELS.key("kueue.x-k8s.io/queue-name"), "A b", "must be lower"),
            'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "A b": must be lower',
        ),
        (
            fielderrors.invalid(FieldPath.of("spec", "count"), -3, ""),
            "spec.count: Invalid value: -3",
        ),
        (
            fielderrors.invalid(FieldPath.of("spec"), {"a": [True]}, "no"),
            'spec: Invalid value: {"a":[true]}: no',
        ),
        (fielderrors.required(LABELS, "say it"), "metadata.labels: Required value: say it"),
        (fielderrors.forbidden(LABELS, "no"), "metadata.labels: Forbidden: no"),
        (
            fielderrors.not_supported(FieldPath.of("spec", "policy"), "X", ["A", "B"]),
            'spec.policy: Unsupported value: "X": supported values: "A", "B"',
        ),
        (fielderrors.not_found(FieldPath.of("q"), "a"), 'q: Not found: "a"'),
        (fielderrors.duplicate(CONTAINERS.index(1).child("name"), "a"),
         'spec.containers[1].name: Duplicate value: "a"'),
        (fielderrors.too_long(CONTAINERS, 63),
         "spec.containers: Too long: may not be more than 63 bytes"),
        (fielderrors.too_long(FieldPath.of("a"), 1), "a: Too long: may not be more than 1 byte"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_error_shows_path_type_value_and_detail(error, text):
    assert error.text() == text


def test_a_root_path_starts_with_its_first_child():
    assert FieldPath().child("spec").child("x").text == "spec.x"


def test_one_error_stands_alone():
    error = fielderrors.forbidden(LABELS, "no")
    assert fielderrors.aggregate([error, error]) == "metadata.labels: Forbidden: no"


def test_several_errors_are_distinct_and_sorted_by_path():
    errors = [
        fielderrors.required(CONTAINERS.index(10)),
        fielderrors.required(CONTAINERS.index(2).child("b")),
        fielderrors.required(CONTAINERS.index(2)),
        fielderrors.required(LABELS.key("b")),
        fielderrors.invalid(LABELS.key("a"), "2", ""),
        fielderrors.invalid(LABELS.key("a"), "1", ""),
        fielderrors.required(CONTAINERS.index(2)),
    ]
    assert fielderrors.aggregate(errors) == (
        '[metadata.labels[a]: Invalid value: "1", metadata.labels[a]: Invalid value: "2", '
        "metadata.labels[b]: Required value, spec.containers[2]: Required value, "
        "spec.containers[2].b: Required value, spec.containers[10]: Required value]"
    )


def test_a_place_in_an_object_may_be_said_as_one_in_the_object_around_it() -> None:
    inner = FieldPath.of("metadata", "labels").key("a.b/c")
    outer = FieldPath.of("spec", "jobs").index(1).child("template")
    assert inner.within(outer).text == "spec.jobs[1].template.metadata.labels[a.b/c]"
    assert inner.within(outer) == outer.child("metadata").child("labels").key("a.b/c")


def test_a_path_is_also_a_json_pointer() -> None:
    path = FieldPath.of("spec", "jobs").index(1).child("labels").key("a.b/c~d")
    assert path.pointer() == "/spec/jobs/1/labels/a.b~1c~0d"
