"""Rules of the annotations that ask for a topology.

Source: kueue pkg/controller/jobframework/tas_validation.go.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from admission.base import names
from admission.policy import fielderrors, syntax
from admission.policy.fielderrors import FieldError, FieldPath

_PREFIX: Final = f"{names.KUEUE_GROUP}/podset-"
REQUIRED: Final = f"{_PREFIX}required-topology"
PREFERRED: Final = f"{_PREFIX}preferred-topology"
UNCONSTRAINED: Final = f"{_PREFIX}unconstrained-topology"
SLICE_REQUIRED: Final = f"{_PREFIX}slice-required-topology"
SLICE_SIZE: Final = f"{_PREFIX}slice-size"
SLICE_CONSTRAINTS: Final = f"{_PREFIX}slice-required-topology-constraints"
GROUP_NAME: Final = f"{_PREFIX}group-name"

KEYS: Final = (
    REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_REQUIRED, SLICE_SIZE, SLICE_CONSTRAINTS, GROUP_NAME,
)  # fmt: skip
PATH: Final = FieldPath.of("metadata", "annotations")

_EXCLUSIVE: Final = (REQUIRED, PREFERRED, UNCONSTRAINED)
_GO_BOOLEANS: Final = frozenset(
    ["1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False"]
)
_MAX_LAYERS: Final = 3

Annotations = Mapping[str, str]


class Layer(msgspec.Struct, frozen=True):
    """One layer of sliced topology constraints."""

    topology: str = ""
    size: int = 0


_LAYERS: Final = msgspec.json.Decoder(tuple[Layer, ...])


def errors(annotations: Annotations) -> list[FieldError]:
    """Broken rules of the topology annotations of one pod."""
    if not any(key in annotations for key in KEYS):
        return []
    return [
        *_exclusive(annotations),
        *_values(annotations),
        *_slices(annotations),
        *_group(annotations),
        *_layers(annotations),
    ]


def _exclusive(annotations: Annotations) -> list[FieldError]:
    if sum(key in annotations for key in _EXCLUSIVE) <= 1:
        return []
    keys = ", ".join(f'"{key}"' for key in _EXCLUSIVE)
    rule = f"must not contain more than one topology annotation: [{keys}]"
    shown: dict[str, Any] = {key: annotations[key] for key in sorted(annotations)}
    return [fielderrors.invalid(PATH, shown, rule)]


def _values(annotations: Annotations) -> list[FieldError]:
    found: list[FieldError] = []
    for key in (REQUIRED, PREFERRED, SLICE_REQUIRED):
        if key in annotations:
            found += syntax.label_key(PATH.key(key), annotations[key])
    unconstrained = annotations.get(UNCONSTRAINED)
    if unconstrained is not None and unconstrained not in _GO_BOOLEANS:
        path = PATH.key(UNCONSTRAINED)
        found.append(fielderrors.invalid(path, unconstrained, "must be a boolean value"))
    return found


def _slices(annotations: Annotations) -> list[FieldError]:
    path, size = PATH.key(SLICE_SIZE), annotations.get(SLICE_SIZE)
    if size is None:
        rule = f"must be set when '{SLICE_REQUIRED}' is specified"
        return [fielderrors.required(path, rule)] if SLICE_REQUIRED in annotations else []
    found = []
    if SLICE_REQUIRED not in annotations and SLICE_CONSTRAINTS not in annotations:
        rule = f"may not be set when '{SLICE_REQUIRED}' is not specified"
        found.append(fielderrors.forbidden(path, rule))
    value = syntax.parse_integer(size, bits=32)
    if isinstance(value, str):
        found.append(fielderrors.invalid(path, size, "must be a numeric value"))
    elif value < 1:
        found.append(fielderrors.invalid(path, size, "must be greater than or equal to 1"))
    return found


def _group(annotations: Annotations) -> list[FieldError]:
    name = annotations.get(GROUP_NAME)
    if name is None:
        return []
    path = PATH.key(GROUP_NAME)
    found = []
    if isinstance(syntax.parse_integer(name), int):
        found.append(fielderrors.invalid(path, name, "must not be a number"))
    found += [
        fielderrors.forbidden(path, f"may not be set when '{key}' is specified")
        for key in (SLICE_SIZE, SLICE_REQUIRED)
        if key in annotations
    ]
    if REQUIRED not in annotations and PREFERRED not in annotations:
        rule = f"may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is specified"
        found.append(fielderrors.forbidden(path, rule))
    return found


def _layers(annotations: Annotations) -> list[FieldError]:
    text = annotations.get(SLICE_CONSTRAINTS)
    if text is None:
        return []
    path = PATH.key(SLICE_CONSTRAINTS)
    found = [
        fielderrors.forbidden(path, f"may not be set when '{key}' is specified")
        for key in (SLICE_REQUIRED, SLICE_SIZE, GROUP_NAME)
        if key in annotations
    ]
    try:
        layers = _LAYERS.decode(text)
    except msgspec.DecodeError as error:
        return [*found, fielderrors.invalid(path, text, f"must be a JSON list of layers: {error}")]
    if not 1 <= len(layers) <= _MAX_LAYERS:
        rule = "topology constraints must contain between 1 and 3 entries"
        return [*found, fielderrors.invalid(path, text, rule)]
    for index, layer in enumerate(layers):
        found += _layer(path.index(index), layer, layers[:index])
    return found


def _layer(path: FieldPath, layer: Layer, outer: tuple[Layer, ...]) -> list[FieldError]:
    found = syntax.label_key(path.child("topology"), layer.topology)
    if any(layer.topology == other.topology for other in outer):
        found.append(fielderrors.duplicate(path.child("topology"), layer.topology))
    if layer.size < 1:
        rule = "must be greater than or equal to 1"
        found.append(fielderrors.invalid(path.child("size"), layer.size, rule))
    elif outer and outer[-1].size % layer.size:
        rule = f"must evenly divide the parent layer size {outer[-1].size}"
        found.append(fielderrors.invalid(path.child("size"), layer.size, rule))
    return found
