"""What a case states of objects in a cluster, and what people do to them.

The first document of a case is its ``expected``, in the words of `Case.hold_to` and `Case.do`. An
object is ``KIND/NAMESPACE/NAME``, several of one kind are ``KIND/NAMESPACE/LABEL=VALUE``.

Before anything is made:

* ``before``: pods that run and hold quota of a flavor;
* ``as``: who makes an object, if not an administrator;
* ``padded``: annotations that get so many characters.

A document, or a member of a list in it, that says ``times`` is there so often, each with its
number in place of ``{n}``.

What the API server answers: ``warns`` has a text of the warnings about a new object, ``refused``
one of the refusal. What becomes of objects:

* ``starts``: pods that are released, and owners that run; ``runs``: pods on a node;
* ``waits``: objects that are held, with the reason that a pod gives, or nothing;
* ``held``: how many objects wait; ``released``: how many pods wait for nothing;
* ``gone``: objects that are no more;
* ``plain``: objects that are stored as if nobody reviewed them;
* ``usage``: what is reserved in a ClusterQueue, by flavor and resource;
* ``conditions``: of other objects; ``ended``: Jobs that say so;
* ``told``: what the Workload of an owner says of its pods;
* ``says``, ``never_says`` and ``at_most``: what a pod says of its waiting, what not, and in how
  many characters;
* ``priority``, ``finalizers`` and ``keeps`` (labels) of objects;
* ``workloads``: how many Workloads a namespace has; ``events``: the reason of an event.

Each of ``steps`` is something that is done, and what holds afterwards:

* ``create``: documents that are not made at first; ``again``: all are applied once more;
* ``change``: a merge patch; ``replace``: other labels; ``remake``: an object is deleted, and made
  again with something else; ``delete``: objects; ``delete_workloads``: of a namespace;
* ``phases``: what a kubelet says of a pod, one after the other; ``fail``: pods, one by one;
* ``end``: pods of ``before`` end; ``restart``: webhook and controller start again;
* ``restore``: objects are exported, deleted, and created again in this order, as a backup does;
* ``taint``: nodes get a taint, which is taken off at the end;
* ``kubectl``: what an ``administrator`` or an ``editor`` types; ``node``: nodes with labels come.
"""

import copy
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import pytest

from admission.base import names
from admission.kube import resources
from tests.builders.pods import make_pod
from tests.controlplane import build, waiting
from tests.controlplane.rest import MERGE, Json, Rest, RestError
from tests.integration import kubelet
from tests.integration.installed import KUEUE, Installed

NODES: Final = {
    "a1": "NVIDIA-A100-SXM4-80GB", "a2": "NVIDIA-A100-SXM4-80GB", "h1": "NVIDIA-H100-80GB-HBM3",
}  # fmt: skip
SET_UP: Final = ("before", "as", "padded", "waiting_for", "steps")
_VERSIONS: Final = {
    "Pod": "v1", "Namespace": "v1", "Job": "batch/v1", "ReplicaSet": "apps/v1",
    "ClusterQueue": "kueue.x-k8s.io/v1beta2", "Workload": "kueue.x-k8s.io/v1beta2",
    "LocalQueue": "kueue.x-k8s.io/v1beta2", "Cohort": "kueue.x-k8s.io/v1beta2",
}  # fmt: skip
_RESTORED: Final = ("labels", "annotations", "name", "namespace")
_NOW: Final = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


class Case:
    """The objects of one case in the cluster.

    Attributes:
        system: the installation.
    """

    def __init__(self, system: Installed, expected: Json, documents: Iterable[Json]) -> None:
        self.system = system
        self.api = system.api
        self._expected = expected
        self._documents = list(self._completed(documents))
        self._versions = dict(_VERSIONS) | {
            document["kind"]: document["apiVersion"] for document in self._documents
        }
        self._made: list[str] = []
        self._untainted: dict[str, list[Json]] = {}
        """Taints that nodes had before, by path."""
        self._default_priority = 0

    def run(self) -> None:
        """Make the objects, do what is done to them, and hold them to what is expected."""
        later = {reference for step in self._steps for reference in step.get("create", ())}
        self._fill(self._expected.get("before", []))
        first = [one for one in self._documents if self._reference(one) not in later]
        self.apply(first)
        self.hold_to(self._expected)
        for step in self._steps:
            self.do(step)
            self.hold_to(step)

    @property
    def _steps(self) -> list[Json]:
        found: list[Json] = self._expected.get("steps", [])
        return found

    def _completed(self, documents: Iterable[Json]) -> Iterable[Json]:
        """The documents with what is too long to be written down."""
        for document in _repeated(list(documents)):
            reference = self._reference(document)
            for key, length in self._expected.get("padded", {}).get(reference, {}).items():
                document["metadata"].setdefault("annotations", {})[key] = "x" * length
            yield document

    @staticmethod
    def _reference(document: Json) -> str:
        metadata = document["metadata"]
        name = metadata.get("name") or metadata["generateName"]
        return f"{document['kind']}/{metadata.get('namespace', '')}/{name}"

    # ------------------------------------------------------------------------ where objects are

    def path_of(self, kind: str, namespace: str, name: str = "") -> str:
        version = self._versions[kind]
        resource = resources.of_kind(version, kind)
        if resource is not None:
            return resource.path(namespace, name)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{scope}/{kind.lower()}s{'/' if name else ''}{name}"

    def path(self, reference: str) -> str:
        return self.path_of(*reference.split("/", 2))

    def get(self, reference: str) -> Json:
        return self.api.get(self.path(reference))

    def listed(self, reference: str) -> list[Json]:
        """The objects with a label, or the one that a reference names, without ending ones."""
        kind, namespace, name = reference.split("/", 2)
        if "=" in name:
            selected = f"{self.path_of(kind, namespace)}?labelSelector={name}"
            listed = self.api.get(selected)["items"]
        else:
            listed = [self.get(reference)]
        return [one for one in listed if "deletionTimestamp" not in one["metadata"]]

    def workload_of(self, reference: str) -> Json | None:
        uid = self.get(reference)["metadata"]["uid"]
        namespace = reference.split("/")[1]
        for workload in self.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")["items"]:
            owners = workload["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == uid for owner in owners):
                return dict(workload)
        return None

    # ---------------------------------------------------------------------------- what is done

    def apply(self, documents: Iterable[Json]) -> None:
        """Create objects, or write what the manifest says over what is there."""
        for document in documents:
            reference = self._reference(document)
            refusal = self._expected.get("refused", {}).get(reference)
            if refusal is not None:
                with pytest.raises(RestError, match=re.escape(refusal)):
                    self._create(document)
                continue
            try:
                self._made.append(self._create(document))
            except RestError as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise
                self.api.patch(self.path(reference), document)
            self._wait_until_in_effect(document)

    def _create(self, document: Json) -> str:
        """Create an object, and compare the warnings; its path."""
        reference = self._reference(document)
        kind, namespace, _ = reference.split("/", 2)
        path = self.path_of(kind, namespace)
        made, warnings = self._maker(reference).post_warned(path, document)
        expected = self._expected.get("warns", {}).get(reference)
        if expected is not None:
            assert any(expected in warning for warning in warnings), warnings
        return self.path_of(kind, namespace, made["metadata"]["name"])

    def _maker(self, reference: str) -> Rest:
        """The client of who makes an object."""
        name = self._expected.get("as", {}).get(reference)
        if name is None:
            return self.api
        cluster = self.system.cluster
        headers: dict[str, Any] = {
            "Impersonate-User": name.encode(),
            "Impersonate-Group": "system:masters",
        }
        return Rest(cluster.port, cluster.ca_file, cluster.admin_token, headers=headers)

    def _wait_until_in_effect(self, document: Json) -> None:
        """Wait where the API server or the webhook takes a moment until it knows an object."""
        if document["kind"] == "LocalQueue":
            self.system.wait_webhook()
        if document.get("globalDefault"):
            self._default_priority = document["value"]
            self._wait_for_priority(document["value"])
        if document["kind"] == "ValidatingAdmissionPolicyBinding":
            probe = make_pod("denied-probe")
            path = "/api/v1/namespaces/lab/pods"
            self.api.post(path, probe)
            waiting.until(partial(self._is_denied, f"{path}/denied-probe"), what="it is in effect")
            self.api.delete(f"{path}/denied-probe", _NOW)

    def _is_denied(self, path: str) -> bool:
        try:
            self.api.patch(f"{path}?dryRun=All", {"metadata": {"annotations": {"a": "b"}}})
        except RestError as refused:
            return refused.status == HTTPStatus.UNPROCESSABLE_ENTITY
        return False

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

    def do(self, step: Json) -> None:
        """Do what people, kubelets and backups do."""
        for action, argument in step.items():
            if action in _ACTIONS:
                _ACTIONS[action](self, argument)

    def _create_later(self, references: list[str]) -> None:
        self.apply(one for one in self._documents if self._reference(one) in references)

    def _again(self, _: bool) -> None:
        self.apply(self._documents)

    def _change(self, change: Json) -> None:
        path = self.path(change["object"])
        status = "/status" if "status" in change["merge"] else ""
        self.api.patch(f"{path}{status}", change["merge"])

    def _replace(self, replace: Json) -> None:
        while True:
            stored = self.get(replace["object"])
            stored["metadata"]["labels"] = replace["labels"]
            try:
                self.api.put(self.path(replace["object"]), stored)
            except RestError as error:
                if error.status != HTTPStatus.CONFLICT:  # its scheduler and kubelet write, too
                    raise
            else:
                return

    def _remake(self, change: Json) -> None:
        reference = change["object"]
        (document,) = [one for one in self._documents if self._reference(one) == reference]
        self._delete([reference])
        self._is_gone_at_last(reference)
        spec = {**document["spec"], **change["merge"]["spec"]}
        self._create({**document, "spec": spec})
        self._wait_until_in_effect(document)

    def _delete_workloads(self, namespaces: list[str]) -> None:
        for namespace in namespaces:
            self.api.delete(f"{KUEUE}/namespaces/{namespace}/workloads", dict(_NOW))

    def _delete(self, references: list[str]) -> None:
        for reference in references:
            self.api.delete(self.path(reference), dict(_NOW))

    def _phases(self, phases: dict[str, list[str]]) -> None:
        for reference, listed in phases.items():
            for phase in listed:
                for pod in self.listed(reference):
                    self._say_phase(pod, phase)

    def _say_phase(self, pod: Json, phase: str) -> None:
        metadata = pod["metadata"]
        path = self.path_of("Pod", metadata["namespace"], metadata["name"])
        kubelet.say_phase(self.api, path, phase)

    def _fail(self, times: dict[str, int]) -> None:
        """Have pods fail on their node, and each pod that comes in their place."""
        for reference, number in times.items():
            for _ in range(number):
                pod = waiting.until(partial(self._bound, reference), what=f"{reference} is bound")
                self._say_phase(pod, "Failed")

    def _bound(self, reference: str) -> Json | None:
        for pod in self.listed(reference):
            is_over = pod["status"].get("phase") in {"Failed", "Succeeded"}
            if pod["spec"].get("nodeName") and not is_over:
                return pod
        return None

    def _end(self, flavor: str) -> None:
        selector = f"/api/v1/namespaces/lab/pods?labelSelector=flavor={flavor}"
        self.api.delete(selector, {"gracePeriodSeconds": 0})

    def _restart(self, _: bool) -> None:
        self.system.stop()
        self.system.start()

    def _restore(self, references: list[str]) -> None:
        saved = [
            (reference, [self._as_saved(reference, one) for one in self.listed(reference)])
            for reference in references
        ]
        for reference, documents in reversed(saved):
            kind, namespace, _ = reference.split("/", 2)
            for document in documents:
                self._ask("DELETE", self.path_of(kind, namespace, document["metadata"]["name"]))
        for reference, _ in saved:
            self._is_gone_at_last(reference)
        for _, documents in saved:
            for document in documents:
                self._create(document)

    def _as_saved(self, reference: str, document: Json) -> Json:
        """What a backup creates again: without owners, status and node."""
        saved = copy.deepcopy(document)
        kind = reference.partition("/")[0]
        saved |= {"kind": kind, "apiVersion": self._versions[kind]}
        saved.pop("status", None)
        metadata = saved["metadata"]
        saved["metadata"] = {key: metadata[key] for key in _RESTORED if key in metadata}
        saved["spec"].pop("nodeName", None)
        return saved

    def _kubectl(self, lines: dict[str, list[str]]) -> None:
        program = str(build.folder() / "kubectl")
        editor = self.system.cluster.kubeconfig("editor")
        kubeconfigs = {"administrator": self.system.kubeconfig, "editor": str(editor)}
        for who, typed in lines.items():
            for line in typed:
                done = subprocess.run(
                    [program, f"--kubeconfig={kubeconfigs[who]}", *shlex.split(line)],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=waiting.PATIENCE_SECONDS,
                )
                assert done.returncode == 0, done.stderr

    def _node(self, nodes: dict[str, dict[str, str]]) -> None:
        """Nodes of a product that no other case has; they go with the case."""
        for name, labels in nodes.items():
            self._made.append(f"/api/v1/nodes/{name}")
            self.system.cluster.add_gpu_node(name, product="NVIDIA-L4", labels=labels)

    def _taint(self, taints: dict[str, Json]) -> None:
        for name, taint in taints.items():
            path = f"/api/v1/nodes/{name}"
            self._untainted.setdefault(path, self.api.get(path)["spec"].get("taints", []))
            self.api.patch(path, {"spec": {"taints": [*self._untainted[path], taint]}})

    def _ask(self, method: str, path: str, body: Json | None = None) -> None:
        """Send a request about what may be gone."""
        content_type = MERGE if method == "PATCH" else "application/json"
        try:
            self.api.text(method, path, dict(_NOW) if body is None else body, content_type)
        except RestError as refused:
            if refused.status != HTTPStatus.NOT_FOUND:
                raise

    def _fill(self, before: list[Json]) -> None:
        """Have pods run that hold quota of a flavor."""
        for index, group in enumerate(before):
            product = {
                "nvidia.com/gpu.product": NODES["h1" if group["flavor"] == "h100" else "a1"]
            }
            for number in range(group["pods"]):
                name = f"before-{index}-{number}"
                pod = make_pod(
                    name,
                    gpus=group["gpus"],
                    namespace=group["namespace"],
                    labels={"flavor": group["flavor"]},
                    nodeSelector=product,
                )
                self.apply([pod])
                self._starts(f"Pod/{group['namespace']}/{name}")

    def delete(self) -> None:
        """Delete what the case has made; namespaces go with everything else at the end."""
        for path, taints in self._untainted.items():
            self.api.patch(path, {"spec": {"taints": taints}})
        for path in reversed(self._made):
            if re.fullmatch("/api/v1/namespaces/[^/]+", path) is None:
                self._delete_whatever_holds_it(path)
        for namespace in ("lab", "full"):  # what controllers made, and backups
            for plural in ("deployments", "statefulsets", "replicasets"):
                self.api.delete(f"/apis/apps/v1/namespaces/{namespace}/{plural}", dict(_NOW))
            self.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs", dict(_NOW))
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods", dict(_NOW))
        if self._default_priority:
            self._wait_for_priority(0)
        for queue in ("gpus", "full"):
            waiting.until(partial(self._is_used, queue, {}), what=f"{queue} is free")

    def _delete_whatever_holds_it(self, path: str) -> None:
        self._ask("DELETE", path)
        if not self.api.lacks(path):
            self._ask("PATCH", path, {"metadata": {"finalizers": None}})

    # ------------------------------------------------------------------------- what is expected

    def hold_to(self, expected: Json) -> None:
        """Wait until everything is as expected.

        Raises:
            AssertionError: it is not.
            KeyError: a word means nothing.
            TimeoutError: it does not become so.
        """
        for word, value in expected.items():
            if word in _ACTIONS or word in SET_UP or word in {"warns", "refused"}:
                continue
            check = _EXPECTATIONS[word]
            if isinstance(value, Mapping):
                for reference, wanted in value.items():
                    check(self, reference, wanted)
            else:
                for reference in value:
                    check(self, reference)

    @staticmethod
    def _is_held(document: Json) -> bool:
        if "containers" in document["spec"]:
            gates = document["spec"].get("schedulingGates", [])
            return any(gate["name"] == names.ADMISSION_GATE for gate in gates)
        return bool(document["spec"].get("suspend"))

    def _starts(self, reference: str) -> None:
        def is_started() -> bool:
            return not self.api.lacks(self.path(reference)) and not self._is_held(
                self.get(reference)
            )

        waiting.until(is_started, what=f"{reference} starts")

    def _runs(self, reference: str) -> None:
        waiting.until(
            lambda: self.get(reference)["status"].get("phase") == "Running",
            what=f"{reference} runs",
        )

    def _waits(self, reference: str, reason: str) -> None:
        if reason:
            _, namespace, name = reference.split("/")
            self.system.wait_condition(namespace, name, reason)
        else:
            waiting.until(lambda: self.workload_of(reference), what=f"{reference} has a Workload")
        assert self._is_held(self.get(reference))

    def _released(self, reference: str, number: int) -> None:
        def are_released() -> bool:
            pods = self.listed(reference)
            return len(pods) == number and not any(map(self._is_held, pods))

        waiting.until(are_released, what=f"{number} pods {reference} wait for nothing")

    def _held(self, reference: str, number: int) -> None:
        def are_held() -> bool:
            objects = self.listed(reference)
            return len(objects) == number and all(map(self._is_held, objects))

        waiting.until(are_held, what=f"{number} of {reference} wait")

    def _events(self, reference: str, reason: str) -> None:
        _, namespace, name = reference.split("/")
        selector = f"involvedObject.name={name},reason={reason}"
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector={selector}"
        waiting.until(lambda: self.api.get(path)["items"], what=f"{reference}: event {reason}")

    def _is_gone_at_last(self, reference: str) -> None:
        def is_gone() -> bool:
            kind, namespace, name = reference.split("/", 2)
            if "=" not in name:
                return self.api.lacks(self.path(reference))
            selected = f"{self.path_of(kind, namespace)}?labelSelector={name}"
            return not self.api.get(selected)["items"]

        waiting.until(is_gone, what=f"{reference} is gone")

    def _plain(self, reference: str) -> None:
        stored = self.get(reference)
        assert names.MANAGED_LABEL not in stored["metadata"].get("labels", {}), reference
        assert not self._is_held(stored), reference

    def _usage(self, queue: str, wanted: Json) -> None:
        amounts = {
            flavor: {resource: str(amount) for resource, amount in by_resource.items()}
            for flavor, by_resource in wanted.items()
        }
        try:
            waiting.until(partial(self._is_used, queue, amounts), what=f"{queue}: {amounts}")
        except TimeoutError as late:
            late.add_note(f"used are {self._used(queue)}")
            raise

    def _used(self, queue: str) -> dict[str, dict[str, str]]:
        status = self.api.get(f"{KUEUE}/clusterqueues/{queue}").get("status", {})
        return {
            flavor["name"]: {
                amount["name"]: amount["total"]
                for amount in flavor["resources"]
                if amount["total"] != "0"
            }
            for flavor in status.get("flavorsReservation", ())
            if any(amount["total"] != "0" for amount in flavor["resources"])
        }

    def _is_used(self, queue: str, amounts: dict[str, dict[str, str]]) -> bool:
        """Whether these amounts of these flavors are reserved, and no other flavor."""
        used = self._used(queue)
        compared = {
            flavor: {resource: used.get(flavor, {}).get(resource) for resource in by_resource}
            for flavor, by_resource in amounts.items()
        }
        return compared == amounts and used.keys() == amounts.keys()

    def _conditions(self, reference: str, wanted: dict[str, str]) -> None:
        for kind, status in wanted.items():
            waiting.until(
                partial(self._has_condition, reference, kind, status),
                what=f"{reference} says {kind}={status}",
            )

    def _has_condition(self, reference: str, kind: str, status: str) -> bool:
        listed = self.get(reference).get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == (kind, status) for one in listed)

    def _ended(self, reference: str) -> None:
        def has_ended() -> bool:
            return any(
                self._has_condition(reference, kind, "True") for kind in ("Complete", "Failed")
            )

        waiting.until(has_ended, what=f"{reference} has ended")

    def _told(self, reference: str, text: str) -> None:
        def is_told() -> bool:
            workload = self.workload_of(reference) or {}
            listed = workload.get("status", {}).get("conditions", ())
            return any(text in one["message"] for one in listed)

        waiting.until(is_told, what=text)

    def _says(self, reference: str, texts: list[str]) -> None:
        _, namespace, name = reference.split("/")
        for text in texts:
            self.system.wait_condition(namespace, name, text=text)

    def _never_says(self, reference: str, texts: list[str]) -> None:
        _, namespace, name = reference.split("/")
        said = str(self.system.condition(namespace, name))
        assert not [text for text in texts if text in said], said

    def _at_most(self, reference: str, characters: int) -> None:
        _, namespace, name = reference.split("/")
        said = self.system.wait_condition(namespace, name)["message"]
        assert len(said) <= characters, said

    def _priority(self, reference: str, priority: int) -> None:
        workload = waiting.until(partial(self.workload_of, reference), what=reference)
        assert workload["spec"]["priority"] == priority

    def _finalizers(self, reference: str, finalizers: list[str]) -> None:
        assert self.get(reference)["metadata"].get("finalizers", []) == finalizers

    def _keeps(self, reference: str, labels: list[str]) -> None:
        assert set(labels) <= self.get(reference)["metadata"]["labels"].keys()

    def _workloads(self, namespace: str, number: int) -> None:
        path = f"{KUEUE}/namespaces/{namespace}/workloads"
        waiting.until(
            lambda: len(self.api.get(path)["items"]) == number,
            what=f"{number} Workloads in {namespace}",
        )


_ACTIONS: Final[Mapping[str, Any]] = {
    "create": Case._create_later,
    "again": Case._again,
    "change": Case._change,
    "replace": Case._replace,
    "remake": Case._remake,
    "delete": Case._delete,
    "delete_workloads": Case._delete_workloads,
    "phases": Case._phases,
    "fail": Case._fail,
    "end": Case._end,
    "restart": Case._restart,
    "restore": Case._restore,
    "kubectl": Case._kubectl,
    "node": Case._node,
    "taint": Case._taint,
}
_EXPECTATIONS: Final[Mapping[str, Any]] = {
    "starts": Case._starts,
    "runs": Case._runs,
    "waits": Case._waits,
    "held": Case._held,
    "released": Case._released,
    "events": Case._events,
    "gone": Case._is_gone_at_last,
    "plain": Case._plain,
    "usage": Case._usage,
    "conditions": Case._conditions,
    "ended": Case._ended,
    "told": Case._told,
    "says": Case._says,
    "never_says": Case._never_says,
    "at_most": Case._at_most,
    "priority": Case._priority,
    "finalizers": Case._finalizers,
    "keeps": Case._keeps,
    "workloads": Case._workloads,
}


def _repeated(value: Any, number: str = "") -> Any:
    """The value with what says ``times`` in it as often as that, each time with its number."""
    if isinstance(value, str):
        return value.replace("{n}", number)
    if isinstance(value, dict):
        return {key: _repeated(item, number) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    found: list[Any] = []
    for item in value:
        times = item.pop("times", None) if isinstance(item, dict) else None
        numbers = [number] if times is None else map(str, range(times))
        found += (_repeated(item, one) for one in numbers)
    return found
