"""The parts of batch/v1 Jobs that the controller reads, as immutable structs."""

from typing import Any, Final

import msgspec

from admission.base import structs
from admission.objects import views
from admission.objects.views import View
from admission.objects.workload import PodTemplate


class JobRun(View, frozen=True, kw_only=True):
    """Spec of a Job without its template; the API server sets parallelism to 1 if it is absent."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None


class JobSpec(JobRun, frozen=True, kw_only=True):
    """Spec of a Job as the controller reads it."""

    template: PodTemplate = PodTemplate()


class UncountedPods(View, frozen=True, kw_only=True):
    """UIDs of pods that have ended and are not in the status' numbers yet."""

    succeeded: tuple[str, ...] | None = None


class JobStatus(View, frozen=True, kw_only=True):
    """How many pods run, are ready and ended, and how the Job ended.

    Attributes:
        active: pods that run or start.
        ready: of those, pods that are ready.
        succeeded: pods that have succeeded.
        uncounted_terminated_pods: pods that have ended and are not counted yet.
        completed_indexes: of an Indexed Job, such as ``1,3-5``.
        failed_indexes: those that are not tried again, likewise.
        start_time: when its pods began; absent while it is suspended and nothing is left of them.
        conditions: tell how it ended.
    """

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    uncounted_terminated_pods: UncountedPods | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    start_time: str | None = None
    conditions: tuple[views.PodCondition, ...] | None = None


class Job(views.Object, frozen=True, kw_only=True):
    """batch/v1 Job.

    Attributes:
        digest: tells two pod templates apart; set by whoever had the whole template at hand.
    """

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
    digest: str = ""


_AS_JOB_SPEC: Final = structs.converter(JobSpec)


class JobDocument(views.Object, frozen=True, kw_only=True):
    """batch/v1 Job with its spec whole, for whoever copies the pod template."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: JobStatus = JobStatus()

    @property
    def template(self) -> dict[str, Any]:
        """The pod template as stored."""
        template: dict[str, Any] = self.spec.get("template") or {}
        return template

    def view(self, digest: str = "") -> Job:
        """The parts that decisions depend on.

        Raises:
            msgspec.ValidationError: the spec is not a Job's.
        """
        spec = _AS_JOB_SPEC(self.spec)
        return Job(metadata=self.metadata, spec=spec, status=self.status, digest=digest)
