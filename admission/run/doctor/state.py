"""Checks of the current state: pods outside quota, stuck deletions, clocks, overload."""

from collections.abc import Iterator
from typing import Final

from admission.base import conditions, names
from admission.base.errors import InvalidValueError
from admission.base.namespaces import NEVER_MANAGED
from admission.install import operators
from admission.kube import resources
from admission.kube.api import Document
from admission.objects import pods as pod_objects
from admission.objects import views
from admission.run.doctor import picture as pictures
from admission.run.doctor.devices import shown
from admission.run.doctor.findings import Finding, error, warning
from admission.run.doctor.picture import Picture, Pod, name_of

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


def outside(picture: Picture) -> Iterator[Finding]:
    """Running GPU pods were admitted by a queue."""
    operator = operators.signs_of(
        picture.of(operators.CLUSTER_POLICIES), picture.of(operators.DAEMON_SETS)
    )
    found: dict[tuple[str, str, str], list[tuple[Pod, dict[str, int]]]] = {}
    for pod in picture.pods:
        namespace = pod.metadata.namespace
        if namespace in operator or _is_admitted(pod):
            continue
        try:
            held = pod_objects.held_gpus(pod)
        except InvalidValueError:
            continue
        if held:
            found.setdefault((namespace, *_cause(picture, pod)), []).append((pod, held))
    for (namespace, cause, mend), of in sorted(found.items(), key=lambda one: one[0]):
        amounts: dict[str, int] = {}
        hours = 0.0
        for pod, held in of:
            for resource, count in held.items():
                amounts[resource] = amounts.get(resource, 0) + count
            hours += sum(held.values()) * picture.age_seconds(pod.status.start_time) / 3600
        total = ", ".join(f"{n} {resource}" for resource, n in sorted(amounts.items()))
        text = (
            f"{len(of)} pod(s) hold {total} outside every queue, {hours:.1f} GPU-hours since they "
            f"started ({shown(pod.metadata.name for pod, _ in of)}): {cause}"
        )
        yield warning("Namespace", namespace, text, mend)


def _is_admitted(pod: Pod) -> bool:
    labels = pod.metadata.labels or {}
    managed = labels.get(names.MANAGED_LABEL) == names.MANAGED_VALUE
    return managed or names.PODSET_LABEL in labels


def _cause(picture: Picture, pod: Pod) -> tuple[str, str]:
    """Return why a pod is outside quota, and the fix."""
    namespace = pod.metadata.namespace
    found = picture.named(resources.NAMESPACES, namespace)
    labels = pictures.labels_of(found) if found is not None else None
    if namespace in NEVER_MANAGED:
        return "this namespace is never managed", "run GPU pods in another namespace"
    if picture.settings.managed_namespaces.leave_out(namespace, labels):
        cause = "the configuration excludes the namespace (excludedNamespaces, or a selector)"
        mend = (
            "change excludedNamespaces or managedJobsNamespaceSelector, then: "
            "gpu-admission install --config FILE; and create a LocalQueue in the namespace"
        )
        return cause, mend
    queues = [one for one in picture.local_queues if one.metadata.namespace == namespace]
    default = names.DEFAULT_LOCAL_QUEUE
    if not queues:
        mend = (
            f"create one called {default}; pods that are created from then on use it. To refuse "
            "GPU pods without a queue: kubectl label namespace "
            f"{namespace} {names.ENFORCE_LABEL}=true"
        )
        return "the namespace has no LocalQueue", mend
    called = sorted(one.metadata.name for one in queues)
    if default not in called and not pod.metadata.label(names.QUEUE_LABEL):
        cause = f"they have no label {names.QUEUE_LABEL}, and no LocalQueue is called {default}"
        mend = (
            f"set the label in the pod templates (there is {shown(called)}), or create a "
            f"LocalQueue {default}"
        )
        return cause, mend
    first = min(one.metadata.creation_timestamp or "" for one in queues)
    if (pod.metadata.creation_timestamp or "") < first:
        return (
            "they were created before the namespace had a LocalQueue",
            "create them again when they may stop: they are admitted then",
        )
    return (
        "the webhook did not see them when they were created",
        "create them again; check that the webhook answers and is called for this namespace",
    )


def gated(picture: Picture) -> Iterator[Finding]:
    """Every gated pod has a Workload, or a condition that says why it waits."""
    owned = {
        owner.uid for one in picture.workloads for owner in one.metadata.owner_references or ()
    }
    lost = tuple(
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in picture.pods
        if any(gate.name == names.ADMISSION_GATE for gate in pod.spec.scheduling_gates or ())
        and not pod.metadata.deletion_timestamp
        and picture.age_seconds(pod.metadata.creation_timestamp) > _PATIENCE_SECONDS
        and pod.metadata.uid not in owned
        and not any(one.type == conditions.POD_ADMITTED for one in pod.status.conditions or ())
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


# ------------------------------------------------------------------------------------ the ending


def terminating(picture: Picture) -> Iterator[Finding]:
    """Objects that are being deleted are gone after five minutes."""
    for resource in _HELD_KINDS:
        for one in picture.of(resource):
            metadata = one["metadata"]
            age = picture.age_seconds(metadata.get("deletionTimestamp"))
            if age > _PATIENCE_SECONDS:
                if resource is resources.RESOURCE_FLAVORS and _users(
                    picture, resource.kind, metadata["name"]
                ):
                    continue  # the check of queues tells it
                holder, mend = _held_by(picture, resource.kind, one)
                text = f"it has been terminating for {age / 60:.0f} minutes: {holder}"
                yield error(resource.kind, name_of(one), text, mend)
    for workload in picture.workloads:
        yield from _of_view(picture, "Workload", workload)
    nodes = {one.metadata.name: one for one in picture.nodes}
    for pod in picture.pods:
        if pod.metadata.finalizers:
            yield from _of_view(picture, "Pod", pod)
        elif picture.age_seconds(pod.metadata.deletion_timestamp) > _PATIENCE_SECONDS:
            node = nodes.get(pod.spec.node_name)
            if not pod_objects.held_gpus(pod) and not _is_admitted(pod):
                continue  # not ours to talk about
            yield error(
                "Pod",
                f"{pod.metadata.namespace}/{pod.metadata.name}",
                f"it does not terminate, and keeps its quota: {_silence(pod, node)}",
                "repair or drain the node; once it is certainly off: kubectl delete pod "
                f"{pod.metadata.name} -n {pod.metadata.namespace} --grace-period=0 --force",
            )


def _of_view(picture: Picture, kind: str, one: views.Object) -> Iterator[Finding]:
    metadata = one.metadata
    if picture.age_seconds(metadata.deletion_timestamp) <= _PATIENCE_SECONDS:
        return
    if kind == "Pod" and not any(names.KUEUE_GROUP in name for name in metadata.finalizers or ()):
        return
    finalizers = ", ".join(metadata.finalizers or ()) or "nobody"
    text = f"it is terminating and held by {finalizers}"
    mend = _unhold(kind, metadata.name, metadata.namespace)
    yield error(kind, f"{metadata.namespace}/{metadata.name}", text, mend)


def _silence(pod: Pod, node: views.Node | None) -> str:
    if node is None:
        return f"its node {pod.spec.node_name} is gone" if pod.spec.node_name else "it has no node"
    name = pod.spec.node_name
    if _is_ready(node):
        return f"node {name} is Ready but does not stop it"
    return f"node {name} does not answer"


def _is_ready(node: views.Node) -> bool:
    said = node.status.conditions or ()
    return any(one.type == "Ready" and one.status == "True" for one in said)


def _held_by(picture: Picture, kind: str, one: Document) -> tuple[str, str]:
    """Return the cause that keeps an object from being deleted, and the fix."""
    metadata = one["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    finalizers = metadata.get("finalizers") or ()
    if kind == "Namespace":
        found = [
            text
            for condition in _ENDING
            if (said := pictures.condition(one, condition)).get("status") == "True"
            and (text := said.get("message", ""))
        ]
        return (
            "; ".join(found) or "the namespace controller does not say why",
            f"kubectl get namespace {name} -o yaml; delete what its conditions name",
        )
    if names.RESOURCE_IN_USE in finalizers:
        users = _users(picture, kind, name)
        if users:
            return (
                f"{users} still use it",
                f"kubectl gpu who {name}; it is gone when the last of them has ended"
                if kind == "ClusterQueue"
                else "remove it from their spec, or delete them",
            )
        return (
            f"nothing uses it, but the controller does not remove {names.RESOURCE_IN_USE}",
            f"check that the controller runs; else {_unhold(kind, name, namespace)}",
        )
    return f"held by {', '.join(finalizers) or 'nobody'}", _unhold(kind, name, namespace)


def _users(picture: Picture, kind: str, name: str) -> str:
    if kind == "ClusterQueue":
        holding = [
            one.metadata.name
            for one in picture.workloads
            if one.status.admission is not None and one.status.admission.cluster_queue == name
        ]
        return f"{len(holding)} Workload(s) ({shown(holding)})" if holding else ""
    if kind == "ResourceFlavor":
        queues = [
            one.metadata.name
            for one in picture.cluster_queues
            if any(
                flavor.name == name
                for group in one.spec.resource_groups or ()
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


def clock(picture: Picture) -> Iterator[Finding]:
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
    ready = {one.metadata.name for one in picture.nodes if _is_ready(one)}
    wrong: dict[str, list[str]] = {"ahead of": [], "behind": []}
    for one in picture.of(pictures.NODE_LEASES):
        name = one["metadata"]["name"]
        age = picture.age_seconds((one.get("spec") or {}).get("renewTime"))
        if name in ready and age < -_SKEW_SECONDS - picture.read_seconds:
            wrong["ahead of"].append(name)
        elif name in ready and age > _BEHIND_SECONDS:
            wrong["behind"].append(name)
    for direction, found in wrong.items():
        if found:
            text = (
                f"their clocks are {direction} that of the API server, judged by their Leases: "
                "start and end times of pods are wrong"
            )
            yield warning("Node", tuple(found), text, mend)


def _apart(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"


def overload(picture: Picture) -> Iterator[Finding]:
    """The API server keeps up with requests."""
    found = picture.overload
    mend = (
        "see who sends so many requests: kubectl get --raw /debug/api_priority_and_fairness/"
        "dump_priority_levels; give the API server more, or gpu-admission a FlowSchema of its own"
    )
    if found.met:
        text = f"the API server refused {found.met} of our requests: too many requests (429)"
        yield error("APIServer", "itself", text, mend)
    refused = {level: count for level, count in sorted(found.refused.items()) if count > 0}
    if refused:
        listed = ", ".join(f"{count} of level {level}" for level, count in refused.items())
        text = f"it refused requests during this check ({listed}): decisions are written late"
        yield warning("APIServer", "itself", text, mend)


def throttling_unseen(picture: Picture) -> str:
    """Return why it is not known whether the API server keeps up; empty where it is."""
    return "" if picture.overload.met else picture.overload.unseen
