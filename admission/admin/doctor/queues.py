"""Checks of queues: does what they name exist, and can anybody use them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from admission.admin.doctor import picture as pictures
from admission.admin.doctor.devices import shown
from admission.admin.doctor.findings import DoctorFinding, error, warning
from admission.admin.doctor.picture import Picture
from admission.answers import namespace_selectors, queue_problems
from admission.answers.queue_problems import Holder, QueueProblem
from admission.base import conditions, quantity
from admission.base.conditions import Text
from admission.kube import resources
from admission.objects import queue_status, values, views
from admission.objects.cluster_queue import ClusterQueue
from admission.objects.cohort import Cohort
from admission.objects.local_queue import LocalQueue
from admission.objects.workload import Workload
from admission.reasons import next_steps, placing, reading, sentences

_PATIENCE_SECONDS: Final = 300.0

_Pair = tuple[str, str]
"""A flavor and a resource."""


def flavors(picture: Picture) -> Iterator[DoctorFinding]:
    """Every flavor that a ClusterQueue or Cohort names exists, and is not being deleted."""
    for name, flavor in sorted(picture.flavors.items()):
        users = [
            cluster_queue.metadata.name
            for cluster_queue in picture.cluster_queues
            if name in _named(cluster_queue)
        ]
        if flavor.metadata.deletion_timestamp and users:
            text = (
                f"it is being deleted, and ClusterQueue {shown(users)} names it: it goes when no "
                "ClusterQueue names it any more, and its quota with it"
            )
            mend = (
                f"remove it from spec.resourceGroups of {shown(users)}; to keep its quota, create "
                "a ResourceFlavor of another name with the same spec and name that one first"
            )
            yield warning("ResourceFlavor", name, text, mend)
    for queue in picture.cluster_queues:
        for problem in queue_problems.missing_flavors(queue, picture.flavors):
            yield error("ClusterQueue", queue.metadata.name, problem.text, problem.mend)
    for cohort in picture.cohorts:
        for problem in queue_problems.missing_flavors(cohort, picture.flavors):
            yield warning("Cohort", cohort.metadata.name, problem.text, problem.mend)


def _missing(picture: Picture, queue: ClusterQueue) -> tuple[str, ...]:
    return tuple(name for name in _named(queue) if name not in picture.flavors)


def _named(queue: ClusterQueue) -> dict[str, None]:
    """Return the flavors that a ClusterQueue names, in its order."""
    return {
        flavor.name: None for group in queue.spec.resource_groups or () for flavor in group.flavors
    }


def without_node(picture: Picture) -> Iterator[DoctorFinding]:
    """Pods that hold GPUs of a ClusterQueue are on a node after five minutes."""
    for queue in picture.cluster_queues:
        name = queue.metadata.name
        for pair, amount_held in queue_status.without_node(queue.status.without_node).items():
            if picture.age_seconds(amount_held.since) <= _PATIENCE_SECONDS:
                continue
            text = placing.without_node(
                pair.resource, pair.flavor, amount_held.amount, name, amount_held.since
            )
            mend = (
                f"kubectl gpu who {name}; it shows whose pods have no node. "
                "Nothing is wrong if an autoscaler adds nodes for them"
            )
            yield warning("ClusterQueue", name, text, mend)


def overcommitted(picture: Picture) -> Iterator[DoctorFinding]:
    """The queues of a cohort have reserved no more than the nominal quota of the cohort.

    A ClusterQueue that shares with nobody is compared with its own quota.
    """
    parents = {cohort.metadata.name: cohort.spec.parent_name or "" for cohort in picture.cohorts}
    holders: tuple[Holder, ...] = (*picture.cluster_queues, *picture.cohorts)
    trees: dict[str, list[ClusterQueue]] = {}
    for queue in picture.cluster_queues:
        top = queue_problems.top_of(queue.spec.cohort_name, parents)
        if top:
            trees.setdefault(top, []).append(queue)
        else:
            yield from _above(
                "ClusterQueue", queue.metadata.name, [queue],
                _nominal(queue.spec.resource_groups), _borrowing(queue, holders),
            )  # fmt: skip
    astray = _astray(holders, parents)
    for top, queues in sorted(trees.items()):
        cohorts = [
            c for c in picture.cohorts if queue_problems.top_of(c.metadata.name, parents) == top
        ]
        nominal: Counter[_Pair] = Counter()
        groups = [*(queue.spec.resource_groups for queue in queues)]
        groups += [cohort.spec.resource_groups for cohort in cohorts]
        for groups_of_holder in groups:
            nominal.update(_nominal(groups_of_holder))
        if len(queues) == 1 and not cohorts:
            name = queues[0].metadata.name
            cause = _borrowing(queues[0], holders)
            yield from _above("ClusterQueue", name, queues, nominal, cause)
        else:
            yield from _above("Cohort", top, queues, nominal, astray.get(top))


def _borrowing(queue: ClusterQueue, holders: Sequence[Holder]) -> QueueProblem:
    """Return why a ClusterQueue that shares with nobody does not borrow."""
    if not queue.spec.cohort_name:
        return QueueProblem("it borrows from no one: spec.cohortName is not set", "")
    for problem in queue_problems.resembling_cohort(queue, holders):
        return replace(
            problem, mend="if so, correct spec.cohortName where it is misspelled; else "
        )
    return QueueProblem(queue_problems.alone(queue), "")


def _astray(holders: Sequence[Holder], parents: Mapping[str, str]) -> dict[str, QueueProblem]:
    """Return who was probably meant to share with the queues of a Cohort, by the topmost one."""
    problems: dict[str, QueueProblem] = {}
    for holder in holders:
        if meant := queue_problems.meant_cohort(holder, holders):
            is_cohort = isinstance(holder, Cohort)
            kind, field = ("Cohort", "parentName") if is_cohort else ("ClusterQueue", "cohortName")
            name = holder.metadata.name
            problems[queue_problems.top_of(meant, parents)] = QueueProblem(
                f"{kind} {name} shares nothing with them: it names another Cohort; did you mean "
                f"{meant}?",
                f"if so, correct its spec.{field}: kubectl edit {kind.lower()} {name}; else ",
            )
    return problems


def _above(
    kind: str,
    name: str,
    queues: Sequence[ClusterQueue],
    nominal: Mapping[_Pair, int],
    cause: QueueProblem | None,
) -> Iterator[DoctorFinding]:
    """Yield what queues have reserved above the nominal quota that they share.

    What may be the cause is told with it, and what mends that before the rest.
    """
    reserved = {queue.metadata.name: _reserved(queue) for queue in queues}
    total: Counter[_Pair] = Counter()
    for amounts in reserved.values():
        total.update(amounts)
    nominal_of = {queue.metadata.name: _nominal(queue.spec.resource_groups) for queue in queues}
    for pair, amount in sorted(total.items()):
        if amount <= nominal.get(pair, 0):
            continue
        flavor, resource = pair
        above = sorted(
            queue
            for queue, amounts in reserved.items()
            if amounts.get(pair, 0) > nominal_of[queue].get(pair, 0)
        )
        whose = "its queues have" if kind == "Cohort" else "it has"
        promised = quantity.in_words(resource, nominal.get(pair, 0))
        own_quota = f"; above their own: {shown(above)}" if kind == "Cohort" else ""
        text = (
            f"{whose} reserved {quantity.in_words(resource, amount)} {resource} of flavor "
            f"{flavor}, and the nominal quota is {promised}{own_quota}"
        )
        if cause is not None:
            text = f"{text}; {cause.text}"
        mend = (
            f"{'' if cause is None else cause.mend}wait until work of {shown(above)} ends, "
            f"delete some, or raise the nominalQuota if "
            f"there are nodes for it: kubectl gpu who {above[0] if above else name}"
        )
        yield warning(kind, name, text, mend)


def _nominal(groups: Iterable[Any] | None) -> dict[_Pair, int]:
    return {
        (flavor.name, quota.name): values.amount_or_zero(quota.name, quota.nominal_quota)
        for group in groups or ()
        for flavor in group.flavors
        for quota in flavor.resources
    }


def _reserved(queue: ClusterQueue) -> dict[_Pair, int]:
    """Return what Workloads of a queue have reserved; what cannot be read counts as 0."""
    return {
        (flavor["name"], resource["name"]): values.amount_or_zero(
            resource["name"], resource.get("total") or "0"
        )
        for flavor in queue.status.flavors_reservation or ()
        for resource in flavor.get("resources") or ()
    }


def inactive(picture: Picture) -> Iterator[DoctorFinding]:
    """Every ClusterQueue admits."""
    for queue in picture.cluster_queues:
        name, policy = queue.metadata.name, queue.spec.stop_policy
        if queue.metadata.deletion_timestamp:
            yield from _ending(picture, name)
            continue
        for problem in queue_problems.selects_nothing(queue):
            yield warning("ClusterQueue", name, problem.text, problem.mend)
        if policy not in {"", "None"}:
            mend = f"kubectl patch clusterqueue {name} --type=merge -p '{_GO}'"
            text = f"it admits nothing: its stopPolicy is {policy}"
            yield warning("ClusterQueue", name, text, mend)
            continue
        active = next(
            (
                condition
                for condition in queue.status.conditions or ()
                if condition.type == "Active"
            ),
            None,
        )
        if active is not None and active.status == "False" and not _missing(picture, queue):
            why = sentences.cluster_queue(Text(active.reason, active.message))
            text = f"it {why.message[:1].lower()}{why.message[1:].rstrip('.')}"
            mend = next_steps.next_step(why.reason, {"queue": name})
            yield error("ClusterQueue", name, text, mend or f"kubectl gpu why clusterqueue/{name}")
    for local in picture.local_queues:
        place = f"{local.metadata.namespace}/{local.metadata.name}"
        if local.spec.stop_policy not in {"", "None"}:
            mend = (
                f"kubectl patch localqueue {local.metadata.name} -n {local.metadata.namespace} "
                f"--type=merge -p '{_GO}'"
            )
            text = f"it admits nothing: its stopPolicy is {local.spec.stop_policy}"
            yield warning("LocalQueue", place, text, mend)


def _ending(picture: Picture, name: str) -> Iterator[DoctorFinding]:
    """Yield what a ClusterQueue waits for that is being deleted; without it, it ends at once."""
    text = "it admits nothing: it is being deleted, and goes when nothing holds its quota any more"
    mend = (
        f"wait, or end what holds it: kubectl gpu who {name}; to evict all of it: kubectl patch "
        f"clusterqueue {name} --type=merge -p '{_DRAIN}'. To keep the queue, create it anew after"
    )
    if resources.WORKLOADS in picture.unseen:
        yield warning("ClusterQueue", name, text, mend)
    elif users := pictures.holding(picture.workloads, name):
        count = f"{len(users)} Workload(s) ({shown(users)})"
        yield warning("ClusterQueue", name, f"{text}: {count}", mend)


_DRAIN: Final = '{"spec":{"stopPolicy":"HoldAndDrain"}}'
_GO = '{"spec":{"stopPolicy":"None"}}'


def idle(picture: Picture) -> Iterator[DoctorFinding]:
    """A ClusterQueue in which work waits has given quota to some of it."""
    behind = {
        (local_queue.metadata.namespace, local_queue.metadata.name): local_queue.spec.cluster_queue
        for local_queue in picture.local_queues
    }
    waiting: dict[str, list[Workload]] = {}
    busy = set[str]()
    for workload in picture.workloads:
        if any(
            condition.type == _FINISHED and condition.status == "True"
            for condition in _conditions(workload)
        ):
            continue
        if workload.status.admission is not None:
            busy.add(workload.status.admission.cluster_queue)
        elif workload.spec.active is not False:
            at = behind.get((workload.metadata.namespace, workload.spec.queue_name), "")
            waiting.setdefault(at, []).append(workload)
    for queue in picture.cluster_queues:
        name = queue.metadata.name
        queue_waiting = waiting.get(name, [])
        if name in busy or not queue_waiting or not _is_active(queue):
            continue
        oldest = min(queue_waiting, key=_age_key)
        if picture.age_seconds(oldest.metadata.creation_timestamp) <= _PATIENCE_SECONDS:
            continue
        yield _of_idle(name, oldest, len(queue_waiting))


_FINISHED: Final = "Finished"


def _conditions(workload: Workload) -> Sequence[views.Condition]:
    return workload.status.conditions or ()


def _age_key(workload: Workload) -> tuple[str, str, str]:
    metadata = workload.metadata
    return metadata.creation_timestamp or "", metadata.namespace, metadata.name


def _is_active(queue: ClusterQueue) -> bool:
    active_conditions = queue.status.conditions or ()
    return any(
        condition.type == conditions.ACTIVE and condition.status == "True"
        for condition in active_conditions
    )


def _of_idle(queue: str, oldest: Workload, count: int) -> DoctorFinding:
    """Return what `why` says of the Workload that has waited longest."""
    reserved = next(
        (
            condition
            for condition in _conditions(oldest)
            if condition.type == conditions.QUOTA_RESERVED
        ),
        None,
    )
    why = (
        sentences.text(reading.of_condition(reserved.reason, reserved.message), queue)
        if reserved is not None and reserved.reason
        else sentences.not_judged()
    )
    namespace, name = oldest.metadata.namespace, oldest.metadata.name
    place = {"queue": queue, "namespace": namespace, "workload": name}
    fields = place | {"local": oldest.spec.queue_name, "name": name}
    text = (
        f"{count} Workload(s) wait, and none has quota; {namespace}/{name} has waited longest: "
        f"{why.message.rstrip('.')}"
    )
    mend = next_steps.next_step(why.reason, fields) or "wait"
    return warning("ClusterQueue", queue, text, mend)


def local_queues(picture: Picture) -> Iterator[DoctorFinding]:
    """Every LocalQueue names a ClusterQueue that exists and selects its namespace."""
    queues = {
        cluster_queue.metadata.name: cluster_queue for cluster_queue in picture.cluster_queues
    }
    labels = {
        namespace["metadata"]["name"]: pictures.labels_of(namespace)
        for namespace in picture.of(resources.NAMESPACES)
    }
    for local in picture.local_queues:
        place = f"{local.metadata.namespace}/{local.metadata.name}"
        queue = queues.get(local.spec.cluster_queue)
        for problem in queue_problems.missing_cluster_queue(local, queues):
            yield error("LocalQueue", place, problem.text, problem.mend)
        if queue is None:
            continue
        namespace = labels.get(local.metadata.namespace)
        if namespace is None or queue.spec.namespace_selector is None:
            continue  # the check of ClusterQueues tells of a selector that is not set
        for problem in namespace_selectors.not_selected(queue, namespace):
            step = namespace_selectors.next_step(queue, local.metadata.namespace, namespace)
            yield error("LocalQueue", place, problem.text, step)


def cohorts(picture: Picture) -> Iterator[DoctorFinding]:
    """No ClusterQueue or Cohort is alone in a Cohort whose name resembles that of another."""
    holders: tuple[Holder, ...] = (*picture.cluster_queues, *picture.cohorts)
    for holder in holders:
        kind = "Cohort" if isinstance(holder, Cohort) else "ClusterQueue"
        for problem in queue_problems.resembling_cohort(holder, holders):
            yield warning(kind, holder.metadata.name, problem.text, problem.mend)


def annotations(picture: Picture) -> Iterator[DoctorFinding]:
    """Every annotation of ours on queues, Cohorts and flavors has an effect; every cap limits."""
    queues = {queue.metadata.name: queue for queue in picture.cluster_queues}
    objects: dict[str, Iterable[views.Object]] = {
        "ClusterQueue": picture.cluster_queues,
        "LocalQueue": picture.local_queues,
        "Cohort": picture.cohorts,
        "ResourceFlavor": picture.flavors.values(),
    }
    for kind, members in objects.items():
        for view in members:
            metadata = view.metadata
            place = "/".join(filter(None, (metadata.namespace, metadata.name)))
            problems = list(queue_problems.annotations_without_effect(kind, metadata))
            limited = view if isinstance(view, ClusterQueue) else None
            if isinstance(view, LocalQueue):
                limited = queues.get(view.spec.cluster_queue)
            if limited is not None:
                problems += queue_problems.caps_without_effect(metadata, limited)
            for problem in problems:
                yield warning(kind, place, problem.text, problem.mend)
