"""What a review of a batch/v1 Job decides: how it is changed, and whether it may exist.

A Job with a queue is held as a whole: it is created suspended, and its pod template asks for GPUs
in the names of its queue, because pods of a started Job are not reviewed for that again. Source:
kueue pkg/controller/jobs/job/job_webhook.go and pkg/controller/jobframework/validation.go.
Differs: a Job without GPUs never goes to the default queue, and one whose template names a queue
leaves it to its pods (ADR 0040).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from admission.api import views
from admission.api.views import View
from admission.base import fielderrors, names, syntax
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import limit_range
from admission.objects.limit_range import LimitRange
from admission.objects.reviewed_pod import Pod, PodSpec
from admission.policy import (
    hints,
    limiting,
    metadata_rules,
    pods,
    queueing,
    requests,
    rewriting,
    topology,
    unserved,
)
from admission.policy.knowledge import Context, Knowledge, Rules
from admission.policy.pods import Outcome
from admission.policy.queueing import Placement, Standing

MIN_PATH: Final = metadata_rules.ANNOTATIONS.key(names.JOB_MIN_PARALLELISM)
SYNC_PATH: Final = metadata_rules.ANNOTATIONS.key(names.JOB_SYNC_COMPLETIONS)
_ADMITTED_PATH: Final = FieldPath.of("metadata", "annotations").key(names.WORKLOAD_ANNOTATION)
_TEMPLATE: Final = "/spec/template"
_OF_ADMISSION: Final = frozenset(
    {
        names.WORKLOAD_ANNOTATION,
        names.PODSET_LABEL,
        names.LOCAL_QUEUE_NAME_LABEL,
        names.CLUSTER_QUEUE_NAME_LABEL,
    }
)
_INDEXED: Final = "Indexed"
_TRUE: Final = frozenset(["1", "t", "T", "true", "TRUE", "True"])
_FALSE: Final = frozenset(["0", "f", "F", "false", "FALSE", "False"])


class JobSpec(View, frozen=True, kw_only=True):
    """Spec of a Job under review; the template reads as the pods that it makes."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: Pod = Pod()


class Job(views.Object, frozen=True, kw_only=True):
    """batch/v1 Job under review."""

    spec: JobSpec = JobSpec()

    @property
    def is_suspended(self) -> bool:
        """Whether it is to have no pods."""
        return self.spec.suspend is True

    @property
    def parallelism(self) -> int:
        """How many pods may run at a time."""
        return 1 if self.spec.parallelism is None else self.spec.parallelism

    @property
    def count(self) -> int:
        """How many pods run at a time at most."""
        completions = self.spec.completions
        return self.parallelism if completions is None else min(self.parallelism, completions)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A pod template as its queue wants it, or why it cannot be."""

    operations: tuple[Operation, ...] = ()
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def place(job: Job, context: Context, rules: Rules, knowledge: Knowledge) -> Placement:
    """Where a Job that is being created belongs."""
    template = job.spec.template
    wants = requests.managed_names(template, rules.managed)
    queue = job.metadata.label(names.QUEUE_LABEL)
    if queueing.is_left_out(context.namespace, rules, knowledge):
        queue = ""
    elif not queue and _leaves_it_to_us(template, wants):
        if queueing.has_default_queue(context.namespace, knowledge):
            queue = names.DEFAULT_LOCAL_QUEUE
        elif wants and queueing.is_enforced(context.namespace, knowledge):
            return Placement(standing=Standing.REFUSED, wants=wants)
        elif rules.namespaces.queue_required:
            return Placement(standing=Standing.IN_DOUBT, wants=wants)
    standing = Standing.QUEUED if queue else Standing.FREE
    return Placement(standing=standing, queue=queue, wants=wants)


def mutate(job: Job, context: Context, rules: Rules, knowledge: Knowledge) -> Outcome:
    """Prepares a Job that is being created: queue, suspension, GPU resource names.

    Doing it twice equals doing it once, so the API server may ask again.
    """
    placement = place(job, context, rules, knowledge)
    if placement.standing is Standing.REFUSED:
        error = _refusal(placement, context, knowledge)
        return Outcome(standing=placement.standing, errors=(error,))
    if not placement.queue:
        return _without_queue(job, placement, context, rules, knowledge)
    prepared = _prepare(job, placement, context, rules, knowledge)
    if prepared.errors:
        errors = fielderrors.in_order(_in_template(error) for error in prepared.errors)
        return Outcome(standing=placement.standing, errors=errors, warnings=prepared.warnings)
    patch = PatchBuilder()
    patch.merge("/metadata/labels", job.metadata.labels, _labels(job, placement, knowledge))
    if not job.is_suspended:
        patch.put("/spec/suspend", value=True)
    return Outcome(
        standing=placement.standing,
        operations=(*_unadmitted(job), *patch.operations(), *prepared.operations),
        warnings=prepared.warnings,
    )


def validate(old: Job | None, new: Job, context: Context, knowledge: Knowledge) -> Outcome:
    """Judges a Job as it would be stored.

    Args:
        old: as stored so far; None when it is being created.
        new: as it would be stored, after every mutation.
        context: what the review says besides the objects.
        knowledge: what was last seen of the cluster.
    """
    errors = [
        *metadata_rules.create_errors(_as_pod(new)),
        *(_in_template(e) for e in topology.errors(new.spec.template.metadata.annotations or {})),
        *_completions(new),
        *_admission(old, new),
    ]
    warnings: tuple[str, ...] = ()
    if old is None:
        errors += _least(new)
        if new.metadata.label(names.QUEUE_LABEL):
            errors += (_in_template(error) for error in unserved.errors(new.spec.template))
            warnings = tuple(
                f"spec.template.{text}" if text.startswith("metadata") else text
                for text in unserved.warnings(new.spec.template)
            )
    else:
        has_default = queueing.has_default_queue(context.namespace, knowledge)
        errors += metadata_rules.update_errors(
            _as_pod(old), _as_pod(new), has_default_queue=has_default
        )
        errors += _changes(old, new)
    return Outcome(standing=Standing.FREE, errors=fielderrors.in_order(errors), warnings=warnings)


# ------------------------------------------------------------------------------------- preparing


def _without_queue(
    job: Job, placement: Placement, context: Context, rules: Rules, knowledge: Knowledge
) -> Outcome:
    """A Job that is left alone, or suspended for its parent or until somebody gives it a queue."""
    patch = PatchBuilder()
    if placement.standing is not Standing.IN_DOUBT:
        left_out = queueing.is_left_out(context.namespace, rules, knowledge)
        if is_child(job) and not left_out:
            is_held = not job.is_suspended or job.metadata.label(names.HELD_WITH_PARENT) == "true"
            label = {names.HELD_WITH_PARENT: "true" if is_held else "false"}
            patch.merge("/metadata/labels", job.metadata.labels, label)
            if not job.is_suspended:
                patch.put("/spec/suspend", value=True)
        return Outcome(
            standing=placement.standing,
            operations=(*_unadmitted(job), *patch.operations()),
        )
    if not job.is_suspended:
        patch.put("/spec/suspend", value=True)
    wants, queues = ", ".join(placement.wants), queueing.advice(context, knowledge)
    waits = f"the Job stays suspended until its label {names.QUEUE_LABEL} names {queues}"
    return Outcome(
        standing=placement.standing,
        operations=(*_unadmitted(job), *patch.operations()),
        warnings=(f"its pods ask for {wants}: {waits}",),
    )


def is_child(job: Job) -> bool:
    """Return whether a Job says that another Job controls it.

    Whether that Job exists and has a queue, the controller finds out.
    """
    owner = job.metadata.controller()
    return owner is not None and (owner.api_version, owner.kind) == ("batch/v1", "Job")


def _leaves_it_to_us(template: Pod, wants: tuple[str, ...]) -> bool:
    """Whether the pods ask for devices by name and name no queue of their own.

    Pods that ask by claim alone are looked at one by one: only then it is known for what.
    """
    return bool(wants) and not template.metadata.label(names.QUEUE_LABEL)


def _labels(job: Job, placement: Placement, knowledge: Knowledge) -> dict[str, str]:
    labels = {names.QUEUE_LABEL: placement.queue}
    is_default = knowledge.workload_priority_class(pods.DEFAULT_PRIORITY_CLASS) is not None
    if is_default and not job.metadata.label(names.PRIORITY_CLASS_LABEL):
        labels[names.PRIORITY_CLASS_LABEL] = pods.DEFAULT_PRIORITY_CLASS
    return labels


def _refusal(placement: Placement, context: Context, knowledge: Knowledge) -> FieldError:
    advice = queueing.advice(context, knowledge)
    where = f"namespace {context.namespace} ({names.ENFORCE_LABEL}=true)"
    rule = f"its pods ask for {', '.join(placement.wants)}, so in {where} it must name {advice}"
    return fielderrors.required(metadata_rules.QUEUE_PATH, rule)


def _unadmitted(job: Job) -> Iterable[Operation]:
    """A new Job was never admitted, whatever it was copied from."""
    found = job.spec.template.metadata
    if names.WORKLOAD_ANNOTATION not in (found.annotations or {}):
        return
    for field, present in (("labels", found.labels), ("annotations", found.annotations)):
        patch = PatchBuilder()
        kept = {key: value for key, value in (present or {}).items() if key not in _OF_ADMISSION}
        patch.become(f"{_TEMPLATE}/metadata/{field}", present, kept)
        yield from patch.operations()


def _prepare(
    job: Job, placement: Placement, context: Context, rules: Rules, knowledge: Knowledge
) -> _Prepared:
    template = job.spec.template
    errors = tuple(requests.too_many(template) or requests.errors(template, rules.managed))
    if errors:
        return _Prepared(errors=errors)
    ranges = limit_range.read(knowledge.limit_ranges(context.namespace))
    rewritten = rewriting.rewrite(template, placement.queue, context, rules, knowledge, ranges)
    if rewritten.errors:
        return _Prepared(errors=rewritten.errors)
    verdict = limiting.judge(
        _filled(template, ranges),
        replace(rewritten, pod=_filled(rewritten.pod, ranges)),
        ranges,
        knowledge.resource_quotas(context.namespace),
        rules.catalogue,
    )
    warnings = (
        *rewritten.warnings,
        *verdict.warnings,
        *hints.held(rewritten.pod, placement, context, knowledge, _fewest(job)),
    )
    if verdict.errors:
        return _Prepared(errors=verdict.errors, warnings=verdict.warnings)
    patch = PatchBuilder()
    metadata, spec = template.metadata, template.spec
    patch.merge("/metadata/annotations", metadata.annotations, rewritten.annotations)
    tolerations = pods.missing_tolerations(spec, placement, rules)
    wire = [pods.toleration_to_wire(item) for item in tolerations]
    patch.append("/spec/tolerations", spec.tolerations, wire)
    rewriting.add_operations(patch, rewritten)
    operations = tuple(_at_template(one) for one in patch.operations())
    return _Prepared(operations=operations, warnings=warnings)


def _filled(template: Pod, ranges: Sequence[LimitRange]) -> Pod:
    """The pod as LimitRanger will make it: a template gets no defaults before its pods do."""
    if not ranges:
        return template
    filled, _ = limit_range.fill_all(limiting.as_limit_ranger_sees(template), ranges)
    stated = {
        one.name: views.ResourceRequirements(
            requests={name: amount.text for name, amount in one.requests.items()},
            limits={name: amount.text for name, amount in one.limits.items()},
        )
        for one in filled.containers
    }
    return rewriting.with_resources(template, stated)


def _at_template(operation: Operation) -> Operation:
    return {**operation, "path": f"{_TEMPLATE}{operation['path']}"}


def _in_template(error: FieldError) -> FieldError:
    """An error of a pod, at its place in the Job."""
    base = FieldPath.of("spec", "template")
    path = FieldPath(f"{base.text}.{error.path.text}", (*base.order, *error.path.order))
    return replace(error, path=path)


# --------------------------------------------------------------------------------------- judging


def _as_pod(job: Job) -> Pod:
    """The Job's metadata as those of a pod that is held back as long as the Job is suspended."""
    gates = (views.SchedulingGate(name=names.ADMISSION_GATE),) if job.is_suspended else ()
    annotations = {
        key: value
        for key, value in (job.metadata.annotations or {}).items()
        if key != names.ELASTIC_JOB and key not in topology.KEYS
    }
    metadata = msgspec.structs.replace(job.metadata, annotations=annotations)
    return Pod(metadata=metadata, spec=PodSpec(scheduling_gates=gates))


def _least(job: Job) -> list[FieldError]:
    """Partial admission: a number of pods below the whole."""
    annotations = job.metadata.annotations or {}
    if names.JOB_MIN_PARALLELISM not in annotations:
        return []
    text = annotations[names.JOB_MIN_PARALLELISM]
    number = syntax.parse_integer(text)
    if isinstance(number, str):
        return [fielderrors.invalid(MIN_PATH, text, number)]
    if 0 < number < job.count:
        return []
    return [fielderrors.invalid(MIN_PATH, number, f"should be between 0 and {job.count - 1}")]


def _fewest(job: Job) -> int:
    """The fewest pods with which the Job may be admitted."""
    text = job.metadata.annotation(names.JOB_MIN_PARALLELISM)
    number = syntax.parse_integer(text) if text else job.count
    return job.count if isinstance(number, str) or not 0 < number < job.count else number


def _completions(job: Job) -> list[FieldError]:
    """Completions that follow the parallelism: of Indexed Jobs, where both are equal."""
    annotations = job.metadata.annotations or {}
    text = annotations.get(names.JOB_SYNC_COMPLETIONS)
    if text is None or text in _FALSE:
        return []
    if text not in _TRUE:
        rule = f'strconv.ParseBool: parsing "{text}": invalid syntax'
        return [fielderrors.invalid(SYNC_PATH, text, rule)]
    errors = []
    if job.spec.completion_mode != _INDEXED:
        rule = "should not be enabled for NonIndexed jobs"
        errors.append(fielderrors.invalid(SYNC_PATH, text, rule))
    completions = job.spec.completions
    if job.parallelism != (1 if completions is None else completions):
        rule = f"should be equal to parallelism when {names.JOB_SYNC_COMPLETIONS} is annotation"
        path = FieldPath.of("spec", "completions")
        errors.append(fielderrors.invalid(path, completions, f"{rule} is true"))
    return errors


def _changes(old: Job, new: Job) -> list[FieldError]:
    """What of partial admission may not change, and when."""
    before, after = (job.metadata.annotation(names.JOB_MIN_PARALLELISM) for job in (old, new))
    errors = _least(new) if before != after else []
    partial = names.JOB_MIN_PARALLELISM in (old.metadata.annotations or {})
    if partial and not old.is_suspended and old.parallelism != new.parallelism:
        rule = "cannot change when partial admission is enabled and the job is not suspended"
        errors.append(fielderrors.forbidden(FieldPath.of("spec", "parallelism"), rule))
    runs = not old.is_suspended and not new.is_suspended
    if runs and _syncs(old) != _syncs(new):
        rule = "field is immutable while the job is not suspended"
        errors.append(fielderrors.forbidden(SYNC_PATH, rule))
    return errors


def _syncs(job: Job) -> bool:
    return job.metadata.annotation(names.JOB_SYNC_COMPLETIONS) in _TRUE


def _admission(old: Job | None, new: Job) -> list[FieldError]:
    """Pods with this mark pass without a gate, so only a Job in a queue may give it to them.

    The controller suspends a Job in a queue that runs without having been admitted.
    """
    mark = new.spec.template.metadata.annotation(names.WORKLOAD_ANNOTATION)
    if not mark:
        return []
    rule = "is set when the Job is admitted: leave it out"
    error = _in_template(fielderrors.forbidden(_ADMITTED_PATH, rule))
    if old is None:
        return [error]
    if new.metadata.label(names.QUEUE_LABEL):
        return []
    kept = old.spec.template.metadata.annotation(names.WORKLOAD_ANNOTATION) == mark
    was_free = not old.metadata.label(names.QUEUE_LABEL)
    starts = old.is_suspended and not new.is_suspended
    return [] if kept and was_free and not starts else [error]
