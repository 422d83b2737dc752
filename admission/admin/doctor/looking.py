"""Reads the picture from an API server. Nothing is stored: what is created is a dry run."""

import base64
import re
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from admission.admin import break_glass, manifests, operators
from admission.admin.doctor import picture as pictures
from admission.admin.doctor.picture import Overload, Picture, TimedPod, Trial
from admission.base import clock as clocks
from admission.base import names
from admission.base.clock import Clock
from admission.config import reading
from admission.config.derived import Settings
from admission.installed import cabundles, serving_certificate
from admission.kube import errors, resources
from admission.kube.api import DOCUMENT, PAGE, Api, Document
from admission.kube.resources import Resource
from admission.objects import broken_glass, views
from admission.objects.workload import Workload
from certs import rotation

_T = TypeVar("_T")

_WHOLE: Final = (
    resources.MUTATING_WEBHOOKS,
    resources.VALIDATING_WEBHOOKS,
    resources.VALIDATING_POLICIES,
    resources.VALIDATING_POLICY_BINDINGS,
    *resources.versions(resources.MUTATING_POLICIES),
    *resources.versions(resources.MUTATING_POLICY_BINDINGS),
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.NAMESPACES,
    resources.CLUSTER_QUEUES,
    resources.COHORTS,
    resources.LOCAL_QUEUES,
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
    resources.TOPOLOGIES,
    resources.RESOURCE_SLICES,
    resources.DEVICE_CLASSES,
    resources.LIMIT_RANGES,
    resources.RESOURCE_QUOTAS,
    resources.VOLCANO_QUEUES,
    operators.CLUSTER_POLICIES,
    operators.DAEMON_SETS,
    *pictures.QUOTA_SYSTEMS,
)
"""Kinds of which everything is read."""

_OF_OURS: Final = (
    resources.DEPLOYMENTS,
    resources.LEASES,
    resources.ROLES,
    resources.ROLE_BINDINGS,
)
"""Kinds of which only the objects in our namespace are read."""

_NODE_LEASES: Final = "kube-node-lease"
_REJECTED: Final = re.compile(
    r"^apiserver_flowcontrol_rejected_requests_total\{([^}]*)\} (\S+)$", re.MULTILINE
)
_LEVEL: Final = re.compile(r'priority_level="([^"]*)"')
_CONNECT_SECONDS: Final = 3.0
_TRIAL: Final = "gpu-admission-doctor"


class Server(Api, Protocol):
    """An API server, and its pages that are no objects."""

    def text(self, path: str) -> str:
        """Return a page."""
        ...


def look(api: Server, given_settings: Settings | None, clock: Clock) -> Picture:
    """Return the cluster as it is now.

    Args:
        api: the API server.
        given_settings: of the installation; None to read them in the cluster.
        clock: this machine's.

    Raises:
        KubeError: the API server does not answer.
    """
    now, local_now = _time(api, clock)
    began = clock.monotonic()
    eyes = _Eyes(api)
    before = eyes.rejected()
    namespace = given_settings.namespace if given_settings is not None else names.SYSTEM_NAMESPACE
    eyes.see(pictures.OWN_CONFIG, eyes.get(resources.CONFIG_MAPS, manifests.CONFIG_MAP, namespace))
    settings, is_known, problem = _settings(given_settings, eyes.objects[pictures.OWN_CONFIG])
    for resource in _WHOLE:
        eyes.see(resource, eyes.list(resource))
    for resource in _OF_OURS:
        eyes.see(resource, eyes.list(resource, settings.namespace))
    eyes.see(pictures.OWN_PODS, eyes.list(resources.PODS, settings.namespace))
    eyes.see(pictures.NODE_LEASES, eyes.list(resources.LEASES, _NODE_LEASES))
    for resource, listed in (
        (resources.CRDS, pictures.DEFINITIONS),
        (resources.API_SERVICES, cabundles.NAMES[resources.API_SERVICES]),
    ):
        eyes.see(resource, (document for name in listed for document in eyes.get(resource, name)))
    signs = operators.signs_of(
        eyes.objects[operators.CLUSTER_POLICIES], eyes.objects[operators.DAEMON_SETS]
    )
    eyes.see(
        resources.CONFIG_MAPS,
        (
            config_map
            for name in sorted(signs)
            for config_map in eyes.list(resources.CONFIG_MAPS, name)
        ),
    )
    pods = eyes.all(resources.PODS, TimedPod, break_glass.NOT_ENDED)
    glass = eyes.glass(settings, pods)
    nodes = eyes.all(resources.NODES, views.Node)
    workloads = eyes.all(resources.WORKLOADS, Workload)
    secret = eyes.secret(settings.namespace)
    trial = _trial(api, eyes.objects)
    if glass.since:
        trial = Trial(unasked="break-glass is on, so the webhook is not asked")
    after = eyes.rejected()
    overload = Overload(
        refused={level: count - before.get(level, 0) for level, count in (after or {}).items()}
        if before is not None
        else {},
        met=eyes.met,
        unseen="" if before is not None and after is not None else eyes.no_metrics,
    )
    return Picture(
        now=now,
        here=local_now,
        read_seconds=clock.monotonic() - began,
        settings=settings,
        settings_known=is_known,
        settings_problem=problem,
        objects=eyes.objects,
        pods=pods,
        nodes=nodes,
        workloads=workloads,
        unseen=eyes.unseen,
        trial=trial,
        secret=secret,
        served=_served(eyes.objects),
        overload=overload,
        glass=glass,
    )


class _Eyes:
    """Reads kinds, and writes down what cannot be read."""

    def __init__(self, api: Server) -> None:
        self._api = api
        self.objects: dict[Resource, tuple[Document, ...]] = {}
        self.unseen: dict[Resource, str] = {}
        self.met = 0
        self.no_metrics = ""

    def see(self, resource: Resource, documents: Iterator[Document]) -> None:
        """Keep objects under a kind; those that may not be read are none."""
        try:
            self.objects[resource] = tuple(documents)
        except errors.KubeError as error:
            self.objects[resource] = ()
            self._miss(resource, error)

    def all(self, resource: Resource, into: type[_T], fields: str = "") -> tuple[_T, ...]:
        """Return all objects of a kind; none where they may not be read."""
        try:
            return tuple(self.list(resource, into=into, fields=fields))
        except errors.KubeError as error:
            self._miss(resource, error)
            return ()

    def list(
        self, resource: Resource, namespace: str = "", *, into: Any = DOCUMENT, fields: str = ""
    ) -> Iterator[Any]:
        """Yield the objects of a kind, page by page; nothing where it is not served."""
        token = ""
        while True:
            try:
                page = self._api.list(
                    resource, namespace, field_selector=fields, limit=PAGE, continue_=token,
                    into=into,
                )  # fmt: skip
            except errors.NotFoundError:
                return
            for document in page.items:
                if into is DOCUMENT:
                    # Objects of a list do not say what they are.
                    yield {"apiVersion": resource.api_version, "kind": resource.kind, **document}
                else:
                    yield document
            token = page.continue_
            if not token:
                return

    def get(self, resource: Resource, name: str, namespace: str = "") -> Iterator[Document]:
        """Yield one object; nothing where there is none."""
        with suppress(errors.NotFoundError):
            yield self._api.get(resource, name, namespace)

    def secret(self, namespace: str) -> dict[str, bytes]:
        """Return the webhook's certificates; of its keys only whether the authority's is there."""
        try:
            secret = self._api.get(resources.SECRETS, serving_certificate.SECRET, namespace)
        except errors.NotFoundError:
            return {}
        except errors.KubeError as error:
            self._miss(resources.SECRETS, error)
            return {}
        data = secret.get("data") or {}
        return {
            name: base64.b64decode(data[name])
            for name in (rotation.AUTHORITIES, rotation.CERTIFICATE)
            if name in data
        }

    def glass(self, settings: Settings, pods: Iterable[views.Pod]) -> break_glass.Status:
        """Return whether break-glass is on, and see what it took away as if it were there."""
        try:
            glass = break_glass.status(self._api, settings, pods)
        except errors.KubeError as error:
            self._miss(pictures.BROKEN_GLASS, error)
            return break_glass.Status()
        except (KeyError, ValueError):
            record = f"{settings.namespace}/{broken_glass.RECORD}"
            self.unseen[pictures.BROKEN_GLASS] = f"ConfigMap {record} cannot be read"
            return break_glass.Status()
        for document in glass.taken_away:
            resource = resources.of_kind(document["apiVersion"], document["kind"])
            if resource is None or resource in self.unseen:
                continue
            present = self.objects.get(resource, ())
            if all(each["metadata"]["name"] != document["metadata"]["name"] for each in present):
                self.objects[resource] = (*present, document)
        return glass

    def rejected(self) -> Mapping[str, int] | None:
        """Return how many requests the API server has refused, by priority level."""
        try:
            text = self._api.text("/metrics")
        except errors.KubeError as error:
            self._count(error)
            self.no_metrics = f"the API server's metrics cannot be read: {error}"
            return None
        counts: Counter[str] = Counter()
        for labels, value in _REJECTED.findall(text):
            level = _LEVEL.search(labels)
            counts[level[1] if level else ""] += int(float(value))
        return counts

    def _miss(self, resource: Resource, error: errors.KubeError) -> None:
        self._count(error)
        if isinstance(error, errors.ForbiddenError):
            group = f".{resource.group}" if resource.group else ""
            verb = "get" if resource in {resources.CRDS, resources.SECRETS} else "list"
            why = f"you may not {verb} {resource.plural}{group}"
        elif isinstance(error, errors.ApiError):
            why = f"{resource.plural} cannot be read: {error}"
        else:
            raise error
        self.unseen[resource] = why

    def _count(self, error: errors.KubeError) -> None:
        self.met += isinstance(error, errors.TooManyRequestsError)


def _time(api: Api, clock: Clock) -> tuple[datetime, datetime | None]:
    """Return the API server's time, which it writes on what it answers, and this machine's."""
    resource = resources.SELF_SUBJECT_REVIEWS
    review = {"apiVersion": resource.api_version, "kind": resource.kind}
    try:
        answer = api.create(resource, review)
        stamp = (answer.get("metadata") or {}).get("creationTimestamp")
        if stamp:
            return clocks.from_wire(stamp), clock.now()
    except (errors.ApiError, ValueError):
        pass
    return clock.now(), None


def _settings(
    settings: Settings | None, config_maps: tuple[Document, ...]
) -> tuple[Settings, bool, str]:
    """Return the settings, whether they are known, and why they cannot be read."""
    if settings is not None:
        return settings, True, ""
    if not config_maps:
        return Settings(), False, ""
    try:
        return manifests.configured(config_maps[0]), True, ""
    except reading.ConfigurationError as error:
        return Settings(), False, str(error)


def _trial(api: Api, objects: Mapping[Resource, tuple[Document, ...]]) -> Trial:
    """Have the API server check a pod that names a queue, and store nothing."""
    queues = objects[resources.LOCAL_QUEUES]
    metadata = queues[0]["metadata"] if queues else {"namespace": "default", "name": _TRIAL}
    namespace = metadata["namespace"]
    pod = {
        "metadata": {
            "name": _TRIAL,
            "namespace": namespace,
            "labels": {names.QUEUE_LABEL: metadata["name"]},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "trial",
                    "image": "trial.invalid/never-runs",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "runAsNonRoot": True,
                        "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "1Mi"},
                        "limits": {"cpu": "1m", "memory": "1Mi"},
                    },
                }
            ],
        },
    }
    try:
        created = api.dry_run().create(resources.PODS, pod, namespace)
    except errors.ForbiddenError as error:
        if "is forbidden: User" in str(error):
            return Trial(unasked=f"you may not create pods in namespace {namespace}")
        return Trial(namespace=namespace, refusal=str(error))
    except errors.ApiError as error:
        return Trial(namespace=namespace, refusal=str(error))
    return Trial(namespace=namespace, pod=created)


def _served(objects: Mapping[Resource, tuple[Document, ...]]) -> bytes:
    """Return the certificate that a webhook outside the cluster shows; nothing if out of reach."""
    urls = {
        hook["clientConfig"].get("url", "")
        for resource, name in pictures.OURS
        for object_ in objects[resource]
        if object_["metadata"]["name"] == name
        for hook in object_.get("webhooks") or ()
    }
    parts = urlsplit(min(filter(None, urls), default=""))
    if not parts.hostname:
        return b""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate is only looked at
    address = (parts.hostname, parts.port or 443)
    try:
        with (
            socket.create_connection(address, timeout=_CONNECT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except OSError:
        return b""
    return ssl.DER_cert_to_PEM_cert(shown).encode() if shown else b""
