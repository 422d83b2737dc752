"""LimitRanges and pods of a review in the words of ``gpu.limits``."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from admission.api import views
from admission.gpu import limits, quantities
from admission.gpu.limits import LimitItem, LimitRange
from admission.policy.documents import Container, Pod, Quantities

_ALWAYS: Final = "Always"


def read(ranges: Iterable[views.LimitRange]) -> tuple[LimitRange, ...]:
    """LimitRanges as stored, that is with the API server's defaults in their items.

    Raises:
        InvalidValueError: an amount is no quantity; the API server stores none such.
    """
    return tuple(_limit_range(view) for view in ranges)


def as_written(stored: LimitRange) -> LimitRange:
    """The LimitRange without what the API server made of a ``max`` or ``min`` on its own."""
    return replace(stored, items=tuple(map(_as_written, stored.items)))


def pod(
    reviewed: Pod, stated: Mapping[str, views.ResourceRequirements] | None = None
) -> limits.Pod:
    """What LimitRanger looks at in a pod.

    Args:
        reviewed: the pod.
        stated: resources by container name that stand in for those of the pod.

    Raises:
        InvalidValueError: an amount is no quantity.
    """
    other = stated or {}
    own = reviewed.spec.resources
    return limits.Pod(
        containers=tuple(
            _container(member == "initContainers", container, other.get(container.name))
            for member, _, container in reviewed.located_containers()
        ),
        requests=quantities.parse_list(own.requests if own else None),
        limits=quantities.parse_list(own.limits if own else None),
    )


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


def _limit_range(view: views.LimitRange) -> LimitRange:
    return LimitRange(
        name=view.metadata.name,
        items=tuple(
            limits.item(
                item.type,
                min_=item.min,
                max_=item.max,
                default=item.default,
                default_request=item.default_request,
                ratio=item.max_limit_request_ratio,
            )
            for item in view.spec.limits or ()
        ),
        annotations=view.metadata.annotations or {},
    )


def _container(
    is_init: bool, container: Container, stated: views.ResourceRequirements | None
) -> limits.Container:
    requests: Quantities = container.requests
    most: Quantities = container.limits
    if stated is not None:
        requests, most = stated.requests or {}, stated.limits or {}
    return limits.copy_limits(
        limits.Container(
            name=container.name,
            is_init=is_init,
            is_sidecar=is_init and container.restart_policy == _ALWAYS,
            requests=quantities.parse_list(requests),
            limits=quantities.parse_list(most),
        )
    )
