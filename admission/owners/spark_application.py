"""SparkApplications: their pod templates follow from fields of Spark, and Spark makes the pods.

The driver makes the executors as the service account of its author, so who made a pod says
nothing. Each pod is gated when it is made, and the controller lets those start that the admission
stands for. See ADR 0149.
Source: kueue pkg/controller/jobs/sparkapplication; spark-operator api/v1beta2; Spark 3.5
resource-managers/kubernetes (BasicDriverFeatureStep, BasicExecutorFeatureStep).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, cast

import msgspec
from typing_extensions import override

from admission.base import fielderrors, names, patches, quantity, syntax
from admission.base.errors import AdmissionError
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import owner_rows as rows
from admission.objects import reviewed_pod, views
from admission.objects.owner_rows import Row
from admission.objects.workload import PodSet, Workload
from admission.owners import row_owner, row_review
from admission.owners.framework import Integration, Kind
from admission.owners.injection import Injection
from admission.owners.review import HeldKind, Template
from admission.owners.row_owner import RowOwner, RowView

KIND: Final[Kind] = row_owner.kind_of(rows.SPARK_APPLICATION)
PARENT: Final = rows.SPARK_APPLICATION.framework
"""What its pods say in the annotation ``names.POD_SUSPENDING_PARENT``."""

_ROLES: Final = ("driver", "executor")
_APP_LABEL: Final = "sparkoperator.k8s.io/app-name"
_ROLE_LABEL: Final = "spark-role"
_CONTAINERS: Final = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
_MEMORY: Final = re.compile(r"([0-9]+)([a-z]*)")
_UNITS: Final = {
    letter + ending: 1 << 10 * power
    for power, letter in enumerate("bkmgtp")
    for ending in (("", "b", "i") if power else ("",))
}
_MIB: Final = 1 << 20
_DEFAULT_MEMORY: Final = "1g"
_LEAST_OVERHEAD: Final = 384
_MOST_FACTOR: Final = 1000
_DEFAULT_EXECUTORS: Final = "2"
_NOT_JVM: Final = ("Python", "R")
_OF_ADMISSION: Final = frozenset({names.WORKLOAD_ANNOTATION, names.PODSET_LABEL})


class SparkDocument(row_owner.RowDocument, frozen=True, kw_only=True):
    """A SparkApplication whole, as it was watched."""

    @property
    @override
    def content(self) -> dict[str, Any]:
        name = {"name": self.metadata.name}
        pods = pods_of(self.spec)
        return {"metadata": name, "spec": self.spec, "status": self.status, "made": pods}


# -------------------------------------------------------------------------- what its pods ask for


def pods_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod templates of driver and executors, and how many executors there are.

    Raises:
        msgspec.ValidationError: a field of it cannot be read.
    """
    roles = {role: {"template": _SparkRole(spec, role).template()} for role in _ROLES}
    instances = rows.value_at(spec, "executor.instances")
    path = FieldPath.of("spec", "executor", "instances")
    count = _whole(path, str(instances)) if instances is not None else _executors(spec)
    return {**roles, "executor": {**roles["executor"], "instances": count}}


def _executors(spec: Mapping[str, Any]) -> int:
    key = "spark.executor.instances"
    instances = str((spec.get("sparkConf") or {}).get(key, _DEFAULT_EXECUTORS))
    return _whole(FieldPath.of("spec", "sparkConf").key(key), instances)


def _whole(path: FieldPath, text: str) -> int:
    number = syntax.whole_number(text)
    if number is None:
        raise msgspec.ValidationError(f"{path.text}: must be a whole number 0 or more")
    return number


def memory_bytes(path: FieldPath, text: str, unit: int = _MIB) -> int:
    """Return an amount of memory as Spark reads it: ``512m``, ``2g``.

    Args:
        path: its path.
        text: the amount.
        unit: what a number without a unit counts, in bytes.

    Raises:
        msgspec.ValidationError: it is none.
    """
    match = _MEMORY.fullmatch(text.strip().lower())
    size = None if match is None else _UNITS.get(match[2], 0) if match[2] else unit
    number = None if match is None else syntax.whole_number(match[1])
    if number is None or not size:
        raise msgspec.ValidationError(
            f"{path.text}: must be an amount of memory in Spark's format, such as 2g"
        )
    return number * size


@dataclass(frozen=True, slots=True)
class _SparkRole:
    """The driver, or the executors, of an application.

    Attributes:
        spec: of the application.
        name: ``driver`` or ``executor``.
    """

    spec: Mapping[str, Any]
    name: str

    @property
    def part(self) -> Mapping[str, Any]:
        part = self.spec.get(self.name)
        return part if isinstance(part, dict) else {}

    @property
    def conf(self) -> Mapping[str, Any]:
        return self.spec.get("sparkConf") or {}

    def said(self, field: str, key: str) -> tuple[FieldPath, str] | None:
        """Return a field, or else a property of Spark, with its path."""
        if self.part.get(field) is not None:
            return FieldPath.of("spec", self.name, field), str(self.part[field])
        if key in self.conf:
            return FieldPath.of("spec", "sparkConf").key(key), str(self.conf[key])
        return None

    def template(self) -> dict[str, Any]:
        """Return the template of its pods, as far as quota and scheduling depend on it."""
        base = self.part.get("template") or {}
        metadata, spec = base.get("metadata") or {}, dict(base.get("spec") or {})
        containers = [dict(container) for container in spec.get("containers") or ()] or [{}]
        container_name = _CONTAINERS[self.name]
        at = next(
            (
                n
                for n, container_ in enumerate(containers)
                if container_.get("name") == container_name
            ),
            0,
        )
        containers[at] = self._container(containers[at])
        spec["containers"] = [*containers, *(self.part.get("sidecars") or ())]
        init_containers = [
            *(spec.get("initContainers") or ()),
            *(self.part.get("initContainers") or ()),
        ]
        selector = {
            **(spec.get("nodeSelector") or {}),
            **(self.spec.get("nodeSelector") or {}),
            **(self.part.get("nodeSelector") or {}),
        }
        tolerations = [*(spec.get("tolerations") or ()), *(self.part.get("tolerations") or ())]
        put = {
            "initContainers": init_containers,
            "nodeSelector": selector,
            "tolerations": tolerations,
        }
        spec |= {member: value for member, value in put.items() if value}
        for member in ("affinity", "priorityClassName", "schedulerName"):
            if self.part.get(member):
                spec[member] = self.part[member]
        template_spec = {
            member: {
                key: text
                for key, text in {
                    **(metadata.get(member) or {}),
                    **(self.part.get(member) or {}),
                }.items()
                if key not in _OF_ADMISSION
            }
            for member in ("labels", "annotations")
        }
        return {"metadata": template_spec, "spec": spec}

    def _container(self, base: Mapping[str, Any]) -> dict[str, Any]:
        resources = base.get("resources") or {}
        requests = {
            **(resources.get("requests") or {}),
            "cpu": self._cpu(),
            "memory": self._memory(),
        }
        limits = dict(resources.get("limits") or {})
        limits["memory"] = requests["memory"]
        limit = self.said("coreLimit", f"spark.kubernetes.{self.name}.limit.cores")
        if limit is not None:
            limits["cpu"] = _amount(*limit)
        if self.part.get("memoryLimit"):
            path = FieldPath.of("spec", self.name, "memoryLimit")
            limits["memory"] = _mib(memory_bytes(path, str(self.part["memoryLimit"]), 1))
        limits |= dict(self._devices())
        return {
            **base,
            "name": base.get("name") or _CONTAINERS[self.name],
            "resources": {"requests": requests, "limits": limits},
        }

    def _devices(self) -> Iterator[tuple[str, str]]:
        gpu = self.part.get("gpu") or {}
        if gpu.get("name") and gpu.get("quantity"):
            yield str(gpu["name"]), str(gpu["quantity"])
        start, end = f"spark.{self.name}.resource.", ".amount"
        for key, amount in sorted(self.conf.items()):
            vendor = self.conf.get(f"{key.removesuffix(end)}.vendor")
            if key.startswith(start) and key.endswith(end) and vendor:
                yield f"{vendor}/{key.removeprefix(start).removesuffix(end)}", str(amount)

    def _cpu(self) -> str:
        key = f"spark.kubernetes.{self.name}.request.cores"
        cores = self.said("coreRequest", key) or self.said("cores", f"spark.{self.name}.cores")
        return "1" if cores is None else _amount(*cores)

    def _memory(self) -> str:
        """Return the memory that Spark asks for: that of its heap, and more beside it."""
        memory = self._bytes("memory", f"spark.{self.name}.memory", _DEFAULT_MEMORY) // _MIB
        overhead = self.said("memoryOverhead", f"spark.{self.name}.memoryOverhead")
        if overhead is None:
            overhead_mib = max(int(self._factor() * memory), _LEAST_OVERHEAD)
        else:
            overhead_mib = memory_bytes(*overhead) // _MIB
        if self.name == "executor":
            overhead_mib += self._beside_heap()
        return f"{memory + overhead_mib}Mi"

    def _bytes(self, field: str, key: str, default: str) -> int:
        path_and_text = self.said(field, key) or (FieldPath.of("spec", self.name, field), default)
        return memory_bytes(*path_and_text)

    def _factor(self) -> Decimal:
        keys = (f"spark.{self.name}.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
        configured = next((str(self.conf[key]) for key in keys if key in self.conf), None)
        text = configured or self.spec.get("memoryOverheadFactor")
        if not text:
            return Decimal("0.4" if self.spec.get("type") in _NOT_JVM else "0.1")
        try:
            factor = Decimal(str(text))
        except InvalidOperation:
            factor = Decimal(-1)
        if not factor.is_finite() or not 0 <= factor <= _MOST_FACTOR:
            rule = f"must be a number from 0 to {_MOST_FACTOR}, such as 0.1"
            raise msgspec.ValidationError(f"spec.memoryOverheadFactor: {rule}")
        return factor

    def _beside_heap(self) -> int:
        """Return the memory of executors for Python and outside the heap, in MiB."""
        mib, path = 0, FieldPath.of("spec", "sparkConf")
        python, heap = "spark.executor.pyspark.memory", "spark.memory.offHeap.size"
        if self.spec.get("type") == "Python" and python in self.conf:
            mib += memory_bytes(path.key(python), str(self.conf[python])) // _MIB
        is_on = str(self.conf.get("spark.memory.offHeap.enabled", "")).lower() == "true"
        if is_on and heap in self.conf:
            mib += memory_bytes(path.key(heap), str(self.conf[heap]), 1) // _MIB
        return mib


def _mib(amount: int) -> str:
    return f"{amount // _MIB}Mi"


def _amount(path: FieldPath, text: str) -> str:
    try:
        quantity.parse_nano(text)
    except (AdmissionError, ValueError) as error:
        raise msgspec.ValidationError(f"{path.text}: must be a quantity: {error}") from error
    return text


# ------------------------------------------------------------------------------------- the owner


@dataclass(frozen=True, slots=True)
class SparkApplicationOwner(RowOwner):
    """A SparkApplication with a queue: only its switch is changed, and its pods are started.

    That it was admitted only its Workload says: anybody may write into the application.
    """

    @override
    def was_admitted(self) -> bool:
        return False

    @override
    def is_injected(self) -> bool:
        return False

    @override
    def lacks_injection(self) -> bool:
        return False

    @override
    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> patches.Patch:
        return row_owner.switch(self.row, self.view, value=False)


def integration(row: Row) -> Integration[RowView, SparkDocument]:
    """Return the kind, as the controller serves it."""
    return Integration(
        kind=KIND,
        document=SparkDocument,
        answer=SparkDocument,
        view=partial(row_owner.read, row),
        owner=partial(SparkApplicationOwner, row),
        build=partial(row_owner.build, row),
        adopt=partial(row_owner.adopt, row),
    )


# -------------------------------------------------------------------------------------- its pods


def is_pod(pod: views.Pod) -> bool:
    """Return whether a pod says that it is of a SparkApplication with a queue."""
    return pod.metadata.annotation(names.POD_SUSPENDING_PARENT) == PARENT


def application_of(pod: views.Pod) -> str:
    """Return the name of the SparkApplication of a pod."""
    return pod.metadata.label(_APP_LABEL)


def role_of(pod: views.Pod) -> str:
    """Return the name of the pod set of a pod."""
    return pod.metadata.label(_ROLE_LABEL)


def has_other_devices(pod: views.Pod, pod_set: PodSet) -> bool:
    """Return whether a pod asks for other devices than the pods that were admitted."""
    return _devices(pod.spec) != _devices(pod_set.template.spec)


def _devices(spec: views.PodSpec) -> tuple[object, ...]:
    device_requests = sorted(
        (name, quantity.to_canonical(name, str(amount)))
        for container in (*(spec.init_containers or ()), *spec.containers)
        for name, amount in {
            **(container.resources.requests or {}),
            **(container.resources.limits or {}),
        }.items()
        if "/" in name
    )
    return (*device_requests, *(spec.resource_claims or ()))


# --------------------------------------------------------------------------------------- reviews


class ReviewedSparkApplication(row_review.ReviewedRowOwner, frozen=True, kw_only=True):
    """A SparkApplication under review."""

    @property
    @override
    def content(self) -> dict[str, Any]:
        name = {"name": self.metadata.name}
        return {"metadata": name, "spec": self.spec, "made": pods_of(self.spec)}

    @override
    def is_held(self) -> bool:
        return self.spec.get("suspend") is True

    @override
    def hold(self) -> tuple[Operation, ...]:
        marks = {names.POD_SUSPENDING_PARENT: PARENT}
        return (
            *row_owner.hold({"spec": self.spec}, self.row.suspend),
            *self._on_pods("annotations", marks),
        )

    @override
    def spread(self, queue: str) -> tuple[Operation, ...]:
        return self._on_pods("labels", {names.QUEUE_LABEL: queue})

    def _on_pods(self, member: str, marks: Mapping[str, str]) -> tuple[Operation, ...]:
        """Return the operations that give labels or annotations to its pods."""
        patch = PatchBuilder()
        for role in _ROLES:
            present = rows.value_at(self.spec, f"{role}.{member}")
            patch.merge(FieldPath.of("spec", role, member).pointer(), present, dict(marks))
        return patch.operations()

    @override
    def templates(self) -> tuple[Template, ...]:
        pods = pods_of(self.spec)
        counts = {"driver": 1, "executor": pods["executor"]["instances"]}
        return tuple(
            Template(
                name=role,
                path=FieldPath.of("spec", role),
                pod=reviewed_pod.from_dict(pods[role]["template"]),
                count=counts[role],
                fewest=counts[role],
                raw=pods[role]["template"],
                asks_at="gpu",
            )
            for role in _ROLES
        )

    @override
    def errors(self, old: "row_review.ReviewedRowOwner | None") -> list[FieldError]:
        errors_ = super().errors(old)
        if not self.metadata.label(names.QUEUE_LABEL):
            return errors_
        if self.spec.get("mode", "cluster") != "cluster":
            rule = "must be cluster in a queue: in other modes the driver is not a pod"
            errors_.append(
                fielderrors.invalid(FieldPath.of("spec", "mode"), str(self.spec["mode"]), rule)
            )
        key = "spark.dynamicAllocation.enabled"
        if str((self.spec.get("sparkConf") or {}).get(key, "")).lower() == "true":
            path = FieldPath.of("spec", "sparkConf").key(key)
            errors_.append(fielderrors.invalid(path, value="true", detail=rows.NOT_DYNAMIC))
        return errors_


def held(row: Row) -> HeldKind:
    """Return the kind, as reviews serve it."""
    document = msgspec.defstruct(
        row.kind,
        (),
        bases=(ReviewedSparkApplication,),
        namespace={"row": row, "__doc__": f"{row.kind} under review."},
        frozen=True,
        kw_only=True,
    )
    return HeldKind(
        kind=KIND,
        document=cast(type[ReviewedSparkApplication], document),
        templates=(),
        makers=row.makers,
        framework=row.framework,
        changes=("suspend",),
        tells_start=False,
    )
