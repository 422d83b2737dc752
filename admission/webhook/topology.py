"""Rules of the annotations that ask for a topology: ``topology 1`` to ``topology 22``.

Source: kueue pkg/controller/jobframework/tas_validation.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from admission.base import structs, syntax
from admission.base.fielderrors import ErrorType, FieldError, FieldPath, Value
from admission.base.names import (
    PODSET_GROUP_NAME,
    PODSET_SLICE_CONSTRAINTS,
    PODSET_SLICE_SIZE,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_REQUIRED_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from admission.objects import rule_checks
from admission.objects.rule_checks import Row, Rule, RuleBreach, Syntax

KEYS: Final = (
    REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, UNCONSTRAINED_TOPOLOGY, SLICE_REQUIRED_TOPOLOGY,
    PODSET_SLICE_SIZE, PODSET_SLICE_CONSTRAINTS, PODSET_GROUP_NAME,
)  # fmt: skip
PATH: Final = FieldPath.of("metadata", "annotations")
_SIZE_PATH: Final = PATH.key(PODSET_SLICE_SIZE)
_GROUP_PATH: Final = PATH.key(PODSET_GROUP_NAME)
_LAYERS_PATH: Final = PATH.key(PODSET_SLICE_CONSTRAINTS)

_CLOSE: Final = (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)
_EXCLUSIVE: Final = (*_CLOSE, UNCONSTRAINED_TOPOLOGY)
_MAX_LAYERS: Final = 3

Annotations = Mapping[str, str]


class SliceLayer(msgspec.Struct, frozen=True):
    """One layer of sliced topology constraints."""

    topology: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """A layer in the list, and those before it, the outer ones."""

    path: FieldPath
    layer: SliceLayer
    outer: Sequence[SliceLayer]


@dataclass(frozen=True, slots=True)
class AnnotatedPodSet:
    """What the pods of a pod set ask for, to be compared with the other pod sets of its owner.

    Attributes:
        path: of the annotations, in the owner.
        annotations: of its pods.
        count: how many pods it has.
        is_counted: whether it is in a queue, with as many pods as long as it runs; else nobody
            counts its slices.
    """

    path: FieldPath
    annotations: Annotations
    count: int
    is_counted: bool = True

    @property
    def group(self) -> str | None:
        """Return the name of its group; None where it is in none."""
        return self.annotations.get(PODSET_GROUP_NAME)


_LAYERS: Final = structs.decoder(tuple[SliceLayer, ...])
_PAIR: Final = 2
"""Pod sets of a group: a leader and its workers."""


def _several(annotations: Annotations) -> Iterable[RuleBreach]:
    if sum(key in annotations for key in _EXCLUSIVE) > 1:
        shown: dict[str, object] = {key: annotations[key] for key in sorted(annotations)}
        yield RuleBreach(PATH, shown)


def _labels(annotations: Annotations) -> Iterable[FieldError]:
    for key in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, SLICE_REQUIRED_TOPOLOGY):
        if key in annotations:
            yield from syntax.label_key(PATH.key(key), annotations[key])


def _no_boolean(annotations: Annotations) -> Iterable[RuleBreach]:
    value = annotations.get(UNCONSTRAINED_TOPOLOGY)
    if value is not None and isinstance(syntax.parse_boolean(value), str):
        yield RuleBreach(PATH.key(UNCONSTRAINED_TOPOLOGY), value)


def _unsized(annotations: Annotations) -> Iterable[RuleBreach]:
    if SLICE_REQUIRED_TOPOLOGY in annotations and PODSET_SLICE_SIZE not in annotations:
        yield RuleBreach(_SIZE_PATH)


def _unsliced(annotations: Annotations) -> Iterable[RuleBreach]:
    is_sliced = SLICE_REQUIRED_TOPOLOGY in annotations or PODSET_SLICE_CONSTRAINTS in annotations
    if PODSET_SLICE_SIZE in annotations and not is_sliced:
        yield RuleBreach(_SIZE_PATH)


def _size(annotations: Annotations) -> int | str | None:
    """The size, or what is wrong with it; None where there is none."""
    text = annotations.get(PODSET_SLICE_SIZE)
    return None if text is None else syntax.parse_integer(text, bits=32)


def _no_size(annotations: Annotations) -> Iterable[RuleBreach]:
    if isinstance(_size(annotations), str):
        yield RuleBreach(_SIZE_PATH, annotations[PODSET_SLICE_SIZE])


def _size_of_nothing(annotations: Annotations) -> Iterable[RuleBreach]:
    size = _size(annotations)
    if isinstance(size, int) and size < 1:
        yield RuleBreach(_SIZE_PATH, annotations[PODSET_SLICE_SIZE])


def _numbered(annotations: Annotations) -> Iterable[RuleBreach]:
    name = annotations.get(PODSET_GROUP_NAME)
    if name is not None and isinstance(syntax.parse_integer(name), int):
        yield RuleBreach(_GROUP_PATH, name)


def _sliced_group(annotations: Annotations) -> Iterable[RuleBreach]:
    for key in (PODSET_SLICE_SIZE, SLICE_REQUIRED_TOPOLOGY):
        if PODSET_GROUP_NAME in annotations and key in annotations:
            yield RuleBreach(_GROUP_PATH, words={"key": key})


def _loose_group(annotations: Annotations) -> Iterable[RuleBreach]:
    is_close = REQUIRED_TOPOLOGY in annotations or PREFERRED_TOPOLOGY in annotations
    if PODSET_GROUP_NAME in annotations and not is_close:
        yield RuleBreach(_GROUP_PATH)


def _layers_beside(annotations: Annotations) -> Iterable[RuleBreach]:
    for key in (SLICE_REQUIRED_TOPOLOGY, PODSET_SLICE_SIZE, PODSET_GROUP_NAME):
        if PODSET_SLICE_CONSTRAINTS in annotations and key in annotations:
            yield RuleBreach(_LAYERS_PATH, words={"key": key})


def _read(annotations: Annotations) -> tuple[SliceLayer, ...] | str | None:
    """The layers, or why there is no reading them; None where there are none."""
    text = annotations.get(PODSET_SLICE_CONSTRAINTS)
    try:
        return None if text is None else _LAYERS.decode(text)
    except structs.UNREADABLE as error:
        return str(error)


def _no_layers(annotations: Annotations) -> Iterable[RuleBreach]:
    layers = _read(annotations)
    if isinstance(layers, str):
        yield RuleBreach(_LAYERS_PATH, annotations[PODSET_SLICE_CONSTRAINTS], {"error": layers})


def _other_number_of_layers(annotations: Annotations) -> Iterable[RuleBreach]:
    layers = _read(annotations)
    if isinstance(layers, tuple) and not 1 <= len(layers) <= _MAX_LAYERS:
        yield RuleBreach(_LAYERS_PATH, annotations[PODSET_SLICE_CONSTRAINTS])


def _each_layer(annotations: Annotations) -> Iterable[FieldError]:
    layers = _read(annotations)
    if isinstance(layers, tuple) and len(layers) <= _MAX_LAYERS:
        for index, layer in enumerate(layers):
            place = LayerPlace(_LAYERS_PATH.index(index), layer, layers[:index])
            yield from rule_checks.errors(LAYERS, place)


def _layer_label(place: LayerPlace) -> Iterable[FieldError]:
    return syntax.label_key(place.path.child("topology"), place.layer.topology)


def _repeated(place: LayerPlace) -> Iterable[RuleBreach]:
    if any(place.layer.topology == outer.topology for outer in place.outer):
        yield RuleBreach(place.path.child("topology"), place.layer.topology)


def _layer_of_nothing(place: LayerPlace) -> Iterable[RuleBreach]:
    if place.layer.size < 1:
        yield RuleBreach(place.path.child("size"), place.layer.size)


def _undividing(place: LayerPlace) -> Iterable[RuleBreach]:
    size = place.layer.size
    if size >= 1 and place.outer and place.outer[-1].size % size:
        yield RuleBreach(place.path.child("size"), size, {"outer": place.outer[-1].size})


def _slices(pod_set: AnnotatedPodSet) -> tuple[FieldPath, Value, int] | None:
    """Where it stands how many pods a slice of the widest layer has, as text and as a number.

    None where nothing does that can be read.
    """
    size = _size(pod_set.annotations)
    if isinstance(size, int) and size >= 1:
        path = pod_set.path.key(PODSET_SLICE_SIZE)
        return path, pod_set.annotations[PODSET_SLICE_SIZE], size
    layers = _read(pod_set.annotations)
    if isinstance(layers, tuple) and layers and layers[0].size >= 1:
        return pod_set.path.key(PODSET_SLICE_CONSTRAINTS), layers[0].size, layers[0].size
    return None


def _larger_than_all(pod_set: AnnotatedPodSet) -> Iterable[RuleBreach]:
    slices = _slices(pod_set)
    if slices is not None and slices[2] > pod_set.count:
        yield RuleBreach(slices[0], slices[1], {"count": pod_set.count})


def _remainder(pod_set: AnnotatedPodSet) -> Iterable[RuleBreach]:
    slices = _slices(pod_set)
    if slices is not None and slices[2] <= pod_set.count and pod_set.count % slices[2]:
        yield RuleBreach(slices[0], slices[1], {"count": pod_set.count})


def _no_pair(group: Sequence[AnnotatedPodSet]) -> Iterable[RuleBreach]:
    if len(group) != _PAIR:
        for pod_set in group:
            path = pod_set.path.key(PODSET_GROUP_NAME)
            yield RuleBreach(path, pod_set.group, {"count": len(group)})


def _no_leader(group: Sequence[AnnotatedPodSet]) -> Iterable[RuleBreach]:
    counts = [pod_set.count for pod_set in group]
    if len(group) == _PAIR and 1 not in counts:
        for pod_set in group:
            path = pod_set.path.key(PODSET_GROUP_NAME)
            yield RuleBreach(path, pod_set.group, {"first": counts[0], "second": counts[1]})


def _apart(group: Sequence[AnnotatedPodSet]) -> Iterable[RuleBreach]:
    if len(group) != _PAIR:
        return
    levels = [[each.annotations.get(key) for key in _CLOSE] for each in group]
    if levels[0] != levels[1] or not any(levels[0]):
        for pod_set, other in zip(group, reversed(group), strict=True):
            words = {"other": other.path.text, "group": pod_set.group}
            yield RuleBreach(pod_set.path, words=words)


_INVALID: Final = ErrorType.INVALID
_FORBIDDEN: Final = ErrorType.FORBIDDEN
_LIST: Final = ", ".join(f'"{key}"' for key in _EXCLUSIVE)

LAYERS: Final[tuple[Row[LayerPlace], ...]] = (
    Syntax("topology 14", _layer_label),
    Rule("topology 15", ErrorType.DUPLICATE, "", _repeated),
    Rule("topology 16", _INVALID, "must be greater than or equal to 1", _layer_of_nothing),
    Rule(
        "topology 17", _INVALID, "must evenly divide the parent layer size {outer}", _undividing
    ),
)  # fmt: skip
"""Each layer."""

ANNOTATIONS: Final[tuple[Row[Annotations], ...]] = (
    Rule(
        "topology 1", _INVALID, f"must not contain more than one topology annotation: [{_LIST}]",
        _several,
    ),
    Syntax("topology 2", _labels),
    Rule("topology 3", _INVALID, "must be a boolean value", _no_boolean),
    Rule(
        "topology 4", ErrorType.REQUIRED,
        f"must be set when '{SLICE_REQUIRED_TOPOLOGY}' is specified",
        _unsized,
    ),
    Rule(
        "topology 5", _FORBIDDEN,
        f"may not be set when '{SLICE_REQUIRED_TOPOLOGY}' is not specified",
        _unsliced,
    ),
    Rule("topology 6", _INVALID, "must be a numeric value", _no_size),
    Rule("topology 7", _INVALID, "must be greater than or equal to 1", _size_of_nothing),
    Rule("topology 8", _INVALID, "must not be a number", _numbered),
    Rule("topology 9", _FORBIDDEN, "may not be set when '{key}' is specified", _sliced_group),
    Rule(
        "topology 10", _FORBIDDEN,
        f"may not be set when neither '{PREFERRED_TOPOLOGY}' nor '{REQUIRED_TOPOLOGY}' is"
        " specified",
        _loose_group,
    ),
    Rule("topology 11", _FORBIDDEN, "may not be set when '{key}' is specified", _layers_beside),
    Rule("topology 12", _INVALID, "must be a JSON list of layers: {error}", _no_layers),
    Rule(
        "topology 13", _INVALID, "topology constraints must contain between 1 and 3 entries",
        _other_number_of_layers,
    ),
    Syntax("topology 14-17", _each_layer),  # the rows of LAYERS
)  # fmt: skip
"""The annotations of one pod."""

SLICES: Final[tuple[Row[AnnotatedPodSet], ...]] = (
    Rule(
        "topology 21", _INVALID, "must not be greater than pod set count {count}",
        _larger_than_all,
    ),
    Rule(
        "topology 22", _INVALID,
        "must divide pod set count {count}: pods that fill no whole slice could never start",
        _remainder,
    ),
)  # fmt: skip
"""The slices of one pod set; the second row is of ours (ADR 0270)."""

GROUPS: Final[tuple[Row[Sequence[AnnotatedPodSet]], ...]] = (
    Rule(
        "topology 18", _INVALID,
        "can only define groups of exactly 2 pod sets, got: {count} pod set(s)",
        _no_pair,
    ),
    Rule(
        "topology 19", _INVALID,
        "can only define groups where at least one pod set has only 1 replica, got: {first}"
        " replica(s) and {second} replica(s) in the group",
        _no_leader,
    ),
    Rule(
        "topology 20", _INVALID,
        f"must specify '{REQUIRED_TOPOLOGY}' or '{PREFERRED_TOPOLOGY}' topology consistent with"
        " '{other}' in group '{group}'",
        _apart,
    ),
)  # fmt: skip
"""The pod sets of an owner that are in one group."""


def errors(annotations: Annotations) -> list[FieldError]:
    """Return the broken rules of the topology annotations of one pod."""
    if not any(key in annotations for key in KEYS):
        return []
    return rule_checks.errors(ANNOTATIONS, annotations)


def errors_between(pod_sets: Iterable[AnnotatedPodSet]) -> list[FieldError]:
    """Return the broken rules about the counts of pod sets, and about pod sets together."""
    errors_: list[FieldError] = []
    groups: dict[str, list[AnnotatedPodSet]] = {}
    for pod_set in pod_sets:
        if pod_set.is_counted:
            errors_ += rule_checks.errors(SLICES, pod_set)
        if pod_set.group is not None:
            groups.setdefault(pod_set.group, []).append(pod_set)
    for group in groups.values():
        errors_ += rule_checks.errors(GROUPS, group)
    return errors_
