"""Takes the place of Kueue in a running cluster, and gives it back (ADR 0177).

Each program decides only as leader, by a Lease of its own. A move holds these Leases itself:
first ours, so that our controller waits; then also Kueue's; and it releases ours once no process
of Kueue is left. So never do both decide. Our webhooks are asked before Kueue's are taken away. So
pods are always reviewed by one of them.

A Lease that the move holds does not expire: what was begun stays safe if the command ends, and a
Kueue that somebody starts again does not decide. What is done is recorded in a ConfigMap, with
what the way back needs; the command may be repeated, and goes on from there.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from admission.admin import backups, installation, kueue_found, manifests, storage
from admission.admin.held_leases import HeldLease
from admission.admin.installation import InstallPlan, WebhookPlace
from admission.admin.kueue_found import Kueue
from admission.admin.rendering import Document
from admission.base import clock as clocks
from admission.base import names, patches, structs
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.config.derived import Settings
from admission.kube import apply, errors, resources
from admission.kube.api import Api, every_served
from admission.kube.apply import Applied
from admission.kube.resources import Resource
from admission.objects import kinds, views
from admission.owners import pod as pod_owner

HOLDER: Final = "gpu-admission-migrate"
"""Who holds the Leases during a move."""
RECORD: Final = "gpu-admission-from-kueue"
"""The ConfigMap with what is done, and with what the way back needs."""

_READY_SECONDS: Final = 300.0
_SETTLE_SECONDS: Final = 2.0
"""How long each API server may take to notice that a webhook configuration has changed; they watch
these objects."""
_POLL_SECONDS: Final = 0.2
_SWEEPS: Final = 60
_KEY: Final = "move.json"
_WRITTEN_BY_SERVER: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")
_PROBE: Final = "gpu-admission-probe"
_POD: Final = structs.converter(views.Pod)

Line = str
Wait = Callable[[float], None]


class MoveError(AdmissionError):
    """A move cannot begin, or go on, in this state of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep:
    """One step, for people.

    Attributes:
        name: in the record.
        does: what it does.
        undone: what the way back does about it.
    """

    name: str
    does: str
    undone: str


STEPS: Final = (
    MoveStep(
        name="save",
        does="write all queues and Workloads to a file, and what is Kueue's own to the ConfigMap "
        f"{RECORD}",
        undone="the file stays",
    ),
    MoveStep(
        name="hold",
        does="hold the Lease of our controller, so that it does not decide yet",
        undone="hold it again, and wait until our controller has noticed",
    ),
    MoveStep(
        name="install",
        does="install roles, webhook and controller; wait until the webhook is ready",
        undone="delete them",
    ),
    MoveStep(
        name="review",
        does="have the API server ask our webhooks, beside Kueue's; wait until it does",
        undone="delete our webhook configurations, once Kueue's answer",
    ),
    MoveStep(
        name="lease",
        does="take Kueue's Lease: from here on nothing new is admitted for some seconds",
        undone="release it: Kueue decides again",
    ),
    MoveStep(
        name="rewrite",
        does="write objects anew that are stored in an older version",
        undone="nothing: Kueue reads them, too",
    ),
    MoveStep(
        name="withdraw",
        does="delete Kueue's webhook configurations and APIServices",
        undone="create them as they were",
    ),
    MoveStep(
        name="stop",
        does="scale Kueue's controller to 0, and wait until its pods are gone",
        undone="scale it to as many replicas as it had, and wait until they are ready",
    ),
    MoveStep(
        name="define",
        does="put our CustomResourceDefinitions in place of Kueue's: all objects stay",
        undone="let them be converted by Kueue's webhook again",
    ),
    MoveStep(
        name="lead",
        does="release the Lease of our controller: it counts what is admitted, then it decides",
        undone="see the second step",
    ),
    MoveStep(
        name="protect",
        does="install the policies in the API server, also those of --while-webhook-down hold",
        undone="delete them",
    ),
    MoveStep(
        name="free",
        does=f"take Kueue's finalizer {names.KUEUE_POD_FINALIZER} off pods",
        undone="nothing: Kueue sets it where it needs it",
    ),
)
"""In their order."""

BACK: Final = ("hold", "unprotect", "redefine", "start", "return", "yield", "remove")
"""The steps of the way back, in their order."""


@dataclass(slots=True)
class MoveRecord:
    """What is done, and what the way back needs.

    Attributes:
        done: names of the steps that are done.
        undoing: whether the way back was begun.
        undone: names of the steps of the way back that are done.
        kueue: what was Kueue's own.
        conversions: of each CustomResourceDefinition, by its name: conversion and annotations.
        backup: the file.
        began: when nothing was admitted any more.
        finished: when the way back was given up; empty while there is one.
    """

    done: list[str] = field(default_factory=list)
    undoing: bool = False
    undone: list[str] = field(default_factory=list)
    kueue: dict[str, Any] = field(default_factory=dict)
    conversions: dict[str, Any] = field(default_factory=dict)
    backup: str = ""
    began: str = ""
    finished: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a move works with.

    Attributes:
        api: the cluster.
        plan: what to install.
        settings: the configuration.
        clock: for times that are written, and for bounds.
        wait: sleeps for seconds.
    """

    api: Api
    plan: InstallPlan
    settings: Settings
    clock: Clock
    wait: Wait


def read(api: Api, namespace: str) -> MoveRecord | None:
    """Return the record of a move; None where none was begun.

    Raises:
        KubeError: the API server refused.
    """
    try:
        config_map = api.get(resources.CONFIG_MAPS, RECORD, namespace)
    except errors.NotFoundError:
        return None
    return MoveRecord(**json.loads(config_map["data"][_KEY]))


class Move:
    """The way from Kueue to here, and back."""

    def __init__(self, tools: Tools, kueue: Kueue, record: MoveRecord) -> None:
        self._tools = tools
        self._api = tools.api
        self._kueue = kueue
        self._record = record
        self._ours = HeldLease(
            name=names.LEASE_NAME, namespace=tools.settings.namespace, holder=HOLDER
        )
        self._kueues = HeldLease(name=kueue.lease, namespace=kueue.lease_namespace, holder=HOLDER)

    # ------------------------------------------------------------------------------ forward

    def forward(self, backup: Path) -> Iterator[Line]:
        """Do what is left to be done, and yield what was done.

        Args:
            backup: file for queues and Workloads.

        Raises:
            MoveError: something did not come in time; the same command goes on from there.
            BackupError: the file exists.
            KubeError: the API server refused.
        """
        if self._record.undoing:
            raise MoveError("the way back was begun: finish it first, with --undo")
        steps: Mapping[str, Callable[[], Iterator[Line]]] = {
            "save": lambda: self._save(backup),
            "hold": self._hold_ours,
            "install": self._install,
            "review": self._review,
            "lease": self._take_lease,
            "rewrite": self._rewrite,
            "withdraw": self._withdraw,
            "stop": self._stop,
            "define": self._define,
            "lead": self._lead,
            "protect": self._protect,
            "free": self._free,
        }
        for step in STEPS:
            yield from self._once(step.name, steps[step.name], self._record.done)

    def _once(
        self, name: str, do: Callable[[], Iterator[Line]], done: list[str]
    ) -> Iterator[Line]:
        if name in done:
            yield f"{name}: done before"
            return
        for line in do():
            yield f"{name}: {line}"
        done.append(name)
        self._write()

    def _save(self, backup: Path) -> Iterator[Line]:
        kueue = self._kueue
        # A second run may find half of it gone: what was saved first holds.
        if not self._record.kueue:
            self._record.kueue = asdict(kueue) | {
                "webhooks": [_plain(webhook) for webhook in kueue.webhooks],
                "api_services": [_plain(api_service) for api_service in kueue.api_services],
            }
            self._record.conversions = dict(_conversions(self._api))
        name = self._settings.namespace
        self._until(lambda: not self._is_ending(name), f"the old namespace {name} is gone")
        yield from _told(apply.apply_all(self._api, [manifests.namespace(self._settings)]))
        if not self._record.backup:
            count = backups.save(self._api, backup, self._tools.clock)
            self._record.backup = str(backup.absolute())
            yield f"{count} objects written to {backup}"

    def _hold_ours(self) -> Iterator[Line]:
        self._ours.take(self._api, self._tools.clock)
        yield f"holding Lease {self._settings.namespace}/{names.LEASE_NAME}"

    def _install(self) -> Iterator[Line]:
        tools = self._tools
        yield from _told(installation.roles(self._api, self._settings))
        place = self._place()
        yield from _told(installation.processes(self._api, tools.plan, self._settings))
        if place.host:
            url, file = tools.plan.webhook_url, tools.plan.certificates
            yield (
                "if it does not run, start it now: gpu-admission run --leader-election "
                f"--cert-dir {file}; waiting until it answers at {url}"
            )
            self._until(lambda: _answers(url, file), f"the webhook answers at {url}/readyz")
        else:
            yield "waiting until webhook and controller are ready"
            for name in (manifests.WEBHOOK, manifests.CONTROLLER):
                self._until(
                    lambda name=name: self._is_available(name, self._settings.namespace),  # type: ignore[misc]
                    f"Deployment {self._settings.namespace}/{name} is available",
                )

    def _review(self) -> Iterator[Line]:
        # Nobody lets go yet what the API server would hold by itself; see `_protect`.
        refusing = _refusing(self._settings)
        yield from _told(installation.reviews(self._api, refusing, self._place()))
        self._until(self._is_reviewed, "the API server asks our webhooks")
        self._tools.wait(_SETTLE_SECONDS)
        yield "the API server asks our webhooks"

    def _take_lease(self) -> Iterator[Line]:
        self._record.began = self._record.began or clocks.to_wire(self._tools.clock.now())
        self._kueues.take(self._api, self._tools.clock)
        yield f"holding Lease {self._kueue.lease_namespace}/{self._kueue.lease}"

    def _rewrite(self) -> Iterator[Line]:
        older = storage.find(self._api)
        if not older:
            yield "no object is stored in an older version"
        for old in older:
            count = sum(1 for _ in storage.migrate(self._api, old))
            yield f"{old.crd}: {count} objects written"

    def _withdraw(self) -> Iterator[Line]:
        documents = [*self._record.kueue["webhooks"], *self._record.kueue["api_services"]]
        yield from _told(apply.delete_all(self._api, documents))
        self._tools.wait(_SETTLE_SECONDS)

    def _stop(self) -> Iterator[Line]:
        kueue = self._kueue
        self._scale(0)
        self._until(lambda: not self._kueue_pods(), "Kueue's pods are gone")
        yield f"Deployment {kueue.namespace}/{kueue.deployment} has no pods"

    def _define(self) -> Iterator[Line]:
        place = self._place()
        for name, saved in self._record.conversions.items():
            if not saved["annotations"] and saved["conversion"] is None:
                continue  # what we apply says all that has to change
            without = dict.fromkeys(saved["annotations"])
            change: Document = {"metadata": {"annotations": without}, "spec": {"conversion": None}}
            if self._tools.plan.parts.older_versions and saved["conversion"] is not None:
                # In one write: between two, objects of the older version would not be converted.
                client_config = manifests.conversion(place.client_config).client_config
                change["spec"] = {"conversion": _conversion(client_config)}
            self._patched(resources.CRDS, name, change)
        tools = self._tools
        yield from _told(
            installation.definitions(self._api, tools.plan, place, tools.clock, tools.wait)
        )

    def _protect(self) -> Iterator[Line]:
        plan = self._tools.plan
        yield from _told(installation.policies(self._api, plan, self._settings))
        if self._settings.gpu.holds_while_down:
            yield from _told(installation.reviews(self._api, self._settings, self._place()))
        yield from _told(installation.visibility(self._api, plan, self._settings, self._place()))

    def _lead(self) -> Iterator[Line]:
        if self._kueue_pods():
            raise MoveError(
                f"Deployment {self._kueue.namespace}/{self._kueue.deployment} has pods again: "
                "something scales it up; stop that, and repeat the command"
            )
        self._ours.release(self._api)
        yield "the Lease of our controller is free"
        self._until(self._is_led, "our controller has taken its Lease")
        seconds = self._seconds_since(self._record.began)
        yield f"our controller decides; nothing was admitted for {seconds:.0f} s"

    def _free(self) -> Iterator[Line]:
        yield "looking for pods with Kueue's finalizer"
        count = quiet = 0
        for _ in range(_SWEEPS):
            pods = [pod for pod in kueue_found.managed_pods(self._api) if _is_held(pod)]
            for pod in pods:
                self._without_finalizer(pod)
            count += len(pods)
            quiet = 0 if pods else quiet + 1
            if quiet > 1:  # a pod that was being created meanwhile is seen now
                break
            self._tools.wait(_SETTLE_SECONDS)
        yield f"Kueue's finalizer taken off {count} pods"

    def _without_finalizer(self, pod: Document) -> None:
        metadata = pod["metadata"]
        finalizers = metadata["finalizers"]
        change = patches.remove_finalizer(finalizers, names.KUEUE_POD_FINALIZER)
        change["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        try:
            self._api.patch(
                resources.PODS, metadata["name"], patches.merge(change), metadata["namespace"]
            )
        except (errors.NotFoundError, errors.ConflictError):
            return  # the next sweep looks again

    # --------------------------------------------------------------------------------- back

    def back(self) -> Iterator[Line]:
        """Give Kueue its place back, and yield what was done.

        Raises:
            MoveError: something did not come in time; the same command goes on from there.
            KubeError: the API server refused.
        """
        steps: Mapping[str, Callable[[], Iterator[Line]]] = {
            "hold": self._hold_back,
            "unprotect": lambda: _told(installation.no_policies(self._api, self._settings)),
            "redefine": self._redefine,
            "start": self._start,
            "return": self._return,
            "yield": self._yield,
            "remove": self._remove,
        }
        if not self._record.undoing:  # known before anything is done: our Lease is held first
            self._record.undoing = True
            self._write()
        for name in BACK:
            if name == "remove":  # it deletes the record
                yield from (f"{name}: {line}" for line in self._remove())
                return
            yield from self._once(name, steps[name], self._record.undone)

    def _hold_back(self) -> Iterator[Line]:
        held_before = self._ours.held_by(self._api) == HOLDER
        yield from self._hold_ours()
        if "lease" in self._record.done:
            self._kueues.take(self._api, self._tools.clock)
        if not held_before:
            times = self._settings.kueue.leader_election
            self._tools.wait(times.lease_duration.total_seconds())
        yield "our controller does not decide any more"

    def _redefine(self) -> Iterator[Line]:
        for name, saved in self._record.conversions.items():
            former = saved["conversion"]
            conversion = None if former is None else _conversion(former)
            metadata = {"annotations": saved["annotations"]}
            change: Document = {"metadata": metadata, "spec": {"conversion": conversion}}
            self._patched(resources.CRDS, name, change)
        yield "objects are converted by Kueue's webhook"

    def _start(self) -> Iterator[Line]:
        kueue = self._kueue
        # Kueue writes its CA into these when it starts; until it is ready nobody need wait for it.
        yield from self._created(_ignored(webhook) for webhook in self._record.kueue["webhooks"])
        if self._replicas() == 0:
            self._scale(self._record.kueue["replicas"])
        self._until(
            lambda: self._is_available(kueue.deployment, kueue.namespace),
            f"Deployment {kueue.namespace}/{kueue.deployment} is available",
        )
        yield f"Deployment {kueue.namespace}/{kueue.deployment} is available"

    def _return(self) -> Iterator[Line]:
        for webhook in self._record.kueue["webhooks"]:
            resource, name, _ = apply.locate(webhook)
            present = self._api.get(resource, name)
            policies = {each["name"]: each.get("failurePolicy") for each in webhook["webhooks"]}
            changes = [
                {
                    "op": "add",
                    "path": patches.pointer("webhooks", at, "failurePolicy"),
                    "value": to,
                }
                for at, each in enumerate(present["webhooks"])
                if (to := policies.get(each["name"])) and each.get("failurePolicy") != to
            ]
            if changes:
                self._api.patch(resource, name, patches.json_patch(changes))
        yield from self._created(self._record.kueue["api_services"])
        self._tools.wait(_SETTLE_SECONDS)
        yield "the API server asks Kueue's webhooks"
        yield from _told(installation.no_reviews(self._api, self._settings))
        yield from self._let_go()

    def _let_go(self) -> Iterator[Line]:
        """Give gated pods without a queue the default queue, or let them go.

        Our controller would: the webhook was not sure about them, or nobody reviewed them. Kueue
        does not touch pods without a queue, and marks those that it gates itself.
        """
        if self._settings.kueue.manage_jobs_without_queue_name:
            return
        queued = {
            queue["metadata"]["namespace"]
            for queue in every_served(self._api, resources.LOCAL_QUEUES)
            if queue["metadata"]["name"] == names.DEFAULT_LOCAL_QUEUE
        }
        count = 0
        for _ in range(_SWEEPS):
            pods = [pod for pod in kueue_found.managed_pods(self._api) if _is_in_doubt(pod)]
            changes = [self._decided(_POD(pod), queued) for pod in pods]
            count += sum(changes)
            if all(changes):
                break
        if count:
            yield f"{count} gated pods without a queue got the default queue, or were let go"

    def _decided(self, pod: views.Pod, queued: Container[str]) -> bool:
        """Put a pod in the default queue or let it go; False if it changed meanwhile."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        change = (
            pod_owner.put_in_queue(pod, names.DEFAULT_LOCAL_QUEUE)
            if namespace in queued
            else pod_owner.let_go(pod)
        )
        try:
            self._api.patch(resources.PODS, name, change, namespace)
        except (errors.NotFoundError, errors.ConflictError):
            return False
        return True

    def _yield(self) -> Iterator[Line]:
        self._kueues.release(self._api)
        yield "Kueue's Lease is free"

    def _remove(self) -> Iterator[Line]:
        yield from _told(installation.no_processes(self._api, self._settings))
        yield from _told(installation.no_roles(self._api, self._settings))
        installation.unmark(self._api)
        yield from _told(apply.delete_all(self._api, [manifests.namespace(self._settings)]))
        self._forget()  # the namespace may take long to go

    def _created(self, documents: Iterable[Document]) -> Iterator[Line]:
        """Create what is not there."""
        for document in documents:
            resource, name, _ = apply.locate(document)
            try:
                self._api.create(resource, document)
            except errors.AlreadyExistsError:
                continue
            yield f"{resource.kind}/{name} created"

    # -------------------------------------------------------------------------------- parts

    @property
    def _settings(self) -> Settings:
        return self._tools.settings

    def _place(self) -> WebhookPlace:
        """Where our webhook is; its certificate is made if there is none."""
        tools = self._tools
        changes = installation.placed(self._api, tools.plan, self._settings, tools.clock)
        try:
            while True:
                next(changes)
        except StopIteration as end:
            place: WebhookPlace = end.value
            return place

    def _write(self) -> None:
        """Write the record; what is done is known from then on."""
        _write(self._api, self._settings.namespace, self._record)

    def _forget(self) -> None:
        """Delete the record."""
        try:
            self._api.delete(resources.CONFIG_MAPS, RECORD, self._settings.namespace)
        except errors.NotFoundError:
            return

    def _is_led(self) -> bool:
        return self._ours.held_by(self._api) not in {"", HOLDER}

    def _scale(self, replicas: int) -> None:
        kueue = self._kueue
        change = patches.merge({"spec": {"replicas": replicas}})
        self._api.patch(resources.DEPLOYMENTS, kueue.deployment, change, kueue.namespace)

    def _replicas(self) -> int:
        kueue = self._kueue
        deployment = self._api.get(resources.DEPLOYMENTS, kueue.deployment, kueue.namespace)
        return int(deployment["spec"].get("replicas", 1))

    def _kueue_pods(self) -> Sequence[Document]:
        kueue = self._kueue
        return self._api.list(resources.PODS, kueue.namespace, label_selector=kueue.selector).items

    def _is_available(self, name: str, namespace: str) -> bool:
        deployment = self._api.get(resources.DEPLOYMENTS, name, namespace)
        status, expected = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
        is_seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        return bool(is_seen and status.get("availableReplicas", 0) >= expected)

    def _is_ending(self, namespace: str) -> bool:
        try:
            document = self._api.get(resources.NAMESPACES, namespace)
        except errors.NotFoundError:
            return False
        return "deletionTimestamp" in document["metadata"]

    def _is_reviewed(self) -> bool:
        """Whether the API server has our webhooks judge what it would create.

        Only ours know this annotation; Kueue's accept it.
        """
        resource = resources.CLUSTER_QUEUES
        probe = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": _PROBE, "annotations": {names.CAPACITY_GUARD: _PROBE}},
            "spec": {},
        }
        try:
            self._api.dry_run().create(resource, probe)
        except errors.ForbiddenError as refused:
            return names.CAPACITY_GUARD in refused.message
        except errors.ServerError:
            return False
        return False

    def _patched(self, resource: Resource, name: str, change: Document) -> None:
        try:
            self._api.patch(resource, name, patches.merge(change))
        except errors.NotFoundError:
            return

    def _until(self, look: Callable[[], bool], goal: str) -> None:
        deadline = self._tools.clock.monotonic() + _READY_SECONDS
        while not look():
            if self._tools.clock.monotonic() > deadline:
                raise MoveError(
                    f"not after {_READY_SECONDS:.0f} s: {goal}; fix it, and repeat the command: "
                    "what is done is not done again. The way back is --undo"
                )
            self._tools.wait(_POLL_SECONDS)

    def _seconds_since(self, wire: str) -> float:
        if not wire:
            return 0.0
        passed: timedelta = self._tools.clock.now() - clocks.from_wire(wire)
        return passed.total_seconds()


def finish(api: Api, namespace: str, record: MoveRecord, clock: Clock) -> None:
    """Forget what the way back needs; Kueue's Lease stays held.

    What is left of the record says that there was a move, so that nobody begins another one.

    Raises:
        MoveError: the move is not at its end.
        KubeError: the API server refused.
    """
    left = [step.name for step in STEPS if step.name not in record.done]
    if left or record.undoing:
        raise MoveError(
            f"the move is not at its end ({', '.join(left) or 'the way back was begun'}): "
            "repeat --apply, or go back with --undo"
        )
    kueue = {**record.kueue, "webhooks": [], "api_services": []}
    finished = clocks.to_wire(clock.now())
    _write(api, namespace, replace(record, kueue=kueue, conversions={}, finished=finished))


def _write(api: Api, namespace: str, record: MoveRecord) -> None:
    document = {
        "apiVersion": resources.CONFIG_MAPS.api_version,
        "kind": resources.CONFIG_MAPS.kind,
        "metadata": {"name": RECORD, "namespace": namespace},
        "data": {_KEY: json.dumps(asdict(record))},
    }
    apply.apply(api, document)


def from_record(record: MoveRecord) -> Kueue:
    """Return what a record says of Kueue."""
    saved = dict(record.kueue)
    for key in ("webhooks", "api_services"):
        saved[key] = tuple(saved[key])
    return Kueue(**saved)


def _told(changes: Iterable[Applied]) -> Iterator[Line]:
    for change in changes:
        where = f" -n {change.namespace}" if change.namespace else ""
        yield f"{change.kind}/{change.name}{where} {change.effect.value}"


def _conversions(api: Api) -> Iterator[tuple[str, Any]]:
    """Yield each CustomResourceDefinition's conversion, and annotations about its certificate."""
    for kind in kinds.KINDS:
        name = f"{kind.plural}.{names.KUEUE_GROUP}"
        try:
            crd = api.get(resources.CRDS, name)
        except errors.NotFoundError:
            continue
        annotations = crd["metadata"].get("annotations") or {}
        conversion = crd["spec"].get("conversion") or {}
        is_asked = conversion.get("strategy") == "Webhook"
        yield (
            name,
            {
                "conversion": conversion["webhook"]["clientConfig"] if is_asked else None,
                "annotations": {
                    key: value
                    for key, value in annotations.items()
                    if key.startswith(names.INJECTED_CA)
                },
            },
        )


def _conversion(client_config: Mapping[str, Any]) -> Document:
    """Return the merge patch of a conversion that leaves nothing of the one before."""
    config: Document = {"url": None, "service": None, "caBundle": None, **client_config}
    if config["service"] is not None:
        config["service"] = {"port": None, **config["service"]}
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
    }


def _plain(document: Document) -> Document:
    """Return an object without what only the API server writes."""
    metadata = {
        key: value
        for key, value in document["metadata"].items()
        if key not in _WRITTEN_BY_SERVER and key != "managedFields"
    }
    return {key: value for key, value in document.items() if key != "status"} | {
        "metadata": metadata
    }


def _is_in_doubt(pod: Document) -> bool:
    """Whether a pod waits behind the gate without a queue, and not because Kueue says so."""
    metadata = pod["metadata"]
    gates = {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()}
    return (
        names.ADMISSION_GATE in gates
        and names.QUEUE_LABEL not in (metadata.get("labels") or {})
        and names.POD_SUSPENDING_PARENT not in (metadata.get("annotations") or {})
        and not _is_held(pod)
    )


def _refusing(settings: Settings) -> Settings:
    """Return settings with which nothing is created that the webhook does not review."""
    gpu = settings.gpu.model_copy(update={"while_webhook_down": None})
    return settings.model_copy(update={"gpu": gpu})


def _ignored(webhook: Document) -> Document:
    webhooks = [{**each, "failurePolicy": "Ignore"} for each in webhook["webhooks"]]
    return {**webhook, "webhooks": webhooks}


def _is_held(pod: Document) -> bool:
    return names.KUEUE_POD_FINALIZER in (pod["metadata"].get("finalizers") or ())


def _answers(url: str, certificates: Path) -> bool:
    """Whether a webhook outside the cluster is ready."""
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    connection = http.client.HTTPSConnection(
        str(parts.hostname), parts.port, timeout=5, context=context
    )
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
