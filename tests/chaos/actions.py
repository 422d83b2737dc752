"""What a storm does, kind by kind.

An action draws all that it needs from a generator of its kind and from what the storm did before,
never from what the cluster shows. So the same seed gives the same actions, and leaving a kind out
changes only the actions that would have met its objects.
"""

import heapq
import itertools
import random
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from admission.base import names
from tests.builders.jobs import make_job
from tests.builders.pods import make_pod, template_of
from tests.chaos import amounts, site
from tests.chaos.amounts import GPU
from tests.chaos.checker import Ref
from tests.chaos.site import (
    ALL_NODES,
    CHECKED,
    CONTROLLERS,
    DRA,
    MIXED,
    NAMESPACES,
    TEAMS,
    WEBHOOK,
)
from tests.chaos.system import HIGH, LOW
from tests.controlplane import features, nodes
from tests.controlplane.rest import Json, Rest, RestError
from tests.integration.installed import KUEUE

YEARS: Final = 10 * 365 * 24 * 3600
_CALM_SHARE: Final = 0.2
"""Share of a storm at its beginning in which nothing is taken away."""
_TRIES: Final = 8
_RETRY_SECONDS: Final = 1.0
GRACE: Final = (0, 1, 3, 8, YEARS)
"""Seconds of grace with which pods are deleted."""
_QUEUES: Final = tuple(team.name for team in TEAMS)
_SURGING: Final = ("green", *(team.name for team in TEAMS if team.surge))
"""Queues with surge quota; most often one whose quota nobody else lends."""

T = TypeVar("T")


class Host(Protocol):
    """Who carries actions out.

    Attributes:
        editor: requests of a user with the role ``edit``.
        admin: requests of an administrator, who plays the kubelet too.
    """

    editor: Rest
    admin: Rest

    def send(self, kind: str, what: str, call: Callable[[], object]) -> None:
        """Make a request beside everything else, and log it with its answer."""
        ...

    def later(self, seconds: float, kind: str, what: str, call: Callable[[], object]) -> None:
        """Do something after some seconds of the storm, also where the storm ends before."""
        ...

    def kill(self, program: str, seconds: float) -> None:
        """Kill a program, and start it after some seconds."""
        ...

    def freeze(self, program: str, seconds: float) -> None:
        """Stop a program by SIGSTOP for some seconds."""
        ...

    def snapshot(self) -> None:
        """Take a snapshot of the store."""
        ...

    def restore(self) -> None:
        """Put the snapshot back."""
        ...

    def drop_kind(self, seconds: float) -> None:
        """Delete the kind Workload, and create it after some seconds."""
        ...


@dataclass
class Made:
    """What the storm made, in this order; some of it may be gone.

    Attributes:
        pods: bare pods.
        jobs: Jobs.
        serving: Deployments and StatefulSets, by plural and name.
        gangs: PyTorchJobs.
        groups: groups of pods, whose Workloads have their names.
        claims: ResourceClaims.
        lingering: pods that were deleted with a grace period that nobody waits for.
        number: of the next object.
        scenes: how many of `QUIET` began.
    """

    pods: list[Ref] = field(default_factory=list)
    jobs: list[Ref] = field(default_factory=list)
    serving: list[tuple[str, Ref]] = field(default_factory=list)
    gangs: list[Ref] = field(default_factory=list)
    groups: list[Ref] = field(default_factory=list)
    claims: list[Ref] = field(default_factory=list)
    lingering: list[Ref] = field(default_factory=list)
    number: int = 0
    scenes: int = 0

    def name(self, prefix: str) -> str:
        """Return a name that nothing had before."""
        self.number += 1
        return f"{prefix}-{self.number}"


Action = Callable[[Host, Made, random.Random], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of action.

    Attributes:
        act: does it once.
        per_minute: how often.
        is_fault: it takes nodes, programs or kinds away; a storm begins without.
        is_regular: it happens at equal distances.
    """

    act: Action
    per_minute: float
    is_fault: bool = False
    is_regular: bool = False


# ----------------------------------------------------------------------------------- pods, Jobs


def _asking(gpus: int, seconds: float) -> Json:
    """Return what pods ask for that run so long, in words of `make_pod`."""
    tolerations = [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        *(
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 4,
            }
            for key in ("not-ready", "unreachable")
        ),
    ]
    return {
        "annotations": {nodes.RUN_FOR: f"{seconds:.1f}s"},
        "automountServiceAccountToken": False,  # or no Job has containers equal to those of pods
        "gpus": gpus,
        "restartPolicy": "Never",
        "tolerations": tolerations,
        "terminationGracePeriodSeconds": 3,
    }


def _pod(gpus: int, seconds: float, priority: Json) -> Json:
    return make_pod("", labels=priority, **_asking(gpus, seconds))


def _create_pod(host: Host, made: Made, kind: str, team: str, body: Json) -> None:
    name = made.name("pod")
    body["metadata"]["name"] = name
    made.pods.append((team, name))
    path = f"/api/v1/namespaces/{team}/pods"
    host.send(kind, f"create pod {team}/{name}", lambda: host.editor.post(path, body))


def pod(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod."""
    body = _pod(rng.choice((1, 1, 2, 2, 3, 4)), rng.uniform(3, 20), rng.choice((LOW, {})))
    _create_pod(host, made, "pod", rng.choice(_QUEUES), body)


def group(host: Host, made: Made, rng: random.Random) -> None:
    """Create the pods of a group, which come within some seconds; it is not to be retried."""
    team, name, total = rng.choice(_QUEUES), made.name("group"), rng.choice((2, 3, 4))
    made.groups.append((team, name))
    priority = rng.choice((LOW, {}))
    marks = {
        names.POD_GROUP_NAME: name,
        names.POD_GROUP_TOTAL_COUNT: str(total),
        names.RETRIABLE_IN_GROUP: "false",
    }
    for _ in range(total):
        body = _pod(rng.choice((1, 1, 2)), rng.uniform(3, 12), priority)
        body["metadata"]["annotations"] |= marks
        member = made.name("pod")
        body["metadata"]["name"] = member
        made.pods.append((team, member))
        create = partial(host.editor.post, f"/api/v1/namespaces/{team}/pods", body)
        what = f"create pod {team}/{member} of group {name}, one of {total}"
        host.later(rng.uniform(0, 3), "group", what, create)


def preempt(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod that displaces others."""
    team = rng.choice(NAMESPACES)
    gpus = rng.choice((1, 2, 3) if team in {CHECKED, MIXED} else (2, 4))
    _create_pod(host, made, "preempt", team, _pod(gpus, rng.uniform(2, 6), HIGH))


def claim(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod that asks by claim: by one of its own, or by one that it shares."""
    team = rng.choice(_QUEUES)
    body = _pod(0, rng.uniform(3, 15), rng.choice((LOW, {})))
    shared = [one for one in made.claims[-4:] if one[0] == team]
    draw, count = rng.random(), rng.choice((1, 2, 3))
    if draw < 0.3:
        reference = {"resourceClaimTemplateName": "one"}
    elif draw < 0.7 and shared:
        reference = {"resourceClaimName": shared[-1][1]}
    else:
        name = made.name("claim")
        made.claims.append((team, name))
        reference = {"resourceClaimName": name}
        _create_claim(host, team, name, count)
    body["spec"]["resourceClaims"] = [{"name": "gpu", **reference}]
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    _create_pod(host, made, "claim", team, body)


def _create_claim(host: Host, team: str, name: str, count: int) -> None:
    _create_requests(host, "claim", team, name, {names.GPU_CLASS: count})


def _create_requests(
    host: Host, kind: str, team: str, name: str, counts: Mapping[str, int]
) -> None:
    """Create a claim that asks for devices of some classes."""
    requests = [
        {"name": f"part-{index}", "exactly": {"deviceClassName": one, "count": count}}
        for index, (one, count) in enumerate(counts.items())
    ]
    path = f"{DRA}/namespaces/{team}/resourceclaims"
    document = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    what = f"create claim {team}/{name} of {dict(counts)}"
    host.send(kind, what, lambda: host.editor.post(path, document))


def classes(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod that asks for devices of several classes, by claim or by their names."""
    team, count = rng.choice(_QUEUES), rng.choice((1, 1, 2))
    body = _pod(0, rng.uniform(8, 20), rng.choice((LOW, {}, HIGH)))
    if rng.random() < 0.3:
        implicit = f"{names.IMPLICIT_CLASS_PREFIX}{site.WHOLE}"
        resource = rng.choice((site.GOLD, implicit) if features.NAMES_CLASSES else (implicit,))
        body["spec"]["containers"][0]["resources"] = {"limits": {resource: str(count)}}
        _create_pod(host, made, "classes", team, body)
        return
    name = made.name("classes")
    counts = {site.WHOLE: count + 1, names.GPU_CLASS: 1}
    if rng.random() < 0.2:
        counts = {site.NIC: count}  # beside GPUs they would need quota of their own
    _create_requests(host, "classes", team, name, counts)
    body["spec"]["resourceClaims"] = [{"name": "all", "resourceClaimName": name}]
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "all"}]}
    _create_pod(host, made, "classes", team, body)


def job(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job."""
    _create_job(host, made, rng, "job", rng.choice(_QUEUES), {})


def _create_job(
    host: Host, made: Made, rng: random.Random, kind: str, team: str, labels: Json
) -> None:
    name, parallelism = made.name("job"), rng.choice((1, 2, 3, 4))
    made.jobs.append((team, name))
    completions = parallelism * rng.choice((1, 1, 2))
    pod = _asking(rng.choice((1, 1, 2)), rng.uniform(3, 12))
    labels = {**rng.choice((LOW, {})), **labels}
    document = make_job(
        name, parallelism, completions=completions, labels=labels, pod=pod, backoffLimit=20
    )
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    what = f"create Job {team}/{name}: {parallelism} of {completions}, {labels}"
    host.send(kind, what, lambda: host.editor.post(path, document))


# ------------------------------------------------------------- queues with something of their own


def checked(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod or a Job of which an admission check is asked."""
    if rng.random() < 0.4:
        _create_job(host, made, rng, "checked", CHECKED, {})
        return
    body = _pod(rng.choice((1, 1, 2)), rng.uniform(3, 10), rng.choice((LOW, {})))
    _create_pod(host, made, "checked", CHECKED, body)


def flavors(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod or a Job in a queue with several flavors and caps."""
    queue = rng.choice((_QUEUED, {names.QUEUE_LABEL: site.CAPPED}))
    if rng.random() < 0.3:
        _create_job(host, made, rng, "flavors", MIXED, queue)
        return
    body = _pod(rng.choice((1, 1, 2, 3)), rng.uniform(3, 12), {**rng.choice((LOW, {})), **queue})
    if rng.random() < 0.2:
        body["spec"]["nodeSelector"] = {names.GPU_PRODUCT_LABEL: rng.choice((site.T4, site.H100))}
    _create_pod(host, made, "flavors", MIXED, body)


def slices(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod that asks for a slice of a GPU by its profile, or for memory."""
    memory = {names.GPU_MEMORY: rng.choice(("4Gi", "8Gi", "8Gi", "24Gi"))}
    marks = rng.choice(({names.MIG_PROFILE: site.PROFILE}, memory))
    body = _pod(rng.choice((1, 1, 2)), rng.uniform(3, 12), rng.choice((LOW, {})))
    body["metadata"]["annotations"] |= marks
    _create_pod(host, made, "slices", MIXED, body)


def lend(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod or a Job that names the second LocalQueue of its namespace."""
    team, queue, _ = site.LENT
    label = {names.QUEUE_LABEL: queue}
    if rng.random() < 0.4:
        _create_job(host, made, rng, "lend", team, label)
        return
    body = _pod(rng.choice((1, 2, 3)), rng.uniform(3, 12), {**rng.choice((LOW, {})), **label})
    _create_pod(host, made, "lend", team, body)


def replace_member(host: Host, made: Made, rng: random.Random) -> None:
    """Create a group, and later delete members of it and create others in their places."""
    team, name, total = rng.choice((*_QUEUES, CHECKED)), made.name("group"), rng.choice((2, 3))
    made.groups.append((team, name))
    marks = {names.POD_GROUP_NAME: name, names.POD_GROUP_TOTAL_COUNT: str(total)}
    path = f"/api/v1/namespaces/{team}/pods"

    def create(seconds: float, what: str) -> str:
        body = _pod(1, 50, {})
        body["metadata"]["annotations"] |= marks
        member = made.name("pod")
        body["metadata"]["name"] = member
        made.pods.append((team, member))
        call = partial(host.editor.post, path, body)
        host.later(seconds, "replace-member", f"create pod {team}/{member} {what}", call)
        return member

    said = f"of group {name}, one of {total}"
    members = [create(rng.uniform(0, 1), said) for _ in range(total)]
    for member in rng.sample(members, rng.choice((1, 1, 2))):
        seconds, grace = rng.uniform(6, 12), rng.choice((1, 3, 8, YEARS))
        if grace == YEARS:
            made.lingering.append((team, member))
        gone = f"{_path('pods', (team, member))}?gracePeriodSeconds={grace}"
        what = f"delete pod {team}/{member} of group {name}, grace {grace}"
        host.later(seconds, "replace-member", what, partial(host.editor.delete, gone))
        create(seconds + rng.uniform(-1, 2), f"of group {name}, in place of {member}")


def elastic(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job that may change its size, and change it later."""
    team, name = rng.choice(_QUEUES), made.name("elastic")
    made.jobs.append((team, name))
    count = rng.choice((1, 1, 2))
    pod = _asking(1, rng.uniform(20, 40))
    priority = rng.choice((LOW, HIGH, HIGH))
    document = make_job(
        name, count, completions=40, annotations={names.ELASTIC_JOB: "true"}, pod=pod,
        labels={names.QUEUE_LABEL: "default", **priority}, backoffLimit=20,
    )  # fmt: skip
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    what = f"create elastic Job {team}/{name}: {count}"
    host.send("elastic", what, lambda: host.editor.post(path, document))
    for begin in (4, 9, 14):
        size = {"spec": {"parallelism": rng.choice((1, 2, 2, 3, 3, 4, 8))}}
        host.later(
            begin + rng.uniform(0, 5),
            "elastic",
            f"resize elastic Job {team}/{name}: {size}",
            partial(host.editor.patch, _path("jobs", (team, name)), size),
        )


def partial_job(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job that starts with fewer pods where there is no quota for all."""
    team, name = rng.choice(_QUEUES), made.name("partial")
    made.jobs.append((team, name))
    count = rng.choice((3, 4, 6))
    marks = {names.JOB_MIN_PARALLELISM: str(rng.choice((1, 2)))}
    document = make_job(
        name, count, completions=count, annotations=marks, pod=_asking(1, rng.uniform(3, 12)),
        labels=_priority(rng), backoffLimit=20,
    )  # fmt: skip
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    what = f"create partial Job {team}/{name}: {marks} of {count}"
    host.send("partial", what, lambda: host.editor.post(path, document))


# --------------------------------------------------------- what was admitted, taken by others


def steal(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job or a pod that names the Workload of a group of pods as its own."""
    victim = _late(made.groups, rng)
    if victim is None:
        return
    team, workload = victim
    marks = {names.PREBUILT_WORKLOAD: workload}
    if rng.random() < 0.5:
        body = _pod(1, rng.uniform(3, 12), {})
        body["metadata"]["annotations"] |= marks
        _create_pod(host, made, "steal", team, body)
        return
    name, count = made.name("thief"), rng.choice((2, 3, 4))
    made.jobs.append((team, name))
    pod = _asking(1, rng.uniform(3, 12))
    document = make_job(name, count, annotations=marks, pod=pod, backoffLimit=20)
    path = f"/apis/batch/v1/namespaces/{team}/jobs"
    what = f"create Job {team}/{name} with Workload {workload}"
    host.send("steal", what, lambda: host.editor.post(path, document))


_TAKEN: Final = {"batch.kubernetes.io/controller-uid": "x", "controller-uid": "x"}
_TAKING: Final[tuple[Json, ...]] = (
    {"metadata": {"ownerReferences": None}},
    {"metadata": {"labels": _TAKEN}},
    {"metadata": {"labels": _TAKEN, "ownerReferences": None}},
)


def _running(host: Host, team: str) -> list[tuple[str, str]]:
    """Return the running pods of Jobs of a namespace, each with its Job."""
    label = "batch.kubernetes.io/job-name"
    path = f"/api/v1/namespaces/{team}/pods?labelSelector={label.replace('/', '%2F')}"
    return sorted(
        (one["metadata"]["name"], one["metadata"]["labels"][label])
        for one in host.editor.get(path)["items"]
        if one.get("status", {}).get("phase") == "Running"
        and "deletionTimestamp" not in one["metadata"]
    )


def _running_from(host: Host, first: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the first namespace in which pods of Jobs run, from one on, with `_running` of it."""
    place = NAMESPACES.index(first)
    for namespace in (*NAMESPACES[place:], *NAMESPACES[:place]):
        if pods := _running(host, namespace):
            return namespace, pods
    return first, []


def take_pod(host: Host, made: Made, rng: random.Random) -> None:
    """Take a running pod from its Job, which would make another one."""
    team, place, change = rng.choice(NAMESPACES), rng.random(), rng.choice(_TAKING)

    def call() -> object:
        where, pods = _running_from(host, team)
        if not pods:
            return "no pod"
        name, _ = pods[int(place * len(pods))]
        return host.editor.patch(_path("pods", (where, name)), change)

    host.send("take-pod", f"take a pod from its Job, of {team} or the next: {change}", call)


def delete_workload(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a Workload, whatever runs with it."""
    team, place = rng.choice(NAMESPACES), rng.random()
    path = f"{KUEUE}/namespaces/{team}/workloads"

    def call() -> object:
        found = sorted(one["metadata"]["name"] for one in host.admin.get(path)["items"])
        return host.admin.delete(f"{path}/{found[int(place * len(found))]}") if found else None

    host.send("delete-workload", f"delete a Workload of {team}", call)


def stop_queue(host: Host, made: Made, rng: random.Random) -> None:
    """Stop a ClusterQueue, and let it go on after some seconds."""
    team, policy = rng.choice(NAMESPACES), rng.choice(("Hold", "HoldAndDrain"))
    path = f"{KUEUE}/clusterqueues/{team}"
    stop = partial(host.admin.patch, path, {"spec": {"stopPolicy": policy}})
    go_on = partial(host.admin.patch, path, {"spec": {"stopPolicy": "None"}})
    host.send("stop-queue", f"stopPolicy of {team}: {policy}", stop)
    what = f"stopPolicy of {team}: None"
    host.later(rng.uniform(3, 14), "stop-queue", what, partial(surely, go_on))


def surely(call: Callable[[], object]) -> object:
    """Make a request until it is answered, a few times: what follows from it is wanted."""
    for _ in range(_TRIES):
        with suppress(RestError, OSError):
            return call()
        threading.Event().wait(_RETRY_SECONDS)
    return call()


# ------------------------------------------------------------------------------------- owners

_QUEUED: Final = {names.QUEUE_LABEL: "default"}
_MARKED: Final = {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "made-up"}}}


def gang(host: Host, made: Made, rng: random.Random) -> None:
    """Create a PyTorchJob: all of its pods run, or none."""
    team, name = rng.choice(_QUEUES), made.name("gang")
    made.gangs.append((team, name))
    pod = _asking(rng.choice((1, 1, 2)), rng.uniform(3, 12))
    roles = {"Master": 1, "Worker": rng.choice((1, 2, 3))}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "labels": {**_priority(rng), **rng.choice((_QUEUED, {}))}},
        "spec": {
            "pytorchReplicaSpecs": {
                role: {"replicas": count, "template": template_of(make_pod("", **pod))}
                for role, count in roles.items()
            }
        },
    }
    path = collection("pytorchjobs", team)
    what = f"create PyTorchJob {team}/{name}: 1 and {roles['Worker']}"
    host.send("gang", what, lambda: host.editor.post(path, document))


def serve(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Deployment or a StatefulSet, whose pods run until somebody stops them."""
    team, name = rng.choice(_QUEUES), made.name("serve")
    plural, replicas = rng.choice(("deployments", "statefulsets")), rng.choice((1, 2, 3))
    made.serving.append((plural, (team, name)))
    pod = make_pod("", labels={"app": name, **_priority(rng)}, **_serving(rng.choice((1, 1, 2))))
    more: Json = {"strategy": rng.choice(_STRATEGIES)}
    if plural == "statefulsets":
        more = rng.choice(({}, {"podManagementPolicy": "Parallel"}))
    document = {
        "metadata": {"name": name, "labels": rng.choice((_QUEUED, _QUEUED, {}))},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template_of(pod),
            **more,
        },
    }
    what = f"create {plural} {team}/{name}: {replicas}"
    host.send("serve", what, lambda: host.editor.post(collection(plural, team), document))


def surge(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Deployment that surges where there is surge quota, and change its pods later."""
    team, name = rng.choice(_SURGING), made.name("surge")
    ref, replicas = (team, name), rng.choice((2, 3, 4, 4))
    made.serving.append(("deployments", ref))
    priority = rng.choice((LOW, {}, HIGH, HIGH))
    pod = make_pod("", labels={"app": name, **priority}, **_serving(1))
    surges = {"maxSurge": rng.choice((1, 2, 4, 4)), "maxUnavailable": 0}
    document = {
        "metadata": {"name": name, "labels": _QUEUED},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template_of(pod),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": surges},
        },
    }
    what = f"create deployments {team}/{name}: {replicas}, {surges['maxSurge']} surge"
    host.send("surge", what, lambda: host.editor.post(collection("deployments", team), document))
    change = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 2}}}}
    host.later(
        rng.uniform(8, 15),
        "surge",
        f"roll deployments {team}/{name} out",
        lambda: host.editor.patch(_path("deployments", ref), change),
    )
    host.later(
        rng.uniform(25, 40),
        "surge",
        f"delete deployments {team}/{name}",
        lambda: host.editor.delete(_path("deployments", ref)),
    )


# -------------------------------------------------------------------- one thing at a time
#
# Where many pods come and go, one that is too many is seldom seen: the quota is not full at that
# moment. In `QUIET` each scene fills it, and ends before the next one begins.

_SCENE: Final = "chaos.test/scene"
"""Label of what a scene makes and the next one deletes."""
_SCENE_SECONDS: Final = 60.0


def quiet(host: Host, made: Made, rng: random.Random) -> None:
    """End the scene before in the quiet queue, and play the next one."""
    scene = _SCENES[made.scenes % len(_SCENES)]
    made.scenes += 1

    def clear() -> None:
        for plural in ("jobs", "deployments"):
            path = f"{collection(plural, site.QUIET)}?propagationPolicy=Background"
            host.editor.delete(path)
        selector = f"labelSelector={_SCENE.replace('/', '%2F')}"
        host.editor.delete(f"{collection('pods', site.QUIET)}?{selector}&gracePeriodSeconds=0")

    host.send("quiet", f"end what runs in {site.QUIET}", clear)
    scene(host, made, rng)


def _quiet_post(host: Host, seconds: float, what: str, plural: str, document: Json) -> None:
    name = document["metadata"]["name"]
    call = partial(host.editor.post, collection(plural, site.QUIET), document)
    host.later(seconds, "quiet", f"create {plural} {site.QUIET}/{name}: {what}", call)


def _quiet_member(host: Host, made: Made, seconds: float, group: str) -> str:
    """Create a pod of a group as large as the quota; return its name."""
    body = _pod(1, _SCENE_SECONDS, {_SCENE: group})
    body["metadata"]["name"] = name = made.name("pod")
    body["metadata"]["annotations"] |= {
        names.POD_GROUP_NAME: group,
        names.POD_GROUP_TOTAL_COUNT: str(site.QUIET_QUOTA),
    }
    _quiet_post(host, seconds, f"of group {group}", "pods", body)
    return name


def _quiet_group(host: Host, made: Made) -> tuple[str, list[str]]:
    """Create a group that fills the quota; return its name and those of its pods."""
    group = made.name("group")
    return group, [_quiet_member(host, made, 4, group) for _ in range(site.QUIET_QUOTA)]


def _surge_larger_than_quota(host: Host, made: Made, rng: random.Random) -> None:
    """Roll a Deployment out that fills the quota; each of its surges is above surge quota."""
    name, gpus = made.name("surge"), 2 * site.QUIET_SURGE
    document = {
        "metadata": {"name": name, "labels": _QUEUED},
        "spec": {
            "replicas": site.QUIET_QUOTA // gpus,
            "selector": {"matchLabels": {"app": name}},
            "template": template_of(make_pod("", labels={"app": name}, **_serving(gpus))),
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
        },
    }
    _quiet_post(host, 4, "it fills the quota", "deployments", document)
    change = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 2}}}}
    roll_out = partial(host.editor.patch, _path("deployments", (site.QUIET, name)), change)
    host.later(14, "quiet", f"roll deployments {site.QUIET}/{name} out", roll_out)


def _member_that_ends_slowly(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod in the place of a member of a group that ends slowly."""
    group, members = _quiet_group(host, made)
    path = f"{_path('pods', (site.QUIET, members[0]))}?gracePeriodSeconds=15"
    what = f"delete pod {site.QUIET}/{members[0]}, grace 15"
    host.later(14, "quiet", what, partial(host.editor.delete, path))
    _quiet_member(host, made, 16, group)


def _thief(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job that names the Workload of a group that runs."""
    group, _ = _quiet_group(host, made)
    document = make_job(
        made.name("thief"), site.QUIET_QUOTA, annotations={names.PREBUILT_WORKLOAD: group},
        pod=_asking(1, _SCENE_SECONDS), backoffLimit=20,
    )  # fmt: skip
    _quiet_post(host, 14, f"with Workload {group}", "jobs", document)


def _left_behind(host: Host, made: Made, rng: random.Random) -> None:
    """Leave pods of a Job behind that fill the quota, and create a pod that displaces them."""
    name = made.name("job")
    document = make_job(name, site.QUIET_QUOTA, pod=_asking(1, YEARS), labels=LOW, backoffLimit=20)
    _quiet_post(host, 4, "it fills the quota", "jobs", document)
    path = f"{_path('jobs', (site.QUIET, name))}?propagationPolicy=Orphan"
    what = f"delete Job {site.QUIET}/{name}, Orphan"
    host.later(14, "quiet", what, partial(host.editor.delete, path))
    body = _pod(site.QUIET_QUOTA, 4, HIGH)
    body["metadata"]["name"] = made.name("pod")
    _quiet_post(host, 18, "it displaces what is left", "pods", body)


_SCENES: Final = (_surge_larger_than_quota, _member_that_ends_slowly, _thief, _left_behind)


_STRATEGIES: Final[tuple[Json, ...]] = (
    {},
    {"type": "Recreate"},
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
)


def _priority(rng: random.Random) -> Json:
    return rng.choice((LOW, {}))


def _serving(gpus: int) -> Json:
    return {**_asking(gpus, 0), "annotations": {}, "restartPolicy": "Always"}


def scale(host: Host, made: Made, rng: random.Random) -> None:
    """Scale a Deployment or a StatefulSet."""
    _patch_serving(host, made, rng, "scale", {"spec": {"replicas": rng.choice((0, 0, 1, 2, 4))}})


def rollout(host: Host, made: Made, rng: random.Random) -> None:
    """Change the pods of a Deployment or a StatefulSet, some of them in size."""
    spec: Json = {"terminationGracePeriodSeconds": rng.choice((1, 2, 3))}
    if rng.random() < 0.4:
        spec["containers"] = make_pod("", gpus=rng.choice((1, 2)))["spec"]["containers"]
    _patch_serving(host, made, rng, "rollout", {"spec": {"template": {"spec": spec}}})


_SERVING_EDITS: Final[tuple[Json, ...]] = (
    {"metadata": {"labels": {names.QUEUE_LABEL: None}}},
    {"metadata": {"labels": _QUEUED}},
    {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}},
    {"spec": {"template": {"metadata": {"labels": {names.MANAGED_LABEL: None}}}}},
    {"spec": {"template": {"metadata": {"labels": {names.QUEUE_LABEL: None}}}}},
    {"spec": {"template": {"metadata": {"labels": {names.POD_GROUP_NAME: "other"}}}}},
    {"spec": {"template": {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "made-up"}}}}},
)


def patch_serving(host: Host, made: Made, rng: random.Random) -> None:
    """Change what a Deployment or a StatefulSet is counted by, as a user."""
    _patch_serving(host, made, rng, "patch-serving", rng.choice(_SERVING_EDITS))


def _patch_serving(host: Host, made: Made, rng: random.Random, action: str, change: Json) -> None:
    found = _late(made.serving, rng)
    if found is not None:
        _patch(host, action, *found, change)


_STOPPED: Final = {"runPolicy": {"suspend": True}}
_STARTED: Final = {"runPolicy": {"suspend": False}}
_GANG_EDITS: Final[tuple[Json, ...]] = (
    {"spec": _STARTED},
    {"spec": _STOPPED},
    {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 8}}}},
    {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 8}}, **_STARTED}},
    {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}},
    {"spec": {"pytorchReplicaSpecs": {"Worker": {"template": _MARKED}}, **_STARTED}},
    {"metadata": {"labels": {names.QUEUE_LABEL: None}}},
)


def patch_gang(host: Host, made: Made, rng: random.Random) -> None:
    """Change a PyTorchJob, as a user."""
    _patch(host, "patch-gang", "pytorchjobs", _late(made.gangs, rng), rng.choice(_GANG_EDITS))


def delete_owner(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a Deployment, a StatefulSet or, seldom, a PyTorchJob."""
    found = _late(made.serving, rng)
    if rng.random() < 0.2 and made.gangs:
        found = ("pytorchjobs", made.gangs[-1])
    if found is not None:
        plural, ref = found
        policy = rng.choice(("Background", "Background", "Foreground", "Orphan"))
        path = f"{_path(plural, ref)}?propagationPolicy={policy}"
        what = f"delete {plural} {_text(ref)}, {policy}"
        host.send("delete-owner", what, lambda: host.editor.delete(path))


def deactivate(host: Host, made: Made, rng: random.Random) -> None:
    """Evict a Workload by `active: false`, and let it wait again after some seconds."""
    team, place = rng.choice(NAMESPACES), rng.random()
    path = f"{KUEUE}/namespaces/{team}/workloads"

    def stop() -> object:
        found = sorted(one["metadata"]["name"] for one in host.admin.get(path)["items"])
        if not found:
            return "no Workload"
        name = found[int(place * len(found))]
        return host.admin.patch(f"{path}/{name}", {"spec": {"active": False}})

    host.send("deactivate", f"deactivate a Workload of {team}", stop)
    what = f"activate the Workloads of {team}"
    host.later(rng.uniform(3, 9), "deactivate", what, lambda: activate(host.admin, team))


def let_go_on(admin: Rest) -> None:
    """Let all ClusterQueues go on: what said so may have met a server that was down."""
    for name in site.ALL_NAMESPACES:
        admin.patch(f"{KUEUE}/clusterqueues/{name}", {"spec": {"stopPolicy": "None"}})


def activate(admin: Rest, team: str) -> None:
    """Let the Workloads of a namespace wait again that were deactivated."""
    path = f"{KUEUE}/namespaces/{team}/workloads"
    for one in admin.get(path)["items"]:
        if one["spec"].get("active") is False:
            with suppress(RestError):  # it has just gone
                admin.patch(f"{path}/{one['metadata']['name']}", {"spec": {"active": True}})


# ------------------------------------------------------------------------------------ the end


def finish(host: Host, made: Made, rng: random.Random) -> None:
    """Let a pod end: first of all one that lingers."""
    ref = _late(made.lingering, rng) if rng.random() < 0.6 else _late(made.pods, rng)
    if ref is None:
        return
    body = {"status": {"phase": rng.choice(("Succeeded", "Failed"))}}
    path = f"{_path('pods', ref)}/status"
    host.send("finish", f"end pod {_text(ref)}", lambda: host.admin.patch(path, body))


def delete(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a pod, often with a long grace period."""
    ref, grace = _late(made.pods, rng), rng.choice(GRACE)
    if ref is None:
        return
    if grace == YEARS:
        made.lingering.append(ref)
    path = f"{_path('pods', ref)}?gracePeriodSeconds={grace}"
    host.send(
        "delete", f"delete pod {_text(ref)}, grace {grace}", lambda: host.editor.delete(path)
    )


def delete_job_pod(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a pod of a Job: the Job makes another one at once."""
    ref, grace, place = _late(made.jobs, rng), rng.choice(GRACE), rng.random()
    if ref is None:
        return

    def call() -> object:
        selector = f"labelSelector=batch.kubernetes.io/job-name%3D{ref[1]}"
        found = host.editor.get(f"/api/v1/namespaces/{ref[0]}/pods?{selector}")["items"]
        running = sorted(
            one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]
        )
        if not running:
            return "no pod"
        name = running[int(place * len(running))]
        if grace == YEARS:
            made.lingering.append((ref[0], name))
        return host.editor.delete(f"{_path('pods', (ref[0], name))}?gracePeriodSeconds={grace}")

    host.send("delete-job-pod", f"delete a pod of Job {_text(ref)}, grace {grace}", call)


def delete_job(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a Job with its pods."""
    _delete_job(host, made, rng, "delete-job", rng.choice(("Background", "Foreground")))


def orphan(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a Job that runs, and leave its pods."""
    team, place = rng.choice(NAMESPACES), rng.random()

    def call() -> object:
        where, pods = _running_from(host, team)
        if not pods:
            return "no pod"
        _, name = pods[int(place * len(pods))]
        return host.editor.delete(f"{_path('jobs', (where, name))}?propagationPolicy=Orphan")

    host.send("orphan", f"delete a Job of {team} or the next, Orphan", call)


def _delete_job(host: Host, made: Made, rng: random.Random, kind: str, policy: str) -> None:
    ref = _late(made.jobs, rng)
    if ref is not None:
        path = f"{_path('jobs', ref)}?propagationPolicy={policy}"
        host.send(kind, f"delete Job {_text(ref)}, {policy}", lambda: host.editor.delete(path))


# --------------------------------------------------------------------------------------- edits

_POD_EDITS: Final[tuple[Json, ...]] = (
    {"metadata": {"labels": {names.MANAGED_LABEL: None}}},
    {"metadata": {"labels": {names.MANAGED_LABEL: "false"}}},
    {"metadata": {"labels": {names.QUEUE_LABEL: "other"}}},
    {"metadata": {"labels": {names.PODSET_LABEL: "other"}}},
    {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "high"}}},
    {"metadata": {"labels": None}},
    {"metadata": {"annotations": None}},
    {"metadata": {"annotations": {names.WORKLOAD_ANNOTATION: "other"}}},
    {"metadata": {"ownerReferences": None}},
    {"spec": {"schedulingGates": None}},
)

_JOB_EDITS: Final[tuple[Json, ...]] = (
    {"spec": {"suspend": False}},
    {"spec": {"parallelism": 8}},
    {"spec": {"parallelism": 8, "completions": 8}},
    {"spec": {"template": _MARKED}},
    {"spec": {"suspend": False, "parallelism": 8, "template": _MARKED}},
    {"spec": {"parallelism": 3, "suspend": True}},
    {"spec": {"suspend": True}},
    {"spec": {"parallelism": 1}},
    {"spec": {"parallelism": 0}},
    {"spec": {"podReplacementPolicy": "Failed"}},
    {"metadata": {"labels": {names.QUEUE_LABEL: None}}},
)


def label(host: Host, made: Made, rng: random.Random) -> None:
    """Change what quota is counted by, as a user."""
    _patch(host, "label", "pods", _late(made.pods, rng), rng.choice(_POD_EDITS))


def patch_job(host: Host, made: Made, rng: random.Random) -> None:
    """Change a Job, as a user."""
    _patch(host, "patch-job", "jobs", _late(made.jobs, rng), rng.choice(_JOB_EDITS))


def _patch(host: Host, action: str, plural: str, ref: Ref | None, edit: Json) -> None:
    if ref is not None:
        text = f"patch {plural} {_text(ref)}: {edit}"
        host.send(action, text, lambda: host.editor.patch(_path(plural, ref), edit))


def quota(host: Host, made: Made, rng: random.Random) -> None:
    """Change the quota of a ClusterQueue."""
    team = rng.choice(TEAMS)
    nominal = team.quota + rng.choice((-3, -1, 0, 2))
    path = f"{KUEUE}/clusterqueues/{team.name}"
    resources = [{"name": names.GPU_RESOURCE, "nominalQuota": nominal}]
    group = {
        "coveredResources": [names.GPU_RESOURCE],
        "flavors": [{"name": "a100", "resources": resources}],
    }
    body = {"spec": {"resourceGroups": [group]}}
    host.send("quota", f"quota of {team.name} = {nominal}", lambda: host.admin.patch(path, body))


# --------------------------------------------------------------------------------------- nodes


def lose_node(host: Host, made: Made, rng: random.Random) -> None:
    """Delete a node object, and create it again."""
    name = rng.choice(ALL_NODES)
    path = f"/api/v1/nodes/{name}"
    host.send("lose-node", f"delete node {name}", lambda: host.admin.delete(path))
    body = site.node(name)
    host.later(
        rng.uniform(3, 15),
        "lose-node",
        f"create node {name}",
        lambda: host.admin.post("/api/v1/nodes", body),
    )


def silence_node(host: Host, made: Made, rng: random.Random) -> None:
    """Make a node not ready, and ready again."""
    name = rng.choice(ALL_NODES)
    path = f"/api/v1/nodes/{name}"

    def down() -> object:
        host.admin.patch(path, {"metadata": {"labels": {site.DOWN: "true"}}})
        return host.admin.patch(f"{path}/status", site.unready())

    def up() -> object:
        return host.admin.patch(path, {"metadata": {"labels": {site.DOWN: None}}})

    host.send("silence-node", f"node {name} not ready", down)
    host.later(rng.uniform(5, 15), "silence-node", f"node {name} ready", up)


def condemn_node(host: Host, made: Made, rng: random.Random) -> None:
    """Give a node the out-of-service taint, and take it off."""
    name = rng.choice(ALL_NODES)
    path = f"/api/v1/nodes/{name}"
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
    for seconds, what, taints in (
        (0.0, "out of service", [taint]),
        (rng.uniform(3, 10), "in service", []),
    ):
        body = {"spec": {"taints": taints}}
        host.later(
            seconds,
            "condemn-node",
            f"node {name} {what}",
            lambda body=body: host.admin.patch(path, body),  # type: ignore[misc]
        )


# --------------------------------------------------------------- where room on nodes is scarce


def room(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod, a group or a Job where the nodes are small."""
    draw = rng.random()
    if draw < 0.2:
        name, count = made.name("job"), rng.choice((2, 3))
        pod = _asking(rng.choice((1, 2, 3)), rng.uniform(4, 30))
        document = make_job(name, count, completions=count, labels=_priority(rng), pod=pod)
        _ask_for_cpu(document["spec"]["template"]["spec"], rng)
        path = f"/apis/batch/v1/namespaces/{site.SCARCE}/jobs"
        host.send("room", f"create Job {name}: {count}", lambda: host.editor.post(path, document))
        return
    name, total = made.name("group"), rng.choice((2, 2, 3)) if draw < 0.5 else 1
    priority, marks = rng.choice((LOW, {})), {}
    if total > 1:
        marks = {names.POD_GROUP_NAME: name, names.POD_GROUP_TOTAL_COUNT: str(total)}
    for _ in range(total):
        gpus = rng.choice((1, 2, 3) if total > 1 else (1, 2, 3, 4))
        body = _pod(gpus, rng.uniform(4, 40), priority)
        body["metadata"]["annotations"] |= marks
        _ask_for_cpu(body["spec"], rng)
        _create_scarce(host, made, "room", body)


def rack(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job, a group or a pod where pods are assigned to racks."""
    draw = rng.random()
    if draw < 0.5:
        _create_racked_job(host, made, rng, "rack", rng.choice((LOW, {})), rng.choice((2, 3, 4)))
        return
    level = rng.choice((names.REQUIRED_TOPOLOGY, names.PREFERRED_TOPOLOGY))
    marks = rng.choice(({level: site.RACK}, {}))
    name, total = made.name("group"), rng.choice((2, 2, 3)) if draw < 0.75 else 1
    priority, gpus = rng.choice((LOW, {})), rng.choice((1, 2, 3))
    if total > 1:
        marks |= {names.POD_GROUP_NAME: name, names.POD_GROUP_TOTAL_COUNT: str(total)}
    for _ in range(total):  # pods that ask for other amounts would be another pod set
        body = _pod(gpus, rng.uniform(4, 40), priority)
        body["metadata"]["annotations"] |= marks
        _create_scarce(host, made, "rack", body, site.RACKED)


def rack_high(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job that needs most of a rack and displaces others."""
    _create_racked_job(host, made, rng, "rack-high", HIGH, rng.choice((3, 4)))


def rack_lost(host: Host, made: Made, rng: random.Random) -> None:
    """Create a Job for one rack, and kill a controller or delete a node while it is told hosts."""
    _create_racked_job(host, made, rng, "rack-lost", rng.choice(({}, HIGH)), rng.choice((3, 4)))
    if rng.random() < 0.5:
        host.kill(rng.choice(CONTROLLERS), rng.uniform(0, 4))
        return
    name = rng.choice(tuple(site.RACKED_NODES))
    path = f"/api/v1/nodes/{name}"
    gone = partial(surely, partial(host.admin.delete, path))
    host.later(rng.uniform(0.1, 2), "rack-lost", f"delete node {name}", gone)
    again = partial(host.admin.post, "/api/v1/nodes", site.node(name))
    host.later(rng.uniform(5, 30), "rack-lost", f"create node {name}", again)


def _create_racked_job(
    host: Host, made: Made, rng: random.Random, kind: str, priority: Json, count: int
) -> None:
    name = made.name("job")
    pod = _asking(rng.choice((1, 2)), rng.uniform(4, 30))
    pod["annotations"][names.REQUIRED_TOPOLOGY] = site.RACK
    document = make_job(
        name, count, completions=count, labels={**_QUEUED, **priority}, pod=pod, backoffLimit=20,
        completionMode=rng.choice(("Indexed", "NonIndexed")),
    )  # fmt: skip
    path = f"/apis/batch/v1/namespaces/{site.RACKED}/jobs"
    host.send(kind, f"create Job {name}: {count}", lambda: host.editor.post(path, document))


def room_high(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod that needs most of a small node and displaces others."""
    body = _pod(rng.choice((3, 4)), rng.uniform(3, 6), HIGH)
    _ask_for_cpu(body["spec"], rng)
    _create_scarce(host, made, "room-high", body)


def _ask_for_cpu(spec: Json, rng: random.Random) -> None:
    """Have some pods ask for cpu and memory, too, which have a flavor of their own."""
    if rng.random() < 0.5:
        for container in spec["containers"]:
            requests = container["resources"].setdefault("requests", {})
            requests |= {"cpu": "100m", "memory": "64Mi"}


def _create_scarce(
    host: Host, made: Made, kind: str, body: Json, namespace: str = site.SCARCE
) -> None:
    name = made.name("pod")
    body["metadata"]["name"] = name
    path = f"/api/v1/namespaces/{namespace}/pods"
    what = f"create pod {namespace}/{name} of {amounts.asked(body['spec'], {})[GPU]}"
    host.send(kind, what, lambda: host.editor.post(path, body))


def foreign(host: Host, made: Made, rng: random.Random) -> None:
    """Create a pod without a queue on small nodes, and delete it."""
    name = made.name("foreign")
    body = _pod(rng.choice((1, 2)), YEARS, {})
    body["metadata"]["name"] = name
    body["spec"]["nodeSelector"] = {names.GPU_PRODUCT_LABEL: rng.choice((site.L4, site.V100))}
    path = f"/api/v1/namespaces/{site.OUTSIDE}/pods"
    host.send("foreign", f"create pod {site.OUTSIDE}/{name}", lambda: host.admin.post(path, body))
    gone = partial(host.admin.delete, f"{path}/{name}?gracePeriodSeconds=0")
    what = f"delete pod {site.OUTSIDE}/{name}"
    host.later(rng.uniform(4, 12), "foreign", what, partial(surely, gone))


def change_node(host: Host, made: Made, rng: random.Random) -> None:
    """Taint a small node, cordon it, or change its product or its GPUs, and put it back."""
    name = rng.choice((*site.SCARCE_NODES, *site.RACKED_NODES))
    path, usual = f"/api/v1/nodes/{name}", site.node(name)
    taint = {"key": "chaos.test/away", "value": "x", "effect": "NoSchedule"}
    fewer = {names.GPU_RESOURCE: str(rng.choice((1, 2)))}
    changes: tuple[tuple[str, str, Json, Json], ...] = (
        ("tainted", path, {"spec": {"taints": [taint]}}, {"spec": {"taints": None}}),
        ("cordoned", path, _unschedulable(True), _unschedulable(None)),
        (
            "of another product", path, _of_product("Tesla-P4"),
            _of_product(site.V100 if name in site.RACKED_NODES else site.L4),
        ),
        (
            "smaller", f"{path}/status",
            {"status": {"allocatable": fewer, "capacity": fewer}}, {"status": usual["status"]},
        ),
    )  # fmt: skip
    what, there, change, back = rng.choice(changes)
    host.send("change-node", f"node {name} is {what}", partial(host.admin.patch, there, change))
    again = partial(surely, partial(host.admin.patch, there, back))
    host.later(rng.uniform(4, 12), "change-node", f"node {name} is as before", again)


def _unschedulable(value: bool | None) -> Json:
    return {"spec": {"unschedulable": value}}


def _of_product(product: str) -> Json:
    return {"metadata": {"labels": {names.GPU_PRODUCT_LABEL: product}}}


# ------------------------------------------------------------------------------------ programs


def kill_controller(host: Host, made: Made, rng: random.Random) -> None:
    """Kill one of the controllers."""
    host.kill(rng.choice(CONTROLLERS), rng.uniform(0, 4))


def freeze_controller(host: Host, made: Made, rng: random.Random) -> None:
    """Freeze one of the controllers, shorter or longer than its Lease lasts."""
    host.freeze(rng.choice(CONTROLLERS), rng.choice((1.0, 3.0, 12.0)))


def kill_webhook(host: Host, made: Made, rng: random.Random) -> None:
    """Kill the webhook."""
    host.kill(WEBHOOK, rng.uniform(0, 3))


def freeze_webhook(host: Host, made: Made, rng: random.Random) -> None:
    """Freeze the webhook."""
    host.freeze(WEBHOOK, rng.uniform(1, 4))


def kill_apiserver(host: Host, made: Made, rng: random.Random) -> None:
    """Kill the API server."""
    host.kill("kube-apiserver", rng.uniform(0, 3))


def freeze_apiserver(host: Host, made: Made, rng: random.Random) -> None:
    """Freeze the API server."""
    host.freeze("kube-apiserver", rng.uniform(0.5, 6))


def kill_etcd(host: Host, made: Made, rng: random.Random) -> None:
    """Kill the store."""
    host.kill("etcd", rng.uniform(0, 2))


def freeze_etcd(host: Host, made: Made, rng: random.Random) -> None:
    """Freeze the store."""
    host.freeze("etcd", rng.uniform(0.5, 5))


def drop_kind(host: Host, made: Made, rng: random.Random) -> None:
    """Delete the kind Workload, and apply it again."""
    host.drop_kind(rng.uniform(0.5, 4))


def restore_etcd(host: Host, made: Made, rng: random.Random) -> None:
    """Put back what the store had some seconds before."""
    host.snapshot()
    host.later(rng.uniform(3, 12), "restore-etcd", "put the snapshot back", host.restore)


KINDS: Final[dict[str, Kind]] = {
    "pod": Kind(pod, 35),
    "group": Kind(group, 7),
    "job": Kind(job, 10),
    **({"claim": Kind(claim, 8)} if features.SERVES_CLAIMS else {}),
    "preempt": Kind(preempt, 6),
    **({"classes": Kind(classes, 7)} if features.SERVES_CLAIMS else {}),
    "checked": Kind(checked, 6),
    "flavors": Kind(flavors, 8),
    "slices": Kind(slices, 5),
    "lend": Kind(lend, 4),
    "replace-member": Kind(replace_member, 3),
    "elastic": Kind(elastic, 6),
    "partial": Kind(partial_job, 3),
    "steal": Kind(steal, 4),
    "take-pod": Kind(take_pod, 10),
    "delete-workload": Kind(delete_workload, 3),
    "stop-queue": Kind(stop_queue, 2),
    "gang": Kind(gang, 8),
    "patch-gang": Kind(patch_gang, 6),
    "serve": Kind(serve, 5),
    "surge": Kind(surge, 3),
    "scale": Kind(scale, 6),
    "rollout": Kind(rollout, 4),
    "patch-serving": Kind(patch_serving, 4),
    "delete-owner": Kind(delete_owner, 6),
    "deactivate": Kind(deactivate, 4),
    "finish": Kind(finish, 14),
    "delete": Kind(delete, 12),
    "delete-job-pod": Kind(delete_job_pod, 5),
    "delete-job": Kind(delete_job, 2),
    "orphan": Kind(orphan, 4),
    "label": Kind(label, 10),
    "patch-job": Kind(patch_job, 10),
    "quota": Kind(quota, 3),
    "room": Kind(room, 16),
    "room-high": Kind(room_high, 4),
    "rack": Kind(rack, 12),
    "rack-high": Kind(rack_high, 3),
    "rack-lost": Kind(rack_lost, 1.5, is_fault=True),
    "quiet": Kind(quiet, 1.5, is_regular=True),
    "foreign": Kind(foreign, 3),
    "change-node": Kind(change_node, 3),
    "lose-node": Kind(lose_node, 1, is_fault=True),
    "silence-node": Kind(silence_node, 1, is_fault=True),
    "condemn-node": Kind(condemn_node, 1, is_fault=True),
    "kill-controller": Kind(kill_controller, 1.5, is_fault=True),
    "freeze-controller": Kind(freeze_controller, 1.5, is_fault=True),
    "kill-webhook": Kind(kill_webhook, 1, is_fault=True),
    "freeze-webhook": Kind(freeze_webhook, 0.7, is_fault=True),
    "kill-apiserver": Kind(kill_apiserver, 0.5, is_fault=True),
    "freeze-apiserver": Kind(freeze_apiserver, 0.7, is_fault=True),
    "kill-etcd": Kind(kill_etcd, 0.5, is_fault=True),
    "freeze-etcd": Kind(freeze_etcd, 0.7, is_fault=True),
    "drop-kind": Kind(drop_kind, 0.4, is_fault=True),
    "restore-etcd": Kind(restore_etcd, 0.4, is_fault=True),
}


class Planned(NamedTuple):
    """An action of a plan.

    Attributes:
        at: second of the storm.
        kind: name of the kind.
        rng: what the action draws from.
    """

    at: float
    kind: str
    rng: random.Random


def plan(seed: int, seconds: float, kinds: Collection[str]) -> Iterator[Planned]:
    """Yield what a storm does, in order and without end.

    Args:
        seed: of the storm.
        seconds: of the storm; each kind happens at least once in it.
        kinds: names of kinds.
    """
    return heapq.merge(*(_planned(seed, seconds, name) for name in sorted(kinds)))


def _planned(seed: int, seconds: float, kind: str) -> Iterator[Planned]:
    times, rng = random.Random(f"{seed}/{kind}/times"), random.Random(f"{seed}/{kind}")
    begin = seconds * _CALM_SHARE if KINDS[kind].is_fault else 0.0
    period = min(60 / KINDS[kind].per_minute, (seconds - begin) * 0.9)
    for place in itertools.count():
        offset = 0.0 if KINDS[kind].is_regular else times.random()
        yield Planned(begin + (place + offset) * period, kind, rng)


def _late(refs: list[T], rng: random.Random) -> T | None:
    """Return one of the last refs, the later the likelier; None where there is none."""
    draw = rng.random()
    return refs[-1 - int(draw * draw * min(len(refs), 20))] if refs else None


_GROUPS: Final = {
    "pods": "/api/v1",
    "jobs": "/apis/batch/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "pytorchjobs": "/apis/kubeflow.org/v1",
}
OWNERS: Final = tuple(plural for plural in _GROUPS if plural != "pods")
"""Plurals of the kinds whose objects make pods."""


def collection(plural: str, team: str) -> str:
    """Return the path of the objects of a kind in a namespace."""
    return f"{_GROUPS[plural]}/namespaces/{team}/{plural}"


def _path(plural: str, ref: Ref) -> str:
    return f"{collection(plural, ref[0])}/{ref[1]}"


def _text(ref: Ref) -> str:
    return "/".join(ref)
