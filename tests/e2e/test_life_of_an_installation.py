"""One installation from ``helm install`` to the last trace of it, on a whole cluster.

The chart is installed as it is, and its pods run: what they are started with, which account they
have and what they mount is what the chart says. Everything is judged from outside: by what the API
server stores and answers, and by what commands print.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography import x509

from admission.admin import manifests
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from admission.installed import serving_certificate
from certs import authority, rotation
from certs.authority import Pair
from tests.controlplane import nodes, waiting
from tests.controlplane.rest import Json
from tests.e2e import charted
from tests.e2e.charted import (
    CONFIGURATIONS,
    CRDS,
    REGISTRATION,
    REGISTRY,
    SYSTEM,
    WEBHOOK,
    Charted,
    Reviews,
    is_gated,
)
from tests.integration.installed import KUEUE
from tests.webhook.tls import served_chain

pytestmark = [pytest.mark.controlplane, pytest.mark.nightly]

TEAM: Final = "vision"
ENOUGH: Final = 20
"""Reviews in each part of the life."""
FIRST, WAITS = "first", "waits"
CONFIG: Final[dict[str, Any]] = {
    "apiVersion": "config.gpu-admission.dev/v1alpha1",
    "kind": "GpuConfiguration",
    # Certificates are looked at every six seconds then, as they are every minute by default.
    "certificates": {"authorityLifetime": "12m", "servingLifetime": "6m"},
}
OLD: Final = {
    "image.tag": "1.0.0",
    **{f"config.gpu.certificates.{key}": value for key, value in CONFIG["certificates"].items()},
}
NEW: Final = {**OLD, "image.tag": "1.1.0", "config.gpu.maxStopsPerMinute": "30"}
SECRET: Final = f"/api/v1/namespaces/{SYSTEM}/secrets/{serving_certificate.SECRET}"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_LIFETIME, _AGE = timedelta(seconds=240), timedelta(seconds=165)
"""Of a certificate that is due for renewal, and has time left for that on a busy machine."""
OF_THE_CLUSTER: Final = (
    "/api/v1/namespaces",
    *CONFIGURATIONS,
    f"{REGISTRATION}/validatingadmissionpolicies",
    f"{REGISTRATION}/validatingadmissionpolicybindings",
    f"{RBAC}/clusterroles",
    f"{RBAC}/clusterrolebindings",
    f"{RBAC}/namespaces/kube-system/rolebindings",
    CRDS,
    "/apis/apiregistration.k8s.io/v1/apiservices",
)
"""Where an installation has objects."""


def test_an_installation_lives_from_the_chart_to_the_last_trace_of_it(tmp_path: Path) -> None:
    with charted.charted() as system:
        system.cluster.add_gpu_node("gpu-0", taints=[nodes.GPU_TAINT])
        before = traces(system)
        install(system)
        make_queues(system)
        create_the_first_pods(system)
        ask_the_doctor(system)
        upgrade(system)
        roll_back(system)
        rotate_certificates(system)
        used = system.usage()
        backup = tmp_path / "queues.jsonl"
        lose_everything(system, backup)
        restore(system, backup, used)
        ask_the_doctor(system)
        take_over_with_helm(system)
        let_the_next_pod_run(system)
        uninstall(system)
        assert traces(system) == before


# -------------------------------------------------------------------------------------- the steps


def install(system: Charted) -> None:
    """`helm install` ends in a system that reviews pods, and says what to do next."""
    system.make_namespace()
    told = system.apply("install", OLD)
    assert "gpu-admission init" in told
    system.wait_rolled_out(f"{REGISTRY}:1.0.0")
    system.wait_leader()
    system.wait_reviewed()


def make_queues(system: Charted) -> None:
    """`init` makes queues that fit the nodes, and they admit."""
    done = system.run("init", "--team", TEAM, "--team", "speech", "--apply")
    assert f"ClusterQueue/{TEAM} created" in done.stdout
    for path in (
        f"{KUEUE}/clusterqueues/{TEAM}",
        f"{KUEUE}/namespaces/{TEAM}/localqueues/default",
    ):
        waiting.until(partial(is_active, system, path), what=f"{path} active")


def create_the_first_pods(system: Charted) -> None:
    """A pod that fits runs on the node of its flavor; one that does not waits and says why."""
    system.create_pod(TEAM, FIRST, gpus=2)
    assert system.wait_running(TEAM, FIRST)["spec"]["nodeName"] == "gpu-0"
    system.create_pod(TEAM, WAITS, gpus=8)
    waiting.until(lambda: reason(system, WAITS) == "WaitingForQuota", what="the reason to wait")
    waiting.until(lambda: used_gpus(system) == "2", what="usage is shown")


def ask_the_doctor(system: Charted) -> None:
    """The doctor can look at everything, and finds nothing wrong."""
    document = json.loads(system.run("doctor", "-o", "json").stdout)
    assert (document["findings"], document["notLooked"]) == ([], [])


def upgrade(system: Charted) -> None:
    """Pods of another version take over one by one; no review fails and no decision is lost."""
    with unharmed(system):
        system.apply("upgrade", NEW)
        system.wait_rolled_out(f"{REGISTRY}:1.1.0")
        system.wait_drained()
    config = system.api.get(f"/api/v1/namespaces/{SYSTEM}/configmaps/{manifests.CONFIG_MAP}")
    assert "maxStopsPerMinute: 30" in config["data"]["config.yaml"]


def roll_back(system: Charted) -> None:
    """`helm rollback` goes the same way back."""
    with unharmed(system):
        system.helm("rollback", "1")
        system.wait_rolled_out(f"{REGISTRY}:1.0.0")
        system.wait_drained()


def rotate_certificates(system: Charted) -> None:
    """A certificate that is near its end is replaced everywhere, and no review fails."""
    with unharmed(system):
        near_its_end = put_certificate_near_its_end(system)
        waiting.until(lambda: held(system) != near_its_end, what="it is renewed")
        waiting.until(lambda: served(system) == {held(system)}, what="the new one is served")
    waiting.until(
        lambda: trusted(system) == {secret(system)["ca.crt"]}, what="the same CAs everywhere"
    )


def lose_everything(system: Charted, backup: Path) -> None:
    """All objects are deleted, after a backup; what runs and what waits goes on to do so."""
    running = system.pod(TEAM, FIRST)
    done = system.run("uninstall", "--yes", "--backup", str(backup))
    assert "Released pods that continue to run: 1." in done.stderr
    assert f"Waiting for quota: 1 pod ({TEAM}/{WAITS})." in done.stderr
    waiting.until(lambda: system.api.lacks(f"/api/v1/namespaces/{SYSTEM}"), what="namespace gone")
    assert not system.api.answers(KUEUE)
    assert system.kubelet.pods() == []
    assert is_the_same(running, system.pod(TEAM, FIRST))
    assert is_gated(system.pod(TEAM, WAITS))


def restore(system: Charted, backup: Path, used: dict[str, Any]) -> None:
    """Queues and reservations come back from the backup, and usage is what it was."""
    config, image = backup.with_name("config.yaml"), f"{REGISTRY}:1.0.0"
    config.write_text(yaml.safe_dump(CONFIG))
    system.run(
        *("install", "--mode", "warn", "--image", image),
        *("--config", str(config), "--restore", str(backup)),
    )
    system.move_addresses()
    system.wait_rolled_out(image)
    system.wait_leader()
    system.wait_reviewed()
    waiting.until(lambda: system.usage() == used, what=f"usage is again {used}")
    waiting.until(lambda: reason(system, WAITS) == "WaitingForQuota", what="it waits again")


def take_over_with_helm(system: Charted) -> None:
    """What the command has installed becomes a release of Helm, without a failed review."""
    with unharmed(system):
        system.apply("install", OLD, "--take-ownership")
        system.wait_rolled_out(f"{REGISTRY}:1.0.0")


def let_the_next_pod_run(system: Charted) -> None:
    """The pod that has waited all the time runs once there is quota."""
    system.api.delete(f"/api/v1/namespaces/{TEAM}/pods/{FIRST}")
    system.wait_running(TEAM, WAITS)
    waiting.until(lambda: used_gpus(system) == "8", what="usage follows")


def uninstall(system: Charted) -> None:
    """Helm keeps the queues; the command then takes everything away. Pods run on."""
    running = system.pod(TEAM, WAITS)
    system.helm("uninstall")
    assert system.api.get(f"{KUEUE}/clusterqueues/{TEAM}")
    waiting.until(lambda: not is_gated(system.try_pod(TEAM)), what="pods are not held any more")
    system.run("uninstall", "--yes", "--release-pods")
    waiting.until(lambda: system.api.lacks(f"/api/v1/namespaces/{SYSTEM}"), what="namespace gone")
    assert is_the_same(running, system.pod(TEAM, WAITS))
    for team in (TEAM, "speech"):
        system.api.delete(f"/api/v1/namespaces/{team}")
        gone = partial(system.api.lacks, f"/api/v1/namespaces/{team}")
        waiting.until(gone, what="what init made gone")


# ------------------------------------------------------------------------------ what is looked at


@contextmanager
def unharmed(system: Charted) -> Iterator[None]:
    """Reviews all the time in the block: none fails, and nothing that was decided changes."""
    running, used = system.pod(TEAM, FIRST), system.usage()
    with Reviews(system, TEAM) as reviews:
        yield
        waiting.until(lambda: len(reviews.answers) > ENOUGH, what="some reviews")
    # Where many tests share two cores, an answer may take longer than the API server waits for it.
    assert [one.refusal for one in reviews.failed if not one.is_late] == []
    assert is_the_same(running, system.pod(TEAM, FIRST))
    assert is_gated(system.pod(TEAM, WAITS))
    waiting.until(lambda: system.usage() == used, what=f"usage is still {used}")


def traces(system: Charted) -> set[str]:
    """Names of all objects of the cluster of kinds that an installation has."""
    return {
        f"{path}/{one['metadata']['name']}"
        for path in OF_THE_CLUSTER
        for one in system.api.get(path)["items"]
    }


def is_active(system: Charted, path: str) -> bool:
    """Whether a queue says that it admits."""
    found = system.api.get(path).get("status", {}).get("conditions", ())
    return any(one["type"] == "Active" and one["status"] == "True" for one in found)


def reason(system: Charted, name: str) -> str:
    """The reason that a pod gives for waiting."""
    found = system.pod(TEAM, name).get("status", {}).get("conditions", ())
    return next((one["reason"] for one in found if one["type"].endswith("/Admitted")), "")


def used_gpus(system: Charted) -> str:
    """GPUs that the team's ClusterQueue says are in use, of all flavors."""
    found = system.usage()[TEAM]["flavorsUsage"] or ()
    totals = {
        one["total"]
        for flavor in found
        for one in flavor["resources"]
        if one["name"] == "nvidia.com/gpu"
    }
    return max(totals, default="0")


def is_the_same(before: Json, now: Json) -> bool:
    """Whether a pod is the one that it was, and still runs."""
    is_kept = before["metadata"]["uid"] == now["metadata"]["uid"]
    is_ending = "deletionTimestamp" in now["metadata"]
    return is_kept and not is_ending and now["status"]["phase"] == "Running"


def secret(system: Charted) -> dict[str, bytes]:
    data = system.api.get(SECRET)["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def held(system: Charted) -> int:
    """Serial number of the certificate in the Secret."""
    return x509.load_pem_x509_certificate(secret(system)["tls.crt"]).serial_number


def served(system: Charted) -> set[int]:
    """Serial numbers of what the webhooks serve on new connections."""
    chains = (served_chain(pod.ports["review"]) for pod in system.kubelet.pods(WEBHOOK))
    return {x509.load_pem_x509_certificate(chain).serial_number for chain in chains}


def trusted(system: Charted) -> set[bytes]:
    """What the API server is told to trust in the webhooks, each once."""
    return {
        base64.b64decode(one["clientConfig"]["caBundle"])
        for path in CONFIGURATIONS
        for found in system.api.get(path)["items"]
        for one in found["webhooks"]
    }


def put_certificate_near_its_end(system: Charted) -> int:
    """Replace the serving certificate by one that soon ends; its serial number."""
    signer = rotation.read(secret(system)).issuer()
    assert signer is not None
    assert signer.key is not None
    pair = authority.issue_serving(
        Pair(certificate=signer.certificate, key=signer.key),
        serving_certificate.service_hosts(Settings()),
        SystemClock().now() - _AGE,
        _LIFETIME,
    )
    content = {"tls.crt": pair.certificate_pem(), "tls.key": pair.key_pem()}
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    system.api.patch(SECRET, {"data": data})
    return pair.certificate.serial_number
