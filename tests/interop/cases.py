"""What is done with each sample: once within its quota to its end, and once over it."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from admission.base import names
from admission.objects import owner_rows
from admission.owners import row_owner, train_job
from admission.owners.row_owner import RowOwner
from tests.controlplane import build, waiting
from tests.controlplane.rest import Json, RestError
from tests.interop.lab import FINISH, PRODUCT, Lab

SAMPLES: Final = Path(__file__).parent / "samples"
_WITHIN_SECONDS: Final = 120
_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
_PHASES: Final = (
    "status.state",
    "status.phase",
    "status.jobDeploymentStatus",
    "status.serviceStatus",
    "status.state.phase",
)


@dataclass(frozen=True)
class Sample:
    """A manifest, and what its operator makes of it.

    Attributes:
        name: of its files.
        manifest: the object.
        pods: how many pods its operator makes.
        gpus: what they ask for.
        over: GPUs of a queue in which nothing of it fits; by itself one less than it asks for.
        workloads: how many Workloads it has.
        gated: its pods are made before it is admitted, and wait.
        held: what its operator says while it is held; empty for nothing.
        runs: what its operator says while it runs; empty for nothing.
        ends: what its operator says at its end; empty for one that never ends.
        finish: pattern in the names of the pods that end by themselves.
        made: spec of the JobSet that is made of a TrainJob, as far as it is read.
    """

    name: str
    manifest: Json
    pods: int
    gpus: int
    over: int
    workloads: int = 1
    gated: bool = False
    held: str = ""
    runs: str = ""
    ends: str = ""
    finish: str = ""
    made: Json | None = None


def read(name: str) -> Sample:
    """Read a sample."""
    manifest, said = yaml.safe_load_all((SAMPLES / f"{name}.yaml").read_text())
    labels = manifest["metadata"].setdefault("labels", {})
    labels[names.QUEUE_LABEL] = "default"
    said.setdefault("over", said["gpus"] - 1)
    return Sample(name=name, manifest=manifest, **said)


def says(document: Json) -> set[str]:
    """Everything that an operator says: its conditions that are True, and its phases."""
    conditions = document.get("status", {}).get("conditions") or ()
    found = {one["type"] for one in conditions if one.get("status") == "True"}
    for path in _PHASES:
        try:
            value = owner_rows.value_at(document, path)
        except ValueError:
            continue
        if isinstance(value, str):
            found.add(value)
    return found


def owner(document: Json, made: Json | None = None) -> RowOwner:
    """Return the object as the controller reads it, with the JobSet that is made of it."""
    if document["kind"] == owner_rows.TRAIN_JOB.kind:
        joined = {**document, names.MADE_FOR: made}
        converted = msgspec.convert(joined, train_job.TrainJobDocument)
        view = train_job.read(owner_rows.TRAIN_JOB, converted)
        return train_job.TrainJobOwner(owner_rows.TRAIN_JOB, view)
    row = next(one for one in owner_rows.ROWS if one.kind == document["kind"])
    return RowOwner(row, row_owner.read(row, msgspec.convert(document, row_owner.RowDocument)))


@dataclass
class Recording:
    """What an operator said of one object, in its order.

    Attributes:
        entries: what was done then, and the status.
    """

    entries: list[tuple[str, Json]] = field(default_factory=list)


class Case:
    """One sample in the namespace of one team."""

    def __init__(self, lab: Lab, sample: Sample, gpus: int) -> None:
        self._lab, self._sample = lab, sample
        self._api = lab.api
        self.team = lab.add_team(gpus)
        manifest = sample.manifest
        group, _, version = manifest["apiVersion"].rpartition("/")
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        found = self._api.get(crds)["items"]
        kind = (group, manifest["kind"])
        (plural,) = (
            one["spec"]["names"]["plural"]
            for one in found
            if (one["spec"]["group"], one["spec"]["names"]["kind"]) == kind
        )
        self.resource = f"{plural}.{version}.{group}"
        self._path = f"/apis/{manifest['apiVersion']}/namespaces/{self.team}/{plural}"
        self._name = manifest["metadata"]["name"]

    def create(self) -> None:
        self._api.post(self._path, self._sample.manifest)

    def get(self) -> Json:
        return self._api.get(f"{self._path}/{self._name}")

    def delete(self) -> None:
        self._api.delete(f"{self._path}/{self._name}", {"propagationPolicy": "Foreground"})

    def workloads(self, kind: str, status: str) -> list[Json]:
        """Its Workloads with a condition."""
        listed = self._api.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self.team}/workloads")
        return [
            one
            for one in listed["items"]
            for said in one.get("status", {}).get("conditions", ())
            if (said["type"], said["status"]) == (kind, status)
        ]

    def activate(self, *, active: bool) -> None:
        """Evict its Workloads, or let them be admitted again."""
        listed = self._api.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self.team}/workloads")
        for one in listed["items"]:
            name = one["metadata"]["name"]
            path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self.team}/workloads/{name}"
            self._api.patch(path, {"spec": {"active": active}})

    def until(self, look: Callable[[], Any], what: str) -> None:
        def see() -> bool:
            return bool(look())

        try:
            waiting.until(see, what=what, within_seconds=_WITHIN_SECONDS)
        except TimeoutError as late:
            raise CaseError(f"not within {_WITHIN_SECONDS} s: {what}; {self.tell()}") from late

    def tell(self) -> str:
        """What there is now."""
        try:
            said = ", ".join(sorted(says(self.get()))) or "nothing"
        except RestError:
            said = "it is gone"
        pods = [
            f"{one['metadata']['name']} {one.get('status', {}).get('phase')}"
            f"{' gated' if one['spec'].get('schedulingGates') else ''}"
            for one in self._lab.pods(self.team)
        ]
        return f"its operator says {said}; pods: {', '.join(pods) or 'none'}"

    def running(self) -> list[Json]:
        """Its pods that run."""
        return [one for one in self._lab.pods(self.team) if one["status"]["phase"] == "Running"]

    def await_running(self) -> None:
        sample = self._sample
        self.until(
            lambda: len(self.workloads("Admitted", "True")) == sample.workloads, "it is admitted"
        )
        self.until(lambda: len(self.running()) == sample.pods, f"{sample.pods} pods run")
        bare = [one["metadata"]["name"] for one in self.running() if not self._has_injection(one)]
        if bare:
            raise CaseError(f"run without what the admission gives: {', '.join(bare)}")
        if sample.runs:
            self.until(lambda: sample.runs in says(self.get()), f"it says {sample.runs}")
        self.until(lambda: owner(self.get(), sample.made).is_ready(), "its pods are read as ready")
        self.until(
            lambda: len(self.workloads("PodsReady", "True")) == sample.workloads,
            "its Workload says that the pods are ready",
        )

    def _has_injection(self, pod: Json) -> bool:
        """Return whether a pod has what an admission gives: labels and the flavor's nodes."""
        labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
        asks = any(
            names.GPU_RESOURCE in (one.get("resources", {}).get("limits") or {})
            for one in spec["containers"]
        )
        selected = (spec.get("nodeSelector") or {}).get(_PRODUCT_LABEL)
        return (
            names.PODSET_LABEL in labels
            and labels.get(names.CLUSTER_QUEUE_NAME_LABEL) == self.team
            and labels.get(names.LOCAL_QUEUE_NAME_LABEL) == "default"
            and not spec.get("schedulingGates")
            and (selected == PRODUCT or not asks)
        )

    def finish(self) -> None:
        """End its pods until its operator says that it has ended."""
        sample = self._sample

        def ended() -> bool:
            for one in self.running():
                name = one["metadata"]["name"]
                if re.search(sample.finish, name):
                    path = f"/api/v1/namespaces/{self.team}/pods/{name}"
                    self._api.patch(path, {"metadata": {"annotations": {FINISH: ""}}})
            return sample.ends in says(self.get())

        self.until(ended, f"it says {sample.ends}")

    def used(self) -> int:
        """GPUs that are charged."""
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.team}"
        listed = self._api.get(path).get("status", {}).get("flavorsUsage") or []
        return sum(
            int(one["total"])
            for flavor in listed
            for one in flavor["resources"]
            if one["name"] == names.GPU_RESOURCE
        )


class CaseError(Exception):
    """Something did not come; the message says what there is instead."""


def within(lab: Lab, sample: Sample, recording: Recording | None = None) -> str:
    """Run a sample within its quota; what it did.

    Raises:
        CaseError: it did not.
    """
    case = Case(lab, sample, sample.gpus)
    with recorded(lab, case, recording) as now:
        now("starts")
        case.create()
        case.await_running()
        done = [f"admitted, {sample.pods} pods run"]
        if sample.held:
            now("stops")
            case.activate(active=False)
            case.until(lambda: not lab.pods(case.team), "its pods are gone after an eviction")
            case.until(lambda: sample.held in says(case.get()), f"it says {sample.held}")
            case.until(lambda: case.used() == 0, "its quota is free after an eviction")
            now("starts again")
            case.activate(active=True)
            case.await_running()
            done.append("evicted and started again")
        if sample.ends:
            now("ends")
            case.finish()
            done.append(sample.ends)
            case.until(lambda: case.workloads("Finished", "True"), "its Workload is Finished")
        else:
            case.delete()
            done.append("deleted")
        case.until(lambda: case.used() == 0, "its quota is free")
    return ", ".join(done)


def over(lab: Lab, sample: Sample, recording: Recording | None = None) -> str:
    """Run a sample over its quota; what was held.

    Raises:
        CaseError: it was not.
    """
    case = Case(lab, sample, sample.over)
    with recorded(lab, case, recording) as now:
        now("held")
        case.create()
        case.until(
            lambda: len(case.workloads("QuotaReserved", "False")) == sample.workloads, "it waits"
        )
        if sample.held:
            case.until(lambda: sample.held in says(case.get()), f"it says {sample.held}")
        pods = lab.pods(case.team)
        if sample.gated:
            case.until(lambda: len(lab.pods(case.team)) == sample.pods, "its pods are there")
            pods = [one for one in lab.pods(case.team) if not one["spec"].get("schedulingGates")]
        if pods or case.used():
            raise CaseError(f"not held; {case.tell()}")
    return f"held: {sample.pods} pods wait" if sample.gated else "held: no pods"


# ------------------------------------------------------------------------------------- recording

_DROPPED: Final = re.compile(
    r"(times?|timestamp|generation|uid|hash|id|ip|url|selector|endpoints)$", re.IGNORECASE
)


@contextmanager
def recorded(lab: Lab, case: Case, recording: Recording | None) -> Iterator[Callable[[str], None]]:
    """Write down what an operator says inside the block.

    What is given takes the name of what is done from then on.
    """
    if recording is None:
        yield lambda _: None
        return
    moments: list[tuple[str, int]] = []

    def now(step: str) -> None:
        seen = 0
        if moments:
            seen = int(case.get()["metadata"]["resourceVersion"])
        moments.append((step, seen))

    output = lab.installed.folder / f"{case.team}.json"
    with output.open("wb") as file:
        command = [
            str(build.folder() / "kubectl"), "--kubeconfig", lab.installed.kubeconfig,
            "--namespace", case.team, "get", case.resource, "--watch", "--output", "json",
        ]  # fmt: skip
        watch = subprocess.Popen(command, stdout=file)
        try:
            yield now
        finally:
            watch.terminate()
            watch.wait()
    recording.entries += _entries(output.read_text(), moments, case.team)


def _entries(text: str, moments: list[tuple[str, int]], team: str) -> list[tuple[str, Json]]:
    decoder, at = json.JSONDecoder(), 0
    found: list[tuple[str, Json]] = []
    while at < len(text.rstrip()):
        document, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        version = int(document["metadata"]["resourceVersion"])
        step = next(name for name, since in reversed(moments) if version > since)
        status = normalised(document.get("status") or {}, team)
        if not found or found[-1] != (step, status):
            found.append((step, status))
    return found


def normalised(value: Any, team: str) -> Any:
    """Return a status without what differs from one run to the next."""
    if isinstance(value, Mapping):
        return {
            key: normalised(one, team)
            for key, one in sorted(value.items())
            if not _DROPPED.search(key)
        }
    if isinstance(value, list):
        return [normalised(one, team) for one in value]
    if isinstance(value, str):
        text = value.replace(team, "team")
        return re.sub(r"\b(train-|head-)[a-z0-9]{5}\b", r"\1xxxxx", text)
    return value
