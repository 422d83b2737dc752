"""What a pod's containers asked for before they were rewritten, kept in an annotation.

The annotation is JSON, by container, with the GPU part of requests and limits. A person may have
written anything there, so a record counts only where the container no longer asks for what it
says: a rewrite takes the recorded names away.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from admission.base import names, quantity, structs
from admission.base.errors import InvalidValueError
from admission.gpu import resources
from admission.objects import views
from admission.objects.reviewed_pod import Quantities, ReviewedContainer, ReviewedPod

Stated = views.ResourceRequirements
_WHOLE: Final = frozenset({names.GPU_RESOURCE, names.GPU_SHARED_RESOURCE})
_DECODER: Final = structs.decoder(dict[str, Stated])


def read(pod: ReviewedPod) -> dict[str, Stated]:
    """Return the credible records by container name; empty where there are none, or garbage."""
    text = pod.metadata.annotation(names.ORIGINAL_RESOURCES)
    if not text:
        return {}
    try:
        recorded = _DECODER.decode(text)
    except structs.UNREADABLE:
        return {}
    return {
        container.name: recorded[container.name]
        for _, _, container in pod.located_containers()
        if container.name in recorded and _is_credible(container, recorded[container.name])
    }


def write(pod: ReviewedPod, changed: Iterable[ReviewedContainer]) -> dict[str, str]:
    """Return the annotation after a rewrite: what was recorded before, and what changes now.

    Args:
        pod: as reviewed.
        changed: its containers that change, as reviewed.
    """
    kept = {container.name: _gpu_part(container) for container in changed}
    if not kept:
        return {}
    text = msgspec.json.encode({**kept, **_wire(read(pod))}, order="sorted").decode()
    return {names.ORIGINAL_RESOURCES: text}


def whole(container: ReviewedContainer, recorded: Stated) -> Stated:
    """Return all resources of a container as they were first: GPUs as recorded, the rest as is."""
    return Stated(
        requests={**_rest(container.requests), **(recorded.requests or {})},
        limits={**_rest(container.limits), **(recorded.limits or {})},
    )


def returned(container: ReviewedContainer, recorded: Stated) -> tuple[str, ...]:
    """Return names of whole GPUs that a rewrite removed and that are there again, sorted.

    The API server's LimitRanger fills in defaults again after a webhook changed a pod.
    """
    requested, before = _asked(container), _recorded(recorded)
    return tuple(sorted(requested & before & _WHOLE)) if requested - before else ()


def devices(stated: Stated) -> dict[str, int]:
    """Return GPU amounts that are not 0, by name; a missing request equals the limit."""
    amounts = {**(stated.limits or {}), **(stated.requests or {})}
    devices_ = {
        name: quantity.to_canonical(name, str(text))
        for name, text in amounts.items()
        if resources.is_device(name)
    }
    return {name: count for name, count in devices_.items() if count}


def _is_credible(container: ReviewedContainer, recorded: Stated) -> bool:
    """Return whether the record may be of a rewrite that gave the container its present names."""
    lists = (recorded.requests or {}, recorded.limits or {})
    if not all(resources.is_device(name) for amounts in lists for name in amounts):
        return False
    try:
        before, now = _recorded(recorded), _asked(container)
    except InvalidValueError:
        return False
    return bool(before and before != now)


def _recorded(recorded: Stated) -> set[str]:
    return set(devices(recorded))


def _asked(container: ReviewedContainer) -> set[str]:
    return set(devices(container.resources or Stated()))


def _gpu_part(container: ReviewedContainer) -> Mapping[str, Mapping[str, str]]:
    return _wire_one(Stated(requests=_gpus(container.requests), limits=_gpus(container.limits)))


def _wire(recorded: Mapping[str, Stated]) -> dict[str, Mapping[str, Mapping[str, str]]]:
    return {name: _wire_one(stated) for name, stated in recorded.items()}


def _wire_one(stated: Stated) -> Mapping[str, Mapping[str, str]]:
    lists = {"limits": stated.limits or {}, "requests": stated.requests or {}}
    return {kind: {n: str(v) for n, v in amounts.items()} for kind, amounts in lists.items()}


def _gpus(amounts: Quantities) -> dict[str, str | int]:
    return {name: value for name, value in amounts.items() if resources.is_device(name)}


def _rest(amounts: Quantities) -> dict[str, str | int]:
    return {name: value for name, value in amounts.items() if not resources.is_device(name)}
