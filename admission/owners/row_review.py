"""Owners under review whose kind is a row of a table.

Source: kueue pkg/controller/jobframework (validation.go) and the webhooks of pkg/controller/jobs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, cast

import msgspec

from admission.base import fielderrors, names
from admission.base.fielderrors import FieldError, FieldPath
from admission.base.patches import Operation, PatchBuilder
from admission.objects import owner_rows as rows
from admission.objects import pod_templates, reviewed_pod, views
from admission.objects.owner_rows import EACH, PodSets, Row
from admission.owners import review, row_owner
from admission.owners.framework import Kind
from admission.owners.review import Beside, HeldKind, Template

_GATE_STAYS: Final = (
    f"must have {names.ELASTIC_JOB_GATE}, which is added at creation in a queue: each pod waits"
    " for the quota of its slice"
)
MOST: Final = 18
"""Pod sets of a Workload. Source: kueue jobframework (MaxPodSets)."""


class ReviewedRowOwner(views.Object, frozen=True, kw_only=True):
    """An owner under review; a subclass for each row."""

    row: ClassVar[Row]

    spec: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """The kind it is of."""
        return row_owner.kind_of(self.row)

    @property
    def content(self) -> dict[str, Any]:
        """The parts of the object in which the paths of the row are looked up."""
        return {"metadata": {"name": self.metadata.name}, "spec": self.spec}

    def is_held(self) -> bool:
        """Return whether it is suspended."""
        return rows.value_at(self.content, self.row.suspend) is True

    def hold(self) -> tuple[Operation, ...]:
        """Return the operations that suspend it, and set what the row puts beside.

        Quantities that are numbers with a fraction become text, as in Kueue.
        """
        operations = list(row_owner.hold(self.content, self.row.suspend))
        for listed, member in row_owner.members(self.row, self.content):
            for template in rows.find(member.value, listed.template, member.path):
                operations += pod_templates.write_text(template)
            for path, value in listed.put:
                if rows.value_at(member.value, path) != value:
                    at = member.path
                    for step in path.split("."):
                        at = at.child(step)
                    operations.append({"op": "add", "path": at.pointer(), "value": value})
        if self.row.may_grow and review.is_elastic(self.metadata):
            for grown in self._growing():
                operations += review.elastic_gate(grown.pod, grown.path.pointer())
        return tuple(operations)

    def spread(self, queue: str) -> tuple[Operation, ...]:
        """Return the operations that give a queue to what is in it and is not counted with it.

        One with nothing else in it has no Workload that could start it: it is not suspended.
        """
        patch = PatchBuilder()
        if self.row.components is not None and self.is_held() and not self.templates():
            patch.put(FieldPath.of(*self.row.suspend.split(".")).pointer(), value=False)
        for kind, member in row_owner.components_of(self.row, self.content):
            labels = rows.value_at(member.value, "metadata.labels")
            if kind is None and names.QUEUE_LABEL not in (labels or {}):
                at = member.path.child("metadata")
                if rows.value_at(member.value, "metadata") is None:
                    patch.put(at.pointer(), {})
                patch.merge(at.child("labels").pointer(), labels, {names.QUEUE_LABEL: queue})
        return patch.operations()

    def templates(self) -> tuple[Template, ...]:
        """Return its pod templates.

        Raises:
            msgspec.ValidationError: the row's paths lead to something else.
        """
        content = self.content
        return tuple(
            _template(content, listed, member)
            for listed, member in row_owner.members(self.row, content)
        )

    def _growing(self) -> Iterator[Template]:
        """Yield the pod templates of which the number of pods may change."""
        content = self.content
        for listed, member in row_owner.members(self.row, content):
            if not listed.is_fixed:
                yield _template(content, listed, member)

    def remakes(self, old: "ReviewedRowOwner") -> FieldPath | None:
        """Return where it differs so that its controller has all its pods a second time."""
        path, kept = self.row.remade, self.row.kept
        was, now = (
            rows.without(rows.value_at(reviewed.content, path), kept) for reviewed in (old, self)
        )
        return None if was == now else FieldPath.of(*path.split("."))

    def errors(self, old: "ReviewedRowOwner | None") -> list[FieldError]:
        """Return what is wrong with its pod sets, and with switches, of one in a queue."""
        if not self.metadata.label(names.QUEUE_LABEL):
            return []
        content, row = self.content, self.row
        if rows.value_at(content, row.elsewhere):
            return list(self._elsewhere())
        errors = [
            fielderrors.required(FieldPath.of(*path.split(".")), rule)
            for path, rule in row.required
            if not rows.value_at(content, path)
        ]
        if errors:
            return errors
        templates = self.templates()
        above = () if row.components is None else (row.components.at,)
        lists = [pod_set.at for pod_set in row.pod_sets if pod_set.at.endswith(EACH)]
        last = (lists or above or [row.pod_sets[-1].at])[-1]
        path = FieldPath.of(*last.removesuffix(EACH).split("."))
        if len(templates) > MOST:
            rule = f"must have at most {MOST} pod sets"
            errors.append(fielderrors.invalid(path, len(templates), rule))
        seen: set[str] = set()
        for template in templates:
            if template.name in seen:
                errors.append(fielderrors.duplicate(template.path, template.name))
            seen.add(template.name)
        errors += self._elastic(old)
        for kind, member in row_owner.components_of(row, content):
            if kind is not None:
                errors += _refused(kind, member.value, member.path)
        return errors

    def _elastic(self, old: "ReviewedRowOwner | None") -> Iterator[FieldError]:
        """Yield what is wrong with its size, if it may change, and with switches otherwise."""
        if not review.is_elastic(self.metadata) or not self.row.may_grow:
            yield from _refused(self.row, self.content, FieldPath())
        if self.row.may_grow:
            yield from review.elastic_errors(old, self)
        elif old is None and review.is_elastic(self.metadata):
            rule = (
                f'elastic job is not supported for "{self.row.api_version}, Kind={self.row.kind}"'
            )
            yield fielderrors.forbidden(review.ELASTIC_PATH, rule)
        if self.row.may_grow and review.is_elastic(self.metadata):
            for template in self._growing():
                if not template.pod.has_gate(names.ELASTIC_JOB_GATE):
                    path = template.path.child("spec").child("schedulingGates")
                    yield fielderrors.required(path, _GATE_STAYS)

    def _elsewhere(self) -> Iterator[FieldError]:
        """Yield what is wrong with one that runs in pods of others: pods of its own."""
        at = FieldPath.of(*self.row.elsewhere.split("."))
        for path, _ in self.row.required:
            value = rows.value_at(self.content, path)
            if isinstance(value, dict):
                rule = f"must not be set beside {path}: those pods are not admitted with it"
                yield fielderrors.invalid(at, fielderrors.OMITTED, rule)


def _refused(row: Row, content: Mapping[str, Any], at: FieldPath) -> Iterator[FieldError]:
    """Yield the switches that must not be on in an object at a path."""
    for switch, rule in row.refused:
        if rows.value_at(content, switch) is True:
            path = at
            for step in switch.split("."):
                path = path.child(step)
            yield fielderrors.invalid(path, value=True, detail=rule)


def _template(content: Mapping[str, Any], listed: PodSets, member: rows.Member) -> Template:
    at = row_owner.template_at(listed, member)
    beside = row_owner.beside(content, listed, member)
    count = row_owner.product(row_owner.counts_of(listed, member))
    return Template(
        name=row_owner.name_of(listed, member),
        path=at.path,
        pod=reviewed_pod.from_dict(at.value),
        count=count,
        fewest=count,
        has_metadata=at.value.get("metadata") is not None,
        raw=row_owner.with_given(row_owner.with_containers(at.value, beside), listed.given),
        beside=_beside(listed.given),
    )


def _beside(beside_: rows.Given | None) -> Beside | None:
    if beside_ is None or not beside_.value:
        return None
    return Beside(beside_.at, review.marks_of((beside_.value,)))


def held(row: Row) -> HeldKind:
    """Return the kind of a row, as reviews serve it."""
    namespace: Mapping[str, Any] = {"row": row, "__doc__": f"{row.kind} under review."}
    document = msgspec.defstruct(
        row.kind,
        (),
        bases=(ReviewedRowOwner,),
        namespace=dict(namespace),
        frozen=True,
        kw_only=True,
    )
    return HeldKind(
        kind=row_owner.kind_of(row),
        document=cast(type[ReviewedRowOwner], document),
        templates=tuple(f"{pod_set.at}.{pod_set.template}" for pod_set in row.pod_sets),
        makers=row.makers,
        framework=row.framework,
        changes=tuple(dict.fromkeys(_top(row))),
    )


def _top(row: Row) -> list[str]:
    """Return the members of the spec in which the controller changes something."""
    inside = () if row.components is None else (row.components.at,)
    paths = (
        row.suspend,
        *inside,
        *(f"{pod_set.at}.{pod_set.template}" for pod_set in row.pod_sets),
    )
    return [path.split(".")[1].removesuffix(EACH) for path in paths]
