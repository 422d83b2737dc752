"""Queues take the place of ResourceQuotas on GPUs, step by step, and back.

At every moment one of the two limits holds. The ResourceQuota stays as it is until the queue is in
force and every pod that runs is charged to it; only then its entries on GPUs go. On the way back
they are in force again before the queue goes. What an entry was is kept in an annotation of the
ResourceQuota.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from admission.admin import manifests, proposal, quota_takeover
from admission.admin.proposal import Proposed, Supply
from admission.base import conditions, names, patches, quantity
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.base.names import LocalQueueKey
from admission.config.derived import Settings
from admission.gpu import resources as gpu_resources
from admission.kube import apply, errors, resources
from admission.kube.api import Api, Document, every, every_served
from admission.kube.apply import Effect
from admission.objects import pods, views
from admission.objects.resource_quota import NamespaceQuota
from admission.owners import pod as pod_owner

FROM: Final = "resourcequota"
"""Value of the annotation on queues that this made."""

_REQUESTS: Final = "requests."
_PATIENCE_SECONDS: Final = 120.0
_SETTLE_SECONDS: Final = 5.0
"""After which every webhook has seen a new LocalQueue; a watch takes much less."""
_POLL_SECONDS: Final = 0.2
_SHOWN: Final = 5


class MigrationError(AdmissionError):
    """It cannot go on; whatever limited GPUs before does so still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenQuota:
    """Entries of a ResourceQuota that a queue takes the place of.

    Attributes:
        namespace: of the ResourceQuota.
        name: of the ResourceQuota.
        entries: by key, such as ``requests.nvidia.com/gpu``.
        kept: keys of the entries that stay.
    """

    namespace: str
    name: str
    entries: Mapping[str, str]
    kept: tuple[str, ...]

    @property
    def devices(self) -> frozenset[str]:
        """The resources that it limits."""
        return frozenset(key.removeprefix(_REQUESTS) for key in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What is to be done.

    Attributes:
        objects: flavors and queues, in the order in which they are made.
        taken: what leaves ResourceQuotas at the end.
        running: how many pods are charged to the queue of each namespace.
        notes: what people should know.
    """

    objects: tuple[Proposed, ...]
    taken: tuple[TakenQuota, ...]
    running: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One change.

    Attributes:
        kind: of the object.
        namespace: its namespace; empty for none.
        name: its name.
        what: happened to it.
    """

    kind: str
    namespace: str
    name: str
    what: str


@dataclass(frozen=True, slots=True)
class Run:
    """What a run needs besides a plan.

    Attributes:
        api: the cluster.
        settings: of the installation.
        clock: bounds waits.
        wait: sleeps for seconds.
    """

    api: Api
    settings: Settings
    clock: Clock
    wait: Callable[[float], None]

    def until(self, look: Callable[[], str], advice: str) -> None:
        """Return once nothing is missing.

        Args:
            look: returns what is missing; empty for nothing.
            advice: what to do about it.

        Raises:
            MigrationError: something still is after the time.
        """
        deadline = self.clock.monotonic() + _PATIENCE_SECONDS
        while missing := look():
            if self.clock.monotonic() > deadline:
                raise MigrationError(
                    f"{missing} after {_PATIENCE_SECONDS:.0f} s; the ResourceQuotas hold as "
                    f"before. {advice}, and run the command again"
                )
            self.wait(_POLL_SECONDS)


# -------------------------------------------------------------------------------------- the plan


def plan(api: Api, supply: Supply, settings: Settings) -> MigrationPlan:
    """Return what is to be done; nothing where no ResourceQuota limits GPUs.

    Args:
        api: the cluster.
        supply: what its nodes have.
        settings: of the installation.
    """
    quotas = list(every(api, resources.RESOURCE_QUOTAS, into=NamespaceQuota))
    unmanaged = frozenset(settings.managed_namespaces.unmanaged)
    over = quota_takeover.take_over(supply, quotas, unmanaged)
    taken = tuple(
        taken_quota
        for quota in sorted(quotas, key=_place)
        for taken_quota in (_taken(quota, over.taken.get(_place(quota), ())),)
        if taken_quota.entries
    )
    limits = _limits(taken)
    objects = proposal.objects(supply, over.shares, left_over=over.left_over)
    return MigrationPlan(
        objects=tuple(_marked(proposed, limits) for proposed in objects) if taken else (),
        taken=taken,
        running={
            space: sum(1 for _ in _uncharged(api, space, set(limits[space])))
            for space in sorted(limits)
        },
        notes=(*supply.notes, *over.notes, *_kept_notes(taken)),
    )


def _place(quota: NamespaceQuota) -> tuple[str, str]:
    return quota.metadata.namespace, quota.metadata.name


def _taken(quota: NamespaceQuota, keys: Iterable[str]) -> TakenQuota:
    """Return the entries on GPUs among those that were taken over; others limit more than GPUs."""
    hard = quota.spec.hard or {}
    entries = {
        key: str(hard[key])
        for key in sorted(keys)
        if gpu_resources.is_device(key.removeprefix(_REQUESTS))
    }
    return TakenQuota(
        namespace=quota.metadata.namespace,
        name=quota.metadata.name,
        entries=entries,
        kept=tuple(sorted(set(hard) - set(entries))),
    )


def _limits(taken: Iterable[TakenQuota]) -> dict[str, dict[str, int]]:
    """Return the lowest limit of each resource by namespace."""
    limits: dict[str, dict[str, int]] = {}
    for quota in taken:
        of_namespace = limits.setdefault(quota.namespace, {})
        for key, value in quota.entries.items():
            resource = key.removeprefix(_REQUESTS)
            amount = quantity.to_canonical(resource, value)
            of_namespace[resource] = min(amount, of_namespace.get(resource, amount))
    return limits


def _marked(proposed: Proposed, limits: Mapping[str, Mapping[str, int]]) -> Proposed:
    """Return a queue that says where it is from, and holds no more than the ResourceQuota said."""
    document = proposed.document
    if document["kind"] not in {"ClusterQueue", "LocalQueue"}:
        return proposed
    marks = {names.TAKEN_OVER_FROM: FROM}
    why = proposed.why
    if document["kind"] == "LocalQueue":
        of_namespace = limits[document["metadata"]["namespace"]]
        marks[names.MAX_IN_USE] = ", ".join(
            f"{resource}={quantity.from_canonical(resource, amount)}"
            for resource, amount in sorted(of_namespace.items())
        )
        why += (
            "\nIts work holds no more than the ResourceQuota allowed. Take the annotation "
            f"{names.MAX_IN_USE} off to let it borrow what others do not use."
        )
    metadata = {**document["metadata"], "annotations": marks}
    return replace(proposed, document={**document, "metadata": metadata}, why=why)


def _kept_notes(taken: Iterable[TakenQuota]) -> Iterator[str]:
    for quota in taken:
        if quota.kept:
            yield (
                f"ResourceQuota {quota.name} -n {quota.namespace} keeps {', '.join(quota.kept)}: "
                "it counts pods that wait, too; raise it where it refuses them"
            )


# --------------------------------------------------------------------------------------- there


def apply_plan(run: Run, chosen: MigrationPlan) -> Iterator[Done]:
    """Do what a plan says, and yield each change. What is done already is not done again.

    Raises:
        MigrationError: gpu-admission does not run here, or something does not come true.
        KubeError: the API server refused.
    """
    _refuse_without_installation(run)
    for proposed in chosen.objects:
        yield from _make(run.api, proposed.document)
    spaces = sorted({quota.namespace for quota in chosen.taken})
    for space in spaces:
        run.until(
            lambda space=space: _inactive(run.api, space),  # type: ignore[misc]
            "See why: kubectl gpu queue, gpu-admission doctor",
        )
    run.wait(_SETTLE_SECONDS)
    devices = _devices(chosen.taken)
    for space in spaces:
        yield from _charge(run, space, devices[space])
    for quota in chosen.taken:
        yield _lift(run.api, quota)
    for space in spaces:
        yield from _charge(run, space, devices[space])  # what came while a webhook was behind


def _devices(taken: Iterable[TakenQuota]) -> dict[str, set[str]]:
    devices: dict[str, set[str]] = {}
    for quota in taken:
        devices.setdefault(quota.namespace, set()).update(quota.devices)
    return devices


def _refuse_without_installation(run: Run) -> None:
    place = manifests.service_reference(run.settings)
    for document in manifests.webhook_configurations(place, run.settings):
        resource, name, _ = apply.locate(document)
        try:
            run.api.get(resource, name)
        except errors.NotFoundError:
            raise MigrationError(
                f"{resource.kind} {name} does not exist: gpu-admission holds no pods here; run "
                "gpu-admission install, and start it, before"
            ) from None


def _make(api: Api, document: Document) -> Iterator[Done]:
    resource, name, namespace = apply.locate(document)
    try:
        api.get(resource, name, namespace)
    except errors.NotFoundError:
        apply.apply(api, document)
        effect = Effect.CREATED.value
    else:
        effect = "kept"
    yield Done(kind=resource.kind, namespace=namespace, name=name, what=effect)


def _inactive(api: Api, namespace: str) -> str:
    """Return what keeps the queue of a namespace from being in force; empty for nothing."""
    name = names.DEFAULT_LOCAL_QUEUE
    queue = api.get(resources.LOCAL_QUEUES, name, namespace)
    if _is_true(queue, conditions.ACTIVE):
        return ""
    return f"LocalQueue {name} -n {namespace} is not active"


def _is_true(document: Document, type_: str) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == type_ and condition["status"] == "True" for condition in conditions
    )


def _charge(run: Run, namespace: str, devices: set[str]) -> Iterator[Done]:
    """Have every pod that runs charged to the queue of its namespace, and wait until it is."""
    queue = run.api.get(resources.LOCAL_QUEUES, names.DEFAULT_LOCAL_QUEUE, namespace)
    cluster_queue = str(queue["spec"]["clusterQueue"])
    local = LocalQueueKey(namespace, names.DEFAULT_LOCAL_QUEUE)
    awaited: list[str] = []
    for pod in list(_uncharged(run.api, namespace, devices)):
        try:
            patch = pod_owner.charge_to(pod, local.name, cluster_queue)
            run.api.patch(resources.PODS, pod.metadata.name, patch, namespace)
        except (errors.NotFoundError, errors.ConflictError):
            continue  # it has ended or changed; the next look sees it
        if not pod.metadata.deletion_timestamp:
            awaited.append(pod_owner.KIND.key_of(pod).name)
        yield Done(
            kind="Pod",
            namespace=namespace,
            name=pod.metadata.name,
            what=f"charged to ClusterQueue {cluster_queue}",
        )
    run.until(
        lambda: _unadmitted(run.api, namespace, awaited),
        "Does the controller run? gpu-admission doctor",
    )
    if awaited:
        yield from _charge(run, namespace, devices)


def _unadmitted(api: Api, namespace: str, awaited: list[str]) -> str:
    """Return which pods are not charged yet; forget those that are, or that have ended."""
    for name in tuple(awaited):
        try:
            workload = api.get(resources.WORKLOADS, name, namespace)
        except errors.NotFoundError:
            continue
        if _is_true(workload, conditions.ADMITTED) or _is_true(workload, conditions.FINISHED):
            awaited.remove(name)
    return f"no quota is charged for Workloads {_some(awaited)} -n {namespace}" if awaited else ""


def _uncharged(api: Api, namespace: str, devices: set[str]) -> Iterator[views.Pod]:
    """Yield the pods of a namespace that run with GPUs outside every queue."""
    for pod in every(api, resources.PODS, field_selector=_in(namespace), into=views.Pod):
        metadata = pod.metadata
        is_ours = metadata.label(names.MANAGED_LABEL) or metadata.label(names.PODSET_LABEL)
        is_over = pod_owner.is_terminal(pod) or pod_owner.is_gated(pod)
        if is_ours or is_over or metadata.annotation(pods.MIRROR_ANNOTATION):
            continue
        if any(amount and name in devices for name, amount in pods.gpus_of(pod.spec).items()):
            yield pod


def _in(namespace: str) -> str:
    """Return the field selector of the objects of a namespace."""
    return f"metadata.namespace={namespace}"


def _lift(api: Api, taken: TakenQuota) -> Done:
    """Take the entries out of a ResourceQuota, and keep them in its annotation."""
    quota = api.get(resources.RESOURCE_QUOTAS, taken.name, taken.namespace)
    before = {**_backup(quota), **taken.entries}
    metadata = {
        "resourceVersion": quota["metadata"]["resourceVersion"],
        "annotations": {names.QUOTA_BEFORE: json.dumps(before, sort_keys=True)},
    }
    gone = dict.fromkeys(taken.entries)
    api.patch(
        resources.RESOURCE_QUOTAS,
        taken.name,
        patches.merge({"metadata": metadata, "spec": {"hard": gone}}),
        taken.namespace,
    )
    return Done(
        kind="ResourceQuota",
        namespace=taken.namespace,
        name=taken.name,
        what=f"no longer limits {', '.join(taken.entries)}",
    )


def _backup(quota: Document) -> dict[str, str]:
    """Return the entries that a ResourceQuota had before; empty where nothing was taken.

    Raises:
        MigrationError: somebody has changed the annotation.
    """
    metadata = quota["metadata"]
    text = (metadata.get("annotations") or {}).get(names.QUOTA_BEFORE)
    if text is None:
        return {}
    try:
        limits = json.loads(text)
    except ValueError:
        limits = None
    if not isinstance(limits, dict) or not all(
        isinstance(limit, str) for limit in limits.values()
    ):
        raise MigrationError(
            f"ResourceQuota {metadata['name']} -n {metadata['namespace']}: metadata.annotations"
            f"[{names.QUOTA_BEFORE}]: must be an object of quantities by key, as it was written; "
            "put the entries back by hand and take the annotation off"
        )
    return limits


# ---------------------------------------------------------------------------------------- back


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQueue:
    """A queue that stays, as somebody waits in it.

    Attributes:
        namespace: of the LocalQueue.
        workloads: names of those that wait.
    """

    namespace: str
    workloads: Sequence[str]


def to_undo(api: Api) -> list[TakenQuota]:
    """Return what was taken out of ResourceQuotas, in the order of namespaces and names.

    Raises:
        MigrationError: what was taken cannot be read.
        KubeError: the API server refused.
    """
    quotas = sorted(
        every(api, resources.RESOURCE_QUOTAS),
        key=lambda quota: (quota["metadata"]["namespace"], quota["metadata"]["name"]),
    )
    return [
        TakenQuota(
            namespace=quota["metadata"]["namespace"],
            name=quota["metadata"]["name"],
            entries=before,
            kept=tuple(sorted((quota["spec"].get("hard") or {}).keys() - before.keys())),
        )
        for quota in quotas
        if (before := _backup(quota))
    ]


def undo(
    run: Run, taken: Sequence[TakenQuota], waiting: Callable[[WaitingQueue], None]
) -> Iterator[Done]:
    """Put ResourceQuotas back, wait until they are in force, and then take the queues away.

    A queue in which somebody waits stays, as its pods would stay pending for ever. Running pods
    run on. Flavors and the Cohort stay.

    Args:
        run: where.
        taken: what was taken.
        waiting: told of each queue that stays.

    Raises:
        MigrationError: a ResourceQuota does not count.
        KubeError: the API server refused.
    """
    for quota in taken:
        yield _put_back(run.api, quota)
    for quota in taken:
        run.until(
            lambda quota=quota: _uncounted(run.api, quota),  # type: ignore[misc]
            "Does kube-controller-manager run? It counts what ResourceQuotas limit",
        )
    for space in sorted({quota.namespace for quota in taken}):
        pending = _pending(run.api, space)
        if pending:
            waiting(WaitingQueue(namespace=space, workloads=pending))
            continue
        yield from _remove_queues(run.api, space)
        for quota in taken:
            if quota.namespace == space:
                _forget(run.api, quota)


def _put_back(api: Api, taken: TakenQuota) -> Done:
    api.patch(
        resources.RESOURCE_QUOTAS,
        taken.name,
        patches.merge({"spec": {"hard": dict(taken.entries)}}),
        taken.namespace,
    )
    return Done(
        kind="ResourceQuota",
        namespace=taken.namespace,
        name=taken.name,
        what=f"limits {', '.join(taken.entries)} again",
    )


def _uncounted(api: Api, taken: TakenQuota) -> str:
    """Return which entries are not in force yet: the API server goes by the status."""
    quota = api.get(resources.RESOURCE_QUOTAS, taken.name, taken.namespace)
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    missing = [
        key for key in taken.entries if key not in used or hard.get(key) != taken.entries[key]
    ]
    if not missing:
        return ""
    return f"ResourceQuota {taken.name} -n {taken.namespace} does not count {', '.join(missing)}"


def _pending(api: Api, namespace: str) -> list[str]:
    """Return the Workloads of a namespace that wait for quota."""
    return sorted(
        workload["metadata"]["name"]
        for workload in every(api, resources.WORKLOADS, field_selector=_in(namespace))
        if workload["spec"].get("queueName") == names.DEFAULT_LOCAL_QUEUE
        and not _is_true(workload, conditions.QUOTA_RESERVED)
        and not _is_true(workload, conditions.FINISHED)
    )


def _remove_queues(api: Api, namespace: str) -> Iterator[Done]:
    """Take away the queues of a namespace that this made."""
    name = names.DEFAULT_LOCAL_QUEUE
    try:
        local = api.get(resources.LOCAL_QUEUES, name, namespace)
    except errors.NotFoundError:
        return
    if not _is_made(local):
        yield Done(kind="LocalQueue", namespace=namespace, name=name, what="kept")
        return
    api.delete(resources.LOCAL_QUEUES, name, namespace, uid=local["metadata"]["uid"])
    yield Done(kind="LocalQueue", namespace=namespace, name=name, what="deleted")
    queue = local["spec"]["clusterQueue"]
    is_used = any(
        local_queue["spec"]["clusterQueue"] == queue
        for local_queue in every_served(api, resources.LOCAL_QUEUES)
        if local_queue["metadata"]["uid"] != local["metadata"]["uid"]
    )
    try:
        queue_document = api.get(resources.CLUSTER_QUEUES, queue)
    except errors.NotFoundError:
        return
    if is_used or not _is_made(queue_document):
        yield Done(kind="ClusterQueue", namespace="", name=queue, what="kept")
        return
    api.delete(resources.CLUSTER_QUEUES, queue, uid=queue_document["metadata"]["uid"])
    result = "deleted once its running pods have ended"
    yield Done(kind="ClusterQueue", namespace="", name=queue, what=result)


def _is_made(document: Document) -> bool:
    return (document["metadata"].get("annotations") or {}).get(names.TAKEN_OVER_FROM) == FROM


def _forget(api: Api, taken: TakenQuota) -> None:
    marks = {"metadata": {"annotations": {names.QUOTA_BEFORE: None}}}
    api.patch(resources.RESOURCE_QUOTAS, taken.name, patches.merge(marks), taken.namespace)


def _some(listed: Sequence[str]) -> str:
    shown = ", ".join(listed[:_SHOWN])
    return f"{shown} and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else shown
