"""Owners whose kind is a row of a table: what the row's paths say, as the Protocol `Owner`.

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
from admission.owners.near import topology_request
from admission.owners.workload import (
    PriorityClasses,
    annotations,
    has_other_gates,
    labelled_priority,
    max_execution_seconds,
    names_other_class,
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


class Document(views.Object, frozen=True, kw_only=True):
    """An owner whole, as it was watched."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        """The parts of the object in which the paths of a row are looked up."""
        name = {"name": self.metadata.name}
        return {"metadata": name, "spec": self.spec, "status": self.status}


class Asked(View, frozen=True, kw_only=True):
    """A pod set that an owner asks for.

    Attributes:
        name: of the pod set; lower case, as in Kueue.
        path: path of its pod template.
        count: how many pods it has.
        least: minimum number with which it starts, if its owner may grow.
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
    least: int
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


class Held(views.Object, frozen=True, kw_only=True):
    """An owner with what decisions depend on.

    Attributes:
        document: the owner whole.
        asked: its pod sets.
        digest: tells pod templates apart by what their pods are made from.
    """

    document: Document
    asked: tuple[Asked, ...]
    digest: str

    @property
    def marks(self) -> tuple[str, ...]:
        """The Workloads of which its templates say that they were admitted."""
        found = (one.template.metadata.annotation(names.WORKLOAD_ANNOTATION) for one in self.asked)
        return tuple(filter(None, found))


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
        found = [
            (listed, member)
            for listed in kind.pod_sets
            if listed.default is None  # its controller makes that template, and nobody else
            for member in rows.find(whole, listed.at, inside)
        ]
        for index, at in enumerate(_in_order(components, component, found)):
            listed, member = found[at]
            given = _given(components, component, index)
            name = f"{owner}-{number}"
            number += 1
            yield (
                replace(listed, name=name, name_at="", beside=(), given=given),
                rows.Member(member.path.within(component.path), member.value),
            )


def _in_order(
    components: Components,
    component: rows.Member,
    found: Sequence[tuple[PodSets, rows.Member]],
) -> Iterable[int]:
    """Return which pod set of a component is the first that it declares, and so on.

    Raises:
        msgspec.ValidationError: it declares others than it has.
    """
    declared = rows.value_at(component.value, components.declared)
    if not declared:
        return range(len(found))
    paths = [template_at(listed, member).path.text for listed, member in found]
    said = [rows.value_at(one, "path") for one in declared]
    if sorted(map(str, said)) != sorted(paths):
        where = f"{component.path.text}.{components.declared}"
        raise msgspec.ValidationError(f"{where}: must have these paths: {', '.join(paths)}")
    return [paths.index(path) for path in said]


def _given(components: Components, component: rows.Member, index: int) -> rows.Given:
    listed = rows.value_at(component.value, components.given)
    if not isinstance(listed, list | None):
        where = f"{component.path.text}.{components.given}"
        raise msgspec.ValidationError(f"{where}: must be a list")
    value = listed[index] if listed and index < len(listed) else None
    at = component.path.child(components.given)
    return rows.Given(at, index, value if isinstance(value, dict) else {})


def with_given(template: dict[str, Any], given: rows.Given | None) -> dict[str, Any]:
    """Return a pod template with the members beside it."""
    if given is None or not given.value:
        return template
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    for above, member in ((metadata, "labels"), (metadata, "annotations"), (spec, "nodeSelector")):
        above[member] = {**(above.get(member) or {}), **(given.value.get(member) or {})}
    for member in ("tolerations", "schedulingGates"):
        more = [*(spec.get(member) or ()), *(given.value.get(member) or ())]
        if more or member == "tolerations":
            spec[member] = more
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
    found = listed.name or rows.value_at(member.value, listed.name_at)
    if not found or not isinstance(found, str):
        raise msgspec.ValidationError(f"{member.path.text}.{listed.name_at}: must be a name")
    return found.lower()


def counts_of(listed: PodSets, member: rows.Member) -> tuple[int, ...]:
    """Return the factors of the number of pods.

    Raises:
        msgspec.ValidationError: one of them is no number.
    """
    return tuple(_count(one, member) for one in listed.counts)


def _count(one: rows.Count, member: rows.Member) -> int:
    found = rows.number_at(member.value, one.path, 1, member.path)
    bound = rows.number_at(member.value, one.at_most, found, member.path)
    least = rows.number_at(member.value, one.at_least, one.least, member.path)
    return max(one.least, least, min(found, bound))


def product(counts: Iterable[int]) -> int:
    """Return the product of some numbers; 1 for none."""
    result = 1
    for one in counts:
        result *= one
    return result


def template_at(listed: PodSets, member: rows.Member) -> rows.Member:
    """Return the pod template of a pod set, or its default, with its path.

    Raises:
        msgspec.ValidationError: it has none.
    """
    found = next(rows.find(member.value, listed.template, member.path), None)
    default = default_of(listed, member)
    if found is None and default is not None:
        return rows.Member(member.path.child(listed.template), default)
    if found is None or not isinstance(found.value, dict):
        raise msgspec.ValidationError(f"{member.path.text}.{listed.template}: must be a template")
    return rows.Member(found.path, pod_templates.with_text(found.value))


def default_of(listed: PodSets, member: rows.Member) -> dict[str, Any] | None:
    """Return the pod template that is used if none is set; None if one must be set."""
    if listed.default is None:
        return None
    container = _container(listed.default, member.value, {})
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _container(one: rows.AddedContainer, place: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container that no template has.

    Args:
        one: what the row says of it.
        place: path of the pod set.
        content: the owner.
    """
    image = rows.value_at(place, one.image)
    said = rows.value_at(content, one.resources)
    resources = said or {"requests": dict(one.requests), "limits": dict(one.limits)}
    return {"name": one.name, **({"image": image} if image else {}), "resources": resources}


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


def read(row: Row, found: Document | Held) -> Held:
    """Return what decisions depend on of an owner.

    Raises:
        msgspec.ValidationError: it does not have what the row says.
    """
    if isinstance(found, Held):
        return found
    content = found.content
    return held(found, (asked_at(content, *one) for one in members(row, content)))


def held(found: Document, pod_sets: Iterable[Asked]) -> Held:
    """Return an owner with its pod sets.

    Raises:
        msgspec.ValidationError: two of them have the same name.
    """
    asked = tuple(pod_sets)
    if len({one.name for one in asked}) < len(asked):
        raise msgspec.ValidationError("two pod sets have the same name")
    return Held(metadata=found.metadata, document=found, asked=asked, digest=digest(asked))


def asked_at(content: Mapping[str, Any], listed: PodSets, member: rows.Member) -> Asked:
    """Return a pod set of an owner.

    Raises:
        msgspec.ValidationError: it does not have what the row says.
    """
    at, counts = template_at(listed, member), counts_of(listed, member)
    more, numbers = beside(content, listed, member), listed.numbers
    begins = None if numbers is None else numbers.begin_at_one
    return Asked(
        name=name_of(listed, member),
        path=at.path,
        count=product(counts),
        least=min(product(counts), max(1, rows.number_at(content, listed.least, product(counts)))),
        replicas=product(counts[: listed.replica]),
        per_replica=product(counts[listed.replica :]),
        raw=at.value,
        stands=rows.value_at(member.value, listed.template) is not None,
        default=default_of(listed, member),
        beside=more,
        given=listed.given,
        is_fixed=listed.is_fixed,
        numbers=numbers,
        begins_at_one=begins is not None and rows.said(content, begins) is not None,
        template=_AS_TEMPLATE(with_given(with_containers(at.value, more), listed.given)),
    )


def template_of(raw: Mapping[str, Any]) -> PodTemplate:
    """Return what decisions depend on of a pod template."""
    return _AS_TEMPLATE(raw)


def digest(asked: Iterable[Asked]) -> str:
    """Return a digest that tells pod templates apart by what their pods are made from."""
    content = [[one.name, _content(one.pods)] for one in asked]
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
    view: Held
    may_start_pods: bool = False
    has_earlier_pods: bool = False

    @property
    @override
    def kind(self) -> Kind:
        return kind_of(self.row)

    @property
    @override
    def pod_sets(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.view.asked)

    @override
    def is_held(self) -> bool:
        return rows.value_at(self._content, self.row.suspend) is True

    @override
    def is_active(self) -> bool:
        if self.may_start_pods or self.has_earlier_pods:
            return True
        return any(self._says(one) is not None for one in self.row.active)

    @override
    def is_ready(self) -> bool:
        if self.row.ready is not None:
            return self._says(self.row.ready) is not None
        return self.row.replicas is not None and all(
            ready + succeeded >= wanted for wanted, ready, succeeded in self._replicas()
        )

    @override
    def finished(self) -> Text | None:
        row = self.row
        ends = () if row.succeeded is None else ((row.succeeded, True),)
        for check, succeeded in (*ends, *((one, False) for one in row.failed)):
            said = self._says(check)
            if said is not None:
                return kueue.owner_finished(said, succeeded=succeeded)
        return None

    @override
    def was_admitted(self) -> bool:
        return not self.is_held() and self.kind.key_of(self.view).name in self.view.marks

    @override
    def missing_workload(self) -> Text:
        return kueue.WORKLOAD_MISSING

    @override
    def start(self, of: Workload, given: Mapping[str, Injection]) -> patches.Patch:
        if self.grows() is not None:
            # Slices come and go, and pods keep the name that they were made with.
            first = self.kind.key_of(self.view).name
            mark = {names.WORKLOAD_ANNOTATION: first, names.SLICE_NAME: first}
            given = {
                name: replace(one, annotations={**one.annotations, **mark})
                for name, one in given.items()
            }
        else:
            given = self.told_domains(of, given)
        return start(self.row, self.view, given, _give(self.view, given))

    def told_domains(
        self, of: Workload, given: Mapping[str, Injection]
    ) -> Mapping[str, Injection]:
        """Return what its pods get, with the gate of those that are told their domains."""
        return {
            **given,
            **{
                one.name: _numbered(
                    one, injection.gated_for_domains(given[one.name], of, one.name)
                )
                for one in self.view.asked
            },
        }

    @override
    def stands_for(self, of: Workload) -> bool:
        """Return true, as it is unknown, until the templates of a suspended owner are restored."""
        if of.spec.maximum_execution_time_seconds != max_execution_seconds(self.view.metadata):
            return False
        if not self.is_held():
            return not self.has_other_count(of)
        return self.is_injected() or not self.has_other_pods(of)

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
    def reclaimable(self, of: Workload) -> Mapping[str, int]:
        """Return the pods of replicas that have succeeded. Source: kueue jobset_controller.go."""
        ended = {
            one.name: succeeded * one.per_replica
            for one, (wanted, _, succeeded) in zip(self.view.asked, self._replicas(), strict=True)
            if 0 < succeeded <= wanted
        }
        return {
            one.name: min(ended[one.name], one.count)
            for one in of.spec.pod_sets or ()
            if one.name in ended
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
        return _patch(self.view, _set(self._content, self.row.suspend, value=True))

    @override
    def reset(self) -> None:
        """Return None: its templates may change whenever it is suspended."""

    @override
    def restore(self, of: Workload | None) -> patches.Patch:
        return restore(self.view, of, _take_back(self.view))

    @override
    def has_other_pods(self, of: Workload) -> bool:
        was, has = of.metadata.annotation(names.TEMPLATE_DIGEST), _sizes(of)
        is_grown = has == self._sizes() and not of.is_pending()
        is_other = has != self._first_sizes() and not is_grown
        return is_other or bool(was and was != self.view.digest)

    @override
    def has_other_count(self, of: Workload) -> bool:
        return self.grows() is None and _sizes(of) != self._sizes()

    @override
    def asks_otherwise(self, of: Workload) -> bool:
        is_elsewhere = of.spec.queue_name != self.view.metadata.label(names.QUEUE_LABEL)
        return is_elsewhere or self.has_other_pods(of)

    @override
    def waits_otherwise(self, of: Workload) -> bool:
        limit = of.spec.maximum_execution_time_seconds
        return (
            names_other_class(self.view, of)
            or limit != max_execution_seconds(self.view.metadata)
            or has_other_gates(self.view, of)
            or of.waits_to_be_charged()
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
        ended = {
            one.name: succeeded * one.per_replica
            for one, (_, _, succeeded) in zip(self.view.asked, self._replicas(), strict=True)
        }
        queues = (
            one.template.metadata.label(names.LOCAL_QUEUE_NAME_LABEL) for one in self.view.asked
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
                        name=one.name,
                        count=max(0, one.count - ended[one.name]),
                        template=one.template,
                    )
                    for one in self.view.asked
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
        told: dict[str, tuple[int, int]] = {}
        replicas = self.row.replicas
        for one in rows.find(self._content, replicas.at) if replicas else ():
            assert replicas is not None
            name = str(rows.value_at(one.value, replicas.name)).lower()
            paths = (replicas.ready, replicas.succeeded)
            ready, succeeded = (rows.number_at(one.value, path, 0) for path in paths)
            told[name] = ready, succeeded
        for asked in self.view.asked:
            yield asked.replicas, *told.get(asked.name, (0, 0))

    def _sizes(self) -> dict[str, int]:
        return {one.name: one.count for one in self.view.asked}

    def _first_sizes(self) -> dict[str, int]:
        """Return with how many pods it starts, by the name of the pod set."""
        return {one.name: _first_size(self.row, self.view, one) for one in self.view.asked}


def _numbered(asked: Asked, given: Injection) -> Injection:
    """Return what a template gets, with the number of its first pod if pods are told domains."""
    if not given.gates or not asked.begins_at_one:
        return given
    return replace(given, annotations={**given.annotations, names.POD_INDEX_OFFSET: "1"})


def _first_size(row: Row, owner: Held, asked: Asked) -> int:
    return asked.least if is_elastic(row, owner) else asked.count


def is_elastic(row: Row, owner: Held) -> bool:
    """Return whether each pod of an owner waits for the controller, so that it may grow.

    Those of which the number stays do not.
    """
    gates = [
        {gate.name for gate in one.template.spec.scheduling_gates or ()}
        for one in owner.asked
        if not one.is_fixed
    ]
    return row.may_grow and all(names.ELASTIC_JOB_GATE in listed for listed in gates)


def _sizes(of: Workload) -> dict[str, int]:
    return {one.name: one.count for one in of.spec.pod_sets or ()}


def _since(owner: Held, kind: str) -> str:
    """Return since when a condition is True; empty if it is not."""
    found = rows.condition_of(owner.document.content, kind) if kind else None
    return "" if found is None else str(found.get("lastTransitionTime") or "")


# ------------------------------------------------------------------------------------- Workload


def build(
    row: Row,
    owner: Held,
    _found: Document,
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
        "podSets": [_pod_set(one, _first_size(row, owner, one)) for one in owner.asked],
        **_priority(row, owner, classes),
        **time_limit(metadata),
    }
    made = workload_document(kind.key_of(owner), metadata, kind.reference(metadata), copied, spec)
    more = {names.TEMPLATE_DIGEST: owner.digest}
    if is_elastic(row, owner):
        more[names.ELASTIC_JOB] = "true"
    made["metadata"]["annotations"] = {**annotations(metadata), **more}
    return made


def _pod_set(asked: Asked, count: int) -> dict[str, Any]:
    content = _content(asked.pods)
    template: dict[str, Any] = {"spec": template_spec(content["spec"])}
    metadata = {member: content[member] for member in _METADATA if member in content}
    if metadata:
        template["metadata"] = metadata
    made = {"name": asked.name, "count": count, "template": template}
    near = _topology_request(asked)
    return made if near is None else {**made, "topologyRequest": near}


def _topology_request(asked: Asked) -> dict[str, Any] | None:
    metadata, numbers = asked.template.metadata, asked.numbers
    if numbers is None:
        return topology_request(metadata.annotations)
    groups = asked.replicas if numbers.replica else 0
    return topology_request(metadata.annotations, numbers.pod, numbers.replica, groups)


def _priority(row: Row, owner: Held, classes: PriorityClasses) -> dict[str, Any]:
    """Return priority and source: WorkloadPriorityClass, PriorityClass, the default, or none."""
    labelled = labelled_priority(owner.metadata, classes.workload)
    if labelled:
        return labelled
    said = rows.value_at(owner.document.content, row.priority_class)
    of_pods = (one.template.spec.priority_class_name for one in owner.asked)
    return pod_class_priority(next(filter(None, (said, *of_pods)), ""), classes.pod)


def adopt(
    row: Row, owner: Held, _found: Document, workload: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the changes with which a Workload becomes the owner's; see `Integration.adopt`.

    None if it has other pod sets.
    """
    sets = workload["spec"].get("podSets") or []
    if {one.get("name"): one.get("count", 1) for one in sets} != {
        one.name: one.count for one in owner.asked
    }:
        return None
    by_name = {one["name"]: one.get("template") or {} for one in sets}
    started = bool(owner.marks) or not RowOwner(row, owner).is_held()
    alike = all(
        prebuilt.asks_alike(
            by_name[one.name].get("spec") or {},
            template_spec(one.pods.get("spec") or {}),
            started=started,
        )
        for one in owner.asked
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


def _read_injected(owner: Held) -> _Injected | None:
    """Return what an admission gave an owner, or None where it does not say it."""
    try:
        return _AS_INJECTED(msgspec.json.decode(owner.metadata.annotation(names.INJECTED)))
    except structs.UNREADABLE:
        return None


def start(
    row: Row, owner: Held, given: Mapping[str, Injection], beside: Iterable[Operation]
) -> patches.Patch:
    """Return the patch that lets an owner run with what its admission gives its pods.

    Args:
        row: its kind.
        owner: the owner.
        given: what its admission gives, by the name of the pod set.
        beside: operations that set what is given beside the templates.

    Raises:
        InjectionConflictError: a template contradicts the injection.
    """
    operations: list[Operation] = [*beside]
    pod_sets: dict[str, _Given] = {}
    for one in owner.asked:
        if one.given is not None:
            continue
        made, pod_sets[one.name] = _inject(one, given[one.name])
        operations += made
    injected = _Injected(pod_sets=pod_sets, suspended_since=_since(owner, row.suspended))
    text = msgspec.json.encode(injected, order="deterministic").decode()
    builder = PatchBuilder()
    present = owner.metadata.annotations
    builder.merge("/metadata/annotations", present, {names.INJECTED: text})
    content = owner.document.content
    return _patch(
        owner, (*builder.operations(), *operations, *_set(content, row.suspend, value=False))
    )


def _give(owner: Held, given: Mapping[str, Injection]) -> Iterator[Operation]:
    """Yield the operations that set what an admission gives beside the templates.

    Raises:
        InjectionConflictError: a template contradicts it.
    """
    lists: dict[str, list[dict[str, Any]]] = {}
    for one in owner.asked:
        if one.given is None:
            continue
        own = _AS_TEMPLATE(one.pods)
        added, changes = injection.into_template(given[one.name], own.metadata, own.spec)
        present = len(own.spec.tolerations or ())
        more = {
            **added,
            "nodeSelector": changes.get("nodeSelector", {}),
            "tolerations": changes.get("tolerations", [])[present:],
            "schedulingGates": _added_gates(own.spec, changes),
        }
        wanted = {member: value for member, value in more.items() if value}
        lists.setdefault(one.given.at.pointer(), []).append(wanted)
    for pointer, listed in lists.items():
        yield {"op": "add", "path": pointer, "value": listed}


def _inject(asked: Asked, given: Injection) -> tuple[tuple[Operation, ...], _Given]:
    """Return the operations that give a template what an admission gives, and what that is."""
    own, raw = asked.template, asked.raw
    added, changes = injection.into_template(given, own.metadata, own.spec)
    builder, at = PatchBuilder(), asked.path.pointer()
    metadata, spec = raw.get("metadata"), raw.get("spec") or {}
    absent = []
    if not asked.stands:
        absent.append(_TEMPLATE)
        builder.put(at, raw)
    wanted = {member: added[member] for member in _METADATA if added[member]}
    if metadata is None:
        absent.append("metadata")
        builder.put(f"{at}/metadata", wanted)
    else:
        absent += [member for member in wanted if metadata.get(member) is None]
        for member, values in wanted.items():
            builder.merge(f"{at}/metadata/{member}", metadata.get(member), values)
    absent += [member for member in changes if spec.get(member) is None]
    selector = changes.get("nodeSelector", {})
    builder.merge(f"{at}/spec/nodeSelector", spec.get("nodeSelector"), selector)
    more = tuple(changes.get("tolerations", [])[len(own.spec.tolerations or ()) :])
    builder.append(f"{at}/spec/tolerations", spec.get("tolerations"), more)
    gates = _added_gates(own.spec, changes)
    builder.append(f"{at}/spec/schedulingGates", spec.get("schedulingGates"), gates)
    return builder.operations(), _Given(
        labels=tuple(sorted(added["labels"])),
        annotations=tuple(sorted(added["annotations"])),
        node_selector=tuple(sorted(selector)),
        tolerations=more,
        gates=tuple(gate["name"] for gate in gates),
        absent=tuple(absent),
    )


def _added_gates(spec: views.PodSpec, changes: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the scheduling gates that pods get beside those that they have."""
    gates: list[dict[str, str]] = changes.get("schedulingGates", [])
    return gates[len(spec.scheduling_gates or ()) :]


def _take_back(owner: Held) -> Iterator[Operation]:
    """Yield the operations that take out what an admission gave beside the templates."""
    beside = {one.given.at.pointer() for one in owner.asked if one.given and one.given.value}
    for path in sorted(beside):
        yield {"op": "remove", "path": path}


def restore(owner: Held, workload: Workload | None, beside: Iterable[Operation]) -> patches.Patch:
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
    if injected is not None:
        path = patches.pointer("metadata", "annotations", names.INJECTED)
        builder.remove(path)
    was = {} if workload is None else {one.name: one for one in workload.spec.pod_sets or ()}
    for one in owner.asked:
        if one.given is not None:
            continue
        if injected is not None:
            _take_out(builder, one, injected.pod_sets.get(one.name, _Given()))
        else:
            _put_back(builder, one, was.get(one.name))
    return _patch(owner, (*beside, *builder.operations()))


def _take_out(builder: PatchBuilder, asked: Asked, given: _Given) -> None:
    """Take out of a template what an admission gave it."""
    if not asked.stands:
        return
    if _TEMPLATE in given.absent and asked.default == _without(asked.raw, given):
        builder.remove(asked.path.pointer())
        return
    at, metadata, spec = asked.path.pointer(), *_parts(asked)
    left: dict[str, Any] = {}
    for member, keys in (("labels", given.labels), ("annotations", given.annotations)):
        present = metadata.get(member)
        kept = _less(present, keys)
        gone = present is not None and not kept and member in given.absent
        left[member] = None if gone else present if present is None else kept
    others = [member for member in metadata if member not in _METADATA]
    if "metadata" in given.absent and not others and not any(left.values()):
        if asked.raw.get("metadata") is not None:
            builder.remove(f"{at}/metadata")
    else:
        for member, kept in left.items():
            _become(builder, f"{at}/metadata/{member}", metadata.get(member), kept)
    selector = spec.get("nodeSelector")
    kept = _less(selector, given.node_selector)
    emptied = not kept and "nodeSelector" in given.absent
    _become(builder, f"{at}/spec/nodeSelector", selector, None if emptied else kept)
    gates = [{"name": name} for name in given.gates]
    for member, taken in (("tolerations", given.tolerations), ("schedulingGates", gates)):
        present = spec.get(member)
        stays = [one for one in present or () if one not in taken]
        if present is not None and stays != present:
            if not stays and member in given.absent:
                builder.remove(f"{at}/spec/{member}")
            else:
                builder.put(f"{at}/spec/{member}", stays)


def _without(template: Mapping[str, Any], given: _Given) -> dict[str, Any]:
    """Return a template that was put in at the start without what was given to it then."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    left: dict[str, Any] = {
        "labels": _less(metadata.get("labels"), given.labels),
        "annotations": _less(metadata.get("annotations"), given.annotations),
    }
    others = {member: value for member, value in metadata.items() if member not in _METADATA}
    kept = {**others, **{member: value for member, value in left.items() if value}}
    tolerations = [one for one in spec.get("tolerations") or () if one not in given.tolerations]
    scheduling = {
        "nodeSelector": _less(spec.get("nodeSelector"), given.node_selector),
        "tolerations": tolerations,
        "schedulingGates": [
            one for one in spec.get("schedulingGates") or () if one["name"] not in given.gates
        ],
    }
    rest = {member: value for member, value in spec.items() if member not in scheduling}
    rest |= {member: value for member, value in scheduling.items() if value}
    return {**({"metadata": kept} if kept else {}), "spec": rest}


def _less(present: Mapping[str, Any] | None, keys: Iterable[str]) -> dict[str, Any]:
    """Return a map without some keys."""
    return {key: text for key, text in (present or {}).items() if key not in keys}


def _put_back(builder: PatchBuilder, asked: Asked, was: PodSet | None) -> None:
    """Make a template what a Workload says that it was; without one, take our keys out of it."""
    if not asked.stands:
        return
    at, metadata, spec = asked.path.pointer(), *_parts(asked)
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
    for member, wanted in (
        ("labels", before.metadata.labels),
        ("annotations", before.metadata.annotations),
    ):
        _become(builder, f"{at}/metadata/{member}", metadata.get(member), wanted)
    _become(
        builder, f"{at}/spec/nodeSelector", spec.get("nodeSelector"), before.spec.node_selector
    )
    tolerations = [injection.toleration_to_wire(one) for one in before.spec.tolerations or ()]
    if tolerations != (spec.get("tolerations") or []):
        builder.put(f"{at}/spec/tolerations", tolerations)


def _ungate(builder: PatchBuilder, at: str, spec: Mapping[str, Any]) -> None:
    """Take out of a template the gate with which its pods wait for their domains."""
    present = spec.get("schedulingGates") or []
    kept = [one for one in present if one["name"] != names.TOPOLOGY_GATE]
    if kept != present and kept:
        builder.put(f"{at}/spec/schedulingGates", kept)
    elif kept != present:
        builder.remove(f"{at}/spec/schedulingGates")


def _parts(asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and spec of a template, as they are stored."""
    return asked.raw.get("metadata") or {}, asked.raw.get("spec") or {}


def _become(
    builder: PatchBuilder,
    path: str,
    present: Mapping[str, Any] | None,
    wanted: Mapping[str, Any] | None,
) -> None:
    """Make a map another one; None for none."""
    if present is not None and wanted is None:
        builder.remove(path)
    elif present is not None:
        builder.become(path, present, wanted or {})
    elif wanted:
        builder.put(path, dict(wanted))


def _set(content: Mapping[str, Any], path: str, *, value: Any) -> tuple[Operation, ...]:
    """Return the operation that sets the value at a path, with missing objects above it."""
    above, at = content, FieldPath()
    steps = path.split(".")
    for depth, step in enumerate(steps):
        at = at.child(step)
        found = above.get(step)
        if depth + 1 == len(steps) or not isinstance(found, dict):
            wanted = value
            for name in reversed(steps[depth + 1 :]):
                wanted = {name: wanted}
            return ({"op": "add", "path": at.pointer(), "value": wanted},)
        above = found
    raise LookupError(path)


def switch(row: Row, owner: Held, *, value: bool) -> patches.Patch:
    """Return the patch of an owner's switch, and of nothing else."""
    return _patch(owner, _set(owner.document.content, row.suspend, value=value))


def hold(content: Mapping[str, Any], path: str) -> tuple[Operation, ...]:
    """Return the operation that suspends an owner; none where it is suspended.

    Args:
        content: the owner.
        path: of the switch.
    """
    return () if rows.value_at(content, path) is True else _set(content, path, value=True)


def _patch(owner: Held, operations: Iterable[Operation]) -> patches.Patch:
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


def integration(row: Row) -> Integration[Held, Document]:
    """Return the kind of a row, as the controller serves it."""
    return Integration(
        kind=kind_of(row),
        document=Document,
        answer=Document,
        view=partial(read, row),
        owner=partial(RowOwner, row),
        build=partial(build, row),
        adopt=partial(adopt, row),
    )
