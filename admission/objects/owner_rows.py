"""Kinds of owners that are held as a whole, as data: where in an object what stands.

A kind is a row of `ROWS`; nothing about it is code. A path names members from the top of the
object, or of what is said: ``spec.runPolicy.suspend``. ``[*]`` is each item of a list, and ``*``
each member of an object: ``spec.replicatedJobs[*]``, ``status.replicaStatuses.*.active``.
Source of each row: the named package of kueue's pkg/controller/jobs, and the API of the framework.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.base.fielderrors import FieldPath

EACH: Final = "[*]"
_EVERY: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of which the number of pods is a product.

    Attributes:
        path: where it stands, from the place of the pod set.
        at_most: path of another number that bounds it where it is there; empty for none.
        least: what stands for a smaller number.
    """

    path: str
    at_most: str = ""
    least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSets:
    """Pod sets of an owner: one, or one for each item of a list.

    Attributes:
        at: where it stands: ``spec.headGroupSpec``, ``spec.replicatedJobs[*]``. Where nothing
            stands there is no pod set.
        template: path of the pod template, from there.
        name: name of the pod set; empty where ``name_at`` says it.
        name_at: path of the name, from there.
        counts: numbers whose product is the number of pods; each is 1 where it is absent.
        replica: how many of ``counts``, from the first on, make one replica of which the status
            tells; the others say how many pods a replica has.
        put: what else is set there while the owner is held, by path from there.
    """

    at: str
    template: str = "template"
    name: str = ""
    name_at: str = ""
    counts: tuple[Count, ...] = ()
    replica: int = 1
    put: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that the status of an owner says, or does not.

    Attributes:
        condition: type of a condition in ``status.conditions`` that is True; or empty.
        path: where a value stands otherwise.
        value: that value; if empty, one number at the path is above 0.
    """

    condition: str = ""
    path: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What the status of an owner says of the replicas of each pod set.

    Attributes:
        at: where it stands: ``status.replicatedJobsStatus[*]``.
        name: path of the name of the pod set, from there.
        ready: path of the number of replicas that are ready, from there.
        succeeded: path of the number of replicas that have succeeded, and never run again.
    """

    at: str
    name: str
    ready: str
    succeeded: str


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
        failed: says that it has ended otherwise.
        active: any of them says that pods of it run.
        ready: says that its pods are ready; or ``replicas`` says it.
        replicas: what the status says of its replicas; None where it says nothing that is read.
        suspended: type of the condition with which its controller says that it has seen the owner
            suspended; empty for none.
        refused: switches that must not be on in a queue: their paths, each with the reason.
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
    failed: Check | None = None
    active: tuple[Check, ...] = ()
    ready: Check | None = None
    replicas: Replicas | None = None
    suspended: str = ""
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def api_version(self) -> str:
        """``group/version``."""
        return f"{self.group}/{self.version}"


class Member(msgspec.Struct, frozen=True, gc=False):
    """What stands at a path, and where."""

    path: FieldPath
    value: Any


def find(document: Any, path: str, at: FieldPath | None = None) -> Iterator[Member]:
    """Yield what stands at a path; nothing where it is absent or null.

    Args:
        document: where to look.
        path: from there.
        at: where the document itself stands.

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
    for position, one in enumerate(value or ()):
        yield from find(one, rest, below.index(position))


def value_at(document: Any, path: str) -> Any:
    """Return the first that stands at a path; None for nothing.

    Raises:
        msgspec.ValidationError: something on the way is no object, or no list.
    """
    return next((found.value for found in find(document, path)), None) if path else None


def number_at(document: Any, path: str, default: int, at: FieldPath | None = None) -> int:
    """Return the number at a path.

    Raises:
        msgspec.ValidationError: what stands there is no whole number from 0 on.
    """
    found = next(find(document, path, at), None) if path else None
    if found is None:
        return default
    if not isinstance(found.value, int) or isinstance(found.value, bool) or found.value < 0:
        raise msgspec.ValidationError(f"{found.path.text}: must be a whole number from 0 on")
    return found.value


# ------------------------------------------------------------------------------------- the table

_FAILED: Final = "Failed"


def _kubeflow(
    kind: str,
    replicas: str,
    types: tuple[str, ...],
    version: str = "v1",
    makers: tuple[str, ...] = ("system:serviceaccount:kubeflow:training-operator",),
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
    """
    return Row(
        framework=f"kubeflow.org/{kind.lower()}",
        group="kubeflow.org",
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        suspend="spec.runPolicy.suspend",
        pod_sets=tuple(
            PodSets(at=f"spec.{replicas}.{one}", name=one, counts=(Count(path="replicas"),))
            for one in types
        ),
        makers=frozenset(makers),
        priority_class="spec.runPolicy.schedulingPolicy.priorityClass",
        succeeded=Check(condition="Succeeded"),
        failed=Check(condition=_FAILED),
        active=(Check(path="status.replicaStatuses.*.active"),),
        ready=Check(condition="Running"),
        suspended="Suspended",
    )


_MPI_MAKERS: Final = (
    "system:serviceaccount:kubeflow:mpi-operator",
    "system:serviceaccount:mpi-operator:mpi-operator",
)

ROWS: Final[tuple[Row, ...]] = (
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
                put=(("template.spec.podReplacementPolicy", _FAILED),),  # see ADR 0125
            ),
        ),
        makers=frozenset({"system:serviceaccount:jobset-system:jobset-controller-manager"}),
        succeeded=Check(condition="Completed"),
        failed=Check(condition=_FAILED),
        active=(Check(path="status.replicatedJobsStatus[*].active"),),
        replicas=Replicas(
            at="status.replicatedJobsStatus[*]", name="name", ready="ready", succeeded="succeeded"
        ),
        suspended="Suspended",
    ),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")),
    _kubeflow("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
    _kubeflow("JAXJob", "jaxReplicaSpecs", ("Worker",)),
    _kubeflow("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), "v2beta1", _MPI_MAKERS),
    Row(  # pkg/controller/jobs/raycluster; kuberay ray-operator/apis/ray/v1 (raycluster_types.go)
        framework="ray.io/raycluster",
        group="ray.io",
        version="v1",
        kind="RayCluster",
        plural="rayclusters",
        pod_sets=(
            PodSets(at="spec.headGroupSpec", name="head"),
            PodSets(
                at="spec.workerGroupSpecs[*]",
                name_at="groupName",
                counts=(Count(path="replicas"), Count(path="numOfHosts", least=1)),
            ),
        ),
        makers=frozenset(
            {
                "system:serviceaccount:kuberay-operator:kuberay-operator",
                "system:serviceaccount:ray-system:kuberay-operator",
            }
        ),
        active=(Check(path="status.state", value="ready"),),
        ready=Check(path="status.state", value="ready"),
        suspended="RayClusterSuspended",
        refused=(
            (
                "spec.enableInTreeAutoscaling",
                "must be false in a queue: workers that were not admitted would start",
            ),
        ),
    ),
)
"""In the order in which they are listed for people."""
