"""What objects say of devices: what pods and claims ask for, what was allocated, what queues give.

Amounts are whole numbers by place, which is a flavor and a resource. A device of a ResourceClaim
is a whole GPU, and counts as `GPU`. This module imports nothing of the program.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]
Place = tuple[str, str]
"""Flavor and resource. The flavor `ANY` is the sum of all; an empty one is not known."""
Amounts = Counter[Place]

GPU: Final = "nvidia.com/gpu"
ANY: Final = "*"
_PREFIX: Final = "nvidia.com/"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_DRIVER: Final = "gpu.nvidia.com"
_SURGE: Final = "gpu-admission.dev/surge-quota"


def asked(spec: Json, classes: Mapping[str, str]) -> Counter[str]:
    """Return what a pod asks for by name: of all containers, or of a greedy first one.

    Args:
        spec: of the pod.
        classes: extended resource name, or an empty one, of each DeviceClass of GPUs.
    """
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for container in spec["containers"]:
        running.update(_of_container(container, classes))
    for container in spec.get("initContainers") or ():
        found = _of_container(container, classes)
        if container.get("restartPolicy") == "Always":
            running.update(found)
        else:
            most |= found
    return running | most


def _of_container(container: Json, classes: Mapping[str, str]) -> Counter[str]:
    resources = container.get("resources") or {}
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    answered = {name for name in classes.values() if name} | {_IMPLICIT + name for name in classes}
    found: Counter[str] = Counter()
    for resource, amount in stated.items():
        if resource in answered:
            found[GPU] += int(amount)
        elif resource.startswith(_PREFIX):
            found[resource] += int(amount)
    return found


def claimed(spec: Json, classes: Mapping[str, str]) -> int:
    """Return how many GPUs the spec of a ResourceClaim asks for.

    Args:
        spec: of the claim.
        classes: as in `asked`.
    """
    return sum(
        one["exactly"].get("count", 1)
        for one in spec.get("devices", {}).get("requests") or ()
        if one.get("exactly", {}).get("deviceClassName") in classes
        and not one["exactly"].get("adminAccess")
    )


def allocated(claim: Json) -> int | None:
    """Return how many GPUs a ResourceClaim was given; None while nothing is allocated."""
    allocation = claim.get("status", {}).get("allocation")
    if not allocation:
        return None
    given = [
        one
        for one in allocation.get("devices", {}).get("results") or ()
        if one["driver"] == _DRIVER and not one.get("adminAccess")
    ]
    return len(given)


def nominal(owner: Json) -> Amounts:
    """Return the nominal quota of a ClusterQueue or Cohort."""
    found: Amounts = Counter()
    for group in owner["spec"].get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if resource["name"].startswith(_PREFIX):
                    place = (flavor["name"], resource["name"])
                    found[place] += int(resource["nominalQuota"])
    return found


def charged(queue: Json) -> Amounts:
    """Return what the status of a ClusterQueue says is reserved."""
    return Counter(
        {
            (flavor["name"], resource["name"]): int(resource["total"])
            for flavor in queue.get("status", {}).get("flavorsReservation") or ()
            for resource in flavor["resources"]
            if resource["name"].startswith(_PREFIX)
        }
    )


def surge_quota(queue: Json) -> Amounts:
    """Return the quota of a ClusterQueue that only pods of rolling updates may use."""
    found: Amounts = Counter()
    for name, amount in _entries(queue, _SURGE):
        flavor, _, resource = name.partition("/")
        found[flavor, resource] += amount
    return found


def caps(owner: Json, annotation: str) -> Counter[str]:
    """Return the caps of a queue by resource, as an annotation says them."""
    return Counter(dict(_entries(owner, annotation)))


def _entries(owner: Json, annotation: str) -> Iterator[tuple[str, int]]:
    text = (owner["metadata"].get("annotations") or {}).get(annotation, "")
    for entry in filter(None, text.split(",")):
        name, _, amount = entry.strip().partition("=")
        yield name, int(amount)


def with_sums(amounts: Amounts) -> Amounts:
    """Return amounts with the sum of each resource over all flavors."""
    found = Counter(amounts)
    for resource, amount in by_resource(amounts).items():
        found[ANY, resource] += amount
    return found


def by_resource(amounts: Mapping[Place, int]) -> Counter[str]:
    """Return the sum over all flavors of each resource."""
    found: Counter[str] = Counter()
    for (_, resource), amount in amounts.items():
        found[resource] += amount
    return found


def fits(need: Mapping[str, int], room: Amounts, choices: Mapping[str, Iterable[str]]) -> bool:
    """Return whether each resource has room in one of the flavors that may be chosen for it.

    What is held in a flavor that is not known counts against all of them.
    """
    return all(
        any(room[flavor, resource] + room["", resource] >= amount for flavor in choices[resource])
        for resource, amount in need.items()
        if amount
    )


def text(amounts: Mapping[Place, int]) -> str:
    """Return amounts for people: whole GPUs of a flavor need no name of a resource."""
    parts = []
    for (flavor, resource), amount in sorted(amounts.items()):
        place = (flavor or "?") if resource == GPU else f"{flavor or '?'}/{resource}"
        parts.append(f"{amount} {place}")
    return ", ".join(parts) or "nothing"
