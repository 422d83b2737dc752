"""Who waits, asked through a real API server's aggregator, and past it."""

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from admission.base import names
from admission.base.clock import SystemClock, to_wire_micro
from admission.cli.kubectl import main
from admission.reasons import sentences
from tests.builders.jobs import make_job
from tests.controlplane import build, forked, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.forked import PROGRAM
from tests.controlplane.processes import free_port
from tests.controlplane.rest import Rest, RestError
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

GROUP = names.VISIBILITY_GROUP
V1BETA2, V1BETA1 = f"/apis/{GROUP}/v1beta2", f"/apis/{GROUP}/v1beta1"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
SYSTEM = names.SYSTEM_NAMESPACE
HOST = f"gpu-admission-visibility.{SYSTEM}.svc"


class Visible(Installed):
    """Everything of ours, with lists of pending workloads through the API server."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.config = folder / "config.yaml"
        self.config.write_text(
            yaml.safe_dump_all(
                [
                    {
                        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                        "kind": "Configuration",
                        "visibilityServer": {
                            "bindAddress": "127.0.0.1", "bindPort": self.visibility_port
                        },
                    },
                    {
                        "apiVersion": names.CONFIG_API_VERSION,
                        "kind": "GpuConfiguration",
                        "journal": {"interval": "1s"},
                    },
                ]
            )
        )  # fmt: skip

    def is_available(self) -> bool:
        """Whether requests are passed on; the aggregator acts on its own condition later."""
        return all(self.api.answers(version) for version in (V1BETA2, V1BETA1))

    def condition_of(self, version: str) -> str:
        found = self.api.get(f"{API_SERVICES}/{version}.{GROUP}").get("status", {})
        conditions: dict[str, str] = {c["type"]: c["status"] for c in found.get("conditions", [])}
        return conditions.get("Available", "")

    def lists(self, path: str, client: Rest | None = None) -> list[tuple[str, int, int]]:
        """Pod and both places of everybody in a list."""
        document = (client or self.api).get(path)
        assert document["kind"] == "PendingWorkloadsSummary"
        return [
            (
                item["metadata"]["ownerReferences"][0]["name"],
                item["positionInClusterQueue"],
                item["positionInLocalQueue"],
            )
            for item in document["items"]
        ]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visible]:
    with snapshot.prepared(tmp_path_factory.mktemp("visible"), Visible, whole=True) as it:
        it.install("--visibility", "--config", str(it.config))
        it.start("--config", str(it.config))
        waiting.until(it.is_available, what="APIServices available")
        yield it


class Teams:
    """A full ClusterQueue in which pods of two namespaces wait: red-1, blue-1, red-2."""

    def __init__(self, system: Visible) -> None:
        self.system = system
        self.red, self.blue = (system.cluster.create_namespace(one) for one in ("red", "blue"))
        self.queue = self.red
        system.add_flavor(self.queue)
        system.add_cluster_queue(self.queue, quota=1, flavors=(self.queue,))
        for namespace in (self.red, self.blue):
            system.add_local_queue(namespace, self.queue)
            system.wait_for_queue(namespace)
        for namespace, name in (
            (self.red, "running"), (self.red, "red-1"), (self.blue, "blue-1"), (self.red, "red-2")
        ):  # fmt: skip
            system.create_pod(namespace, name)
            if name == "running":
                system.wait_released(namespace, name)
            else:
                system.wait_condition(namespace, name)

    def of_all(self, version: str = V1BETA2) -> str:
        return f"{version}/clusterqueues/{self.queue}/pendingworkloads"

    def of(self, namespace: str, version: str = V1BETA2) -> str:
        return f"{version}/namespaces/{namespace}/localqueues/default/pendingworkloads"

    def user(self, role: str, namespace: str = "") -> Rest:
        """A user with one role, in one namespace or everywhere."""
        name = f"{role}-{namespace or 'everywhere'}"
        scope = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        self.system.api.post(
            f"{ROLES}/{scope}",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                            "name": role},
                "subjects": [{"kind": "User", "name": name}],
            },
        )  # fmt: skip
        return self.system.cluster.client(self.system.cluster.kubeconfig(name))


@pytest.fixture(scope="module")
def teams(system: Visible) -> Teams:
    return Teams(system)


# ------------------------------------------------------------------------------------- the lists


@pytest.mark.parametrize("version", [V1BETA2, V1BETA1])
def test_a_cluster_queue_lists_everybody_who_waits_with_both_places(
    teams: Teams, version: str
) -> None:
    expected = [("red-1", 0, 0), ("blue-1", 1, 0), ("red-2", 2, 1)]
    assert teams.system.lists(teams.of_all(version)) == expected
    document = teams.system.api.get(teams.of_all(version))
    assert document["apiVersion"] == version.removeprefix("/apis/")
    item = document["items"][1]
    workload = teams.system.api.get(
        f"{KUEUE}/namespaces/{teams.blue}/workloads/{item['metadata']['name']}"
    )
    owner = {key: workload["metadata"]["ownerReferences"][0][key]
             for key in ("apiVersion", "kind", "name", "uid")}  # fmt: skip
    assert item == {
        "metadata": {
            "name": workload["metadata"]["name"],
            "namespace": teams.blue,
            "creationTimestamp": workload["metadata"]["creationTimestamp"],
            "ownerReferences": [owner],
        },
        "priority": 0,
        "localQueueName": "default",
        "positionInClusterQueue": 1,
        "positionInLocalQueue": 0,
    }


def test_a_local_queue_lists_its_own_with_their_places_in_the_cluster_queue(teams: Teams) -> None:
    assert teams.system.lists(teams.of(teams.red)) == [("red-1", 0, 0), ("red-2", 2, 1)]
    assert teams.system.lists(teams.of(teams.blue)) == [("blue-1", 1, 0)]


def test_a_part_is_chosen_by_offset_and_limit(teams: Teams) -> None:
    lists = teams.system.lists
    assert lists(f"{teams.of_all()}?offset=1&limit=1") == [("blue-1", 1, 0)]
    assert lists(f"{teams.of(teams.red)}?offset=1") == [("red-2", 2, 1)]
    assert lists(f"{teams.of_all()}?limit=-1") == []
    with pytest.raises(RestError, match="invalid syntax") as refused:
        lists(f"{teams.of_all()}?limit=all")
    assert refused.value.status == 400


def test_a_higher_priority_goes_first_as_soon_as_it_is_seen(teams: Teams) -> None:
    system = teams.system
    system.cluster.add_priority_class("vip", 7)
    system.create_pod(teams.blue, "vip", priorityClassName="vip")
    waiting.until(
        lambda: system.lists(teams.of_all())[:2] == [("vip", 0, 0), ("red-1", 1, 0)],
        what="vip in front",
    )
    assert system.api.get(teams.of_all())["items"][0]["priority"] == 7
    system.delete_pod(teams.blue, "vip")
    waiting.until(lambda: len(system.lists(teams.of_all())) == 3, what="vip gone")


def test_an_unknown_queue_is_not_found(teams: Teams) -> None:
    with pytest.raises(RestError) as refused:
        teams.system.api.get(f"{V1BETA2}/clusterqueues/none/pendingworkloads")
    status = json.loads(refused.value.body)
    assert (status["code"], status["reason"]) == (404, "NotFound")
    assert status["details"] == {"name": "none", "group": GROUP, "kind": "clusterqueue"}


def test_a_stopped_local_queue_is_not_found(system: Visible, teams: Teams) -> None:
    system.add_local_queue(teams.blue, teams.queue, "stopped")
    system.wait_for_queue(teams.blue, "stopped")
    path = f"{V1BETA2}/namespaces/{teams.blue}/localqueues/stopped/pendingworkloads"
    assert system.lists(path) == []
    queue = f"{KUEUE}/namespaces/{teams.blue}/localqueues/stopped"
    system.api.patch(queue, {"spec": {"stopPolicy": "Hold"}})
    waiting.until(lambda: not system.api.answers(path), what="no list of a stopped queue")
    with pytest.raises(RestError) as refused:
        system.api.get(path)
    status = json.loads(refused.value.body)
    assert status["message"] == f'localqueue.{GROUP} "stopped" not found'


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_lists_can_only_be_read(teams: Teams, method: str) -> None:
    with pytest.raises(RestError) as refused:
        teams.system.api.text(method, teams.of_all(), {})
    assert refused.value.status == 405


# ------------------------------------------------------------------------------------------ who


def test_a_user_of_a_team_sees_the_teams_list_and_no_other(teams: Teams) -> None:
    user = teams.user("gpu-admission-pending-workloads-lq-viewer-role", teams.red)
    lists = teams.system.lists
    waiting.until(lambda: user.answers(teams.of(teams.red)), what="the role in effect")
    assert lists(teams.of(teams.red), user) == [("red-1", 0, 0), ("red-2", 2, 1)]
    for path in (teams.of(teams.blue), teams.of_all()):
        with pytest.raises(RestError) as refused:
            user.get(path)
        assert refused.value.status == 403


def test_kubernetes_own_viewer_of_everything_sees_every_list(teams: Teams) -> None:
    user = teams.user("view")
    waiting.until(lambda: user.answers(teams.of_all()), what="the aggregated role in effect")
    assert len(teams.system.lists(teams.of_all(), user)) == 3


def test_a_member_sees_the_hours_of_a_deleted_job_and_of_no_other_namespace(
    system: Visible,
) -> None:
    """User ada has Kubernetes' own role edit in one of two namespaces that both use GPUs.

    Records begin after the namespaces were created: no other is shown.
    """
    own, other = (system.cluster.create_namespace(one) for one in ("own", "other"))
    system.stop()
    records_of_all = f"/api/v1/namespaces/{SYSTEM}/configmaps"
    for record in system.api.get(f"{records_of_all}?labelSelector={names.USAGE_LABEL}")["items"]:
        system.api.delete(f"{records_of_all}/{record['metadata']['name']}")
    system.start("--config", str(system.config))
    waiting.until(system.is_available, what="APIServices available")
    system.add_flavor(own)
    system.add_cluster_queue(own, quota=3, flavors=(own,))
    for namespace in (own, other):
        system.add_local_queue(namespace, own)
        system.wait_for_queue(namespace)
        job = make_job("train", 1, gpus=1, labels={names.QUEUE_LABEL: "default"})
        system.api.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    system.api.post(
        f"{ROLES}/namespaces/{own}/rolebindings",
        {
            "metadata": {"name": "ada"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "edit"},
            "subjects": [{"kind": "User", "name": "ada"}],
        },
    )  # fmt: skip
    system.cluster.wait_for_roles()
    kubeconfig = system.cluster.kubeconfig("ada")
    ada = system.cluster.client(kubeconfig)

    def usage(namespace: str, *more: str, path: str = str(kubeconfig)) -> Result:
        command = ["usage", "-n", namespace, "--by", "owner", "--kubeconfig", path, *more]
        return CliRunner().invoke(main, command)

    def seconds(namespace: str, path: str = str(kubeconfig)) -> int:
        found = json.loads(usage(namespace, "-o", "json", path=path).stdout or "{}")
        rows = found.get("owners", ()) if found.get("source") == "records" else ()
        return sum(int(row["seconds"]) for row in rows if row["name"] == "train")

    waiting.until(lambda: seconds(other, system.kubeconfig), what="hours of the other namespace")
    waiting.until(lambda: seconds(own), what="hours that the member sees")
    jobs = f"/apis/batch/v1/namespaces/{own}/jobs"
    ada.delete(f"{jobs}/train", {"propagationPolicy": "Background"})
    workloads = f"{KUEUE}/namespaces/{own}/workloads"
    waiting.until(lambda: not ada.get(workloads)["items"], what="the Workload gone")
    answer = usage(own)
    assert "Job train" in answer.stdout
    assert "not complete" not in answer.stdout
    assert seconds(own) > 0
    records = f"{V1BETA2}/namespaces/{own}/gpuusagerecords"
    assert other not in ada.text("GET", records)
    for path in (
        f"{V1BETA2}/namespaces/{other}/gpuusagerecords",
        f"{V1BETA2}/gpuusagerecords",
        f"/api/v1/namespaces/{SYSTEM}/configmaps",
    ):
        with pytest.raises(RestError) as refused:
            ada.get(path)
        assert refused.value.status == 403
    refused_command = usage(other)
    assert refused_command.exit_code == 1
    assert "you may not list Workloads of namespace" in refused_command.stderr


class Direct:
    """Asks the controller itself, as whoever has a certificate or a token."""

    def __init__(self, system: Visible, pair: Path | None = None) -> None:
        self._url = f"https://127.0.0.1:{system.visibility_port}"
        self._context = ssl.create_default_context(cafile=str(system.certificates / "ca.crt"))
        self._context.check_hostname = False
        if pair is not None:
            self._context.load_cert_chain(pair)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._url + path, headers=sent)
        try:
            with urllib.request.urlopen(
                request, context=self._context, timeout=waiting.PATIENCE_SECONDS
            ) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.loads(refused.read())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"},
        {"Authorization": "Bearer wrong"},
    ],
    ids=["nothing", "claims", "a wrong token"],
)
def test_past_the_api_server_nobody_is_believed(
    system: Visible, teams: Teams, headers: dict[str, str]
) -> None:
    status, document = Direct(system).get(teams.of_all(), **headers)
    assert (status, document["reason"]) == (401, "Unauthorized")


def test_a_certificate_of_another_authority_ends_the_connection(
    system: Visible, teams: Teams
) -> None:
    kubeconfig = system.cluster.kubeconfig("front-proxy-client", ["system:masters"])
    system.cluster.client(kubeconfig)
    direct = Direct(system, kubeconfig.with_suffix(".pem"))
    with pytest.raises((ssl.SSLError, ConnectionError, urllib.error.URLError)):
        direct.get(teams.of_all(), X_Remote_User="admin", X_Remote_Group="system:masters")


def test_a_token_is_as_good_as_its_owners_roles(system: Visible, teams: Teams) -> None:
    direct = Direct(system)
    status, document = direct.get(
        teams.of_all(), Authorization=f"Bearer {system.cluster.admin_token}"
    )
    assert (status, len(document["items"])) == (200, 3)


def test_our_own_pages_show_the_same_list(system: Visible, teams: Teams) -> None:
    path = f"/api/namespaces/{teams.red}/localqueues/default/pendingworkloads"
    status, text = system.page(system.metrics_url, path)
    assert (status, json.loads(text)) == (200, system.api.get(teams.of(teams.red)))


# ------------------------------------------------------------------------------------ discovery


def kubectl(system: Visible, *arguments: str) -> str:
    done = subprocess.run(
        [str(build.folder() / "kubectl"), f"--kubeconfig={system.kubeconfig}", *arguments],
        capture_output=True, text=True, timeout=waiting.PATIENCE_SECONDS, check=False,
        env={"HOME": str(system.folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_reads_a_list_and_still_means_kueues_queues(system: Visible, teams: Teams) -> None:
    assert len(json.loads(kubectl(system, "get", "--raw", teams.of_all()))["items"]) == 3
    found = kubectl(system, "get", "clusterqueues", teams.queue, "-o", "name").strip()
    assert found == f"clusterqueue.kueue.x-k8s.io/{teams.queue}"


def test_the_group_is_known_to_clients_old_and_new(system: Visible) -> None:
    group = system.api.get(f"/apis/{GROUP}")
    assert group["preferredVersion"]["version"] == "v1beta2"
    found = system.api.get(V1BETA2)["resources"]
    assert {one["name"]: one["verbs"] for one in found}["clusterqueues/pendingworkloads"] == [
        "get"
    ]
    waiting.until(lambda: freshness(system) == {"v1beta2": "Current", "v1beta1": "Current"},
                  what="aggregated discovery")  # fmt: skip


def freshness(system: Visible) -> dict[str, str]:
    """What the API server's own summary says of our versions, as kubectl asks for it."""
    request = urllib.request.Request(
        f"{system.cluster.url}/apis",
        headers={
            "Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "Authorization": f"Bearer {system.cluster.admin_token}",
        },
    )
    context = ssl.create_default_context(cafile=str(system.cluster.ca_file))
    with urllib.request.urlopen(
        request, context=context, timeout=waiting.PATIENCE_SECONDS
    ) as answer:
        groups = json.loads(answer.read())["items"]
    found = [one for one in groups if one["metadata"]["name"] == GROUP]
    return {v["version"]: v["freshness"] for one in found for v in one["versions"]}


def test_the_documents_of_the_api_are_served(system: Visible) -> None:
    path = f"apis/{GROUP}/v1beta2"
    found = waiting.until(
        lambda: system.api.get("/openapi/v3")["paths"].get(path),
        what="OpenAPI v3",
    )  # fmt: skip
    document = system.api.get(found["serverRelativeURL"])
    assert f"/{path}/clusterqueues/{{name}}/pendingworkloads" in document["paths"]
    waiting.until(
        lambda: f"/{path}/clusterqueues/{{name}}/pendingworkloads"
        in system.api.get("/openapi/v2")["paths"],
        what="OpenAPI v2",
    )  # fmt: skip


# ---------------------------------------------------------------------------- when things fail


def test_a_standby_answers_like_the_leader(system: Visible, teams: Teams) -> None:
    now = to_wire_micro(SystemClock().now())
    system.api.post(
        f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases",
        {
            "metadata": {"name": names.LEASE_NAME},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": now,
                     "acquireTime": now},
        },
    )  # fmt: skip
    port, pages = free_port(), free_port()
    command = [
        *PROGRAM, "controller", "--kubeconfig", system.kubeconfig, "--leader-election",
        "--metrics-bind", f"127.0.0.1:{pages}", "--visibility-bind", f"127.0.0.1:{port}",
        "--cert-dir", str(system.certificates),
    ]  # fmt: skip
    with (system.folder / "standby.log").open("wb") as log:
        process = forked.start(command, stdout=log, stderr=log)
    try:
        waiting.until(
            lambda: system.probe(f"http://127.0.0.1:{pages}", "/readyz") == 200,
            what="a ready standby",
        )
        direct = Direct(system)
        direct._url = f"https://127.0.0.1:{port}"
        token = f"Bearer {system.cluster.admin_token}"
        status, document = waiting.until(
            lambda: _if_known(direct.get(teams.of_all(), Authorization=token)),
            what="a standby that has listed everything",
        )
        assert (status, document) == (200, system.api.get(teams.of_all()))
    finally:
        process.terminate()
        process.wait(30)


def _if_known(answer: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]] | None:
    """Any answer but "not yet"."""
    return None if answer[0] == 503 else answer


def test_why_tells_a_team_its_exact_place_and_what_its_own_objects_say(system: Visible) -> None:
    """The role ``view`` of one namespace reads no ClusterQueue."""
    teams = Teams(system)
    teams.user("view", teams.red)
    job = make_job("train", 1, gpus=1, labels={names.QUEUE_LABEL: "default"})
    made = system.api.post(f"/apis/batch/v1/namespaces/{teams.red}/jobs", job)
    told = f"Waits: needs 2 {teams.queue}, 1 free of 1; about 90th in queue x; held by x (1)."
    metadata = made["metadata"]
    event = {
        "metadata": {"name": "told", "namespace": teams.red},
        "regarding": {"kind": "Job", "namespace": teams.red, "name": "train",
                      "uid": metadata["uid"]},
        "type": "Warning", "reason": "WaitingForQuota", "note": told, "action": "Wait",
        "reportingController": "test", "reportingInstance": "test",
    }  # fmt: skip
    kubeconfig = system.cluster.kubeconfig(f"view-{teams.red}")

    def answer() -> dict[str, Any] | None:
        command = ["why", "job.batch/train", "-n", teams.red, "-o", "json"]
        done = CliRunner().invoke(main, [*command, "--kubeconfig", str(kubeconfig)])
        found: dict[str, Any] = json.loads(done.stdout)
        return found if found.get("place") else None

    system.cluster.wait_for_roles()
    notes = {
        f"LocalQueue default holds 1 {teams.queue}; 3 Workloads wait in it",
        sentences.free_when_said(),
    }

    def judged() -> dict[str, Any] | None:
        found = answer()
        is_over = found and found["reason"] == "WaitingForQuota" and notes <= set(found["notes"])
        return found if is_over else None

    found = waiting.until(judged, what="a Job that was judged")
    assert (found["place"], found["placeIsAbout"]) == (4, False)
    said = f"Waits: needs 1 {teams.queue}, 0 free; 4th in queue {teams.queue}."
    assert found["message"] == said
    (quota,) = found["quota"]
    assert (quota["asks"], quota["free"], quota["reach"]) == ("1", "0", None)
    assert [one.partition(" ")[0] for one in found["missing"]] == ["ClusterQueues", "Cohorts"]
    event["eventTime"] = to_wire_micro(SystemClock().now())
    system.api.post(f"/apis/events.k8s.io/v1/namespaces/{teams.red}/events", event)
    reaches = waiting.until(
        lambda: [one["reach"] for one in (answer() or {"quota": []})["quota"] if one["reach"]],
        what="the event tells what can be reached",
    )
    assert reaches == ["1"]
    assert not any(told in note for note in (answer() or {"notes": [told]})["notes"])


def test_an_api_service_without_controller_holds_namespaces_up_until_it_is_taken_away(
    system: Visible, teams: Teams
) -> None:
    """Why it is installed on request only."""
    system.stop()
    waiting.until(lambda: system.condition_of("v1beta2") == "False", what="seen as unavailable")
    namespace = system.cluster.create_namespace("unrelated")
    system.api.delete(f"/api/v1/namespaces/{namespace}")

    def is_held() -> bool:
        conditions = system.api.get(f"/api/v1/namespaces/{namespace}")["status"].get("conditions")
        held = [c for c in conditions or () if c["type"] == "NamespaceDeletionDiscoveryFailure"]
        return bool(held and held[0]["status"] == "True" and GROUP in held[0]["message"])

    waiting.until(is_held, what="a namespace that is held up")
    changes = system.install("--no-visibility")
    deleted = {one["name"] for one in changes if one["effect"] == "deleted"}
    assert deleted == {f"v1beta2.{GROUP}", f"v1beta1.{GROUP}"}
    for path in (f"/api/v1/namespaces/{namespace}", teams.of_all()):
        waiting.until(partial(system.api.lacks, path), what=f"{path} gone")
