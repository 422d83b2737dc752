"""Pods as owners: a single pod is held by our scheduling gate until its Workload is admitted.

Source: kueue pkg/controller/jobs/pod. Differs: no finalizer on a Workload that a pod owns (ADR
0002).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from typing_extensions import override

from admission.base import clock, conditions, names, patches
from admission.base.conditions import Text
from admission.base.names import WorkloadKey
from admission.base.namespaces import ManagedNamespaces
from admission.objects import condition_list, gangs, pods, views
from admission.objects.workload import Workload
from admission.owners import injection, prebuilt
from admission.owners.framework import Integration, Kind, Owner, Terminates
from admission.owners.injection import Injection
from admission.owners.topology_domains import topology_request
from admission.owners.workload import (
    PriorityClasses,
    annotations,
    document,
    labelled_priority,
    max_execution_seconds,
    name_for,
    pod_priority,
    template_spec,
    time_limit,
)
from admission.reasons import kueue, sentences

KIND: Final = Kind(
    api_version="v1",
    name="Pod",
    plural="pods",
    label=names.MANAGED_LABEL,
    label_value=names.MANAGED_VALUE,
    is_deleted_to_stop=True,
    has_condition=True,
    takes_preferences=True,
)
_READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class PodOwner(Owner, Terminates):
    """A single pod.

    Attributes:
        view: the pod.
        ending: see `is_ending`.
    """

    view: views.Pod
    ending: bool = False

    @property
    @override
    def kind(self) -> Kind:
        return KIND

    @property
    @override
    def pod_sets(self) -> tuple[str, ...]:
        return (names.DEFAULT_PODSET,)

    @override
    def is_held(self) -> bool:
        return is_gated(self.view)

    @override
    def is_active(self) -> bool:
        return False  # a gated pod has no containers

    @override
    def is_ready(self) -> bool:
        return is_ready(self.view)

    @override
    def is_ending(self) -> bool:
        return self.ending

    @override
    def finished(self) -> Text | None:
        if self.view.metadata.deletion_timestamp:
            return None if self.ending else kueue.OWNER_NOT_FOUND
        if not is_terminal(self.view):
            return None
        status = self.view.status
        return kueue.owner_finished(status.message, succeeded=status.phase == "Succeeded")

    @override
    def was_admitted(self) -> bool:
        named = self.view.metadata.annotation(names.WORKLOAD_ANNOTATION)
        return not self.is_held() and named == KIND.key_of(self.view).name

    @override
    def missing_workload(self) -> Text:
        return kueue.WORKLOAD_MISSING

    @override
    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> patches.Patch:
        pod_set = names.DEFAULT_PODSET
        return release(self.view, injection.in_domain(injections[pod_set], workload, pod_set))

    @override
    def stands_for(self, workload: Workload) -> bool:
        counts = [
            (pod_set.name, pod_set.count, pod_set.min_count)
            for pod_set in workload.spec.pod_sets or ()
        ]
        limit = workload.spec.maximum_execution_time_seconds
        seconds = max_execution_seconds(self.view.metadata)
        return counts == [(names.DEFAULT_PODSET, 1, None)] and limit == seconds

    @override
    def places_otherwise(self, workload: Workload) -> bool:
        (first_pod_set, *_) = workload.spec.pod_sets or (None,)
        if first_pod_set is None or not self.is_held():
            return False  # a pod that runs has the node selector of its flavor
        return asks_for_other_nodes(self.view.spec, first_pod_set.template.spec)

    @override
    def terminates(self) -> Terminates:
        return self

    @override
    def termination(self, text: Text, now: datetime) -> patches.Patch | None:
        return termination(self.view, text, now)


def asks_for_other_nodes(spec: views.PodSpec, template: views.PodSpec) -> bool:
    """Return whether a pod that is held may go to other nodes than a template says."""
    return _placement(spec) != _placement(template)


def _placement(spec: views.PodSpec) -> tuple[Any, ...]:
    return spec.node_selector or {}, spec.affinity, spec.tolerations or ()


def group_name(pod: views.Object) -> str:
    """Return the name of the pod group, which is that of its Workload; empty for a single pod.

    The annotation wins over the label, and both over a PodGroup.
    """
    metadata = pod.metadata
    named = metadata.annotation(names.POD_GROUP_NAME) or metadata.label(names.POD_GROUP_NAME)
    if named or not metadata.annotation(names.POD_GROUP_OBJECT):
        return named
    reference = gangs.marked(metadata)
    return "" if reference is None else gang_name(reference)


def gang_of(metadata: views.ObjectMeta) -> gangs.Reference | None:
    """Return the PodGroup that says of how many pods the group of a pod is; None where pods do."""
    named = metadata.annotation(names.POD_GROUP_NAME) or metadata.label(names.POD_GROUP_NAME)
    return None if named else gangs.marked(metadata)


def beyond(pod: views.Pod) -> WorkloadKey | None:
    """Return the Workload of the PodGroup beyond which a pod was admitted by itself, or None."""
    reference = gangs.marked(pod.metadata, names.BEYOND_POD_GROUP)
    if reference is None or group_name(pod):
        return None
    return WorkloadKey(pod.metadata.namespace, gang_name(reference))


@lru_cache(maxsize=4096)
def gang_name(reference: gangs.Reference) -> str:
    """Return the name of the Workload of the pods of a PodGroup.

    It holds for any PodGroup of that name, as pods may come before theirs.
    """
    name, _, uid = reference.name.partition("/")
    kind = reference.kind.resource if reference.kind.is_controller else ""
    return name_for(gangs.KIND, reference.kind.group, name, f"{kind}{uid}")


def is_gated(pod: views.Pod) -> bool:
    """Return whether a scheduling gate of ours holds the pod until there is quota for it."""
    return any(gate.name in names.QUOTA_GATES for gate in pod.spec.scheduling_gates or ())


def has_passed(pod: views.Pod, namespaces: ManagedNamespaces) -> bool:
    """Return whether no review saw a pod that one would have seen, and it has not ended.

    Args:
        pod: the pod.
        namespaces: which are managed.
    """
    metadata = pod.metadata
    return not (
        metadata.label(names.MANAGED_LABEL)
        or metadata.label(names.PODSET_LABEL)
        or metadata.annotation(pods.MIRROR_ANNOTATION)
        or metadata.annotation(names.OUTSIDE_QUOTA)
        or namespaces.leave_out(metadata.namespace, None)
        or pods.has_ended(pod)
        or is_gated(pod)
    )


def is_terminal(pod: views.Pod) -> bool:
    """Return whether all containers have ended for good."""
    return pod.status.phase in {"Succeeded", "Failed"}


def may_run_on(pod: views.Pod) -> bool:
    """Return whether a pod that is being deleted is bound, and its containers have not ended."""
    is_leaving = bool(pod.metadata.deletion_timestamp)
    return is_leaving and bool(pod.spec.node_name) and not is_terminal(pod)


def is_ready(pod: views.Pod) -> bool:
    """Return whether all containers of the pod are ready."""
    return any(
        condition.type == _READY and condition.status == "True"
        for condition in pod.status.conditions or ()
    )


def read(document_: views.PodDocument | views.Pod) -> views.Pod:
    """Return the parts of a pod that decisions depend on.

    Raises:
        msgspec.ValidationError: the spec is not a pod's.
    """
    return document_.view() if isinstance(document_, views.PodDocument) else document_


def build(
    pod: views.Pod,
    document_: views.PodDocument,
    classes: PriorityClasses,
    copied: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the document of the pod's Workload.

    Args:
        pod: the pod.
        document_: the same, whole; its spec becomes the template of the one pod set.
        classes: the priority classes that it may name.
        copied: keys of labels that the Workload takes over.

    Raises:
        MissingPriorityClassError: the pod names a class that is not among them.
    """
    metadata = pod.metadata
    template = {"spec": template_spec(document_.spec)}
    pod_set: dict[str, Any] = {
        "name": names.DEFAULT_PODSET, "count": 1, "template": template,
    }  # fmt: skip
    near = topology_request(metadata.annotations)
    if near is not None:
        pod_set["topologyRequest"] = near
    set_document = {
        "queueName": metadata.label(names.QUEUE_LABEL),
        "podSets": [pod_set],
        **_priority(pod, classes),
        **time_limit(metadata),
    }
    workload_ = document(
        KIND.key_of(pod), metadata, KIND.reference(metadata), copied, set_document
    )
    taken_over = annotations(metadata)
    controller = metadata.controller()
    if controller is not None:
        taken_over = {**taken_over, names.POD_CONTROLLER: controller.uid}
    if taken_over:
        workload_["metadata"]["annotations"] = taken_over
    return workload_


def _priority(pod: views.Pod, classes: PriorityClasses) -> dict[str, Any]:
    """Return priority and its source: WorkloadPriorityClass, else PriorityClass, else none."""
    labelled = labelled_priority(pod.metadata, classes)
    if labelled:
        return labelled
    value = pod.spec.priority or 0
    name = pod.spec.priority_class_name
    return pod_priority(name, value) if name else {"priority": value}


def adopt(
    pod: views.Pod, document_: views.PodDocument, workload: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the changes with which a Workload becomes the pod's, or None if it differs.

    One that has ended is taken whatever it asks for.

    Args:
        pod: the pod.
        document_: the same, whole.
        workload: the Workload, whole.
    """
    sets = workload["spec"].get("podSets") or [{}]
    pod_spec = (sets[0].get("template") or {}).get("spec") or {}
    has_ended = any(
        condition["type"] == conditions.FINISHED and condition["status"] == "True"
        for condition in (workload.get("status") or {}).get("conditions") or ()
    )
    alike = prebuilt.asks_alike(pod_spec, template_spec(document_.spec), started=not is_gated(pod))
    if not alike and not has_ended:
        return None
    return prebuilt.adoption(workload, KIND.reference(pod.metadata), pod.metadata, {})


def release(pod: views.Pod, injection_: Injection) -> patches.Patch:
    """Return the merge patch that releases exactly this version of the pod.

    Raises:
        InjectionConflictError: the pod contradicts the injection.
    """
    added, changes = injection.into_template(injection_, pod.metadata, pod.spec)
    return patches.merge(
        {
            "metadata": {**_precondition(pod), **added},
            "spec": {"schedulingGates": _foreign_gates(pod), **changes},
        }
    )


def release_into(pod: views.Pod, injection_: Injection) -> patches.Patch:
    """Return the merge patch that releases this version of a pod as one of an admitted owner.

    Raises:
        InjectionConflictError: the pod contradicts the injection.
    """
    added, changes = injection.into_template(injection_, pod.metadata, pod.spec)
    labels = {**added["labels"], names.MANAGED_LABEL: None}
    return patches.merge(
        {
            "metadata": {**_precondition(pod), **added, "labels": labels},
            "spec": {"schedulingGates": _foreign_gates(pod), **changes},
        }
    )


def gates_of_others(pod: views.Pod) -> tuple[str, ...]:
    """Return the gates that other controllers take off a pod that waits, sorted.

    Gates of Kueue are taken off once a pod was admitted, so nobody waits for them before. The
    topology gate with which a pod was created is another controller's, and stays.
    """
    gates = {gate.name for gate in pod.spec.scheduling_gates or ()}
    kept = {gate["name"] for gate in _foreign_gates(pod)}
    return tuple(sorted(gates & kept))


def has_elastic_gate(pod: views.Pod) -> bool:
    """Return whether the pod of an elastic owner waits to be released."""
    return any(gate.name == names.ELASTIC_JOB_GATE for gate in pod.spec.scheduling_gates or ())


def waits_for_domain(pod: views.Pod) -> bool:
    """Return whether a pod waits until it is told its domain."""
    return any(gate.name == names.TOPOLOGY_GATE for gate in pod.spec.scheduling_gates or ())


def release_to(pod: views.Pod, selector: Mapping[str, str]) -> patches.Patch:
    """Return the merge patch that releases exactly this version of a pod to its domain.

    Raises:
        InjectionConflictError: the pod selects other nodes itself.
    """
    added = injection.additions("nodeSelector", selector, pod.spec.node_selector)
    gates = pod.spec.scheduling_gates or ()
    kept = [{"name": gate.name} for gate in gates if gate.name != names.TOPOLOGY_GATE]
    spec = {"schedulingGates": kept, "nodeSelector": added}
    return patches.merge({"metadata": _precondition(pod), "spec": spec})


def release_elastic(pod: views.Pod) -> patches.Patch:
    """Return the merge patch that releases exactly this version of a pod of an elastic owner."""
    gates = pod.spec.scheduling_gates or ()
    kept = [{"name": gate.name} for gate in gates if gate.name != names.ELASTIC_JOB_GATE]
    return patches.merge({"metadata": _precondition(pod), "spec": {"schedulingGates": kept}})


def let_go(pod: views.Pod) -> patches.Patch:
    """Return the merge patch that takes our gate and label off: the pod is not ours."""
    return patches.merge(
        {
            "metadata": {**_precondition(pod), "labels": {names.MANAGED_LABEL: None}},
            "spec": {"schedulingGates": _foreign_gates(pod)},
        }
    )


def let_run(pod: views.Pod, since: str, injection_: Injection | None) -> patches.Patch:
    """Return the merge patch that lets exactly this version of a pod run outside of quota.

    Args:
        pod: a pod that our gate holds, or that of an elastic owner.
        since: the present, for its mark.
        injection_: what it is charged by; None for a pod in no queue, which is not ours then,
            and for one that has its marks.
    """
    marks = {names.OUTSIDE_QUOTA: since}
    labels: dict[str, str | None] = {}
    placing: dict[str, Any] = {}
    if injection_ is not None:
        added, placing = injection.into_template(injection_, pod.metadata, pod.spec)
        marks = {**marks, **added["annotations"]}
        labels = dict(added["labels"])
    elif pod.metadata.label(names.MANAGED_LABEL):
        labels = {names.MANAGED_LABEL: None}
    metadata = {**_precondition(pod), "labels": labels, "annotations": marks}
    spec = {**placing, "schedulingGates": _foreign_gates(pod)}
    return patches.merge({"metadata": metadata, "spec": spec})


def charge_to(
    pod: views.Pod,
    queue: str,
    cluster_queue: str,
    more_labels: Mapping[str, str] = MappingProxyType({}),
    more_annotations: Mapping[str, str] = MappingProxyType({}),
) -> patches.Patch:
    """Return the merge patch that has exactly this version of a pod that runs be charged.

    It writes what a release would have written, so the pod gets a Workload and goes on (ADR 0116).
    Only cluster administrators may send it.

    Args:
        pod: the pod.
        queue: its LocalQueue.
        cluster_queue: the ClusterQueue.
        more_labels: what its Workload is to say, too.
        more_annotations: likewise.
    """
    labels_of_queue = injection.labels_of(names.DEFAULT_PODSET, queue, cluster_queue)
    marks = {names.QUEUE_LABEL: queue, names.MANAGED_LABEL: names.MANAGED_VALUE}
    labels = {**labels_of_queue, **marks, **more_labels}
    annotations: dict[str, str | None] = {
        names.WORKLOAD_ANNOTATION: KIND.key_of(pod).name,
        names.RUNS_SINCE: None,  # its author may have written one while nobody counted the pod
        **more_annotations,
    }
    return patches.merge(
        {"metadata": {**_precondition(pod), "labels": labels, "annotations": annotations}}
    )


def queue_singly(
    pod: views.Pod, queue: str, more_labels: Mapping[str, str], more_annotations: Mapping[str, str]
) -> patches.Patch:
    """Return the merge patch after which exactly this version of a pod waits as a single pod does.

    Its gate holds it, and it has marks of the admission of the owner that made it.

    Args:
        pod: the pod.
        queue: its LocalQueue.
        more_labels: what its Workload is to say, too.
        more_annotations: likewise.
    """
    labels: dict[str, str | None] = dict.fromkeys(injection.MARK_LABELS)
    annotations: dict[str, str | None] = dict.fromkeys(injection.MARK_ANNOTATIONS)
    marks = {names.QUEUE_LABEL: queue, names.MANAGED_LABEL: names.MANAGED_VALUE}
    return patches.merge(
        {
            "metadata": {
                **_precondition(pod),
                "labels": {**labels, **marks, **more_labels},
                "annotations": {**annotations, **more_annotations},
            }
        }
    )


def put_in_queue(pod: views.Pod, queue: str) -> patches.Patch:
    """Return the merge patch that gives exactly this version of the pod a queue."""
    return patches.merge(
        {"metadata": {**_precondition(pod), "labels": {names.QUEUE_LABEL: queue}}}
    )


def leave_podgroup(pod: views.Pod, labels: Mapping[str, str], *, is_beyond: bool) -> patches.Patch:
    """Return the merge patch after which exactly this version of the pod is a single one.

    Args:
        pod: the pod.
        labels: what the PodGroup says for pods that do not say it.
        is_beyond: it runs only as long as the others do.
    """
    marks: dict[str, str | None] = {names.POD_GROUP_OBJECT: None}
    if is_beyond:
        marks[names.BEYOND_POD_GROUP] = pod.metadata.annotation(names.POD_GROUP_OBJECT)
    changes: dict[str, Any] = {"annotations": marks}
    labels_now = pod.metadata.labels or {}
    added = {key: value for key, value in labels.items() if key not in labels_now}
    if added:
        changes["labels"] = added
    return patches.merge({"metadata": {**_precondition(pod), **changes}})


def return_to_podgroup(pod: views.Pod) -> patches.Patch:
    """Return the merge patch after which this version of the pod is a member of its PodGroup."""
    mark = pod.metadata.annotation(names.BEYOND_POD_GROUP)
    marks = {names.BEYOND_POD_GROUP: None, names.POD_GROUP_OBJECT: mark}
    return patches.merge({"metadata": {**_precondition(pod), "annotations": marks}})


def termination(pod: views.Pod, text: Text, now: datetime) -> patches.Patch | None:
    """Return the patch of ``pods/status`` that says why the pod is deleted, or None if it is said.

    The patch holds for any version of the pod, as its kubelet may write at any time. Source:
    kueue pkg/controller/jobs/pod/pod_controller.go (Stop).
    """
    condition = _condition(pod, conditions.TERMINATION_TARGET, text, now, is_true=True)
    if condition is None:
        return None
    return patches.strategic(
        {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
    )


def stops_at(pod: views.Pod, moment: str) -> patches.Patch:
    """Return the merge patch that says on the pod when it is stopped, for the programs in it.

    It holds for any version of the pod, as `termination` does.
    """
    marks = {names.STOPS_AT: moment}
    return patches.merge({"metadata": {"uid": pod.metadata.uid, "annotations": marks}})


def admitted_condition(pod: views.Pod) -> views.PodCondition | None:
    """Return our condition on the pod, if any."""
    return _find(pod, conditions.POD_ADMITTED)


def tell(pod: views.Pod, text: Text, now: datetime, *, admitted: bool) -> patches.Patch | None:
    """Return the patch of ``pods/status`` with our condition, or None if it says so already.

    Only the one condition of exactly this version of the pod is changed, so that conditions of
    others are never touched.
    """
    answer = sentences.fitted(text)
    condition = _condition(pod, conditions.POD_ADMITTED, answer, now, is_true=admitted)
    if condition is None:
        return None
    metadata = pod.metadata
    return patches.json_patch(
        [
            patches.test(patches.pointer("metadata", "uid"), metadata.uid),
            patches.test(
                patches.pointer("metadata", "resourceVersion"), metadata.resource_version
            ),
            _operation(pod, condition),
        ]
    )


def complete(pod: views.Pod, marks: Mapping[str, str]) -> patches.Patch:
    """Return the merge patch that writes annotations of a review on exactly this version."""
    return patches.merge({"metadata": {**_precondition(pod), "annotations": dict(marks)}})


def is_unreviewed(pod: views.Object) -> bool:
    """Return whether the API server held the pod, as nobody reviewed it (ADR 0084)."""
    return names.UNREVIEWED in (pod.metadata.annotations or {})


def is_said_unreviewed(pod: views.Pod | views.PodDocument) -> bool:
    """Return whether a pod says that nobody reviewed it."""
    return any(
        condition.type == conditions.POD_REVIEWED for condition in pod.status.conditions or ()
    )


def say_unreviewed(pod: views.Pod, text: Text, now: datetime) -> patches.Patch:
    """Return the patch of ``pods/status`` that says that nobody reviewed the pod."""
    condition = _condition(pod, conditions.POD_REVIEWED, text, now, is_true=False)
    return patches.strategic(
        {
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [] if condition is None else [condition]},
        }
    )


def _condition(
    pod: views.Pod, kind: str, text: Text, now: datetime, *, is_true: bool
) -> dict[str, Any] | None:
    """Return a condition of the pod, or None if the pod has it already."""
    status, message = "True" if is_true else "False", condition_list.cut(text.message)
    present, desired = _find(pod, kind), (status, text.reason, message)
    if present is not None and (present.status, present.reason, present.message) == desired:
        return None
    since = (
        present.last_transition_time if present is not None and present.status == status else ""
    )
    return {
        "type": kind,
        "status": status,
        "reason": text.reason,
        "message": message,
        "lastTransitionTime": since or clock.to_wire(now),
    }


def _find(pod: views.Pod, kind: str) -> views.PodCondition | None:
    return next(
        (condition for condition in pod.status.conditions or () if condition.type == kind), None
    )


def _operation(pod: views.Pod, condition: dict[str, Any]) -> dict[str, Any]:
    path = patches.pointer("status", "conditions")
    present = pod.status.conditions
    if not present:
        return {"op": "add", "path": path, "value": [condition]}
    for index, existing in enumerate(present):
        if existing.type == condition["type"]:
            return {"op": "replace", "path": f"{path}/{index}", "value": condition}
    return {"op": "add", "path": f"{path}/-", "value": condition}


def _precondition(pod: views.Pod) -> dict[str, str]:
    return {"resourceVersion": pod.metadata.resource_version, "uid": pod.metadata.uid}


def _foreign_gates(pod: views.Pod) -> list[dict[str, str]]:
    """Return the gates that stay: all of others.

    Kueue puts its topology gate on every pod, so a pod that was taken over from it loses both. A
    pod that was created with that gate under this program keeps it (ADR 0091).
    """
    ours = set(names.QUOTA_GATES)
    if not pod.metadata.annotation(names.FOREIGN_TOPOLOGY_GATE):
        ours.add(names.TOPOLOGY_GATE)
    gates = pod.spec.scheduling_gates or ()
    return [{"name": gate.name} for gate in gates if gate.name not in ours]


INTEGRATION: Final = Integration(
    kind=KIND,
    document=views.PodDocument,
    answer=views.Pod,
    view=read,
    owner=PodOwner,
    build=build,
    adopt=adopt,
)
