"""Kinds of owners that are held as a whole (JobSet, Ray, MPI ...), as data: their paths.

A kind is a row of `ROWS`; nothing about it is code. A path names members from the top of the
object, or of what is said: ``spec.runPolicy.suspend``. ``[*]`` is each item of a list, and ``*``
each member of an object: ``spec.replicatedJobs[*]``, ``status.replicaStatuses.*.active``.
Source of each row: the named package of kueue's pkg/controller/jobs, and the API of the framework.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from admission.base import names
from admission.base.fielderrors import FieldPath

EACH: Final = "[*]"
_EVERY: Final = "*"
_NAMES: Final = ("apiVersion", "kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A factor of the number of pods.

    Attributes:
        path: its path, relative to the pod set.
        at_most: path of another number that bounds it, if that is set; empty for none.
        at_least: path of another number to use if it is larger; empty for none.
        least: value to use for a smaller number.
    """

    path: str
    at_most: str = ""
    at_least: str = ""
    least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition or field of an owner that is checked.

    Attributes:
        condition: type of a condition in ``status.conditions`` that is True; or empty.
        path: path of another value.
        values: any of these; ``""`` is for none at all. Without any, a number at the path is above
            0.
        message: path of the message that tells more; that of the condition by itself.
        also: another check that must hold as well.
        unless: another check that must not hold.
    """

    condition: str = ""
    path: str = ""
    values: tuple[str | bool, ...] = ()
    message: str = ""
    also: "Check | None" = None
    unless: "Check | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedContainer:
    """A container that the framework's controller makes, and no template has.

    Attributes:
        name: its name.
        image: path of its image, from the place of the pod set; empty where no one asks for it.
        requests: what it asks for.
        limits: what it is limited to.
        resources: path of what it asks for and is limited to instead, from the object, if it says
            so; empty for none.
    """

    name: str
    image: str = ""
    requests: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    resources: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberLabels:
    """Labels that number the pods of a pod set.

    Attributes:
        pod: label with the number of a pod, from 0 on.
        replica: label with the number of its replica, if each replica numbers its pods anew; empty
            where pods of all replicas are numbered together.
        begin_at_one: what the owner says if its first pod has the number 1, because 0 is a pod of
            another pod set; None for never.
    """

    pod: str
    replica: str = ""
    begin_at_one: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSets:
    """Pod sets of an owner: one, or one for each item of a list.

    Attributes:
        at: its path: ``spec.headGroupSpec``, ``spec.replicatedJobs[*]``. Where nothing
            stands there is no pod set.
        template: path of the pod template, from there.
        name: name of the pod set; empty where ``name_at`` says it.
        name_at: path of the name, from there.
        counts: numbers whose product is the number of pods; each is 1 where it is absent.
        least: path of the number of pods with which an owner that may grow starts, from the
            object, if it says so; empty for all.
        replica: how many of ``counts``, from the first on, make one replica of which the status
            tells; the others say how many pods a replica has.
        put: what else is set there while the owner is held, by path from there.
        only: what the owner has to say for it to have these pod sets.
        default: the container of the template that the framework's controller uses where none
            stands; None where one has to stand.
        beside: containers that this controller adds to those of the template, each with what the
            owner says then.
        given: path of the members that an admission adds, if not in the template.
        is_fixed: the number of its pods stays though its owner may grow: they do not wait for the
            controller.
        numbers: how its pods are numbered; None where they have no number.
    """

    at: str
    template: str = "template"
    name: str = ""
    name_at: str = ""
    counts: tuple[Count, ...] = ()
    least: str = ""
    replica: int = 1
    put: tuple[tuple[str, str], ...] = ()
    only: Check | None = None
    default: AddedContainer | None = None
    beside: tuple[tuple[Check, AddedContainer], ...] = ()
    given: "Given | None" = None
    is_fixed: bool = False
    numbers: NumberLabels | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """One of a list of objects beside the pod templates, with what an admission gives to one.

    Attributes:
        at: path of the list.
        index: index of the object in the list.
        value: the object: ``labels``, ``annotations``, ``nodeSelector``, ``tolerations`` and
            ``schedulingGates``; empty where there is none.
    """

    at: FieldPath
    index: int
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Whole objects inside an owner; their pod sets are its own.

    Attributes:
        at: their path: ``spec.components[*]``.
        template: path of the object, from there.
        declared: path of the list in which its author says where its pod templates stand: each has
            a ``path`` that begins with the name of ``template``.
        given: path of the list of what an admission gives to each of them, in the same order.
        known: kinds whose pod templates need not be declared; others have pods if they declare
            them.
        kinds: the kinds that are counted. Of others their own controllers, or their pods, are
            admitted one by one.
    """

    at: str
    template: str
    declared: str
    given: str
    known: frozenset[str]
    kinds: "tuple[Row, ...]" = ()

    def has_pods(self, component: Any) -> bool:
        """Return whether a component has pods, as far as it says so."""
        kind = value_at(component, f"{self.template}.kind")
        return kind in self.known or bool(value_at(component, self.declared))

    def kind_of(self, component: Any) -> "Row | None":
        """Return the kind of a component; None for one that is not counted."""
        named = tuple(value_at(component, f"{self.template}.{name_}") for name_ in _NAMES)
        kind = next((kind for kind in self.kinds if (kind.api_version, kind.kind) == named), None)
        return kind if self.has_pods(component) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What the status of an owner says of the replicas of each pod set.

    Attributes:
        at: its path: ``status.replicatedJobsStatus[*]``.
        name: path of the name of the pod set, from there.
        ready: path of the number of replicas that are ready, from there.
        succeeded: path of the number of replicas that have succeeded, from there.
        failed: path of the number of replicas that have failed, from there.
        restarts: when its controller runs replicas again that have succeeded.
    """

    at: str
    name: str
    ready: str
    succeeded: str
    failed: str
    restarts: "Restarts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """When the controller of an owner runs replicas again that have succeeded (ADR 0116).

    Source: jobset api/jobset/v1alpha2/jobset_types.go (FailurePolicy, FailurePolicyAction,
    JobSetStatus.restarts) and pkg/controllers (jobset_controller.go, failure_policy.go).

    Attributes:
        limit: path of how often it may; absent is never.
        restarted: path of how often it has; empty where the status does not say it.
        actions: path of the actions of its rules, of which each may run replicas again.
        counted: actions that run none again, or no oftener than ``limit`` says.
        removed: path of the time after which the Job of a replica that has ended is deleted: its
            controller makes it anew.
    """

    limit: str
    restarted: str
    actions: str
    counted: frozenset[str]
    removed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A kind of owners that is held as a whole.

    Attributes:
        framework: its name in ``integrations.frameworks`` of Kueue's Configuration.
        group: API group.
        version: version of the API that is read and written.
        kind: of its objects.
        plural: its resource.
        suspend: path of the switch that holds it.
        pod_sets: its pod sets, in Kueue's order.
        makers: users under which its controller runs; only they make pods, and other owners.
        priority_class: path of the PriorityClass that is asked for before those of the templates.
        succeeded: says that it has ended well.
        failed: any of them says that it has ended otherwise.
        active: any of them says that pods of it run.
        ready: says that its pods are ready; or ``replicas`` says it.
        replicas: what the status says of its replicas; None where it says nothing that is read.
        suspended: type of the condition with which its controller says that it has seen the owner
            suspended; empty for none.
        refused: switches that must not be on in a queue: their paths, each with the reason.
        required: what must be there, and on, in a queue: paths, each with the reason.
        elsewhere: path that says in whose pods it runs. An owner that says so has no pod sets, and
            is left alone.
        components: whole objects in it whose pod sets are its own, in place of ``pod_sets``; they
            have its name and a number.
        may_grow: the number of its pods may change while it runs, if its author says so at its
            creation: its controller makes pods, and deletes them, as the numbers say then. The
            switches in ``refused`` may be on.
        clusters: paths of the names of the RayClusters that its controller makes of it. While one
            that may grow runs, these say how many pods it has.
        remade: path of what its controller makes a second time if anything of it changes, before
            it deletes the first; empty for nothing.
        kept: paths, from there, of what may change without that.
    """

    framework: str
    group: str
    version: str
    kind: str
    plural: str
    suspend: str = "spec.suspend"
    pod_sets: tuple[PodSets, ...]
    makers: frozenset[str] = frozenset()
    priority_class: str = ""
    succeeded: Check | None = None
    failed: tuple[Check, ...] = ()
    active: tuple[Check, ...] = ()
    ready: Check | None = None
    replicas: Replicas | None = None
    suspended: str = ""
    refused: tuple[tuple[str, str], ...] = ()
    required: tuple[tuple[str, str], ...] = ()
    elsewhere: str = ""
    components: Components | None = None
    may_grow: bool = False
    clusters: tuple[str, ...] = ()
    remade: str = ""
    kept: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Member(msgspec.Struct, frozen=True, gc=False):
    """A value, and its path."""

    path: FieldPath
    value: Any


def find(document: Any, path: str, at: FieldPath | None = None) -> Iterator[Member]:
    """Yield the values at a path; nothing if they are absent or null.

    Args:
        document: the document to search.
        path: path relative to the document.
        at: path of the document itself.

    Raises:
        msgspec.ValidationError: something on the way is no object, or no list.
    """
    where = FieldPath() if at is None else at
    if document is None:
        return
    if not path:
        yield Member(where, document)
        return
    step, _, rest = path.partition(".")
    if not isinstance(document, dict):
        raise msgspec.ValidationError(f"{where.text}: must be an object")
    if step == _EVERY:
        for name in sorted(document):
            yield from find(document[name], rest, where.child(name))
        return
    name = step.removesuffix(EACH)
    below, value = where.child(name), document.get(name)
    if name == step:
        yield from find(value, rest, below)
        return
    if value is not None and not isinstance(value, list):
        raise msgspec.ValidationError(f"{below.text}: must be a list")
    for position, item in enumerate(value or ()):
        yield from find(item, rest, below.index(position))


def value_at(document: Any, path: str) -> Any:
    """Return the first value at a path; None if there is none.

    Raises:
        msgspec.ValidationError: something on the way is no object, or no list.
    """
    return next((match.value for match in find(document, path)), None) if path else None


def without(document: Any, paths: Iterable[str]) -> Any:
    """Return a value without the members at some paths in it."""
    result = document
    for path in paths:
        result = _without(result, path)
    return result


def _without(document: Any, path: str) -> Any:
    step, _, rest = path.partition(".")
    name = step.removesuffix(EACH)
    if not isinstance(document, dict) or name not in document:
        return document
    value = document[name]
    if not rest:
        return {key: value for key, value in document.items() if key != name}
    if name == step:
        return {**document, name: _without(value, rest)}
    items = value if isinstance(value, list) else ()
    return {**document, name: [_without(item, rest) for item in items]}


def number_at(document: Any, path: str, default: int, at: FieldPath | None = None) -> int:
    """Return the number at a path.

    Raises:
        msgspec.ValidationError: what stands there is no whole number from 0 on.
    """
    match = next(find(document, path, at), None) if path else None
    if match is None:
        return default
    if not isinstance(match.value, int) or isinstance(match.value, bool) or match.value < 0:
        raise msgspec.ValidationError(f"{match.path.text}: must be a whole number, 0 or more")
    return match.value


def said(document: Mapping[str, Any], check: Check) -> str | None:
    """Return the message with which an owner says something; None if it does not.

    Raises:
        msgspec.ValidationError: something on the way is no object, or no list.
    """
    message = _said_alone(document, check)
    if message is None:
        return None
    if check.also is not None and said(document, check.also) is None:
        return None
    if check.unless is not None and said(document, check.unless) is not None:
        return None
    return str(value_at(document, check.message) or "") if check.message else message


def _said_alone(document: Mapping[str, Any], check: Check) -> str | None:
    if check.condition:
        condition = condition_of(document, check.condition)
        return None if condition is None else str(condition.get("message") or "")
    values = [match.value for match in find(document, check.path)]
    if not check.values:
        is_some = any(isinstance(value, int) and value > 0 for value in values)
    else:
        is_some = any(value in check.values for value in values or ("",))
    return "" if is_some else None


def condition_of(document: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """Return a condition of an owner that is True; None where there is none."""
    for condition in (document.get("status") or {}).get("conditions") or ():
        if isinstance(condition, dict) and (condition.get("type"), condition.get("status")) == (
            kind,
            "True",
        ):
            return condition
    return None


# ------------------------------------------------------------------------------------- the table

_FAILED: Final = "Failed"
_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_OF_JOB_SET: Final = NumberLabels(pod=_COMPLETION_INDEX, replica="jobset.sigs.k8s.io/job-index")
_OF_KUBEFLOW: Final = NumberLabels(pod="training.kubeflow.org/replica-index")


def _of_job_set(spec: str, status: str, restarted: str) -> Replicas:
    """Return what is read of the replicas of a JobSet.

    Args:
        spec: path of its spec.
        status: path of the status of its replicated Jobs.
        restarted: see `Restarts.restarted`.
    """
    return Replicas(
        at=status,
        name="name",
        ready="ready",
        succeeded="succeeded",
        failed="failed",
        restarts=Restarts(
            limit=f"{spec}.failurePolicy.maxRestarts",
            restarted=restarted,
            actions=f"{spec}.failurePolicy.rules[*].action",
            counted=frozenset({"FailJobSet", "RestartJobSet"}),
            removed=f"{spec}.replicatedJobs[*].template.spec.ttlSecondsAfterFinished",
        ),
    )


def _kubeflow(
    kind: str,
    replicas: str,
    types: tuple[str, ...],
    version: str = "v1",
    makers: tuple[str, ...] = ("system:serviceaccount:kubeflow:training-operator",),
    *,
    may_grow: bool = False,
    numbers: Mapping[str, NumberLabels] | None = None,
) -> Row:
    """Return the row of a kind of Kubeflow: pod sets are kinds of replicas, below a run policy.

    Source: kueue pkg/controller/jobs/kubeflow and mpijob; kubeflow training-operator v1
    pkg/apis/kubeflow.org/v1 (common_types.go) and mpi-operator pkg/apis/kubeflow/v2beta1.

    Args:
        kind: of its objects.
        replicas: member of the spec below which its kinds of replicas stand.
        types: these, in Kueue's order.
        version: of the API.
        makers: users under which its controller runs.
        may_grow: see `Row`.
        numbers: of kinds of replicas that are numbered otherwise than most.
    """
    return Row(
        framework=f"kubeflow.org/{kind.lower()}",
        group="kubeflow.org",
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        suspend="spec.runPolicy.suspend",
        pod_sets=tuple(
            PodSets(
                at=f"spec.{replicas}.{type_}",
                name=type_,
                counts=(Count(path="replicas"),),
                least="spec.elasticPolicy.minReplicas" if may_grow and type_ == "Worker" else "",
                numbers=(numbers or {}).get(type_, _OF_KUBEFLOW),
            )
            for type_ in types
        ),
        makers=frozenset(makers),
        priority_class="spec.runPolicy.schedulingPolicy.priorityClass",
        succeeded=Check(condition="Succeeded"),
        failed=(Check(condition=_FAILED),),
        active=(Check(path="status.replicaStatuses.*.active"),),
        ready=Check(condition="Running"),
        suspended="Suspended",
        may_grow=may_grow,
    )


_LAUNCHER_WORKS: Final = Check(path="spec.runLauncherAsWorker", values=(True,))
_MPI_MAKERS: Final = (
    "system:serviceaccount:kubeflow:mpi-operator",
    "system:serviceaccount:mpi-operator:mpi-operator",
)

_RAY: Final = "ray.io"
_KUBERAY: Final = frozenset(
    {
        "system:serviceaccount:kuberay-operator:kuberay-operator",
        "system:serviceaccount:ray-system:kuberay-operator",
    }
)
_DEPLOYMENT: Final = "status.jobDeploymentStatus"
_SUBMITTER: Final = AddedContainer(
    name="ray-job-submitter",
    requests=(("cpu", "500m"), ("memory", "200Mi")),
    limits=(("cpu", "1"), ("memory", "1Gi")),
)
"""Source: kuberay ray-operator/controllers/ray/common/job.go (GetDefaultSubmitterContainer)."""


_AUTOSCALER: Final = AddedContainer(
    name="autoscaler",
    requests=(("cpu", "500m"), ("memory", "512Mi")),
    limits=(("cpu", "500m"), ("memory", "512Mi")),
)
"""Source: kuberay ray-operator/controllers/ray/common/pod.go (BuildAutoscalerContainer)."""
_SCALES: Final = "enableInTreeAutoscaling"


def _ray_pod_sets(
    cluster: str, beside: tuple[tuple[Check, AddedContainer], ...] = ()
) -> tuple[PodSets, ...]:
    """Return the pod sets of the RayCluster spec at a path.

    Args:
        cluster: the path.
        beside: what is added to the head pod besides the autoscaler, and when.
    """
    autoscaler = replace(_AUTOSCALER, resources=f"{cluster}.autoscalerOptions.resources")
    scales = Check(path=f"{cluster}.{_SCALES}", values=(True,))
    return (
        PodSets(
            at=f"{cluster}.headGroupSpec", name="head", beside=((scales, autoscaler), *beside)
        ),
        PodSets(
            at=f"{cluster}.workerGroupSpecs[*]",
            name_at="groupName",
            counts=(
                Count(path="replicas", at_least="minReplicas"),  # see ADR 0142
                Count(path="numOfHosts", least=1),
            ),
        ),
    )


def _autoscales(cluster: str) -> tuple[str, str]:
    """Return the switch that lets a RayCluster scale by itself, and why it is refused."""
    rule = (
        "must be false in a queue: workers that were not admitted would start. To let it scale by"
        f' itself, create it with the annotation {names.ELASTIC_JOB}: "true"'
    )
    return f"{cluster}.{_SCALES}", rule


_BUILT_IN: Final = (
    Row(
        framework="batch/job",
        group="batch",
        version="v1",
        kind="Job",
        plural="jobs",
        pod_sets=(
            PodSets(
                at="spec",
                name="main",
                counts=(Count(path="parallelism", at_most="completions"),),
                put=(("podReplacementPolicy", _FAILED),),
                numbers=NumberLabels(pod=_COMPLETION_INDEX),
            ),
        ),
    ),
    Row(
        framework="pod",
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        pod_sets=(PodSets(at="", template="", name="main"),),
    ),
)
"""Kinds that are modules of their own, as components of other objects."""


def with_components(served: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows with the kinds of components that are counted: those that are served."""
    listed = tuple(served)
    counted = (*_BUILT_IN, *(row for row in listed if row.components is None))
    return tuple(
        row
        if row.components is None
        else replace(row, components=replace(row.components, kinds=counted))
        for row in listed
    )


RAY_CLUSTER: Final = (
    Row(  # pkg/controller/jobs/raycluster; kuberay ray-operator/apis/ray/v1 (raycluster_types.go)
        framework="ray.io/raycluster",
        group=_RAY,
        version="v1",
        kind="RayCluster",
        plural="rayclusters",
        pod_sets=_ray_pod_sets("spec"),
        makers=_KUBERAY,
        active=(Check(path="status.state", values=("ready",)),),
        ready=Check(path="status.state", values=("ready",)),
        suspended="RayClusterSuspended",
        refused=(_autoscales("spec"),),
        may_grow=True,
    )
)

_ROWS: Final[tuple[Row, ...]] = (
    Row(  # pkg/controller/jobs/jobset
        framework="jobset.x-k8s.io/jobset",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        kind="JobSet",
        plural="jobsets",
        pod_sets=(
            PodSets(
                at="spec.replicatedJobs[*]",
                template="template.spec.template",
                name_at="name",
                counts=(
                    Count(path="replicas"),
                    Count(path="template.spec.parallelism", at_most="template.spec.completions"),
                ),
                put=(("template.spec.podReplacementPolicy", _FAILED),),  # see ADR 0040
                numbers=_OF_JOB_SET,
            ),
        ),
        makers=frozenset({"system:serviceaccount:jobset-system:jobset-controller-manager"}),
        succeeded=Check(condition="Completed"),
        failed=(Check(condition=_FAILED),),
        active=(Check(path="status.replicatedJobsStatus[*].active"),),
        replicas=_of_job_set("spec", "status.replicatedJobsStatus[*]", "status.restarts"),
        suspended="Suspended",
    ),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), may_grow=True),
    _kubeflow("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
    _kubeflow("JAXJob", "jaxReplicaSpecs", ("Worker",)),
    _kubeflow(
        "MPIJob",
        "mpiReplicaSpecs",
        ("Launcher", "Worker"),
        "v2beta1",
        _MPI_MAKERS,
        numbers={"Worker": replace(_OF_KUBEFLOW, begin_at_one=_LAUNCHER_WORKS)},
    ),
    RAY_CLUSTER,
    Row(  # pkg/controller/jobs/rayjob; kuberay ray-operator/apis/ray/v1 (rayjob_types.go)
        framework="ray.io/rayjob",
        group=_RAY,
        version="v1",
        kind="RayJob",
        plural="rayjobs",
        pod_sets=(
            *_ray_pod_sets(
                "spec.rayClusterSpec",
                beside=((Check(path="spec.submissionMode", values=("SidecarMode",)), _SUBMITTER),),
            ),
            PodSets(
                at="spec",
                template="submitterPodTemplate",
                name="submitter",
                only=Check(path="spec.submissionMode", values=("K8sJobMode", "")),
                default=replace(
                    _SUBMITTER,
                    image="rayClusterSpec.headGroupSpec.template.spec.containers[*].image",
                ),
                is_fixed=True,
            ),
        ),
        makers=_KUBERAY,
        succeeded=Check(
            path=_DEPLOYMENT,
            values=("Complete", "Failed"),
            message="status.message",
            also=Check(path="status.jobStatus", values=("SUCCEEDED",)),
        ),
        failed=(
            Check(path=_DEPLOYMENT, values=("Complete", "Failed"), message="status.message"),
            Check(
                path=_DEPLOYMENT,
                values=("ValidationFailed",),
                message="status.message",
                also=Check(path="status.rayClusterName", values=("",)),
            ),
        ),
        active=(
            Check(
                path=_DEPLOYMENT,
                values=("Initializing", "Waiting", "Running", "Suspending", "Retrying"),
            ),
        ),
        ready=Check(path="status.rayClusterStatus.state", values=("ready",)),
        refused=(_autoscales("spec.rayClusterSpec"),),
        required=(
            ("spec.rayClusterSpec", "must be set: the pods of this cluster are admitted"),
            (
                "spec.shutdownAfterJobFinishes",
                "must be true in a queue: otherwise the pods of its cluster run on without quota",
            ),
        ),
        elsewhere="spec.clusterSelector",
        may_grow=True,
        clusters=("status.rayClusterName",),
    ),
    Row(  # pkg/controller/jobs/rayservice; kuberay ray-operator/apis/ray/v1 (rayservice_types.go)
        framework="ray.io/rayservice",
        group=_RAY,
        version="v1",
        kind="RayService",
        plural="rayservices",
        pod_sets=_ray_pod_sets("spec.rayClusterConfig"),
        makers=_KUBERAY,
        active=(Check(condition="Ready"), Check(condition="Suspending")),
        ready=Check(condition="Ready"),
        suspended="Suspended",
        refused=(_autoscales("spec.rayClusterConfig"),),
        may_grow=True,
        clusters=(
            "status.activeServiceStatus.rayClusterName",
            "status.pendingServiceStatus.rayClusterName",
        ),
        remade="spec.rayClusterConfig",
        kept=(
            "upgradeStrategy",
            *(
                f"workerGroupSpecs[*].{field}"
                for field in ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
            ),
            *(
                f"{group}.template.spec.{field}"
                for group in ("headGroupSpec", "workerGroupSpecs[*]")
                for field in ("tolerations", "schedulingGates")
            ),
        ),  # kuberay controllers/ray/utils (GenerateHashWithoutReplicasAndWorkersToDelete)
    ),
    Row(  # pkg/controller/jobs/appwrapper; appwrapper api/v1beta2 and pkg/utils/utils.go
        framework="workload.codeflare.dev/appwrapper",
        group="workload.codeflare.dev",
        version="v1beta2",
        kind="AppWrapper",
        plural="appwrappers",
        pod_sets=(),
        components=Components(
            at="spec.components[*]",
            template="template",
            declared="podSets",
            given="podSetInfos",
            known=frozenset(
                {
                    "Deployment",
                    "Job",
                    "JobSet",
                    "Pod",
                    "PyTorchJob",
                    "RayCluster",
                    "RayJob",
                    "StatefulSet",
                }
            ),
        ),
        makers=frozenset(
            {"system:serviceaccount:appwrapper-system:appwrapper-controller-manager"}
        ),
        succeeded=Check(path="status.phase", values=("Succeeded",)),
        failed=(
            Check(
                path="status.phase", values=(_FAILED,), unless=Check(condition="ResourcesDeployed")
            ),
        ),
        active=(Check(condition="QuotaReserved"),),
        ready=Check(condition="PodsReady"),
    ),
)

ROWS: Final = with_components(_ROWS)
"""In the order in which they are listed for people."""

_JOBS_STATUS: Final = "status.jobsStatus[*]"

TRAIN_JOB: Final = Row(  # pkg/controller/jobs/trainjob; trainer pkg/apis/trainer/v1alpha1
    framework="trainer.kubeflow.org/trainjob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    kind="TrainJob",
    plural="trainjobs",
    pod_sets=(
        PodSets(
            at="made.replicatedJobs[*]",
            template="template.spec.template",
            name_at="name",
            counts=(
                Count(path="replicas"),
                Count(path="template.spec.parallelism", at_most="template.spec.completions"),
            ),
            numbers=_OF_JOB_SET,
        ),
    ),
    makers=frozenset(
        {"system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"}
    ),
    succeeded=Check(condition="Complete"),
    failed=(Check(condition=_FAILED),),
    active=(Check(path=f"{_JOBS_STATUS}.active"),),
    replicas=_of_job_set("made", _JOBS_STATUS, restarted=""),  # its status tells no restarts
    suspended="Suspended",
)
"""Its pod sets are those of the JobSet that its controller makes of it: ``made`` is its spec."""

NOT_DYNAMIC: Final = "must be false in a queue: executors that were not admitted would wait"
_STATE: Final = "status.applicationState.state"
_SAID: Final = "status.applicationState.errorMessage"

SPARK_APPLICATION: Final = Row(  # pkg/controller/jobs/sparkapplication; spark-operator api/v1beta2
    framework="sparkoperator.k8s.io/sparkapplication",
    group="sparkoperator.k8s.io",
    version="v1beta2",
    kind="SparkApplication",
    plural="sparkapplications",
    pod_sets=(
        PodSets(at="made.driver", name="driver"),
        PodSets(at="made.executor", name="executor", counts=(Count(path="instances"),)),
    ),
    succeeded=Check(path=_STATE, values=("COMPLETED",), message=_SAID),
    failed=(Check(path=_STATE, values=("FAILED", "SUBMISSION_FAILED"), message=_SAID),),
    active=(
        Check(
            path=_STATE,
            values=(
                "SUBMITTED",
                "RUNNING",
                "PENDING_RERUN",
                "INVALIDATING",
                "SUCCEEDING",
                "FAILING",
                "SUSPENDING",
                "RESUMING",
                "UNKNOWN",
            ),
        ),
    ),
    ready=Check(path=_STATE, values=("RUNNING",)),
    refused=(("spec.dynamicAllocation.enabled", NOT_DYNAMIC),),
)
"""Its pod sets follow from fields of Spark: ``made`` is the templates of both."""

MODULES: Final = (TRAIN_JOB, SPARK_APPLICATION)
"""What is data about kinds that are modules of their own besides."""
