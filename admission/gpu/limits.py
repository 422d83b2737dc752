"""The API server's LimitRanger as a pure function: same defaults, same verdict, same reasons.

The plugin walks Go maps, so the order of its reasons is random; here they are sorted. It stops
at the first LimitRange that fails; here every one is checked.

Source: kubernetes v1.36 plugin/pkg/admission/limitranger/admission.go,
pkg/apis/core/v1/defaults.go (SetDefaults_LimitRangeItem, SetDefaults_Pod).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from admission.gpu import quantities
from admission.gpu.quantities import Quantity, ResourceList

CONTAINER: Final = "Container"
POD: Final = "Pod"
ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MAX_MILLI: Final = (2**63 - 1) // 1000
_POD_LEVEL: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitItem:
    """One item of a LimitRange.

    Attributes:
        type: ``Container``, ``Pod`` or ``PersistentVolumeClaim``.
        min: least request, and least limit where there is one.
        max: most limit, and most request where there is one.
        default: limit of a container that has none.
        default_request: request of a container that has none.
        ratio: most limit per request.
    """

    type: str
    min: ResourceList = field(default_factory=dict)
    max: ResourceList = field(default_factory=dict)
    default: ResourceList = field(default_factory=dict)
    default_request: ResourceList = field(default_factory=dict)
    ratio: ResourceList = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """A LimitRange.

    Attributes:
        name: of the object.
        items: in its order.
        annotations: of the object; ours hold limits on virtual resources.
    """

    name: str
    items: tuple[LimitItem, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container's resources, with the quantities as written.

    Attributes:
        name: of the container.
        is_init: whether it stands among the init containers.
        is_sidecar: whether it is an init container that restarts always.
        requests: by resource.
        limits: by resource.
    """

    name: str
    is_init: bool = False
    is_sidecar: bool = False
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What LimitRanger looks at in a pod.

    Attributes:
        containers: init containers and containers, each in its order; not ephemeral ones.
        requests: pod-level requests (KEP-2837); count for cpu and memory only.
        limits: pod-level limits, alike.
    """

    containers: tuple[Container, ...]
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violations:
    """What one LimitRange has against a pod.

    Attributes:
        limit_range: its name.
        reasons: in the API server's words, each once, sorted.
    """

    limit_range: str
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """The reasons joined as the API server joins them."""
        return self.reasons[0] if len(self.reasons) == 1 else f"[{', '.join(self.reasons)}]"


def item(
    type_: str,
    *,
    min_: Mapping[str, str | int] | None = None,
    max_: Mapping[str, str | int] | None = None,
    default: Mapping[str, str | int] | None = None,
    default_request: Mapping[str, str | int] | None = None,
    ratio: Mapping[str, str | int] | None = None,
) -> LimitItem:
    """An item from texts, as it stands in a manifest (not defaulted).

    Raises:
        InvalidValueError: a value is no quantity.
    """
    return LimitItem(
        type=type_,
        min=quantities.parse_list(min_),
        max=quantities.parse_list(max_),
        default=quantities.parse_list(default),
        default_request=quantities.parse_list(default_request),
        ratio=quantities.parse_list(ratio),
    )


def defaulted(limit: LimitItem) -> LimitItem:
    """What the API server stores: ``default`` from ``max``, ``defaultRequest`` from the rest.

    Items of other types than Container are stored as they are. Idempotent.
    """
    if limit.type != CONTAINER:
        return limit
    default = {**limit.max, **limit.default}
    return replace(
        limit, default=default, default_request={**limit.min, **default, **limit.default_request}
    )


def copy_limits(container: Container) -> Container:
    """Requests that are missing become the limits, as when the API server decodes a pod.

    It does so before any LimitRange is looked at, and never for a pod template.
    """
    return replace(container, requests={**container.limits, **container.requests})


def fill(pod: Pod, limit_range: LimitRange) -> tuple[Pod, str]:
    """The pod with a LimitRange's defaults where keys are missing, and the annotation's text.

    A key with the amount 0 is not missing. The text is empty if nothing was filled in; the last
    LimitRange that fills something in overwrites the annotation.
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    for limit in limit_range.items:
        if limit.type == CONTAINER:
            requests.update(limit.default_request)
            limits.update(limit.default)
    notes: dict[str, list[str]] = {}
    filled = []
    for container in pod.containers:
        notes[container.name] = _notes(container, requests, limits)
        filled.append(
            replace(
                container,
                requests={**requests, **container.requests},
                limits={**limits, **container.limits},
            )
        )
    ordered = sorted(pod.containers, key=lambda container: container.is_init)
    texts = [note for container in ordered for note in notes[container.name]]
    text = f"LimitRanger plugin set: {'; '.join(texts)}" if texts else ""
    return replace(pod, containers=tuple(filled)), text


def fill_all(pod: Pod, ranges: Iterable[LimitRange]) -> tuple[Pod, str]:
    """As ``fill`` for several LimitRanges in turn; the first that offers a default wins."""
    annotation = ""
    for limit_range in ranges:
        pod, text = fill(pod, limit_range)
        annotation = text or annotation
    return pod, annotation


def check(pod: Pod, limit_range: LimitRange) -> tuple[str, ...]:
    """All reasons why one LimitRange forbids the pod, each once, sorted; empty = allowed."""
    reasons: set[str] = set()
    for limit in limit_range.items:
        if limit.type == CONTAINER:
            for container in pod.containers:
                reasons.update(_against(limit, container.requests, container.limits))
        elif limit.type == POD:
            requests = _total(pod, lambda container: container.requests, pod.requests)
            limits = _total(pod, lambda container: container.limits, pod.limits)
            reasons.update(_against(limit, requests, limits))
    return tuple(sorted(reasons))


def check_all(pod: Pod, ranges: Iterable[LimitRange]) -> tuple[Violations, ...]:
    """What each LimitRange has against the pod, by name; allowing ones are left out."""
    found = (
        Violations(limit_range=limit_range.name, reasons=check(pod, limit_range))
        for limit_range in sorted(ranges, key=lambda limit_range: limit_range.name)
    )
    return tuple(violations for violations in found if violations.reasons)


def _notes(container: Container, requests: ResourceList, limits: ResourceList) -> list[str]:
    kind = "init container" if container.is_init else "container"
    notes = []
    for what, defaults, present in (
        ("request", requests, container.requests),
        ("limit", limits, container.limits),
    ):
        added = sorted(set(defaults) - set(present))
        if added:
            notes.append(f"{', '.join(added)} {what} for {kind} {container.name}")
    return notes


def _against(limit: LimitItem, requests: ResourceList, limits: ResourceList) -> set[str]:
    reasons = set()
    for rule, bounds in ((_min, limit.min), (_max, limit.max), (_ratio, limit.ratio)):
        for resource, bound in bounds.items():
            reason = rule(
                limit.type, resource, bound, requests.get(resource), limits.get(resource)
            )
            if reason:
                reasons.add(reason)
    return reasons


def _comparable(
    request: Quantity | None, limit: Quantity | None, bound: Quantity
) -> tuple[int, int, int]:
    """All three in milli, or in whole units if one is too large for milli; missing = 0."""
    zero = Quantity(nano=0)
    parts = (request or zero, limit or zero, bound)
    if all(part.value <= _MAX_MILLI for part in parts):
        return parts[0].milli, parts[1].milli, parts[2].milli
    return parts[0].value, parts[1].value, parts[2].value


def _min(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    asked, limited, least = _comparable(request, limit, bound)
    text = f"minimum {resource} usage per {kind} is {bound.text}"
    if request is None:
        return f"{text}.  No request is specified"
    if asked < least:
        return f"{text}, but request is {request.text}"
    if limit is not None and limited < least:
        return f"{text}, but limit is {limit.text}"
    return ""


def _max(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    asked, limited, most = _comparable(request, limit, bound)
    text = f"maximum {resource} usage per {kind} is {bound.text}"
    if limit is None:
        return f"{text}.  No limit is specified"
    if limited > most:
        return f"{text}, but limit is {limit.text}"
    if request is not None and asked > most:
        return f"{text}, but request is {request.text}"
    return ""


def _ratio(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    asked, limited, _ = _comparable(request, limit, bound)
    text = f"{resource} max limit to request ratio per {kind} is {bound.text}"
    if request is None or asked == 0:
        return f"{text}, but no request is specified or request is 0"
    if limit is None or limited == 0:
        return f"{text}, but no limit is specified or limit is 0"
    # In floating point like the API server's, whose verdict this must equal to the last bit.
    provided = limited / asked
    most = float(bound.value)
    observed = provided
    if bound.value <= _MAX_MILLI:
        observed, most = provided * 1000, float(bound.milli)
    return f"{text}, but provided ratio is {provided:.6f}" if observed > most else ""


def _total(
    pod: Pod, amounts: Callable[[Container], ResourceList], pod_level: ResourceList
) -> dict[str, Quantity]:
    """The pod's aggregate; a resource is missing only if every container misses it.

    Source: KEP-753. Kubernetes keeps the form of the first quantity that is not 0, regular
    containers first; the message quotes it.
    """
    running: dict[str, Quantity] = {}
    for container in pod.containers:
        if not container.is_init:
            _add(running, amounts(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod.containers:
        if not container.is_init:
            continue
        use = amounts(container)
        # Sidecars only add up, so the peak of a resource that is not touched here holds.
        if container.is_sidecar:
            _add(running, use)
            _add(sidecars, use)
            _raise(peak, {name: sidecars[name] for name in use})
        else:
            _raise(
                peak,
                {n: one.plus(sidecars[n]) if n in sidecars else one for n, one in use.items()},
            )
    _raise(running, peak)
    running.update({name: pod_level[name] for name in _POD_LEVEL if name in pod_level})
    return running


def _add(into: dict[str, Quantity], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        into[name] = into[name].plus(amount) if name in into else amount


def _raise(into: dict[str, Quantity], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        if name not in into or amount.nano > into[name].nano:
            into[name] = amount
