"""Installs the program's objects in a cluster, and uninstalls them."""

import base64
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from admission.admin import (
    backups,
    break_glass,
    bypass_policies,
    holding,
    manifests,
    outside_quota,
    protection,
    rbac,
    taken_over,
    visibility_manifests,
    warnpolicies,
    webhook_certificate,
)
from admission.admin.backups import Backup, LeftOut
from admission.admin.held_leases import HeldLease
from admission.admin.outside_quota import Releaser
from admission.base import clock as clocks
from admission.base import names, patches
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.config.derived import Settings
from admission.config.kueue_configuration import VisibilityServer
from admission.controller.queues import object_metadata
from admission.installed import cabundles, serving_certificate
from admission.installed.cabundles import MUTATING_NAME
from admission.kube import apply, errors, resources
from admission.kube.api import Api, Document, every_served
from admission.kube.apply import Applied, Effect
from admission.kube.resources import Resource
from admission.objects import crds
from admission.owners import integrations
from certs import files

_KUEUE_CONFIGURATIONS: Final = (
    (resources.MUTATING_WEBHOOKS, "kueue-mutating-webhook-configuration"),
    (resources.VALIDATING_WEBHOOKS, "kueue-validating-webhook-configuration"),
)
_FINALIZED: Final = (
    resources.WORKLOADS,
    resources.LOCAL_QUEUES,
    *object_metadata.RESOURCES.values(),
)
_CRD_SECONDS: Final = 200.0
_NUDGE_SECONDS: Final = 5.0
"""An API server that could not list a kind at the first try may look at its end again only when
the CRD changes, or after five minutes (operator-framework/operator-controller#1437)."""
UNINSTALLER: Final = "gpu-admission-uninstall"
"""Who holds the Lease during an uninstallation."""
_POLL_SECONDS: Final = 0.1
_NO_CONVERSION: Final = {"strategy": "None"}


class InstallationError(AdmissionError):
    """The cluster is not in a state in which this can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of an installation that no configuration file names; the defaults of a new one.

    Attributes:
        image: of the pods in the cluster.
        bypass_guard: install the policies against ways around quota; else take them away.
        visibility: have API servers pass requests for pending workloads on. While they cannot
            reach the controller, no namespace of the cluster can be deleted.
        older_versions: serve v1beta1 of kinds that must be converted. The API server then keeps
            a cache of each version, and has every Workload that is written converted for it.
    """

    image: str = manifests.DEFAULT_IMAGE
    bypass_guard: bool = True
    visibility: bool = False
    older_versions: bool = True

    def with_options(
        self,
        *,
        image: str | None = None,
        bypass_guard: bool | None = None,
        visibility: bool | None = None,
        older_versions: bool | None = None,
    ) -> "Parts":
        """Return these parts with what options say of them; None says nothing."""
        return Parts(
            image=self.image if image is None else image,
            bypass_guard=self.bypass_guard if bypass_guard is None else bypass_guard,
            visibility=self.visibility if visibility is None else visibility,
            older_versions=self.older_versions if older_versions is None else older_versions,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """What to install.

    Attributes:
        webhook_url: ``https://host:port`` of a webhook outside the cluster, where the controller
            then runs, too; empty to run both in the cluster.
        certificates: directory of such a webhook's certificates; filled where it has none.
        parts: what to install of the parts.
        take_over: install beside Kueue's webhook configurations.
        backup: queues and reservations to bring back; None for nothing.
    """

    webhook_url: str
    certificates: Path
    parts: Parts = Parts()
    take_over: bool = False
    backup: Backup | None = None


def _ignore(_: LeftOut) -> None:
    """Ignores objects that were not restored."""


def install(
    api: Api,
    plan: InstallPlan,
    settings: Settings,
    clock: Clock,
    wait: Callable[[float], None],
    left_out: Callable[[LeftOut], None] = _ignore,
) -> Iterator[Applied]:
    """Apply everything, server-side; a second time changes nothing.

    The webhook configurations come last, when what they need is there. What is brought back from
    a backup is there before anything runs that could decide.

    Args:
        api: the cluster.
        plan: what to install.
        settings: the configuration.
        clock: for certificates and for bounding waits.
        wait: sleeps for seconds.
        left_out: told of each object of the backup that is not brought back.

    Raises:
        BackupError: there is a backup, and a controller is running.
        InstallationError: Kueue is installed, the URL is no https URL, or the CRDs were not
            established in time; or there is a backup, and webhook configurations of ours; or the
            API server is to hold pods, and serves no MutatingAdmissionPolicies.
        KubeError: the API server refused.
    """
    if not plan.take_over:
        _refuse_kueue(api)
    _host(plan.webhook_url)
    held(api, settings)
    if plan.backup is not None:
        _refuse_installed(api, settings)
        backups.refuse_running(api, settings.namespace, clock)
    yield from apply.apply_all(api, [manifests.namespace(settings)])
    place = yield from placed(api, plan, settings, clock)
    yield from definitions(api, plan, place, clock, wait)
    if plan.backup is not None:
        yield from backups.restore(api, plan.backup, left_out)
    yield from roles(api, settings)
    yield from policies(api, plan, settings)
    yield from processes(api, plan, settings)
    yield from reviews(api, settings, place)
    yield from visibility(api, plan, settings, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPlace:
    """Where the API server finds the webhook.

    Attributes:
        client_config: ``url`` or ``service``, and ``caBundle``.
        authority: PEM text of the CA.
        host: of a webhook outside the cluster; empty for one inside.
    """

    client_config: Mapping[str, Any]
    authority: bytes
    host: str


def placed(
    api: Api, plan: InstallPlan, settings: Settings, clock: Clock
) -> Generator[Applied, None, WebhookPlace]:
    """Make the webhook's certificate, and return where the webhook is.

    Raises:
        InstallationError: the URL is no https URL.
        KubeError: the API server refused.
    """
    host = _host(plan.webhook_url)
    reference: Mapping[str, Any]
    if host:
        hosts = [host, serving_certificate.visibility_host(settings.namespace)]
        lifetimes = serving_certificate.lifetimes(settings.gpu.certificates)
        certificates = files.ensure(plan.certificates, hosts, clock.now(), lifetimes)
        authority = certificates.ca.read_bytes()
        reference = {"url": plan.webhook_url.rstrip("/")}
    else:
        secret = webhook_certificate.ensure(api, settings, clock)
        yield secret.applied
        authority, reference = secret.authority, manifests.service_reference(settings)
    bundle = base64.b64encode(authority).decode()
    return WebhookPlace(
        client_config={**reference, "caBundle": bundle}, authority=authority, host=host
    )


def definitions(
    api: Api, plan: InstallPlan, place: WebhookPlace, clock: Clock, wait: Callable[[float], None]
) -> Iterator[Applied]:
    """Apply the CRDs, and wait until they are served."""
    # Only who asks for an older version than the stored one waits for the webhook behind this.
    conversion = manifests.conversion(place.client_config) if plan.parts.older_versions else None
    yield from _apply_pointed(api, crds.documents(conversion))
    _await_crds(api, clock, wait)


def _apply_pointed(api: Api, documents: Iterable[Document]) -> Iterator[Applied]:
    """Apply documents that say where a webhook is asked: at a URL, at a Service, or nowhere.

    The API server refuses two at once. What another field manager wrote, such as kubectl or we
    when the webhook moved, stays if it is not applied, so it is replaced before.
    """
    for document in documents:
        resource, name, _ = apply.locate(document)
        try:
            configuration = api.get(resource, name)
        except errors.NotFoundError:
            configuration = {}
        before, document_configs = (
            cabundles.client_configs(configuration),
            cabundles.client_configs(document),
        )
        changes = [
            {"op": "replace", "path": pointer, "value": document_configs[name][1]}
            for name, (pointer, config) in before.items()
            if name in document_configs
            and ("url" in config) != ("url" in document_configs[name][1])
        ]
        if resource == resources.CRDS and before and not document_configs:
            changes = [{"op": "replace", "path": "/spec/conversion", "value": _NO_CONVERSION}]
        if changes:
            version = configuration["metadata"]["resourceVersion"]
            checked = patches.test("/metadata/resourceVersion", version)
            api.patch(resource, name, patches.json_patch([checked, *changes]))
        yield from apply.apply_all(api, [document])


def roles(api: Api, settings: Settings) -> Iterator[Applied]:
    """Apply accounts and roles."""
    yield from apply.apply_all(api, manifests.roles(settings))
    if not settings.kueue.internal_cert_management.enable:
        yield from _taken_away(api, reversed(rbac.certificates(settings.namespace)))


def policies(api: Api, plan: InstallPlan, settings: Settings) -> Iterator[Applied]:
    """Apply the policies in the API server."""
    yield from _guard(api, plan, settings)
    yield from apply.apply_all(api, protection.documents(settings))
    yield from apply.apply_all(api, warnpolicies.documents(settings))
    yield from _taken_away(api, warnpolicies.leftovers(settings))


def processes(api: Api, plan: InstallPlan, settings: Settings) -> Iterator[Applied]:
    """Apply what runs in the cluster, if it shall run there."""
    if not plan.webhook_url:
        documents = _processes(settings, plan.parts.image)
        yield from apply.apply_all(api, (taken_over.without(api, each) for each in documents))


def reviews(api: Api, settings: Settings, place: WebhookPlace) -> Iterator[Applied]:
    """Apply the webhook configurations: from then on the API server asks for reviews."""
    policies_that_hold = held(api, settings)
    yield from apply.apply_all(api, policies_that_hold)
    configurations = manifests.webhook_configurations(place.client_config, settings)
    yield from _apply_pointed(api, configurations)
    if not policies_that_hold and holding.is_installed(api):
        yield from _taken_away(api, reversed(_every_held(settings)))


def no_reviews(api: Api, settings: Settings) -> Iterator[Applied]:
    """Delete the webhook configurations."""
    if holding.is_installed(api):
        yield from _taken_away(api, reversed(_every_held(settings)))
    place = manifests.service_reference(settings)
    yield from apply.delete_all(api, manifests.webhook_configurations(place, settings))


def no_policies(api: Api, settings: Settings) -> Iterator[Applied]:
    """Delete the policies in the API server."""
    yield from _taken_away(api, bypass_policies.leftovers(settings))
    yield from _taken_away(api, warnpolicies.leftovers(settings))
    yield from apply.delete_all(api, reversed(bypass_policies.documents(settings)))
    yield from apply.delete_all(api, reversed(protection.documents(settings)))
    yield from apply.delete_all(api, reversed(warnpolicies.documents(settings)))


def no_processes(api: Api, settings: Settings) -> Iterator[Applied]:
    """Delete what runs in the cluster, and the webhook's certificate."""
    secret = webhook_certificate.document(settings, {})
    processes = _processes(settings, manifests.DEFAULT_IMAGE)
    # A controller outside the cluster has this Service, too.
    outside = visibility_manifests.outside(settings.namespace, "")
    yield from apply.delete_all(api, [*reversed(processes), outside, secret])


def no_roles(api: Api, settings: Settings) -> Iterator[Applied]:
    """Delete accounts and roles."""
    roles = [*rbac.certificates(settings.namespace), *manifests.roles(settings)]
    by_name = {(role["kind"], role["metadata"]["name"]): role for role in roles}
    yield from apply.delete_all(api, reversed(by_name.values()))


def uninstall(
    api: Api,
    settings: Settings,
    clock: Clock,
    wait: Callable[[float], None],
    *,
    release_pods: bool,
    keep_crds: bool = False,
    is_dry_run: bool = False,
) -> Iterator[Applied]:
    """Remove everything, webhook configurations first, so that nothing waits for a webhook.

    Before that it takes the Lease, so that a controller that still runs decides nothing any more.
    It gives the Lease up when no controller has a role any more: a later installation may find it.

    Args:
        api: the cluster.
        settings: settings of the installation; objects that were not installed are not found.
        clock: bounds the wait for the CRDs to be gone.
        wait: sleeps for seconds.
        release_pods: let the pods and the suspended owners that still wait run outside of quota;
            otherwise they stay pending, and suspended.
        keep_crds: keep queues and Workloads, served in the stored version only, and the records
            of GPU-time with the namespace that they are in.
        is_dry_run: the cluster stores nothing, see `admission.admin.dry_cluster`.

    Raises:
        InstallationError: a CRD is still there after its time.
        KubeError: the API server refused.
    """
    lease = HeldLease(name=names.LEASE_NAME, namespace=settings.namespace, holder=UNINSTALLER)
    with suppress(errors.NotFoundError):  # the namespace is gone already
        lease.take(api, clock)
    yield from apply.delete_all(api, api_services(settings))
    yield from no_reviews(api, settings)
    yield from no_policies(api, settings)
    yield from no_processes(api, settings)
    if release_pods:
        releaser = Releaser(
            api, integrations.kinds_of(settings), clock, wait, is_dry_run=is_dry_run
        )
        yield from releaser.owners()
        yield from releaser.pods()
    for resource in _FINALIZED:
        _restore_metadata(api, resource)
    yield from no_roles(api, settings)
    if keep_crds:
        yield from _apply_pointed(api, crds.documents())  # nobody converts any more
    else:
        yield from apply.delete_all(api, reversed(crds.documents()))
        _await_no_crds(api, clock, wait)
    unmark(api)
    lease.release(api)
    if keep_crds and _has_records(api, settings.namespace):
        # What would put back the policies of this installation goes with it.
        yield from apply.delete_all(api, [break_glass.identity(settings.namespace)])
        return
    yield from apply.delete_all(api, [manifests.namespace(settings)])


def _has_records(api: Api, namespace: str) -> bool:
    """Return whether GPU-time was recorded."""
    return bool(
        api.list(resources.CONFIG_MAPS, namespace, label_selector=names.USAGE_LABEL, limit=1).items
    )


_GATES_OF_JOBS: Final = frozenset({names.TOPOLOGY_GATE, names.ELASTIC_JOB_GATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalInventory:
    """What an uninstallation concerns.

    Attributes:
        queues: ClusterQueues and LocalQueues.
        workloads: Workloads.
        waiting: pods that carry our gate, as namespace/name, sorted.
        running: pods that we released and that have not ended.
        gating: Jobs that run and whose new pods carry a gate of ours.
        suspended: Jobs and others with a queue that are suspended: namespaces and names by kind.
    """

    queues: int
    workloads: int
    waiting: tuple[str, ...]
    running: int
    gating: int = 0
    suspended: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def inventory(api: Api, settings: Settings) -> RemovalInventory:
    """Return the objects that an uninstallation affects now.

    Args:
        api: the cluster.
        settings: of the installation: which kinds there are.

    Raises:
        KubeError: the API server refused.
    """
    queues = (resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES)
    running = 0
    for pod in every_served(api, resources.PODS, label_selector=names.PODSET_LABEL):
        has_ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        running += not has_ended and _gates(pod) == _kept(pod)
    return RemovalInventory(
        queues=sum(1 for resource in queues for _ in every_served(api, resource)),
        workloads=sum(1 for _ in every_served(api, resources.WORKLOADS)),
        waiting=gated_pods(api),
        running=running,
        gating=sum(map(_makes_gated, every_served(api, resources.JOBS))),
        suspended=suspended(api, settings),
    )


def suspended(api: Api, settings: Settings) -> Mapping[str, tuple[str, ...]]:
    """Return the Jobs and others with a queue that are suspended: namespace/name by kind."""
    owners_by_kind: dict[str, list[str]] = {}
    for kind, metadata in outside_quota.suspended_owners(api, integrations.kinds_of(settings)):
        owners_by_kind.setdefault(kind, []).append(f"{metadata.namespace}/{metadata.name}")
    return {kind: tuple(sorted(owners)) for kind, owners in sorted(owners_by_kind.items())}


def _makes_gated(job: Document) -> bool:
    """Return whether a Job runs, and its new pods wait for us: to have quota, or a domain."""
    spec = job["spec"]
    has_ended = any(
        condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )
    is_admitted = names.PODSET_LABEL in (spec["template"].get("metadata", {}).get("labels") or {})
    gates = {gate["name"] for gate in spec["template"]["spec"].get("schedulingGates") or ()}
    is_running = not spec.get("suspend") and not has_ended
    return is_running and is_admitted and not gates.isdisjoint(_GATES_OF_JOBS)


def gated_pods(api: Api) -> tuple[str, ...]:
    """Return the pods that still carry a gate of ours, also those that admitted Jobs made.

    They are namespace/name, sorted.
    """
    selectors = (f"{names.MANAGED_LABEL}={names.MANAGED_VALUE}", names.PODSET_LABEL)
    gated = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for selector in selectors
        for pod in every_served(api, resources.PODS, label_selector=selector)
        if _gates(pod) != _kept(pod)
    }
    return tuple(sorted(gated))


def webhook_place(api: Api) -> str:
    """Return where the API server asks the webhook: a URL or a Service; empty for nowhere."""
    config = _webhook_config(api)
    if "url" in config:
        parts = urlsplit(config["url"])
        return f"{parts.scheme}://{parts.netloc}"
    if "service" in config:
        return f"Service {config['service']['namespace']}/{config['service']['name']}"
    return ""


def webhook_namespace(api: Api) -> str:
    """Return in which namespace the API server asks the webhook; empty for nowhere, or a URL."""
    service = _webhook_config(api).get("service") or {}
    return str(service.get("namespace", ""))


def _webhook_config(api: Api) -> Mapping[str, Any]:
    """Return the ``clientConfig`` of our webhooks; empty where there are none."""
    try:
        configuration = api.get(resources.MUTATING_WEBHOOKS, MUTATING_NAME)
    except errors.NotFoundError:
        return {}
    configs = cabundles.client_configs(configuration).values()
    return next((config for _, config in configs), {})


def configured(api: Api, namespace: str) -> Settings | None:
    """Return the configuration with which webhook and controller run; None where there is none.

    Raises:
        ConfigurationError: it cannot be read.
        KubeError: the API server refused.
    """
    try:
        config_map = api.get(resources.CONFIG_MAPS, manifests.CONFIG_MAP, namespace)
    except errors.NotFoundError:
        return None
    return manifests.configured(config_map)


def is_installed(api: Api, settings: Settings) -> bool:
    """Return whether webhook configurations of ours are there."""
    return bool(_installed(api, settings))


def _installed(api: Api, settings: Settings) -> str:
    """The first webhook configuration of ours that is there; empty for none."""
    place = manifests.service_reference(settings)
    for document in manifests.webhook_configurations(place, settings):
        resource, name, _ = apply.locate(document)
        try:
            api.get(resource, name)
        except errors.NotFoundError:
            continue
        return f"{resource.kind} {name}"
    return ""


def _refuse_installed(api: Api, settings: Settings) -> None:
    """Refuse to restore a backup where gpu-admission is installed and may decide meanwhile."""
    installed = _installed(api, settings)
    if installed:
        raise InstallationError(
            f"{installed} exists: gpu-admission is installed, and may decide before everything is "
            "restored; first run gpu-admission uninstall --keep-crds"
        )


def _refuse_kueue(api: Api) -> None:
    for resource, name in _KUEUE_CONFIGURATIONS:
        try:
            api.get(resource, name)
        except errors.NotFoundError:
            continue
        raise InstallationError(
            f"{resource.kind} {name} exists: Kueue is installed in this cluster, and both would "
            "gate the same pods; take its place with gpu-admission migrate kueue, or pass "
            "--take-over"
        )


def _processes(settings: Settings, image: str) -> list[Document]:
    """Return the Deployments, and what they need besides accounts and the Secret."""
    return [
        manifests.config_map(settings),
        *manifests.webhook(settings, image),
        *manifests.controller(settings, image),
        *manifests.network_policies(settings),
    ]


def _guard(api: Api, plan: InstallPlan, settings: Settings) -> Iterator[Applied]:
    """The policies, or their removal; a controller outside the cluster is the installing user."""
    leftovers = bypass_policies.leftovers(settings)
    if plan.parts.bypass_guard:
        users = [_own_name(api)] if plan.webhook_url else []
        yield from apply.apply_all(api, bypass_policies.documents(settings, users))
        yield from _taken_away(api, leftovers)
        return
    yield from _taken_away(api, [*leftovers, *reversed(bypass_policies.documents(settings))])


def held(api: Api, settings: Settings) -> list[Document]:
    """Return the policies that hold pods and Jobs, as this API server serves them.

    They are none where the API server is not to hold anything.

    Raises:
        InstallationError: it is to, and serves no MutatingAdmissionPolicies.
        KubeError: the API server refused.
    """
    if not settings.gpu.holds_while_down:
        return []
    version = holding.served_version(api)
    if not version:
        kind = resources.MUTATING_POLICIES.kind
        raise InstallationError(
            f"the API server serves no {kind}, so it cannot hold pods while the webhook does not "
            "answer: this needs Kubernetes 1.36, or 1.34 with the feature gate and the API "
            "version switched on; else leave out --while-webhook-down hold"
        )
    return holding.documents(settings, version)


def _every_held(settings: Settings) -> list[Document]:
    """Enough to delete them, whatever version the API server serves."""
    versions = resources.versions(resources.MUTATING_POLICIES)
    return [
        document
        for version in versions
        for document in holding.documents(settings, version.api_version)
    ]


def visibility(
    api: Api, plan: InstallPlan, settings: Settings, place: WebhookPlace
) -> Iterator[Applied]:
    """Apply the APIServices, or delete them."""
    if not plan.parts.visibility:
        yield from _taken_away(api, api_services(settings))
        return
    port = visibility_manifests.PORT
    if place.host:
        outside = visibility_manifests.outside(settings.namespace, place.host)
        yield from apply.apply_all(api, [outside])
        port = (settings.kueue.visibility_server or VisibilityServer()).bind_port
    yield from apply.apply_all(
        api, visibility_manifests.api_services(settings.namespace, port, place.authority)
    )


def api_services(settings: Settings) -> list[Document]:
    """Return the APIServices for requests for pending workloads: enough to delete them."""
    port = visibility_manifests.PORT
    return visibility_manifests.api_services(settings.namespace, port, b"")


def _taken_away(api: Api, documents: Iterable[Document]) -> Iterator[Applied]:
    """Deletes what an earlier installation had."""
    for removed in apply.delete_all(api, documents):
        if removed.effect is not Effect.ABSENT:
            yield removed


def _own_name(api: Api) -> str:
    resource = resources.SELF_SUBJECT_REVIEWS
    reference = {"apiVersion": resource.api_version, "kind": resource.kind}
    return str(api.create(resource, reference)["status"]["userInfo"]["username"])


def _host(url: str) -> str:
    """Return the host of a webhook outside the cluster; empty without a URL."""
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise InstallationError(f"{url!r}: the webhook URL must be https://HOST:PORT")
    return parts.hostname


def _await_crds(api: Api, clock: Clock, wait: Callable[[float], None]) -> None:
    deadline = clock.monotonic() + _CRD_SECONDS
    for document in crds.documents():
        name = document["metadata"]["name"]
        while not _is_established(_crd(api, name)):
            _check_deadline(name, clock, deadline)
            wait(_POLL_SECONDS)


def _await_no_crds(api: Api, clock: Clock, wait: Callable[[float], None]) -> None:
    """Waits until the CRDs are gone, and changes one that stays, so that it is looked at again."""
    deadline = clock.monotonic() + _CRD_SECONDS
    for document in crds.documents():
        name, nudge_at = document["metadata"]["name"], clock.monotonic() + _NUDGE_SECONDS
        while _crd(api, name) is not None:
            _check_deadline(name, clock, deadline)
            if clock.monotonic() >= nudge_at:
                # A controller that was still ending may have put some on again.
                for resource in _FINALIZED:
                    _restore_metadata(api, resource)
                _touch(api, name, clock)
                nudge_at = clock.monotonic() + _NUDGE_SECONDS
            wait(_POLL_SECONDS)


def _check_deadline(name: str, clock: Clock, deadline: float) -> None:
    if clock.monotonic() > deadline:
        raise InstallationError(
            f"CustomResourceDefinition {name} is not in the expected state after "
            f"{_CRD_SECONDS:.0f} s; see its conditions: kubectl describe crd {name}"
        )


def _touch(api: Api, name: str, clock: Clock) -> None:
    changed = {names.AWAITED_AT: clocks.to_wire(clock.now())}
    try:
        api.patch(resources.CRDS, name, patches.merge({"metadata": {"annotations": changed}}))
    except errors.NotFoundError:
        return  # gone just now


def _crd(api: Api, name: str) -> Document | None:
    try:
        return api.get(resources.CRDS, name)
    except errors.NotFoundError:
        return None


def _is_established(crd: Document | None) -> bool:
    # A fresh CRD has ``conditions: null``.
    conditions = ((crd or {}).get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def unmark(api: Api) -> None:
    """Take off the label of namespaces that had a LocalQueue."""
    without = patches.merge({"metadata": {"labels": {names.HAS_QUEUE_LABEL: None}}})
    for namespace in every_served(api, resources.NAMESPACES, label_selector=names.HAS_QUEUE_LABEL):
        api.patch(resources.NAMESPACES, namespace["metadata"]["name"], without)


def _restore_metadata(api: Api, resource: Resource) -> None:
    """Take off what only the controller would take off: finalizers, and what it says of nodes."""
    for item in every_served(api, resource):
        metadata, change = item["metadata"], dict[str, Any]()
        finalizers = metadata.get("finalizers", [])
        if names.RESOURCE_IN_USE in finalizers:
            change |= patches.remove_finalizer(finalizers, names.RESOURCE_IN_USE)["metadata"]
        if names.LARGEST_NODE in (metadata.get("annotations") or {}):
            change["annotations"] = {names.LARGEST_NODE: None}
        if change:
            patch = patches.merge({"metadata": change})
            api.patch(resource, metadata["name"], patch, metadata.get("namespace", ""))


def _gates(pod: Document) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def _kept(pod: Document) -> list[str]:
    ours = set(names.QUOTA_GATES)
    if not pod["metadata"].get("annotations", {}).get(names.FOREIGN_TOPOLOGY_GATE):
        ours.add(names.TOPOLOGY_GATE)  # of a Job's pod, or Kueue's of a pod that was taken over
    return [gate for gate in _gates(pod) if gate not in ours]
