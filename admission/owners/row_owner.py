"""Owners whose kind is a row of a table (JobSet, RayJob, MPIJob ...): their pod sets and states.

What the paths of `admission/objects/owner_rows.py` say, as the Protocol `Owner`.

Source: kueue pkg/controller/jobs (PodSets, Finished, PodsReady, ReclaimablePods, PriorityClass,
RunWithPodSetsInfo, RestorePodSetsInfo) and pkg/podset/podset.go. Every patch changes exactly the
version of the owner that was decided on.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec
from typing_extensions import override

from admission.base import names, patches, structs
from admission.base.conditions import Text
from admission.base.fielderrors import FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import owner_rows as rows
from admission.objects import pod_templates, views
from admission.objects.owner_rows import Check, Components, PodSets, Row
from admission.objects.views import View
from admission.objects.workload import PodSet, PodTemplate, Workload, WorkloadSpec
from admission.owners import injection, prebuilt
from admission.owners.framework import (
    Grows,
    Integration,
    Kind,
    Owner,
    Reclaims,
    Resizes,
    Restores,
    Suspends,
)
from admission.owners.injection import Injection
from admission.owners.topology_domains import topology_request
from admission.owners.workload import (
    PriorityClasses,
    annotations,
    has_other_gates,
    labelled_priority,
    max_execution_seconds,
    pod_class_priority,
    template_spec,
    time_limit,
)
from admission.owners.workload import document as workload_document
from admission.reasons import kueue

_SCHEDULING: Final = ("nodeSelector", "tolerations")
_METADATA: Final = ("labels", "annotations")
_TEMPLATE: Final = "template"
_OUR_LABELS: Final = (
    names.PODSET_LABEL,
    names.LOCAL_QUEUE_NAME_LABEL,
    names.CLUSTER_QUEUE_NAME_LABEL,
)
_AS_TEMPLATE: Final = structs.converter(PodTemplate)


class RowDocument(views.Object, frozen=True, kw_only=True):
    """An owner whole, as it was watched."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        """The parts of the object in which the paths of a row are looked up."""
        name = {"name": self.metadata.name}
        return {"metadata": name, "spec": self.spec, "status": self.status}


class OwnerPodSet(View, frozen=True, kw_only=True):
    """A pod set that an owner asks for.

    Attributes:
        name: of the pod set; lower case, as in Kueue.
        path: path of its pod template.
        count: how many pods it has.
        fewest: minimum number with which it starts, if its owner may grow.
        replicas: how many replicas it has.
        per_replica: how many pods one of them has.
        raw: the pod template as it is stored, or the one that is used where none stands.
        stands: whether it stands in the object.
        default: the template that is used where none stands; None where one has to stand.
        beside: containers that its pods have besides.
        given: path of the members that an admission adds, if not in the template.
        is_fixed: whether the number of its pods stays though its owner may grow.
        numbers: how its pods are numbered; None where they have no number.
        begins_at_one: whether the first of them has the number 1.
        template: what decisions depend on of it.
    """

    name: str
    path: FieldPath
    count: int
    fewest: int
    replicas: int
    per_replica: int
    raw: dict[str, Any]
    stands: bool = True
    default: dict[str, Any] | None = None
    beside: tuple[dict[str, Any], ...] = ()
    given: rows.Given | None = None
    is_fixed: bool = False
    numbers: rows.NumberLabels | None = None
    begins_at_one: bool = False
    template: PodTemplate

    @property
    def pods(self) -> dict[str, Any]:
        """The template with all that its pods have."""
        return with_containers(self.raw, self.beside)


class RowView(views.Object, frozen=True, kw_only=True):
    """An owner with what decisions depend on.

    Attributes:
        document: the owner whole.
        pod_sets: its pod sets.
        digest: tells pod templates apart by what their pods are made from.
    """

    document: RowDocument
    pod_sets: tuple[OwnerPodSet, ...]
    digest: str

    @property
    def marks(self) -> tuple[str, ...]:
        """The Workloads of which its templates say that they were admitted."""
        workloads = (
            pod_set.template.metadata.annotation(names.WORKLOAD_ANNOTATION)
            for pod_set in self.pod_sets
        )
        return tuple(filter(None, workloads))


def document_of(owner: RowDocument | RowView) -> RowDocument:
    """Return an owner whole."""
    return owner.document if isinstance(owner, RowView) else owner


def kind_of(row: Row) -> Kind:
    """Return the kind of a row."""
    return Kind(
        api_version=row.api_version,
        name=row.kind,
        plural=row.plural,
        label=names.QUEUE_LABEL,
        is_deleted_to_stop=False,
        has_condition=False,
    )


def members(row: Row, document: Mapping[str, Any]) -> Iterator[tuple[PodSets, rows.Member]]:
    """Yield each pod set of an owner, in Kueue's order, with what the row says of it.

    Raises:
        msgspec.ValidationError: the row's paths lead to something else.
    """
    if rows.value_at(document, row.elsewhere):
        return
    if row.components is not None:
        yield from _of_components(row.components, document)
        return
    for listed in row.pod_sets:
        if listed.only is not None and rows.said(document, listed.only) is None:
            continue
        for member in rows.find(document, listed.at):
            if not isinstance(member.value, dict):
                raise msgspec.ValidationError(f"{member.path.text}: must be an object")
            yield listed, member


def _of_components(
    components: Components, document: Mapping[str, Any]
) -> Iterator[tuple[PodSets, rows.Member]]:
    """Yield the pod sets of the objects in an owner; they have its name and a number."""
    owner, number = rows.value_at(document, "metadata.name") or "", 0
    for component in rows.find(document, components.at):
        kind = components.kind_of(component.value)
        if kind is None:
            continue
        whole = component.value[components.template]
        if rows.value_at(whole, kind.elsewhere):
            continue
        inside = FieldPath.of(components.template)
        pod_sets = [
            (listed, member)
            for listed in kind.pod_sets
            if listed.default is None  # its controller makes that template, and nobody else
            for member in rows.find(whole, listed.at, inside)
        ]
        for index, at in enumerate(_in_order(components, component, pod_sets)):
            listed, member = pod_sets[at]
            additions = _given(components, component, index)
            name = f"{owner}-{number}"
            number += 1
            yield (
                replace(listed, name=name, name_at="", beside=(), given=additions),
                rows.Member(member.path.within(component.path), member.value),
            )


def _in_order(
    components: Components,
    component: rows.Member,
    pod_sets: Sequence[tuple[PodSets, rows.Member]],
) -> Iterable[int]:
    """Return which pod set of a component is the first that it declares, and so on.

    Raises:
        msgspec.ValidationError: it declares others than it has.
    """
    declared = rows.value_at(component.value, components.declared)
    if not declared:
        return range(len(pod_sets))
    paths = [template_at(listed, member).path.text for listed, member in pod_sets]
    declared_paths = [rows.value_at(entry, "path") for entry in declared]
    if sorted(map(str, declared_paths)) != sorted(paths):
        where = f"{component.path.text}.{components.declared}"
        raise msgspec.ValidationError(f"{where}: must have these paths: {', '.join(paths)}")
    return [paths.index(path) for path in declared_paths]


def _given(components: Components, component: rows.Member, index: int) -> rows.Given:
    listed = rows.value_at(component.value, components.given)
    if not isinstance(listed, list | None):
        where = f"{component.path.text}.{components.given}"
        raise msgspec.ValidationError(f"{where}: must be a list")
    value = listed[index] if listed and index < len(listed) else None
    at = component.path.child(components.given)
    return rows.Given(at, index, value if isinstance(value, dict) else {})


def with_given(template: dict[str, Any], additions: rows.Given | None) -> dict[str, Any]:
    """Return a pod template with the members beside it."""
    if additions is None or not additions.value:
        return template
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    for above, member in ((metadata, "labels"), (metadata, "annotations"), (spec, "nodeSelector")):
        above[member] = {**(above.get(member) or {}), **(additions.value.get(member) or {})}
    for member in ("tolerations", "schedulingGates"):
        values = [*(spec.get(member) or ()), *(additions.value.get(member) or ())]
        if values or member == "tolerations":
            spec[member] = values
    return {**template, "metadata": metadata, "spec": spec}


def components_of(
    row: Row, document: Mapping[str, Any]
) -> Iterator[tuple[Row | None, rows.Member]]:
    """Yield each object in an owner that has pods, and its kind; None for one not counted."""
    components = row.components
    if components is None:
        return
    for component in rows.find(document, components.at):
        if components.has_pods(component.value):
            at = component.path.child(components.template)
            whole = component.value[components.template]
            yield components.kind_of(component.value), rows.Member(at, whole)


def name_of(listed: PodSets, member: rows.Member) -> str:
    """Return the name of a pod set; lower case. Source: kueue NewPodSetReference.

    Raises:
        msgspec.ValidationError: it has none.
    """
    name = listed.name or rows.value_at(member.value, listed.name_at)
    if not name or not isinstance(name, str):
        raise msgspec.ValidationError(f"{member.path.text}.{listed.name_at}: must be a name")
    return name.lower()


def counts_of(listed: PodSets, member: rows.Member) -> tuple[int, ...]:
    """Return the factors of the number of pods.

    Raises:
        msgspec.ValidationError: one of them is no number.
    """
    return tuple(_count(factor, member) for factor in listed.counts)


def _count(factor: rows.Count, member: rows.Member) -> int:
    number = rows.number_at(member.value, factor.path, 1, member.path)
    bound = rows.number_at(member.value, factor.at_most, number, member.path)
    at_least = rows.number_at(member.value, factor.at_least, factor.least, member.path)
    return max(factor.least, at_least, min(number, bound))


def product(counts: Iterable[int]) -> int:
    """Return the product of some numbers; 1 for none."""
    result = 1
    for factor in counts:
        result *= factor
    return result


def template_at(listed: PodSets, member: rows.Member) -> rows.Member:
    """Return the pod template of a pod set, or its default, with its path.

    Raises:
        msgspec.ValidationError: it has none.
    """
    template = next(rows.find(member.value, listed.template, member.path), None)
    default = default_of(listed, member)
    if template is None and default is not None:
        return rows.Member(member.path.child(listed.template), default)
    if template is None or not isinstance(template.value, dict):
        raise msgspec.ValidationError(f"{member.path.text}.{listed.template}: must be a template")
    return rows.Member(template.path, pod_templates.with_text(template.value))


def default_of(listed: PodSets, member: rows.Member) -> dict[str, Any] | None:
    """Return the pod template that is used if none is set; None if one must be set."""
    if listed.default is None:
        return None
    container = _container(listed.default, member.value, {})
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _container(
    container: rows.AddedContainer, place: Any, content: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a container that no template has.

    Args:
        container: what the row says of it.
        place: path of the pod set.
        content: the owner.
    """
    image = rows.value_at(place, container.image)
    resources_given = rows.value_at(content, container.resources)
    resources = resources_given or {
        "requests": dict(container.requests),
        "limits": dict(container.limits),
    }
    return {"name": container.name, **({"image": image} if image else {}), "resources": resources}


def beside(
    content: Mapping[str, Any], listed: PodSets, member: rows.Member
) -> tuple[dict[str, Any], ...]:
    """Return the containers that the pods of a pod set have besides."""
    return tuple(
        _container(container, member.value, content)
        for check, container in listed.beside
        if rows.said(content, check) is not None
    )


def with_containers(
    template: dict[str, Any], containers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a pod template with more containers, if there are any."""
    if not containers:
        return template
    spec = template.get("spec") or {}
    return {**template, "spec": {**spec, "containers": [*spec.get("containers", ()), *containers]}}


def read(row: Row, owner: RowDocument | RowView) -> RowView:
    """Return what decisions depend on of an owner.

    Raises:
        msgspec.ValidationError: it does not have what the row says.
    """
    if isinstance(owner, RowView):
        return owner
    content = owner.content
    return held(owner, (asked_at(content, *at_row) for at_row in members(row, content)))


def held(document: RowDocument, pod_sets: Iterable[OwnerPodSet]) -> RowView:
    """Return an owner with its pod sets.

    Raises:
        msgspec.ValidationError: two of them have the same name.
    """
    pod_sets_read = tuple(pod_sets)
    if len({pod_set.name for pod_set in pod_sets_read}) < len(pod_sets_read):
        raise msgspec.ValidationError("two pod sets have the same name")
    return RowView(
        metadata=document.metadata,
        document=document,
        pod_sets=pod_sets_read,
        digest=digest(pod_sets_read),
    )


def asked_at(content: Mapping[str, Any], listed: PodSets, member: rows.Member) -> OwnerPodSet:
    """Return a pod set of an owner.

    Raises:
        msgspec.ValidationError: it does not have what the row says.
    """
    at, counts = template_at(listed, member), counts_of(listed, member)
    containers, numbers = beside(content, listed, member), listed.numbers
    begins = None if numbers is None else numbers.begin_at_one
    return OwnerPodSet(
        name=name_of(listed, member),
        path=at.path,
        count=product(counts),
        fewest=min(
            product(counts), max(1, rows.number_at(content, listed.least, product(counts)))
        ),
        replicas=product(counts[: listed.replica]),
        per_replica=product(counts[listed.replica :]),
        raw=at.value,
        stands=rows.value_at(member.value, listed.template) is not None,
        default=default_of(listed, member),
        beside=containers,
        given=listed.given,
        is_fixed=listed.is_fixed,
        numbers=numbers,
        begins_at_one=begins is not None and rows.said(content, begins) is not None,
        template=_AS_TEMPLATE(with_given(with_containers(at.value, containers), listed.given)),
    )


def template_of(raw: Mapping[str, Any]) -> PodTemplate:
    """Return what decisions depend on of a pod template."""
    return _AS_TEMPLATE(raw)


def digest(pod_sets: Iterable[OwnerPodSet]) -> str:
    """Return a digest that tells pod templates apart by what their pods are made from."""
    content = [[pod_set.name, _content(pod_set.pods)] for pod_set in pod_sets]
    encoded = msgspec.json.encode(content, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def _content(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for with a template, without what is empty."""
    metadata = template.get("metadata") or {}
    pod = {
        member: value
        for member, value in (template.get("spec") or {}).items()
        if value or member not in _SCHEDULING
    }
    content = {member: metadata.get(member) for member in _METADATA}
    return {**{member: value for member, value in content.items() if value}, "spec": pod}


# --------------------------------------------------------------------------------- what it says


@dataclass(frozen=True, slots=True)
class RowOwner(Owner, Reclaims, Restores, Resizes, Suspends, Grows):
    """An owner with a queue whose kind is a row.

    Attributes:
        row: its kind.
        view: the owner.
        may_start_pods: whether its controller may still make pods of it though it is suspended.
        has_earlier_pods: see `Suspends.with_earlier_pods`.
    """

    row: Row
    view: RowView
    may_start_pods: bool = False
    has_earlier_pods: bool = False

    @property
    @override
    def kind(self) -> Kind:
        return kind_of(self.row)

    @property
    @override
    def pod_sets(self) -> tuple[str, ...]:
        return tuple(pod_set.name for pod_set in self.view.pod_sets)

    @override
    def is_held(self) -> bool:
        return rows.value_at(self._content, self.row.suspend) is True

    @override
    def is_active(self) -> bool:
        if self.may_start_pods or self.has_earlier_pods:
            return True
        return any(self._says(check) is not None for check in self.row.active)

    @override
    def is_ready(self) -> bool:
        if self.row.ready is not None:
            return self._says(self.row.ready) is not None
        return self.row.replicas is not None and all(
            ready + succeeded >= replicas for replicas, ready, succeeded in self._replicas()
        )

    @override
    def finished(self) -> Text | None:
        row = self.row
        ends = () if row.succeeded is None else ((row.succeeded, True),)
        for check, succeeded in (*ends, *((check, False) for check in row.failed)):
            message = self._says(check)
            if message is not None:
                return kueue.owner_finished(message, succeeded=succeeded)
        return None

    @override
    def was_admitted(self) -> bool:
        return not self.is_held() and self.kind.key_of(self.view).name in self.view.marks

    @override
    def missing_workload(self) -> Text:
        return kueue.WORKLOAD_MISSING

    @override
    def start(self, workload: Workload, injections: Mapping[str, Injection]) -> patches.Patch:
        if self.grows() is not None:
            # Slices come and go, and pods keep the name that they were made with.
            first = self.kind.key_of(self.view).name
            mark = {names.WORKLOAD_ANNOTATION: first, names.SLICE_NAME: first}
            injections = {
                name: replace(info, annotations={**info.annotations, **mark})
                for name, info in injections.items()
            }
        else:
            injections = self.told_domains(workload, injections)
        return start(self.row, self.view, injections, _give(self.view, injections))

    def told_domains(
        self, workload: Workload, injections: Mapping[str, Injection]
    ) -> Mapping[str, Injection]:
        """Return what its pods get, with the gate of those that are told their domains."""
        return {
            **injections,
            **{
                pod_set.name: _numbered(
                    pod_set,
                    injection.gated_for_domains(injections[pod_set.name], workload, pod_set.name),
                )
                for pod_set in self.view.pod_sets
            },
        }

    @override
    def stands_for(self, workload: Workload) -> bool:
        """Return true, as it is unknown, until the templates of a suspended owner are restored."""
        if workload.spec.maximum_execution_time_seconds != max_execution_seconds(
            self.view.metadata
        ):
            return False
        if not self.is_held():
            return not self.has_other_count(workload)
        return self.is_injected() or not self.has_other_pods(workload)

    @override
    def reclaims(self) -> Reclaims | None:
        return None if self.row.replicas is None else self

    @override
    def restores(self) -> Restores:
        return self

    @override
    def resizes(self) -> Resizes:
        return self

    @override
    def suspends(self) -> Suspends:
        return self

    @override
    def grows(self) -> Grows | None:
        return self if is_elastic(self.row, self.view) else None

    @override
    def asked(self) -> Mapping[str, int]:
        return self._sizes()

    @override
    def revision(self) -> str:
        return str(self.view.metadata.generation)

    @override
    def reclaimable(self, workload: Workload) -> Mapping[str, int]:
        """Return the pods of replicas that have succeeded and are never run again.

        Differs: Kueue gives back the quota of all that have succeeded (ADR 0116).
        """
        return {} if self._may_run_again() else self.pods_ended(workload)

    @override
    def pods_ended(self, workload: Workload) -> Mapping[str, int]:
        """Return the pods of replicas that have succeeded. Source: kueue jobset_controller.go."""
        ended = {
            pod_set.name: succeeded * pod_set.per_replica
            for pod_set, (replicas, _, succeeded) in zip(
                self.view.pod_sets, self._replicas(), strict=True
            )
            if 0 < succeeded <= replicas
        }
        return {
            pod_set.name: min(ended[pod_set.name], pod_set.count)
            for pod_set in workload.spec.pod_sets or ()
            if pod_set.name in ended
        }

    @override
    def is_injected(self) -> bool:
        return bool(self.view.marks)

    @override
    def lacks_injection(self) -> bool:
        if self.is_held() or self.is_ready():
            return False
        return self.has_earlier_pods or not self.is_injected()

    @override
    def suspend(self) -> patches.Patch:
        return patch(self.view, _set(self._content, self.row.suspend, value=True))

    @override
    def reset(self) -> None:
        """Return None: its templates may change whenever it is suspended."""

    @override
    def restore(self, workload: Workload | None) -> patches.Patch:
        return restore(self.view, workload, _take_back(self.view))

    @override
    def has_other_pods(self, workload: Workload) -> bool:
        was, has = workload.metadata.annotation(names.TEMPLATE_DIGEST), _sizes(workload)
        is_grown = has == self._sizes() and not workload.is_pending()
        is_other = has != self._first_sizes() and not is_grown
        return is_other or bool(was and was != self.view.digest)

    @override
    def has_other_count(self, workload: Workload) -> bool:
        return self.grows() is None and _sizes(workload) != self._sizes()

    @override
    def asks_otherwise(self, workload: Workload) -> bool:
        is_elsewhere = workload.spec.queue_name != self.view.metadata.label(names.QUEUE_LABEL)
        return is_elsewhere or self.has_other_pods(workload)

    @override
    def waits_otherwise(self, workload: Workload) -> bool:
        limit = workload.spec.maximum_execution_time_seconds
        return (
            limit != max_execution_seconds(self.view.metadata)
            or has_other_gates(self.view, workload)
            or workload.waits_to_be_charged()
        )

    @override
    def is_stopped(self) -> bool:
        if not self.is_held():
            return False
        injected = _read_injected(self.view)
        since = _since(self.view, self.row.suspended)
        return injected is None or (bool(since) and since != injected.suspended_since)

    @override
    def as_starting(self) -> Owner:
        return replace(self, may_start_pods=True)

    @override
    def with_earlier_pods(self) -> Owner:
        return replace(self, has_earlier_pods=True)

    @override
    def let_go(self) -> Workload | None:
        if not self.was_admitted() or self.finished() is not None or self.grows() is not None:
            return None  # of an elastic one, pods to come take nothing before they are released
        is_over = not self._may_run_again()
        ended = {
            pod_set.name: succeeded * pod_set.per_replica * is_over
            for pod_set, (_, _, succeeded) in zip(
                self.view.pod_sets, self._replicas(), strict=True
            )
        }
        queues = (
            pod_set.template.metadata.label(names.LOCAL_QUEUE_NAME_LABEL)
            for pod_set in self.view.pod_sets
        )
        metadata = self.view.metadata
        return Workload(
            metadata=views.ObjectMeta(
                namespace=metadata.namespace,
                uid=metadata.uid,
                creation_timestamp=metadata.creation_timestamp,
            ),
            spec=WorkloadSpec(
                queue_name=next(filter(None, queues), metadata.label(names.QUEUE_LABEL)),
                pod_sets=tuple(
                    PodSet(
                        name=pod_set.name,
                        count=max(0, pod_set.count - ended[pod_set.name]),
                        template=pod_set.template,
                    )
                    for pod_set in self.view.pod_sets
                ),
            ),
        )

    @property
    def _content(self) -> dict[str, Any]:
        return self.view.document.content

    def _says(self, check: Check) -> str | None:
        """Return the message with which it says something; None if it does not."""
        return rows.said(self._content, check)

    def _replicas(self) -> Iterator[tuple[int, int, int]]:
        """Yield of each pod set how many replicas are wanted, ready, and have succeeded."""
        counts: dict[str, tuple[int, int]] = {}
        replicas = self.row.replicas
        for status in rows.find(self._content, replicas.at) if replicas else ():
            assert replicas is not None
            name = str(rows.value_at(status.value, replicas.name)).lower()
            paths = (replicas.ready, replicas.succeeded)
            ready, succeeded = (rows.number_at(status.value, path, 0) for path in paths)
            counts[name] = ready, succeeded
        for pod_set in self.view.pod_sets:
            yield pod_set.replicas, *counts.get(pod_set.name, (0, 0))

    def _may_run_again(self) -> bool:
        """Return whether its controller may run replicas again that have succeeded.

        With the last restart the status still counts the replicas of the run before, of which one
        has failed.
        """
        replicas = self.row.replicas
        if replicas is None:
            return False
        content, restarts = self._content, replicas.restarts
        actions = {action.value for action in rows.find(content, restarts.actions)}
        is_removed = any(True for _ in rows.find(content, restarts.removed))
        if is_removed or not actions <= restarts.counted:
            return True
        limit = rows.number_at(content, restarts.limit, 0)
        if limit == 0:
            return False
        is_restarting = any(
            rows.number_at(status.value, replicas.failed, 0) > 0
            for status in rows.find(content, replicas.at)
        )
        return is_restarting or rows.number_at(content, restarts.restarted, 0) < limit

    def _sizes(self) -> dict[str, int]:
        return {pod_set.name: pod_set.count for pod_set in self.view.pod_sets}

    def _first_sizes(self) -> dict[str, int]:
        """Return with how many pods it starts, by the name of the pod set."""
        return {
            pod_set.name: _first_size(self.row, self.view, pod_set)
            for pod_set in self.view.pod_sets
        }


def _numbered(pod_set: OwnerPodSet, info: Injection) -> Injection:
    """Return what a template gets, with the number of its first pod if pods are told domains."""
    if not info.gates or not pod_set.begins_at_one:
        return info
    return replace(info, annotations={**info.annotations, names.POD_INDEX_OFFSET: "1"})


def _first_size(row: Row, owner: RowView, pod_set: OwnerPodSet) -> int:
    return pod_set.fewest if is_elastic(row, owner) else pod_set.count


def is_elastic(row: Row, owner: RowView) -> bool:
    """Return whether each pod of an owner waits for the controller, so that it may grow.

    Those of which the number stays do not.
    """
    gates = [
        {gate.name for gate in pod_set.template.spec.scheduling_gates or ()}
        for pod_set in owner.pod_sets
        if not pod_set.is_fixed
    ]
    return row.may_grow and all(names.ELASTIC_JOB_GATE in listed for listed in gates)


def _sizes(workload: Workload) -> dict[str, int]:
    return {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets or ()}


def _since(owner: RowView, kind: str) -> str:
    """Return since when a condition is True; empty if it is not."""
    condition = rows.condition_of(owner.document.content, kind) if kind else None
    return "" if condition is None else str(condition.get("lastTransitionTime") or "")


# ------------------------------------------------------------------------------------- Workload


def build(
    row: Row,
    owner: RowView,
    _found: RowDocument,
    classes: PriorityClasses,
    copied: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the document of an owner's Workload; see `Integration.build`.

    Raises:
        MissingPriorityClassError: the owner names a class that does not exist.
    """
    metadata, kind = owner.metadata, kind_of(row)
    spec = {
        "queueName": metadata.label(names.QUEUE_LABEL),
        "podSets": [
            _pod_set(pod_set, _first_size(row, owner, pod_set)) for pod_set in owner.pod_sets
        ],
        **_priority(row, owner, classes),
        **time_limit(metadata),
    }
    workload = workload_document(
        kind.key_of(owner), metadata, kind.reference(metadata), copied, spec
    )
    marks = {names.TEMPLATE_DIGEST: owner.digest}
    if is_elastic(row, owner):
        marks[names.ELASTIC_JOB] = "true"
    workload["metadata"]["annotations"] = {**annotations(metadata), **marks}
    return workload


def _pod_set(pod_set: OwnerPodSet, count: int) -> dict[str, Any]:
    content = _content(pod_set.pods)
    template: dict[str, Any] = {"spec": template_spec(content["spec"])}
    metadata = {member: content[member] for member in _METADATA if member in content}
    if metadata:
        template["metadata"] = metadata
    wire = {"name": pod_set.name, "count": count, "template": template}
    near = _topology_request(pod_set)
    return wire if near is None else {**wire, "topologyRequest": near}


def _topology_request(pod_set: OwnerPodSet) -> dict[str, Any] | None:
    metadata, numbers = pod_set.template.metadata, pod_set.numbers
    if numbers is None:
        return topology_request(metadata.annotations)
    groups = pod_set.replicas if numbers.replica else 0
    return topology_request(metadata.annotations, numbers.pod, numbers.replica, groups)


def _priority(row: Row, owner: RowView, classes: PriorityClasses) -> dict[str, Any]:
    """Return priority and source: WorkloadPriorityClass, PriorityClass, the default, or none."""
    labelled = labelled_priority(owner.metadata, classes)
    if labelled:
        return labelled
    class_named = rows.value_at(owner.document.content, row.priority_class)
    of_pods = (pod_set.template.spec.priority_class_name for pod_set in owner.pod_sets)
    return pod_class_priority(next(filter(None, (class_named, *of_pods)), ""), classes)


def adopt(
    row: Row, owner: RowView, _found: RowDocument, workload: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the changes with which a Workload becomes the owner's; see `Integration.adopt`.

    None if it has other pod sets.
    """
    sets = workload["spec"].get("podSets") or []
    if {pod_set_wire.get("name"): pod_set_wire.get("count", 1) for pod_set_wire in sets} != {
        pod_set.name: pod_set.count for pod_set in owner.pod_sets
    }:
        return None
    by_name = {pod_set_wire["name"]: pod_set_wire.get("template") or {} for pod_set_wire in sets}
    started = bool(owner.marks) or not RowOwner(row, owner).is_held()
    alike = all(
        prebuilt.asks_alike(
            by_name[pod_set.name].get("spec") or {},
            template_spec(pod_set.pods.get("spec") or {}),
            started=started,
        )
        for pod_set in owner.pod_sets
    )
    if not alike:
        return None
    kept = {} if started else {names.TEMPLATE_DIGEST: owner.digest}
    reference = kind_of(row).reference(owner.metadata)
    return prebuilt.adoption(workload, reference, owner.metadata, kept)


# -------------------------------------------------------------------------------------- patches


class _Given(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """What an admission gave one pod template.

    Attributes:
        labels: keys of its labels.
        annotations: keys of its annotations.
        node_selector: keys of its node selector.
        tolerations: those of the pods.
        gates: names of scheduling gates of the pods.
        absent: which of these, and whether metadata, or the template, were absent before.
    """

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    node_selector: tuple[str, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    gates: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class _Injected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What an admission gave an owner, as an annotation of it.

    Attributes:
        pod_sets: by the name of the pod set.
        suspended_since: since when its controller said that it was suspended.
    """

    pod_sets: dict[str, _Given] = {}
    suspended_since: str = ""


_AS_INJECTED: Final = structs.converter(_Injected)


def _read_injected(owner: RowView) -> _Injected | None:
    """Return what an admission gave an owner, or None where it does not say it."""
    try:
        return _AS_INJECTED(msgspec.json.decode(owner.metadata.annotation(names.INJECTED)))
    except structs.UNREADABLE:
        return None


def start(
    row: Row, owner: RowView, injections: Mapping[str, Injection], beside: Iterable[Operation]
) -> patches.Patch:
    """Return the patch that lets an owner run with what its admission gives its pods.

    Args:
        row: its kind.
        owner: the owner.
        injections: what its admission gives, by the name of the pod set.
        beside: operations that set what is given beside the templates.

    Raises:
        InjectionConflictError: a template contradicts the injection.
    """
    operations: list[Operation] = [*beside]
    pod_sets: dict[str, _Given] = {}
    for pod_set in owner.pod_sets:
        if pod_set.given is not None:
            continue
        changes, pod_sets[pod_set.name] = _inject(pod_set, injections[pod_set.name])
        operations += changes
    injected = _Injected(pod_sets=pod_sets, suspended_since=_since(owner, row.suspended))
    text = msgspec.json.encode(injected, order="deterministic").decode()
    builder = PatchBuilder()
    present = owner.metadata.annotations
    builder.merge("/metadata/annotations", present, {names.INJECTED: text})
    content = owner.document.content
    return patch(
        owner, (*builder.operations(), *operations, *_set(content, row.suspend, value=False))
    )


def _give(owner: RowView, injections: Mapping[str, Injection]) -> Iterator[Operation]:
    """Yield the operations that set what an admission gives beside the templates.

    Raises:
        InjectionConflictError: a template contradicts it.
    """
    lists: dict[str, list[dict[str, Any]]] = {}
    for pod_set in owner.pod_sets:
        if pod_set.given is None:
            continue
        template = _AS_TEMPLATE(pod_set.pods)
        added, changes = injection.into_template(
            injections[pod_set.name], template.metadata, template.spec
        )
        present = len(template.spec.tolerations or ())
        additions = {
            **added,
            "nodeSelector": changes.get("nodeSelector", {}),
            "tolerations": changes.get("tolerations", [])[present:],
            "schedulingGates": _added_gates(template.spec, changes),
        }
        filled = {member: value for member, value in additions.items() if value}
        lists.setdefault(pod_set.given.at.pointer(), []).append(filled)
    for pointer, listed in lists.items():
        yield {"op": "add", "path": pointer, "value": listed}


def _inject(pod_set: OwnerPodSet, pod_set_info: Injection) -> tuple[tuple[Operation, ...], _Given]:
    """Return the operations that give a template what an admission gives, and what that is."""
    template, raw = pod_set.template, pod_set.raw
    added, changes = injection.into_template(pod_set_info, template.metadata, template.spec)
    builder, at = PatchBuilder(), pod_set.path.pointer()
    metadata, spec = raw.get("metadata"), raw.get("spec") or {}
    absent = []
    if not pod_set.stands:
        absent.append(_TEMPLATE)
        builder.put(at, raw)
    metadata_added = {member: added[member] for member in _METADATA if added[member]}
    if metadata is None:
        absent.append("metadata")
        builder.put(f"{at}/metadata", metadata_added)
    else:
        absent += [member for member in metadata_added if metadata.get(member) is None]
        for member, values in metadata_added.items():
            builder.merge(f"{at}/metadata/{member}", metadata.get(member), values)
    absent += [member for member in changes if spec.get(member) is None]
    selector = changes.get("nodeSelector", {})
    builder.merge(f"{at}/spec/nodeSelector", spec.get("nodeSelector"), selector)
    tolerations = tuple(changes.get("tolerations", [])[len(template.spec.tolerations or ()) :])
    builder.append(f"{at}/spec/tolerations", spec.get("tolerations"), tolerations)
    gates = _added_gates(template.spec, changes)
    builder.append(f"{at}/spec/schedulingGates", spec.get("schedulingGates"), gates)
    return builder.operations(), _Given(
        labels=tuple(sorted(added["labels"])),
        annotations=tuple(sorted(added["annotations"])),
        node_selector=tuple(sorted(selector)),
        tolerations=tolerations,
        gates=tuple(gate["name"] for gate in gates),
        absent=tuple(absent),
    )


def _added_gates(spec: views.PodSpec, changes: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the scheduling gates that pods get beside those that they have."""
    gates: list[dict[str, str]] = changes.get("schedulingGates", [])
    return gates[len(spec.scheduling_gates or ()) :]


def _take_back(owner: RowView) -> Iterator[Operation]:
    """Yield the operations that take out what an admission gave beside the templates."""
    beside = {
        pod_set.given.at.pointer()
        for pod_set in owner.pod_sets
        if pod_set.given and pod_set.given.value
    }
    for path in sorted(beside):
        yield {"op": "remove", "path": path}


def restore(
    owner: RowView, workload: Workload | None, beside: Iterable[Operation]
) -> patches.Patch:
    """Return the patch that makes a suspended owner's templates what they were before the start.

    The owner says what its admission gave it. One that Kueue started does not: then its Workload
    tells what it was. Without either only the keys that tell of an admission go.

    Args:
        owner: the owner.
        workload: its Workload, where there is one.
        beside: operations that take out what was given beside the templates.
    """
    injected = _read_injected(owner)
    builder = PatchBuilder()
    if names.INJECTED in (owner.metadata.annotations or {}):
        path = patches.pointer("metadata", "annotations", names.INJECTED)
        builder.remove(path)
    was = (
        {}
        if workload is None
        else {pod_set.name: pod_set for pod_set in workload.spec.pod_sets or ()}
    )
    for pod_set in owner.pod_sets:
        if pod_set.given is not None:
            continue
        if injected is not None:
            _take_out(builder, pod_set, injected.pod_sets.get(pod_set.name, _Given()))
        else:
            _put_back(builder, pod_set, was.get(pod_set.name))
    return patch(owner, (*beside, *builder.operations()))


def _take_out(builder: PatchBuilder, pod_set: OwnerPodSet, additions: _Given) -> None:
    """Take out of a template what an admission gave it."""
    if not pod_set.stands:
        return
    if _TEMPLATE in additions.absent and pod_set.default == _without(pod_set.raw, additions):
        builder.remove(pod_set.path.pointer())
        return
    at, metadata, spec = pod_set.path.pointer(), *_parts(pod_set)
    left: dict[str, Any] = {}
    for member, keys in (("labels", additions.labels), ("annotations", additions.annotations)):
        present = metadata.get(member)
        kept = _less(present, keys)
        gone = present is not None and not kept and member in additions.absent
        left[member] = None if gone else present if present is None else kept
    rest = [member for member in metadata if member not in _METADATA]
    if "metadata" in additions.absent and not rest and not any(left.values()):
        if pod_set.raw.get("metadata") is not None:
            builder.remove(f"{at}/metadata")
    else:
        for member, kept in left.items():
            _become(builder, f"{at}/metadata/{member}", metadata.get(member), kept)
    selector = spec.get("nodeSelector")
    kept = _less(selector, additions.node_selector)
    emptied = not kept and "nodeSelector" in additions.absent
    _become(builder, f"{at}/spec/nodeSelector", selector, None if emptied else kept)
    gates = [{"name": name} for name in additions.gates]
    for member, taken in (("tolerations", additions.tolerations), ("schedulingGates", gates)):
        present = spec.get(member)
        stays = [entry for entry in present or () if entry not in taken]
        if present is not None and stays != present:
            if not stays and member in additions.absent:
                builder.remove(f"{at}/spec/{member}")
            else:
                builder.put(f"{at}/spec/{member}", stays)


def _without(template: Mapping[str, Any], additions: _Given) -> dict[str, Any]:
    """Return a template that was put in at the start without what was given to it then."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    left: dict[str, Any] = {
        "labels": _less(metadata.get("labels"), additions.labels),
        "annotations": _less(metadata.get("annotations"), additions.annotations),
    }
    metadata_left = {
        member: value for member, value in metadata.items() if member not in _METADATA
    }
    kept = {**metadata_left, **{member: value for member, value in left.items() if value}}
    tolerations = [
        toleration
        for toleration in spec.get("tolerations") or ()
        if toleration not in additions.tolerations
    ]
    scheduling = {
        "nodeSelector": _less(spec.get("nodeSelector"), additions.node_selector),
        "tolerations": tolerations,
        "schedulingGates": [
            gate
            for gate in spec.get("schedulingGates") or ()
            if gate["name"] not in additions.gates
        ],
    }
    rest = {member: value for member, value in spec.items() if member not in scheduling}
    rest |= {member: value for member, value in scheduling.items() if value}
    return {**({"metadata": kept} if kept else {}), "spec": rest}


def _less(present: Mapping[str, Any] | None, keys: Iterable[str]) -> dict[str, Any]:
    """Return a map without some keys."""
    return {key: text for key, text in (present or {}).items() if key not in keys}


def _put_back(builder: PatchBuilder, pod_set: OwnerPodSet, was: PodSet | None) -> None:
    """Make a template what a Workload says that it was; without one, take our keys out of it."""
    if not pod_set.stands:
        return
    at, metadata, spec = pod_set.path.pointer(), *_parts(pod_set)
    if was is None:
        for member, keys in (
            ("labels", _OUR_LABELS),
            ("annotations", (names.WORKLOAD_ANNOTATION, names.ADMITTED_DEVICES)),
        ):
            present = metadata.get(member)
            kept = _less(present, keys)
            _become(builder, f"{at}/metadata/{member}", present, kept)
        _ungate(builder, at, spec)
        return
    before = was.template
    _ungate(builder, at, spec)
    for member, before_of_member in (
        ("labels", before.metadata.labels),
        ("annotations", before.metadata.annotations),
    ):
        _become(builder, f"{at}/metadata/{member}", metadata.get(member), before_of_member)
    _become(
        builder, f"{at}/spec/nodeSelector", spec.get("nodeSelector"), before.spec.node_selector
    )
    tolerations = [
        injection.toleration_to_wire(toleration) for toleration in before.spec.tolerations or ()
    ]
    if tolerations != (spec.get("tolerations") or []):
        builder.put(f"{at}/spec/tolerations", tolerations)


def _ungate(builder: PatchBuilder, at: str, spec: Mapping[str, Any]) -> None:
    """Take out of a template the gate with which its pods wait for their domains."""
    present = spec.get("schedulingGates") or []
    kept = [gate for gate in present if gate["name"] != names.TOPOLOGY_GATE]
    if kept != present and kept:
        builder.put(f"{at}/spec/schedulingGates", kept)
    elif kept != present:
        builder.remove(f"{at}/spec/schedulingGates")


def _parts(pod_set: OwnerPodSet) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and spec of a template, as they are stored."""
    return pod_set.raw.get("metadata") or {}, pod_set.raw.get("spec") or {}


def _become(
    builder: PatchBuilder,
    path: str,
    present: Mapping[str, Any] | None,
    target: Mapping[str, Any] | None,
) -> None:
    """Make a map another one; None for none."""
    if present is not None and target is None:
        builder.remove(path)
    elif present is not None:
        builder.become(path, present, target or {})
    elif target:
        builder.put(path, dict(target))


def _set(content: Mapping[str, Any], path: str, *, value: Any) -> tuple[Operation, ...]:
    """Return the operation that sets the value at a path, with missing objects above it."""
    above, at = content, FieldPath()
    steps = path.split(".")
    for depth, step in enumerate(steps):
        at = at.child(step)
        below = above.get(step)
        if depth + 1 == len(steps) or not isinstance(below, dict):
            nested = value
            for name in reversed(steps[depth + 1 :]):
                nested = {name: nested}
            return ({"op": "add", "path": at.pointer(), "value": nested},)
        above = below
    raise LookupError(path)


def switch(row: Row, owner: RowView, *, value: bool) -> patches.Patch:
    """Return the patch of an owner's switch, and of nothing else."""
    return patch(owner, _set(owner.document.content, row.suspend, value=value))


def hold(content: Mapping[str, Any], path: str) -> tuple[Operation, ...]:
    """Return the operation that suspends an owner; none where it is suspended.

    Args:
        content: the owner.
        path: of the switch.
    """
    return () if rows.value_at(content, path) is True else _set(content, path, value=True)


def patch(owner: RowView, operations: Iterable[Operation]) -> patches.Patch:
    """Return a patch of exactly this version of an owner.

    Lists of pod templates cannot be merged, so it is a JSON Patch. It replaces the version by the
    same one, which is refused as a conflict when the object has another.
    """
    metadata = owner.metadata
    precondition: list[Operation] = [
        {"op": "replace", "path": "/metadata/uid", "value": metadata.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
    ]
    return patches.json_patch([*precondition, *operations])


def integration(row: Row) -> Integration[RowView, RowDocument]:
    """Return the kind of a row, as the controller serves it."""
    return Integration(
        kind=kind_of(row),
        document=RowDocument,
        answer=RowDocument,
        view=partial(read, row),
        owner=partial(RowOwner, row),
        build=partial(build, row),
        adopt=partial(adopt, row),
    )
