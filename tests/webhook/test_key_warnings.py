"""What is told about labels and annotations of pods and owners that have no effect there."""

from typing import Any

import pytest

from admission.base import names
from admission.objects import views
from admission.webhook import key_warnings, pod_review
from admission.webhook.review_context import Context
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view
from tests.webhook.builders import NOW_US, RULES, Cluster, make_cluster, mutate, read

GPU = names.GPU_RESOURCE
KUEUE = "kueue.x-k8s.io"
OURS = "gpu-admission.dev"
CONTEXT = Context(namespace="team-a", now_us=NOW_US)


def about_label(key: str) -> tuple[str, ...]:
    return key_warnings.without_effect([views.ObjectMeta(labels={key: "x"})])


def about_annotation(key: str) -> tuple[str, ...]:
    return key_warnings.without_effect([views.ObjectMeta(annotations={key: "1"})])


@pytest.mark.parametrize(
    ("key", "home"),
    [
        ("product", "a ResourceFlavor"),
        ("sharing", "a ResourceFlavor"),
        ("capacity-guard", "a ClusterQueue"),
        ("max-per-user", "a ClusterQueue or LocalQueue"),
        ("max-in-use", "a LocalQueue"),
        ("enforce", "a namespace, as a label"),
        ("bypass", "a namespace, as a label"),
        ("min-gpu-memory", "a LimitRange, as a resource"),
        ("gpu-slices", "queues, as a resource"),
    ],
)
def test_a_key_that_means_nothing_on_a_pod_is_told_with_where_it_belongs(
    key: str, home: str
) -> None:
    expected = (f"Without effect: {OURS}/{key} belongs on {home}",)
    assert about_annotation(f"{OURS}/{key}") == expected
    assert about_label(f"{OURS}/{key}") == expected


@pytest.mark.parametrize("key", ["gpu-memory", "mig-profile", "gpu-memory.main"])
def test_which_gpus_pods_get_is_told_to_belong_on_the_template_and_not_on_the_owner(
    key: str,
) -> None:
    written = views.ObjectMeta(annotations={f"{OURS}/{key}": "1"})
    plain = views.ObjectMeta()
    assert key_warnings.without_effect([written, plain]) == (
        f"Without effect: {OURS}/{key} belongs on the pods, so in metadata of the pod template",
    )
    assert key_warnings.without_effect([written, written]) == ()
    assert key_warnings.without_effect([plain, written]) == ()
    assert key_warnings.without_effect([written]) == ()


MEMORY = f"{OURS}/gpu-memory"
ON_OWNER = f"Without effect: {MEMORY} belongs on the pods, so in metadata of the pod template"


def meta(*labels: str, **annotations: str) -> views.ObjectMeta:
    return views.ObjectMeta(
        labels=dict.fromkeys(labels, "x"),
        annotations={
            MEMORY if key == "memory" else key: text for key, text in annotations.items()
        },
    )


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((meta(), meta()), (meta(memory="40Gi"), meta()), (ON_OWNER,)),
        ((meta(memory="20Gi"), meta()), (meta(memory="40Gi"), meta()), (ON_OWNER,)),
        ((meta(memory="40Gi"), meta()), (meta(memory="40Gi"), meta()), ()),
        ((meta(memory="40Gi"), meta()), (meta("a", memory="40Gi"), meta()), ()),
        ((meta(), meta(memory="40Gi")), (meta(memory="40Gi"), meta()), (ON_OWNER,)),
        ((meta(memory="1"), meta(memory="1")), (meta(memory="1"), meta()), (ON_OWNER,)),
        ((meta(memory="40Gi"), meta()), (meta(memory="40Gi"), meta(memory="40Gi")), ()),
        ((meta(memory="40Gi"), meta()), (meta(), meta()), ()),
        (
            (meta(),), (meta(f"{OURS}/sharing"),),
            (f"Without effect: {OURS}/sharing belongs on a ResourceFlavor",),
        ),
    ],
    ids=[
        "added", "changed", "stays", "something else", "moved from the pods",
        "taken off the pods", "put on the pods", "taken away", "a label of a pod",
    ],
)  # fmt: skip
def test_an_update_is_told_of_keys_without_effect_that_it_adds_or_changes(
    before: tuple[views.ObjectMeta, ...],
    after: tuple[views.ObjectMeta, ...],
    told: tuple[str, ...],
) -> None:
    assert key_warnings.of_update(before, after) == told


def test_an_update_of_a_pod_is_told_of_a_key_without_effect() -> None:
    was, now = (
        pod_review.validate(
            read(make_pod()), read(make_pod(labels=labels)), CONTEXT, RULES, make_cluster()
        ).warnings
        for labels in ({}, {f"{OURS}/sharing": "x"})
    )
    assert was == ()
    assert now == (f"Without effect: {OURS}/sharing belongs on a ResourceFlavor",)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("queue", "queue-name"), ("queuename", "queue-name"), ("queue-nam", "queue-name"),
        ("queueName", "queue-name"), ("Queue-Name", "queue-name"),
        ("priorityclass", "priority-class"), ("priority", "priority-class"),
        ("priority-clas", "priority-class"), ("priorityClassName", "priority-class"),
        ("pod-group", "pod-group-name"), ("pod-groupname", "pod-group-name"),
        ("max-exec-time", "max-exec-time-seconds"),
        ("pod-group-total-cuont", f"the annotation {KUEUE}/pod-group-total-count"),
    ],
)  # fmt: skip
def test_a_misspelled_label_of_kueue_is_told_with_what_is_meant(written: str, meant: str) -> None:
    key = f"{KUEUE}/{written}"
    told_key = meant if " " in meant else f"{KUEUE}/{meant}"
    assert about_label(key) == (
        f"Without effect: label {key} is not known; did you mean {told_key}?",
    )


@pytest.mark.parametrize(
    "key",
    [
        names.QUEUE_LABEL, names.PRIORITY_CLASS_LABEL, names.MAX_EXEC_TIME_LABEL,
        names.POD_GROUP_NAME, names.PREBUILT_WORKLOAD, names.MANAGED_LABEL, names.PODSET_LABEL,
        names.POD_GROUP_POD_INDEX_LABEL, names.LOCAL_QUEUE_NAME_LABEL, names.JOB_UID_LABEL,
        names.CLUSTER_QUEUE_NAME_LABEL, names.HELD_WITH_PARENT, f"{KUEUE}/tas",
        f"{KUEUE}/multikueue-origin", f"{KUEUE}/concurrent-admission-parent", "app", "queue",
        "example.com/queue",
    ],
)  # fmt: skip
def test_a_label_that_has_a_meaning_or_resembles_none_is_not_doubted(key: str) -> None:
    assert about_label(key) == ()


@pytest.mark.parametrize(
    "key", sorted({*key_warnings._USER_KEYS[key_warnings._ANNOTATION], f"{names.GPU_MEMORY}.a"})
)
def test_an_annotation_that_people_set_is_not_doubted_and_is_no_label(key: str) -> None:
    assert about_annotation(key) == ()
    is_either = key in key_warnings._USER_KEYS[key_warnings._LABEL]
    assert about_label(key) == (
        () if is_either else (f"Without effect: {key} is an annotation, not a label",)
    )


@pytest.mark.parametrize(
    "key", [names.QUEUE_LABEL, names.PRIORITY_CLASS_LABEL, names.MAX_EXEC_TIME_LABEL]
)
def test_a_label_that_is_written_as_an_annotation_is_told(key: str) -> None:
    assert about_annotation(key) == (f"Without effect: {key} is a label, not an annotation",)
    both = views.ObjectMeta(labels={key: "x"}, annotations={key: "x"})
    assert key_warnings.without_effect([both]) == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mig-profle", "mig-profile"), ("migProfile", "mig-profile"), ("gpu-mem", "gpu-memory"),
        ("minimum-runtime", "minimum-run-time"), ("preemption", "preemption-notice"),
        ("gpu-model", ""), ("gpu-count", ""), ("gpu-type", ""), ("x", ""),
    ],
)  # fmt: skip
def test_only_a_slip_of_the_hand_is_taken_for_another_annotation(written: str, meant: str) -> None:
    advice = f"; did you mean {OURS}/{meant}?" if meant else ""
    key = f"{OURS}/{written}"
    assert about_annotation(key) == (f"Without effect: annotation {key} is not known{advice}",)


def test_an_unknown_label_of_ours_is_told_with_the_annotation_that_is_meant() -> None:
    assert about_label(f"{OURS}/mig-profle") == (
        (
            f"Without effect: label {OURS}/mig-profle is not known; did you mean the annotation"
            f" {OURS}/mig-profile?"
        ),
    )


def test_keys_of_many_objects_are_told_once_and_few_of_many() -> None:
    pod = views.ObjectMeta(labels={f"{KUEUE}/queue": "x"})
    assert len(key_warnings.without_effect([pod, pod])) == 1
    many = {f"{KUEUE}/queue-nam{index}": "" for index in range(400)}
    texts = key_warnings.without_effect([views.ObjectMeta(labels=many)])
    assert len(texts) == 5
    assert all(len(text) <= key_warnings.LONGEST for text in texts)


@pytest.mark.parametrize(
    ("key", "short"),
    [
        (names.MINIMUM_RUN_TIME, "minimum-run-time"),
        (names.PREEMPTION_NOTICE, "preemption-notice"),
    ],
)
@pytest.mark.parametrize(
    ("cluster_queue", "local_queue", "on_pod", "verdict"),
    [
        ("", "", "1h", "Without effect: ClusterQueue gpus has no {short}."),
        ("0s", "", "1h", "Without effect: ClusterQueue gpus has no {short}."),
        ("", "1h", "1h", "Without effect: ClusterQueue gpus has no {short}."),
        ("1h", "", "1h", ""), ("1h", "", "30m", ""), ("", "", "0s", ""), ("1h", "10m", "5m", ""),
        ("30m", "", "1h", "Cut to 30m: its queue gives no longer {short}."),
        ("1h", "10m", "1h", "Cut to 10m: its queue gives no longer {short}."),
        ("", "", "", ""), ("", "", "nonsense", ""),
    ],
)  # fmt: skip
def test_a_time_that_the_queue_does_not_give_is_told(
    key: str, short: str, cluster_queue: str, local_queue: str, on_pod: str, verdict: str
) -> None:
    queue, local, pod = (
        views.ObjectMeta(name="gpus", annotations={key: text} if text else None)
        for text in (cluster_queue, local_queue, on_pod)
    )
    texts = tuple(key_warnings.beyond_queue([pod], queue, local))
    assert len(texts) == bool(verdict)
    assert all(text.startswith(verdict.format(short=short)) for text in texts)
    long_name = views.ObjectMeta(name="q" * 253, annotations=queue.annotations)
    for text in key_warnings.beyond_queue([pod], long_name, local):
        assert len(text) <= key_warnings.LONGEST


def test_a_pod_is_told_that_its_queue_has_no_minimum_run_time(world: Cluster) -> None:
    pod = make_pod(
        gpus=1, labels={names.QUEUE_LABEL: "team"}, annotations={names.MINIMUM_RUN_TIME: "1h"}
    )
    assert mutate(pod, world).warnings == (
        (
            "Without effect: ClusterQueue gpus has no minimum-run-time. Ask an administrator to"
            " set gpu-admission.dev/minimum-run-time on it"
        ),
    )


@pytest.fixture
def world() -> Cluster:
    """A namespace with a queue that is not its default."""
    queue = cluster_queue_view({"a": {GPU: "8"}})
    return make_cluster("team", cluster_queues={"gpus": queue}, flavors={"a": flavor_view("a")})


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_pod_that_is_in_no_queue_for_a_slip_is_told_so(world: Cluster, gpus: int) -> None:
    labels = {f"{KUEUE}/queue": "team"}
    texts = mutate(make_pod(gpus=gpus, labels=labels), world).warnings
    slip = f"Without effect: label {KUEUE}/queue is not known; did you mean {names.QUEUE_LABEL}?"
    assert texts[0] == slip
    assert any(text.startswith("No queue: ") for text in texts) is bool(gpus)


def test_a_pod_that_is_held_until_its_queue_is_known_is_told_of_a_slip(world: Cluster) -> None:
    world.synced = False
    texts = mutate(make_pod(gpus=1, labels={f"{KUEUE}/queue": "team"}), world).warnings
    assert [text.endswith(f"did you mean {names.QUEUE_LABEL}?") for text in texts] == [True]


def test_nobody_reads_what_is_said_of_a_pod_that_a_controller_makes(world: Cluster) -> None:
    owner: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a",
                             "uid": "1", "controller": True}  # fmt: skip
    pod = make_pod(labels={f"{KUEUE}/queue": "team"})
    pod["metadata"]["ownerReferences"] = [owner]
    assert mutate(pod, world).warnings == ()
