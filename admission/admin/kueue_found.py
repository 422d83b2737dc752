"""What there is of Kueue in a cluster, and what becomes of it here: read, and nothing changed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from admission.admin import storage
from admission.base import names
from admission.base.errors import AdmissionError
from admission.installed.cabundles import NAMES as OURS
from admission.kube import errors, resources
from admission.kube.api import Api, Document, every_served
from admission.kube.resources import Resource
from admission.objects import kinds, rule_checks
from admission.webhook.kinds import VALIDATED

DEFAULT_NAMESPACE: Final = "kueue-system"
WEBHOOKS: Final = (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)

_CONFIG_KEY: Final = "controller_manager_config.yaml"
_SELECTED_BY: Final = ("control-plane", "controller-manager")
_QUEUES: Final = (
    resources.RESOURCE_FLAVORS,
    resources.TOPOLOGIES,
    resources.COHORTS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.ADMISSION_CHECKS,
)
_ANSWERED_BY_KUEUE: Final = {
    names.MULTI_KUEUE: "MultiKueue",
    names.PROVISIONING: "Kueue's provisioning of nodes",
}


class NoKueueError(AdmissionError):
    """Kueue is not there, or not in a form that can be taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue:
    """Kueue's own objects.

    Attributes:
        namespace: where it runs.
        deployment: name of the Deployment of its controller.
        replicas: of that Deployment.
        selector: labels of its pods.
        lease: name of its Lease.
        lease_namespace: namespace of its Lease.
        config_map: name of the ConfigMap with its configuration; empty where there is none.
        webhooks: its webhook configurations.
        api_services: its APIServices.
    """

    namespace: str
    deployment: str
    replicas: int
    selector: str
    lease: str
    lease_namespace: str
    config_map: str
    webhooks: tuple[Document, ...]
    api_services: tuple[Document, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a move concerns.

    Attributes:
        objects: how many there are of each kind of Kueue that stays.
        admitted: Workloads that hold quota.
        waiting: Workloads that wait for it.
        ended: Workloads that have ended.
        gated: pods that wait behind the gate.
        held: pods with Kueue's finalizer.
        unsupported: what has no effect here, or is refused; each a sentence that names the object.
        older: kinds of which objects may be stored in an older version.
    """

    objects: Mapping[str, int]
    admitted: int = 0
    waiting: int = 0
    ended: int = 0
    gated: int = 0
    held: int = 0
    unsupported: tuple[str, ...] = ()
    older: tuple[str, ...] = field(default=())


def find(api: Api, namespace: str = "", deployment: str = "") -> Kueue:
    """Return where Kueue is.

    Args:
        api: the cluster.
        namespace: where it runs; empty to look at its webhooks.
        deployment: of its controller; empty for the one that its manifests make.

    Raises:
        NoKueueError: it is not there, or too old.
        KubeError: the API server refused.
    """
    webhooks = tuple(webhook_configurations(api))
    where = namespace or _namespace_of(webhooks) or DEFAULT_NAMESPACE
    deployment_document = _deployment(api, where, deployment)
    labels = deployment_document["spec"]["selector"].get("matchLabels") or {}
    config_map, config = _config(api, deployment_document)
    leader = config.get("leaderElection") or {}
    return Kueue(
        namespace=where,
        deployment=deployment_document["metadata"]["name"],
        replicas=deployment_document["spec"].get("replicas", 1),
        selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        lease=leader.get("resourceName") or names.KUEUE_LEASE_NAME,
        lease_namespace=leader.get("resourceNamespace") or where,
        config_map=config_map,
        webhooks=webhooks,
        api_services=tuple(_api_services(api, where)),
    )


def webhook_configurations(api: Api) -> Iterator[Document]:
    """Yield the webhook configurations that ask about Kueue's kinds and are not ours."""
    for resource in WEBHOOKS:
        for configuration in every_served(api, resource):
            if configuration["metadata"]["name"] in OURS[resource]:
                continue
            if any(
                names.KUEUE_GROUP in _groups(webhook)
                for webhook in configuration.get("webhooks") or ()
            ):
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **configuration}


def survey(api: Api) -> Survey:
    """Return what a move concerns now.

    Raises:
        NoKueueError: Kueue's kinds are not served in the version that is stored here.
        KubeError: the API server refused.
    """
    _refuse_other_storage(api)
    older = tuple(old.crd.partition(".")[0] for old in storage.find(api))
    counts: dict[str, int] = {}
    unsupported: list[str] = []
    checks: dict[str, str] = {}
    for resource in _QUEUES:
        flavors = list(every_served(api, resource))
        counts[resource.kind] = len(flavors)
        for document in flavors:
            unsupported += _about(resource, document)
            if resource is resources.ADMISSION_CHECKS:
                checks[document["metadata"]["name"]] = document["spec"].get("controllerName", "")
    for queue in every_served(api, resources.CLUSTER_QUEUES):
        unsupported += _checks_of(queue, checks)
    workloads: Counter[str] = Counter()
    for document in every_served(api, resources.WORKLOADS):
        workloads[state_of(document)] += 1
        unsupported += _about(resources.WORKLOADS, document)
    gated = held_pods = 0
    for pod in managed_pods(api):
        gates = pod["spec"].get("schedulingGates") or ()
        gated += any(gate["name"] == names.ADMISSION_GATE for gate in gates)
        held_pods += names.KUEUE_POD_FINALIZER in (pod["metadata"].get("finalizers") or ())
    return Survey(
        objects={**counts, resources.WORKLOADS.kind: workloads.total()},
        admitted=workloads["admitted"],
        waiting=workloads["waiting"],
        ended=workloads["ended"],
        gated=gated,
        held=held_pods,
        unsupported=tuple(unsupported),
        older=older,
    )


def managed_pods(api: Api) -> Iterator[Document]:
    """Yield the pods that Kueue manages one by one or in groups."""
    selector = f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}"
    yield from every_served(api, resources.PODS, label_selector=selector)


def state_of(workload: Document) -> str:
    """Return ``admitted``, ``waiting`` or ``ended``."""
    status = workload.get("status") or {}
    status_by_type = {
        condition["type"]: condition["status"] for condition in status.get("conditions") or ()
    }
    if status_by_type.get("Finished") == "True":
        return "ended"
    return "admitted" if status.get("admission") else "waiting"


def _namespace_of(webhooks: tuple[Document, ...]) -> str:
    services = (
        (webhook["clientConfig"].get("service") or {}).get("namespace", "")
        for hook in webhooks
        for webhook in hook.get("webhooks") or ()
    )
    return next((namespace for namespace in services if namespace), "")


def _deployment(api: Api, namespace: str, name: str) -> Document:
    key, value = _SELECTED_BY
    deployments = [
        deployment_
        for deployment_ in api.list(resources.DEPLOYMENTS, namespace).items
        if (
            deployment_["metadata"]["name"] == name
            if name
            else _selects(deployment_).get(key) == value
        )
    ]
    if len(deployments) == 1:
        return deployments[0]
    listed = ", ".join(candidate["metadata"]["name"] for candidate in deployments) or "none"
    raise NoKueueError(
        f"namespace {namespace}: Deployments that may be Kueue's controller: {listed}; name it by "
        "--kueue-namespace and --kueue-deployment"
    )


def _selects(deployment: Document) -> Mapping[str, str]:
    labels: Mapping[str, str] = deployment["spec"]["selector"].get("matchLabels") or {}
    return labels


def _config(api: Api, deployment: Document) -> tuple[str, Mapping[str, Any]]:
    """Name and content of Kueue's configuration; nothing where it runs without a file."""
    for volume in deployment["spec"]["template"]["spec"].get("volumes") or ():
        name = (volume.get("configMap") or {}).get("name", "")
        if not name:
            continue
        try:
            config_map = api.get(resources.CONFIG_MAPS, name, deployment["metadata"]["namespace"])
        except errors.NotFoundError:
            continue
        text = (config_map.get("data") or {}).get(_CONFIG_KEY)
        if text:
            content = yaml.safe_load(text)
            return name, content if isinstance(content, dict) else {}
    return "", {}


def _api_services(api: Api, namespace: str) -> Iterator[Document]:
    for name in OURS[resources.API_SERVICES]:
        try:
            api_service = api.get(resources.API_SERVICES, name)
        except errors.NotFoundError:
            continue
        service = api_service["spec"].get("service") or {}
        if service.get("namespace") == namespace:
            yield api_service


def _groups(webhook: Mapping[str, Any]) -> set[str]:
    return {group for rule in webhook.get("rules") or () for group in rule.get("apiGroups") or ()}


def _refuse_other_storage(api: Api) -> None:
    """Raise where Kueue has the API server store another version than ours."""
    for kind in kinds.KINDS:
        name = f"{kind.plural}.{names.KUEUE_GROUP}"
        try:
            crd = api.get(resources.CRDS, name)
        except errors.NotFoundError:
            continue
        version = next(stored["name"] for stored in crd["spec"]["versions"] if stored["storage"])
        if version != kinds.STORED:
            raise NoKueueError(
                f"CustomResourceDefinition {name}: stores {version}: first upgrade Kueue to 0.16 "
                f"or newer, which stores {kinds.STORED}"
            )


def _about(resource: Resource, document: Document) -> Iterator[str]:
    """Yield what of an object is refused, or has no effect."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    where = f"{resource.kind} " + "/".join(
        part for part in (metadata.get("namespace", ""), metadata["name"]) if part
    )
    rules = VALIDATED.get(resource.kind)
    if rules is not None:
        try:
            read = rules.decoder.decode(msgspec.json.encode(document))
        except msgspec.DecodeError as error:
            yield f"{where}: cannot be read: {error}"
            return
        if resource is not resources.WORKLOADS:  # rules on Workloads are about their changes
            problems = rules.errors(None, read)
            if problems:
                yield f"{where}: {rule_checks.text(problems)}"
    if resource is resources.CLUSTER_QUEUES and spec.get("concurrentAdmissionPolicy"):
        yield f"{where}: spec.concurrentAdmissionPolicy: has no effect here"


def _checks_of(queue: Document, checks: Mapping[str, str]) -> Iterator[str]:
    strategy = (queue["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    for check in strategy:
        answers = _ANSWERED_BY_KUEUE.get(checks.get(check["name"], ""))
        if answers:
            name = queue["metadata"]["name"]
            yield (
                f"ClusterQueue {name}: asks for the AdmissionCheck {check['name']} of {answers}, "
                "which nobody answers here: its Workloads would wait"
            )
