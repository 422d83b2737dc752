"""What Workloads ask for besides their own spec, as watched, and which ask otherwise for it.

LimitRanges and RuntimeClasses decide what a Workload is charged for; what it already holds is
recorded in its status, and stays. Bound volumes decide on which nodes its pods can be (ADR 0266).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.base.names import WorkloadKey
from admission.controller.devices.claims import Claims
from admission.controller.seeing.informers import Informer
from admission.controller.workloads.workloadindex import WorkloadIndex
from admission.kube import resources
from admission.kube.resources import Resource
from admission.objects import limit_range, pod_needs, pods, views
from admission.objects.limit_range import NO_LIMITS, Summary
from admission.objects.pods import Nanos
from admission.objects.views import RuntimePlacement
from admission.objects.workload import NEVER, ChargeContext
from admission.scheduling.model import NodeTerm
from admission.scheduling.transformation import TransformationRules

_BOUND: Final = "Bound"


class ResourceAdjustments:
    """What besides a Workload decides what it is charged for, as last seen.

    Attributes:
        informers: by resource; what a watch of it must be told to.
    """

    def __init__(self, rules: TransformationRules, claims: Claims) -> None:
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
        self._placements: dict[str, RuntimePlacement] = {}
        self._asked: set[str] = set()
        self._volumes: dict[tuple[str, str], tuple[NodeTerm, ...]] = {}
        self._claim_of: dict[str, tuple[str, str]] = {}
        """The claim of each volume that is on certain nodes."""
        self._stale_claims: dict[tuple[str, str], None] = {}
        self._stale_namespaces: set[str] = set()
        self._stale_classes: set[str] = set()
        self._never_preempting: frozenset[str] = frozenset()
        self._stale_priorities: frozenset[str] = frozenset()
        self.informers: Mapping[Resource, Informer[Any]] = {
            resources.LIMIT_RANGES: Informer("LimitRange", self._see_range, self._lose_range),
            resources.RUNTIME_CLASSES: Informer("RuntimeClass", self._see_class, self._lose_class),
            resources.PERSISTENT_VOLUMES: Informer(
                "PersistentVolume", self._see_volume, self._lose_volume, slim=True
            ),
        }

    def around(self, namespace: str) -> ChargeContext:
        """Return the current LimitRanges, overheads and claims for Workloads of a namespace."""
        self._asked.add(namespace)
        return ChargeContext(
            rules=self._rules,
            limits=self._limits.get(namespace, NO_LIMITS),
            overheads=self._overheads,
            placements=self._placements,
            never_preempting=self._never_preempting,
            devices=self._claims.known,
            volumes=self._volumes,
        )

    def take_stale(self, workloads: WorkloadIndex) -> list[WorkloadKey]:
        """Return the Workloads that must be translated again for what has changed since."""
        namespaces, classes = self._stale_namespaces, self._stale_classes
        priorities = self._stale_priorities
        self._stale_namespaces, self._stale_classes = set(), set()
        self._stale_priorities = frozenset()
        stale = [key for name in sorted(namespaces) for key in workloads.in_namespace(name)]
        stale += [key for name in sorted(classes) for key in workloads.of_runtime_class(name)]
        stale += [key for name in sorted(priorities) for key in workloads.of_pod_priority(name)]
        claims, self._stale_claims = self._stale_claims, {}
        stale += [key for claim in claims for key in workloads.of_volume_claim(claim)]
        return stale

    def set_priority_classes(self, classes: Iterable[views.PriorityClass]) -> None:
        """Take the PriorityClasses that exist: templates only name them."""
        polite = [
            priority_class
            for priority_class in classes
            if priority_class.preemption_policy == NEVER
        ]
        never_preempting = frozenset(
            name
            for priority_class in polite
            for name in (priority_class.metadata.name, *_unnamed(priority_class))
        )
        self._stale_priorities |= never_preempting ^ self._never_preempting
        self._never_preempting = never_preempting

    def _see_range(self, view: views.LimitRange) -> None:
        namespace = view.metadata.namespace
        ranges = self._ranges.setdefault(namespace, {})
        self._set_ranges(namespace, {**ranges, view.metadata.name: view})

    def _lose_range(self, view: views.Object) -> None:
        namespace = view.metadata.namespace
        ranges = dict(self._ranges.get(namespace, {}))
        ranges.pop(view.metadata.name, None)
        self._set_ranges(namespace, ranges)

    def _set_ranges(self, namespace: str, ranges: dict[str, views.LimitRange]) -> None:
        """Merges in the order of names, which decides whose default counts."""
        merged = limit_range.summarize(ranges[name] for name in sorted(ranges))
        self._ranges[namespace] = ranges
        if merged != self._limits.get(namespace, NO_LIMITS) and namespace in self._asked:
            self._stale_namespaces.add(namespace)
        self._limits[namespace] = merged
        if not ranges:
            del self._ranges[namespace], self._limits[namespace]

    def _see_volume(self, view: views.PersistentVolume) -> None:
        """Take where a volume is; one that is not bound, or is anywhere, is nobody's."""
        claim, affinity = view.spec.claim_ref, view.spec.node_affinity
        name = view.metadata.name
        if (
            claim is None
            or affinity is None
            or affinity.required is None
            or view.status.phase != _BOUND
        ):
            self._forget_volume(name)
            return
        key, terms = (claim.namespace, claim.name), pod_needs.terms_of(affinity.required)
        if self._claim_of.get(name) == key and self._volumes.get(key) == terms:
            return
        self._forget_volume(name)
        self._claim_of[name] = key
        self._volumes[key] = terms
        self._stale_claims[key] = None

    def _lose_volume(self, view: views.Object) -> None:
        self._forget_volume(view.metadata.name)

    def _forget_volume(self, name: str) -> None:
        key = self._claim_of.pop(name, None)
        if key is not None and self._volumes.pop(key, None) is not None:
            self._stale_claims[key] = None

    def _see_class(self, view: views.RuntimeClass) -> None:
        self._set_class(view.metadata.name, pods.overhead(view), view.scheduling)

    def _lose_class(self, view: views.Object) -> None:
        self._set_class(view.metadata.name, {}, None)

    def _set_class(self, name: str, overhead: Nanos, placement: RuntimePlacement | None) -> None:
        """Take what a RuntimeClass adds to pods; those who were given the old maps keep them."""
        before = self._overheads.get(name, {}), self._placements.get(name)
        if (overhead, placement) == before:
            return
        overheads = {
            class_name: value
            for class_name, value in self._overheads.items()
            if class_name != name
        }
        placements = {
            class_name: value
            for class_name, value in self._placements.items()
            if class_name != name
        }
        self._overheads = {**overheads, **({name: overhead} if overhead else {})}
        self._placements = {**placements, **({name: placement} if placement else {})}
        self._stale_classes.add(name)


def _unnamed(priority_class: views.PriorityClass) -> tuple[str, ...]:
    """Return an empty name for the class of pods that name none."""
    return ("",) if priority_class.global_default else ()
