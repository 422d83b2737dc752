"""A real API server that must show a certificate to the webhook (ADR 0080)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.credentials import Credentials
from tests.controlplane.processes import free_port
from tests.controlplane.rest import RestError
from tests.integration import snapshot
from tests.integration.installed import Installed

pytestmark = pytest.mark.controlplane


def admission_configuration(folder: Path, pair: Credentials) -> Path:
    """What an API server shows to every webhook."""
    kubeconfig = folder / "webhooks.kubeconfig"
    user = {
        "client-certificate": str(pair.proxy_certificate),
        "client-key": str(pair.proxy_key),
    }
    kubeconfig.write_text(
        yaml.safe_dump(
            {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
        )
    )
    file = folder / "admission.yaml"
    plugins = [
        {
            "name": name,
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": str(kubeconfig),
            },
        }
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(yaml.safe_dump({**document, "plugins": plugins}))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Credentials:
    (folder / "pair").mkdir()
    return Credentials(folder / "pair")


@pytest.fixture(scope="module")
def system(folder: Path, pair: Credentials) -> Iterator[Installed]:
    flag = f"--admission-control-config-file={admission_configuration(folder, pair)}"
    with snapshot.prepared(folder, Installed, api_flags=[flag]) as it:
        yield it


def test_reviews_of_an_api_server_without_the_right_certificate_are_refused(
    system: Installed, pair: Credentials, folder: Path
) -> None:
    health = f"127.0.0.1:{free_port()}"
    reviews, system.webhook_url = system.webhook_url, f"http://{health}"
    (folder / "others").mkdir()
    authorities = folder / "authorities.pem"
    authorities.write_bytes(pair.proxy_ca_file.read_bytes())
    try:
        system.start("--client-ca", str(authorities), "--health-bind", health)
        team = system.add_team(quota=2)
        system.create_pod(team, "first")
        system.wait_released(team, "first")
        assert system.probe(reviews, "/readyz") == 0
        authorities.write_bytes(Credentials(folder / "others").proxy_ca_file.read_bytes())
        # Connections that are open stay: the next API server shows its certificate again.
        system.cluster.restart_apiserver()
        with pytest.raises(RestError, match="failed calling webhook"):
            system.create_pod(team, "second")
    finally:
        system.stop()
