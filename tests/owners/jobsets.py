"""A kind that only tests know: like a JobSet, it has a pod template for each replicated Job."""

from typing import Final

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation
from admission.objects import views
from admission.objects.reviewed_pod import Pod
from admission.objects.views import View
from admission.owners.framework import Kind
from admission.owners.review import HeldKind, Template

KIND: Final = Kind(
    api_version="jobset.x-k8s.io/v1alpha2",
    name="JobSet",
    label=names.QUEUE_LABEL,
    is_deleted_to_stop=False,
    has_condition=False,
)
_JOBS: Final = FieldPath.of("spec", "replicatedJobs")


class JobSpec(View, frozen=True, kw_only=True):
    parallelism: int = 1
    template: Pod = Pod()


class JobTemplate(View, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()


class ReplicatedJob(View, frozen=True, kw_only=True):
    name: str
    replicas: int = 1
    template: JobTemplate = JobTemplate()


class JobSetSpec(View, frozen=True, kw_only=True):
    suspend: bool | None = None
    replicated_jobs: tuple[ReplicatedJob, ...] = ()


class JobSet(views.Object, frozen=True, kw_only=True):
    spec: JobSetSpec = JobSetSpec()

    @property
    def kind(self) -> Kind:
        return KIND

    def is_held(self) -> bool:
        return self.spec.suspend is True

    def hold(self) -> tuple[Operation, ...]:
        return () if self.is_held() else ({"op": "add", "path": "/spec/suspend", "value": True},)

    def templates(self) -> tuple[Template, ...]:
        return tuple(
            Template(
                name=one.name,
                path=_JOBS.index(at).child("template").child("spec").child("template"),
                pod=one.template.spec.template,
                count=one.replicas * one.template.spec.parallelism,
                fewest=one.replicas * one.template.spec.parallelism,
            )
            for at, one in enumerate(self.spec.replicated_jobs)
        )

    def errors(self, old: "JobSet | None") -> list[FieldError]:
        if old is None or len(old.spec.replicated_jobs) == len(self.spec.replicated_jobs):
            return []
        return [fielderrors.forbidden(_JOBS, "field is immutable")]


HELD: Final = HeldKind(
    kind=KIND,
    plural="jobsets",
    document=JobSet,
    templates=("spec.replicatedJobs[*].template.spec.template",),
    pod_makers=frozenset(),
)
