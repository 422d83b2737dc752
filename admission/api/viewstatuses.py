"""Statuses of queues, cohorts and checks. Used as part of `admission.api.views`."""

from typing import Any

from admission.api.viewbase import Condition, View


class AdmissionFairSharingStatus(View, frozen=True, kw_only=True):
    """Past usage of a LocalQueue: quantities as text, and when they were reckoned."""

    consumed_resources: dict[str, str | int] | None = None
    last_update: str = ""


class FairSharingStatus(View, frozen=True, kw_only=True):
    """Share of a ClusterQueue or Cohort; past usage is a LocalQueue's."""

    weighted_share: int = 0
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class QueueStatus(View, frozen=True, kw_only=True):
    """Status of a ClusterQueue or LocalQueue; usage by flavor as it is on the wire."""

    conditions: tuple[Condition, ...] | None = None
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None
    flavors_reservation: list[Any] | None = None
    flavors_usage: list[Any] | None = None
    fair_sharing: FairSharingStatus | None = None


class CohortStatus(View, frozen=True, kw_only=True):
    """Status of a Cohort."""

    fair_sharing: FairSharingStatus | None = None


class AdmissionCheckStatus(View, frozen=True, kw_only=True):
    """Whether somebody answers it."""

    conditions: tuple[Condition, ...] | None = None
