"""The leader renews the webhook's certificates, and has the API server trust them.

One round after the other: read what is held, renew what is due, write it, then write the caBundle
of each object that leads the API server to us. An authority signs only after all those objects
have held it for a while, so no review is lost. What is due and when: `certs.rotation`. See
docs/adr/0080-ports-and-certificates.md.
"""

import base64
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from admission.base import clock as clocks
from admission.base import events, logs, metrics, patches
from admission.base.clock import Clock
from admission.base.errors import AdmissionError
from admission.base.periodic_thread import PeriodicThread
from admission.config.derived import Settings
from admission.installed import cabundles, serving_certificate
from admission.installed.cabundles import MUTATING_NAME, Trusting
from admission.kube import connectivity, errors, resources
from admission.kube.api import Api, Document
from admission.kube.events import EventRecorder
from certs import files, rotation
from certs.rotation import Holding

SERVING: Final = "serving"
AUTHORITY: Final = "authority"

_LONGEST_ROUND_SECONDS: Final = 60.0
_SHORTEST_ROUND_SECONDS: Final = 0.5
_ROUNDS_IN_A_LIFE: Final = 60
_MOST_DOUBLINGS: Final = 7
"""Of the pause after rounds that failed; then it is as long as the longest."""
_LONGEST_LOOK_SECONDS: Final = 30.0
_LONGEST_SETTLING_SECONDS: Final = 300.0
"""After so long every API server has the caBundle that one of them has."""
_SETTLINGS_IN_A_LIFE: Final = 40
_REMINDED_EVERY: Final = timedelta(days=1)
_REMINDERS: Final = 10

_INSTALL: Final = "run `gpu-admission install` again"


class RenewalError(AdmissionError):
    """The certificate cannot be renewed from here; the text says why, and what to do."""


# ------------------------------------------------------------------------- where they are kept


class CertificateStore(Protocol):
    """Where certificates and keys are kept."""

    @property
    def place(self) -> str:
        """The name of this place in messages."""
        ...

    def read(self) -> Mapping[str, bytes]:
        """Return the content, by the names of `certs.rotation.NAMES`."""
        ...

    def write(self, content: Mapping[str, bytes]) -> None:
        """Replace the content that was read last.

        Raises:
            OSError: it is not writable.
            KubeError: the API server refused, or somebody else has changed it.
        """
        ...


class SecretStore:
    """The Secret that the webhook's pods mount."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._version = ""

    @property
    def place(self) -> str:
        """The name of this place in messages."""
        return f"Secret {self._namespace}/{serving_certificate.SECRET}"

    def read(self) -> Mapping[str, bytes]:
        """Return the content; nothing where there is no Secret."""
        try:
            secret = self._api.get(resources.SECRETS, serving_certificate.SECRET, self._namespace)
        except errors.NotFoundError:
            raise RenewalError(f"{self.place} is gone; {_INSTALL}") from None
        self._version = secret["metadata"]["resourceVersion"]
        return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}

    def write(self, content: Mapping[str, bytes]) -> None:
        """Replace exactly the version that was read."""
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        change = {"metadata": {"resourceVersion": self._version}, "data": data}
        self._api.patch(
            resources.SECRETS, serving_certificate.SECRET, patches.merge(change), self._namespace
        )


class DirectoryStore:
    """A directory that the webhook reads, too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._content: Mapping[str, bytes] = {}

    @property
    def place(self) -> str:
        """The name of this place in messages."""
        return f"directory {self._directory}"

    def read(self) -> Mapping[str, bytes]:
        """Return the content; files that cannot be read are left out."""
        self._content = files.read(self._directory)
        return self._content

    def write(self, content: Mapping[str, bytes]) -> None:
        """Replace the files that were read last, one after the other.

        Raises:
            RenewalError: somebody else has written them since; the next round looks again.
        """
        with files.locked(self._directory):
            if files.read(self._directory) != self._content:
                raise RenewalError(f"{self.place}: somebody else has changed it; will look again")
            files.write(self._directory, content)


# ------------------------------------------------------------------------------------- rotation


class Rotation:
    """Renews the certificates while this process leads."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        clock: Clock,
        events: EventRecorder,
        may_write: Callable[[], bool],
        directory: Path | None,
    ) -> None:
        """Does nothing before `start`.

        Args:
            api: the cluster.
            settings: lifetimes, our namespace, and whether anything is renewed here.
            clock: present time.
            events: recorder of the events about an expiring certificate.
            may_write: whether this process leads.
            directory: of the certificates of a webhook outside the cluster, or as mounted into
                the pod; None where there is none.
        """
        self._api = api
        self._settings = settings
        self._lifetimes = serving_certificate.lifetimes(settings.gpu.certificates)
        self._clock = clock
        self._events = events
        self._may_write = may_write
        self._directory = directory
        self._trusted_since: dict[str, float] = {}
        self._problem = ""
        self._failures = 0
        self._content: Mapping[str, bytes] = {}
        self._end: datetime | None = None
        self._reminded: datetime | None = None
        self._log = logs.get("certificates")
        self._rounds = PeriodicThread("certificates", self._round, self._failed)

    def start(self) -> None:
        """Start to renew, in a thread of its own."""
        self._rounds.start()

    def stop(self) -> None:
        """Start no further round."""
        self._rounds.stop()

    def unready(self) -> str:
        """Return why the API server refuses the webhook's certificate, and what to do.

        It is empty if not.
        """
        if self._end is None or self._clock.now() < self._end:
            return ""
        return (
            f"the webhook's certificate has expired at {clocks.to_wire(self._end)}, so no GPU pod "
            f"can be created: {self._problem or 'a new one is being made'}"
        )

    def pause_seconds(self) -> float:
        """Return the seconds between two rounds."""
        life = min(self._lifetimes.serving, self._lifetimes.authority).total_seconds()
        return min(max(life / _ROUNDS_IN_A_LIFE, _SHORTEST_ROUND_SECONDS), _LONGEST_ROUND_SECONDS)

    def step(self) -> None:
        """Do one round.

        Raises:
            RenewalError: the certificate cannot be renewed from here.
            KubeError: the API server refused, or cannot be asked.
            OSError: the directory is not writable.
        """
        if not self._may_write():
            return
        configuration = self._configuration()
        if configuration is None:
            return  # nothing is installed
        store = self._store(configuration)
        content = store.read()
        self._show(content)
        self._check_ours(store, content)
        holding = rotation.read(content)
        trusting = list(cabundles.trusting(self._api))
        renewed = rotation.renew(
            holding, self._hosts(configuration, holding), self._clock.now(), self._lifetimes,
            self._trusted(holding, trusting),
        )  # fmt: skip
        if renewed != holding:
            content = rotation.write(renewed)
            store.write(content)
            self._tell_renewed(holding, renewed, store)
            self._show(content)
        self._have_trusted(trusting, renewed.bundle())

    # ------------------------------------------------------------------------------ what there is

    def _configuration(self) -> Document | None:
        try:
            return self._api.get(resources.MUTATING_WEBHOOKS, MUTATING_NAME)
        except errors.NotFoundError:
            return None

    def _store(self, configuration: Document) -> CertificateStore:
        """The Secret where the webhook runs in the cluster, else the directory."""
        if self._is_inside(configuration) and self._settings.kueue.internal_cert_management.enable:
            return SecretStore(self._api, self._settings.namespace)
        if self._directory is None:
            raise RenewalError(
                "the controller was given no directory of the webhook's certificates; "
                "pass --cert-dir, or set webhook.certDir in the configuration file"
            )
        return DirectoryStore(self._directory)

    def _check_ours(self, store: CertificateStore, content: Mapping[str, bytes]) -> None:
        if not self._settings.kueue.internal_cert_management.enable:
            raise RenewalError(
                "internalCertManagement.enable is false, so another program has to renew it; find "
                "out why it did not, with cert-manager: kubectl describe certificate -n "
                f"{self._settings.namespace}"
            )
        if rotation.is_foreign(content):
            raise RenewalError(
                f"{store.place} holds no {rotation.AUTHORITY_KEYS}, so whoever issued it has to "
                f"renew it; to let the controller renew it, delete it and {_INSTALL}"
            )

    @staticmethod
    def _is_inside(configuration: Document) -> bool:
        webhooks = configuration.get("webhooks") or ()
        return any("service" in webhook["clientConfig"] for webhook in webhooks)

    def _hosts(self, configuration: Document, holding: Holding) -> list[str]:
        if self._is_inside(configuration):
            return serving_certificate.service_hosts(self._settings)
        webhooks = configuration.get("webhooks") or ()
        urls = (webhook["clientConfig"].get("url", "") for webhook in webhooks)
        named = dict.fromkeys(host for host in (urlsplit(url).hostname for url in urls) if host)
        hosts = rotation.hosts_of(holding)
        return [*named, serving_certificate.visibility_host(self._settings.namespace), *hosts]

    # ------------------------------------------------------------------------------------ trust

    def _trusted(self, holding: Holding, trusting: list[Trusting]) -> set[str]:
        """Authorities that every object has held for a while, as seen by this process."""
        bundles = [
            rotation.fingerprints(bundle)
            for target in trusting
            for bundle in target.bundles.values()
        ]
        now = self._clock.monotonic()
        everywhere = {
            authority.fingerprint
            for authority in holding.authorities
            if all(authority.fingerprint in bundle for bundle in bundles)
        }
        since = self._trusted_since
        self._trusted_since = {
            fingerprint: since.get(fingerprint, now) for fingerprint in sorted(everywhere)
        }
        seconds_trusted = min(
            self._lifetimes.authority.total_seconds() / _SETTLINGS_IN_A_LIFE,
            _LONGEST_SETTLING_SECONDS,
        )
        return {
            fingerprint
            for fingerprint, start in self._trusted_since.items()
            if now - start >= seconds_trusted
        }

    def _have_trusted(self, trusting: list[Trusting], bundle: bytes) -> None:
        """Writes the bundle where it is another; one refusal does not keep it from the others."""
        refusals = []
        for target in trusting:
            try:
                self._trust(target, bundle)
            except errors.KubeError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]

    def _trust(self, target: Trusting, bundle: bytes) -> None:
        """Writes the bundle into exactly the version that was read, where it is another."""
        stale = [
            pointer
            for pointer, trusted_bundle in target.bundles.items()
            if trusted_bundle != bundle
        ]
        if not stale or not self._may_write():
            return
        text = base64.b64encode(bundle).decode()
        version = patches.test(patches.pointer("metadata", "resourceVersion"), target.version)
        changes = [{"op": "add", "path": pointer, "value": text} for pointer in stale]
        self._api.patch(target.resource, target.name, patches.json_patch([version, *changes]))
        self._log.info("caBundle written", kind=target.resource.kind, name=target.name)

    # ---------------------------------------------------------------------------------- telling

    def _show(self, content: Mapping[str, bytes]) -> None:
        """Keeps and exports when what is served ends."""
        self._content = content
        ends = rotation.ends(content)
        self._end = ends.accepted
        for name, end in ((SERVING, ends.serving), (AUTHORITY, ends.authority)):
            if end is not None:
                metrics.CERTIFICATE_EXPIRY_TIMESTAMP_SECONDS.labels(name).set(end.timestamp())

    def _tell_renewed(self, before: Holding, after: Holding, store: CertificateStore) -> None:
        new_authorities = len({authority.fingerprint for authority in after.authorities}
                   - {authority.fingerprint for authority in before.authorities})  # fmt: skip
        self._log.info(
            "certificates renewed",
            place=store.place,
            serving=after.serving is not before.serving,
            new_authorities=new_authorities,
            expires=clocks.to_wire(after.end() or self._clock.now()),
        )

    def _round(self) -> float:
        try:
            self.step()
        except errors.KubeError as error:
            if self._is_expiring() or not connectivity.is_outage(error):
                self._tell_problem(str(error))
        except (RenewalError, OSError) as error:
            self._tell_problem(str(error))
        else:
            self._problem, self._reminded, self._failures = "", None, 0
            return self.pause_seconds()
        return self._retry_seconds()

    def _failed(self, error: Exception) -> float:
        self._log.error("certificates not renewed", exc_info=error)
        self._tell_problem(str(error))
        return self._retry_seconds()

    def _retry_seconds(self) -> float:
        """Return when to try again: soon, as others may have written an object meanwhile.

        After an installation the API server writes the status of each CustomResourceDefinition.
        """
        pause: float = _SHORTEST_ROUND_SECONDS * 2**self._failures
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        return min(pause, self.pause_seconds())

    def _is_expiring(self) -> bool:
        """Return whether the end of the certificate is near."""
        end, now = self._end, self._clock.now()
        return end is not None and rotation.is_expiring(
            self._content[rotation.CERTIFICATE], end, now
        )

    def _tell_problem(self, problem: str) -> None:
        """Says a new problem once; near the end says so again and again, also as an event."""
        end, now = self._end, self._clock.now()
        is_new, self._problem = problem != self._problem, problem
        if end is None or not self._is_expiring():
            if is_new and self._settings.kueue.internal_cert_management.enable:
                self._log.warning("certificates not renewed", problem=problem)
            return
        pause = min(_REMINDED_EVERY, self._lifetimes.serving / _REMINDERS)
        if self._reminded is not None and now < self._reminded + pause:
            return
        self._reminded = now
        event = events.certificate_expiring(clocks.to_wire(end), problem, is_over=now >= end)
        self._log.error("certificate expiring", note=event.note, expires=clocks.to_wire(end))
        self._events.event(self._regarding(), event)

    @staticmethod
    def _regarding() -> dict[str, str]:
        resource = resources.MUTATING_WEBHOOKS
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": MUTATING_NAME,
        }


# -------------------------------------------------------------------------------- what is served


class ServedCertificate:
    """Whether the API server accepts the certificate that this webhook serves."""

    def __init__(self, api: Api, directory: Path, clock: Clock) -> None:
        """Knows nothing before `start`.

        Args:
            api: the API server with the webhook configurations of this webhook.
            directory: of the certificate that is served.
            clock: present time.
        """
        self._api = api
        self._directory = directory
        self._clock = clock
        self._chain = b""
        self._ends = rotation.Ends(None, None)
        self._bundles: dict[str, bytes] = {}
        self._unusable = ""
        self._told = ""
        self._log = logs.get("certificates")
        self._rounds = PeriodicThread("served-certificate", self._round, self._failed)

    def start(self) -> None:
        """Look at once and then again and again, in a thread of its own."""
        self._rounds.start()

    def expiries(self) -> dict[str, float]:
        """Return when certificates expire, in seconds since 1970, by what they are."""
        ends = {SERVING: self._ends.serving, AUTHORITY: self._ends.authority}
        return {name: end.timestamp() for name, end in ends.items() if end is not None}

    def unready(self) -> str:
        """Return why the API server refuses what is served, and what to do.

        It is empty if it does not.
        """
        now, end = self._clock.now(), self._ends.serving
        if end is None:
            return ""
        if now >= end:
            return (
                f"the serving certificate has expired at {clocks.to_wire(end)}, so no GPU pod can "
                f"be created; {self._unusable or 'see why the controller does not renew it'}, or "
                f"{_INSTALL}"
            )
        for name, bundle in self._bundles.items():
            accepted = rotation.accepted_until(self._chain, bundle)
            if accepted is None or now >= accepted:
                advice = self._unusable or "see why the controller does not write it"
                return (
                    f"the caBundle of {name} does not match the serving certificate, so no GPU "
                    f"pod can be created; {advice}, or {_INSTALL}"
                )
        return ""

    def step(self) -> None:
        """Read the served certificate, and the CAs that the API server trusts.

        Raises:
            KubeError: the API server cannot be asked; what was known stays.
        """
        content = files.read(self._directory)
        chain = content.get(rotation.CERTIFICATE, b"")
        ends = rotation.ends(content)
        self._unusable = self._problem_of_files()
        if ends.serving is not None and not self._unusable:
            self._chain, self._ends = chain, ends
        bundles: dict[str, bytes] = {}
        for resource, name in _CONFIGURATIONS:
            try:
                configuration = self._api.get(resource, name)
            except errors.NotFoundError:
                continue
            for _, bundle in cabundles.bundles_of(resource, configuration):
                # Without a bundle the API server trusts authorities that nobody here knows.
                if bundle or rotation.is_private(content):
                    bundles.setdefault(f"{resource.kind} {name}", bundle)
        self._bundles = bundles

    def _problem_of_files(self) -> str:
        """Return why what the directory holds is not served; empty if it is.

        What was loaded before is served on then, so this alone does not make the webhook unready.
        """
        certificate_files = files.CertificateFiles.of(self._directory)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                certificate_files.certificate, certificate_files.key
            )
        except OSError as error:  # also what the ssl module raises
            return f"{self._directory} holds no valid certificate and key ({error}): replace them"
        return ""

    def _round(self) -> float:
        try:
            self.step()
        except errors.KubeError as error:  # tried again in the next round
            connectivity.warn(self._log, "webhook configurations not read", error)
        except ValueError as error:
            problem = f"the webhook configurations cannot be read: {error}"
            self._tell(self.unready() or self._expiring() or problem)
            return self._pause_seconds()
        self._tell(self.unready() or self._expiring())
        return self._pause_seconds()

    def _failed(self, error: Exception) -> float:
        self._log.error("serving certificate not checked", exc_info=error)
        return _LONGEST_LOOK_SECONDS

    def _pause_seconds(self) -> float:
        if self._ends.serving is None:
            return _LONGEST_LOOK_SECONDS
        pause = rotation.life(self._chain).total_seconds() / _ROUNDS_IN_A_LIFE
        return min(max(pause, _SHORTEST_ROUND_SECONDS), _LONGEST_LOOK_SECONDS)

    def _expiring(self) -> str:
        end = self._ends.accepted
        if end is None or not rotation.is_expiring(self._chain, end, self._clock.now()):
            return ""
        return (
            f"the serving certificate expires at {clocks.to_wire(end)} and was not replaced; see "
            "why the controller does not renew it, or why the new one does not reach "
            f"{self._directory}"
        )

    def _tell(self, problem: str) -> None:
        """Logs a problem that is new."""
        if problem and problem != self._told:
            self._log.error("serving certificate", problem=problem)
        self._told = problem


_CONFIGURATIONS: Final = tuple(
    (resource, name)
    for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
    for name in cabundles.NAMES[resource]
)
