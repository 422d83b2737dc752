"""A real API server sends to the webhook what concerns it, and nothing else."""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from admission.admin import webhooks
from admission.base.clock import SystemClock
from admission.config.derived import Settings
from certs import files
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod
from tests.controlplane import features, waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.rest import Rest, RestError

pytestmark = pytest.mark.controlplane

ACCOUNT = "system:serviceaccount:gpu-admission-system:controller"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATE, VALIDATE = "/mutate--v1-pod", "/validate--v1-pod"
QUEUE = "kueue.x-k8s.io/queue-name"
GATES = [{"name": "kueue.x-k8s.io/admission"}, {"name": "example.com/other"}]
GPU = {"nvidia.com/gpu": "1"}


@dataclass
class Recorder:
    """An HTTPS server that allows every review and remembers its path."""

    directory: Path
    paths: list[str] = field(default_factory=list)

    def start(self) -> None:
        certificates = files.ensure(self.directory, ["127.0.0.1"], SystemClock().now())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.authority = base64.b64encode(certificates.ca.read_bytes()).decode()
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def client_config(self) -> dict[str, str]:
        port = self.server.server_port
        return {"url": f"https://127.0.0.1:{port}", "caBundle": self.authority}

    def take(self) -> list[str]:
        """The paths since the last call, sorted."""
        paths, self.paths = sorted(self.paths), []
        return paths

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            # One connection per review: a stopped server must not go on answering.
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                recorder.paths.append(self.path.partition("?")[0])
                response = {"uid": body["request"]["uid"], "allowed": True}
                answer = json.dumps({**body, "request": None, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            @override
            def log_request(self, *_: Any) -> None:
                """Keeps quiet."""

        return Handler


def documents(recorder: Recorder) -> list[dict[str, Any]]:
    settings = Settings()
    return webhooks.documents(
        recorder.client_config(),
        settings.gpu.managed_resources,
        settings.managed_namespaces,
        ACCOUNT,
    )


def path_of(document: dict[str, Any]) -> str:
    plural = document["kind"].lower() + "s"
    return f"{CONFIGURATIONS}/{plural}/{document['metadata']['name']}"


@pytest.fixture(scope="module")
def recorder(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """A recording webhook that the API server knows of."""
    started = Recorder(tmp_path_factory.mktemp("certs"))
    started.start()
    made = documents(started)
    try:
        for document in made:
            cluster.api.patch(
                f"{path_of(document)}?fieldManager=test&fieldValidation=Strict&force=true",
                document,
                "application/apply-patch+yaml",
            )
        _await_effect(cluster, started)
        yield started
    finally:
        for document in made:
            cluster.api.delete(path_of(document))
        # Tests that come next on this cluster have pods that nobody would review.
        waiting.until(lambda: not _is_asked(cluster, started), what="configurations forgotten")
        started.stop()


def _await_effect(cluster: Cluster, recorder: Recorder) -> None:
    def both_are_asked() -> bool:
        create(cluster.api, make_pod(limits=GPU), dry_run=True)
        return recorder.take() == [MUTATE, VALIDATE]

    waiting.until(both_are_asked, what="webhook configurations in effect")


def _is_asked(cluster: Cluster, recorder: Recorder) -> bool:
    """Whether the API server asks a webhook, maybe where a test has left none."""
    try:
        create(cluster.api, make_pod(limits=GPU), dry_run=True)
    except RestError:
        return True
    return bool(recorder.take())


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> str:
    return cluster.create_namespace("reviewed")


def create(
    api: Rest, pod: dict[str, Any], namespace: str = "default", *, dry_run: bool = False
) -> dict[str, Any]:
    query = "?dryRun=All" if dry_run else ""
    unnamed = {**pod, "metadata": {**pod["metadata"], "name": "", "generateName": "p-"}}
    return api.post(f"/api/v1/namespaces/{namespace}/pods{query}", unnamed)


INIT = {"name": "init", "image": "example/x"}
MIG = {"nvidia.com/mig-1g.10gb": "1"}
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one"}


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(limits=GPU),
        make_pod(limits={"nvidia.com/gpu.shared": "1"}),
        make_pod(limits=MIG),
        make_pod(initContainers=[{**INIT, "resources": {"limits": MIG}}]),
        pytest.param(make_pod(resourceClaims=[CLAIM]), marks=features.needs_claims),
        make_pod(limits={"amd.com/gpu": "1"}),
        make_pod(limits={"nvidia.com/gpux": "1"}),
        make_pod(labels={QUEUE: "q"}),
        make_pod(labels={"kueue.x-k8s.io/managed": "true"}),
        make_pod(annotations={"kueue.x-k8s.io/pod-suspending-parent": "deployment"}),
        make_pod(annotations={"gpu-admission.dev/gpu-memory": "10Gi"}),
    ],
    ids=[
        "GPU", "shared GPU", "MIG slice", "MIG slice in an init container", "ResourceClaim",
        "another vendor, which a DeviceClass may answer", "a longer name, likewise",
        "queue label", "managed label", "annotation of Kueue", "annotation of ours",
    ],
)  # fmt: skip
def test_a_pod_that_concerns_us_is_reviewed_twice_on_creation(
    cluster: Cluster, recorder: Recorder, namespace: str, pod: dict[str, Any]
) -> None:
    create(cluster.api, pod, namespace)
    assert recorder.take() == [MUTATE, VALIDATE]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(gates=["kueue.x-k8s.io/admission"]),
        make_pod(metadata={"finalizers": ["kueue.x-k8s.io/managed"]}),
    ],
    ids=["gate", "finalizer"],
)
def test_what_an_admission_left_on_a_pod_is_taken_off_at_its_creation(
    cluster: Cluster, recorder: Recorder, namespace: str, pod: dict[str, Any]
) -> None:
    create(cluster.api, pod, namespace)
    assert recorder.take() == [MUTATE]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(),
        make_pod(limits={"cpu": "1", "memory": "1Gi"}),
        make_pod(limits={"ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi", "memory": "1Gi"}),
        make_pod(labels={"app": "x"}, annotations={"example.com/a": "b"}),
        make_pod(initContainers=[INIT], tolerations=[{"operator": "Exists"}]),
        make_pod(schedulingGates=[{"name": "example.com/other"}]),
    ],
    ids=[
        "no resources", "cpu and memory", "other resources of Kubernetes", "foreign keys",
        "an init container", "a foreign gate",
    ],
)  # fmt: skip
def test_any_other_pod_is_not_reviewed(
    cluster: Cluster, recorder: Recorder, namespace: str, pod: dict[str, Any]
) -> None:
    created = create(cluster.api, pod, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{created['metadata']['name']}"
    cluster.api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    cluster.api.delete(path)
    assert recorder.take() == []


FEW = {f"example.com/{n}": "" for n in range(webhooks.MOST)}
MANY = {**FEW, "example.com/more": ""}
CONTAINERS = [{"name": f"c{n}", "image": "example/x"} for n in range(webhooks.MOST + 1)]


@pytest.mark.parametrize("member", ["labels", "annotations"])
def test_keys_are_looked_at_up_to_a_number_and_more_of_them_are_reviewed(
    cluster: Cluster, recorder: Recorder, namespace: str, member: str
) -> None:
    create(cluster.api, make_pod(metadata={member: FEW}), namespace)
    assert recorder.take() == []
    create(cluster.api, make_pod(metadata={member: MANY}), namespace)
    assert recorder.take() == [MUTATE, VALIDATE]
    thousands = {f"example.com/{n}": "" for n in range(5000)}
    create(cluster.api, make_pod(metadata={member: {**thousands, QUEUE: "q"}}), namespace)
    assert recorder.take() == [MUTATE, VALIDATE]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(containers=CONTAINERS),
        make_pod(initContainers=CONTAINERS),
        make_pod(limits=dict.fromkeys(MANY, "1")),
    ],
    ids=["containers", "initContainers", "limits"],
)
def test_a_pod_with_more_of_anything_than_is_looked_at_is_reviewed(
    cluster: Cluster, recorder: Recorder, namespace: str, pod: dict[str, Any]
) -> None:
    create(cluster.api, pod, namespace)
    assert recorder.take() == [MUTATE, VALIDATE]


def test_an_update_of_many_annotations_is_reviewed_if_it_changes_one(
    cluster: Cluster, recorder: Recorder, namespace: str
) -> None:
    created = create(cluster.api, make_pod(annotations=MANY), namespace)
    recorder.take()
    path = f"/api/v1/namespaces/{namespace}/pods/{created['metadata']['name']}"
    cluster.api.patch(path, {"metadata": {"labels": {"app": "x"}}})
    assert recorder.take() == []
    cluster.api.patch(path, {"metadata": {"annotations": {"example.com/1": "other"}}})
    assert set(recorder.take()) == {VALIDATE}  # again where somebody else writes meanwhile


@pytest.mark.parametrize("excluded", ["kube-system", "gpu-operator", "gpu-admission-system"])
def test_excluded_namespaces_are_not_reviewed(
    cluster: Cluster, recorder: Recorder, excluded: str
) -> None:
    if not cluster.api.answers(f"/api/v1/namespaces/{excluded}"):
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": excluded}})
    create(cluster.api, make_pod(limits=GPU), excluded)
    assert recorder.take() == []


def test_the_controllers_own_writes_are_not_reviewed(
    cluster: Cluster, recorder: Recorder, namespace: str
) -> None:
    controller = cluster.client(cluster.kubeconfig(ACCOUNT, ["system:masters"]))
    pod = create(controller, make_pod(limits=GPU, schedulingGates=GATES), namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    controller.patch(path, {"spec": {"schedulingGates": []}}, "application/merge-patch+json")
    assert recorder.take() == []


WORKLOAD = "kueue.x-k8s.io/workload"
JOB_PATHS = ["/mutate-batch-v1-job", "/validate-batch-v1-job"]


def suspended_job(**job: Any) -> dict[str, Any]:
    """Return a Job whose pods nobody makes."""
    return make_job("", 1, metadata={"generateName": "j-"}, suspend=True, **job)


@pytest.mark.parametrize(
    ("job", "at_creation", "at_update"),
    [
        (suspended_job(pod={"limits": GPU}), JOB_PATHS, JOB_PATHS[1:]),
        (suspended_job(labels={QUEUE: "q"}), JOB_PATHS, JOB_PATHS),
        (suspended_job(pod={"annotations": {WORKLOAD: "w"}}), JOB_PATHS, JOB_PATHS[1:]),
        (suspended_job(), [], []),
        (suspended_job(pod={"labels": {"a": "b"}}, labels={"a": "b"}), [], []),
    ],
    ids=["GPU", "queue label", "mark of admission", "neither", "foreign labels"],
)
def test_only_jobs_with_a_queue_or_gpus_are_reviewed(
    cluster: Cluster,
    recorder: Recorder,
    namespace: str,
    job: dict[str, Any],
    at_creation: list[str],
    at_update: list[str],
) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    created = cluster.api.post(jobs, job)
    assert recorder.take() == at_creation
    cluster.api.patch(f"{jobs}/{created['metadata']['name']}", {"spec": {"parallelism": 2}})
    assert recorder.take() == at_update


def test_expressions_about_pod_templates_in_a_list_are_accepted(
    cluster: Cluster, recorder: Recorder
) -> None:
    found = set()
    for document in documents(recorder):
        query = "fieldManager=test&fieldValidation=Strict&force=true&dryRun=All"
        stored = cluster.api.patch(
            f"{path_of(document)}?{query}", document, "application/apply-patch+yaml"
        )
        found |= {hook["name"] for hook in stored["webhooks"]}
    assert {"mjobset.kb.io", "vjobset.kb.io", "pjobset.kb.io"} <= found


JUDGED = [
    {"spec": {"schedulingGates": GATES[1:]}},
    {"spec": {"nodeSelector": {"a": "b"}}},
    {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
    {"metadata": {"labels": {QUEUE: "other"}}},
    {"metadata": {"labels": {QUEUE: None}}},
    {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}},
    {"metadata": {"annotations": {"kueue.x-k8s.io/role-hash": None}}},
    {"metadata": {"annotations": {"gpu-admission.dev/x": "y"}}},
]
IGNORED: list[dict[str, Any]] = [
    {"metadata": {"labels": {"app": "other"}}},
    {"metadata": {"annotations": {"example.com/a": "b"}}},
    {"metadata": {"finalizers": []}},
    {"spec": {"containers": [{"name": "main", "image": "example/y", "resources": {
        "requests": GPU, "limits": GPU}}]}},
]  # fmt: skip


@pytest.fixture(scope="module")
def held(cluster: Cluster, recorder: Recorder, namespace: str) -> str:
    """Path of a gated GPU pod with labels and annotations of ours."""
    pod = make_pod(
        limits=GPU,
        labels={QUEUE: "q", "app": "x"},
        annotations={"kueue.x-k8s.io/role-hash": "x"},
        schedulingGates=GATES,
    )
    created = create(cluster.api, pod, namespace)
    recorder.take()
    return f"/api/v1/namespaces/{namespace}/pods/{created['metadata']['name']}"


@pytest.mark.parametrize("change", JUDGED, ids=str)
def test_an_update_of_what_we_judge_is_validated(
    cluster: Cluster, recorder: Recorder, held: str, change: dict[str, Any]
) -> None:
    cluster.api.patch(f"{held}?dryRun=All", change)
    assert recorder.take() == [VALIDATE]


@pytest.mark.parametrize("change", IGNORED, ids=str)
def test_any_other_update_is_not_reviewed(
    cluster: Cluster, recorder: Recorder, held: str, change: dict[str, Any]
) -> None:
    cluster.api.patch(f"{held}?dryRun=All", change)
    assert recorder.take() == []


def test_a_status_update_and_a_deletion_are_not_reviewed(
    cluster: Cluster, recorder: Recorder, namespace: str
) -> None:
    created = create(cluster.api, make_pod(limits=GPU), namespace)
    recorder.take()
    path = f"/api/v1/namespaces/{namespace}/pods/{created['metadata']['name']}"
    cluster.api.patch(f"{path}/status", {"status": {"phase": "Running"}})
    cluster.api.delete(path)
    assert recorder.take() == []


def test_a_pod_that_becomes_ours_is_validated(
    cluster: Cluster, recorder: Recorder, namespace: str
) -> None:
    created = create(cluster.api, make_pod(), namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{created['metadata']['name']}"
    cluster.api.patch(path, {"metadata": {"labels": {QUEUE: "q"}}})
    assert recorder.take() == [VALIDATE]


def test_without_the_webhook_only_pods_that_concern_us_are_refused(
    cluster: Cluster, recorder: Recorder, namespace: str
) -> None:
    recorder.stop()
    try:
        create(cluster.api, make_pod(limits={"cpu": "1"}), namespace)
        with pytest.raises(RestError) as refused:
            create(cluster.api, make_pod(limits=GPU), namespace)
        assert refused.value.status == 500
        assert "failed calling webhook" in str(refused.value)
        assert "mpod.kb.io" in str(refused.value)
    finally:
        recorder.start()
