"""Kinds of owners that an installation adds, or says otherwise: rows in a configuration file.

A path names members from the top of the object, or from the place of a pod set. ``[*]`` is each
item of a list; ``*`` in a path of the status is each member of an object.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from pydantic import Field

from admission.base import names
from admission.config.model import SHOWN_IF_SET, ConfigModel
from admission.objects import fields, owner_rows
from admission.objects.owner_rows import EACH, Row

_MEMBER: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
_PLAIN: Final = rf"{_MEMBER}(\.{_MEMBER})*"
_SPEC: Final = rf"spec(\.{_MEMBER})+"
_PLACE: Final = rf"{_SPEC}(\[\*\])?"
_STATUS: Final = rf"status(\.(\*|{_MEMBER}(\[\*\])?))+"
_BUILT_IN: Final = frozenset({"", "apps", "batch", names.KUEUE_GROUP})

_KNOWN: Final = {"job": "batch", "pod": ""} | {
    row.kind.lower(): row.group for row in (*owner_rows.ROWS, *owner_rows.MODULES)
}
"""Group of each known kind: names of webhooks and roles follow from the kind alone."""

Plain = Annotated[str, Field(pattern=rf"^{_PLAIN}$")]
InSpec = Annotated[str, Field(pattern=rf"^{_SPEC}$")]
InStatus = Annotated[str, Field(pattern=rf"^{_STATUS}$")]


class CountConfig(ConfigModel):
    """A factor of the number of pods; see `owner_rows.Count`."""

    path: Plain
    at_most: Annotated[Plain | None, SHOWN_IF_SET] = None
    least: Annotated[int, Field(ge=0), SHOWN_IF_SET] = 0


class PodSetsConfig(ConfigModel):
    """Pod sets of an owner; see `owner_rows.PodSets`."""

    at: Annotated[str, Field(pattern=rf"^{_PLACE}$")]
    template: Plain = "template"
    name: Annotated[str, Field(pattern=fields.LABEL_PATTERN), SHOWN_IF_SET] | None = None
    name_at: Annotated[Plain | None, SHOWN_IF_SET] = None
    counts: Annotated[list[CountConfig], SHOWN_IF_SET] = []

    def row(self) -> owner_rows.PodSets:
        """Return it as part of a row."""
        counts = (
            owner_rows.Count(path=count.path, at_most=count.at_most or "", least=count.least)
            for count in self.counts
        )
        return owner_rows.PodSets(
            at=self.at,
            template=self.template,
            name=self.name or "",
            name_at=self.name_at or "",
            counts=tuple(counts),
        )


class CheckConfig(ConfigModel):
    """Something that the status of an owner says; see `owner_rows.Check`."""

    condition: Annotated[str | None, SHOWN_IF_SET] = None
    path: Annotated[InStatus | None, SHOWN_IF_SET] = None
    value: Annotated[str | None, SHOWN_IF_SET] = None

    def row(self) -> owner_rows.Check:
        """Return it as part of a row."""
        return owner_rows.Check(
            condition=self.condition or "",
            path=self.path or "",
            values=(self.value,) if self.value else (),
        )


class OwnerKind(ConfigModel):
    """A kind of owners that is held as a whole; see `owner_rows.Row`.

    Attributes:
        api_version: group and version of its objects.
        kind: of its objects.
        plural: its resource; the kind in lower case with an ``s`` where it is absent.
        suspend: path of the switch that holds it.
        pod_sets: its pod sets, in the order in which the Workload has them.
        controllers: users under which its controller runs.
        priority_class: path of a PriorityClass that counts before those of the templates.
        succeeded: says that it has ended well.
        failed: says that it has ended otherwise.
        active: any of them says that pods of it run.
        ready: says that its pods are ready.
        suspended: condition with which its controller says that it has seen it suspended.
    """

    api_version: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/v[0-9][a-z0-9]*$")]
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$")]
    plural: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9]*$"), SHOWN_IF_SET] = None
    suspend: InSpec = "spec.suspend"
    pod_sets: Annotated[list[PodSetsConfig], Field(min_length=1)]
    controllers: Annotated[list[str], SHOWN_IF_SET] = []
    priority_class: Annotated[InSpec | None, SHOWN_IF_SET] = None
    succeeded: Annotated[CheckConfig | None, SHOWN_IF_SET] = None
    failed: Annotated[CheckConfig | None, SHOWN_IF_SET] = None
    active: Annotated[list[CheckConfig], SHOWN_IF_SET] = []
    ready: Annotated[CheckConfig | None, SHOWN_IF_SET] = None
    suspended: Annotated[str | None, SHOWN_IF_SET] = None

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.partition("/")[0]

    def row(self) -> Row:
        """Return it as a row."""
        return Row(
            framework=f"{self.group}/{self.kind.lower()}",
            group=self.group,
            version=self.api_version.partition("/")[2],
            kind=self.kind,
            plural=self.plural or f"{self.kind.lower()}s",
            suspend=self.suspend,
            pod_sets=tuple(pod_set.row() for pod_set in self.pod_sets),
            makers=frozenset(self.controllers),
            priority_class=self.priority_class or "",
            succeeded=None if self.succeeded is None else self.succeeded.row(),
            failed=() if self.failed is None else (self.failed.row(),),
            active=tuple(condition.row() for condition in self.active),
            ready=None if self.ready is None else self.ready.row(),
            suspended=self.suspended or "",
        )


def problems(owners: Iterable[OwnerKind]) -> Iterator[str]:
    """Return the broken rules of owner kinds that field types cannot express."""
    seen: set[str] = set()
    for index, kind in enumerate(owners):
        path = f"owners[{index}]"
        if kind.group in _BUILT_IN or kind.group.endswith(".k8s.io"):
            yield f"{path}.apiVersion: {kind.api_version!r}: kinds of Kubernetes cannot be added"
        if kind.kind.lower() in seen:
            yield f"{path}.kind: {kind.kind} is listed twice"
        seen.add(kind.kind.lower())
        if _KNOWN.get(kind.kind.lower(), kind.group) != kind.group:
            yield f"{path}.kind: {kind.kind} is a known kind of another group"
        yield from _of_pod_sets(path, kind.pod_sets)
        checks = {"succeeded": kind.succeeded, "failed": kind.failed, "ready": kind.ready}
        checks |= {f"active[{at}]": check for at, check in enumerate(kind.active)}
        for field, check in checks.items():
            if check is not None and (check.condition is None) == (check.path is None):
                yield f"{path}.{field}: must have either condition or path"
            if check is not None and check.value is not None and check.path is None:
                yield f"{path}.{field}.value: needs path beside it"


def _of_pod_sets(path: str, listed: Iterable[PodSetsConfig]) -> Iterator[str]:
    seen: set[str] = set()
    for at, pod_set in enumerate(listed):
        where = f"{path}.podSets[{at}]"
        if (pod_set.name is None) == (pod_set.name_at is None):
            yield f"{where}: must have either name or nameAt"
        if pod_set.name is not None and pod_set.at.endswith(EACH):
            yield f"{where}.nameAt: must give the path of the name in each item of {pod_set.at}"
        name = (pod_set.name or "").lower()
        if name and name in seen:
            yield f"{where}.name: {name!r} is listed twice"
        seen.add(name)
