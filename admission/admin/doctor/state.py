"""Checks of the current state: pods outside quota, stuck deletions, clocks, overload."""

from collections.abc import Iterator, Mapping
from typing import Final

from admission.admin import operators
from admission.admin.doctor import picture as pictures
from admission.admin.doctor.devices import shown
from admission.admin.doctor.findings import DoctorFinding, error, warning
from admission.admin.doctor.picture import Picture, TimedPod, is_admitted, name_of
from admission.base import conditions, names
from admission.base.errors import InvalidValueError
from admission.base.namespaces import NEVER_MANAGED
from admission.kube import resources
from admission.kube.api import Document
from admission.objects import pods as pod_objects
from admission.objects import views

_PATIENCE_SECONDS: Final = 300.0
_SKEW_SECONDS: Final = 5.0
_BEHIND_SECONDS: Final = 120.0
_HELD_KINDS: Final = (
    resources.NAMESPACES,
    resources.CRDS,
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.LOCAL_QUEUES,
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
    resources.TOPOLOGIES,
)
_ENDING: Final = ("NamespaceContentRemaining", "NamespaceFinalizersRemaining",
                  "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure",
                  "NamespaceDeletionGroupVersionParsingFailure")  # fmt: skip


def outside(picture: Picture) -> Iterator[DoctorFinding]:
    """Running GPU pods were admitted by a queue."""
    operator = operators.signs_of(
        picture.of(operators.CLUSTER_POLICIES), picture.of(operators.DAEMON_SETS)
    )
    pods_by_cause: dict[tuple[str, str, str], list[tuple[TimedPod, Mapping[str, int]]]] = {}
    for pod in picture.pods:
        namespace = pod.metadata.namespace
        if namespace in operator or is_admitted(pod):
            continue
        try:
            gpus = pod_objects.held_gpus(pod)
        except InvalidValueError:
            continue
        if gpus:
            pods_by_cause.setdefault((namespace, *_cause(picture, pod)), []).append((pod, gpus))
    for (namespace, cause, mend), pods in sorted(pods_by_cause.items(), key=lambda item: item[0]):
        amounts: dict[str, int] = {}
        hours = 0.0
        for pod, gpus in pods:
            for resource, count in gpus.items():
                amounts[resource] = amounts.get(resource, 0) + count
            hours += sum(gpus.values()) * picture.age_seconds(pod.status.start_time) / 3600
        total = ", ".join(f"{n} {resource}" for resource, n in sorted(amounts.items()))
        text = (
            f"{len(pods)} pod(s) hold {total} outside every queue, {hours:.1f} GPU-hours since "
            f"they started ({shown(pod.metadata.name for pod, _ in pods)}): {cause}"
        )
        yield warning("Namespace", namespace, text, mend)


def _cause(picture: Picture, pod: TimedPod) -> tuple[str, str]:
    """Return why a pod is outside quota, and the fix."""
    namespace = pod.metadata.namespace
    namespace_document = picture.named(resources.NAMESPACES, namespace)
    labels = pictures.labels_of(namespace_document) if namespace_document is not None else None
    if namespace in NEVER_MANAGED:
        return "this namespace is never managed", "run GPU pods in another namespace"
    if picture.settings.managed_namespaces.leave_out(namespace, labels):
        cause = "the configuration excludes the namespace (excludedNamespaces, or a selector)"
        mend = (
            "change excludedNamespaces or managedJobsNamespaceSelector, then: "
            "gpu-admission install --config FILE; and create a LocalQueue in the namespace"
        )
        return cause, mend
    queues = [
        local_queue
        for local_queue in picture.local_queues
        if local_queue.metadata.namespace == namespace
    ]
    default = names.DEFAULT_LOCAL_QUEUE
    if not queues:
        mend = (
            f"create one called {default}; pods that are created from then on use it. To refuse "
            "GPU pods without a queue: kubectl label namespace "
            f"{namespace} {names.ENFORCE_LABEL}=true"
        )
        return "the namespace has no LocalQueue", mend
    called = sorted(queue.metadata.name for queue in queues)
    if default not in called and not pod.metadata.label(names.QUEUE_LABEL):
        cause = f"they have no label {names.QUEUE_LABEL}, and no LocalQueue is called {default}"
        mend = (
            f"set the label in the pod templates (there is {shown(called)}), or create a "
            f"LocalQueue {default}"
        )
        return cause, mend
    first = min(queue.metadata.creation_timestamp or "" for queue in queues)
    if (pod.metadata.creation_timestamp or "") < first:
        return (
            "they were created before the namespace had a LocalQueue",
            "create them again when they may stop: they are admitted then",
        )
    return (
        "the webhook did not see them when they were created",
        "create them again; check that the webhook answers and is called for this namespace",
    )


def gated(picture: Picture) -> Iterator[DoctorFinding]:
    """Every gated pod has a Workload, or a condition that says why it waits."""
    owned = {
        owner.uid
        for workload in picture.workloads
        for owner in workload.metadata.owner_references or ()
    }
    lost = tuple(
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in picture.pods
        if _waits_by_itself(pod)
        and not pod.metadata.deletion_timestamp
        and picture.age_seconds(pod.metadata.creation_timestamp) > _PATIENCE_SECONDS
        and pod.metadata.uid not in owned
        and not any(
            condition.type == conditions.POD_ADMITTED for condition in pod.status.conditions or ()
        )
    )
    if lost:
        text = (
            "they are gated, but no controller handles them: they have neither a Workload nor a "
            "condition that says why they wait"
        )
        mend = (
            "check that the controller runs; kubectl gpu why POD -n NAMESPACE. In an excluded "
            "namespace: delete the pods and create them again"
        )
        yield error("Pod", lost, text, mend)


def _waits_by_itself(pod: views.Pod) -> bool:
    """Return whether a gate holds a pod until a Workload of its own or of its group is admitted.

    Pods behind the gate of an elastic owner are its own as long as it controls them.
    """
    gates = {gate.name for gate in pod.spec.scheduling_gates or ()}
    is_left = names.ELASTIC_JOB_GATE in gates and pod.metadata.controller() is None
    return names.ADMISSION_GATE in gates or is_left


# ------------------------------------------------------------------------------------ the ending


_TOLD_OF: Final = (resources.RESOURCE_FLAVORS, resources.CLUSTER_QUEUES)


def terminating(picture: Picture) -> Iterator[DoctorFinding]:
    """Objects that are being deleted are gone after five minutes."""
    for resource in _HELD_KINDS:
        for document in picture.of(resource):
            metadata = document["metadata"]
            age = picture.age_seconds(metadata.get("deletionTimestamp"))
            if age > _PATIENCE_SECONDS:
                if resource in _TOLD_OF and _users(picture, resource.kind, metadata["name"]):
                    continue  # the checks of queues tell it
                holder, mend = _held_by(picture, resource.kind, document)
                text = f"it has been terminating for {age / 60:.0f} minutes: {holder}"
                yield error(resource.kind, name_of(document), text, mend)
    for workload in picture.workloads:
        yield from _of_view(picture, "Workload", workload)
    nodes = {node.metadata.name: node for node in picture.nodes}
    for pod in picture.pods:
        if pod.metadata.finalizers:
            yield from _of_view(picture, "Pod", pod)
        elif picture.age_seconds(pod.metadata.deletion_timestamp) > _PATIENCE_SECONDS:
            node = nodes.get(pod.spec.node_name)
            if not pod_objects.held_gpus(pod) and not is_admitted(pod):
                continue  # not ours to talk about
            yield error(
                "Pod",
                f"{pod.metadata.namespace}/{pod.metadata.name}",
                f"it does not terminate, and keeps its quota: {_silence(pod, node)}",
                "repair or drain the node; once it is certainly off: kubectl delete pod "
                f"{pod.metadata.name} -n {pod.metadata.namespace} --grace-period=0 --force",
            )


def _of_view(picture: Picture, kind: str, view: views.Object) -> Iterator[DoctorFinding]:
    metadata = view.metadata
    if picture.age_seconds(metadata.deletion_timestamp) <= _PATIENCE_SECONDS:
        return
    if kind == "Pod" and not any(names.KUEUE_GROUP in name for name in metadata.finalizers or ()):
        return
    finalizers = ", ".join(metadata.finalizers or ()) or "nobody"
    text = f"it is terminating and held by {finalizers}"
    mend = _unhold(kind, metadata.name, metadata.namespace)
    yield error(kind, f"{metadata.namespace}/{metadata.name}", text, mend)


def _silence(pod: TimedPod, node: views.Node | None) -> str:
    if node is None:
        return f"its node {pod.spec.node_name} is gone" if pod.spec.node_name else "it has no node"
    name = pod.spec.node_name
    if _is_ready(node):
        return f"node {name} is Ready but does not stop it"
    return f"node {name} does not answer"


def _is_ready(node: views.Node) -> bool:
    node_conditions = node.status.conditions or ()
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in node_conditions
    )


def _held_by(picture: Picture, kind: str, document: Document) -> tuple[str, str]:
    """Return the cause that keeps an object from being deleted, and the fix."""
    metadata = document["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    finalizers = metadata.get("finalizers") or ()
    if kind == "Namespace":
        messages = [
            text
            for condition in _ENDING
            if (state := pictures.condition(document, condition)).get("status") == "True"
            and (text := state.get("message", ""))
        ]
        return (
            "; ".join(messages) or "the namespace controller does not say why",
            f"kubectl get namespace {name} -o yaml; delete what its conditions name",
        )
    if names.RESOURCE_IN_USE in finalizers:
        users = _users(picture, kind, name)
        if users:
            return f"{users} still use it", "remove it from their spec, or delete them"
        return (
            f"nothing uses it, but the controller does not remove {names.RESOURCE_IN_USE}",
            f"check that the controller runs; else {_unhold(kind, name, namespace)}",
        )
    return f"held by {', '.join(finalizers) or 'nobody'}", _unhold(kind, name, namespace)


def _users(picture: Picture, kind: str, name: str) -> str:
    if kind == "ClusterQueue":
        holding = pictures.holding(picture.workloads, name)
        return f"{len(holding)} Workload(s) ({shown(holding)})" if holding else ""
    if kind == "ResourceFlavor":
        queues = [
            cluster_queue.metadata.name
            for cluster_queue in picture.cluster_queues
            if any(
                flavor.name == name
                for group in cluster_queue.spec.resource_groups or ()
                for flavor in group.flavors
            )
        ]
        return f"ClusterQueue {shown(queues)}" if queues else ""
    return ""


def _unhold(kind: str, name: str, namespace: str) -> str:
    where = f" -n {namespace}" if namespace else ""
    return (
        "repair the program that removes the finalizer; if that program is gone for good: kubectl "
        f"patch {kind.lower()} {name}{where} --type=merge -p "
        '\'{"metadata":{"finalizers":null}}\''
    )


# ------------------------------------------------------------------------------ clocks, overload


def clock(picture: Picture) -> Iterator[DoctorFinding]:
    """The clocks of this machine, the controller and the nodes agree with the API server's."""
    mend = "synchronize it with a time server (chronyd, systemd-timesyncd)"
    if picture.here is not None:
        skew = (picture.here - picture.now).total_seconds()
        if abs(skew) > _SKEW_SECONDS:
            text = f"its clock is {_apart(skew)} that of the API server: ages below are wrong"
            yield warning("Machine", "this one", text, mend)
    lease = picture.named(resources.LEASES, names.LEASE_NAME, picture.namespace)
    spec = (lease or {}).get("spec") or {}
    # Leases are renewed while the cluster is read, which takes long where it is busy.
    ahead = -picture.age_seconds(spec.get("renewTime")) - picture.read_seconds
    if ahead > _SKEW_SECONDS:
        text = (
            f"the clock of {spec.get('holderIdentity')} is {_apart(ahead)} that of the API "
            "server: run times and deadlines end early"
        )
        yield error("Lease", f"{picture.namespace}/{names.LEASE_NAME}", text, mend)
    ready = {node.metadata.name for node in picture.nodes if _is_ready(node)}
    wrong: dict[str, list[str]] = {"ahead of": [], "behind": []}
    for node_lease in picture.of(pictures.NODE_LEASES):
        name = node_lease["metadata"]["name"]
        age = picture.age_seconds((node_lease.get("spec") or {}).get("renewTime"))
        if name in ready and age < -_SKEW_SECONDS - picture.read_seconds:
            wrong["ahead of"].append(name)
        elif name in ready and age > _BEHIND_SECONDS:
            wrong["behind"].append(name)
    for direction, names_of_nodes in wrong.items():
        if names_of_nodes:
            text = (
                f"their clocks are {direction} that of the API server, judged by their Leases: "
                "start and end times of pods are wrong"
            )
            yield warning("Node", tuple(names_of_nodes), text, mend)


def _apart(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"


def overload(picture: Picture) -> Iterator[DoctorFinding]:
    """The API server keeps up with requests."""
    overload = picture.overload
    mend = (
        "see who sends so many requests: kubectl get --raw /debug/api_priority_and_fairness/"
        "dump_priority_levels; give the API server more, or gpu-admission a FlowSchema of its own"
    )
    if overload.met:
        text = f"the API server refused {overload.met} of our requests: too many requests (429)"
        yield error("APIServer", "itself", text, mend)
    refused = {level: count for level, count in sorted(overload.refused.items()) if count > 0}
    if refused:
        listed = ", ".join(f"{count} of level {level}" for level, count in refused.items())
        text = f"it refused requests during this check ({listed}): decisions are written late"
        yield warning("APIServer", "itself", text, mend)


def throttling_unseen(picture: Picture) -> str:
    """Return why it is not known whether the API server keeps up; empty where it is."""
    return "" if picture.overload.met else picture.overload.unseen
