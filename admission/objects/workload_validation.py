"""Validation of Workloads under review: creations, and updates of the object and of its status.

What the rules read of a Workload is declared here a second time, because `objects.workload` holds
what the program uses of it, and a review needs more and less:

* what may not change is compared as it was sent, with every member there is: also those that
  `workload.Workload` leaves out (most of a pod template, the topology of pod sets and of
  assignments). So pod sets, admission and updates of checks stay as they were sent, and pod sets
  that are the same bytes are not read at all;
* the rules of slices read members of a topology request that only the schema has otherwise;
* a template is read as little as possible: the schema lets more through than a pod's struct, and
  what no rule is about must not be refused.

What is read alike is read with the structs of `objects.workload`. Enumerations are texts: a value
of a newer version is no error here. Absent and null are one.

Source: kueue pkg/webhooks/workload_webhook.go, feature gates at their defaults. The CEL of the
schema guards the rest: queue, priority class and execution time.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from admission.base import conditions, fielderrors, names, quantity, structs
from admission.base.errors import InvalidValueError
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.objects import admission_gates, rule_checks, run_times, views
from admission.objects.rule_checks import Row, Rule, RuleBreach, Syntax
from admission.objects.views import View
from admission.objects.workload import (
    Admission,
    PodSetAssignmentStatus,
    PodSetUpdate,
    ReclaimablePod,
)

_INVALID: Final = ErrorType.INVALID
_NOTHING: Final = msgspec.Raw(b"null")


class ReviewedPodContainer(View, frozen=True, kw_only=True):
    """A container or init container."""

    resources: views.ResourceRequirements | None = None


class TemplateMetadata(View, frozen=True, kw_only=True):
    """What a pod template gives its pods."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ReviewedTemplateSpec(View, frozen=True, kw_only=True):
    """Spec of a pod template."""

    init_containers: tuple[ReviewedPodContainer, ...] | None = None
    containers: tuple[ReviewedPodContainer, ...] | None = None
    resources: views.ResourceRequirements | None = None


class ReviewedTemplate(View, frozen=True, kw_only=True):
    """A pod template."""

    metadata: TemplateMetadata | None = None
    spec: ReviewedTemplateSpec | None = None


class ReviewedLayer(View, frozen=True, kw_only=True):
    """One layer of sliced topology constraints."""

    topology: str = ""
    size: int = 0


class ReviewedTopologyRequest(View, frozen=True, kw_only=True):
    """Topology request of a pod set, as far as it is about slices."""

    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: tuple[ReviewedLayer, ...] | None = None


class ReviewedPodSet(View, frozen=True, kw_only=True):
    """A set of equal pods."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: ReviewedTemplate = ReviewedTemplate()
    topology_request: ReviewedTopologyRequest | None = None


class ReviewedWorkloadSpec(View, frozen=True, kw_only=True):
    """Spec of a Workload; its pod sets as sent, to be compared without reading them."""

    pod_sets: msgspec.Raw = _NOTHING


class CheckState(View, frozen=True, kw_only=True):
    """State of one admission check."""

    name: str = ""
    state: str = ""
    pod_set_updates: list[dict[str, Any]] | None = None


class ReviewedWorkloadStatus(View, frozen=True, kw_only=True):
    """Status of a Workload."""

    conditions: tuple[views.Condition, ...] | None = None
    admission: msgspec.Raw = _NOTHING
    reclaimable_pods: tuple[ReclaimablePod, ...] | None = None
    admission_checks: tuple[CheckState, ...] | None = None
    cluster_name: str | None = None
    nominated_cluster_names: tuple[str, ...] | None = None

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is True."""
        return any(c.type == kind and c.status == "True" for c in self.conditions or ())


class ReviewedWorkload(views.Object, frozen=True, kw_only=True):
    """A Workload under review."""

    spec: ReviewedWorkloadSpec = ReviewedWorkloadSpec()
    status: ReviewedWorkloadStatus = ReviewedWorkloadStatus()


_POD_SETS: Final[msgspec.json.Decoder[tuple[ReviewedPodSet, ...] | None]] = structs.decoder(
    tuple[ReviewedPodSet, ...] | None
)
_ADMISSION: Final[msgspec.json.Decoder[Admission | None]] = structs.decoder(Admission | None)
_DOCUMENT: Final = structs.decoder(Any)


class WorkloadReview:
    """What the rules of one Workload read; parts are decoded once.

    Attributes:
        new: as it would be.
        old: as it is; None on creation.
        pod_sets: of ``new``.
        admission: of ``new``; None where there is none.
        is_reserved: whether ``new`` holds quota.
        was_reserved: whether ``old`` does.
        is_elastic: whether ``new`` may change its size while it runs.
    """

    __slots__ = (
        "admission", "is_elastic", "is_reserved", "new", "old", "pod_sets", "was_reserved",
    )  # fmt: skip

    def __init__(self, old: ReviewedWorkload | None, new: ReviewedWorkload) -> None:
        """Decodes the parts.

        Raises:
            msgspec.ValidationError: a field has the wrong type.
        """
        self.new = new
        self.old = old
        self.pod_sets: tuple[ReviewedPodSet, ...] = _POD_SETS.decode(new.spec.pod_sets) or ()
        self.admission: Admission | None = _ADMISSION.decode(new.status.admission)
        self.is_reserved = new.status.is_true(conditions.QUOTA_RESERVED)
        self.was_reserved = old is not None and old.status.is_true(conditions.QUOTA_RESERVED)
        self.is_elastic = new.metadata.annotation(names.ELASTIC_JOB) == "true"

    def pod_set(self, name: str) -> ReviewedPodSet | None:
        """The pod set of that name."""
        return next((pod_set for pod_set in self.pod_sets if pod_set.name == name), None)

    def assignments(self) -> tuple[PodSetAssignmentStatus, ...]:
        """Return the assignments of the pod sets; none without an admission."""
        return (self.admission.pod_set_assignments if self.admission else None) or ()

    def is_shrinking(self, name: str) -> bool:
        """Return whether a pod set of an elastic Workload has fewer pods than its quota is for."""
        if not self.is_elastic:
            return False
        pod_set = self.pod_set(name)
        count_given = next(
            (assignment.count for assignment in self.assignments() if assignment.name == name),
            None,
        )
        return pod_set is not None and count_given is not None and pod_set.count < count_given


def _has_admission(workload: ReviewedWorkload) -> bool:
    """Return whether ``status.admission`` is set."""
    return bytes(workload.status.admission) != b"null"


def _document(part: msgspec.Raw) -> Any:
    """A part of an object as plain values."""
    return _DOCUMENT.decode(part)


# ---------------------------------------------------------------------------- metadata and spec

POD_SETS: Final = FieldPath.of("spec", "podSets")
RESERVED_RESOURCE: Final = "pods"


def _template(index: int) -> FieldPath:
    return POD_SETS.index(index).child("template")


def _template_metadata(review: WorkloadReview) -> Iterator[FieldError]:
    for index, pod_set in enumerate(review.pod_sets):
        metadata = pod_set.template.metadata
        if metadata is not None and (metadata.labels or metadata.annotations):
            path = _template(index).child("metadata")
            yield from rule_checks.labels(path.child("labels"), metadata.labels)
            yield from rule_checks.annotations(path.child("annotations"), metadata.annotations)


Place = tuple[int, str, int | None, str, Mapping[str, str | int]]
"""Pod set, member of its pod spec, position of the container, ``requests`` or ``limits``, and
the amounts. Paths are only made of what is broken."""


def _amounts(pod_sets: Iterable[ReviewedPodSet]) -> Iterator[Place]:
    for index, pod_set in enumerate(pod_sets):
        spec = pod_set.template.spec
        if spec is None:
            continue
        for member, containers in (
            ("initContainers", spec.init_containers),
            ("containers", spec.containers),
        ):
            for position, container in enumerate(containers or ()):
                yield from _of_resources(index, member, position, container.resources)
        yield from _of_resources(index, "resources", None, spec.resources)


def _of_resources(
    index: int, member: str, position: int | None, requirements: views.ResourceRequirements | None
) -> Iterator[Place]:
    if requirements is not None:
        if requirements.requests:
            yield index, member, position, "requests", requirements.requests
        if requirements.limits:
            yield index, member, position, "limits", requirements.limits


def _path(place: Place, resource: str) -> FieldPath:
    index, member, position, kind, _ = place
    path = _template(index).child("spec").child(member)
    if position is not None:
        path = path.index(position).child("resources")
    return path.child(kind).key(resource)


def _reserved_names(review: WorkloadReview) -> Iterable[RuleBreach]:
    for place in _amounts(review.pod_sets):
        if RESERVED_RESOURCE in place[-1]:
            yield RuleBreach(_path(place, RESERVED_RESOURCE), RESERVED_RESOURCE)


def _negative_amounts(review: WorkloadReview) -> Iterable[RuleBreach]:
    for place in _amounts(review.pod_sets):
        for resource, amount in place[-1].items():
            if rule_checks.is_negative(amount):
                yield RuleBreach(_path(place, resource), rule_checks.quantity_text(amount))


def _requests(review: WorkloadReview) -> Iterator[tuple[FieldPath, ReviewedTopologyRequest]]:
    for index, pod_set in enumerate(review.pod_sets):
        if pod_set.topology_request is not None:
            yield POD_SETS.index(index).child("topologyRequest"), pod_set.topology_request


def _slices_without_size(review: WorkloadReview) -> Iterable[RuleBreach]:
    for path, request_ in _requests(review):
        if (
            request_.pod_set_slice_required_topology is not None
            and request_.pod_set_slice_size is None
        ):
            yield RuleBreach(path.child("podSetSliceSize"))


def _empty_slices(review: WorkloadReview) -> Iterable[RuleBreach]:
    for path, request_ in _requests(review):
        size = request_.pod_set_slice_size
        if size is not None and size <= 0:
            yield RuleBreach(path.child("podSetSliceSize"), size)


def _size_without_slices(review: WorkloadReview) -> Iterable[RuleBreach]:
    for path, request_ in _requests(review):
        if (
            request_.pod_set_slice_size is not None
            and request_.pod_set_slice_required_topology is None
        ):
            yield RuleBreach(path.child("podSetSliceSize"))


def _empty_layers(review: WorkloadReview) -> Iterable[RuleBreach]:
    for path, request_ in _requests(review):
        layers = request_.podset_slice_required_topology_constraints or ()
        for index, layer in enumerate(layers):
            if layer.size <= 0:
                place = path.child("podsetSliceRequiredTopologyConstraints").index(index)
                yield RuleBreach(place.child("size"), layer.size)


def _variable(review: WorkloadReview) -> int:
    return sum(pod_set.min_count is not None for pod_set in review.pod_sets)


def _several_variable(review: WorkloadReview) -> Iterable[RuleBreach]:
    count = _variable(review)
    if count > 1:
        yield RuleBreach(POD_SETS, count)


def _variable_and_elastic(review: WorkloadReview) -> Iterable[RuleBreach]:
    count = _variable(review)
    if count and review.is_elastic:
        yield RuleBreach(POD_SETS, count)


def _gate_names(review: WorkloadReview) -> Iterable[FieldError]:
    return admission_gates.errors(review.new.metadata.annotation(names.ADMISSION_GATED_BY))


SPEC_RULES: Final[tuple[Row[WorkloadReview], ...]] = (
    Syntax("Workload 1", _template_metadata),
    Rule("Workload 2", _INVALID, "the key is reserved for internal kueue use", _reserved_names),
    Rule("Workload 3", _INVALID, "must be greater than or equal to 0", _negative_amounts),
    Rule(
        "Workload 4", ErrorType.REQUIRED,
        "must be set when podSetSliceRequiredTopology is specified", _slices_without_size,
    ),
    Rule("Workload 5", _INVALID, "must be greater than 0", _empty_slices),
    Rule(
        "Workload 6", ErrorType.FORBIDDEN,
        "may not be set when podSetSliceRequiredTopology is not specified", _size_without_slices,
    ),
    Rule("Workload 7", _INVALID, "must be greater than 0", _empty_layers),
    Rule("Workload 8", _INVALID, "at most one podSet can use minCount", _several_variable),
    Rule(
        "Workload 9", _INVALID, "partial admission and elastic job cannot be used together",
        _variable_and_elastic,
    ),
    Syntax("Workload 19", _gate_names),  # the rules of `admission_gates`
)  # fmt: skip
"""Kueue's rule for the priority boost is not here: its feature gate is off."""


# --------------------------------------------------------------------------------------- status
# A creation drops the status, so in effect these rules judge updates.

STATUS: Final = FieldPath.of("status")
ADMISSION: Final = STATUS.child("admission")
RECLAIMABLE: Final = STATUS.child("reclaimablePods")
CHECKS: Final = STATUS.child("admissionChecks")

_AS_UPDATE: Final = structs.converter(PodSetUpdate)
_ASSIGNMENTS: Final = ADMISSION.child("podSetAssignments")


def _reserved_without_admission(review: WorkloadReview) -> Iterable[RuleBreach]:
    if not review.is_reserved or _has_admission(review.new):
        return
    if review.old is None or not review.was_reserved or _has_admission(review.old):
        yield RuleBreach(ADMISSION)


def _assigned(review: WorkloadReview) -> Iterator[tuple[int, PodSetAssignmentStatus]]:
    return enumerate(review.assignments() if review.is_reserved else ())


def _unknown_assignments(review: WorkloadReview) -> Iterable[RuleBreach]:
    for index, assignment in _assigned(review):
        if review.pod_set(assignment.name) is None:
            yield RuleBreach(_ASSIGNMENTS.index(index).child("name"), assignment.name)


def _broken_usage(review: WorkloadReview) -> Iterable[RuleBreach]:
    for index, assignment in _assigned(review):
        count = assignment.count or 0
        if count <= 0:
            continue
        for resource, amount in (assignment.resource_usage or {}).items():
            if _canonical(resource, amount) % count:
                place = _ASSIGNMENTS.index(index).child("resourceUsage").key(resource)
                yield RuleBreach(place, rule_checks.quantity_text(amount), {"count": count})


def _canonical(resource: str, amount: str | int) -> int:
    try:
        return quantity.to_canonical(resource, str(amount))
    except InvalidValueError:
        return 0


def _conditions(review: WorkloadReview) -> Iterator[FieldError]:
    return rule_checks.conditions(STATUS.child("conditions"), review.new.status.conditions or ())


def _unknown_reclaimable(review: WorkloadReview) -> Iterable[RuleBreach]:
    for reclaimable in review.new.status.reclaimable_pods or ():
        if review.pod_set(reclaimable.name) is None:
            path = RECLAIMABLE.key(reclaimable.name).child("name")
            yield RuleBreach(path, reclaimable.name, _supported(p.name for p in review.pod_sets))


def _too_many_reclaimable(review: WorkloadReview) -> Iterable[RuleBreach]:
    kept = _kept(review)
    for reclaimable in review.new.status.reclaimable_pods or ():
        pod_set = review.pod_set(reclaimable.name)
        if (
            pod_set is None
            or reclaimable.count <= pod_set.count
            or (reclaimable.name, reclaimable.count) in kept
        ):
            continue
        path = RECLAIMABLE.key(reclaimable.name).child("count")
        yield RuleBreach(path, reclaimable.count, {"count": pod_set.count})


def _kept(review: WorkloadReview) -> frozenset[tuple[str, int]]:
    """Return what an elastic Workload had reclaimed before it was made smaller may stay."""
    if review.old is None or not review.is_elastic:
        return frozenset()
    return frozenset(
        (reclaimable.name, reclaimable.count)
        for reclaimable in review.old.status.reclaimable_pods or ()
    )


def _updates(review: WorkloadReview) -> Iterator[tuple[FieldPath, PodSetUpdate]]:
    for index, check in enumerate(review.new.status.admission_checks or ()):
        for place, update in enumerate(check.pod_set_updates or ()):
            path = CHECKS.index(index).child("podSetUpdates").index(place)
            yield path, _AS_UPDATE(update)


def _unknown_updates(review: WorkloadReview) -> Iterable[RuleBreach]:
    for path, update in _updates(review):
        if review.pod_set(update.name) is None:
            supported = _supported(sorted({p.name for p in review.pod_sets}))
            yield RuleBreach(path.child("name"), update.name, supported)


def _update_tolerations(review: WorkloadReview) -> Iterator[FieldError]:
    for path, update in _updates(review):
        yield from rule_checks.toleration_keys(path.child("tolerations"), update.tolerations)


def _update_metadata(review: WorkloadReview) -> Iterator[FieldError]:
    for path, update in _updates(review):
        yield from rule_checks.annotations(path.child("annotations"), update.annotations)
        yield from rule_checks.labels(path.child("nodeSelector"), update.node_selector)
        yield from rule_checks.labels(path.child("labels"), update.labels)


def _supported(choices: Iterable[str]) -> dict[str, object]:
    return {"supported": ", ".join(f'"{choice}"' for choice in choices)}


STATUS_RULES: Final[tuple[Row[WorkloadReview], ...]] = (
    Rule(
        "Workload 10", ErrorType.REQUIRED,
        "must be set while the QuotaReserved condition is true", _reserved_without_admission,
    ),
    Rule("Workload 11", ErrorType.NOT_FOUND, "", _unknown_assignments),
    # Differs: Kueue prints the address of the count where its value should stand.
    Rule("Workload 12", ErrorType.INVALID, "is not a multiple of {count}", _broken_usage),
    Syntax("Workload 13", _conditions),
    Rule(
        "Workload 14", ErrorType.NOT_SUPPORTED, "supported values: {supported}",
        _unknown_reclaimable,
    ),
    Rule(
        "Workload 15", ErrorType.INVALID, "should be less or equal to {count}",
        _too_many_reclaimable,
    ),
    Rule(
        "Workload 16", ErrorType.NOT_SUPPORTED, "supported values: {supported}", _unknown_updates
    ),
    Syntax("Workload 17", _update_tolerations),
    Syntax("Workload 18", _update_metadata),
)  # fmt: skip


# -------------------------------------------------------------------------------------- updates

IMMUTABLE: Final = "field is immutable"
READY: Final = "Ready"

_FREE: Final = ("topologyAssignment", "delayedTopologyRequest")


def _pod_sets(review: WorkloadReview) -> tuple[list[Any], list[Any]] | None:
    """Pod sets before and after where they may not change and are not the same bytes."""
    if review.old is None or not review.was_reserved:
        return None
    before, after = review.old.spec.pod_sets, review.new.spec.pod_sets
    if bytes(before) == bytes(after):
        return None
    return _document(before) or [], _document(after) or []


def _other_number(review: WorkloadReview) -> Iterable[RuleBreach]:
    before_and_after = _pod_sets(review)
    if before_and_after and len(before_and_after[0]) != len(before_and_after[1]):
        yield RuleBreach(POD_SETS, before_and_after[1])


def _changed_pod_sets(review: WorkloadReview) -> Iterable[RuleBreach]:
    before_and_after = _pod_sets(review)
    if not before_and_after or len(before_and_after[0]) != len(before_and_after[1]):
        return
    for index, (before, after) in enumerate(zip(*before_and_after, strict=True)):
        if not rule_checks.same(before, _at_least(before, after)):
            # Copied: the position stands behind a dot, not in brackets.
            yield RuleBreach(POD_SETS.child(str(index)), after)


def _at_least(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The pod set with the count it had, if it only has fewer pods now: that is allowed."""
    had = before.get("count", 1)
    return {**after, "count": had} if after.get("count", 1) < had else after


def _reclaimed(workload: ReviewedWorkload) -> dict[str, ReclaimablePod]:
    return {
        reclaimable.name: reclaimable for reclaimable in workload.status.reclaimable_pods or ()
    }


def _held(review: WorkloadReview) -> Mapping[str, ReclaimablePod]:
    """Return what was reclaimed before and must stay, because quota is held all along."""
    if review.old is None or not (review.was_reserved and review.is_reserved):
        return {}
    before = _reclaimed(review.old)
    return {
        name: reclaimable for name, reclaimable in before.items() if not review.is_shrinking(name)
    }


def _less_reclaimed(review: WorkloadReview) -> Iterable[RuleBreach]:
    before = _held(review)
    for name, reclaimable in _reclaimed(review.new).items() if before else ():
        if name in before and reclaimable.count < before[name].count:
            yield RuleBreach(
                RECLAIMABLE.key(name).child("count"),
                reclaimable.count,
                {"count": before[name].count},
            )


def _no_longer_reclaimed(review: WorkloadReview) -> Iterable[RuleBreach]:
    before = _held(review)
    if before:
        for name in sorted(before.keys() - _reclaimed(review.new).keys()):
            yield RuleBreach(RECLAIMABLE.key(name))


def _changed_admission(review: WorkloadReview) -> Iterable[RuleBreach]:
    if review.old is None:
        return
    before, after = review.old.status.admission, review.new.status.admission
    if bytes(before) == bytes(after):
        return
    was, will = _document(before), _document(after)
    if was is None or will is None:
        return
    if not rule_checks.same(_without_topology(was), _without_topology(will)):
        yield RuleBreach(ADMISSION, will)


def _without_topology(admission: dict[str, Any]) -> dict[str, Any]:
    """The admission without what may change while it lasts."""
    kept = [
        {key: value for key, value in assignment.items() if key not in _FREE}
        for assignment in admission.get("podSetAssignments") or ()
    ]
    return {**admission, "podSetAssignments": kept}


def _changed_updates(review: WorkloadReview) -> Iterable[RuleBreach]:
    if review.old is None:
        return
    after = {check.name: check for check in _ready(review.new)}
    for index, before in enumerate(review.old.status.admission_checks or ()):
        now = after.get(before.name)
        if now is None or before.state != READY:
            continue
        if not rule_checks.same(before.pod_set_updates, now.pod_set_updates):
            path = CHECKS.index(index).child("podSetUpdates")
            shown: list[object] = [*(now.pod_set_updates or ())]
            yield RuleBreach(path, shown)


def _ready(workload: ReviewedWorkload) -> Iterator[CheckState]:
    return (check for check in workload.status.admission_checks or () if check.state == READY)


def _unnominated_cluster(review: WorkloadReview) -> Iterable[RuleBreach]:
    name = review.new.status.cluster_name
    if review.old is None or name is None or review.old.status.cluster_name is not None:
        return
    if names.SLICE_REPLACEMENT in (review.new.metadata.annotations or {}):
        return
    if name not in (review.old.status.nominated_cluster_names or ()):
        yield RuleBreach(STATUS.child("clusterName"), name)


def _gate_changes(review: WorkloadReview) -> Iterable[FieldError]:
    if review.old is None:
        return []
    before, after = (
        workload.metadata.annotation(names.ADMISSION_GATED_BY)
        for workload in (review.old, review.new)
    )
    return admission_gates.update_errors(before, after)


UPDATE_RULES: Final[tuple[Row[WorkloadReview], ...]] = (
    Rule("Workload 21", _INVALID, IMMUTABLE, _other_number),
    Rule("Workload 22", _INVALID, IMMUTABLE, _changed_pod_sets),
    Rule("Workload 23", _INVALID, "cannot be less than {count}", _less_reclaimed),
    Rule("Workload 24", ErrorType.REQUIRED, "cannot be removed", _no_longer_reclaimed),
    Rule("Workload 25", _INVALID, IMMUTABLE, _changed_admission),
    Rule("Workload 26", _INVALID, IMMUTABLE, _changed_updates),
    Rule(
        "Workload 27", _INVALID,
        "when setting clusterName it must be one of the nominatedClusterNames",
        _unnominated_cluster,
    ),
    Syntax("Workload 28", _gate_changes),  # the rules of `admission_gates`
)  # fmt: skip


# ------------------------------------------------------------------------------------------ all

RULES: Final[tuple[Row[WorkloadReview], ...]] = (
    *SPEC_RULES,
    *STATUS_RULES,
    *UPDATE_RULES,
)


def errors(old: ReviewedWorkload | None, new: ReviewedWorkload) -> list[FieldError]:
    """Errors of a Workload; ``old`` is None on creation.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    before = None if old is None else old.metadata
    field_errors = rule_checks.errors(RULES, WorkloadReview(old, new))
    field_errors += run_times.queued_errors(before, new.metadata)
    return list(fielderrors.in_order(field_errors))
