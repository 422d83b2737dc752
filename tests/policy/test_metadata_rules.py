"""Kueue's rules for labels and annotations of pods, with their texts."""

from typing import Any

import pytest

from tests.policy.builders import make_cluster, make_pod, validate

K = "kueue.x-k8s.io"
LABELS = "metadata.labels"
ANNOTATIONS = "metadata.annotations"
GATE = [{"name": f"{K}/admission"}]
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BOTH = f"both the '{K}/pod-group-total-count' annotation and the '{K}/pod-group-name'"


def labelled(**labels: str) -> dict[str, Any]:
    return make_pod(labels=keys(labels), schedulingGates=GATE)


def annotated(**annotations: str) -> dict[str, Any]:
    return make_pod(annotations=keys(annotations), schedulingGates=GATE)


def keys(values: dict[str, str]) -> dict[str, str]:
    return {f"{K}/{name.replace('_', '-')}": value for name, value in values.items()}


def group(name: str = "", annotation: str = "", **annotations: str) -> dict[str, Any]:
    labels = {f"{K}/pod-group-name": name} if name else {}
    named = {"pod_group_name": annotation} if annotation else {}
    return make_pod(
        labels=labels, annotations=keys({**named, **annotations}), schedulingGates=GATE
    )


def tagged(path: str, key: str, text: str) -> str:
    return f"{path}[{K}/{key}]: {text}"


@pytest.mark.parametrize(
    ("pod", "error"),
    [
        (labelled(queue_name="A_b"),
         tagged(LABELS, "queue-name", f'Invalid value: "A_b": {SUBDOMAIN}')),
        (labelled(queue_name=""),
         tagged(LABELS, "queue-name", f'Invalid value: "": {SUBDOMAIN}')),
        (labelled(queue_name="a" * 254),
         tagged(LABELS, "queue-name",
                f'Invalid value: "{"a" * 254}": must be no more than 253 characters')),
        (labelled(prebuilt_workload_name="A"),
         tagged(LABELS, "prebuilt-workload-name", f'Invalid value: "A": {SUBDOMAIN}')),
        (annotated(prebuilt_workload_name="A"),
         tagged(ANNOTATIONS, "prebuilt-workload-name", f'Invalid value: "A": {SUBDOMAIN}')),
        (labelled(max_exec_time_seconds="soon"),
         tagged(LABELS, "max-exec-time-seconds",
                'Invalid value: "soon": strconv.Atoi: parsing "soon": invalid syntax')),
        (labelled(max_exec_time_seconds="9223372036854775808"),
         tagged(LABELS, "max-exec-time-seconds",
                'Invalid value: "9223372036854775808":'
                ' strconv.Atoi: parsing "9223372036854775808": value out of range')),
        (labelled(max_exec_time_seconds="0"),
         tagged(LABELS, "max-exec-time-seconds", "Invalid value: 0: should be greater than 0")),
        (annotated(elastic_job="true"),
         tagged(ANNOTATIONS, "elastic-job",
                'Forbidden: elastic job is not supported for "/v1, Kind=Pod"')),
        (labelled(managed="yes"),
         tagged(LABELS, "managed", "Forbidden: managed label value can only be 'true'")),
        (group(pod_group_total_count="2"),
         tagged(LABELS, "pod-group-name", f"Required value: {BOTH} label should be set")),
        (group("g"),
         tagged(ANNOTATIONS, "pod-group-total-count",
                f"Required value: {BOTH} label should be set")),
        (group(annotation="g"),
         tagged(ANNOTATIONS, "pod-group-total-count",
                f"Required value: {BOTH} annotation should be set")),
        (group("G", pod_group_total_count="2"),
         tagged(LABELS, "pod-group-name", f'Invalid value: "G": {SUBDOMAIN}')),
        (group("g", annotation="G", pod_group_total_count="2"),
         tagged(ANNOTATIONS, "pod-group-name", f'Invalid value: "G": {SUBDOMAIN}')),
        (group("g", pod_group_total_count="two"),
         tagged(ANNOTATIONS, "pod-group-total-count",
                'Invalid value: "two": strconv.Atoi: parsing "two": invalid syntax')),
        (group("g", pod_group_total_count="0"),
         tagged(ANNOTATIONS, "pod-group-total-count",
                'Invalid value: "0": incorrect annotation value'
                " 'kueue.x-k8s.io/pod-group-total-count=0':"
                " group total count should be greater than zero")),
        (group("g", pod_group_total_count="2", prebuilt_workload_name="h"),
         tagged(ANNOTATIONS, "prebuilt-workload-name",
                'Invalid value: "h": prebuilt workload and pod group should be equal')),
        (annotated(admission_gated_by="a.io/x,,b.io/y"),
         tagged(ANNOTATIONS, "admission-gated-by",
                'Invalid value: "a.io/x,,b.io/y": cannot contain empty gate names')),
        (annotated(admission_gated_by="a.io/x, a.io/x"),
         tagged(ANNOTATIONS, "admission-gated-by",
                'Invalid value: "a.io/x, a.io/x": duplicate gate name: a.io/x')),
        (annotated(admission_gated_by="plain"),
         tagged(ANNOTATIONS, "admission-gated-by",
                'Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")')),
        (annotated(admission_gated_by="A/x"),
         tagged(ANNOTATIONS, "admission-gated-by", f'Invalid value: "A": {SUBDOMAIN}')),
        (annotated(admission_gated_by="a.io/x y"),
         tagged(ANNOTATIONS, "admission-gated-by",
                'Invalid value: "x y": Invalid path (regex used for validation is'
                " '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')")),
        (annotated(admission_gated_by=f"a.io/{'x' * 59}"),
         tagged(ANNOTATIONS, "admission-gated-by",
                "Too long: may not be more than 63 bytes")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_new_pod_that_breaks_a_rule_is_denied(pod, error):
    """Source: contract of the pod webhook, rules 1-19, and of admission-gated-by."""
    assert validate(pod, make_cluster()) == [error]


@pytest.mark.parametrize(
    "pod",
    [
        labelled(queue_name="team.a-1", max_exec_time_seconds="+7", managed="true"),
        annotated(elastic_job="false", admission_gated_by=" "),
        annotated(admission_gated_by=f"a.io/x,b.io/y/z, c.io/{'x' * 58}"),
        group("g", pod_group_total_count="2", prebuilt_workload_name="g"),
    ],
)
def test_a_new_pod_within_the_rules_is_allowed(pod):
    assert validate(pod, make_cluster()) == []


def test_all_errors_are_reported_sorted_by_field():
    pod = make_pod(
        labels=keys({"managed": "no", "max_exec_time_seconds": "0"}),
        annotations=keys({"elastic_job": "true"}),
    )
    assert [error.partition(":")[0] for error in validate(pod, make_cluster())] == [
        f"{ANNOTATIONS}[{K}/elastic-job]",
        f"{LABELS}[{K}/managed]",
        f"{LABELS}[{K}/max-exec-time-seconds]",
    ]


IMMUTABLE = "field is immutable"


def running(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "schedulingGates": []}}


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (labelled(queue_name="a"), running(labelled(queue_name="b")),
         tagged(LABELS, "queue-name", f'Invalid value: "b": {IMMUTABLE}')),
        (running(labelled(prebuilt_workload_name="a")),
         running(labelled(prebuilt_workload_name="b")),
         tagged(LABELS, "prebuilt-workload-name", f'Invalid value: "b": {IMMUTABLE}')),
        (labelled(max_exec_time_seconds="1"), running(labelled(max_exec_time_seconds="2")),
         tagged(LABELS, "max-exec-time-seconds", f'Invalid value: "2": {IMMUTABLE}')),
        (running(labelled()), running(labelled(priority_class="high")),
         tagged(LABELS, "priority-class",
                'Invalid value: "high": WorkloadPriorityClass cannot be added to a'
                " non-suspended workload")),
        (labelled(priority_class="high"), labelled(),
         tagged(LABELS, "priority-class",
                'Invalid value: "": WorkloadPriorityClass cannot be removed from a workload')),
        (annotated(), annotated(elastic_job="true"),
         tagged(ANNOTATIONS, "elastic-job", f'Invalid value: "true": {IMMUTABLE}')),
        (annotated(), annotated(admission_gated_by="a.io/x"),
         tagged(ANNOTATIONS, "admission-gated-by",
                "Forbidden: cannot add admission gate after creation")),
        (annotated(admission_gated_by="a.io/x"), annotated(admission_gated_by="a.io/x,b.io/y"),
         tagged(ANNOTATIONS, "admission-gated-by",
                "Forbidden: can only remove gates, not add new ones")),
        (group("g", pod_group_total_count="2"), group("h", pod_group_total_count="2"),
         tagged(LABELS, "pod-group-name", f'Invalid value: "h": {IMMUTABLE}')),
        (group("g", pod_group_total_count="2", retriable_in_group="false"),
         group("g", pod_group_total_count="2"),
         tagged(ANNOTATIONS, "retriable-in-group",
                "Forbidden: unretriable pod group can't be converted to retriable")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_change_that_breaks_a_rule_is_denied(old, new, error):
    """Source: contract of the pod webhook, rules 3, 5, 6, 8, 9, 11, 12, 20, 21."""
    assert validate(new, make_cluster(), old=old) == [error]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (labelled(queue_name="a"), labelled(queue_name="b")),
        (running(labelled(queue_name="a")), labelled(queue_name="b")),
        (labelled(max_exec_time_seconds="1"), labelled(max_exec_time_seconds="2")),
        (labelled(prebuilt_workload_name="a"), labelled(prebuilt_workload_name="b")),
        (labelled(), labelled(priority_class="high")),
        (running(labelled(priority_class="low")), running(labelled(priority_class="high"))),
        (annotated(admission_gated_by="a.io/x,b.io/y"), annotated(admission_gated_by="b.io/y")),
        (annotated(admission_gated_by="a.io/x"), annotated(admission_gated_by=" ")),
        (group("g", pod_group_total_count="2"), group(annotation="g", pod_group_total_count="2")),
        (labelled(), group("g", pod_group_total_count="2")),
        (labelled(queue_name="a"), {**running(labelled(queue_name="b")),
                                    "status": {"phase": "Succeeded"}}),
    ],
)  # fmt: skip
def test_a_change_within_the_rules_is_allowed(old, new):
    assert validate(new, make_cluster(), old=old) == []


def test_the_queue_cannot_be_left_where_a_default_queue_exists():
    old, new = labelled(queue_name="a"), labelled()
    assert validate(new, make_cluster("default"), old=old) == [
        tagged(
            LABELS,
            "queue-name",
            'Invalid value: "": queue-name must not be empty in namespace with default queue',
        )
    ]
    assert validate(new, make_cluster("other"), old=old) == []


def test_a_pod_that_slipped_past_the_mutating_review_is_denied():
    """Another webhook added the request after ours was skipped, or took the gate off."""
    for pod in (make_pod(gpus=1), make_pod(labels={f"{K}/queue-name": "default"})):
        (error,) = validate(pod, make_cluster("default"))
        assert error.startswith("spec.schedulingGates: Required value: the pod belongs to")
        assert validate({**pod, "spec": {**pod["spec"], "schedulingGates": GATE}},
                        make_cluster("default")) == []  # fmt: skip


def test_gpus_outside_queues_are_denied_where_enforced_and_allowed_elsewhere():
    assert validate(make_pod(gpus=1), make_cluster("batch")) == []
    (error,) = validate(make_pod(gpus=1), make_cluster("batch", enforce=True))
    assert error.startswith(f"{LABELS}[{K}/queue-name]: Required value: the pod asks for")


def test_a_gate_may_be_taken_off_an_existing_pod():
    old = make_pod(gpus=1, labels={f"{K}/queue-name": "default"}, schedulingGates=GATE)
    assert validate(running(old), make_cluster("default"), old=old) == []
