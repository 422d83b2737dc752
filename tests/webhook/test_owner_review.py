"""A review of an owner knows no kind: one with two pod templates goes the way of a Job."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
import pytest

from admission.base import names
from admission.objects import owner_rows
from admission.owners import batch_job_review, injection, integrations
from admission.webhook import owner_review
from admission.webhook.pod_review import ReviewOutcome
from admission.webhook.queueing import ManagementState
from admission.webhook.review_context import Context
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.builders.queues import cluster_queue_view, flavor_view
from tests.owners import samples
from tests.webhook import builders
from tests.webhook.builders import NOW_US, RULES, Cluster, make_cluster

(JobSet,) = (one.document for one in integrations.DEFAULT.held if one.kind.name == "JobSet")
CONTEXT = Context(namespace="team-a", now_us=NOW_US)
MIG = "nvidia.com/mig-1g.10gb"
DRIVER, WORKERS = (f"spec.replicatedJobs[{at}].template.spec.template." for at in (0, 1))
OPERATIONS = tuple(f"/spec/replicatedJobs/{at}/template/spec/template" for at in (0, 1))
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


def make_set(
    driver: Mapping[str, Any] | None = None,
    workers: Mapping[str, Any] | None = None,
    *,
    gpus: tuple[int, int] = (1, 1),
    replicas: int = 2,
    labels: Mapping[str, str] | None = None,
    owner: str = "",
    **spec: Any,
) -> dict[str, Any]:
    """A driver and its workers; the first two are metadata of their templates."""
    jobs = [
        {
            "name": name,
            "replicas": count,
            "template": {
                "spec": {
                    "template": {
                        "metadata": copy.deepcopy(dict(metadata or {})),
                        "spec": make_pod(gpus=asked)["spec"],
                    }
                }
            },
        }
        for name, count, metadata, asked in zip(
            ("driver", "workers"), (1, replicas), (driver, workers), gpus, strict=True
        )
    ]
    metadata: dict[str, Any] = {"name": "train", "namespace": "team-a"}
    if labels is not None:
        metadata["labels"] = dict(labels)
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": owner, "name": "p", "uid": "u", "controller": True}
        ]
    return {"metadata": metadata, "spec": {"replicatedJobs": jobs, **spec}}


def in_queue(*templates: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return make_set(*templates, labels={names.QUEUE_LABEL: "default"}, **changes)


def annotated(**annotations: str) -> dict[str, Any]:
    return {"annotations": {key.replace("__", "/"): text for key, text in annotations.items()}}


def mutate(document: Mapping[str, Any], cluster: Cluster) -> ReviewOutcome:
    return owner_review.mutate(msgspec.convert(document, JobSet), CONTEXT, RULES, cluster)


def mutated(document: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
    outcome = mutate(document, cluster)
    assert outcome.errors == ()
    result: dict[str, Any] = jsonpatch.apply_patch(document, list(outcome.operations))
    return result


def validate(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> ReviewOutcome:
    before = None if old is None else msgspec.convert(old, JobSet)
    found = msgspec.convert(new, JobSet)
    return owner_review.validate(before, found, CONTEXT, RULES, make_cluster())


def paths(outcome: ReviewOutcome) -> list[str]:
    return [error.path.text for error in outcome.errors]


IN_VAIN = (
    f"Without effect: {names.GPU_MEMORY} belongs on the pods, so in metadata of the pod template"
)


def test_an_update_that_annotates_an_owner_instead_of_its_pods_is_told_that_it_has_no_effect() -> (
    None
):
    was, now = in_queue(), in_queue()
    now["metadata"]["annotations"] = {names.GPU_MEMORY: "40Gi"}
    assert validate(now, was).warnings == (IN_VAIN,)
    assert validate(now, now).warnings == ()


def mig_cluster() -> Cluster:
    flavor = flavor_view("mig", product="NVIDIA-A100-SXM4-80GB", mig_profile="1g.10gb")
    queue = cluster_queue_view({"mig": {MIG: "8"}})
    return make_cluster("default", flavors={"mig": flavor}, cluster_queues={"gpus": queue})


# --------------------------------------------------------------------------------------- mutating


def test_each_template_asks_for_gpus_in_the_names_of_the_queue():
    outcome = mutate(make_set(), mig_cluster())
    assert outcome.standing is ManagementState.QUEUED
    written = [operation["path"] for operation in outcome.operations]
    assert written[:2] == ["/metadata/labels", "/spec/suspend"]
    for at in OPERATIONS:
        under = [path.removeprefix(at) for path in written if path.startswith(at)]
        assert sorted(under) == [
            "/metadata/annotations",
            "/spec/containers/0/resources/limits/nvidia.com~1gpu",
            "/spec/containers/0/resources/limits/nvidia.com~1mig-1g.10gb",
            "/spec/containers/0/resources/requests/nvidia.com~1gpu",
            "/spec/containers/0/resources/requests/nvidia.com~1mig-1g.10gb",
            "/spec/tolerations",
        ]
    replaces = [one for one in written if one.endswith("/podReplacementPolicy")]
    assert len(written) == 2 + 2 * 6 + len(replaces) == 2 + 2 * 7

    after = mutated(make_set(), mig_cluster())
    assert after["metadata"]["labels"] == {names.QUEUE_LABEL: "default"}
    assert after["spec"]["suspend"] is True
    for job in after["spec"]["replicatedJobs"]:
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {MIG: "1"}
    assert mutated(after, mig_cluster()) == after


def test_only_the_template_that_asks_for_gpus_is_changed():
    outcome = mutate(make_set(gpus=(0, 1)), mig_cluster())
    written = [operation["path"] for operation in outcome.operations]
    assert not [path for path in written if path.startswith(OPERATIONS[0])]
    assert [path for path in written if path.startswith(OPERATIONS[1])]


def test_a_template_that_no_flavor_can_hold_is_refused_where_it_stands():
    large = annotated(**{names.MIG_PROFILE.replace("/", "__"): "9g.90gb"})
    both = mutate(make_set(large, large), mig_cluster())
    assert both.operations == ()
    assert all(path.startswith((DRIVER, WORKERS)) for path in paths(both))
    assert len({path[: len(DRIVER)] for path in paths(both)}) == 2

    second = mutate(make_set({}, large), mig_cluster())
    assert second.operations == ()
    assert second.errors
    assert all(path.startswith(WORKERS) for path in paths(second))


def test_a_copy_of_an_admitted_owner_was_never_admitted():
    mark = annotated(**{names.WORKLOAD_ANNOTATION.replace("/", "__"): "old", "mine": "1"})
    after = mutated(in_queue(mark, mark, gpus=(0, 0)), make_cluster())
    for job in after["spec"]["replicatedJobs"]:
        metadata = job["template"]["spec"]["template"]["metadata"]
        assert metadata["annotations"] == {"mine": "1"}


def test_a_template_that_names_a_queue_leaves_all_of_the_owner_to_its_pods():
    document = make_set({"labels": {names.QUEUE_LABEL: "x"}})
    assert mutated(document, make_cluster("default")) == document


def test_what_can_never_fit_is_said_of_its_pod_set_and_what_the_queue_lacks_once():
    cluster = make_cluster("default", flavors={"a": flavor_view("a", "A100-SXM4-80GB")})
    quotas = {"a": {"nvidia.com/gpu": "16"}}
    cluster.cluster_queues = {"gpus": cluster_queue_view(quotas, name="gpus")}
    (warning,) = mutate(in_queue(gpus=(8, 8), replicas=3), cluster).warnings
    assert warning == (
        "Too big: asks 24 a, gpus can reach 16. Pod set workers: run at most 2 of its 3 pods of 8"
        " at a time, or have the quota raised"
    )
    missing = mutate(in_queue(), make_cluster("other")).warnings
    assert [text.partition(". ")[0] for text in missing] == [
        "Waits: LocalQueue default does not exist in its namespace"
    ]


def test_the_kind_is_named_where_a_queue_is_required():
    rules = builders.QUEUE_REQUIRED
    owner = msgspec.convert(make_set(), JobSet)
    outcome = owner_review.mutate(owner, CONTEXT, rules, make_cluster("a"))
    assert outcome.standing is ManagementState.IN_DOUBT
    assert outcome.operations[0] == {"op": "add", "path": "/spec/suspend", "value": True}
    assert outcome.warnings[0].startswith("No queue: the JobSet waits until it has one")


@pytest.mark.parametrize("owner", ["Job", "CronJob"])
def test_one_that_asks_for_nothing_is_left_alone_whatever_controls_it(owner: str):
    one = make_set(gpus=(0, 0), owner=owner)
    assert mutated(one, make_cluster()) == one


# ------------------------------------------------------------------------------------- validating


def test_errors_of_templates_stand_at_their_places():
    wrong = annotated(**{REQUIRED.replace("/", "__"): "a b"})
    where = f"metadata.annotations[{REQUIRED}]"
    assert paths(validate(in_queue(wrong, wrong))) == [
        f"{template}{where}" for template in (DRIVER, WORKERS)
    ]
    assert paths(validate(in_queue({}, wrong))) == [f"{WORKERS}{where}"]


GROUP = "kueue.x-k8s.io/podset-group-name"
GROUPED = {"annotations": {REQUIRED: "rack", GROUP: "g"}}
ELSEWHERE = {"annotations": {PREFERRED: "rack", GROUP: "g"}}
GROUP_PATHS = [f"{template}metadata.annotations[{GROUP}]" for template in (DRIVER, WORKERS)]
ONLY_PAIRS = "can only define groups of exactly 2 pod sets, got: "
ONLY_WITH_A_LEADER = (
    "can only define groups where at least one pod set has only 1 replica, got: 3 replica(s) and"
    " 2 replica(s) in the group"
)


def with_driver(document: dict[str, Any], replicas: int) -> dict[str, Any]:
    document["spec"]["replicatedJobs"][0]["replicas"] = replicas
    return document


def with_third(document: dict[str, Any]) -> dict[str, Any]:
    jobs = document["spec"]["replicatedJobs"]
    jobs.append(copy.deepcopy(jobs[1]) | {"name": "more"})
    return document


@pytest.mark.parametrize(
    ("document", "errors"),
    [
        (in_queue(GROUPED, GROUPED), []),
        (with_driver(in_queue(GROUPED, GROUPED, replicas=1), 2), []),
        (in_queue(ELSEWHERE, ELSEWHERE), []),
        (
            with_third(in_queue(GROUPED, GROUPED)),
            [
                f'{path}: Invalid value: "g": {ONLY_PAIRS}3 pod set(s)'
                for path in (*GROUP_PATHS, GROUP_PATHS[1].replace("[1]", "[2]", 1))
            ],
        ),
        (
            in_queue({}, GROUPED),
            [f'{GROUP_PATHS[1]}: Invalid value: "g": {ONLY_PAIRS}1 pod set(s)'],
        ),
        (
            with_driver(in_queue(GROUPED, GROUPED), 3),
            [f'{path}: Invalid value: "g": {ONLY_WITH_A_LEADER}' for path in GROUP_PATHS],
        ),
        (
            in_queue(GROUPED, ELSEWHERE),
            [
                f"{place}metadata.annotations: Invalid value: must specify '{REQUIRED}' or"
                f" '{PREFERRED}' topology consistent with '{other}metadata.annotations' in group"
                " 'g'"
                for place, other in ((DRIVER, WORKERS), (WORKERS, DRIVER))
            ],
        ),
    ],
    ids=[
        "a leader and workers", "of which the first has more", "that only prefer a rack",
        "three", "alone", "without a leader", "other levels",
    ],
)  # fmt: skip
def test_a_group_is_a_leader_and_its_workers(document: dict[str, Any], errors: list[str]):
    """Rules ``topology 18`` to ``topology 20``."""
    assert [error.text() for error in validate(document).errors] == errors


def test_an_owner_whose_group_was_wrong_before_there_was_a_rule_can_be_changed():
    old = with_third(in_queue(GROUPED, GROUPED))
    resumed = copy.deepcopy(old)
    resumed["spec"]["suspend"] = False
    assert validate(resumed, old).errors == ()
    assert len(validate(resumed, in_queue(GROUPED, GROUPED)).errors) == 3


SIZE = "kueue.x-k8s.io/podset-slice-size"
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"


def in_slices(size: str) -> dict[str, Any]:
    sliced = {PREFERRED: "block", "kueue.x-k8s.io/podset-slice-required-topology": "rack"}
    return {"annotations": {**sliced, SIZE: size}}


def in_layers(*sizes: int) -> dict[str, Any]:
    layers = [
        {"topology": level, "size": size}
        for level, size in zip(("block", "rack"), sizes, strict=False)
    ]
    return {"annotations": {PREFERRED: "block", LAYERS: json.dumps(layers)}}


TOO_LARGE = "must not be greater than pod set count 6"
NOT_WHOLE = "must divide pod set count 6: pods that fill no whole slice could never start"


@pytest.mark.parametrize(
    ("workers", "error"),
    [
        (in_slices("6"), ""),
        (in_slices("3"), ""),
        (in_layers(6, 3), ""),
        (in_slices("30"), f'[{SIZE}]: Invalid value: "30": {TOO_LARGE}'),
        (in_slices("4"), f'[{SIZE}]: Invalid value: "4": {NOT_WHOLE}'),
        (in_layers(30, 3), f"[{LAYERS}]: Invalid value: 30: {TOO_LARGE}"),
        (in_layers(4, 2), f"[{LAYERS}]: Invalid value: 4: {NOT_WHOLE}"),
    ],
    ids=[
        "one slice", "two slices", "layers", "larger than all", "a remainder",
        "a layer that is larger", "a remainder of layers",
    ],
)  # fmt: skip
def test_the_pods_of_a_pod_set_fill_whole_slices(workers: dict[str, Any], error: str):
    """Rules ``topology 21`` and ``topology 22``."""
    found = [error.text() for error in validate(in_queue({}, workers, replicas=6)).errors]
    assert found == ([f"{WORKERS}metadata.annotations{error}"] if error else [])


def test_slices_are_counted_only_of_who_is_in_a_queue_and_keeps_its_size():
    sliced = in_slices("4")
    assert validate(make_set({}, sliced, replicas=6)).errors == ()
    growing = in_queue({}, sliced, replicas=6)
    workers = growing["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    workers["schedulingGates"] = [{"name": names.ELASTIC_JOB_GATE}]
    assert [text for text in map(str, validate(growing).errors) if "pod set count" in text] == []
    old = make_set({}, sliced, replicas=6, suspend=True)
    queued_later = validate(in_queue({}, sliced, replicas=6, suspend=True), old)
    assert paths(queued_later) == [f"{WORKERS}metadata.annotations[{SIZE}]"]


def test_warnings_of_templates_name_their_places():
    asked = annotated(**{PREFERRED.replace("/", "__"): "rack"})
    assert validate(in_queue({}, asked)).warnings == ()
    growing = in_queue({}, asked)
    workers = growing["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    workers["schedulingGates"] = [{"name": names.ELASTIC_JOB_GATE}]
    assert [text.partition(" has no effect")[0] for text in validate(growing).warnings] == [
        f"{WORKERS}metadata.annotations[{PREFERRED}]"
    ]
    gated = in_queue()
    driver = gated["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    driver["schedulingGates"] = [{"name": names.TOPOLOGY_GATE}]
    (warning,) = validate(gated).warnings
    assert warning.startswith("pod set driver: the pod waits until")


MARK = {"annotations": {names.WORKLOAD_ANNOTATION: "w"}}
MARK_PATH = f"metadata.annotations[{names.WORKLOAD_ANNOTATION}]"


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (None, in_queue(MARK, MARK), [DRIVER, WORKERS]),
        (make_set(), make_set({}, MARK), [WORKERS]),
        (make_set(MARK), make_set(MARK, MARK), [WORKERS]),
        (make_set(MARK, MARK), make_set(MARK, MARK), []),
        (make_set(MARK, MARK, suspend=True), make_set(MARK, MARK), [DRIVER, WORKERS]),
        (in_queue(suspend=True), in_queue(MARK, MARK), []),
    ],
    ids=["new", "one more", "another", "as before", "it starts", "in a queue"],
)
def test_only_an_owner_in_a_queue_may_mark_its_templates_as_admitted(
    old: dict[str, Any] | None, new: dict[str, Any], refused: list[str]
):
    outcome = validate(new, old)
    assert paths(outcome) == [f"{template}{MARK_PATH}" for template in refused]
    assert all("is set when the JobSet is admitted" in e.detail for e in outcome.errors)


def test_rules_of_the_kind_hold_besides_those_of_every_owner():
    twice = in_queue(suspend=True)
    driver, workers = twice["spec"]["replicatedJobs"]
    workers["name"] = driver["name"]
    assert paths(validate(twice)) == ["spec.replicatedJobs[1].template.spec.template"]
    assert paths(validate(in_queue(), make_set())) == [f"metadata.labels[{names.QUEUE_LABEL}]"]


def test_what_is_wrong_with_the_pods_of_a_trainjob_is_told_where_it_says_what_they_ask_for() -> (
    None
):
    (found,) = (one for one in integrations.DEFAULT.held if one.kind.name == "TrainJob")
    asked = {"requests": {"nvidia.com/gpu": "1"}}
    metadata = {"name": "train", "labels": {names.QUEUE_LABEL: "default"}}
    document = {"metadata": metadata, "spec": {"trainer": {"resourcesPerNode": asked}}}
    new = msgspec.convert(document, found.document)
    outcome = owner_review.mutate(new, CONTEXT, RULES, make_cluster("default"))
    (error,) = outcome.errors
    assert error.text().startswith("spec.trainer.resourcesPerNode: Required value: Limit must")


def admitted_train_job(*, suspend: bool, **members: Any) -> Any:
    """A TrainJob with what its admission gave it, and other members of its spec."""
    (held,) = (one for one in integrations.DEFAULT.held if one.kind.name == "TrainJob")
    mark = {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "train"}}}
    job = {"name": "node", "template": {"spec": {"template": mark}}}
    given = {
        "manager": names.RUNTIME_PATCH_MANAGER,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    metadata = {"name": "train", "labels": {names.QUEUE_LABEL: "default"}}
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    patches = [given, *members.pop("more", ())]
    trainer = {"resourcesPerNode": limits}
    spec = {"trainer": trainer, "runtimePatches": patches, "suspend": suspend, **members}
    return msgspec.convert({"metadata": metadata, "spec": spec}, held.document)


@pytest.mark.parametrize(
    "change",
    [
        {"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}},
        {"trainer": {"numNodes": 9, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}}},
        {"more": [{"manager": "ml/me", "trainingRuntimeSpec": {"template": {}}}]},
    ],
    ids=["gpus", "nodes", "runtime patches"],
)
def test_the_pods_of_a_trainjob_change_before_its_start_and_not_after(
    change: dict[str, Any],
) -> None:
    cluster = make_cluster("default")
    running, waiting = (admitted_train_job(suspend=suspend) for suspend in (False, True))
    other, stopped = (admitted_train_job(suspend=suspend, **change) for suspend in (False, True))
    (error,) = owner_review.protect(running, other, CONTEXT, RULES, cluster).errors
    assert "was admitted with other pods" in error.text()
    for before in (running, waiting):
        assert owner_review.protect(before, stopped, CONTEXT, RULES, cluster).errors == ()
        assert owner_review.validate(before, stopped, CONTEXT, RULES, cluster).errors == ()
    (error,) = owner_review.protect(waiting, other, CONTEXT, RULES, cluster).errors
    assert "the controller starts it then" in error.text()


def ray_service(change: tuple[str, Any] | None = None, *, elastic: bool = False) -> Any:
    """A RayService that runs admitted, with something else at a place in its RayCluster."""
    (held,) = (one for one in integrations.DEFAULT.held if one.kind.name == "RayService")
    (row,) = (one for one in owner_rows.ROWS if one.kind == "RayService")
    found = copy.deepcopy(samples.of(row).manifest)
    cluster = found["spec"]["rayClusterConfig"]
    for one in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        one["template"]["metadata"] = {"annotations": {names.WORKLOAD_ANNOTATION: "train"}}
        if elastic:
            one["template"]["spec"]["schedulingGates"] = [{"name": names.ELASTIC_JOB_GATE}]
    if change is not None:
        path, value = change
        operation = {"op": "add", "path": f"/spec{path}", "value": value}
        found = jsonpatch.apply_patch(found, [operation])
    return msgspec.convert(found, held.document)


@pytest.mark.parametrize(
    ("path", "value", "again"),
    [
        ("/rayClusterConfig/rayVersion", "2.50.0", True),
        ("/rayClusterConfig/headGroupSpec/rayStartParams", {"num-cpus": "0"}, True),
        ("/rayClusterConfig/workerGroupSpecs/0/rayStartParams", {"num-cpus": "1"}, True),
        ("/rayClusterConfig/workerGroupSpecs/0/replicas", 1, False),
        ("/rayClusterConfig/workerGroupSpecs/0/minReplicas", 0, False),
        ("/rayClusterConfig/workerGroupSpecs/0/maxReplicas", 9, False),
        ("/rayClusterConfig/workerGroupSpecs/0/scaleStrategy", {"workersToDelete": ["a"]}, False),
        ("/rayClusterConfig/upgradeStrategy", {"type": "None"}, False),
        ("/serveConfigV2", "applications: [a]", False),
    ],
)
def test_a_rayservice_that_runs_is_not_changed_so_that_its_pods_run_twice(
    path: str, value: Any, *, again: bool
) -> None:
    now = owner_review.protect(
        ray_service(), ray_service((path, value)), CONTEXT, RULES, make_cluster()
    )
    paths = [one.path.text for one in now.errors]
    assert paths == (["spec.rayClusterConfig"] if again else [])
    old, new = ray_service(elastic=True), ray_service((path, value), elastic=True)
    assert owner_review.protect(old, new, CONTEXT, RULES, make_cluster()).errors == ()
    suspended = msgspec.structs.replace(new, spec={**new.spec, "suspend": True})
    assert owner_review.protect(old, suspended, CONTEXT, RULES, make_cluster()).errors == ()


def test_who_suspends_what_is_admitted_is_told_that_it_starts_again():
    old = ray_service()
    new = msgspec.structs.replace(old, spec={**old.spec, "suspend": True})
    (warning,) = owner_review.keep_waiting(old, new, CONTEXT, RULES, make_cluster()).warnings
    assert warning.startswith("The RayService is admitted, so it is started again soon")
    assert warning.endswith("To give its quota back, delete it")


def test_who_suspends_to_change_what_is_admitted_is_told_nothing():
    """So a refusal of the change tells to do it."""
    old = ray_service()
    new = ray_service(("/rayClusterConfig/workerGroupSpecs/0/replicas", 9))
    new = msgspec.structs.replace(new, spec={**new.spec, "suspend": True})
    assert not owner_review.keep_waiting(old, new, CONTEXT, RULES, make_cluster()).warnings


def job_read(*, suspended: bool, is_admitted: bool = True) -> Any:
    job = make_job(gpus=1, labels={names.QUEUE_LABEL: "default"})
    job["spec"]["suspend"] = suspended
    if is_admitted:
        metadata = job["spec"]["template"].setdefault("metadata", {})
        metadata["annotations"] = {names.WORKLOAD_ANNOTATION: "job-train"}
    return msgspec.convert(job, batch_job_review.HELD.document)


def test_who_suspends_an_admitted_job_is_told_how_to_give_its_quota_back():
    old, new = job_read(suspended=False), job_read(suspended=True)
    cluster = make_cluster("default")
    (warning,) = owner_review.keep_waiting(old, new, CONTEXT, RULES, cluster).warnings
    assert warning.startswith("The Job is admitted, so it is started again soon")
    assert warning.endswith("delete it, or set spec.parallelism to 0")


def test_who_gives_a_waiting_job_a_class_that_does_not_exist_is_told():
    old = job_read(suspended=True, is_admitted=False)
    labels = {**(old.metadata.labels or {}), names.PRIORITY_CLASS_LABEL: "nope"}
    metadata = msgspec.structs.replace(old.metadata, labels=labels)
    new = msgspec.structs.replace(old, metadata=metadata)
    (warning,) = owner_review.validate(old, new, CONTEXT, RULES, make_cluster("default")).warnings
    assert warning.startswith('Without effect: WorkloadPriorityClass "nope" not found')


@pytest.mark.parametrize("key", [*injection.MARK_LABELS, *injection.MARK_ANNOTATIONS])
@pytest.mark.parametrize("queued", [True, False])
def test_each_mark_of_an_earlier_admission_alone_is_dropped_from_templates(key: str, queued: bool):
    field = "labels" if key in injection.MARK_LABELS else "annotations"
    mark = {field: {key: "old", "mine": "1"}}
    document = in_queue(driver=mark) if queued else make_set(driver=mark)
    after = mutated(document, make_cluster("default" if queued else "other"))
    metadata = after["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]
    assert metadata[field] == {"mine": "1"}
    assert validate(after).errors == ()


def test_what_an_earlier_admission_remembers_on_an_owner_is_dropped():
    document = in_queue()
    document["metadata"]["annotations"] = {names.INJECTED: "{}", "mine": "1"}
    assert mutated(document, make_cluster("default"))["metadata"]["annotations"] == {"mine": "1"}


def test_what_an_earlier_admission_gave_the_pods_of_an_owner_is_taken_out():
    toleration = {"key": "acme.io/pool", "operator": "Exists", "effect": "NoSchedule"}
    preferred = {
        "weight": 100,
        "preference": {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
            ]
        },
    }
    record = {
        "podSets": {
            "driver": {
                "nodeSelector": ["pool"],
                "tolerations": [toleration],
                "preferred": [preferred],
                "gates": [names.TOPOLOGY_GATE],
            }
        }
    }
    document = in_queue()
    document["metadata"]["annotations"] = {names.INJECTED: json.dumps(record)}
    driver, workers = (
        one["template"]["spec"]["template"]["spec"] for one in document["spec"]["replicatedJobs"]
    )
    mine = {"key": "mine", "operator": "Exists"}
    for spec in (driver, workers):
        spec |= {
            "nodeSelector": {"pool": "a", "disk": "ssd"},
            "tolerations": [toleration, mine],
            "schedulingGates": [{"name": names.TOPOLOGY_GATE}, {"name": "acme.io/data"}],
            "affinity": {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
            },
        }

    after = mutated(document, make_cluster("default"))["spec"]["replicatedJobs"]
    changed, kept = (one["template"]["spec"]["template"]["spec"] for one in after)

    assert changed["nodeSelector"] == {"disk": "ssd"}
    assert toleration not in changed["tolerations"]
    assert mine in changed["tolerations"]
    assert changed["schedulingGates"] == [{"name": "acme.io/data"}]
    assert changed["affinity"] == {}
    assert kept["nodeSelector"] == {"pool": "a", "disk": "ssd"}
    assert {"name": names.TOPOLOGY_GATE} in kept["schedulingGates"]


@pytest.mark.parametrize("queued", [True, False])
def test_the_topology_gate_of_an_earlier_admission_leaves_a_new_job(queued: bool):
    record = {"nodeSelector": ["pool"], "gates": [names.TOPOLOGY_GATE]}
    document = make_job(labels={names.QUEUE_LABEL: "default"} if queued else {})
    document["metadata"]["annotations"] = {names.INJECTED: json.dumps(record)}
    spec = document["spec"]["template"]["spec"]
    spec["schedulingGates"] = [{"name": names.TOPOLOGY_GATE}]
    spec["nodeSelector"] = {"pool": "a"}
    job = msgspec.convert(document, batch_job_review.ReviewedJob)

    outcome = owner_review.mutate(
        job, CONTEXT, RULES, make_cluster("default" if queued else "other")
    )
    after = jsonpatch.apply_patch(document, outcome.operations)["spec"]["template"]["spec"]

    assert not after["schedulingGates"]
    assert not after["nodeSelector"]


# ------------------------------------------------------------------- applied again while it waits


def waiting_set(**more: Any) -> dict[str, Any]:
    return make_set(labels={names.QUEUE_LABEL: "default"}, **more)


def started(old: Mapping[str, Any], new: Mapping[str, Any]) -> ReviewOutcome:
    before, after = (msgspec.convert(one, JobSet) for one in (old, new))
    return owner_review.keep_waiting(before, after, CONTEXT, RULES, make_cluster("default"))


def test_an_owner_that_is_applied_again_while_it_waits_stays_suspended():
    old, new = waiting_set(suspend=True), waiting_set(suspend=False)
    outcome = started(old, new)
    assert jsonpatch.apply_patch(new, outcome.operations)["spec"]["suspend"] is True
    (warning,) = outcome.warnings
    assert warning == (
        "The JobSet stays suspended: only LocalQueue default starts it, and not once it was"
        " stopped for good. See: kubectl gpu why jobset/NAME"
    )


@pytest.mark.parametrize("key", [names.INJECTED, names.OUTSIDE_QUOTA])
def test_who_starts_an_owner_with_an_admission_or_outside_of_quota_means_it(key: str):
    new = waiting_set(suspend=False)
    new["metadata"]["annotations"] = {key: "x"}
    assert started(waiting_set(suspend=True), new).operations == ()


def test_an_owner_that_runs_or_has_no_queue_is_changed_as_its_author_says():
    running = waiting_set(suspend=False)
    assert started(running, running).operations == ()
    assert started(make_set(suspend=True), make_set(suspend=False)).operations == ()
    assert started(make_set(suspend=True), running).operations == ()


def test_an_owner_whose_earlier_admission_is_not_taken_out_yet_is_not_started_by_a_manifest():
    marks = {"annotations": {names.INJECTED: "{}"}}
    old, new = waiting_set(suspend=True), waiting_set(suspend=False)
    for one in (old, new):
        one["metadata"].update(marks)
    assert jsonpatch.apply_patch(new, started(old, new).operations)["spec"]["suspend"] is True
