"""The parts of core ResourceQuotas that the program reads; Kueue has another type of that name."""

from typing import Any

from admission.objects.views import Object, View


class QuotaSpec(View, frozen=True, kw_only=True):
    """Bounds; scopes choose which pods are counted."""

    hard: dict[str, str | int] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: dict[str, Any] | None = None


class QuotaStatus(View, frozen=True, kw_only=True):
    """What was counted; None before it was counted first."""

    used: dict[str, str | int] | None = None


class NamespaceQuota(Object, frozen=True, kw_only=True):
    """v1 ResourceQuota."""

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()
