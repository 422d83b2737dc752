"""LimitRanges and RuntimeClasses as watched, and which Workloads are charged otherwise for them.

Both decide what a Workload is charged for beside its own spec. What a Workload already holds is
recorded in its status, and stays.
"""

from collections.abc import Mapping
from typing import Any

from admission.base.names import WorkloadKey
from admission.controller.devices.claims import Claims
from admission.controller.seeing.informers import Informer
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import limit_range, pods, views
from admission.objects.limit_range import NO_LIMITS, Summary
from admission.objects.pods import Nanos
from admission.objects.workload import Surroundings
from admission.scheduling.transformation import Rules


class ResourceAdjustments:
    """What besides a Workload decides what it is charged for, as last seen.

    Attributes:
        informers: by resource; what a watch of it must be told to.
    """

    def __init__(self, rules: Rules, claims: Claims) -> None:
        """Knows no LimitRange and no RuntimeClass.

        Args:
            rules: settings that change what is counted.
            claims: ResourceClaims that exist.
        """
        self._rules = rules
        self._claims = claims
        self._ranges: dict[str, dict[str, views.LimitRange]] = {}
        self._limits: dict[str, Summary] = {}
        self._overheads: dict[str, Nanos] = {}
        self._asked: set[str] = set()
        self._stale_namespaces: set[str] = set()
        self._stale_classes: set[str] = set()
        self.informers: Mapping[Resource, Informer[Any]] = {
            resources.LIMIT_RANGES: Informer("LimitRange", self._see_range, self._lose_range),
            resources.RUNTIME_CLASSES: Informer("RuntimeClass", self._see_class, self._lose_class),
        }

    def around(self, namespace: str) -> Surroundings:
        """Return the current LimitRanges, overheads and claims for Workloads of a namespace."""
        self._asked.add(namespace)
        return Surroundings(
            rules=self._rules,
            limits=self._limits.get(namespace, NO_LIMITS),
            overheads=self._overheads,
            devices=self._claims.known,
        )

    def take_stale(self, workloads: WorkloadIndex) -> list[WorkloadKey]:
        """Return the Workloads that must be translated again for what has changed since."""
        namespaces, classes = self._stale_namespaces, self._stale_classes
        self._stale_namespaces, self._stale_classes = set(), set()
        found = [key for name in sorted(namespaces) for key in workloads.in_namespace(name)]
        found += [key for name in sorted(classes) for key in workloads.of_runtime_class(name)]
        return found

    def _see_range(self, view: views.LimitRange) -> None:
        namespace = view.metadata.namespace
        known = self._ranges.setdefault(namespace, {})
        self._set_ranges(namespace, {**known, view.metadata.name: view})

    def _lose_range(self, view: views.Object) -> None:
        namespace = view.metadata.namespace
        known = dict(self._ranges.get(namespace, {}))
        known.pop(view.metadata.name, None)
        self._set_ranges(namespace, known)

    def _set_ranges(self, namespace: str, ranges: dict[str, views.LimitRange]) -> None:
        """Merges in the order of names, which decides whose default counts."""
        merged = limit_range.summarize(ranges[name] for name in sorted(ranges))
        self._ranges[namespace] = ranges
        if merged != self._limits.get(namespace, NO_LIMITS) and namespace in self._asked:
            self._stale_namespaces.add(namespace)
        self._limits[namespace] = merged
        if not ranges:
            del self._ranges[namespace], self._limits[namespace]

    def _see_class(self, view: views.RuntimeClass) -> None:
        self._set_overhead(view.metadata.name, pods.overhead(view))

    def _lose_class(self, view: views.Object) -> None:
        self._set_overhead(view.metadata.name, {})

    def _set_overhead(self, name: str, overhead: Nanos) -> None:
        if overhead == self._overheads.get(name, {}):
            return
        others = {one: value for one, value in self._overheads.items() if one != name}
        self._overheads = {**others, **({name: overhead} if overhead else {})}
        self._stale_classes.add(name)
