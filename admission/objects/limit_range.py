"""LimitRanges: what the API server makes of them, and what else a namespace limits with them.

The module has five parts:

* the LimitRange as a value, read from the object;
* what the API server's LimitRanger plugin does to a pod: defaults, verdict, reasons. It walks Go
  maps, so the order of its reasons is random, and it stops at the first LimitRange that fails.
  Here the reasons are sorted, and every LimitRange is checked;
* what Kueue demands of the pod templates of a Workload;
* what is wrong or dangerous in a LimitRange object: the API server accepts a GPU ``max`` and
  turns it into a default of every container;
* limits on GPU memory and GPU slices. They cannot stand in the spec of a LimitRange, where a
  ``max`` becomes a default of every container, so they are its annotations:
  ``gpu-admission.dev/max-gpu-memory``, ``min-gpu-memory`` and ``default-gpu-memory`` limit one
  container, ``pod-max-gpu-memory`` and ``pod-min-gpu-memory`` the pod; the same with
  ``gpu-slices``. Amounts are equivalents: two 3g.40gb are 80Gi.

Source: kubernetes v1.36 plugin/pkg/admission/limitranger/admission.go,
pkg/apis/core/v1/defaults.go (SetDefaults_LimitRangeItem),
pkg/apis/core/validation/validation.go (ValidateLimitRange); kueue pkg/util/limitrange and
pkg/workload/resources.go (AdjustResources, ValidateResources, ValidateLimitRange).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from admission.base import names, pod_resources, quantity
from admission.base.errors import InvalidValueError
from admission.base.pod_resources import Container, Pod
from admission.gpu import quantities, resources
from admission.gpu.findings import Finding
from admission.gpu.products import Cost
from admission.gpu.quantities import NANO, Quantity, ResourceList
from admission.gpu.rewrite import LimitedNames
from admission.objects import pods, views
from admission.objects.pods import Nanos

CONTAINER: Final = "Container"
POD: Final = "Pod"
ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MAX_MILLI: Final = (2**63 - 1) // 1000


# ----------------------------------------------------------------------------------- the object


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
class ParsedLimitRange:
    """A LimitRange.

    Attributes:
        name: of the object.
        items: its items, in order.
        annotations: of the object; ours hold limits on virtual resources.
    """

    name: str
    items: tuple[LimitItem, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)


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


def read(ranges: Iterable[views.LimitRange]) -> tuple[ParsedLimitRange, ...]:
    """LimitRanges as stored, that is with the API server's defaults in their items.

    Raises:
        InvalidValueError: an amount is no quantity; the API server stores none such.
    """
    return tuple(_limit_range(view) for view in ranges)


def _limit_range(view: views.LimitRange) -> ParsedLimitRange:
    return ParsedLimitRange(
        name=view.metadata.name,
        items=tuple(
            item(
                limit.type,
                min_=limit.min,
                max_=limit.max,
                default=limit.default,
                default_request=limit.default_request,
                ratio=limit.max_limit_request_ratio,
            )
            for limit in view.spec.limits or ()
        ),
        annotations=view.metadata.annotations or {},
    )


def defaulted(limit: LimitItem) -> LimitItem:
    """Return the item as the API server stores it.

    ``default`` from ``max``, ``defaultRequest`` from the rest.

    Items of other types than Container are stored as they are. Idempotent.
    """
    if limit.type != CONTAINER:
        return limit
    default = {**limit.max, **limit.default}
    return replace(
        limit, default=default, default_request={**limit.min, **default, **limit.default_request}
    )


def as_written(stored: ParsedLimitRange) -> ParsedLimitRange:
    """The LimitRange without what the API server made of a ``max`` or ``min`` on its own."""
    return replace(stored, items=tuple(map(_as_written, stored.items)))


def _as_written(item: LimitItem) -> LimitItem:
    default = {
        name: amount for name, amount in item.default.items() if item.max.get(name) != amount
    }
    request = {
        name: amount
        for name, amount in item.default_request.items()
        if amount not in (item.default.get(name), item.min.get(name))
    }
    return replace(item, default=default, default_request=request)


# --------------------------------------------------------------------- what LimitRanger does


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


def fill(pod: Pod[Quantity], limit_range: ParsedLimitRange) -> tuple[Pod[Quantity], str]:
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


def fill_all(pod: Pod[Quantity], ranges: Iterable[ParsedLimitRange]) -> tuple[Pod[Quantity], str]:
    """Return the result of `fill` for several LimitRanges; the first with a default wins."""
    annotation = ""
    for limit_range in ranges:
        pod, text = fill(pod, limit_range)
        annotation = text or annotation
    return pod, annotation


def check(pod: Pod[Quantity], limit_range: ParsedLimitRange) -> tuple[str, ...]:
    """All reasons why one LimitRange forbids the pod, each once, sorted; empty = allowed."""
    reasons: set[str] = set()
    for limit in limit_range.items:
        if limit.type == CONTAINER:
            for container in pod.containers:
                reasons.update(_against(limit, container.requests, container.limits))
        elif limit.type == POD:
            requests, limits = (
                pod_resources.without_overhead(
                    pod, amounts, pod_resources.is_pod_level_for_limit_range
                )
                for amounts in (
                    lambda amounts_of: amounts_of.requests,
                    lambda amounts_of: amounts_of.limits,
                )
            )
            reasons.update(_against(limit, requests, limits))
    return tuple(sorted(reasons))


def check_all(pod: Pod[Quantity], ranges: Iterable[ParsedLimitRange]) -> tuple[Violations, ...]:
    """Return the rules that the pod breaks, for each LimitRange that it does not satisfy."""
    findings = (
        Violations(limit_range=limit_range.name, reasons=check(pod, limit_range))
        for limit_range in sorted(ranges, key=lambda limit_range: limit_range.name)
    )
    return tuple(violations for violations in findings if violations.reasons)


def _notes(
    container: Container[Quantity], requests: ResourceList, limits: ResourceList
) -> list[str]:
    kind = "init container" if container.is_init else "container"
    notes = []
    for member, defaults, present in (
        ("request", requests, container.requests),
        ("limit", limits, container.limits),
    ):
        added = sorted(set(defaults) - set(present))
        if added:
            notes.append(f"{', '.join(added)} {member} for {kind} {container.name}")
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
    requested, limited, lowest = _comparable(request, limit, bound)
    text = f"minimum {resource} usage per {kind} is {bound.text}"
    if request is None:
        return f"{text}.  No request is specified"
    if requested < lowest:
        return f"{text}, but request is {request.text}"
    if limit is not None and limited < lowest:
        return f"{text}, but limit is {limit.text}"
    return ""


def _max(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    requested, limited, highest = _comparable(request, limit, bound)
    text = f"maximum {resource} usage per {kind} is {bound.text}"
    if limit is None:
        return f"{text}.  No limit is specified"
    if limited > highest:
        return f"{text}, but limit is {limit.text}"
    if request is not None and requested > highest:
        return f"{text}, but request is {request.text}"
    return ""


def _ratio(
    kind: str, resource: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    requested, limited, _ = _comparable(request, limit, bound)
    text = f"{resource} max limit to request ratio per {kind} is {bound.text}"
    if request is None or requested == 0:
        return f"{text}, but no request is specified or request is 0"
    if limit is None or limited == 0:
        return f"{text}, but no limit is specified or limit is 0"
    # In floating point like the API server's, whose verdict this must equal to the last bit.
    provided = limited / requested
    highest = float(bound.value)
    observed = provided
    if bound.value <= _MAX_MILLI:
        observed, highest = provided * 1000, float(bound.milli)
    return f"{text}, but provided ratio is {provided:.6f}" if observed > highest else ""


# ------------------------------------------------------------- what Kueue demands of Workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSummary:
    """What the LimitRange items of one type say, in units of 1e-9; a missing key is no bound."""

    maximum: Nanos = field(default_factory=dict)
    minimum: Nanos = field(default_factory=dict)
    limit: Nanos = field(default_factory=dict)
    request: Nanos = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What all LimitRanges of a namespace say about containers and about pods."""

    container: ItemSummary = ItemSummary()
    pod: ItemSummary = ItemSummary()


NO_LIMITS: Final = Summary()


def summarize(limit_ranges: Iterable[views.LimitRange]) -> Summary:
    """Return the LimitRanges of a namespace as one: the tightest bounds, the first defaults.

    Args:
        limit_ranges: the LimitRanges, in the order that decides which default counts.

    Raises:
        InvalidValueError: a quantity cannot be read; the rule names the field.
    """
    items = [limit for limit_range in limit_ranges for limit in limit_range.spec.limits or ()]
    if not items:
        return NO_LIMITS
    return Summary(
        container=_summary(limit for limit in items if limit.type == CONTAINER),
        pod=_summary(limit for limit in items if limit.type == POD),
    )


def _summary(items: Iterable[views.LimitRangeItem]) -> ItemSummary:
    maximum: dict[str, int] = {}
    minimum: dict[str, int] = {}
    limit: dict[str, int] = {}
    request: dict[str, int] = {}
    for item in items:
        for resource, value in pods.nanos(item.max, "spec.limits.max").items():
            maximum[resource] = min(value, maximum.get(resource, value))
        for resource, value in pods.nanos(item.min, "spec.limits.min").items():
            minimum[resource] = max(value, minimum.get(resource, value))
        limit = {**pods.nanos(item.default, "spec.limits.default"), **limit}
        request = {**pods.nanos(item.default_request, "spec.limits.defaultRequest"), **request}
    return ItemSummary(maximum=maximum, minimum=minimum, limit=limit, request=request)


def with_defaults(template: Pod[int], summary: Summary = NO_LIMITS) -> Pod[int]:
    """Return a pod template as its pods will be stored: with all defaults of the API server.

    A missing request becomes the container's own limit before any LimitRange offers a default,
    as the API server decodes a pod before it calls LimitRanger. Differs from Kueue, which asks
    the LimitRange first and then charges less than the pods request (ADR 0031).
    """
    pod = pod_resources.with_default_requests(template)
    if summary is NO_LIMITS:
        return pod
    bounds = summary.container
    return replace(
        pod,
        containers=tuple(
            replace(
                container,
                requests={**bounds.request, **container.requests},
                limits={**bounds.limit, **container.limits},
            )
            for container in pod.containers
        ),
    )


def requests_above_limits(pod: Pod[int], path: str) -> tuple[str, ...]:
    """Requests above their limits, one text per container; none when all is well.

    Args:
        pod: the pod after all adjustments.
        path: field path of the pod spec, such as ``spec.podSets[0].template.spec``.
    """
    rule = "requests must not exceed its limits"
    return tuple(
        _invalid(place, names, rule)
        for place, item_ in _places(pod, path, pod_level=True)
        if (names := _above(item_.requests, item_.limits))
    )


def out_of_bounds(pod: Pod[int], summary: Summary, path: str) -> tuple[str, ...]:
    """Requests outside the bounds of the namespace; arguments as in ``requests_above_limits``."""
    if summary is NO_LIMITS:
        return ()
    messages: list[str] = []
    for place, item_ in _places(pod, path, pod_level=False):
        largest, smallest = _either(max, item_), _either(min, item_)
        messages += _bounded(place, largest, smallest, summary.container)
    total = pod_resources.requests(pod)
    return (*messages, *_bounded(path, total, total, summary.pod))


def _bounded(place: str, largest: Nanos, smallest: Nanos, bounds: ItemSummary) -> Iterator[str]:
    if names := _above(largest, bounds.maximum):
        yield _invalid(place, names, "requests must not be above the limitRange max")
    if names := _above(bounds.minimum, smallest):
        yield _invalid(place, names, "requests must not be below the limitRange min")


def _either(choose: Callable[[int, int], int], item_: Container[int]) -> dict[str, int]:
    """Of request and limit the larger or smaller, where there are both."""
    both = {**item_.limits, **item_.requests}
    return {r: choose(v, item_.limits.get(r, v)) for r, v in both.items()}


def _places(pod: Pod[int], path: str, *, pod_level: bool) -> Iterator[tuple[str, Container[int]]]:
    counts = {"initContainers": 0, "containers": 0}
    for container in pod.containers:
        member = "initContainers" if container.is_init else "containers"
        yield f"{path}.{member}[{counts[member]}]", container
        counts[member] += 1
    if pod_level and pod.pod_level is not None:
        yield f"{path}.resources", pod.pod_level


def _above(values: Nanos, bounds: Nanos) -> list[str]:
    """Names of the resources on both sides whose value is above the bound."""
    return sorted(name for name, value in values.items() if value > bounds.get(name, value))


def _invalid(place: str, names: list[str], rule: str) -> str:
    shown = ",".join(f'"{name}"' for name in names)
    return f"{place}: Invalid value: [{shown}]: {rule}"


# ------------------------------------------------------------------------ faults and traps


def invalid(limit_range: ParsedLimitRange) -> tuple[Finding, ...]:
    """Return why the API server refuses the object, in its words; sorted by field.

    Items are to be given as written; they are defaulted here as the API server does first.
    """
    findings: list[Finding] = []
    seen: set[str] = set()
    for index, raw in enumerate(limit_range.items):
        path = f"spec.limits[{index}]"
        if raw.type in seen:
            findings.append(Finding(rule="T9", field=f"{path}.type", text=_duplicate(raw.type)))
        seen.add(raw.type)
        if raw.type == POD:
            findings += _pod_defaults(path, raw)
        findings += _order(path, defaulted(raw))
    return tuple(sorted(findings, key=lambda finding: (finding.field, finding.text)))


def traps(limit_range: ParsedLimitRange) -> tuple[Finding, ...]:
    """Return the effects of a valid LimitRange on containers without GPUs; items as written."""
    traps_ = []
    for index, raw in enumerate(limit_range.items):
        for resource in _gpu_names(raw):
            finding = _trap(f"spec.limits[{index}]", raw, resource)
            if finding is not None:
                traps_.append(finding)
    return tuple(traps_)


def limited_names(ranges: Iterable[ParsedLimitRange]) -> LimitedNames:
    """The GPU names that a rewrite must keep at 0, and those it must not take away.

    A ``min`` or a ratio fails on a container (or pod) without the name, and on 0.
    """
    named: set[str] = set()
    floors: dict[str, str] = {}
    for limit_range in ranges:
        for raw in limit_range.items:
            if raw.type not in {CONTAINER, POD}:
                continue
            stored = defaulted(raw)
            named.update(stored.max, stored.default, stored.default_request)
            for member, bounds in (("min", stored.min), ("maxLimitRequestRatio", stored.ratio)):
                for name, bound in bounds.items():
                    floors.setdefault(name, f"{member} {bound.text} in {limit_range.name}")
    return LimitedNames(
        named=frozenset(filter(resources.is_device, named)), floors=_only_gpu(floors)
    )


def _duplicate(kind: str) -> str:
    return f'Duplicate value: "{kind}": put all bounds of a type into one item'


def _pod_defaults(path: str, limit: LimitItem) -> Iterator[Finding]:
    text = "Forbidden: may not be specified when `type` is 'Pod'"
    if limit.default:
        yield Finding(rule="pod-default", field=f"{path}.default", text=text)
    if limit.default_request:
        yield Finding(rule="pod-default", field=f"{path}.defaultRequest", text=text)


def _order(path: str, limit: LimitItem) -> Iterator[Finding]:
    """Order of min, defaultRequest, default and max; ratios; equal defaults for devices."""
    has_defaults = limit.type != POD
    default = limit.default if has_defaults else {}
    request = limit.default_request if has_defaults else {}
    pairs = (
        ("min", limit.min, limit.max, "min value {} is greater than max value {}"),
        (
            "defaultRequest",
            limit.min,
            request,
            "min value {} is greater than default request value {}",
        ),
        (
            "defaultRequest",
            request,
            limit.max,
            "default request value {} is greater than max value {}",
        ),
        (
            "defaultRequest",
            request,
            default,
            "default request value {} is greater than default limit value {}",
        ),
        ("default", limit.min, default, "min value {} is greater than default value {}"),
        ("default", default, limit.max, "default value {} is greater than max value {}"),
    )
    for where, low, high, text in pairs:
        for name in sorted(low.keys() & high.keys()):
            if low[name].nano > high[name].nano:
                shown = text.format(low[name].text, high[name].text)
                yield Finding(rule="order", field=f"{path}.{where}[{name}]", text=shown)
    yield from _ratios(path, limit)
    for name in sorted(default.keys() & request.keys()):
        if _is_overcommittable(name) or default[name].nano == request[name].nano:
            continue
        text = (
            f"default value {default[name].text} must equal to defaultRequest value"
            f" {request[name].text} in {name}"
        )
        yield Finding(rule="unequal", field=f"{path}.defaultRequest[{name}]", text=text)


def _ratios(path: str, limit: LimitItem) -> Iterator[Finding]:
    for name, ratio in sorted(limit.ratio.items()):
        field = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio.nano < NANO:
            yield Finding(rule="ratio", field=field, text=f"ratio {ratio.text} is less than 1")
        if name in limit.min and name in limit.max:
            text = _above_span(ratio, limit.min[name], limit.max[name])
            if text:
                yield Finding(rule="ratio", field=field, text=text)


def _above_span(ratio: Quantity, lowest: Quantity, highest: Quantity) -> str:
    """In floating point, as the API server computes it; a min of 0 gives no bound."""
    small = all(part.value < _MAX_MILLI for part in (ratio, lowest, highest))
    value = ratio.milli / 1000 if small else float(ratio.value)
    low, high = (lowest.milli, highest.milli) if small else (lowest.value, highest.value)
    if low == 0 or value <= high / low:
        return ""
    return f"ratio {ratio.text} is greater than max/min = {high / low:.6f}"


def _trap(path: str, raw: LimitItem, resource: str) -> Finding | None:
    """The worst consequence of one item for one resource."""
    if raw.type == POD:
        field = f"{path}[{resource}]"
        text = f"type Pod refuses every pod of the namespace that asks for no {resource}"
        return Finding(rule="pod-bound", field=field, text=text)
    if raw.type != CONTAINER:
        return None
    if resource in raw.default or resource in raw.default_request:
        return _default_trap(path, raw, resource)
    if resource in raw.max:
        amount = raw.max[resource].text
        text = (
            f"the API server makes it a default: every container without a {resource} limit,"
            f" sidecars and init containers too, requests {amount}; add default 0 and"
            " defaultRequest 0"
        )
        return Finding(rule="T10", field=f"{path}.max[{resource}]", text=text)
    if resource in raw.min:
        text = (
            "without max and default it gives every container a request and no limit, which the"
            " API server then refuses: Limit must be set for non overcommitable resources"
        )
        return Finding(rule="min-only", field=f"{path}.min[{resource}]", text=text)
    field = f"{path}.maxLimitRequestRatio[{resource}]"
    text = f"refuses every container without {resource}: requests and limits of it are equal"
    return Finding(rule="ratio-only", field=field, text=text)


def _default_trap(path: str, raw: LimitItem, resource: str) -> Finding | None:
    stored = defaulted(raw)
    amount = stored.default_request[resource]
    if amount.nano == 0:
        return None
    text = (
        f"every container without {resource}, sidecars and init containers too, requests"
        f" {amount.text}; set it to 0, and let pods ask"
    )
    return Finding(rule="T11", field=f"{path}.default[{resource}]", text=text)


def _gpu_names(limit: LimitItem) -> list[str]:
    lists = (limit.min, limit.max, limit.default, limit.default_request, limit.ratio)
    return sorted({name for amounts in lists for name in amounts if resources.is_device(name)})


def _only_gpu(floors: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in floors.items() if resources.is_device(name)}


def _is_overcommittable(resource: str) -> bool:
    """Source: pkg/apis/core/helper (IsOvercommitAllowed): native resources, hugepages aside."""
    is_native = "/" not in resource or "kubernetes.io/" in resource
    return is_native and not resource.startswith("hugepages-")


# -------------------------------------------------------------- limits on GPU memory and slices


_PREFIX: Final = names.OWN_DOMAIN + "/"
_MEMORY: Final = names.GPU_MEMORY.removeprefix(_PREFIX)
_SLICES: Final = names.GPU_SLICES.removeprefix(_PREFIX)
_VIRTUAL_KINDS: Final = ("min-", "max-", "default-", "pod-min-", "pod-max-")

VIRTUAL_KEYS: Final = frozenset(
    _PREFIX + kind + unit for kind in _VIRTUAL_KINDS for unit in (_MEMORY, _SLICES)
)
"""Every annotation key that is read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualLimit:
    """One limit.

    Attributes:
        limit_range: name of the object it stands on.
        key: its annotation key.
        kind: ``min``, ``max``, ``default``, ``pod-min`` or ``pod-max``.
        resource: ``gpu-admission.dev/gpu-memory`` (bytes) or ``.../gpu-slices``.
        amount: in the unit of the resource.
    """

    limit_range: str
    key: str
    kind: str
    resource: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualLimits:
    """The virtual limits of a namespace.

    Attributes:
        bounds: sorted by LimitRange and key.
        problems: annotations that cannot be read, sorted alike.
        count_absent: whether a container without GPUs counts as using 0, so that a ``min``
            refuses it; by default limits speak of containers that use GPUs only.
    """

    bounds: tuple[VirtualLimit, ...] = ()
    problems: tuple[Finding, ...] = ()
    count_absent: bool = False


def virtual_limits(
    ranges: Iterable[ParsedLimitRange], *, count_absent: bool = False
) -> VirtualLimits:
    """The virtual limits that a namespace's LimitRanges carry."""
    bounds: list[VirtualLimit] = []
    problems: list[Finding] = []
    for limit_range in sorted(ranges, key=lambda limit_range: limit_range.name):
        for key in sorted(VIRTUAL_KEYS & limit_range.annotations.keys()):
            try:
                bounds.append(_virtual_limit(limit_range.name, key, limit_range.annotations[key]))
            except InvalidValueError as error:
                field = f"metadata.annotations[{key}]"
                text = f"LimitRange {limit_range.name}: {error}"
                problems.append(Finding(rule="virtual-limit", field=field, text=text))
    return VirtualLimits(bounds=tuple(bounds), problems=tuple(problems), count_absent=count_absent)


def default_memory(bounds: VirtualLimits) -> int:
    """Least GPU memory of containers that ask for a GPU and wish for nothing; 0 = no default.

    The first LimitRange by name that has one wins.
    """
    defaults = (b for b in bounds.bounds if b.kind == "default" and b.resource == names.GPU_MEMORY)
    return next((bound.amount for bound in defaults), 0)


def check_virtual(
    containers: Mapping[str, Cost], pod: Cost, bounds: VirtualLimits
) -> tuple[str, ...]:
    """Every limit that the pod breaks, sorted by container, then in the order of the bounds.

    Args:
        containers: equivalents by container name; 0 for containers without GPUs.
        pod: equivalents of the whole pod.
        bounds: of the pod's namespace.
    """
    reasons = [
        reason
        for name, cost in sorted(containers.items())
        for reason in _broken_virtual(cost, bounds, f"container {name}", "")
    ]
    return (*reasons, *_broken_virtual(pod, bounds, "pod", "pod-"))


def _virtual_limit(limit_range: str, key: str, text: str) -> VirtualLimit:
    kind, _, unit = key.removeprefix(_PREFIX).rpartition("-gpu-")
    resource = f"{_PREFIX}gpu-{unit}"
    amount = quantity.to_canonical(resource, text)
    if amount < 0:
        raise InvalidValueError(text, "must not be negative")
    return VirtualLimit(
        limit_range=limit_range, key=key, kind=kind, resource=resource, amount=amount
    )


def _broken_virtual(cost: Cost, bounds: VirtualLimits, subject: str, prefix: str) -> Iterator[str]:
    amounts = {names.GPU_MEMORY: cost.memory_bytes, names.GPU_SLICES: cost.slices}
    if not any(amounts.values()) and not bounds.count_absent:
        return
    for bound in bounds.bounds:
        used = amounts[bound.resource]
        if bound.kind == prefix + "max" and used > bound.amount:
            word = "maximum"
        elif bound.kind == prefix + "min" and used < bound.amount:
            word = "minimum"
        else:
            continue
        yield (
            f"{subject}: {word} {bound.resource} is {show(bound.resource, bound.amount)}"
            f" (LimitRange {bound.limit_range}, annotation {bound.key}),"
            f" but its GPUs are {show(bound.resource, used)}"
        )


def show(resource: str, amount: int) -> str:
    """An amount as messages show it: ``40Gi`` of memory, ``3`` slices."""
    unit = "memory" if resource == names.GPU_MEMORY else resource
    return quantity.in_words(unit, amount)
