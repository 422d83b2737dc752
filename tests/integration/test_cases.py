"""What people who do this job wrote, on a real control plane: a manifest, and what becomes of it.

Each file of ``cases`` begins with what is expected of the objects that follow:

* ``starts``: pods that are released, and owners that run;
* ``waits``: objects that are held, with the reason that a pod gives, or nothing;
* ``plain``: objects that are stored as if nobody reviewed them;
* ``usage``: what is reserved in a ClusterQueue, by flavor and resource;
* ``conditions``: of other objects; ``told``: what the Workload of an owner says of its pods;
* ``priority``, ``finalizers`` and ``keeps`` (labels) of objects;
* ``phases``: what a kubelet says of a pod, one after the other;
* ``again``: the manifest is applied a second time; ``change`` or ``replace``: what a user does;
  ``then`` holds afterwards.

An object is ``KIND/NAMESPACE/NAME``.
"""

import re
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from admission.base import names
from admission.kube import resources
from tests.builders.pods import make_pod
from tests.controlplane import nodes, waiting
from tests.controlplane.rest import MERGE, Json, RestError
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

FOLDER = Path(__file__).parent / "cases"
NODES = {
    "a1": "NVIDIA-A100-SXM4-80GB", "a2": "NVIDIA-A100-SXM4-80GB", "h1": "NVIDIA-H100-80GB-HBM3",
}  # fmt: skip


def read(name: str) -> tuple[Json, list[Json]]:
    """What is expected, and the objects of a case."""
    first, *rest = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    return first["expected"], rest


def path_of(kind: str, namespace: str, name: str = "", api_version: str = "") -> str:
    versions = (api_version,) if api_version else VERSIONS
    found = (resources.of_kind(version, kind) for version in versions)
    resource = next((one for one in found if one is not None), None)
    if resource is None:
        group, _, version = (api_version or "apps/v1").rpartition("/")
        plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{scope}/{plural}{'/' if name else ''}{name}"
    return resource.path(namespace, name)


VERSIONS = ("v1", "batch/v1", "apps/v1", "kueue.x-k8s.io/v1beta2", "scheduling.k8s.io/v1")


class Case:
    """The objects of one case in the cluster.

    Attributes:
        system: the installation.
    """

    def __init__(self, system: Installed) -> None:
        self.system = system
        self.api = system.api
        self._made: list[str] = []
        self._default_priority = 0

    def apply(self, documents: list[Json]) -> None:
        """Create objects, or write what the manifest says over what is there."""
        for document in documents:
            metadata = document["metadata"]
            namespace = metadata.get("namespace", "")
            where = (document["kind"], namespace)
            version = document["apiVersion"]
            path = path_of(*where, metadata["name"], version)
            try:
                self.api.post(path_of(*where, "", version), document)
            except RestError as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise
                self.api.patch(path, document)
            if path not in self._made:
                self._made.append(path)
            if document["kind"] == "LocalQueue":
                self.system.wait_webhook()
            if document.get("globalDefault"):
                self._default_priority = document["value"]
                self._wait_for_priority(document["value"])

    def _wait_for_priority(self, value: int) -> None:
        """Wait until the API server gives pods that name no class a priority.

        Before that it refuses those that a webhook changes.
        """
        pod = make_pod("asks")
        waiting.until(
            lambda: self.api.post("/api/v1/namespaces/default/pods?dryRun=All", pod)["spec"][
                "priority"
            ] == value,
            what=f"pods get priority {value}",
        )  # fmt: skip

    def get(self, reference: str) -> Json:
        kind, namespace, name = reference.split("/")
        return self.api.get(path_of(kind, namespace, name))

    def is_held(self, reference: str) -> bool:
        found = self.get(reference)
        if reference.startswith("Pod/"):
            gates = found["spec"].get("schedulingGates", [])
            return any(gate["name"] == names.ADMISSION_GATE for gate in gates)
        return bool(found["spec"].get("suspend"))

    def workload_of(self, reference: str) -> Json | None:
        uid = self.get(reference)["metadata"]["uid"]
        namespace = reference.split("/")[1]
        listed = self.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")["items"]
        for one in listed:
            if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", ())):
                return dict(one)
        return None

    def usage(self, queue: str) -> dict[str, dict[str, str]]:
        status = self.api.get(f"{KUEUE}/clusterqueues/{queue}").get("status", {})
        return {
            flavor["name"]: {
                one["name"]: one["total"] for one in flavor["resources"] if one["total"] != "0"
            }
            for flavor in status.get("flavorsReservation", ())
            if any(one["total"] != "0" for one in flavor["resources"])
        }

    def delete(self) -> None:
        """Delete what the case has made; namespaces go with everything else at the end."""
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for path in reversed(self._made):
            if re.fullmatch("/api/v1/namespaces/[^/]+", path) is None:
                self._ask("PATCH", path, {"metadata": {"finalizers": None}})
                self._ask("DELETE", path, now)
        if self._default_priority:
            self._wait_for_priority(0)
        for queue in ("gpus", "full"):
            waiting.until(partial(self._is_used, queue, {}), what=f"{queue} is free")

    def _ask(self, method: str, path: str, body: Json) -> None:
        """Send a request about what may be gone."""
        content_type = MERGE if method == "PATCH" else "application/json"
        try:
            self.api.text(method, path, body, content_type)
        except RestError as refused:
            if refused.status != HTTPStatus.NOT_FOUND:
                raise

    # ------------------------------------------------------------------------- what is expected

    def hold_to(self, expected: Json) -> None:
        """Wait until everything is as expected."""
        for reference in expected.get("starts", ()):
            waiting.until(partial(self._runs, reference), what=f"{reference} starts")
        for reference, reason in expected.get("waits", {}).items():
            self._waits(reference, reason)
        for reference in expected.get("plain", ()):
            found = self.get(reference)
            assert names.MANAGED_LABEL not in found["metadata"].get("labels", {}), reference
            assert not self.is_held(reference), reference
        for queue, wanted in expected.get("usage", {}).items():
            amounts = {
                flavor: {resource: str(amount) for resource, amount in of.items()}
                for flavor, of in wanted.items()
            }
            waiting.until(partial(self._is_used, queue, amounts), what=f"{queue}: {amounts}")
        for reference, wanted in expected.get("conditions", {}).items():
            for kind, status in wanted.items():
                self._has_condition(reference, kind, status)
        self._hold_to_objects(expected)

    def _hold_to_objects(self, expected: Json) -> None:
        for reference, text in expected.get("told", {}).items():
            waiting.until(partial(self._tells, reference, text), what=text)
        for reference, priority in expected.get("priority", {}).items():
            found = waiting.until(partial(self.workload_of, reference), what=reference)
            assert found["spec"]["priority"] == priority
        for reference, finalizers in expected.get("finalizers", {}).items():
            assert self.get(reference)["metadata"].get("finalizers", []) == finalizers
        for reference, labels in expected.get("keeps", {}).items():
            assert set(labels) <= self.get(reference)["metadata"]["labels"].keys()

    def _runs(self, reference: str) -> bool:
        kind, namespace, name = reference.split("/")
        if self.api.lacks(path_of(kind, namespace, name)):
            return False
        return not self.is_held(reference)

    def _is_used(self, queue: str, amounts: dict[str, dict[str, str]]) -> bool:
        """Whether these amounts of these flavors are reserved, and no other flavor."""
        used = self.usage(queue)
        found = {
            flavor: {resource: used.get(flavor, {}).get(resource) for resource in of}
            for flavor, of in amounts.items()
        }
        return found == amounts and used.keys() == amounts.keys()

    def _tells(self, reference: str, text: str) -> bool:
        found = self.workload_of(reference) or {}
        listed = found.get("status", {}).get("conditions", ())
        return any(text in one["message"] for one in listed)

    def _has_condition(self, reference: str, kind: str, status: str) -> None:
        group, _, name = reference.partition("/")

        def is_so() -> bool:
            found = self.get(f"{group}//{name}").get("status", {}).get("conditions", ())
            return any((one["type"], one["status"]) == (kind, status) for one in found)

        waiting.until(is_so, what=f"{reference} says {kind}={status}")

    def _waits(self, reference: str, reason: str) -> None:
        if reason:
            _, namespace, name = reference.split("/")
            self.system.wait_condition(namespace, name, reason)
        else:
            waiting.until(lambda: self.workload_of(reference), what=f"{reference} has a Workload")
        assert self.is_held(reference)

    def fill(self, before: list[Json]) -> None:
        """Have pods run that hold quota of a flavor."""
        for index, one in enumerate(before):
            product = {"nvidia.com/gpu.product": NODES["h1" if one["flavor"] == "h100" else "a1"]}
            for number in range(one["pods"]):
                name = f"before-{index}-{number}"
                pod = make_pod(
                    name,
                    gpus=one["gpus"],
                    namespace=one["namespace"],
                    labels={"flavor": one["flavor"]},
                    nodeSelector=product,
                )
                self.apply([pod])
                self.hold_to({"starts": [f"Pod/{one['namespace']}/{name}"]})

    def end(self, flavor: str, namespace: str = "lab") -> None:
        """Delete the pods that hold quota of a flavor."""
        selector = f"/api/v1/namespaces/{namespace}/pods?labelSelector=flavor={flavor}"
        self.api.delete(selector, {"gracePeriodSeconds": 0})


@pytest.fixture(scope="module")
def system(whole_installation: Installed) -> Installed:
    for name, product in NODES.items():
        whole_installation.cluster.add_gpu_node(name, product=product, taints=[nodes.GPU_TAINT])
    for document in yaml.safe_load_all((FOLDER / "base.yaml").read_text()):
        metadata = document["metadata"]
        path = path_of(document["kind"], metadata.get("namespace", ""), "", document["apiVersion"])
        whole_installation.api.post(path, document)
    for namespace in ("lab", "full"):
        whole_installation.wait_for_queue(namespace)
    return whole_installation


@pytest.fixture
def case(system: Installed) -> Iterator[Case]:
    made = Case(system)
    yield made
    made.delete()


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "base")
)
def test_what_people_wrote_does_what_they_expect(case: Case, name: str) -> None:
    expected, documents = read(name)
    case.fill(expected.get("before", []))
    case.apply(documents)
    case.hold_to(expected)
    if expected.get("again"):
        case.apply(documents)
        case.hold_to(expected)
    if "change" in expected:
        kind, namespace, of = expected["change"]["object"].split("/")
        case.api.patch(path_of(kind, namespace, of), expected["change"]["merge"])
    for reference, phases in expected.get("phases", {}).items():
        kind, namespace, of = reference.split("/")
        for phase in phases:
            status = {"status": {"phase": phase}}
            case.api.patch(f"{path_of(kind, namespace, of)}/status", status)
    if "replace" in expected:
        kind, namespace, of = expected["replace"]["object"].split("/")
        found = case.get(expected["replace"]["object"])
        found["metadata"]["labels"] = expected["replace"]["labels"]
        del found["metadata"]["resourceVersion"]  # whatever its status says meanwhile
        case.api.put(path_of(kind, namespace, of), found)
    if "end" in expected:
        case.end(expected["end"])
    case.hold_to(expected.get("then", {}))
