"""Rewriting a pod's GPU requests at creation, the only moment at which they can change.

The pod is given the device names of the first flavor, in the queue's order, that can ever hold
it: ``nvidia.com/gpu`` becomes ``nvidia.com/mig-<profile>`` or ``.shared`` where the pod's
annotations or the flavor say so. With a wish for least memory the flavor with the smallest
sufficient devices is taken. Running it again on its own result changes nothing.

Source: Kubernetes validation of extended resources (requests == limits, limits set); container
resources are immutable after creation, also while gated.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from admission.base import names, pod_resources, quantity
from admission.base.errors import InvalidValueError
from admission.gpu import capabilities, choosing, costs, resources
from admission.gpu.capabilities import (
    DeviceKind,
    FlavorCapabilities,
    QueueOffer,
    ResolvedCapabilities,
)
from admission.gpu.catalogue import Catalogue
from admission.gpu.choosing import GpuRequest, RefusalCode, RefusalReason, RequestAnswer
from admission.gpu.products import Cost
from admission.gpu.request_annotations import GpuAnnotations
from admission.gpu.resources import UnitKind

__all__ = [
    "ContainerRequest",
    "ContainerRewrite",
    "FlavorCapabilities",
    "GpuAnnotations",
    "LimitedNames",
    "PodRequest",
    "QueueOffer",
    "Refusal",
    "Rewrite",
    "rewrite",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """What one container asks for.

    Attributes:
        name: of the container.
        is_init: whether it stands among the init containers.
        is_sidecar: whether it is an init container that restarts always.
        requests: canonical amounts by resource; at least the GPU resources.
        limits: alike.
        wish: what the pod's annotations say for it (see ``admission.gpu.request_annotations``).
    """

    name: str
    is_init: bool = False
    is_sidecar: bool = False
    requests: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    wish: GpuAnnotations = field(default_factory=GpuAnnotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What a pod asks for.

    Attributes:
        containers: init containers first, each list in its order in the pod.
        is_gang: whether the pod is one of several that train together.
    """

    containers: tuple[ContainerRequest, ...]
    is_gang: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedNames:
    """Resource names in the LimitRanges of the pod's namespace.

    Attributes:
        named: those that have a default or a max: taken away from a container they would be
            added again, or missed, by the API server, so they stay at 0.
        floors: those with a min or a ratio, which 0 fails: they must not be rewritten. The
            value says which bound (``min 1 in team-limits``).
    """

    named: frozenset[str] = frozenset()
    floors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRewrite:
    """The new resources of one container; amounts hold for requests and limits alike.

    Attributes:
        name: of the container.
        is_init: whether it stands among the init containers.
        requests: all requests after the change.
        limits: all limits after the change.
        amounts: only what changed: new amount by name, 0 = keep the name at 0.
        removed: names to take out of requests and limits.
    """

    name: str
    is_init: bool
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    amounts: Mapping[str, int]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The pod can be held, perhaps under other names.

    Attributes:
        flavor: the flavor whose names were chosen; empty where no flavor covers the request
            (it is left as it is, and waits until one does).
        containers: containers that change, in the pod's order; empty = nothing changes.
        annotations: annotations to add, so that a second run sees the same wish.
        warnings: sentences for the user.
        demand: devices that the pod needs after the change, by name.
    """

    flavor: str
    containers: tuple[ContainerRewrite, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    demand: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The pod cannot be held as it is.

    Attributes:
        reasons: sorted by field, then in the order of the flavors.
    """

    reasons: tuple[RefusalReason, ...]

    @property
    def message(self) -> str:
        """All reasons, as a denial shows them."""
        return "; ".join(_line(reason) for reason in self.reasons)


def rewrite(
    request: PodRequest,
    queue: QueueOffer,
    catalogue: Catalogue,
    limited: LimitedNames | None = None,
) -> Rewrite | Refusal | None:
    """Return the pod's GPU requests in the names of the flavor that is to hold it.

    Return None for a pod that asks for no GPU. A pod that no flavor covers, and that wishes for
    nothing, is left alone: quota may come.
    """
    asks, wrong = _asks(request)
    if wrong:
        return Refusal(reasons=tuple(wrong))
    if not asks:
        return _no_asks(request)
    menus = tuple(capabilities.menu(flavor, catalogue) for flavor in queue.flavors)
    plans, reasons = _plans(request, asks, menus)
    if not plans:
        return _unheld(request, asks, reasons, queue)
    plan = _first_or_least(asks, plans)
    result = _apply(request, plan, limited or LimitedNames())
    if isinstance(result, Refusal):
        return result
    return replace(result, warnings=(*result.warnings, *_doubts(plan, catalogue)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One flavor's answer to the whole pod; ``above`` names what it can never hold."""

    menu: ResolvedCapabilities
    chosen: tuple[RequestAnswer, ...]
    demand: Mapping[str, int]
    cost: Cost
    above: str = ""


def _asks(request: PodRequest) -> tuple[list[GpuRequest], list[RefusalReason]]:
    """Every GPU request of the pod, and what is wrong with the way it is written."""
    asks: list[GpuRequest] = []
    wrong: list[RefusalReason] = []
    for container, path in _paths(request):
        wrong += _broken_core_rules(path, container.requests, container.limits)
        amounts = {**container.requests, **container.limits}
        for name in sorted(amounts):
            where = f"{path}.resources.limits[{name}]"
            try:
                device = resources.parse(name)
            except InvalidValueError as error:
                wrong.append(
                    RefusalReason(code=RefusalCode.UNKNOWN_PROFILE, field=where, text=str(error))
                )
                continue
            if device is None or device.kind is UnitKind.DEVICE_CLASS or amounts[name] <= 0:
                continue
            ask = GpuRequest(
                container=container.name,
                field=where,
                device=device,
                count=amounts[name],
                wish=container.wish,
            )
            asks.append(ask)
    return asks, wrong


def _paths(request: PodRequest) -> Iterator[tuple[ContainerRequest, str]]:
    counts = {True: 0, False: 0}
    for container in request.containers:
        kind = "initContainers" if container.is_init else "containers"
        yield container, f"spec.{kind}[{counts[container.is_init]}]"
        counts[container.is_init] += 1


def _no_asks(request: PodRequest) -> Refusal | None:
    """Refuse a pod whose annotations ask for a GPU that no container requests."""
    wishing = [container.name for container in request.containers if container.wish]
    if not wishing:
        return None
    text = (
        "annotations ask for a GPU, but no container requests one:"
        f" set resources.limits[{names.GPU_RESOURCE}]"
    )
    reason = RefusalReason(code=RefusalCode.NOT_COVERED, field="metadata.annotations", text=text)
    return Refusal(reasons=(reason,))


def _plans(
    request: PodRequest, asks: Sequence[GpuRequest], menus: Iterable[ResolvedCapabilities]
) -> tuple[list[_Plan], list[RefusalReason]]:
    """The flavors that hold the pod, in order, and the reasons of the others."""
    plans: list[_Plan] = []
    reasons: list[RefusalReason] = []
    for menu in menus:
        answers = [choosing.choose(menu, ask) for ask in asks]
        refused = [answer for answer in answers if isinstance(answer, RefusalReason)]
        if refused:
            reasons += refused
            continue
        plan = _plan(request, menu, [a for a in answers if isinstance(a, RequestAnswer)])
        if isinstance(plan, RefusalReason):
            reasons.append(plan)
        else:
            plans.append(plan)
    return plans, reasons


def _plan(
    request: PodRequest, menu: ResolvedCapabilities, chosen: Sequence[RequestAnswer]
) -> _Plan | RefusalReason:
    shares = choosing.too_many_shares(menu, chosen)
    if shares is not None:
        return shares
    by_name = {answer.resource: answer.offer for answer in chosen}
    by_container = _by_container(chosen)
    demand = pod_resources.aggregate(
        (container, _amounts(by_container.get(container.name, ())))
        for container in request.containers
    )
    never = choosing.why_node_never(menu, ((by_name[name], n) for name, n in demand.items()))
    if never:
        where = chosen[0].ask.field
        return RefusalReason(
            code=RefusalCode.NEVER_FITS, field=where, text=never, flavor=menu.flavor.name
        )
    cost = Cost(slices=0, memory_bytes=0)
    for name, count in demand.items():
        offer = by_name[name]
        if offer.cost is not None:
            cost = cost.plus(offer.cost.times(count, offer.replicas))
    above = _above_ceiling(menu.flavor, _counted(demand, cost))
    return _Plan(menu=menu, chosen=tuple(chosen), demand=demand, cost=cost, above=above)


def _by_container(chosen: Iterable[RequestAnswer]) -> dict[str, list[RequestAnswer]]:
    """Return the answers of each container that asks for GPUs, by its name."""
    chosen_by_container: dict[str, list[RequestAnswer]] = {}
    for answer in chosen:
        chosen_by_container.setdefault(answer.ask.container, []).append(answer)
    return chosen_by_container


def _amounts(chosen: Iterable[RequestAnswer]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for answer in chosen:
        amounts[answer.resource] = amounts.get(answer.resource, 0) + answer.ask.count
    return amounts


def _above_ceiling(flavor: FlavorCapabilities, amounts: Mapping[str, int]) -> str:
    """The first resource of which the queue can never give that much; empty if none."""
    above = (n for n, amount in sorted(amounts.items()) if amount > flavor.ceilings.get(n, amount))
    return next(above, "")


def _counted(demand: Mapping[str, int], cost: Cost) -> dict[str, int]:
    """Return the amounts that quota counts for a plan: its devices and their cost."""
    return {**demand, names.GPU_MEMORY: cost.memory_bytes, names.GPU_SLICES: cost.slices}


def _too_big(plan: _Plan) -> str:
    """Of device names the queue's whole tree is asked later; what they are worth, only here."""
    name = plan.above
    asked_text = quantity.from_canonical(name, _counted(plan.demand, plan.cost)[name])
    ceiling = quantity.from_canonical(name, plan.menu.flavor.ceilings[name])
    return (
        f"Too big: asks {asked_text} {name}, flavor {plan.menu.flavor.name} can reach {ceiling}."
        f" Ask for at most {ceiling}, or have the quota raised"
    )


def _first_or_least(asks: Sequence[GpuRequest], plans: Sequence[_Plan]) -> _Plan:
    """The queue's order decides, except between sufficient memories, where the least wins."""
    able = [plan for plan in plans if not plan.above] or list(plans)
    if not any(ask.wish.memory_bytes for ask in asks):
        return able[0]
    order = {plan.menu.flavor.name: index for index, plan in enumerate(able)}
    return min(
        able,
        key=lambda plan: (
            plan.cost.memory_bytes,
            plan.cost.slices,
            order[plan.menu.flavor.name],
        ),
    )


def _unheld(
    request: PodRequest,
    asks: Sequence[GpuRequest],
    reasons: Sequence[RefusalReason],
    queue: QueueOffer,
) -> Rewrite | Refusal:
    """No flavor holds it: refused, unless only quota is missing and nothing was wished for."""
    wished = any(ask.wish for ask in asks)
    if wished and not reasons:
        text = f"queue {queue.name} has no flavors"
        reasons = [RefusalReason(code=RefusalCode.NOT_COVERED, field=asks[0].field, text=text)]
    missing_quota = any(
        reason.code in {RefusalCode.NOT_COVERED, RefusalCode.BAD_FLAVOR} for reason in reasons
    )
    if reasons and (wished or not missing_quota):
        together = _together(reasons, queue)
        return Refusal(reasons=tuple(sorted(together, key=lambda reason: reason.field)))
    devices_wanted = ", ".join(sorted({ask.device.resource for ask in asks}))
    warning = (
        f"Never starts: no flavor of ClusterQueue {queue.name} offers {devices_wanted}. Ask for"
        " what it offers, or have it added"
    )
    amounts: dict[str, dict[str, int]] = {}
    for ask in asks:
        amounts.setdefault(ask.container, {})[ask.device.resource] = ask.count
    demand = pod_resources.aggregate((c, amounts.get(c.name, {})) for c in request.containers)
    return Rewrite(
        flavor="", warnings=(warning, *map(_line, _together(reasons, queue))), demand=demand
    )


def _together(reasons: Sequence[RefusalReason], queue: QueueOffer) -> Iterator[RefusalReason]:
    """Yield the reasons, with one for all flavors where none offers what a field asks for."""
    lacking: dict[tuple[str, str], list[RefusalReason]] = {}
    for reason in reasons:
        if reason.code is RefusalCode.NOT_COVERED and reason.asks:
            lacking.setdefault((reason.field, reason.asks), []).append(reason)
    for reason in reasons:
        alike = lacking.get((reason.field, reason.asks), [])
        if len(alike) < max(2, len(queue.flavors)) or reason not in alike:
            yield reason
        elif reason is alike[0]:
            offers = sorted({name for each in alike for name in each.offers})
            listed = ", ".join(offers) or "no GPUs"
            text = f"ClusterQueue {queue.name} does not offer {reason.asks}: it offers {listed}"
            yield RefusalReason(code=reason.code, field=reason.field, text=text)


def _apply(request: PodRequest, plan: _Plan, limited: LimitedNames) -> Rewrite | Refusal:
    floored = [reason for answer in plan.chosen if (reason := _floored(answer, limited))]
    if floored:
        return Refusal(reasons=tuple(floored))
    changed = []
    by_container = _by_container(plan.chosen)
    for container in request.containers:
        answers = by_container.get(container.name, [])
        if any(answer.resource != answer.ask.device.resource for answer in answers):
            changed.append(_changed(container, answers, limited))
    notes = _warnings(plan.menu, plan.chosen, is_gang=request.is_gang)
    if resources.is_virtual(plan.above):
        notes = (*notes, _too_big(plan))
    idle = (c.name for c in request.containers if c.wish.own and c.name not in by_container)
    notes += tuple(
        f"container {name} requests no GPU: its annotation has no effect" for name in idle
    )
    return Rewrite(
        flavor=plan.menu.flavor.name,
        containers=tuple(changed),
        annotations=_annotations(plan.chosen),
        warnings=notes,
        demand=plan.demand,
    )


def _doubts(plan: _Plan, catalogue: Catalogue) -> tuple[str, ...]:
    """Return why quota may count the pod for more than its GPUs are worth, or not at all."""
    if not plan.menu.flavor.resources & resources.VIRTUAL:
        return ()
    prices = costs.FlavorCosts(menu=plan.menu, catalogue=catalogue)
    try:
        return prices.assumptions(plan.demand)
    except InvalidValueError as error:
        return (error.rule,)


def _floored(answer: RequestAnswer, limited: LimitedNames) -> RefusalReason | None:
    """A name under a LimitRange's min cannot be taken away from a container."""
    name = answer.ask.device.resource
    if answer.resource == name or name not in limited.floors:
        return None
    text = (
        f"cannot be rewritten to {answer.resource}: the namespace's LimitRange sets"
        f" {limited.floors[name]} for {name}; set a minimum with its annotation"
        f" {names.MIN_GPU_MEMORY} instead"
    )
    return RefusalReason(code=RefusalCode.NEVER_FITS, field=answer.ask.field, text=text)


def _changed(
    container: ContainerRequest, answers: Sequence[RequestAnswer], limited: LimitedNames
) -> ContainerRewrite:
    old = {answer.ask.device.resource for answer in answers}
    amounts = _amounts(answers)
    gone = {name for name in old if name not in amounts}
    kept_at_zero = dict.fromkeys(sorted(gone & limited.named), 0)
    removed = tuple(sorted(gone - limited.named))
    changes = {**amounts, **kept_at_zero}
    return ContainerRewrite(
        name=container.name,
        is_init=container.is_init,
        requests=_merged(container.requests, changes, removed),
        limits=_merged(container.limits, changes, removed),
        amounts=changes,
        removed=removed,
    )


def _merged(
    before: Mapping[str, int], changes: Mapping[str, int], removed: Iterable[str]
) -> dict[str, int]:
    gone = set(removed)
    kept = {name: amount for name, amount in before.items() if name not in gone}
    return {**kept, **changes}


def _annotations(chosen: Iterable[RequestAnswer]) -> dict[str, str]:
    """Under the single strategy the new name no longer says the profile: keep it as a wish."""
    return {
        f"{names.MIG_PROFILE}.{answer.ask.container}": answer.offer.profile
        for answer in chosen
        if answer.ask.device.kind is UnitKind.MIG and answer.resource == names.GPU_RESOURCE
    }


def _line(reason: RefusalReason) -> str:
    flavor = f"flavor {reason.flavor}: " if reason.flavor else ""
    return f"{reason.field}: {flavor}{reason.text}"


# ------------------------------------------------------------- the API server's own rules
# Checked before a rewrite, so that a malformed request is refused under the name the user wrote.
# Source: kubernetes v1.36 pkg/apis/core/validation/validation.go
# (ValidateResourceRequirements).


def _broken_core_rules(
    path: str, requests: Mapping[str, int], limits: Mapping[str, int]
) -> Iterator[RefusalReason]:
    """What the API server would refuse in a container's GPU requests, sorted by resource.

    Args:
        path: of the container, such as ``spec.containers[0]``.
        requests: amounts by resource.
        limits: alike. A limit without a request is fine: the request becomes the limit.
    """
    for name in sorted({*requests, *limits}):
        if not resources.is_device(name):
            continue
        for kind, amounts in (("limits", limits), ("requests", requests)):
            if amounts.get(name, 0) < 0:
                text = f'Invalid value: "{amounts[name]}": must be greater than or equal to 0'
                yield _invalid(f"{path}.resources.{kind}[{name}]", text)
        if name not in requests:
            continue
        if name not in limits:
            text = f"Required value: {limit_needed(name)}"
            yield _invalid(f"{path}.resources.limits", text)
        elif requests[name] != limits[name]:
            text = (
                f'Invalid value: "{requests[name]}": must be equal to {name}'
                f" limit of {limits[name]}"
            )
            yield _invalid(f"{path}.resources.requests", text)


def limit_needed(resource: str) -> str:
    """Return the words of Kubernetes for a request of a device without a limit, and what to do."""
    return (
        f"Limit must be set for non overcommitable resources; put {resource} into"
        " resources.limits, with the same amount"
    )


def _invalid(field: str, text: str) -> RefusalReason:
    return RefusalReason(code=RefusalCode.INVALID, field=field, text=text)


# -------------------------------------------------------------------------------- warnings
# What a user should know about a request that is nevertheless allowed.


def _warnings(
    menu: ResolvedCapabilities, chosen: Iterable[RequestAnswer], *, is_gang: bool
) -> tuple[str, ...]:
    """Warnings about a pod's new requests, in the order of the requests, each once."""
    warnings: dict[str, None] = {}
    for answer in chosen:
        for text in (
            _sliced_training(answer, is_gang=is_gang),
            _several_shares(menu, answer),
            _renamed_share(menu, answer),
            _unknown_cut(menu, answer),
            _much_larger(answer),
        ):
            if text:
                warnings[text] = None
    return tuple(warnings)


def _sliced_training(answer: RequestAnswer, *, is_gang: bool) -> str:
    """Instances cannot talk over NVLink or peer-to-peer. Source: NVIDIA MIG User Guide."""
    if answer.offer.grain is not DeviceKind.SLICE or (answer.ask.count == 1 and not is_gang):
        return ""
    asked_for = "a gang" if answer.ask.count == 1 else f"{answer.ask.count} devices"
    return (
        f"container {answer.ask.container}: {asked_for} on MIG instances ({answer.offer.profile})"
        " cannot use NVLink or peer-to-peer; train on whole GPUs or on one larger slice"
    )


def _several_shares(menu: ResolvedCapabilities, answer: RequestAnswer) -> str:
    """Source: k8s-device-plugin README, shared access with failRequestsGreaterThanOne false."""
    if not answer.offer.shared or answer.ask.count == 1:
        return ""
    return (
        f"container {answer.ask.container}: {answer.ask.count} shares of a GPU"
        f" ({menu.flavor.sharing or 'shared'}) give no more time or memory than 1"
    )


def _renamed_share(menu: ResolvedCapabilities, answer: RequestAnswer) -> str:
    """A plain request that gets a share under another name would else wait for ever (T1)."""
    if answer.ask.device.kind is not UnitKind.GPU or answer.ask.device.shared:
        return ""
    if not answer.offer.shared or answer.resource == names.GPU_RESOURCE:
        return ""
    part = f"1/{answer.offer.replicas}" if answer.offer.replicas > 1 else "a share"
    return (
        f"container {answer.ask.container}: flavor {menu.flavor.name} offers"
        f" {answer.resource}, not {names.GPU_RESOURCE}; each unit is {part} of a GPU"
    )


_MUCH: Final = 2
"""So many times the memory that a pod asks for is worth a warning."""


def _much_larger(answer: RequestAnswer) -> str:
    """Return that a wish for memory takes a whole GPU that has much more; empty for no."""
    wish, offer, count = answer.ask.wish, answer.offer, answer.ask.count
    is_whole = offer.grain is DeviceKind.GPU and not offer.shared
    if wish.is_default or not wish.memory_bytes or not is_whole or offer.memory_bytes is None:
        return ""
    if offer.memory_bytes < _MUCH * wish.memory_bytes:
        return ""
    lowest, has = (
        quantity.from_canonical("memory", value)
        for value in (wish.memory_bytes, offer.memory_bytes)
    )
    taken = f"a whole GPU of {has}" if count == 1 else f"{count} whole GPUs of {has} each"
    return (
        f"container {answer.ask.container}: asks for {lowest} of GPU memory and takes {taken}:"
        " its queue offers no smaller device that is large enough"
    )


def _unknown_cut(menu: ResolvedCapabilities, answer: RequestAnswer) -> str:
    """A slice that answers a wish for memory, where nobody has said that nodes are cut so."""
    is_wish = answer.ask.device.kind is UnitKind.GPU and not answer.ask.wish.profile
    is_own = answer.offer == menu.offers[0] and menu.answers_plain
    if not menu.open_names or not is_wish or is_own or answer.offer.grain is not DeviceKind.SLICE:
        return ""
    return (
        f"container {answer.ask.container}: {answer.resource} is the smallest slice that is large"
        f" enough; if no node has it, the pod stays pending: flavor {menu.flavor.name} says"
        f" neither by its annotation {names.MIG_PROFILE} nor by quota which slices its nodes have"
    )
