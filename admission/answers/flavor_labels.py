"""Which labels of nodes a Workload has to select to match a flavor of its queue."""

from contextlib import suppress
from typing import Final

from admission.base import causes, structs
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.kube import errors, resources
from admission.kube.api import Api
from admission.objects import values
from admission.objects.resource_flavor import ResourceFlavor
from admission.objects.workload import PodSet, Workload
from admission.reasons import next_steps, reading
from admission.scheduling import node_labels

_AS_FLAVOR: Final = structs.converter(ResourceFlavor)


def next_step(api: Api, workload: Workload, stated: Text) -> str:
    """Return what to do about pods that select other nodes; empty where that is not known.

    Args:
        api: is asked for the flavors, with the rights of the caller.
        workload: that waits.
        stated: reason and message of its condition QuotaReserved.
    """
    why = reading.of_condition(stated.reason, stated.message)
    if not isinstance(why, causes.NoFlavor):
        return ""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets or ()}
    for name, refusals in why.pod_sets:
        flavors = [each.flavor for each in refusals if isinstance(each, causes.OtherNodes)]
        pod_set = pod_sets.get(name) or next(iter(pod_sets.values()), None)
        if flavors and pod_set is not None:
            labels = {flavor: _contradicted(api, flavor, pod_set) for flavor in flavors}
            return next_steps.for_flavors(labels)
    return ""


def _contradicted(api: Api, flavor: str, pod_set: PodSet) -> dict[str, str]:
    """Return the labels of a flavor that keep pods off; empty where they may not be read."""
    spec = pod_set.template.spec
    with suppress(errors.ApiError, InvalidValueError):
        view = _AS_FLAVOR(api.get(resources.RESOURCE_FLAVORS, flavor))
        return node_labels.contradicted(
            view.spec.node_labels or {},
            spec.node_selector or {},
            values.required_affinity(spec.affinity, "spec.affinity"),
        )
    return {}
