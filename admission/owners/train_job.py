"""TrainJobs: their pod templates stand in the JobSet that Kubeflow's trainer makes of a runtime.

The trainer makes the JobSet of a suspended TrainJob, too, from the runtime and from what the
TrainJob says in its place; so the pod sets are those of the JobSet. What an admission gives is a
patch of the runtime in the TrainJob. See ADR 0149.
Source: kueue pkg/controller/jobs/trainjob; kubeflow trainer pkg/apis/trainer/v1alpha1,
pkg/runtime/core (trainingruntime.go) and pkg/runtime/framework/plugins/jobset.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import msgspec
from typing_extensions import override

from admission.base import names, patches
from admission.base.conditions import Text
from admission.base.fielderrors import FieldPath
from admission.base.patches import Operation
from admission.kube import resources
from admission.objects import owner_rows as rows
from admission.objects import pod_templates, reviewed_pod, views
from admission.objects.owner_rows import Row
from admission.objects.workload import Workload
from admission.owners import injection, review, row_owner, row_review
from admission.owners.framework import Delegates, Integration, Kind, Prepares, Secondary
from admission.owners.injection import Injection
from admission.owners.review import Beside, HeldKind, Template
from admission.owners.row_owner import OwnerPodSet, RowOwner, RowView
from admission.reasons import added_conditions

KIND: Final[Kind] = row_owner.kind_of(rows.TRAIN_JOB)
_PATCHES: Final = FieldPath.of("spec", "runtimePatches")
_JOBS: Final = "replicatedJobs[*]"
_REPLICATED_JOBS: Final = "trainingRuntimeSpec.template.spec.replicatedJobs[*]"
_TRAINER: Final = FieldPath.of("spec", "trainer")
_QUANTITIES: Final = ("resourcesPerNode.requests", "resourcesPerNode.limits")
_MARK: Final = "template.spec.template.metadata.annotations"


class TrainJobDocument(row_owner.RowDocument, frozen=True, kw_only=True):
    """A TrainJob whole, as it was watched, with the spec of its JobSet.

    Attributes:
        made: the spec of the JobSet; None while it was not seen.
        is_behind: whether the trainer has yet to suspend the JobSet, or to take out of it what was
            taken out of the TrainJob.
        is_unknown: whether what its pods ask for is not known until what an admission gave is
            taken out.
    """

    made: dict[str, Any] | None = msgspec.field(name=names.MADE_FOR, default=None)
    is_behind: bool = False
    is_unknown: bool = False

    @property
    @override
    def content(self) -> dict[str, Any]:
        name = {"name": self.metadata.name}
        return {"metadata": name, "spec": self.spec, "status": self.status, "made": self.made}


# ------------------------------------------------------------------------ what stands in its spec


def _own_patch(spec: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    """Return the patch of the runtime that is ours, and its place among the others."""
    for at, patch_ in enumerate(spec.get("runtimePatches") or ()):
        if isinstance(patch_, dict) and patch_.get("manager") == names.RUNTIME_PATCH_MANAGER:
            return at, patch_
    return None


def _patch_giving(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the patch of the runtime that is ours: what it gives to each replicated Job."""
    metadata = {"labels": {names.MADE_FOR: KIND.name}}
    template = {"metadata": metadata, "spec": {"replicatedJobs": jobs} if jobs else {}}
    return {
        "manager": names.RUNTIME_PATCH_MANAGER,
        "trainingRuntimeSpec": {"template": template},
    }


def _with_patch(spec: Mapping[str, Any], jobs: list[dict[str, Any]]) -> Operation:
    """Return the operation that sets our patch: what it gives to each replicated Job."""
    listed, patch_found = list(spec.get("runtimePatches") or ()), _own_patch(spec)
    if patch_found is None:
        listed.append(_patch_giving(jobs))
    else:
        listed[patch_found[0]] = _patch_giving(jobs)
    return {"op": "add", "path": _PATCHES.pointer(), "value": listed}


def _has_patch(spec: Mapping[str, Any], jobs: list[dict[str, Any]]) -> bool:
    """Return whether our patch stands there and gives this, and nothing else."""
    patch_found = _own_patch(spec)
    if patch_found is None:
        return False
    present = {member: value for member, value in patch_found[1].items() if member != "time"}
    return bool(_filled(present) == _filled(_patch_giving(jobs)))


def _filled(value: Any) -> Any:
    """Return a value without its empty members: the trainer stores it without them."""
    if isinstance(value, Mapping):
        members = {member: _filled(inner) for member, inner in value.items()}
        return {member: inner for member, inner in members.items() if inner not in _EMPTY}
    if isinstance(value, list):
        return [_filled(inner) for inner in value]
    return value


_EMPTY: Final[tuple[Any, ...]] = (None, {}, [], "")


def _labels(spec: Mapping[str, Any]) -> bool:
    """Return whether our patch gives the JobSet the label by which we see it."""
    patch_found = _own_patch(spec)
    labels = patch_found and rows.value_at(
        patch_found[1], "trainingRuntimeSpec.template.metadata.labels"
    )
    return names.MADE_FOR in (labels or {})


def _given(spec: Mapping[str, Any]) -> dict[str, rows.Given]:
    """Return what an admission gives to each replicated Job, by its name."""
    patch_found = _own_patch(spec)
    if patch_found is None:
        return {}
    at, patch = patch_found
    given_by_name = {}
    for member_ in rows.find(patch, _REPLICATED_JOBS):
        metadata, pod = (
            rows.value_at(member_.value, f"template.spec.template.{member}") or {}
            for member in ("metadata", "spec")
        )
        value = {
            "labels": metadata.get("labels") or {},
            "annotations": metadata.get("annotations") or {},
            "nodeSelector": pod.get("nodeSelector") or {},
            "tolerations": pod.get("tolerations") or [],
            "schedulingGates": pod.get("schedulingGates") or [],
        }
        given_by_name[str(member_.value.get("name"))] = rows.Given(_PATCHES, at, value)
    return given_by_name


# ---------------------------------------------------------------------------- what the JobSet says


class JobSet(views.Object, frozen=True, kw_only=True):
    """The JobSet that the trainer has made of a TrainJob.

    Attributes:
        spec: as last seen.
        plain: as last seen before an admission added anything; None if not seen.
    """

    spec: dict[str, Any]
    plain: dict[str, Any] | None


def _job_set(document_: row_owner.RowDocument, before: JobSet | None) -> JobSet:
    """Return what is read of a JobSet, after what was read of it or of the one before it."""
    spec = document_.spec
    plain_before = None if before is None else before.plain
    plain = plain_before if _is_marked(spec) else _without_kept(spec)
    return JobSet(metadata=document_.metadata, spec=spec, plain=plain)


def _joined(
    owner: row_owner.RowDocument | RowView, job_sets: tuple[JobSet, ...]
) -> TrainJobDocument:
    """Return a TrainJob with the JobSet that was made of it.

    While it is suspended, the JobSet as it was before an admission added anything counts.
    """
    document = row_owner.document_of(owner)
    assert isinstance(document, TrainJobDocument)
    for job_set in job_sets:
        given_by_name, plain = _given(document.spec), job_set.plain
        is_suspended = document.spec.get("suspend") is True
        is_marked = is_suspended and _is_marked(job_set.spec)
        is_unknown = is_marked and (
            plain is None or not _are_alike(job_set.spec, plain, given_by_name)
        )
        is_restored = is_marked and not _gives_mark(given_by_name)
        document = msgspec.structs.replace(
            document,
            made=plain if is_suspended and plain is not None else job_set.spec,
            is_behind=is_restored or (is_suspended and job_set.spec.get("suspend") is not True),
            is_unknown=is_unknown,
        )
    return document


def _gives_mark(given_by_name: Mapping[str, rows.Given]) -> bool:
    """Return whether what our patch gives is that of an admission."""
    return any(
        names.WORKLOAD_ANNOTATION in additions.value["annotations"]
        for additions in given_by_name.values()
    )


def _are_alike(
    marked: Mapping[str, Any], plain: Mapping[str, Any], given_by_name: Mapping[str, rows.Given]
) -> bool:
    """Return whether a JobSet is what it was before an admission with what our patch gives."""
    before, now = (
        [member_.value for member_ in rows.find(spec, _JOBS)] for spec in (plain, marked)
    )
    expected = [
        _with_given(job, given_by_name.get(str(job.get("name")).lower())) for job in before
    ]
    return bool(_filled(expected) == _filled([_with_given(job, None) for job in now]))


def _with_given(job: Mapping[str, Any], additions: rows.Given | None) -> dict[str, Any]:
    """Return a replicated Job with what our patch gives it, as the trainer merges both."""
    value = {} if additions is None else additions.value
    job_template = job.get("template") or {}
    job_spec = job_template.get("spec") or {}
    template = job_spec.get("template") or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    gates = [*(spec.get("schedulingGates") or ()), *(value.get("schedulingGates") or ())]
    pods = {
        "metadata": {
            **metadata,
            **{
                member: {**(metadata.get(member) or {}), **(value.get(member) or {})}
                for member in ("labels", "annotations")
            },
        },
        "spec": {
            **spec,
            "nodeSelector": {
                **(spec.get("nodeSelector") or {}),
                **(value.get("nodeSelector") or {}),
            },
            "tolerations": value.get("tolerations") or spec.get("tolerations"),
            "schedulingGates": sorted({str(gate.get("name")) for gate in gates}),
        },
    }
    return {**job, "template": {**job_template, "spec": {**job_spec, "template": pods}}}


def _without_kept(job_set: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a JobSet without the annotation of pods that a restore leaves."""
    if not any(names.MADE_FOR in member_.value for member_ in _marks(job_set)):
        return job_set
    copied: dict[str, Any] = copy.deepcopy(job_set)
    for member_ in _marks(copied):
        member_.value.pop(names.MADE_FOR, None)
    return copied


def _marks(job_set: Mapping[str, Any]) -> Iterator[rows.Member]:
    """Yield the annotations of the pod templates of a JobSet."""
    return rows.find(job_set, f"{_JOBS}.{_MARK}")


def _is_marked(job_set: Mapping[str, Any]) -> bool:
    """Return whether the spec of a JobSet has what an admission gave."""
    return any(names.WORKLOAD_ANNOTATION in member_.value for member_ in _marks(job_set))


def read(row: Row, document_: TrainJobDocument | RowView) -> RowView:
    """Return what decisions depend on of a TrainJob; without its JobSet it has no pod sets.

    Raises:
        msgspec.ValidationError: the JobSet does not have what the row says.
    """
    if isinstance(document_, RowView):
        return document_
    content, given_back = document_.content, _given(document_.spec)
    nothing = rows.Given(_PATCHES, 0, {})
    return row_owner.held(
        document_,
        (
            row_owner.asked_at(
                content,
                replace(listed, given=given_back.get(row_owner.name_of(listed, member), nothing)),
                member,
            )
            for listed, member in row_owner.members(row, content)
        ),
    )


@dataclass(frozen=True, slots=True)
class TrainJobOwner(RowOwner, Delegates, Prepares):
    """A TrainJob with a queue.

    The trainer refuses to have `spec.runtimePatches` changed in the update that starts it.
    """

    @override
    def delegates(self) -> Delegates | None:
        return self

    @override
    def marks_secondaries(self) -> bool:
        return _labels(self.view.document.spec)

    @override
    def lacks_secondary(self) -> Text:
        return added_conditions.JOB_SET_MISSING

    @override
    def prepares(self) -> Prepares | None:
        return self

    @override
    def is_restored_first(self) -> bool:
        return self._document.is_unknown

    @override
    def is_active(self) -> bool:
        """Return also true until the trainer has followed a stop and a restore."""
        return self._document.is_behind or RowOwner.is_active(self)

    @override
    def preparation(
        self, workload: Workload, injections: Mapping[str, Injection]
    ) -> patches.Patch | None:
        injections = self.told_domains(workload, injections)
        jobs = [_job(pod_set, injections[pod_set.name]) for pod_set in self.view.pod_sets]
        spec = self._document.spec
        if _has_patch(spec, jobs):
            return None
        return row_owner.patch(self.view, (_with_patch(spec, jobs),))

    @property
    def _document(self) -> TrainJobDocument:
        document = self.view.document
        assert isinstance(document, TrainJobDocument)
        return document

    @override
    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> patches.Patch:
        return row_owner.start(self.row, self.view, injections, ())

    @override
    def restore(self, workload: Workload | None) -> patches.Patch:
        # Without this annotation the metadata of the pods would become null when the trainer takes
        # the others out, which the schema of JobSets does not allow.
        kept = {"annotations": {names.MADE_FOR: KIND.name}}
        jobs = [
            {"name": pod_set.name, "template": {"spec": {"template": {"metadata": kept}}}}
            for pod_set in self.view.pod_sets
        ]
        beside = (_with_patch(self.view.document.spec, jobs),)
        return row_owner.restore(self.view, workload, beside)


def _job(pod_set: OwnerPodSet, injection_: Injection) -> dict[str, Any]:
    """Return the patch of a replicated Job; its tolerations replace those of the template.

    Raises:
        InjectionConflictError: the template contradicts what is given.
    """
    pod = reviewed_pod.from_dict(pod_set.raw)
    template_ = row_owner.template_of(pod_set.raw)
    added, changes = injection.into_template(injection_, template_.metadata, template_.spec)
    digest = {names.ADMITTED_REQUESTS: reviewed_pod.devices_digest(pod)}
    metadata = {
        "labels": added["labels"],
        "annotations": {**added["annotations"], **digest},
    }
    template = {"metadata": metadata, "spec": changes}
    return {"name": pod_set.name, "template": {"spec": {"template": template}}}


def integration(row: Row) -> Integration[RowView, TrainJobDocument]:
    """Return the kind, as the controller serves it."""
    return Integration(
        kind=KIND,
        document=TrainJobDocument,
        answer=TrainJobDocument,
        view=partial(read, row),
        owner=partial(TrainJobOwner, row),
        build=partial(row_owner.build, row),
        adopt=partial(row_owner.adopt, row),
        secondary=Secondary(
            resource=resources.JOB_SETS_OF_TRAIN_JOBS,
            selector=f"{names.MADE_FOR}={KIND.name}",
            document=row_owner.RowDocument,
            read=_job_set,
            joined=_joined,
            is_replaced=True,
        ),
    )


# --------------------------------------------------------------------------------------- reviews


class ReviewedTrainJob(row_review.ReviewedRowOwner, frozen=True, kw_only=True):
    """A TrainJob under review: of its pods only what it says itself is known."""

    @override
    def hold(self) -> tuple[Operation, ...]:
        trainer = rows.Member(_TRAINER, rows.value_at(self.spec, "trainer"))
        suspending = (
            *row_owner.hold(self.content, self.row.suspend),
            *pod_templates.write_text(trainer, _QUANTITIES),
        )
        if _labels(self.spec) and not _gives_mark(_given(self.spec)):
            return suspending
        return (*suspending, _with_patch(self.spec, []))

    @override
    def templates(self) -> tuple[Template, ...]:
        trainer = pod_templates.with_text(rows.value_at(self.spec, "trainer") or {}, _QUANTITIES)
        requests = rows.value_at(trainer, "resourcesPerNode") or {}
        count = rows.number_at(trainer, "numNodes", 1, _TRAINER)
        patches_of_others = [
            {member: value for member, value in patch_.value.items() if member != "time"}
            for patch_ in rows.find(self.spec, "runtimePatches[*]")
        ]
        container = {"name": "node", "resources": requests}
        return (
            Template(
                name="node",
                path=_TRAINER,
                pod=reviewed_pod.from_dict({"spec": {"containers": [container]}}),
                count=count,
                fewest=count,
                raw={"trainer": trainer, "runtimePatches": patches_of_others},
                beside=self._beside(),
                asks_at="resourcesPerNode",
            ),
        )

    def _beside(self) -> Beside | None:
        """Return what an admission added, with its path."""
        given_templates = tuple(_given(self.spec).values())
        if not given_templates:
            return None
        marks = review.marks_of(template_.value for template_ in given_templates)
        return Beside(given_templates[0].at.index(given_templates[0].index), marks)


def held(row: Row) -> HeldKind:
    """Return the kind, as reviews serve it."""
    document = msgspec.defstruct(
        row.kind,
        (),
        bases=(ReviewedTrainJob,),
        namespace={"row": row, "__doc__": f"{row.kind} under review."},
        frozen=True,
        kw_only=True,
    )
    return HeldKind(
        kind=KIND,
        document=cast(type[ReviewedTrainJob], document),
        templates=(),
        makers=row.makers,
        framework=row.framework,
        changes=("suspend", "runtimePatches"),
    )
