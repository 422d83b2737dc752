"""The leader renews what is due, tells of what it cannot renew, and changes nothing of others."""

import base64
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from typing_extensions import override

from admission.admin import manifests
from admission.config.derived import Settings
from admission.installed import cabundles, serving_certificate
from admission.installed.cabundles import MUTATING_NAME
from admission.kube import errors, resources
from admission.kube.events import EventRecorder
from admission.run import certificates
from admission.run.certificates import RenewalError, Rotation, ServedCertificate
from admission.sandbox.store import Store
from certs import authority, files, rotation
from tests.clocks import FakeClock

SETTINGS = Settings()
HOSTS = ["127.0.0.1", "gpu-admission-visibility.gpu-admission-system.svc"]
OUTSIDE = {"url": "https://127.0.0.1:9443"}
DAY = 86400.0


class World:
    """An API server with an installation, and a rotation of its certificates."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, *, inside: bool) -> None:
        settings = SETTINGS
        self.monkeypatch = monkeypatch
        self.api, self.clock, self.directory = Store(), FakeClock(), directory
        self.settings = settings
        self.leads = True
        content = rotation.write(self.renewed(rotation.Holding(), inside=inside))
        directory.mkdir(exist_ok=True)
        files.write(directory, content)
        place = manifests.service_reference(settings) if inside else OUTSIDE
        bundle = base64.b64encode(content["ca.crt"]).decode()
        for one in manifests.webhook_configurations({**place, "caBundle": bundle}, settings):
            found = resources.of_kind(one["apiVersion"], one["kind"])
            assert found is not None
            self.api.create(found, one)
        if inside:
            self.put_secret(content)
        self.events = EventRecorder(self.api, "gpu-admission", self.clock)
        self.rotation = Rotation(
            self.api, settings, self.clock, self.events, lambda: self.leads, directory
        )

    def renewed(self, held: rotation.Holding, *, inside: bool) -> rotation.Holding:
        hosts = serving_certificate.service_hosts(self.settings) if inside else HOSTS
        return rotation.renew(held, hosts, self.clock.now(), rotation.Lifetimes())

    def put_secret(self, content: Mapping[str, bytes]) -> None:
        self.api.create(resources.NAMESPACES, manifests.namespace(SETTINGS))
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        metadata = {"name": serving_certificate.SECRET, "namespace": SETTINGS.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        self.api.create(resources.SECRETS, secret, SETTINGS.namespace)

    def secret(self) -> dict[str, bytes]:
        found = self.api.get(resources.SECRETS, serving_certificate.SECRET, SETTINGS.namespace)
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    def bundles(self) -> set[bytes]:
        return {bundle for one in cabundles.trusting(self.api) for bundle in one.bundles.values()}

    def pass_days(self, days: float) -> None:
        """Lets time pass in which rounds are run as they are due, but for speed fewer."""
        for _ in range(round(days)):
            self.clock.advance(DAY)
            self.rotation._round()

    def told(self) -> list[dict[str, Any]]:
        """Events."""
        self.events.drain()
        return list(self.api.list(resources.EVENTS).items)


@pytest.fixture(params=["inside", "outside"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    return World(tmp_path / "certs", monkeypatch, inside=request.param == "inside")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path / "certs", monkeypatch, inside=False)


def test_a_directory_that_somebody_else_has_changed_is_not_overwritten(outside: World) -> None:
    """`install`, or a webhook that starts, may renew between the reading and the writing."""
    store = certificates.DirectoryStore(outside.directory)
    mine = {**store.read(), "tls.crt": b"mine"}
    theirs = {**files.read(outside.directory), "tls.crt": b"theirs"}
    files.write(outside.directory, theirs)
    with pytest.raises(RenewalError, match="somebody else has changed it"):
        store.write(mine)
    assert files.read(outside.directory) == theirs
    store.read()
    store.write(mine)
    assert files.read(outside.directory) == mine


def test_a_configuration_without_webhooks_does_not_end_the_renewal(outside: World) -> None:
    configuration = outside.api.get(resources.MUTATING_WEBHOOKS, MUTATING_NAME)
    del configuration["webhooks"]
    outside.api.replace(resources.MUTATING_WEBHOOKS, configuration)
    before = files.read(outside.directory)
    for days in (300, 1):  # an authority signs only after it was seen for a while
        outside.clock.advance(days * DAY)
        outside.rotation.step()
    assert files.read(outside.directory)["tls.crt"] != before["tls.crt"]


def test_the_leader_renews_where_the_certificates_are_kept(world: World) -> None:
    is_inside = world.rotation._is_inside(world.rotation._configuration() or {})
    before = world.secret() if is_inside else files.read(world.directory)
    world.pass_days(800)
    after = world.secret() if is_inside else files.read(world.directory)
    assert after["tls.crt"] != before["tls.crt"]
    assert not rotation.fingerprints(after["ca.crt"]) & rotation.fingerprints(before["ca.crt"])
    assert world.bundles() == {after["ca.crt"]}
    end = rotation.accepted_until(after["tls.crt"], after["ca.crt"])
    assert end is not None
    assert end > world.clock.now() + timedelta(days=30)
    assert world.told() == []
    if is_inside:
        assert files.read(world.directory) == before  # mounted from the Secret, by the kubelet


def test_a_process_that_does_not_lead_renews_nothing(world: World) -> None:
    world.leads = False
    before = world.bundles(), files.read(world.directory)
    world.pass_days(400)
    assert (world.bundles(), files.read(world.directory)) == before


def test_a_bundle_that_somebody_took_away_is_written_again(world: World) -> None:
    bundles = world.bundles()
    name = cabundles.NAMES[resources.VALIDATING_WEBHOOKS][0]
    found = world.api.get(resources.VALIDATING_WEBHOOKS, name)
    for webhook in found["webhooks"]:
        del webhook["clientConfig"]["caBundle"]
    world.api.replace(resources.VALIDATING_WEBHOOKS, found)
    assert b"" in world.bundles()
    world.rotation.step()
    assert world.bundles() == bundles


def test_an_authority_signs_only_after_all_bundles_had_it_for_a_while(outside: World) -> None:
    outside.clock.advance(300 * DAY)
    outside.rotation.step()  # sees for the first time who is trusted
    before = files.read(outside.directory)["tls.crt"]
    outside.rotation.step()
    assert files.read(outside.directory)["tls.crt"] == before
    outside.clock.advance(301)
    outside.rotation.step()
    assert files.read(outside.directory)["tls.crt"] != before


def test_what_cert_manager_injects_into_is_left_alone(outside: World) -> None:
    resource = resources.MUTATING_WEBHOOKS
    found = outside.api.get(resource, cabundles.NAMES[resource][0])
    found["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "a/b"}
    kept = outside.api.replace(resource, found)
    outside.pass_days(400)
    now = outside.api.get(resource, cabundles.NAMES[resource][0])
    assert now["metadata"]["resourceVersion"] == kept["metadata"]["resourceVersion"]


def sample(certificate: str) -> float | None:
    return REGISTRY.get_sample_value(
        "gpu_admission_certificate_expiry_timestamp_seconds", {"certificate": certificate}
    )


def test_the_metric_tells_when_certificate_and_authority_expire(outside: World) -> None:
    outside.rotation.step()
    content = files.read(outside.directory)
    ends = rotation.ends(content)
    assert ends.serving is not None
    assert ends.authority is not None
    assert sample("serving") == ends.serving.timestamp()
    assert sample("authority") == ends.authority.timestamp()


# ------------------------------------------------------------------------- what is not renewed


def not_rotating(world: World) -> None:
    settings = Settings.model_validate({"kueue": {"internalCertManagement": {"enable": False}}})
    world.rotation = Rotation(
        world.api, settings, world.clock, world.events, lambda: True, world.directory
    )


def without_key(world: World) -> None:
    (world.directory / "ca.key").unlink()


class ReadOnly(certificates.DirectoryStore):
    """A directory that is mounted read-only."""

    @override
    def write(self, content: Mapping[str, bytes]) -> None:
        raise PermissionError(13, os.strerror(13))


def refuse_writes(world: World) -> None:
    store = ReadOnly(world.directory)
    world.monkeypatch.setattr(world.rotation, "_store", lambda _configuration: store)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (not_rotating, "internalCertManagement.enable is false"),
        (without_key, "holds no ca.key"),
        (refuse_writes, "Permission denied"),
    ],
    ids=["setting", "somebody else's", "read-only"],
)
def test_30_days_before_it_expires_people_are_told_every_day(
    outside: World, spoil: Any, why: str
) -> None:
    spoil(outside)
    before = files.read(outside.directory)
    outside.pass_days(334)
    assert outside.told() == []
    with capture_logs() as logged:
        outside.pass_days(3)
    (event,) = outside.told()
    assert event["type"] == "Warning"
    assert event["reason"] == "CertificateExpiring"
    assert event["regarding"]["kind"] == "MutatingWebhookConfiguration"
    assert "expires at 2027-01-01T00:00:00Z; after that no GPU pod can be created" in event["note"]
    assert why in event["note"]
    lines = [one for one in logged if one["event"] == "certificate expiring"]
    assert len(lines) >= 2
    assert all(why in one["note"] for one in lines)
    assert files.read(outside.directory).get("tls.crt") == before["tls.crt"]
    assert outside.rotation.unready() == ""
    outside.pass_days(40)
    assert "has expired at 2027-01-01T00:00:00Z, so no GPU pod can be created" in (
        outside.rotation.unready()
    )
    assert why in outside.rotation.unready()


def test_an_expired_certificate_is_renewed_and_all_is_well_again(world: World) -> None:
    world.clock.advance(1000 * DAY)
    world.rotation._end = world.clock.now()
    assert "a new one is being made" in world.rotation.unready()
    world.rotation._round()
    assert world.rotation.unready() == ""


def test_without_a_directory_it_says_what_to_pass(outside: World) -> None:
    told = Rotation(outside.api, SETTINGS, outside.clock, outside.events, lambda: True, None)
    with pytest.raises(RenewalError, match="--cert-dir"):
        told.step()


@pytest.mark.parametrize(("serving", "seconds"), [(30, 0.5), (365 * DAY, 60), (1800, 30)])
def test_rounds_follow_each_other_as_the_lifetimes_demand(
    outside: World, serving: float, seconds: float
) -> None:
    lifetimes = {"servingLifetime": f"{serving}s", "authorityLifetime": f"{serving * 2}s"}
    settings = Settings.model_validate({"gpu": {"certificates": lifetimes}})
    made = Rotation(outside.api, settings, outside.clock, outside.events, lambda: True, None)
    assert made.pause_seconds() == seconds


def test_a_round_that_failed_is_tried_again_soon_and_then_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise errors.make(409, "the object has been modified", reason="Conflict")

    with monkeypatch.context() as patched:
        patched.setattr(world.api, "get", refuse)
        pauses = [world.rotation._round() for _ in range(9)]
    longest = world.rotation.pause_seconds()
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == longest
    assert world.rotation._round() == longest
    with monkeypatch.context() as patched:
        patched.setattr(world.api, "get", refuse)
        assert world.rotation._round() == 0.5


# ------------------------------------------------------------------------------- what is served


def test_a_webhook_is_ready_while_the_api_server_accepts_what_it_serves(outside: World) -> None:
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    assert served.unready() == ""
    served.step()
    assert served.unready() == ""
    assert served.expiries().keys() == {"serving", "authority"}


def test_a_webhook_with_an_expired_certificate_is_not_ready(outside: World) -> None:
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    served.step()
    outside.clock.advance(365 * DAY)
    assert "the serving certificate has expired at 2027-01-01T00:00:00Z" in served.unready()
    assert "gpu-admission install" in served.unready()


def test_a_webhook_whose_certificate_no_bundle_trusts_is_not_ready(outside: World) -> None:
    other = authority.issue_authority(outside.clock.now())
    serving = authority.issue_serving(other, HOSTS, outside.clock.now())
    (outside.directory / "tls.key").write_bytes(serving.key_pem())
    (outside.directory / "tls.crt").write_bytes(serving.certificate_pem())
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    served.step()
    name = cabundles.NAMES[resources.MUTATING_WEBHOOKS][0]
    assert f"caBundle of MutatingWebhookConfiguration {name} does not match" in served.unready()


def test_files_that_cannot_be_served_are_told_with_readiness_only_once_what_is_served_ends(
    outside: World,
) -> None:
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    served.step()
    (outside.directory / "tls.crt").write_text("garbage")
    served.step()
    assert served.unready() == ""
    outside.clock.advance(365 * DAY)
    served.step()
    assert "the serving certificate has expired at 2027-01-01T00:00:00Z" in served.unready()
    assert f"{outside.directory} holds no valid certificate and key" in served.unready()


def test_a_certificate_without_its_key_is_not_taken_for_what_is_served(outside: World) -> None:
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    served.step()
    other = authority.issue_authority(outside.clock.now())
    serving = authority.issue_serving(other, HOSTS, outside.clock.now())
    (outside.directory / "tls.crt").write_bytes(serving.certificate_pem())
    served.step()
    assert served.unready() == ""


def test_without_webhook_configurations_nothing_has_to_match(outside: World) -> None:
    for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
        outside.api.delete(resource, cabundles.NAMES[resource][0])
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    served.step()
    assert served.unready() == ""


def test_an_api_server_that_does_not_answer_changes_nothing(
    outside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ServedCertificate(outside.api, outside.directory, outside.clock)
    served.step()

    def refuse(*_arguments: object, **_options: object) -> None:
        raise errors.TransportError("nobody answers")

    monkeypatch.setattr(outside.api, "get", refuse)
    with pytest.raises(errors.TransportError):
        served.step()
    assert served.unready() == ""
