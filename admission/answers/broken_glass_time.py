"""Whether a pod was created while break-glass was on, and so runs outside of quota."""

from collections.abc import Iterator

from admission.base import clock as clocks
from admission.base import names, structs
from admission.base.errors import InvalidValueError
from admission.base.namespaces import MANAGED
from admission.kube import errors, resources
from admission.kube.api import Api, Document
from admission.objects import broken_glass, pods, resource_claim, views
from admission.objects.broken_glass import BrokenTime
from admission.owners import pod as pod_owner

_AS_POD = structs.converter(views.Pod)


def notes(api: Api, document: Document) -> tuple[str, ...]:
    """Return what to say of a pod without admission; nothing to somebody who may not know it.

    The namespace of the program is the usual one: who asks need not know another.

    Args:
        api: the cluster.
        document: the pod.
    """
    pod = _AS_POD(document)
    if not pod_owner.has_passed(pod, MANAGED) or not _has_gpus(pod.spec):
        return ()
    try:
        time = broken_glass.time_of(pod.metadata.creation_timestamp or "", list(_times(api)))
    except (errors.KubeError, ValueError):
        return ()
    if time is None:
        return ()
    until = f"until {clocks.to_wire(time.end)}" if time.end is not None else "and still is"
    note = (
        f"it was created while break-glass was on (since {clocks.to_wire(time.begin)}, {until}), "
        "so it passed without quota and is charged to no queue"
    )
    advice = "; to bring it back into quota, delete it, so that its owner creates it again"
    return (note + advice if pod.metadata.label(names.QUEUE_LABEL) else note,)


def _times(api: Api) -> Iterator[BrokenTime]:
    """Yield when break-glass was on, and since when it is."""
    for name in (broken_glass.TIMES, broken_glass.RECORD):
        try:
            config_map = api.get(resources.CONFIG_MAPS, name, names.SYSTEM_NAMESPACE)
        except errors.NotFoundError:
            continue
        if name == broken_glass.TIMES:
            yield from broken_glass.times(config_map)
        else:
            created = config_map["metadata"]["creationTimestamp"]
            yield BrokenTime(begin=clocks.from_wire(created))


def _has_gpus(spec: views.PodSpec) -> bool:
    try:
        return resource_claim.concerned(spec) or bool(pods.gpus_of(spec))
    except InvalidValueError:
        return False
