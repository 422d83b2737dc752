"""Quota that is held to what exists: the capacity guard's caps, for whoever counts by them.

Source: docs/adr/0030-the-capacity-guard.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeVar

from admission.base import amount
from admission.base.causes import NOT_ELSEWHERE, Elsewhere
from admission.base.names import FlavorResource
from admission.scheduling import model

Owner = TypeVar("Owner", model.ClusterQueue, model.Cohort)
_Shares = Mapping[FlavorResource, int]
_Promised = Mapping[FlavorResource, Elsewhere]
_NOTHING: Final[_Promised] = MappingProxyType({})


def capped(owner: Owner, shares: _Shares, elsewhere: _Promised = _NOTHING) -> Owner:
    """Return a ClusterQueue or Cohort whose nominal quota is not above its shares.

    Args:
        owner: as it is written.
        shares: what exists of its promises; what is not in it is not capped.
        elsewhere: what of a promise exists and is promised to others before.
    """
    groups = tuple(_group(group, shares, elsewhere) for group in owner.resource_groups)
    if isinstance(owner, model.ClusterQueue):
        surge = _surge_within(owner, shares)
        return replace(owner, resource_groups=groups, surge_quota=surge)
    return replace(owner, resource_groups=groups)


def nominal(groups: Iterable[model.ResourceGroup]) -> dict[FlavorResource, int]:
    """Return the nominal quota of resource groups, by flavor and resource."""
    return {
        FlavorResource(flavor.name, resource): quota.nominal
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }


def _surge_within(queue: model.ClusterQueue, shares: _Shares) -> dict[FlavorResource, int]:
    """Return the surge quota as far as a share goes beyond the nominal quota."""
    nominal_ = nominal(queue.resource_groups)
    return {
        pair: min(value, max(0, shares[pair] - nominal_.get(pair, 0))) if pair in shares else value
        for pair, value in queue.surge_quota.items()
    }


def _group(
    group: model.ResourceGroup, shares: _Shares, elsewhere: _Promised
) -> model.ResourceGroup:
    flavors = tuple(_flavor(flavor_quotas, shares, elsewhere) for flavor_quotas in group.flavors)
    return replace(group, flavors=flavors)


def _flavor(
    quotas: model.FlavorQuotas, shares: _Shares, elsewhere: _Promised
) -> model.FlavorQuotas:
    limited = {}
    for resource, quota in quotas.resources.items():
        pair = FlavorResource(quotas.name, resource)
        share = shares.get(pair, quota.nominal)
        limited[resource] = _quota(quota, share, elsewhere.get(pair, NOT_ELSEWHERE))
    return replace(quotas, resources=limited)


def _quota(quota: model.ResourceQuota, share: int, elsewhere: Elsewhere) -> model.ResourceQuota:
    granted = min(quota.nominal, share)
    is_bounded = quota.nominal != amount.UNLIMITED
    withheld = quota.nominal - granted if is_bounded else 0
    withheld_elsewhere = elsewhere if withheld else NOT_ELSEWHERE
    return replace(quota, nominal=granted, withheld=withheld, elsewhere=withheld_elsewhere)
