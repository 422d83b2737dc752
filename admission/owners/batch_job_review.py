"""A batch/v1 Job under review: suspended as a whole, with one pod template.

Source: kueue pkg/controller/jobs/job/job_webhook.go.
"""

from typing import Final

from admission.base import fielderrors, names, syntax
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation
from admission.objects import batch, views
from admission.objects.reviewed_pod import ReviewedPod
from admission.owners import batch_job, review
from admission.owners.framework import Kind
from admission.owners.review import HeldKind, Template

MIN_PATH: Final = FieldPath.of("metadata", "annotations").key(names.JOB_MIN_PARALLELISM)
SYNC_PATH: Final = FieldPath.of("metadata", "annotations").key(names.JOB_SYNC_COMPLETIONS)

NOT_BOTH: Final = "partial admission and elastic job cannot be used together"

_TEMPLATE: Final = FieldPath.of("spec", "template")
_SUSPEND: Final[Operation] = {"op": "add", "path": "/spec/suspend", "value": True}
_FAILED: Final = "Failed"
_REPLACE_ENDED: Final[Operation] = {
    "op": "add",
    "path": "/spec/podReplacementPolicy",
    "value": _FAILED,
}


class ReviewedJobSpec(batch.JobRun, frozen=True, kw_only=True):
    """Spec of a Job under review."""

    template: ReviewedPod = ReviewedPod()
    pod_replacement_policy: str | None = None


class ReviewedJob(views.Object, frozen=True, kw_only=True):
    """batch/v1 Job under review."""

    spec: ReviewedJobSpec = ReviewedJobSpec()

    @property
    def kind(self) -> Kind:
        """The kind it is of."""
        return batch_job.KIND

    def is_held(self) -> bool:
        """Return whether it is suspended."""
        return batch_job.is_suspended(self)

    def hold(self) -> tuple[Operation, ...]:
        """Return the operations that suspend it, and have it replace only pods that have ended.

        Else a new pod would run beside one that is still ending, and both were admitted once
        (ADR 0040). The pods of an elastic Job get a gate: so it may grow while it runs.
        """
        suspends = () if self.is_held() else (_SUSPEND,)
        replaces = () if self.spec.pod_replacement_policy == _FAILED else (_REPLACE_ENDED,)
        return (*suspends, *replaces, *self._gates())

    def _gates(self) -> tuple[Operation, ...]:
        """Return the operations that give the pods of an elastic Job the gate of their slice."""
        if not review.is_elastic(self.metadata):
            return ()
        return tuple(review.elastic_gate(self.spec.template, _TEMPLATE.pointer()))

    def spread(self, queue: str) -> tuple[Operation, ...]:  # noqa: ARG002
        """Return nothing: all its pods are counted with it."""
        return ()

    def templates(self) -> tuple[Template, ...]:
        """Return its one pod template."""
        count = batch_job.count(self)
        template = Template(
            name=batch_job.POD_SET,
            path=_TEMPLATE,
            pod=self.spec.template,
            count=count,
            fewest=_fewest(self, count),
        )
        return (template,)

    def remakes(self, old: "ReviewedJob") -> None:
        """Return None: its pods are made of the one template."""

    def errors(self, old: "ReviewedJob | None") -> list[FieldError]:
        """Return the broken rules of elastic Jobs, partial admission and synced completions."""
        return [
            *_completions(self),
            *review.elastic_errors(old, self),
            *_whole(self),
            *(_least(self) if old is None else _changes(old, self)),
        ]


HELD: Final = HeldKind(
    kind=batch_job.KIND,
    document=ReviewedJob,
    templates=(_TEMPLATE.text,),
    makers=frozenset(
        {"system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"}
    ),
    framework="batch/job",
    holds_children=True,
)


def _least(job: ReviewedJob) -> list[FieldError]:
    """Partial admission: a number of pods below the whole."""
    annotations = job.metadata.annotations or {}
    if names.JOB_MIN_PARALLELISM not in annotations:
        return []
    text = annotations[names.JOB_MIN_PARALLELISM]
    number = syntax.parse_integer(text)
    if isinstance(number, str):
        return [fielderrors.invalid(MIN_PATH, text, number)]
    count = batch_job.count(job)
    if 0 < number < count:
        return []
    return [fielderrors.invalid(MIN_PATH, number, f"should be between 0 and {count - 1}")]


def _whole(job: ReviewedJob) -> list[FieldError]:
    """Return the error of an elastic Job with partial admission."""
    is_partial = names.JOB_MIN_PARALLELISM in (job.metadata.annotations or {})
    is_both = is_partial and review.is_elastic(job.metadata)
    return [fielderrors.forbidden(MIN_PATH, NOT_BOTH)] if is_both else []


def _fewest(job: ReviewedJob, count: int) -> int:
    text = job.metadata.annotation(names.JOB_MIN_PARALLELISM)
    number = syntax.parse_integer(text) if text else count
    return count if isinstance(number, str) or not 0 < number < count else number


def _completions(job: ReviewedJob) -> list[FieldError]:
    """Completions that follow the parallelism: of Indexed Jobs, where both are equal."""
    text = (job.metadata.annotations or {}).get(names.JOB_SYNC_COMPLETIONS)
    syncs = False if text is None else syntax.parse_boolean(text)
    if isinstance(syncs, str):
        return [fielderrors.invalid(SYNC_PATH, text, syncs)]
    if not syncs:
        return []
    errors = []
    if job.spec.completion_mode != batch_job.INDEXED:
        rule = "should not be enabled for NonIndexed jobs"
        errors.append(fielderrors.invalid(SYNC_PATH, text, rule))
    completions = job.spec.completions
    if batch_job.parallelism(job) != (1 if completions is None else completions):
        rule = f"should be equal to parallelism when {names.JOB_SYNC_COMPLETIONS} is annotation"
        path = FieldPath.of("spec", "completions")
        errors.append(fielderrors.invalid(path, completions, f"{rule} is true"))
    return errors


def _changes(old: ReviewedJob, new: ReviewedJob) -> list[FieldError]:
    """Return the errors of changes that partial admission forbids."""
    before, after = (job.metadata.annotation(names.JOB_MIN_PARALLELISM) for job in (old, new))
    errors = _least(new) if before != after else []
    partial = names.JOB_MIN_PARALLELISM in (old.metadata.annotations or {})
    resized = batch_job.parallelism(old) != batch_job.parallelism(new)
    if partial and not old.is_held() and resized:
        rule = "cannot change when partial admission is enabled and the job is not suspended"
        errors.append(fielderrors.forbidden(FieldPath.of("spec", "parallelism"), rule))
    runs = not old.is_held() and not new.is_held()
    if runs and batch_job.syncs_completions(old) != batch_job.syncs_completions(new):
        rule = "field is immutable while the job is not suspended"
        errors.append(fielderrors.forbidden(SYNC_PATH, rule))
    return errors
