"""batch/v1 Jobs as owners: held as a whole by ``suspend``, with the pod template they run with.

Source: kueue pkg/controller/jobs/job/job_controller.go (PodSets, Finished, ReclaimablePods,
RunWithPodSetsInfo, RestorePodSetsInfo) and pkg/podset/podset.go. Every patch changes exactly the
version of the Job that was decided on.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import msgspec
from typing_extensions import override

from admission.base import names, patches, structs, syntax
from admission.base.conditions import Text
from admission.objects import batch, views
from admission.objects.workload import PodSet, Workload, WorkloadSpec
from admission.owners import injection, prebuilt
from admission.owners.framework import (
    Grows,
    Integration,
    Kind,
    Owner,
    Reclaims,
    Resizes,
    Restores,
    Suspends,
)
from admission.owners.injection import Injection, gated_for_domains
from admission.owners.topology_domains import COMPLETION_INDEX, topology_request
from admission.owners.workload import (
    PriorityClasses,
    annotations,
    has_other_gates,
    labelled_priority,
    max_execution_seconds,
    pod_class_priority,
    template_spec,
    time_limit,
)
from admission.owners.workload import document as workload_document
from admission.reasons import kueue

KIND: Final = Kind(
    api_version="batch/v1",
    name="Job",
    plural="jobs",
    label=names.QUEUE_LABEL,
    is_deleted_to_stop=False,
    has_condition=False,
    takes_preferences=True,
)
POD_SET: Final = names.DEFAULT_PODSET

SET_BY_JOB_CONTROLLER: Final = frozenset(
    {
        "job-name",
        "controller-uid",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
    }
)
"""Labels of the pod template that belong to one Job, not to what it asks for."""

INDEXED: Final = "Indexed"
_SCHEDULING: Final = ("nodeSelector", "tolerations")
_MOST_DIGITS: Final = 10
"""A Job has fewer than 2^31 completions."""
_OUR_LABELS: Final = (
    names.PODSET_LABEL,
    names.LOCAL_QUEUE_NAME_LABEL,
    names.CLUSTER_QUEUE_NAME_LABEL,
)


class AnyJob(Protocol):
    """A Job, as the controller reads it or as it is reviewed."""

    @property
    def metadata(self) -> views.ObjectMeta:
        """Return its metadata."""
        ...

    @property
    def spec(self) -> batch.JobRun:
        """Return how it is to run."""
        ...


@dataclass(frozen=True, slots=True)
class JobOwner(Owner, Reclaims, Restores, Resizes, Suspends, Grows):
    """A Job with a queue.

    Attributes:
        view: the Job.
        may_start_pods: whether the Job controller may still make pods of it though it is
            suspended; see `is_stopped`.
        has_earlier_pods: see `Suspends.with_earlier_pods`.
    """

    view: batch.Job
    may_start_pods: bool = False
    has_earlier_pods: bool = False

    @property
    @override
    def kind(self) -> Kind:
        return KIND

    @property
    @override
    def pod_sets(self) -> tuple[str, ...]:
        return (POD_SET,)

    @override
    def is_held(self) -> bool:
        return is_suspended(self.view)

    @override
    def is_active(self) -> bool:
        return is_active(self.view) or self.may_start_pods or self.has_earlier_pods

    @override
    def is_ready(self) -> bool:
        return is_ready(self.view)

    @override
    def finished(self) -> Text | None:
        if self.view.metadata.deletion_timestamp:
            return kueue.OWNER_NOT_FOUND
        ended = outcome(self.view)
        if ended is None:
            return None
        return kueue.owner_finished(ended.message, succeeded=ended.type == "Complete")

    @override
    def was_admitted(self) -> bool:
        named = self.view.spec.template.metadata.annotation(names.WORKLOAD_ANNOTATION)
        return not self.is_held() and named == KIND.key_of(self.view).name

    @override
    def missing_workload(self) -> Text:
        return kueue.WORKLOAD_MISSING

    @override
    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> patches.Patch:
        injection = injections[POD_SET]
        if self.grows() is not None:
            # Slices come and go, and pods keep the name that they were made with.
            first = KIND.key_of(self.view).name
            mark = {names.WORKLOAD_ANNOTATION: first, names.SLICE_NAME: first}
            injection = replace(injection, annotations={**injection.annotations, **mark})
        else:
            injection = gated_for_domains(injection, workload, POD_SET)
        return start(self.view, workload, injection)

    @override
    def stands_for(self, workload: Workload) -> bool:
        """Return true, as it is unknown, until the template of a suspended Job is restored."""
        job, limit = self.view, workload.spec.maximum_execution_time_seconds
        if pod_set(workload) is None or limit != max_execution_seconds(job.metadata):
            return False
        if not is_suspended(job):
            return not self.has_other_count(workload)
        return is_injected(job) or not has_other_pods(job, workload)

    @override
    def reclaims(self) -> Reclaims:
        return self

    @override
    def restores(self) -> Restores:
        return self

    @override
    def resizes(self) -> Resizes:
        return self

    @override
    def suspends(self) -> Suspends:
        return self

    @override
    def grows(self) -> Grows | None:
        return self if is_elastic(self.view) else None

    @override
    def asked(self) -> Mapping[str, int]:
        return {POD_SET: count(self.view)}

    @override
    def revision(self) -> str:
        return str(self.view.metadata.generation)

    @override
    def is_stopped(self) -> bool:
        return is_suspended(self.view) and is_stopped(self.view)

    @override
    def as_starting(self) -> Owner:
        return replace(self, may_start_pods=True)

    @override
    def with_earlier_pods(self) -> Owner:
        return replace(self, has_earlier_pods=True)

    @override
    def let_go(self) -> Workload | None:
        return let_go(self.view)

    @override
    def reclaimable(self, workload: Workload) -> Mapping[str, int]:
        return {POD_SET: reclaimable(self.view, workload)}

    @override
    def pods_ended(self, workload: Workload) -> Mapping[str, int]:
        """Return the reclaimable pods: a Job runs no index again that is complete."""
        return self.reclaimable(workload)

    @override
    def is_injected(self) -> bool:
        return is_injected(self.view)

    @override
    def lacks_injection(self) -> bool:
        if self.is_held() or self.is_ready():
            return False
        return self.has_earlier_pods or not is_injected(self.view)

    @override
    def suspend(self) -> patches.Patch:
        return stop(self.view)

    @override
    def reset(self) -> patches.Patch | None:
        return reset(self.view) if self.view.status.start_time else None

    @override
    def restore(self, workload: Workload | None) -> patches.Patch:
        return restore(self.view, workload)

    @override
    def has_other_pods(self, workload: Workload) -> bool:
        return has_other_pods(self.view, workload)

    @override
    def has_other_count(self, workload: Workload) -> bool:
        return not is_elastic(self.view) and has_other_count(self.view, workload)

    @override
    def asks_otherwise(self, workload: Workload) -> bool:
        return asks_otherwise(self.view, workload)

    @override
    def waits_otherwise(self, workload: Workload) -> bool:
        return waits_otherwise(self.view, workload)


# ------------------------------------------------------------------------------ what a Job says


def is_suspended(job: AnyJob) -> bool:
    """Return whether the Job is to have no pods."""
    return job.spec.suspend is True


def is_active(job: batch.Job) -> bool:
    """Return whether pods of the Job run, as the Job controller counts them."""
    return job.status.active > 0


def let_go(job: batch.Job) -> Workload | None:
    """Return the requests of an admitted Job that runs, or None if it does not run.

    It is a Workload that is nowhere stored, with the labels of the pod template in its pod set.
    The pods of an elastic Job have a gate: those to come take nothing before they are released.
    """
    owner = JobOwner(job)
    if not owner.was_admitted() or owner.finished() is not None or is_elastic(job):
        return None
    total = parallelism(job) if job.spec.completions is None else job.spec.completions
    left = max(0, min(count(job), total - _ended(job, total)))
    template = job.spec.template
    queue = template.metadata.label(names.LOCAL_QUEUE_NAME_LABEL)
    return Workload(
        metadata=views.ObjectMeta(
            namespace=job.metadata.namespace,
            uid=job.metadata.uid,
            creation_timestamp=job.metadata.creation_timestamp,
        ),
        spec=WorkloadSpec(
            queue_name=queue or job.metadata.label(names.QUEUE_LABEL),
            pod_sets=(PodSet(name=POD_SET, count=left, template=template),),
        ),
    )


def is_stopped(job: batch.Job) -> bool:
    """Return whether the Job controller has seen that a suspended Job was stopped.

    It may have seen the start and not the stop yet; then it makes pods of a suspended Job. When it
    has seen the stop it says so in a condition, which turns True then: at another time than the
    one that the Job had before its start.
    """
    injected = _read_injected(job)
    since = _suspended_since(job)
    return injected is None or (bool(since) and since != injected.suspended_since)


def _suspended_since(job: batch.Job) -> str:
    """Return since when the Job controller says that a Job is suspended; empty if it does not."""
    for condition in job.status.conditions or ():
        if condition.type == "Suspended" and condition.status == "True":
            return condition.last_transition_time or ""
    return ""


def is_ready(job: batch.Job) -> bool:
    """Return whether as many pods are ready, or have succeeded, as run at a time."""
    status = job.status
    uncounted = status.uncounted_terminated_pods
    ended = len((uncounted.succeeded if uncounted else None) or ())
    return status.succeeded + ended + status.ready >= count(job)


def outcome(job: batch.Job) -> views.PodCondition | None:
    """Return the condition with which the Job has ended, or None while it has not."""
    for condition in job.status.conditions or ():
        if condition.type in {"Complete", "Failed"} and condition.status == "True":
            return condition
    return None


def parallelism(job: AnyJob) -> int:
    """Return how many pods may run at a time."""
    return 1 if job.spec.parallelism is None else job.spec.parallelism


def count(job: AnyJob) -> int:
    """Return how many pods run at a time at most."""
    completions = job.spec.completions
    return parallelism(job) if completions is None else min(parallelism(job), completions)


def min_count(job: batch.Job) -> int | None:
    """Return the minimum number of pods with which the Job may start, or None."""
    return syntax.whole_number(job.metadata.annotation(names.JOB_MIN_PARALLELISM)) or None


def _fewest(job: batch.Job) -> int | None:
    """Return the ``minCount`` of the pod set; None where it may not be less than the count.

    A pod set without pods has none: the schema allows no 0.
    """
    fewest = min_count(job)
    return None if fewest is None else min(fewest, count(job)) or None


def is_elastic(job: batch.Job) -> bool:
    """Return whether each pod of the Job waits for the controller, so that it may grow."""
    gates = job.spec.template.spec.scheduling_gates or ()
    return any(gate.name == names.ELASTIC_JOB_GATE for gate in gates)


def syncs_completions(job: AnyJob) -> bool:
    """Return whether completions follow the parallelism that was admitted."""
    return syntax.parse_boolean(job.metadata.annotation(names.JOB_SYNC_COMPLETIONS)) is True


def is_injected(job: batch.Job) -> bool:
    """Return whether the pod template carries what an admission gave it."""
    return bool(job.spec.template.metadata.annotation(names.WORKLOAD_ANNOTATION))


def digest(template: Mapping[str, Any]) -> str:
    """Return a digest that tells pod templates apart by what their pods are made from."""
    content = _template(template)
    encoded = msgspec.json.encode(content, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


# ------------------------------------------------------------------------------------ Workload


def pod_set(workload: Workload) -> PodSet | None:
    """Return the one pod set of a Job's Workload, or None if somebody made it otherwise."""
    pod_sets = workload.spec.pod_sets or ()
    return pod_sets[0] if len(pod_sets) == 1 and pod_sets[0].name == POD_SET else None


def admitted_count(workload: Workload) -> int | None:
    """Return how many pods the Workload has quota for, or None if it is all of them."""
    admission = workload.status.admission
    for assignment in (admission.pod_set_assignments or ()) if admission else ():
        if assignment.name == POD_SET and assignment.count is not None:
            return assignment.count
    return None


def reclaimable(job: batch.Job, workload: Workload) -> int:
    """Return how many pods of the Workload's count will never run again."""
    pod_set_ = pod_set(workload)
    if pod_set_ is None or parallelism(job) <= 1:
        return 0  # one pod at a time leaves nothing before the Job has ended
    completions = job.spec.completions
    # Without completions the Job is done when one pod has succeeded and the others have ended.
    total = parallelism(job) if completions is None else completions
    ended = _ended(job, total)
    if ended == 0:
        return 0
    left = max(0, total - ended)
    return pod_set_.count - min(pod_set_.count, left)


def _ended(job: batch.Job, total: int) -> int:
    """Return the number of completions for which no pod will run any more.

    Of an Indexed Job also those that have failed for good: their number is in no counter.
    """
    if job.spec.completion_mode != INDEXED:
        return job.status.succeeded
    texts = (job.status.completed_indexes, job.status.failed_indexes or "")
    return _count_indexes(texts, total)


def _count_indexes(texts: Iterable[str], below: int) -> int:
    """Return how many indexes under a limit are listed in at least one of the texts.

    A status lists them as ``1,3-5``. Source: kubernetes batch/v1 (JobStatus.completedIndexes,
    failedIndexes); kueue pkg/controller/jobs/job/job_controller.go (terminalIndexesCount).

    What cannot be read is left out: it frees no quota.
    """
    spans = sorted(span for text in texts for part in text.split(",") if (span := _span(part)))
    total, free = 0, 0
    for first, last in spans:
        start, end = max(first, free), min(last, below - 1)
        total += max(0, end - start + 1)
        free = max(free, end + 1)
    return total


def _span(text: str) -> tuple[int, int] | None:
    """Return first and last index of ``3`` or ``3-5``, or None for anything else."""
    first, dash, last = text.partition("-")
    numbers = (first, last if dash else first)
    if not all(_is_number(number) for number in numbers):
        return None
    return int(first), int(numbers[1])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def read(document: batch.JobDocument) -> batch.Job:
    """Return the parts of a Job that decisions depend on, with the digest of its pod template.

    Raises:
        msgspec.ValidationError: the spec is not a Job's.
    """
    return document.view(digest(document.template))


def build(
    job: batch.Job,
    document: batch.JobDocument,
    classes: PriorityClasses,
    copied: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the document of the Job's Workload.

    Args:
        job: the Job.
        document: the same, whole.
        classes: the priority classes that it may name.
        copied: keys of labels that the Workload takes over.

    Raises:
        MissingPriorityClassError: the Job names a class that does not exist.
    """
    metadata = job.metadata
    pod_set_ = _spec(job, document, classes)
    key = KIND.key_of(job)
    workload = workload_document(key, metadata, KIND.reference(metadata), copied, pod_set_)
    marks = {names.TEMPLATE_DIGEST: digest(document.template)}
    if is_elastic(job):
        marks[names.ELASTIC_JOB] = "true"
    workload["metadata"]["annotations"] = {**annotations(metadata), **marks}
    return workload


def _spec(job: batch.Job, document: batch.JobDocument, classes: PriorityClasses) -> dict[str, Any]:
    """Return the spec of its Workload; members that the Job says nothing about are absent."""
    content = _template(document.template)
    template: dict[str, Any] = {"spec": template_spec(content["spec"])}
    metadata = {field: content[field] for field in ("labels", "annotations") if field in content}
    if metadata:
        template["metadata"] = metadata
    pod_set_ = {"name": POD_SET, "count": count(job), "template": template}
    near = topology_request(content.get("annotations"), COMPLETION_INDEX)
    if near is not None:
        pod_set_["topologyRequest"] = near
    fewest = _fewest(job)
    if fewest is not None:
        pod_set_["minCount"] = fewest
    return {
        "queueName": job.metadata.label(names.QUEUE_LABEL),
        "podSets": [pod_set_],
        **_priority(job, classes),
        **time_limit(job.metadata),
    }


def _template(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests of the Job's template, without empty members."""
    metadata = template.get("metadata") or {}
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key not in SET_BY_JOB_CONTROLLER
    }
    pod = {
        field: value
        for field, value in (template.get("spec") or {}).items()
        if value or field not in _SCHEDULING
    }
    content = {"labels": labels, "annotations": metadata.get("annotations"), "spec": pod}
    return {field: value for field, value in content.items() if value or field == "spec"}


def _priority(job: batch.Job, classes: PriorityClasses) -> dict[str, Any]:
    """Return priority and source: WorkloadPriorityClass, PriorityClass, the default, or none."""
    labelled = labelled_priority(job.metadata, classes)
    if labelled:
        return labelled
    return pod_class_priority(job.spec.template.spec.priority_class_name or "", classes)


def has_other_count(job: batch.Job, workload: Workload) -> bool:
    """Return whether a Job runs with another number of pods than it may."""
    return count(job) != _expected_count(job, workload)


def _expected_count(job: batch.Job, workload: Workload) -> int:
    """Return how many pods the running Job may have: with partial admission, those admitted."""
    pod_set_ = pod_set(workload)
    if pod_set_ is None:
        return count(job)
    admitted = admitted_count(workload)
    partial = min_count(job) is not None and admitted is not None
    return admitted if partial and admitted is not None else pod_set_.count


def has_other_pods(job: batch.Job, workload: Workload) -> bool:
    """Return whether a Workload asks for other pods than its Job, or another number."""
    pod_set_ = pod_set(workload)
    if pod_set_ is None:
        return False
    was = workload.metadata.annotation(names.TEMPLATE_DIGEST)
    return (
        pod_set_.count != count(job)
        or pod_set_.min_count != _fewest(job)
        or bool(was and was != job.digest)
    )


def asks_otherwise(job: batch.Job, workload: Workload) -> bool:
    """Return whether a Workload asks for other pods than its Job, or in another queue."""
    if pod_set(workload) is None:
        return False
    is_elsewhere = workload.spec.queue_name != job.metadata.label(names.QUEUE_LABEL)
    return is_elsewhere or has_other_pods(job, workload)


def waits_otherwise(job: batch.Job, workload: Workload) -> bool:
    """Return whether time limit or admission gates of a Workload are not its Job's.

    One that was made for running pods waits in no queue, and must once its Job is suspended.
    """
    limit = workload.spec.maximum_execution_time_seconds
    return (
        limit != max_execution_seconds(job.metadata)
        or has_other_gates(job, workload)
        or workload.waits_to_be_charged()
    )


def adopt(
    job: batch.Job, document: batch.JobDocument, workload: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the changes with which a Workload becomes the Job's.

    From then on it is told by the digest of a pod template whether it stands for the Job: by
    that of the Job's where both ask for the same now, else by that of its own, which differs.

    Args:
        job: the Job.
        document: the same, whole.
        workload: the Workload, whole.
    """
    sets = workload["spec"].get("podSets") or [{}]
    template = sets[0].get("template") or {}
    own_pod_spec, spec = template.get("spec") or {}, document.template.get("spec") or {}
    started = is_injected(job) or not is_suspended(job)
    annotations = {}
    if not prebuilt.asks_alike(own_pod_spec, template_spec(spec), started=started):
        annotations = {names.TEMPLATE_DIGEST: digest(template)}
    elif not started:
        annotations = {names.TEMPLATE_DIGEST: job.digest}
    owner = KIND.reference(job.metadata)
    return prebuilt.adoption(workload, owner, job.metadata, annotations)


# -------------------------------------------------------------------------------- patches


def start(job: batch.Job, workload: Workload, injection_: Injection) -> patches.Patch:
    """Return the patch that lets the Job run, with the count that was admitted.

    Raises:
        InjectionConflictError: the template contradicts the injection.
    """
    job_template = job.spec.template
    added, changes = injection.into_template(injection_, job_template.metadata, job_template.spec)
    template: dict[str, Any] = {"metadata": added}
    if changes:
        template["spec"] = changes
    counts = _counts(job, admitted_count(workload))
    injected = _injected(job, added, changes, counts)
    annotations = {names.INJECTED: msgspec.json.encode(injected, order="deterministic").decode()}
    return _patch(
        job,
        {"spec": {"suspend": False, **counts, "template": template}},
        {"annotations": annotations},
    )


def stop(job: batch.Job) -> patches.Patch:
    """Return the patch that suspends the Job; its controller deletes the pods that run."""
    return _patch(job, {"spec": {"suspend": True}})


def reset(job: batch.Job) -> patches.Patch:
    """Return the patch of the status that forgets when the suspended Job started."""
    return _patch(job, {"status": {"startTime": None}})


def restore(job: batch.Job, workload: Workload | None) -> patches.Patch:
    """Return the patch that makes a suspended Job's template what it was before the start.

    The Job says what its admission gave it (ADR 0002). One that Kueue started does not: then its
    Workload tells what it was. Without either only the keys that tell of an admission go, and the
    selectors and tolerations of its flavors stay.
    """
    injected = _read_injected(job)
    if injected is not None:
        return _take_out(job, injected)
    pod_set_ = pod_set(workload) if workload is not None else None
    metadata = job.spec.template.metadata
    if pod_set_ is None:
        labels = dict.fromkeys(key for key in _OUR_LABELS if key in (metadata.labels or {}))
        marks = dict.fromkeys((names.WORKLOAD_ANNOTATION, names.ADMITTED_DEVICES))
        ours = {"labels": labels, "annotations": marks}
        return _patch(job, {"spec": {"template": {"metadata": ours}}})
    was = pod_set_.template
    job_template = {
        key: value
        for key, value in (metadata.labels or {}).items()
        if key not in SET_BY_JOB_CONTROLLER
    }
    changes = {
        "labels": _back(job_template, was.metadata.labels),
        "annotations": _back(metadata.annotations, was.metadata.annotations),
    }
    spec = {
        "nodeSelector": _back(job.spec.template.spec.node_selector, was.spec.node_selector),
        "tolerations": [injection.toleration_to_wire(t) for t in was.spec.tolerations or ()]
        or None,
    }
    counts = _counts(job, pod_set_.count)
    return _patch(job, {"spec": {**counts, "template": {"metadata": changes, "spec": spec}}})


class _InjectedJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an admission gave a Job, as an annotation of it.

    Attributes:
        labels: keys of the pod template's labels.
        annotations: keys of its annotations.
        node_selector: keys of its node selector.
        tolerations: those of the pods.
        preferred: nodes that the pods prefer.
        unaffine: the first member on the way to these that was absent before; empty for none.
        gates: names of scheduling gates of the pods.
        counts: parallelism and completions before partial admission; None where it was absent.
        suspended_since: since when the Job controller said that the Job was suspended.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    node_selector: tuple[str, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    preferred: tuple[dict[str, Any], ...] = ()
    unaffine: str = ""
    gates: tuple[str, ...] = ()
    counts: dict[str, int | None] = {}
    suspended_since: str = ""


_AS_INJECTED: Final = structs.converter(_InjectedJob)


def _injected(
    job: batch.Job,
    added: Mapping[str, Any],
    changes: Mapping[str, Any],
    counts: Iterable[str],
) -> _InjectedJob:
    spec = job.spec.template.spec
    present = len(spec.tolerations or ())
    gates = len(spec.scheduling_gates or ())
    preferred, unaffine = injection.preferred_by(changes, spec.affinity)
    before = {"parallelism": job.spec.parallelism, "completions": job.spec.completions}
    return _InjectedJob(
        labels=tuple(sorted(added["labels"])),
        annotations=tuple(sorted(added["annotations"])),
        node_selector=tuple(sorted(changes.get("nodeSelector", ()))),
        tolerations=tuple(changes.get("tolerations", [])[present:]),
        preferred=preferred,
        unaffine=unaffine,
        gates=tuple(gate["name"] for gate in changes.get("schedulingGates", [])[gates:]),
        counts={name: before[name] for name in counts},
        suspended_since=_suspended_since(job),
    )


def _read_injected(job: batch.Job) -> _InjectedJob | None:
    """Return what the admission added to a Job, or None if the Job does not record it."""
    try:
        return _AS_INJECTED(msgspec.json.decode(job.metadata.annotation(names.INJECTED)))
    except structs.UNREADABLE:
        return None


def _take_out(job: batch.Job, injected: _InjectedJob) -> patches.Patch:
    """Return the patch that takes out of a Job what an admission gave it."""
    template = job.spec.template
    injected_before = (
        ("labels", template.metadata.labels, injected.labels),
        ("annotations", template.metadata.annotations, injected.annotations),
    )
    metadata = {member: _without(present, keys) for member, present, keys in injected_before}
    kept = [
        injection.toleration_to_wire(toleration) for toleration in template.spec.tolerations or ()
    ]
    spec = {
        "nodeSelector": _without(template.spec.node_selector, injected.node_selector),
        "tolerations": [
            toleration for toleration in kept if toleration not in injected.tolerations
        ]
        or None,
        **injection.without_preferred(
            template.spec.affinity, injected.preferred, injected.unaffine
        ),
    }
    if injected.gates:
        gates = template.spec.scheduling_gates or ()
        gates_kept = [{"name": gate.name} for gate in gates if gate.name not in injected.gates]
        spec["schedulingGates"] = gates_kept or None
    changes = {"spec": {**injected.counts, "template": {"metadata": metadata, "spec": spec}}}
    return _patch(job, changes, {"annotations": {names.INJECTED: None}})


def _without(present: Mapping[str, str] | None, keys: Iterable[str]) -> dict[str, None]:
    """Return the members of a merge patch that remove keys."""
    return dict.fromkeys(key for key in keys if key in (present or {}))


def _counts(job: batch.Job, pods: int | None) -> dict[str, int]:
    """Return the counts of a Job that may run with fewer pods than it asks for."""
    if pods is None or min_count(job) is None:
        return {}
    counts = {"parallelism": pods} if pods != count(job) else {}
    if syncs_completions(job) and pods != job.spec.completions:
        counts["completions"] = pods
    return counts


def _back(
    present: Mapping[str, str] | None, desired: Mapping[str, str] | None
) -> dict[str, str | None]:
    """Return the members of a merge patch that turn what is found into what is wanted."""
    before, after = present or {}, desired or {}
    gone: dict[str, str | None] = dict.fromkeys(key for key in before if key not in after)
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def _patch(
    job: batch.Job, changes: dict[str, Any], metadata: Mapping[str, Any] | None = None
) -> patches.Patch:
    """Return a merge patch of exactly this version of the Job."""
    own_metadata = job.metadata
    precondition = {"resourceVersion": own_metadata.resource_version, "uid": own_metadata.uid}
    return patches.merge({"metadata": {**precondition, **(metadata or {})}, **changes})


INTEGRATION: Final = Integration(
    kind=KIND,
    document=batch.JobDocument,
    answer=batch.JobDocument,
    view=read,
    owner=JobOwner,
    build=build,
    adopt=adopt,
)
