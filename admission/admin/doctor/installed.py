"""Checks of the installation: is everything there, does it answer, and is it alone."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from admission.admin import (
    bypass_policies,
    holding,
    manifests,
    protection,
    rbac,
    scope,
    webhooks,
)
from admission.admin.doctor import picture as pictures
from admission.admin.doctor.devices import shown
from admission.admin.doctor.findings import DoctorFinding, error, warning
from admission.admin.doctor.picture import OURS, Picture, name_of
from admission.base import clock as clocks
from admission.base import names
from admission.config.derived import Settings
from admission.config.gpu_configuration import HOLD
from admission.config.kueue_configuration import VisibilityServer
from admission.installed import cabundles, serving_certificate
from admission.kube import errors, resources
from admission.kube.api import Document
from admission.kube.resources import Resource
from admission.objects import broken_glass
from admission.owners import integrations
from admission.owners.integrations import Kinds
from certs import rotation

INSTALL: Final = "gpu-admission install, with the options of the installation"
_DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied')
_CAUSES: Final = (
    ("x509", "the API server does not trust its certificate"),
    ("connection refused", "nothing listens there"),
    ("no endpoints available", "none of its pods is ready"),
    ("not found", "its Service is gone"),
    ("no such host", "its host has no address"),
    ("deadline exceeded", "it did not answer in time"),
)
"""Part of the API server's text, and what it means."""
_NO_KINDS: Final = Kinds(integrations=(), held=())
_LEASE_SLACK: Final = 4
_ESTABLISHED: Final = "Established"
_NAMES_ACCEPTED: Final = "NamesAccepted"
_POD_SCHEDULED: Final = "PodScheduled"
_PROGRESSING: Final = "Progressing"
_AVAILABLE: Final = "Available"
_SILENT_SECONDS: Final = 120.0
_OTHER_WEBHOOKS: Final = {
    "hami": "HAMi",
    "yunikorn": "YuniKorn",
    "nos": "nos",
    "runai": "Run:ai",
    "kai-": "KAI",
}
"""Beginning of the name of a webhook configuration, and who hands out GPUs with it."""


def settings(picture: Picture) -> Iterator[DoctorFinding]:
    """The configuration file in the cluster can be read, and pauses nothing."""
    name = f"{picture.namespace}/{manifests.CONFIG_MAP}"
    if picture.settings_problem:
        yield error(
            "ConfigMap",
            name,
            f"the configuration cannot be read, so pods that start now fail: "
            f"{picture.settings_problem}",
            "correct the file, check it with: gpu-admission config --config FILE, then: "
            "gpu-admission install --config FILE",
        )
    elif picture.settings.gpu.paused:
        yield warning(
            "ConfigMap",
            name,
            "admission is Paused: nobody gets quota",
            "set admission: Active in GpuConfiguration, then: gpu-admission install --config FILE",
        )


def definitions(picture: Picture) -> Iterator[DoctorFinding]:
    """Every kind of Kueue's API is served in the version that is stored."""
    definitions = pictures.DEFINITIONS
    missing = tuple(name for name in definitions if picture.named(resources.CRDS, name) is None)
    if missing:
        text = "missing, so no object of this kind can be stored"
        yield error("CustomResourceDefinition", missing, text, INSTALL)
    for name in definitions:
        crd = picture.named(resources.CRDS, name)
        if crd is None:
            continue
        if pictures.condition(crd, _ESTABLISHED).get("status") != "True":
            message = pictures.condition(crd, _NAMES_ACCEPTED).get("message", "")
            yield error(
                "CustomResourceDefinition",
                name,
                f"the API server does not serve it{message and ': '}{message}",
                f"kubectl describe crd {name}",
            )
        elif not any(
            version["name"] == "v1beta2" and version["served"]
            for version in crd["spec"]["versions"]
        ):
            text = "v1beta2 is not served; another program has replaced the definition"
            yield error("CustomResourceDefinition", name, text, INSTALL)


def configurations(picture: Picture) -> Iterator[DoctorFinding]:
    """The webhook configurations contain every webhook, with the right failurePolicy."""
    expected_configurations = manifests.webhook_configurations({"url": ""}, _as_installed(picture))
    for (resource, name), document in zip(OURS, expected_configurations, strict=True):
        configuration = picture.named(resource, name)
        if configuration is None:
            text = "missing, so GPU pods are created without a scheduling gate or without checks"
            yield error(resource.kind, name, text, INSTALL)
            continue
        hooks = {webhook["name"]: webhook for webhook in configuration.get("webhooks") or ()}
        expected = {webhook["name"]: webhook for webhook in document["webhooks"]}
        if not picture.settings_known:
            expected = {
                hook_name: hook
                for hook_name, hook in expected.items()
                if hook_name.endswith("pod.kb.io")
            }
        missing = tuple(hook_name for hook_name in expected if hook_name not in hooks)
        if missing:
            text = f"it lacks the webhooks {', '.join(missing)}, so their objects are not reviewed"
            yield error(resource.kind, name, text, INSTALL)
        loose = tuple(
            hook_name
            for hook_name, hook in expected.items()
            if hook_name in hooks
            and hook["failurePolicy"] != hooks[hook_name].get("failurePolicy")
        )
        if loose:
            text = (
                f"failurePolicy of {', '.join(loose)} was changed: GPU pods pass quota while the "
                "webhook is down"
            )
            yield warning(resource.kind, name, text, INSTALL)


def _as_installed(picture: Picture) -> Settings:
    """Return the settings; where they are not known, what the configurations tell of them."""
    is_held = any(hook["name"] == webhooks.UNGATED for _, hook in picture.hooks())
    if picture.settings_known or not is_held:
        return picture.settings
    gpu = picture.settings.gpu.model_copy(update={"while_webhook_down": HOLD})
    return picture.settings.model_copy(update={"gpu": gpu})


def glass(picture: Picture) -> Iterator[DoctorFinding]:
    """GPU pods go through queues: break-glass is off, and nothing runs that it let pass."""
    let_run = [each.label for each in picture.glass.let_run]
    count = len(picture.glass.created_meanwhile)
    if picture.glass.since:
        created = f"; GPU pods created so, now or before: {count}" if count else ""
        yield error(
            "ConfigMap",
            f"{picture.namespace}/{broken_glass.RECORD}",
            f"break-glass is on since {picture.glass.since}: GPU pods run without quota{created}",
            "once webhook and controller run again: gpu-admission break-glass off",
        )
    elif count:
        yield warning(
            "Cluster",
            "of the kubeconfig",
            f"pods run outside of quota that were created while break-glass was on: {count} "
            f"({shown([each.label for each in picture.glass.created_meanwhile])})",
            "delete them when it suits, so that their owners create them again in the queue; list "
            "all: gpu-admission break-glass status",
        )
    if picture.glass.broken_before is None:
        yield warning(
            "ConfigMap",
            f"{picture.namespace}/{broken_glass.TIMES}",
            "cannot be read, so nobody knows which pods were created while break-glass was on",
            f"kubectl delete configmap {broken_glass.TIMES} -n {picture.namespace}",
        )
    if let_run:
        yield warning(
            "Cluster",
            "of the kubeconfig",
            f"pods and owners that an administrator let run outside of quota: {len(let_run)} "
            f"({shown(let_run)})",
            "their queues are charged, and others may wait until they end; list all: "
            "gpu-admission break-glass status",
        )


def answers(picture: Picture) -> Iterator[DoctorFinding]:
    """The webhook answers the API server, and holds a pod that names a queue."""
    trial = picture.trial
    called = errors.failed_webhook(trial.refusal)
    if called:
        document_of_hook = {hook["name"]: document for document, hook in picture.hooks()}
        configuration = document_of_hook.get(called)
        cause = next(
            (text for part, text in _CAUSES if part in trial.refusal), "it does not answer"
        )
        if configuration is None:
            yield error(
                "Webhook",
                called,
                f"a webhook of another program fails, and GPU pods with it: {cause} "
                f"({trial.refusal})",
                "repair that program, or delete its webhook configuration: kubectl get "
                "mutatingwebhookconfigurations,validatingwebhookconfigurations",
            )
        else:
            yield error(
                configuration.get("kind", "WebhookConfiguration"),
                configuration["metadata"]["name"],
                f"no GPU pod can be created: the webhook {called} cannot be called, {cause} "
                f"({trial.refusal})",
                _mend_call(picture, trial.refusal),
            )
    elif trial.pod is not None and names.UNREVIEWED in _annotations(trial.pod):
        yield error(
            resources.MUTATING_WEBHOOKS.kind,
            cabundles.MUTATING_NAME,
            "the webhook does not answer: the API server holds new GPU pods, and what they ask "
            "for is not turned into what their queue has",
            f"{_mend_call(picture, '')}; what people do meanwhile: docs/guides/break-glass.md",
        )
    elif trial.pod is not None and not _is_held(trial.pod) and _asks_of_pods(picture):
        yield error(
            "Namespace",
            trial.namespace,
            "a pod with a queue label is created there without a scheduling gate: the API server "
            "does not call the webhook for it",
            f"check whether the namespaceSelector of {cabundles.MUTATING_NAME} excludes the "
            f"namespace on purpose (excludedNamespaces); else {INSTALL}",
        )


def unanswered(picture: Picture) -> str:
    """Return why it is not known whether the webhook answers; empty where it is."""
    trial = picture.trial
    if trial.unasked:
        return trial.unasked
    is_of_webhook = errors.failed_webhook(trial.refusal) or _DENIED.search(trial.refusal)
    if trial.refusal and not is_of_webhook:
        return f"the API server refused a trial pod for another reason: {trial.refusal}"
    return ""


def _mend_call(picture: Picture, refusal: str) -> str:
    if "x509" in refusal:
        return f"{INSTALL}: it writes a new caBundle"
    if not picture.is_inside:
        return "start the webhook: gpu-admission run --cert-dir DIR, or see its log"
    return (
        f"kubectl -n {picture.namespace} get pods,endpointslices; kubectl -n {picture.namespace} "
        f"logs deploy/{manifests.WEBHOOK}"
    )


def _annotations(pod: Document) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}


def _is_held(pod: Document) -> bool:
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] == names.ADMISSION_GATE for gate in gates)


def _asks_of_pods(picture: Picture) -> bool:
    return any(hook["name"] == "mpod.kb.io" for _, hook in picture.hooks())


# --------------------------------------------------------------------------------- certificates


def _content(picture: Picture) -> Mapping[str, bytes]:
    """Return what is known of the webhook's certificate; nothing where nothing is."""
    if not picture.is_inside:
        return {rotation.CERTIFICATE: picture.served} if picture.served else {}
    return picture.secret


def uncertain(picture: Picture) -> str:
    """Return why the webhook's certificate is not known; empty where it is, or none is needed."""
    if picture.is_inside:
        return picture.unseen.get(resources.SECRETS, "")
    if any(True for _ in picture.hooks()) and not picture.served:
        return "the webhook's URL cannot be reached from here, so its certificate is not known"
    return ""


def certificate(picture: Picture) -> Iterator[DoctorFinding]:
    """The webhook's certificate exists, and does not expire soon."""
    place = f"{picture.namespace}/{serving_certificate.SECRET}"
    content = _content(picture)
    if picture.is_inside and not content.get(rotation.CERTIFICATE):
        text = "it holds no certificate, so the webhook does not start"
        yield error("Secret", place, text, f"delete the Secret if it exists, then {INSTALL}")
        return
    end = rotation.ends(content).accepted
    if end is None:
        if content:
            text = "its tls.crt is not a certificate, so the webhook does not start"
            yield error("Secret", place, text, f"delete the Secret, then {INSTALL}")
        return
    kind, name = ("Secret", place) if picture.is_inside else ("Certificate", "of the webhook")
    mend = (
        "see why it is not renewed: kubectl -n "
        f"{picture.namespace} get events, the controller's log, or with cert-manager kubectl "
        f"describe certificate -n {picture.namespace}; or {INSTALL}"
    )
    if picture.now >= end:
        text = f"it expired at {clocks.to_wire(end)}: no GPU pod can be created"
        yield error(kind, name, text, mend)
    elif rotation.is_expiring(content[rotation.CERTIFICATE], end, picture.now):
        days = (end - picture.now).days
        text = f"it expires at {clocks.to_wire(end)}, in {days} day(s), and was not renewed"
        yield warning(kind, name, text, mend)


def trust(picture: Picture) -> Iterator[DoctorFinding]:
    """Every caBundle that refers to the webhook matches its certificate."""
    content = _content(picture)
    chain = content.get(rotation.CERTIFICATE, b"")
    if rotation.ends(content).serving is None:
        return
    for resource, listed in cabundles.NAMES.items():
        for name in listed:
            configuration = picture.named(resource, name)
            if configuration is None:
                continue
            bundles = [bundle for _, bundle in cabundles.bundles_of(resource, configuration)]
            # Without a bundle the API server trusts authorities that nobody here knows.
            private = rotation.is_private(content)
            trusted = [bundle for bundle in bundles if bundle or private]
            if any(rotation.accepted_until(chain, bundle) is None for bundle in trusted):
                text = (
                    "its caBundle does not match the webhook's certificate, so the API server "
                    f"refuses every answer; {_LOST[resource]}"
                )
                yield error(resource.kind, name, text, f"{INSTALL}: it writes a new caBundle")


_LOST: Final[Mapping[Resource, str]] = {
    resources.MUTATING_WEBHOOKS: "no GPU pod can be created",
    resources.VALIDATING_WEBHOOKS: "no GPU pod can be created",
    resources.CRDS: "v1beta1 of this kind can be neither read nor written",
    resources.API_SERVICES: "no namespace of the cluster can be deleted",
}


# ------------------------------------------------------------------------------------ processes


def processes(picture: Picture) -> Iterator[DoctorFinding]:
    """Webhook and controller run, in the same version, and no rollout is stuck."""
    if not picture.is_inside:
        yield from _unused(picture)
        return
    images: dict[str, str] = {}
    for name in (manifests.WEBHOOK, manifests.CONTROLLER):
        place = f"{picture.namespace}/{name}"
        deployment = picture.named(resources.DEPLOYMENTS, name, picture.namespace)
        if deployment is None:
            yield error("Deployment", place, "missing", INSTALL)
            continue
        containers = deployment["spec"]["template"]["spec"]["containers"]
        images[name] = containers[0].get("image", "")
        expected = deployment["spec"].get("replicas", 1)
        ready = (deployment.get("status") or {}).get("readyReplicas", 0)
        why = "; ".join(_reasons(picture, name.removeprefix("gpu-admission-")))
        text = f"{ready} of {expected} pods are ready" + (f": {why}" if why else "")
        mend = (
            f"kubectl -n {picture.namespace} describe pods -l app.kubernetes.io/component="
            f"{name.removeprefix('gpu-admission-')}"
        )
        if not ready:
            yield error("Deployment", place, text, mend)
        elif ready < expected:
            yield warning("Deployment", place, text, mend)
        else:
            yield from _stuck_rollout(picture, deployment, name)
    if len(set(images.values())) > 1:
        listed = ", ".join(f"{name} {image}" for name, image in images.items())
        places = tuple(f"{picture.namespace}/{name}" for name in images)
        text = f"webhook and controller run different images: {listed}"
        yield warning("Deployment", places, text, "gpu-admission install --image IMAGE")


def _stuck_rollout(picture: Picture, deployment: Document, name: str) -> Iterator[DoctorFinding]:
    """Yield why new pods do not become ready, while enough of the old ones are."""
    component = name.removeprefix("gpu-admission-")
    expected = deployment["spec"].get("replicas", 1)
    status = deployment.get("status") or {}
    progressing = pictures.condition(deployment, _PROGRESSING)
    is_failing = any(True for _ in _failing(picture, component))
    if progressing.get("status") != "False" and not is_failing:
        return
    why = "; ".join(_reasons(picture, component)) or progressing.get("message", "")
    text = (
        f"its rollout is stuck: {status.get('updatedReplicas', 0)} of {expected} pods are of the "
        f"new version, and pods of the old one still serve: {why}"
    )
    mend = (
        f"kubectl -n {picture.namespace} logs -l app.kubernetes.io/component={component} --prefix "
        "--previous; to go back: "
        f"kubectl -n {picture.namespace} rollout undo deployment {name}"
    )
    yield warning("Deployment", f"{picture.namespace}/{name}", text, mend)


def _failing(picture: Picture, component: str) -> Iterator[str]:
    """Yield each pod of ours that was started again and is not ready, with how often."""
    for pod in picture.of(pictures.OWN_PODS):
        if pictures.labels_of(pod).get("app.kubernetes.io/component") != component:
            continue
        containers = (pod.get("status") or {}).get("containerStatuses") or ()
        ready = sum(bool(container.get("ready")) for container in containers)
        restarts = sum(container.get("restartCount", 0) for container in containers)
        if restarts and ready < len(containers):
            name = pod["metadata"]["name"]
            yield f"{name}: {ready} of {len(containers)} containers ready, restarts {restarts}"


def _unused(picture: Picture) -> Iterator[DoctorFinding]:
    """Yield the Deployments of an installation whose webhook is asked outside the cluster."""
    url = next((hook["clientConfig"].get("url", "") for _, hook in picture.hooks()), "")
    findings = [
        f"{picture.namespace}/{name}"
        for name in (manifests.WEBHOOK, manifests.CONTROLLER)
        if picture.named(resources.DEPLOYMENTS, name, picture.namespace) is not None
    ]
    if not url or not findings:
        return
    host = "/".join(url.split("/")[:3])
    text = f"unused: the API server asks the webhook at {host}, outside the cluster"
    mend = f"{INSTALL} without --webhook-url to use them, or delete them"
    yield warning("Deployment", tuple(findings), text, mend)


def _reasons(picture: Picture, component: str) -> Iterator[str]:
    """Yield why pods of ours do not run, once each."""
    yield from _failing(picture, component)
    seen: set[str] = set()
    for pod in picture.of(pictures.OWN_PODS):
        if pictures.labels_of(pod).get("app.kubernetes.io/component") != component:
            continue
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            last = (container.get("lastState") or {}).get("terminated") or {}
            reasons = (waiting.get("reason", ""), waiting.get("message", ""))
            text = ": ".join(filter(None, reasons))
            if last:
                text = f"{text} (ended before with exit code {last.get('exitCode')})".lstrip()
            if text and text not in seen:
                seen.add(text)
                yield text
        scheduled = pictures.condition(pod, _POD_SCHEDULED)
        text = scheduled.get("message", "")
        if scheduled.get("status") == "False" and text not in seen:
            seen.add(text)
            yield text


def leader(picture: Picture) -> Iterator[DoctorFinding]:
    """A controller leads, renews its Lease and processes new ClusterQueues."""
    lease = picture.named(resources.LEASES, names.LEASE_NAME, picture.namespace)
    spec = (lease or {}).get("spec") or {}
    name = f"{picture.namespace}/{names.LEASE_NAME}"
    mend = (
        f"kubectl -n {picture.namespace} logs deploy/{manifests.CONTROLLER}"
        if picture.is_inside
        else "start the controller: gpu-admission run, or see its log"
    )
    is_told = False
    if spec.get("holderIdentity"):
        age = picture.age_seconds(spec.get("renewTime"))
        if age > _LEASE_SLACK * int(spec.get("leaseDurationSeconds") or 15):
            is_told = True
            text = (
                f"no controller leads: {spec['holderIdentity']} last renewed it {age:.0f} s ago, "
                "so nobody gets quota"
            )
            yield error("Lease", name, text, mend)
    elif picture.is_inside:
        is_told = True
        text = "no controller leads, so nobody gets quota"
        yield error("Lease", name, text, mend)
    silent = tuple(
        cluster_queue.metadata.name
        for cluster_queue in picture.cluster_queues
        if not cluster_queue.status.conditions
        and picture.age_seconds(cluster_queue.metadata.creation_timestamp) > _SILENT_SECONDS
    )
    if silent and not is_told:
        text = "no controller has processed them: they have no conditions"
        yield error("ClusterQueue", silent, text, mend)


# --------------------------------------------------------------------------------------- rights


def rights(picture: Picture) -> Iterator[DoctorFinding]:
    """The service accounts of webhook and controller have the rights that they need."""
    kinds = integrations.kinds_of(picture.settings) if picture.settings_known else _NO_KINDS
    rotates = picture.settings.kueue.internal_cert_management.enable and picture.is_inside
    for document in rbac.documents(picture.namespace, rotates=rotates, kinds=kinds):
        kind, metadata = document["kind"], document["metadata"]
        resource = _RBAC.get(kind)
        if resource is None or not _is_own(document):
            continue
        document_found = picture.named(resource, metadata["name"], metadata.get("namespace", ""))
        name = name_of(document)
        if document_found is None:
            text = "missing, so webhook or controller lack its rights"
            yield error(kind, name, text, INSTALL)
        elif "rules" in document:
            lacking = sorted(_pairs(document["rules"]) - _pairs(document_found.get("rules") or ()))
            if lacking and not _has_all(document_found):
                shown = ", ".join(f"{verb} {resource_}" for resource_, verb in lacking[:4])
                remainder = f" and {len(lacking) - 4} more" if len(lacking) > 4 else ""  # noqa: PLR2004
                text = f"it does not allow what the program does: {shown}{remainder}"
                yield error(kind, name, text, INSTALL)
        elif not _subjects(document) <= _subjects(document_found):
            text = "it no longer names the program's service account"
            yield error(kind, name, text, INSTALL)


_RBAC: Final[Mapping[str, Resource]] = {
    resource.kind: resource
    for resource in (
        resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS,
        resources.ROLES,
        resources.ROLE_BINDINGS,
    )
}


def _is_own(document: Document) -> bool:
    """Return whether a role or binding is for the program's accounts, not for people."""
    return str(document["metadata"]["name"]).startswith((manifests.CONTROLLER, manifests.WEBHOOK))


def _pairs(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {
        (".".join(filter(None, (resource, group))), verb)
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in rule.get("verbs") or ()
    }


def _has_all(role: Document) -> bool:
    return ("*.*", "*") in _pairs(role.get("rules") or ())


def _subjects(binding: Document) -> set[tuple[str, str, str]]:
    return {
        (subject["kind"], subject.get("namespace", ""), subject["name"])
        for subject in binding.get("subjects") or ()
    }


def policies(picture: Picture) -> Iterator[DoctorFinding]:
    """The policies in the API server that guard quota are all there, and in force."""
    expected = [*protection.documents(picture.settings), *scope.documents(picture.settings)]
    guards = bypass_policies.documents(picture.settings)
    present = {policy["metadata"]["name"] for policy in picture.of(resources.VALIDATING_POLICIES)}
    if any(guard["metadata"]["name"] in present for guard in guards):
        expected += guards  # else: install --no-bypass-guard
    yield from _missing(
        picture,
        expected,
        (resources.VALIDATING_POLICIES, resources.VALIDATING_POLICY_BINDINGS),
        "users can change fields that quota is counted by, or get GPUs around quota",
    )
    settings = _as_installed(picture)
    if settings.gpu.holds_while_down and resources.MUTATING_POLICIES not in picture.unseen:
        yield from _missing(
            picture,
            holding.documents(settings),
            (resources.MUTATING_POLICIES, resources.MUTATING_POLICY_BINDINGS),
            "GPU pods pass quota while the webhook is down",
        )


def _missing(
    picture: Picture, expected: Iterable[Document], kinds: Iterable[Resource], so: str
) -> Iterator[DoctorFinding]:
    """Yield which of the wanted policies and bindings are not there, by kind."""
    documents = tuple(expected)
    for resource in kinds:
        versions = resources.versions(resource)
        present = {
            document["metadata"]["name"] for each in versions for document in picture.of(each)
        }
        missing = tuple(
            document["metadata"]["name"]
            for document in documents
            if document["kind"] == resource.kind and document["metadata"]["name"] not in present
        )
        if missing:
            yield warning(resource.kind, missing, f"missing: {so}", INSTALL)


# ---------------------------------------------------------------------------------- who is beside


def beside(picture: Picture) -> Iterator[DoctorFinding]:
    """No other program decides about the same quota."""
    ours = {name for _, name in OURS}
    for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
        for configuration in picture.of(resource):
            name = configuration["metadata"]["name"]
            if name in ours:
                continue
            if any(
                names.KUEUE_GROUP in _groups(webhook)
                for webhook in configuration.get("webhooks") or ()
            ):
                text = (
                    "Kueue is installed, too: both admit the same Workloads, so quota is granted "
                    "twice"
                )
                mend = "remove one of them; how: docs/guides/coming-from.md"
                yield error(resource.kind, name, text, mend)
            other = next(
                (product for start, product in _OTHER_WEBHOOKS.items() if name.startswith(start)),
                "",
            )
            if other:
                text = f"{other} changes or schedules GPU pods, too, and has a quota of its own"
                yield warning(resource.kind, name, text, _BESIDE)
    for resource in pictures.QUOTA_SYSTEMS:
        listed = tuple(map(name_of, picture.of(resource)))
        if listed:
            text = f"they limit GPUs in addition to gpu-admission ({resource.api_version})"
            yield warning(resource.kind, listed, text, _BESIDE)
    limited = tuple(
        queue["metadata"]["name"]
        for queue in picture.of(resources.VOLCANO_QUEUES)
        if any(key.startswith("nvidia.com/") for key in _capability(queue))
    )
    if limited:
        text = "these Volcano queues limit GPUs, too: an admitted pod may wait there"
        yield warning("Queue", limited, text, "remove nvidia.com/* from their spec.capability")


_BESIDE: Final = (
    "let only one of the two decide: remove the other's limits on GPUs, or exclude its namespaces "
    "(excludedNamespaces of GpuConfiguration)"
)


def _groups(webhook: Mapping[str, Any]) -> set[str]:
    return {group for rule in webhook.get("rules") or () for group in rule.get("apiGroups") or ()}


def _capability(queue: Document) -> Mapping[str, Any]:
    return (queue.get("spec") or {}).get("capability") or {}


def visibility(picture: Picture) -> Iterator[DoctorFinding]:
    """The controller answers the requests that the API server forwards to it."""
    for name in cabundles.NAMES[resources.API_SERVICES]:
        api_service = picture.named(resources.API_SERVICES, name)
        if api_service is None:
            continue
        available = pictures.condition(api_service, _AVAILABLE)
        if available.get("status") == "False":
            text = (
                "the API server cannot reach it, and no namespace of the cluster can be deleted "
                f"meanwhile: {available.get('message', '')}"
            )
            port = VisibilityServer().bind_port
            mend = (
                f"start the controller with its visibility server (port {port}); or remove the "
                "APIService: gpu-admission install --no-visibility"
            )
            yield error("APIService", name, text, mend)
