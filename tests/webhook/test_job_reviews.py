"""Reviews of Jobs: which are held as a whole, how their templates change, what is refused."""

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import names
from admission.objects import views
from admission.owners.batch_job_review import ReviewedJob
from admission.webhook import owner_review, pod_review
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.queueing import ManagementState
from admission.webhook.review_context import Context, Rules
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view
from tests.webhook import builders
from tests.webhook.builders import NOW_US, RULES, Cluster, make_cluster

ANNOTATION = names.WORKLOAD_ANNOTATION
CONTEXT = Context(namespace="team-a", now_us=NOW_US)
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
LEAST = "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: "
SYNC = "metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: "


def in_queue(name: str = "default", **changes: Any) -> dict[str, Any]:
    labels = {names.QUEUE_LABEL: name, **changes.pop("labels", {})}
    return make_job("train", 4, labels=labels, **changes)


def mutate(
    document: Mapping[str, Any],
    cluster: Cluster,
    context: Context = CONTEXT,
    rules: Rules = RULES,
) -> ReviewOutcome:
    return owner_review.mutate(msgspec.convert(document, ReviewedJob), context, rules, cluster)


def mutated(document: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
    outcome = mutate(document, cluster)
    assert outcome.errors == ()
    result: dict[str, Any] = jsonpatch.apply_patch(document, list(outcome.operations))
    return result


def validate(
    new: Mapping[str, Any], old: Mapping[str, Any] | None = None, cluster: Cluster | None = None
) -> list[str]:
    before = None if old is None else msgspec.convert(old, ReviewedJob)
    after = msgspec.convert(new, ReviewedJob)
    found = owner_review.validate(before, after, CONTEXT, RULES, cluster or make_cluster())
    return [error.text() for error in found.errors]


# --------------------------------------------------------------------------------------- mutating


@pytest.mark.parametrize(
    ("document", "queues", "queue"),
    [
        (in_queue("other"), (), "other"),
        (in_queue("other", gpus=1), ("default",), "other"),
        (make_job(gpus=1), ("default",), "default"),
        (make_job(gpus=1), ("other",), ""),
        (make_job(), ("default",), ""),
        (make_job(gpus=1, pod={"labels": {names.QUEUE_LABEL: "x"}}), ("default",), ""),
    ],
    ids=["label", "label wins", "default", "no default", "no GPU", "its pods have a queue"],
)
def test_a_job_is_held_as_a_whole_where_it_has_a_queue(
    document: dict[str, Any], queues: tuple[str, ...], queue: str
):
    after = mutated(document, make_cluster(*queues))
    assert after["spec"]["suspend"] is bool(queue)
    assert (after["metadata"].get("labels") or {}).get(names.QUEUE_LABEL, "") == queue
    if not queue:
        assert after == document


def test_mutating_twice_equals_once():
    cluster = make_cluster("default", priority_classes=frozenset({"default"}))
    once = mutated(make_job(gpus=1), cluster)
    assert mutated(once, cluster) == once


def test_excluded_namespaces_are_left_alone():
    cluster = make_cluster("default")
    context = Context(namespace="kube-system", now_us=NOW_US)
    outcome = mutate(in_queue(gpus=1), cluster, context)
    assert (outcome.standing, outcome.operations) == (ManagementState.FREE, ())


def test_a_priority_class_named_default_is_the_default():
    cluster = make_cluster("default", priority_classes=frozenset({"default"}))
    labels = mutated(in_queue(), cluster)["metadata"]["labels"]
    assert labels[names.PRIORITY_CLASS_LABEL] == "default"
    own = in_queue(labels={names.PRIORITY_CLASS_LABEL: "mine"})
    assert mutated(own, cluster)["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] == "mine"


def mig_cluster(**more: Any) -> Cluster:
    flavor = flavor_view("mig", product="NVIDIA-A100-SXM4-80GB", mig_profile="1g.10gb")
    queue = cluster_queue_view({"mig": {"nvidia.com/mig-1g.10gb": "8"}})
    return make_cluster("default", flavors={"mig": flavor}, cluster_queues={"gpus": queue}, **more)


def test_the_template_asks_for_gpus_in_the_names_of_the_queue():
    template = mutated(make_job(gpus=1), mig_cluster())["spec"]["template"]
    asked = template["spec"]["containers"][0]["resources"]["limits"]
    assert asked == {"nvidia.com/mig-1g.10gb": "1"}
    assert names.ORIGINAL_RESOURCES in template["metadata"]["annotations"]
    assert template["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_a_template_that_no_flavor_can_hold_is_refused_where_it_stands():
    template = {"annotations": {names.MIG_PROFILE: "9g.90gb"}}
    outcome = mutate(make_job(gpus=1, pod=template), mig_cluster())
    assert outcome.operations == ()
    assert all(error.path.text.startswith("spec.template.") for error in outcome.errors)
    assert outcome.errors


def limited(**annotations: str) -> Cluster:
    metadata = views.ObjectMeta(name="small", namespace="team-a", annotations=annotations)
    item = views.LimitRangeItem(
        type="Container", min={"cpu": "1"}, default={"cpu": "2"}, default_request={"cpu": "2"}
    )
    spec = views.LimitRangeSpec(limits=(item,))
    return mig_cluster(limits=(views.LimitRange(metadata=metadata, spec=spec),))


def test_limits_of_the_namespace_hold_for_what_its_pods_will_be():
    """LimitRanger fills in what the template leaves out; a virtual limit is judged at once."""
    assert mutate(make_job(gpus=1), limited()).errors == ()
    (error,) = mutate(
        make_job(gpus=1), limited(**{"gpu-admission.dev/max-gpu-memory": "5Gi"})
    ).errors
    assert "gpu-memory" in error.text()


def test_a_copy_of_an_admitted_job_was_never_admitted():
    labels = {"mine": "1", names.CLUSTER_QUEUE_NAME_LABEL: "old", names.PODSET_LABEL: "main"}
    template = {"labels": labels, "annotations": {ANNOTATION: "job-old-12345", "mine": "1"}}
    for document in (in_queue(pod=template), make_job(gpus=1, pod=template)):
        after = mutated(document, make_cluster())
        assert after["spec"]["template"]["metadata"]["annotations"] == {"mine": "1"}
        assert after["spec"]["template"]["metadata"]["labels"] == {"mine": "1"}


def of_job(controller: bool = True, **spec: Any) -> dict[str, Any]:
    """A Job without GPUs that another Job owns."""
    document = make_job(gpus=0, **spec)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "invented"}
    document["metadata"]["ownerReferences"] = [{**owner, "controller": controller}]
    return document


def test_a_job_without_a_queue_that_a_job_controls_is_held_until_its_parent_is_known():
    changed = mutated(of_job(), Cluster())
    assert changed["spec"]["suspend"] is True
    assert changed["metadata"]["labels"] == {names.HELD_WITH_PARENT: "true"}
    assert mutated(changed, Cluster()) == changed
    by_its_author = of_job()
    by_its_author["spec"]["suspend"] = True
    changed = mutated(by_its_author, Cluster())
    assert changed["metadata"]["labels"] == {names.HELD_WITH_PARENT: "false"}


def test_a_job_that_another_merely_owns_is_left_alone():
    document = of_job(controller=False)
    assert mutated(document, Cluster()) == document


def test_an_owner_that_is_not_known_frees_no_job_from_its_queue():
    document = of_job()
    document["metadata"]["labels"] = {names.QUEUE_LABEL: "default"}
    changed = mutated(document, Cluster())
    assert changed["spec"]["suspend"] is True
    assert changed["metadata"]["labels"] == {names.QUEUE_LABEL: "default"}


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"parallelism": 8, "completions": 8}, (64, 8)),
        ({"parallelism": 9, "completions": 4}, (32, 4)),
        ({"parallelism": 8, "annotations": {names.JOB_MIN_PARALLELISM: "3"}},
         (24, 3)),
        ({"parallelism": 8, "annotations": {names.JOB_MIN_PARALLELISM: "2"}}, None),
        ({"parallelism": 2}, None),
    ],
    ids=["all pods", "no more than completions", "the least", "the least fits", "fits"],
)  # fmt: skip
def test_a_job_whose_pods_together_can_never_fit_is_told(
    changes: dict[str, Any], asked: tuple[int, int] | None
):
    cluster = make_cluster("default", flavors={"a": flavor_view("a", "A100-SXM4-80GB")})
    quotas = {"a": {"nvidia.com/gpu": "16"}}
    cluster.cluster_queues = {"gpus": cluster_queue_view(quotas, name="gpus")}
    found = mutate(in_queue(gpus=8, **changes), cluster).warnings
    total, count = asked or (0, 0)
    expected = (
        f"Too big: asks {total} a, gpus can reach 16. Run at most 2 of its {count} pods of 8 at a"
        " time, or have the quota raised"
    )
    assert [text for text in found if "Too big" in text] == ([expected] if asked else [])


def test_where_a_queue_is_required_a_gpu_job_without_one_is_suspended_and_its_user_told():
    document = make_job(gpus=1)
    outcome = mutate(document, make_cluster("a", "b"), rules=builders.QUEUE_REQUIRED)
    after = jsonpatch.apply_patch(document, list(outcome.operations))
    waits = {"suspend": True, "podReplacementPolicy": "Failed"}
    expected = {**document, "spec": {**document["spec"], **waits}}
    assert after == expected
    (warning,) = outcome.warnings
    assert warning == (
        "No queue: the Job waits until it has one. Set the label kueue.x-k8s.io/queue-name to one"
        " of a, b"
    )
    assert mutate(after, make_cluster(), rules=builders.QUEUE_REQUIRED).operations == ()


@pytest.mark.parametrize(
    ("document", "cluster", "standing"),
    [
        (make_job(gpus=1), make_cluster("default"), ManagementState.QUEUED),
        (make_job(gpus=1), make_cluster("a", enforce=True), ManagementState.REFUSED),
        (make_job(gpus=1), Cluster(), ManagementState.IN_DOUBT),
        (make_job(), make_cluster("a"), ManagementState.FREE),
        (make_job(gpus=1, pod={"labels": {names.QUEUE_LABEL: "a"}}),
         make_cluster("a"), ManagementState.FREE),
    ],
    ids=["default queue", "enforced", "namespace not seen yet", "no GPU", "pods have a queue"],
)  # fmt: skip
def test_where_a_queue_is_required_only_gpu_jobs_without_one_are_held(document, cluster, standing):
    outcome = mutate(document, cluster, rules=builders.QUEUE_REQUIRED)
    assert outcome.standing is standing


def test_a_gpu_job_without_a_queue_is_refused_where_queues_are_enforced():
    (error,) = mutate(make_job(gpus=1), make_cluster("a", "b", enforce=True)).errors
    assert error.text() == (
        "metadata.labels[kueue.x-k8s.io/queue-name]: Required value: its pods ask for "
        "nvidia.com/gpu, so in namespace team-a (gpu-admission.dev/enforce=true) it must name "
        "one of a, b"
    )
    for free in (make_job(), in_queue("a", gpus=1)):
        assert mutate(free, make_cluster("a", "b", enforce=True)).errors == ()


# ------------------------------------------------------------------------------------- validating


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"labels": {names.QUEUE_LABEL: "-a"}}, ["metadata.labels[kueue.x-k8s.io/queue-name]"]),
        ({"annotations": {names.JOB_MIN_PARALLELISM: "3"}}, []),
        (
            {"annotations": {names.JOB_MIN_PARALLELISM: "4"}},
            [f"{LEAST}Invalid value: 4: should be between 0 and 3"],
        ),
        (
            {"annotations": {names.JOB_MIN_PARALLELISM: "0"}},
            [f"{LEAST}Invalid value: 0: should be between 0 and 3"],
        ),
        (
            {"annotations": {names.JOB_MIN_PARALLELISM: "2"}, "completions": 2},
            [f"{LEAST}Invalid value: 2: should be between 0 and 1"],
        ),
        (
            {"annotations": {names.JOB_MIN_PARALLELISM: "few"}},
            [
                f'{LEAST}Invalid value: "few": strconv.Atoi: parsing \\"few\\": invalid syntax',
            ],
        ),
        ({"annotations": {names.JOB_SYNC_COMPLETIONS: "false"}}, []),
        ({"annotations": {names.JOB_SYNC_COMPLETIONS: "t"}, "completionMode": "Indexed"}, []),
        (
            {"annotations": {names.JOB_SYNC_COMPLETIONS: "yes"}},
            [f'{SYNC}Invalid value: "yes": strconv.ParseBool: parsing "yes": invalid syntax'],
        ),
        (
            {"annotations": {names.JOB_SYNC_COMPLETIONS: "true"}, "completions": 9},
            [
                f'{SYNC}Invalid value: "true": should not be enabled for NonIndexed jobs',
                "spec.completions: Invalid value: 9: should be equal to parallelism when",
            ],
        ),
        (
            {"labels": {names.MAX_EXEC_TIME_LABEL: "0"}},
            ["metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"],
        ),
        (
            {"pod": {"annotations": {ANNOTATION: "x"}}},
            [
                "spec.template.metadata.annotations[kueue.x-k8s.io/workload]: Forbidden: is set",
            ],
        ),
        (
            {"pod": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "a b"}}},
            ["spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]"],
        ),
        (
            {
                "pod": {
                    "annotations": {
                        "kueue.x-k8s.io/podset-slice-required-topology": "rack",
                        "kueue.x-k8s.io/podset-slice-size": "8",
                    }
                }
            },
            [
                (
                    "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-size]: Invalid"
                    ' value: "8": must not be greater than pod set count 4'
                )
            ],
        ),
        (
            {
                "pod": {
                    "annotations": {
                        "kueue.x-k8s.io/podset-preferred-topology": "rack",
                        "kueue.x-k8s.io/podset-group-name": "g",
                    }
                }
            },
            [
                (
                    "spec.template.metadata.annotations[kueue.x-k8s.io/podset-group-name]: Invalid"
                    ' value: "g": can only define groups of exactly 2 pod sets, got: 1 pod set(s)'
                )
            ],
        ),
    ],
)
def test_rules_of_a_new_job(changes: dict[str, Any], errors: list[str]):
    found = validate(in_queue(**changes))
    assert len(found) == len(errors), found
    for text, wanted in zip(found, errors, strict=True):
        assert text.replace('\\"', '"').startswith(wanted.replace('\\"', '"'))


SUSPENDED: dict[str, Any] = {"suspend": True}
PARTIAL: dict[str, Any] = {"annotations": {names.JOB_MIN_PARALLELISM: "2"}}
CLASS: dict[str, Any] = {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}
INDEXED: dict[str, Any] = {"completionMode": "Indexed"}
MARKED: dict[str, Any] = {"pod": {"annotations": {ANNOTATION: "x"}}}


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (in_queue("a"), in_queue("b"), "metadata.labels[kueue.x-k8s.io/queue-name]"),
        (in_queue("a", **SUSPENDED), in_queue("b", **SUSPENDED), ""),
        (in_queue("a", **SUSPENDED), in_queue("b"), "metadata.labels[kueue.x-k8s.io/queue-name]"),
        (in_queue(), in_queue(**CLASS), "metadata.labels[kueue.x-k8s.io/priority-class]"),
        (in_queue(**SUSPENDED), in_queue(**CLASS, **SUSPENDED), ""),
        (in_queue(**PARTIAL), in_queue(**PARTIAL, parallelism=3), "spec.parallelism: Forbidden"),
        (in_queue(**PARTIAL, **SUSPENDED), in_queue(**PARTIAL, parallelism=3), ""),
        (in_queue(**PARTIAL, **SUSPENDED), in_queue(**PARTIAL, parallelism=1, **SUSPENDED), ""),
        (
            in_queue(**INDEXED),
            in_queue(**INDEXED, annotations={names.JOB_SYNC_COMPLETIONS: "true"}),
            SYNC,
        ),
        (in_queue(**SUSPENDED), in_queue(**MARKED), ""),
        (make_job(**SUSPENDED), make_job(**MARKED), "spec.template.metadata.annotations"),
        (make_job(**MARKED), make_job(**MARKED), ""),
        (make_job(**MARKED, **SUSPENDED), make_job(**MARKED), "spec.template.metadata"),
        (
            in_queue(**MARKED, **SUSPENDED),
            make_job(**MARKED, **SUSPENDED),
            "spec.template.metadata",
        ),
    ],
)
def test_rules_of_a_changed_job(old: dict[str, Any], new: dict[str, Any], refused: str):
    found = validate(new, old)
    assert bool(found) is bool(refused), found
    assert all(text.startswith(refused) for text in found)


def test_the_label_stays_where_the_namespace_has_a_default_queue():
    (error,) = validate(make_job(**SUSPENDED), in_queue(**SUSPENDED), make_cluster("default"))
    assert "queue-name must not be empty in namespace with default queue" in error


# -------------------------------------------------------------------------------- pods of Jobs


def pod_of_job(mark: str = "job-train-12345", kind: str = "Job") -> dict[str, Any]:
    pod = make_pod(gpus=1, annotations={ANNOTATION: mark} if mark else {})
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "train", "controller": True}
    pod["metadata"]["ownerReferences"] = [{**owner, "uid": "u"}]
    return pod


@pytest.mark.parametrize(
    ("pod", "user", "passes"),
    [
        (pod_of_job(), JOB_CONTROLLER, True),
        (pod_of_job(), "system:kube-controller-manager", True),
        (pod_of_job(), "jane", False),
        (pod_of_job(""), JOB_CONTROLLER, False),
        (pod_of_job(kind="CronJob"), JOB_CONTROLLER, False),
    ],
)
def test_a_pod_of_an_admitted_job_is_not_held_again(pod: dict[str, Any], user: str, passes: bool):
    cluster = make_cluster("default", enforce=True)
    context = Context(namespace="team-a", now_us=NOW_US, user=user)
    outcome = pod_review.mutate(builders.read(pod), context, RULES, cluster)
    assert (outcome.standing is ManagementState.OF_JOB) is passes
    assert (outcome.operations == ()) is passes
    judged = pod_review.validate(None, builders.read(pod), context, RULES, cluster)
    assert (judged.errors == ()) is passes


def sidecar(**amounts: str) -> dict[str, Any]:
    return {"name": "side", "image": "x", "resources": {"limits": amounts, "requests": amounts}}


@pytest.mark.parametrize(
    ("admitted", "more", "refused"),
    [
        ("nvidia.com/gpu=1", [], ""),
        ("nvidia.com/gpu=1", [sidecar(cpu="2")], ""),
        ("nvidia.com/gpu=1", [sidecar(**{"nvidia.com/gpu": "2"})], "nvidia.com/gpu: 3, and 1 was"),
        ("nvidia.com/gpu=3", [sidecar(**{"nvidia.com/gpu": "2"})], ""),
        ("none", [], "nvidia.com/gpu: 1, and 0 was"),
        (
            "nvidia.com/gpu=1",
            [sidecar(**{"nvidia.com/mig-1g.10gb": "1"})],
            "nvidia.com/mig-1g.10gb: 1, and 0 was",
        ),
        ("nvidia.com/gpu=1", [sidecar(**{"example.com/nic": "1"})], ""),
        ("nvidia.com/gpu=all", [], "must be NAME=AMOUNT"),
    ],
)
def test_a_pod_of_an_admitted_owner_gets_no_more_devices_than_were_admitted(
    admitted: str, more: list[dict[str, Any]], refused: str
) -> None:
    """Another webhook, or a LimitRange that is newer than the admission, may add them."""
    context = Context(namespace="team-a", now_us=NOW_US, user=JOB_CONTROLLER)
    pod = pod_of_job()
    pod["metadata"]["annotations"][names.ADMITTED_DEVICES] = admitted
    pod["spec"]["containers"] += more
    outcome = pod_review.validate(None, builders.read(pod), context, RULES, make_cluster())
    assert bool(outcome.errors) is bool(refused)
    assert all(refused in one.text() for one in outcome.errors)


@pytest.mark.parametrize("queues", [("default",), ()])
def test_a_template_does_not_name_who_asks_for_a_pod(queues: tuple[str, ...]):
    pod = pod_of_job()
    pod["metadata"]["annotations"][names.REQUESTER] = "somebody-else"
    context = Context(namespace="team-a", now_us=NOW_US, user=JOB_CONTROLLER)
    outcome = pod_review.mutate(builders.read(pod), context, RULES, make_cluster(*queues))
    said = builders.apply(outcome, pod)["metadata"]["annotations"]
    assert said == {ANNOTATION: "job-train-12345", names.REQUESTER: names.UNKNOWN_REQUESTER}


def test_a_pod_outside_of_every_queue_does_not_name_another_requester():
    pod = make_pod(gpus=1, annotations={names.REQUESTER: "somebody-else"})
    context = Context(namespace="team-a", now_us=NOW_US, user="jane")
    outcome = pod_review.mutate(builders.read(pod), context, RULES, make_cluster())
    assert outcome.standing is ManagementState.UNMANAGED
    assert builders.apply(outcome, pod)["metadata"]["annotations"] == {names.REQUESTER: "jane"}


def test_a_pod_of_an_admitted_job_may_still_break_a_limit():
    context = Context(namespace="team-a", now_us=NOW_US, user=JOB_CONTROLLER)
    pod = pod_of_job()
    amounts = {"nvidia.com/mig-1g.10gb": "1", "cpu": "500m"}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    outcome = pod_review.mutate(builders.read(pod), context, RULES, limited())
    assert outcome.standing is ManagementState.OF_JOB
    assert ["minimum cpu usage" in error.text() for error in outcome.errors] == [True]
