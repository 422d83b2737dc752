"""ResourceQuotas on GPUs: keys that count nothing, and quotas that a rewrite would escape.

Source: kubernetes v1.36 pkg/quota/v1/evaluator/core/pods.go.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.gpu import resources
from admission.gpu.findings import Finding
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


_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."


def quota_traps(hard: Iterable[str]) -> tuple[Finding, ...]:
    """Quota keys that the API server accepts and never counts (T8), sorted."""
    return tuple(
        Finding(rule="T8", field=f"spec.hard[{key}]", text=_uncounted(key))
        for key in sorted(hard)
        if resources.is_device(key.removeprefix(_LIMITS)) and not key.startswith(_REQUESTS)
    )


def escaped_quota(
    before: Mapping[str, int],
    after: Mapping[str, int],
    hard: Mapping[str, int],
    used: Mapping[str, int] | None,
) -> tuple[str, str]:
    """Return a refusal and a warning if a ResourceQuota does not count a rewritten request.

    Args:
        before: the pod's device amounts as it asked for them.
        after: as rewritten.
        hard: the quota's bounds by key (``requests.nvidia.com/gpu``).
        used: its use by key; None if it is not known.

    Returns:
        (refusal, warning); at most one is not empty.
    """
    for name, amount in sorted(before.items()):
        key = _REQUESTS + name
        if key not in hard or after.get(name, 0) >= amount:
            continue
        if used is None:
            return "", (
                f"the namespace limits {key} to {hard[key]}, but the rewritten request does not"
                " count against that; limit the queue instead"
            )
        if used.get(key, 0) + amount > hard[key]:
            return (
                f"exceeded quota: requested: {key}={amount}, used: {key}={used.get(key, 0)},"
                f" limited: {key}={hard[key]} (asked for as {name} before the rewrite)"
            ), ""
    return "", ""


def _uncounted(key: str) -> str:
    bare = key.removeprefix(_LIMITS)
    return (
        f"{key} is accepted and never counted, and GPUs cannot be overcommitted (requests equal"
        f" limits); write {_REQUESTS}{bare}"
    )
