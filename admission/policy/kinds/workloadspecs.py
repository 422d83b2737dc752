"""Rules of a Workload's metadata and spec, whatever was there before.

Source: kueue pkg/webhooks/workload_webhook.go, feature gates at their defaults.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from admission.base import names
from admission.base.fielderrors import ErrorType, FieldError, FieldPath
from admission.policy import admission_gates
from admission.policy.kinds import metadata, quantities
from admission.policy.kinds.documents import PodSet, Resources, TopologyRequest
from admission.policy.kinds.reviews import Review
from admission.policy.kinds.rules import Finding, Row, Rule, Syntax

POD_SETS: Final = FieldPath.of("spec", "podSets")
RESERVED_RESOURCE: Final = "pods"


def _template(index: int) -> FieldPath:
    return POD_SETS.index(index).child("template")


def _template_metadata(review: Review) -> Iterator[FieldError]:
    for index, pod_set in enumerate(review.pod_sets):
        found = pod_set.template.metadata
        if found is not None and (found.labels or found.annotations):
            path = _template(index).child("metadata")
            yield from metadata.labels(path.child("labels"), found.labels)
            yield from metadata.annotations(path.child("annotations"), found.annotations)


Place = tuple[int, str, int | None, str, Mapping[str, str | int]]
"""Pod set, member of its pod spec, position of the container, ``requests`` or ``limits``, and
the amounts. Paths are only made of what is broken."""


def _amounts(pod_sets: Iterable[PodSet]) -> Iterator[Place]:
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
    index: int, member: str, position: int | None, found: Resources | None
) -> Iterator[Place]:
    if found is not None:
        if found.requests:
            yield index, member, position, "requests", found.requests
        if found.limits:
            yield index, member, position, "limits", found.limits


def _path(place: Place, resource: str) -> FieldPath:
    index, member, position, kind, _ = place
    path = _template(index).child("spec").child(member)
    if position is not None:
        path = path.index(position).child("resources")
    return path.child(kind).key(resource)


def _reserved_names(review: Review) -> Iterable[Finding]:
    for place in _amounts(review.pod_sets):
        if RESERVED_RESOURCE in place[-1]:
            yield Finding(_path(place, RESERVED_RESOURCE), RESERVED_RESOURCE)


def _negative_amounts(review: Review) -> Iterable[Finding]:
    for place in _amounts(review.pod_sets):
        for resource, amount in place[-1].items():
            if quantities.is_negative(amount):
                yield Finding(_path(place, resource), quantities.text(amount))


def _requests(review: Review) -> Iterator[tuple[FieldPath, TopologyRequest]]:
    for index, pod_set in enumerate(review.pod_sets):
        if pod_set.topology_request is not None:
            yield POD_SETS.index(index).child("topologyRequest"), pod_set.topology_request


def _slices_without_size(review: Review) -> Iterable[Finding]:
    for path, found in _requests(review):
        if found.pod_set_slice_required_topology is not None and found.pod_set_slice_size is None:
            yield Finding(path.child("podSetSliceSize"))


def _empty_slices(review: Review) -> Iterable[Finding]:
    for path, found in _requests(review):
        size = found.pod_set_slice_size
        if size is not None and size <= 0:
            yield Finding(path.child("podSetSliceSize"), size)


def _size_without_slices(review: Review) -> Iterable[Finding]:
    for path, found in _requests(review):
        if found.pod_set_slice_size is not None and found.pod_set_slice_required_topology is None:
            yield Finding(path.child("podSetSliceSize"))


def _empty_layers(review: Review) -> Iterable[Finding]:
    for path, found in _requests(review):
        layers = found.podset_slice_required_topology_constraints or ()
        for index, layer in enumerate(layers):
            if layer.size <= 0:
                place = path.child("podsetSliceRequiredTopologyConstraints").index(index)
                yield Finding(place.child("size"), layer.size)


def _variable(review: Review) -> int:
    return sum(one.min_count is not None for one in review.pod_sets)


def _several_variable(review: Review) -> Iterable[Finding]:
    count = _variable(review)
    if count > 1:
        yield Finding(POD_SETS, count)


def _variable_and_elastic(review: Review) -> Iterable[Finding]:
    count = _variable(review)
    if count and review.is_elastic:
        yield Finding(POD_SETS, count)


def _gates(review: Review) -> Iterable[FieldError]:
    return admission_gates.errors(review.new.metadata.annotation(names.ADMISSION_GATED_BY))


_INVALID: Final = ErrorType.INVALID

RULES: Final[tuple[Row[Review], ...]] = (
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
    Syntax("Workload 19", _gates),  # the rules of `admission.policy.admission_gates`
)  # fmt: skip
"""Kueue's rule for the priority boost is not here: its feature gate is off."""
