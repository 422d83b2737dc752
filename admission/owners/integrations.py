"""The kinds of owners that are served; a new kind is registered here, or is a row of a table."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from admission.config.derived import Settings
from admission.objects import owner_rows, views
from admission.objects.owner_rows import Row
from admission.objects.workload import Workload
from admission.owners import (
    batch_job,
    batch_job_review,
    pod,
    pod_group,
    ray_growth,
    row_owner,
    row_review,
    serving,
    spark_application,
    train_job,
)
from admission.owners.framework import Integration, Secondary
from admission.owners.review import HeldKind
from admission.owners.serving import ServingKind


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of owners of one installation.

    Attributes:
        integrations: all of them, in the order in which they are asked whose business a Workload
            is.
        held: those that are held as a whole: reviews of them, webhooks and roles follow from
            these.
        serving: those whose pods are admitted, and they themselves are never suspended.
    """

    integrations: tuple[Integration[Any, Any], ...]
    held: tuple[HeldKind, ...]
    serving: tuple[ServingKind, ...] = ()

    @property
    def secondaries(self) -> tuple[Secondary[Any, Any], ...]:
        """Return the objects that the controller watches to know the pods of owners."""
        declared = (integration.secondary for integration in self.integrations)
        return tuple(secondary for secondary in declared if secondary is not None)

    def owns(self, workload: Workload) -> bool:
        """Return whether a Workload was made for an owner of these kinds, or adopted by one."""
        owned = any(integration.kind.owns(workload) for integration in self.integrations)
        return owned or pod_group.KIND.owns(workload)

    def of_controller(self, metadata: views.ObjectMeta) -> HeldKind | None:
        """Return the kind of the owner that an object names as its controller, if it is held.

        Whether that owner exists and has a queue is not known.
        """
        owner = metadata.controller()
        if owner is None:
            return None
        return next((kind_ for kind_ in self.held if kind_.kind.is_of(owner)), None)

    def serving_of(self, metadata: views.ObjectMeta) -> ServingKind | None:
        """Return the kind of the owner that an object names as its controller, if it serves.

        Whether that owner exists and has a queue is not known.
        """
        owner = metadata.controller()
        if owner is None:
            return None
        return next((kind_ for kind_ in self.serving if kind_.kind.is_of(owner)), None)

    @property
    def checked(self) -> tuple[HeldKind, ...]:
        """The kinds whose owners reviews look up before they trust one of their makers."""
        return tuple(kind_ for kind_ in self.held if kind_.is_checked)

    @property
    def makers(self) -> tuple[str, ...]:
        """Users under which controllers of these kinds run, sorted."""
        return tuple(sorted({user for kind_ in self.held for user in kind_.makers}))


def kinds_of(settings: Settings) -> Kinds:
    """Return the kinds of owners that an installation serves.

    Pods and Jobs always: what is not held would run outside quota.
    """
    serves = settings.serves_framework
    serving_kinds = tuple(
        kind_ for kind_ in serving.KINDS if not kind_.framework or serves(kind_.framework)
    )
    modules = (module for module in owner_rows.MODULES if not _is_replaced(module, settings))
    makers = settings.gpu.owner_controllers
    chosen = tuple(
        replace(module, makers=_makers(module, makers))
        for module in modules
        if serves(module.framework)
    )
    return _kinds(rows_of(settings), chosen, serving_kinds)


def _is_replaced(row: Row, settings: Settings) -> bool:
    """Return whether the installation describes a kind itself."""
    return any((owner.group, owner.kind) == (row.group, row.kind) for owner in settings.gpu.owners)


def rows_of(settings: Settings) -> tuple[Row, ...]:
    """Return the rows that an installation serves: known ones, and those that it adds."""
    added = [owner.row() for owner in settings.gpu.owners]
    row_list = (
        row_
        for row_ in owner_rows.ROWS
        if settings.serves_framework(row_.framework) and not _is_replaced(row_, settings)
    )
    makers = settings.gpu.owner_controllers
    return owner_rows.with_components(
        replace(row_, makers=_makers(row_, makers)) for row_ in (*row_list, *added)
    )


def _makers(row: Row, configured: dict[str, list[str]]) -> frozenset[str]:
    listed = configured.get(row.framework)
    return row.makers if listed is None else frozenset(listed)


@lru_cache(maxsize=16)
def _kinds(
    rows: tuple[Row, ...], modules: tuple[Row, ...], serving_kinds: tuple[ServingKind, ...]
) -> Kinds:
    """Return the kinds of Jobs, pods and rows; made once, as types are made for rows."""
    return Kinds(
        integrations=(
            batch_job.INTEGRATION,
            *(
                ray_growth.integration(row) if row.clusters else row_owner.integration(row)
                for row in rows
            ),
            *(_MODULES[module.kind].integration(module) for module in modules),
            pod.INTEGRATION,
        ),
        held=(
            batch_job_review.HELD,
            *(row_review.held(row) for row in rows),
            *(_MODULES[module.kind].held(module) for module in modules),
        ),
        serving=serving_kinds,
    )


_MODULES: Final[dict[str, Any]] = {
    owner_rows.TRAIN_JOB.kind: train_job,
    owner_rows.SPARK_APPLICATION.kind: spark_application,
}

DEFAULT: Final = kinds_of(Settings())
"""The kinds of an installation that says nothing about them."""
