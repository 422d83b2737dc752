"""Groups of pods as owners: all pods with one group name share a Workload, and start together.

The pods come one by one, in any order, and so do those that take the place of pods that failed.
Source: kueue pkg/controller/jobs/pod/pod_controller.go. Differs: pods have no finalizer, so the
Workload remembers those that have succeeded and are gone (ADR 0130); a pod that would be one too
many only because another still ends waits for it; a pod starts in a role only if it asks for no
more than the role was admitted with.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import msgspec
from typing_extensions import override

from admission.base import conditions, names, patches, pod_resources, structs, syntax
from admission.base.conditions import Text
from admission.base.errors import InvalidValueError
from admission.base.names import WorkloadKey
from admission.objects import pod_needs, pods, views
from admission.objects.fields import LABEL_PATTERN
from admission.objects.gangs import Gang
from admission.objects.workload import PodSet, Workload, assigned_domains
from admission.owners import pod as single
from admission.owners import serving_group, topology_domains
from admission.owners import workload as workloads
from admission.owners.framework import Gathers, Kind, Owner, Reclaims
from admission.owners.injection import Injection, with_selector
from admission.owners.serving_group import ServingGroup
from admission.owners.workload import PriorityClasses, max_execution_seconds
from admission.reasons import added_conditions, kueue

MOST_ROLES: Final = 18
MOST_LETTERS: Final = 63
"""Of the name of a role, which is that of a pod set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind(Kind):
    """The kind of a group: its Workload has the name of the group, and no controller."""

    @override
    def key_of(self, owner: views.Object) -> WorkloadKey:
        return WorkloadKey(owner.metadata.namespace, single.group_name(owner))

    @override
    def prebuilt_key(self, owner: views.Object) -> WorkloadKey | None:
        """Return None: a Workload that a group names has the name of the group."""
        return None

    @override
    def owner_key(self, workload: Workload) -> WorkloadKey | None:
        return None

    @override
    def owns(self, workload: Workload) -> bool:
        is_remembering = bool(workload.metadata.annotation(names.GROUP_MEMBERS))
        return workload.is_of_group() and (is_remembering or bool(_owner_uids(workload)))


KIND: Final = GroupKind(
    api_version=single.KIND.api_version,
    name=single.KIND.name,
    plural=single.KIND.plural,
    label=single.KIND.label,
    label_value=single.KIND.label_value,
    is_deleted_to_stop=True,
    has_condition=True,
    takes_preferences=True,
)


class PodGroup(views.Object, frozen=True, kw_only=True):
    """The pods of one group that are there.

    Its metadata are those of its first pod, but for the uid; and the queue of a serving group,
    whose Workload does not follow its pods to another one.
    """

    members: tuple[views.Pod, ...] = ()
    """First those that were released, then the oldest."""

    gang: Gang | None = None
    """What the PodGroup says that the pods name; None where they name none, or it is not there."""


class Memory(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a Workload remembers about pods of its group that may no longer exist."""

    succeeded: dict[str, tuple[str, ...]] = {}
    """UIDs of those that have succeeded, by role; at most as many as the role has pods."""

    not_retriable: bool = False
    """One of those that ended said that the group is not to be retried."""


_MEMORY: Final = structs.decoder(Memory)


@dataclass(frozen=True, slots=True)
class Departed:
    """A pod of a group that has ended and is gone.

    Attributes:
        role: its role.
        has_succeeded: how it ended.
        is_retriable: whether the group may be retried, as it says.
    """

    role: str
    has_succeeded: bool
    is_retriable: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """What a pod set of the Workload is made of.

    Attributes:
        name: the role.
        pod: one with that role.
        count: how many there are.
        least: how many of them must start at once; None for all.
    """

    name: str
    pod: views.Pod
    count: int
    least: int | None = None


@dataclass(slots=True)
class _Role:
    """The pods of a group that have one role."""

    gated: list[views.Pod] = field(default_factory=list)
    running: list[views.Pod] = field(default_factory=list)
    """Released, and neither ended nor being deleted."""
    ending: list[views.Pod] = field(default_factory=list)
    """Released and being deleted; its containers may run."""
    succeeded: set[str] = field(default_factory=set)
    """UIDs, also of those that are gone."""
    present: list[views.Pod] = field(default_factory=list)
    """Succeeded, and there."""

    @property
    def living(self) -> list[views.Pod]:
        """Return the pods that count when a Workload is made."""
        return [*self.present, *self.running, *self.gated]


class PodGroupOwner(Owner, Reclaims, Gathers):
    """A group of pods, as last seen.

    Attributes:
        workload: what there is under the name of the group.
        serving: the owner that serves whose pods they are, if they are such pods.
        is_left: whether that owner is gone and has left its pods; nobody makes further ones.
    """

    def __init__(
        self,
        view: PodGroup,
        workload: Workload | None,
        *,
        departed: Mapping[str, Departed] | None = None,
        is_ending: Callable[[views.Pod], bool] = single.may_run_on,
        copied: Iterable[str] = (),
        serving: ServingGroup | None = None,
        is_left: bool = False,
        gives_up: Callable[[Workload], bool] = lambda _: False,
        awaits_gates: bool = False,
    ) -> None:
        """Sort the pods by role and state.

        Args:
            view: the pods.
            workload: what there is under the name of the group.
            departed: pods that have ended and are gone, by uid, besides those that the Workload
                remembers.
            is_ending: whether the containers of a pod that is being deleted may run.
            copied: keys of labels that the Workload takes over.
            serving: the owner that serves whose pods they are, if they are such pods.
            is_left: whether that owner is gone and has left its pods.
            gives_up: whether nothing has come in the place of pods that are gone for so long that
                nothing will.
            awaits_gates: whether it waits until other controllers have taken their gates off.
        """
        self._view = view
        self._awaits_gates = awaits_gates
        self._gives_up = gives_up
        self.serving = serving
        self.is_left = is_left
        self._copied = tuple(copied)
        self._named = single.gang_of(view.metadata)
        """The PodGroup that the pods name."""
        self.workload = workload
        self._workload = workload if workload is not None and workload.is_of_group() else None
        self._roles: dict[str, _Role] = {}
        self._suiting: dict[str, bool] = {}
        """Whether a pod asks for no more than its role was given, by uid, as far as known."""
        self._are_all_over = True
        """No pod may still run."""
        self._not_retriable = False
        if not serves(view.metadata):
            self._remember(departed or {})
        for pod in view.members:
            if not is_gone(pod, view.metadata):
                self._sort(pod, is_ending)

    def _remember(self, departed: Mapping[str, Departed]) -> None:
        """Count what the Workload says of pods that are gone, and what was seen since."""
        remembered = Memory() if self._workload is None else memory(self._workload)
        self._not_retriable = remembered.not_retriable
        for role, uids in remembered.succeeded.items():
            self._role(role).succeeded.update(uids)
        for uid, departed_pod in departed.items():
            if departed_pod.has_succeeded:
                self._role(departed_pod.role).succeeded.add(uid)
            self._not_retriable |= not departed_pod.is_retriable

    def _role(self, name: str) -> _Role:
        return self._roles.setdefault(name, _Role())

    def _sort(self, pod: views.Pod, is_ending: Callable[[views.Pod], bool]) -> None:
        role, metadata = self._role(role_of(pod)), pod.metadata
        if single.is_terminal(pod):
            self._not_retriable |= not is_retriable(pod)
            if pod.status.phase == "Succeeded":
                role.succeeded.add(metadata.uid)
                role.present.append(pod)
        elif metadata.deletion_timestamp:
            if is_ending(pod):
                role.ending.append(pod)
                self._are_all_over = False
        elif single.is_gated(pod):
            role.gated.append(pod)
            self._are_all_over = False
        else:
            role.running.append(pod)
            self._are_all_over = False

    # ----------------------------------------------------------------------------- as any owner

    @property
    @override
    def kind(self) -> Kind:
        return KIND

    @property
    @override
    def view(self) -> PodGroup:
        return self._view

    @property
    @override
    def pod_sets(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, role in self._roles.items() if role.gated))

    @override
    def is_held(self) -> bool:
        return not any(role.running for role in self._roles.values())

    @override
    def is_active(self) -> bool:
        return any(role.ending for role in self._roles.values())

    @override
    def is_ready(self) -> bool:
        ready, total = sum(map(single.is_ready, self._running())), self._total()
        if self.serving is not None:
            total = min(total, self.serving.size)  # it may have been scaled down
        return ready + self._over() >= total

    @override
    def finished(self) -> Text | None:
        if serves(self._view.metadata) or not self._view.members:
            return None
        succeeded, total = self._succeeded(), self._total()
        if self._named is not None and not self._is_over():
            return None  # pods beyond those that were admitted take the place of these
        is_given_up = self._are_all_over and (self._not_retriable or self._is_failed_gang())
        if self._over() < total and not is_given_up:
            return None
        return kueue.group_finished(succeeded, total)

    def _is_over(self) -> bool:
        """Return whether no pod runs, and none waits that could start in the Workload."""
        workload = self._workload
        return not any(
            role.running
            or role.ending
            or any(workload is None or self._suits(pod, workload) for pod in role.gated)
            for role in self._roles.values()
        )

    def _is_failed_gang(self) -> bool:
        """Return whether pods of a PodGroup have failed, and nobody has stopped them.

        Its scheduler makes pods anew that it retries; those that stay have ended for good.
        """
        return self._named is not None and any(
            pod.status.phase == "Failed" and not pod.metadata.deletion_timestamp
            for pod in self._view.members
        )

    @override
    def was_admitted(self) -> bool:
        name = KIND.key_of(self._view).name
        running = list(self._running())
        return bool(running) and all(
            pod_.metadata.annotation(names.WORKLOAD_ANNOTATION) == name for pod_ in running
        )

    @override
    def missing_workload(self) -> Text:
        return kueue.WORKLOAD_MISSING

    @override
    def stands_for(self, workload: Workload) -> bool:
        return True  # what a pod may start in is asked pod by pod

    @override
    def pod_set_to_start(self, workload: Workload) -> str:
        return role_of(self.to_start(workload))

    @override
    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> patches.Patch:
        """Return the patch that releases the pod that is next.

        Before the first one, the others are tried: a group that cannot start whole does not start.
        """
        waiting = islice(self._startable(workload), None if self.is_held() else 1)
        first, *_ = [
            single.release(pod, self._given(pod, workload, injections)) for pod in waiting
        ]
        return first

    def _given(
        self, pod: views.Pod, workload: Workload, injections: Mapping[str, Injection]
    ) -> Injection:
        """Return what a pod gets at its start, with the node of its domain in a topology."""
        role = role_of(pod)
        domains = assigned_domains(workload, role)
        if domains is None:
            return injections[role]
        role_ = self._roles[role]
        count = sum(count for _, count in domains.counts)
        placement = topology_domains.placement(
            domains, topology_domains.numbering(workload, role, count)
        )
        selectors = (member.spec.node_selector or {} for member in (*role_.running, *role_.ending))
        selector = placement.for_pod(pod, selectors)
        return with_selector(injections[role], selector)

    @override
    def reclaims(self) -> Reclaims | None:
        return None if serves(self._view.metadata) and not self.is_left else self

    @override
    def reclaimable(self, workload: Workload) -> Mapping[str, int]:
        if self._named is not None:
            return self._free(workload)
        if self.is_left:
            return self._not_followed(workload)
        return {
            name: min(count, len(self._roles[name].succeeded))
            for name, count in _counts(workload).items()
            if name in self._roles and self._roles[name].succeeded
        }

    @override
    def pods_ended(self, workload: Workload) -> Mapping[str, int]:
        """Return the reclaimable pods: a pod that takes the place of one is another member."""
        return self.reclaimable(workload)

    def _free(self, workload: Workload) -> Mapping[str, int]:
        """Return how many pods of each role need no quota, of those that the Workload asks for.

        Pods of a PodGroup for which there was no quota are admitted by themselves. One that has
        ended gives quota back unless another takes its place; so does one that is gone and is not
        replaced, if it is beyond the least number.
        """
        counts, given_back = _asked(workload), _given_back(workload)
        if workload.status.admission is None:
            return {}
        missing, free = self._missing(workload), {}
        spare = self._spare(missing) if any(missing.values()) and self._gives_up(workload) else 0
        for name, count in _counts(workload).items():
            role = self._roles.get(name, _Role())
            left = count - self._active(name, workload) + len(role.succeeded)
            over = min(missing[name], spare)
            spare -= over
            back = max(given_back[name], min(max(0, left), len(role.succeeded)) + over)
            if back:
                free[name] = counts[name] - count + min(count, back)
        return free

    def _not_followed(self, workload: Workload) -> Mapping[str, int]:
        """Return how many pods of each role nobody makes any more, of those that were asked for.

        What was given back is not taken again.
        """
        if workload.status.admission is None:
            return {}
        counts, given_back, free = _asked(workload), _given_back(workload), {}
        for name, count in _counts(workload).items():
            back = max(given_back[name], count - self._active(name, workload))
            if back > 0:
                free[name] = counts[name] - count + back
        return free

    def _missing(self, workload: Workload) -> dict[str, int]:
        """Return how many pods of each role are gone, have not succeeded, and hold quota."""
        given_back, missing_ = _given_back(workload), {}
        for name, count in _counts(workload).items():
            succeeded = len(self._roles[name].succeeded) if name in self._roles else 0
            alive = self._active(name, workload) - succeeded
            missing_[name] = max(0, count - max(succeeded, given_back[name]) - alive)
        return missing_

    def _spare(self, missing: Mapping[str, int]) -> int:
        """Return the number of deleted pods beyond the minimum of the PodGroup."""
        gang = self._view.gang
        if gang is None or gang.is_single or not self.is_of_podgroup():
            return 0
        pods_present = len(self._living()) + sum(1 for _ in self.ending())
        gone = sum(len(role.succeeded) - len(role.present) for role in self._roles.values())
        return max(0, sum(missing.values()) - max(0, gang.minimum - pods_present - gone))

    @override
    def gathers(self) -> Gathers | None:
        return self

    # -------------------------------------------------------------------------------- as a group

    @override
    def refusal(self, workload: Workload) -> Text | None:
        if workload.is_of_group():
            return None
        return added_conditions.group_name_taken(KIND.key_of(self._view).name)

    @override
    def missing(self) -> Text | None:
        if self._names_workload():
            return kueue.prebuilt_not_found(KIND.key_of(self._view).text())
        is_partly_gated = not self.is_held() and any(role.gated for role in self._roles.values())
        if is_partly_gated and not serves(self._view.metadata):
            return added_conditions.GROUP_RUNS_WITHOUT_WORKLOAD
        return self._contradiction() or self._incomplete() or self._gated_by_others()

    def _names_workload(self) -> bool:
        metadata, key = self._view.metadata, names.PREBUILT_WORKLOAD
        return bool(metadata.annotation(key) or metadata.label(key))

    def _contradiction(self) -> Text | None:
        """Return how the pods contradict each other, or None."""
        living = self._living()
        for pod in living[1:] if self.serving is None else ():
            difference = _difference(living[0], pod, self._copied)
            if difference is not None:
                return difference
        for pod in living:
            index = pod.metadata.label(names.POD_GROUP_POD_INDEX_LABEL)
            if self._named is None and index and not _is_index(index, total_count(pod)):
                return added_conditions.group_index(pod.metadata.name, index, total_count(pod))
        for name, role in sorted(self._roles.items()):
            for pod in role.living[1:]:
                first = role.living[0]
                if not (_fits(pod.spec, first.spec) and _fits(first.spec, pod.spec)):
                    pair = first.metadata.name, pod.metadata.name
                    return added_conditions.group_requests_differ(*pair, name)
        for name in sorted(name for name, role in self._roles.items() if role.living):
            if len(name) > MOST_LETTERS or not re.match(LABEL_PATTERN, name):
                return added_conditions.group_role(self._roles[name].living[0].metadata.name, name)
        if sum(bool(role.living) for role in self._roles.values()) > MOST_ROLES:
            return kueue.GROUP_ROLES
        return None

    def _incomplete(self) -> Text | None:
        """Return how many pods are missing before the Workload can be made, or None."""
        pods_present, total = len(self._living()), self._announced()
        if self._named is not None and self._view.gang is None:
            return added_conditions.gang_missing(self._named.kind.qualified, self._named.name)
        if pods_present >= (1 if self._is(names.POD_GROUP_FAST_ADMISSION) else total):
            return None
        if self._named is not None:
            gang = self._named
            return added_conditions.gang_incomplete(
                gang.kind.qualified, gang.name, pods_present, total
            )
        name = KIND.key_of(self._view).name
        return added_conditions.group_incomplete(name, pods_present, total)

    def _gated_by_others(self) -> Text | None:
        """Return which gates of other controllers its pods have, or None."""
        gates_of_others = (gate for pod in self._living() for gate in single.gates_of_others(pod))
        gates = sorted(set(gates_of_others)) if self._awaits_gates else ()
        return added_conditions.gated_by_others(gates) if gates else None

    @override
    def excess(self, workload: Workload | None) -> views.Pod | None:
        if self._named is not None:
            return None  # a PodGroup says the least number
        if self._view.metadata.annotation(names.POD_SUSPENDING_PARENT):
            return None  # its controller would make another one at once
        if workload is None:
            living = sorted(self._living(), key=order)
            beyond = living[self._announced() :]
            return next((pod for pod in reversed(beyond) if single.is_gated(pod)), None)
        # One that serves may have been admitted with those that ran: the others are not too many.
        counts = _asked(workload) if serves(self._view.metadata) else _counts(workload)
        for name in sorted(counts.keys() & self._roles.keys()):
            role = self._roles[name]
            kept = max(0, counts[name] - len(role.succeeded) - len(role.running))
            if len(role.gated) > kept:
                return max(
                    role.gated, key=lambda pod: (not self._suits(pod, workload), order(pod))
                )
        return None

    @override
    def unrecorded(self, workload: Workload) -> dict[str, Any] | None:
        changes: dict[str, Any] = {}
        memory_ = self._memory(workload)
        if memory_ != memory(workload) or not workload.metadata.annotation(names.GROUP_MEMBERS):
            changes["annotations"] = {names.GROUP_MEMBERS: _encode(memory_)}
        requester = self._view.metadata.annotation(names.REQUESTER)
        if (
            self._names_workload()
            and requester
            and not workload.metadata.annotation(names.REQUESTER)
        ):
            changes.setdefault("annotations", {})[names.REQUESTER] = requester
        references = workload.metadata.owner_references or ()
        uids_present = {pod.metadata.uid for pod in self._view.members}
        if workload.status.is_true(conditions.EVICTED):
            kept = [reference for reference in references if not _is_of_pod(reference)]
            if not kept and workload.metadata.label(names.JOB_UID_LABEL):
                # the owner of its pods has left them: without any owner it would end before them
                kept = [reference for reference in references if reference.uid in uids_present]
            missing = []
        else:
            uids, counts = {reference.uid for reference in references}, _counts(workload)
            kept = list(references)
            missing = [
                pod
                for name, role in sorted(self._roles.items())
                for pod in (*role.living, *role.ending)
                if name in counts and pod.metadata.uid not in uids
            ]
        if missing or len(kept) < len(references):
            kept = [
                reference
                for reference in kept
                if reference.uid in uids_present or not _is_of_pod(reference)
            ]
            changes["ownerReferences"] = [
                *(_rewritten(reference) for reference in kept),
                *(_reference(pod) for pod in missing),
            ]
        return changes or None

    def _memory(self, workload: Workload) -> Memory:
        """Return the record of pods that the Workload keeps."""
        counts = _counts(workload)
        succeeded = {
            name: tuple(sorted(role.succeeded)[: counts.get(name, 0)])
            for name, role in sorted(self._roles.items())
            if role.succeeded and name in counts
        }
        return Memory(succeeded=succeeded, not_retriable=self._not_retriable)

    @override
    def waiting(self, workload: Workload) -> tuple[Text, bool] | None:
        condition = workload.status.condition(conditions.WAITING_FOR_REPLACEMENT_PODS)
        if not self._lacks(workload):
            if condition is None or condition.status == "False":
                return None
            return kueue.NO_REPLACEMENT_NEEDED, False
        text = kueue.REPLACEMENT_NEEDED
        evicted = workload.status.condition(conditions.EVICTED)
        if evicted is not None and evicted.status == "True":
            text = Text(evicted.reason, evicted.message)
        told_before = (
            None if condition is None else (condition.status, condition.reason, condition.message)
        )
        return None if told_before == ("True", *text) else (text, True)

    def _lacks(self, workload: Workload) -> int:
        if self._view.gang is not None and workload.is_pending():
            return max(0, self._announced() - len(self._living()))
        if self._named is not None:
            return sum(self._missing(workload).values())
        active = {name: self._active(name, workload) for name in _counts(workload)}
        if self._is(names.POD_GROUP_FAST_ADMISSION):
            return 0 if any(active.values()) else 1
        return sum(max(0, count - active[name]) for name, count in _counts(workload).items())

    def _active(self, role: str, workload: Workload) -> int:
        role_ = self._roles.get(role)
        if role_ is None:
            return 0
        gated = sum(self._suits(pod, workload) for pod in role_.gated)
        return len(role_.succeeded) + len(role_.running) + len(role_.ending) + gated

    def _suits(self, pod: views.Pod, workload: Workload) -> bool:
        """Return whether a pod asks for no more than its role was given."""
        suits_ = self._suiting.get(pod.metadata.uid)
        if suits_ is None or workload is not self._workload:
            pod_set = _pod_set(workload, role_of(pod))
            suits_ = pod_set is not None and _fits(pod.spec, pod_set.template.spec)
            self._suiting[pod.metadata.uid] = suits_
        return suits_

    @override
    def is_short(self, workload: Workload) -> bool:
        is_early = (
            self._is(names.POD_GROUP_FAST_ADMISSION)
            or serves(self._view.metadata)
            or self._names_workload()  # somebody else made it, and says for how many pods
        )
        has_begun = any(
            role.running or role.ending or role.succeeded for role in self._roles.values()
        ) or any(map(single.is_terminal, self._view.members))
        return not is_early and not has_begun and self._lacks(workload) > 0

    @override
    def begins_anew(self) -> bool:
        return self._named is not None and any(role.gated for role in self._roles.values())

    @override
    def may_start(self, workload: Workload) -> bool:
        return next(self._startable(workload), None) is not None

    @override
    def to_start(self, workload: Workload) -> views.Pod:
        return next(self._startable(workload))

    def _startable(self, workload: Workload) -> Iterator[views.Pod]:
        """Yield the gated pods for which there is room in their roles, in order."""
        given_back = _given_back(workload)
        for name, count in sorted(_counts(workload).items()):
            role = self._roles.get(name)
            if role is None:
                continue
            ended = given_back[name]
            if self._named is None:  # else what has not given its quota back is paid for
                ended = max(ended, len(role.succeeded))
            room = count - ended - len(role.running) - len(role.ending)
            suiting = (pod for pod in role.gated if self._suits(pod, workload))
            yield from islice(suiting, max(0, room))

    @override
    def to_stop(self) -> Iterator[views.Pod]:
        return self._running()

    @override
    def asks_otherwise(self, workload: Workload) -> bool:
        living = self._living()
        if self._names_workload() or not living or self.missing() is not None:
            return False
        limit = max_execution_seconds(self._view.metadata)
        if limit != workload.spec.maximum_execution_time_seconds:
            return True
        composed = {part.name: (part.count, part.least) for part in self._composition()}
        pod_sets = {
            pod_set.name: (pod_set.count, pod_set.min_count)
            for pod_set in workload.spec.pod_sets or ()
        }
        if composed != pod_sets or not all(self._suits(pod, workload) for pod in living):
            return True
        sets = {pod_set.name: pod_set.template.spec for pod_set in workload.spec.pod_sets or ()}
        return any(
            single.asks_for_other_nodes(part.pod.spec, sets[part.name])
            for part in self._composition()
            if single.is_gated(part.pod)
        )

    # ------------------------------------------------------------------------- making a Workload

    def roles(self) -> Mapping[str, views.Pod]:
        """Return a pod of each role from which the Workload is made, by the name of the role."""
        return {part.name: part.pod for part in self._composition()}

    def build(
        self, documents: Mapping[str, views.PodDocument], classes: PriorityClasses
    ) -> dict[str, Any]:
        """Return the document of the Workload.

        Args:
            documents: the pods of `roles`, whole.
            classes: the priority classes that it may name.

        Raises:
            MissingPriorityClassError: the group names a class that is not among them.
        """
        first, key = self._view.metadata, KIND.key_of(self._view)
        queue = self._living()[0].metadata.label(names.QUEUE_LABEL)
        if self.serving is not None:
            queue = self.serving.queue
        pod_sets = [
            {
                "name": part.name,
                "count": part.count,
                **({} if part.least is None else {"minCount": part.least}),
                "template": self._template(part, documents[part.name]),
                **self._topology_request(part.pod),
            }
            for part in self._composition()
        ]
        taken_over = {
            label: pod.metadata.label(label)
            for label in self._copied
            for pod in reversed(self._living())
            if label in (pod.metadata.labels or {})
        }
        labels, annotations = ({}, {}) if self.serving is None else self.serving.marks()
        return {
            "apiVersion": f"{names.KUEUE_GROUP}/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {**taken_over, **labels},
                "annotations": {
                    **workloads.annotations(first),
                    **annotations,
                    **self._topology(),
                    names.IS_GROUP_WORKLOAD: "true",
                    names.GROUP_MEMBERS: _encode(Memory()),
                },
                "ownerReferences": [
                    *(() if self.serving is None else (self.serving.reference(),)),
                    *(_reference(pod) for pod in self._living()),
                ],
            },
            "spec": {
                "queueName": queue,
                "podSets": pod_sets,
                **self._priority(classes),
                **workloads.time_limit(first),
            },
        }

    def _composition(self) -> list["_Part"]:
        """Return the pods of each pod set, by name."""
        living = self._living()
        if self._is(names.POD_GROUP_FAST_ADMISSION) and living:
            return [_Part(role_of(living[0]), living[0], self._announced())]
        parts = [
            _Part(name, role.living[0], len(role.living))
            for name, role in sorted(self._roles.items())
            if role.living
        ]
        surplus = 0 if self._view.gang is None else len(living) - self._announced()
        if surplus <= 0:
            return parts
        biggest = max(parts, key=lambda part: (part.count, part.name))
        fewest = max(1, biggest.count - surplus)
        return [replace(part, least=fewest) if part is biggest else part for part in parts]

    def _template(self, part: "_Part", document: views.PodDocument) -> dict[str, Any]:
        """Return the template of a pod set; labels only where its pods select each other by them.

        Kueue's has none.
        """
        template = {"spec": workloads.template_spec(document.spec)}
        if not pod_needs.selects_pods(part.pod.spec):
            return template
        pods = [pod.metadata.labels or {} for pod in self._roles[part.name].living]
        common = frozenset.intersection(*(frozenset(labels.items()) for labels in pods))
        return {"metadata": {"labels": dict(sorted(common))}, **template}

    def _topology_request(self, pod: views.Pod) -> dict[str, Any]:
        """Return the member of a pod set that tells what its pods ask for, and their numbers."""
        label = names.POD_GROUP_POD_INDEX_LABEL
        if self.serving is not None and self.serving.of.index_label:
            label = self.serving.of.index_label
        return {
            "topologyRequest": topology_domains.topology_request(pod.metadata.annotations, label)
        }

    def _topology(self) -> dict[str, str]:
        """Return the annotation of the Workload for the topology of a PodGroup."""
        gang = self._view.gang
        keys = ",".join(gang.together) if gang is not None else ""
        return {names.POD_GROUP_TOPOLOGY: keys} if keys else {}

    def _priority(self, classes: PriorityClasses) -> dict[str, Any]:
        labelled = workloads.labelled_priority(self._view.metadata, classes)
        if labelled:
            return labelled
        specs = [part.pod.spec for part in self._composition()]
        spec = next((spec_ for spec_ in specs if spec_.priority_class_name), specs[0])
        value, name = spec.priority or 0, spec.priority_class_name
        return workloads.pod_priority(name, value) if name else {"priority": value}

    # ----------------------------------------------------------------------------------- helpers

    def gated(self) -> Iterator[views.Pod]:
        """Yield the pods that our gate holds, in order."""
        return (pod for role in self._roles.values() for pod in role.gated)

    def leaves(self, workload: Workload) -> views.Pod | None:
        """Return a pod for which there is no room among those that were admitted, or None.

        It is admitted by itself: the others are as many as must start at once; or, of pods of one
        controller, nobody says whether they can do without it.
        """
        if self._named is None or self._view.gang is None or any(self.ending()):
            return None
        if not goes_on(workload) or self.may_start(workload):
            return None
        return next(self.gated(), None)

    def is_of_podgroup(self) -> bool:
        """Return whether its pods name a PodGroup that is one, and says how many start at once."""
        gang, named = self._view.gang, self._named
        is_gang = gang is not None and not gang.is_single
        return is_gang and named is not None and not named.kind.is_controller

    def lacks(self, workload: Workload) -> int:
        """Return the number of pods that the Workload counts but that do not exist."""
        return self._lacks(workload)

    def suits(self, pod: views.Pod, workload: Workload) -> bool:
        """Return whether a gated pod could start in a role of the Workload, if there was room."""
        return self._suits(pod, workload)

    def has_grown(self, workload: Workload) -> bool:
        """Return whether its owner wants more pods than its Workload asks for."""
        return self.serving is not None and self.serving.size > sum(_asked(workload).values())

    def admitted(self, workload: Workload) -> int:
        """Return the number of pods with which the Workload was admitted."""
        return sum(_counts(workload).values())

    def released_by_role(self) -> dict[str, int]:
        """Return how many pods of each role were released and may run."""
        return {name: len(role.running) + len(role.ending) for name, role in self._roles.items()}

    def ending(self) -> Iterator[views.Pod]:
        """Yield the pods that are being deleted and may run."""
        return (pod for role in self._roles.values() for pod in role.ending)

    def _running(self) -> Iterator[views.Pod]:
        return (pod for role in self._roles.values() for pod in role.running)

    def _living(self) -> list[views.Pod]:
        """Return the pods that count when a Workload is made, in order."""
        uids = {pod.metadata.uid for role in self._roles.values() for pod in role.living}
        return [pod for pod in self._view.members if pod.metadata.uid in uids]

    def _succeeded(self) -> int:
        return sum(len(role.succeeded) for role in self._roles.values())

    def _over(self) -> int:
        """Return how many pods have succeeded, or have given their quota back otherwise."""
        if self._workload is None:
            return self._succeeded()
        back = _given_back(self._workload)
        succeeded = {name: len(role.succeeded) for name, role in self._roles.items()}
        return sum(max(succeeded.get(name, 0), back.get(name, 0)) for name in {*succeeded, *back})

    def _announced(self) -> int:
        """Return the size of the group, by its owner or its first pod."""
        if self._view.gang is not None:
            return self._view.gang.minimum
        if self.serving is not None and self.serving.size:
            return self.serving.size
        living = self._living() or list(self._view.members)
        return total_count(living[0]) if living else 0

    def _total(self) -> int:
        """Return the size of the group, by its Workload if there is one."""
        workload_ = self._workload
        return self._announced() if workload_ is None else sum(_counts(workload_).values())

    def _is(self, annotation: str) -> bool:
        if self._named is not None and annotation == names.POD_GROUP_FAST_ADMISSION:
            return False  # its PodGroup says how many start at once
        return self._view.metadata.annotation(annotation) == "true"


def read(members: Iterable[views.Pod], gang: Gang | None = None) -> PodGroup:
    """Return the group of pods; its first pod is the first that has not failed.

    Args:
        members: the pods.
        gang: what the PodGroup says that they name; its labels count where pods have none.
    """
    listed = tuple(sorted(members, key=order))
    first = next((pod for pod in listed if not _is_replaced(pod)), listed[0]).metadata
    name = single.group_name(views.Object(metadata=first))
    labels = dict(first.labels or {})
    if first.annotation(names.POD_GROUP_SERVING) == "true":
        labels.pop(names.QUEUE_LABEL, None)
    metadata = msgspec.structs.replace(first, uid=f"group {name}", labels={**said(gang), **labels})
    return PodGroup(metadata=metadata, members=listed, gang=gang)


def gathered(members: Iterable[views.Pod]) -> Gang | None:
    """Return a stand-in for the PodGroup of pods of one controller: all that exist.

    None for other pods.
    """
    living = [pod for pod in members if pod.status.phase != "Failed"]
    named = {single.gang_of(pod.metadata) for pod in living}
    if not any(owner_ is not None and owner_.kind.is_controller for owner_ in named):
        return None
    return Gang(metadata=views.ObjectMeta(), minimum=len(living))


def of_owner(group: PodGroup, serving: ServingGroup) -> PodGroup:
    """Return a group with the labels that its owner has now, which its Workload follows."""
    metadata = group.metadata
    labels = {**(metadata.labels or {}), **serving.labels()}
    annotations = {**(metadata.annotations or {}), names.POD_GROUP_SERVING: "true"}
    return msgspec.structs.replace(
        group,
        metadata=msgspec.structs.replace(metadata, labels=labels, annotations=annotations),
    )


def empty(workload: Workload) -> PodGroup:
    """Return the group of a Workload none of whose pods are there."""
    metadata = workload.metadata
    return PodGroup(
        metadata=views.ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=f"group {metadata.name}",
            annotations={
                names.POD_GROUP_NAME: metadata.name,
                names.ADMISSION_GATED_BY: metadata.annotation(names.ADMISSION_GATED_BY),
            },
        )
    )


def order(pod: views.Pod) -> tuple[bool, str, str, str]:
    """Return the sort key of a group's pods: released pods first, then the oldest."""
    metadata = pod.metadata
    created = metadata.creation_timestamp or ""
    return single.is_gated(pod), created, metadata.name, metadata.uid


def role_of(pod: views.Pod) -> str:
    """Return the role of a pod: of one that was released, the one in which it was admitted.

    That is a label that only the controller may change (ADR 0114).
    """
    metadata = pod.metadata
    label = "" if single.is_gated(pod) else metadata.label(names.PODSET_LABEL)
    return label or metadata.annotation(names.ROLE_HASH).lower() or names.DEFAULT_PODSET


def total_count(pod: views.Pod) -> int:
    """Return how many pods the group of a pod is to have; 0 where the review was not asked.

    A number that is too large for a review is one that no group reaches.
    """
    text = pod.metadata.annotation(names.POD_GROUP_TOTAL_COUNT).removeprefix("+")
    if not (text.isascii() and text.isdecimal()):
        return 0
    number = syntax.whole_number(text)
    return sys.maxsize if number is None else number


def _is_index(text: str, total: int) -> bool:
    index = syntax.whole_number(text)
    return index is not None and index < total


def goes_on(workload: Workload) -> bool:
    """Return whether a Workload is admitted and is not being evicted."""
    status = workload.status
    return (
        status.is_true(conditions.ADMITTED)
        and not status.is_true(conditions.EVICTED)
        and not status.is_true(conditions.FINISHED)
    )


def is_stopped(workload: Workload) -> bool:
    """Return whether pods beyond those of a Workload must stop: it is being evicted, or waits.

    One that has ended has had its pods. One that was made for pods that run is charged next.
    """
    is_over = workload.status.is_true(conditions.FINISHED)
    return not (is_over or goes_on(workload) or workload.waits_to_be_charged())


def said(gang: Gang | None) -> dict[str, str]:
    """Return the labels of a PodGroup that count where its pods have none."""
    labels = {} if gang is None else gang.metadata.labels or {}
    keys = names.PRIORITY_CLASS_LABEL, names.MAX_EXEC_TIME_LABEL
    return {key: labels[key] for key in keys if key in labels}


def serves(group: views.ObjectMeta) -> bool:
    """Return whether pods of a group that have ended are replaced, however they ended."""
    return group.annotation(names.POD_GROUP_SERVING) == "true"


def is_gone(pod: views.Pod, group: views.ObjectMeta) -> bool:
    """Return whether a pod counts no more in its group though it is there.

    The phase of a pod of a group that serves tells nothing: a server that handles SIGTERM well
    succeeds in each rolling update, drain or deletion, and another pod takes its place.
    """
    return serves(group) and single.is_terminal(pod)


def _is_replaced(pod: views.Pod) -> bool:
    return pod.status.phase == "Failed" or is_gone(pod, pod.metadata)


def is_retriable(pod: views.Pod) -> bool:
    """Return whether another pod may take the place of a pod that failed."""
    return pod.metadata.annotation(names.RETRIABLE_IN_GROUP) != "false"


def departed(pod: views.Pod) -> Departed | None:
    """Return the record of a deleted pod, or None if there is none."""
    if not single.is_terminal(pod) or serves(pod.metadata):
        return None
    has_succeeded = pod.status.phase == "Succeeded"
    if not has_succeeded and is_retriable(pod):
        return None
    return Departed(role_of(pod), has_succeeded=has_succeeded, is_retriable=is_retriable(pod))


def is_owned_by_pods(workload: Workload) -> bool:
    """Return whether a Workload was made for a group, or taken by one, and has no other owner.

    The owner of the pods may be one.
    """
    references = workload.metadata.owner_references or ()
    return KIND.owns(workload) and all(
        _is_of_pod(reference) or serving_group.is_owner(reference) for reference in references
    )


def memory(workload: Workload) -> Memory:
    """Return the record of pods in a Workload; empty if it cannot be read."""
    text = workload.metadata.annotation(names.GROUP_MEMBERS)
    try:
        return _MEMORY.decode(text) if text else Memory()
    except structs.UNREADABLE:
        return Memory()


def _encode(memory_: Memory) -> str:
    return msgspec.json.encode(memory_).decode()


def _counts(workload: Workload) -> dict[str, int]:
    """Return the number of pods of each role, by its name: as many as were admitted."""
    admission = workload.status.admission
    listed = () if admission is None else admission.pod_set_assignments or ()
    admitted = {
        assignment.name: assignment.count for assignment in listed if assignment.count is not None
    }
    return {
        pod_set.name: admitted.get(pod_set.name, pod_set.count)
        for pod_set in workload.spec.pod_sets or ()
    }


def _asked(workload: Workload) -> dict[str, int]:
    """Return the number of pods of each role, by its name: as many as are asked for."""
    return {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets or ()}


def _given_back(workload: Workload) -> dict[str, int]:
    """Return the number of admitted pods of each role whose quota was given back.

    What is reclaimable is counted from the pods that were asked for.
    """
    given_back = {
        reclaimable.name: reclaimable.count
        for reclaimable in workload.status.reclaimable_pods or ()
    }
    counts = _asked(workload)
    return {
        name: max(0, count - (counts[name] - given_back.get(name, 0)))
        for name, count in _counts(workload).items()
    }


def _pod_set(workload: Workload, role: str) -> PodSet | None:
    return next(
        (pod_set for pod_set in workload.spec.pod_sets or () if pod_set.name == role), None
    )


def _fits(spec: views.PodSpec, template: views.PodSpec) -> bool:
    """Return whether a pod asks for no more than a template."""
    if spec.resource_claims != template.resource_claims:
        return False
    if _asks(spec) == _asks(template):
        return True  # nearly always
    try:
        requests, template_requests = _requests(spec), _requests(template)
    except InvalidValueError:
        return False
    return all(
        amount <= template_requests.get(resource, 0) for resource, amount in requests.items()
    )


def _asks(spec: views.PodSpec) -> tuple[Any, ...]:
    return spec.containers, spec.init_containers, spec.resources, spec.overhead


def _requests(spec: views.PodSpec) -> dict[str, int]:
    return pod_resources.requests(
        pod_resources.with_default_requests(pods.read(spec, "spec", pods.nanos))
    )


def _difference(first: views.Pod, other: views.Pod, copied: Iterable[str]) -> Text | None:
    """Return in what two pods of a group differ that must agree, or None."""
    pair = first.metadata.name, other.metadata.name
    if single.gang_of(first.metadata) != single.gang_of(other.metadata):
        return added_conditions.groups_differ(*pair)
    queues = [pod.metadata.label(names.QUEUE_LABEL) for pod in (first, other)]
    if queues[0] != queues[1]:
        return kueue.group_queues_differ(*pair, *queues)
    totals = [pod.metadata.annotation(names.POD_GROUP_TOTAL_COUNT) for pod in (first, other)]
    if totals[0] != totals[1]:
        return kueue.group_counts_differ(*pair, *totals)
    labels = (other.metadata.labels or {}).keys() & (first.metadata.labels or {}).keys()
    if any(first.metadata.label(key) != other.metadata.label(key) for key in labels & {*copied}):
        return kueue.GROUP_LABELS_DIFFER
    return None


def _owner_uids(workload: Workload) -> set[str]:
    """Return the UIDs of the pods that a Workload names as its owners."""
    references = workload.metadata.owner_references or ()
    return {
        reference.uid
        for reference in references
        if _is_of_pod(reference) and not reference.controller
    }


def _is_of_pod(reference: views.OwnerReference) -> bool:
    return (reference.api_version, reference.kind) == (KIND.api_version, KIND.name)


def _rewritten(reference: views.OwnerReference) -> dict[str, Any]:
    return {
        key: value for key, value in msgspec.to_builtins(reference).items() if value is not None
    }


def _reference(pod: views.Pod) -> dict[str, str]:
    metadata = pod.metadata
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.name,
        "name": metadata.name,
        "uid": metadata.uid,
    }
