"""Kinds whose two versions hold the same fields, so that no webhook converts them."""

from typing import Annotated

from pydantic import StringConstraints

from admission.api import markers, scalars
from admission.api.model import Model, Root
from admission.api.scalars import Int32, Int64
from admission.api.v1beta1.common import Conditions
from admission.api.v1beta2 import topology


class WorkloadPriorityClass(Root):
    """A named priority of workloads. It orders queues and preemption, not the scheduler."""

    value: Int32
    """The priority; higher goes first. A change reaches the workloads that use the class."""

    description: str | None = None
    """What the class is for."""


class AdmissionCheckParameters(Model):
    """Reference to the controller's own settings."""

    api_group: scalars.Subdomain
    """Group of the settings' kind."""

    kind: Annotated[str, StringConstraints(pattern=scalars.KIND_PATTERN, max_length=63)]
    """Kind of the settings."""

    name: scalars.Label
    """Name of the settings."""


class AdmissionCheckSpec(Model):
    """Who answers."""

    controller_name: Annotated[str, markers.rules(markers.IMMUTABLE)]
    """The controller that answers; not a name of a pod or deployment."""

    parameters: AdmissionCheckParameters | None = None
    """The controller's settings for this check."""

    retry_delay_minutes: Int64 = 15
    """No longer read."""


class AdmissionCheckStatus(Model):
    """Whether the check can be asked."""

    conditions: Conditions | None = None
    """A check without ``Active=True`` makes every ClusterQueue that uses it inactive."""


class AdmissionCheck(Root):
    """A question that another controller answers before a workload is admitted."""

    spec: AdmissionCheckSpec | None = None
    """Who answers."""

    status: AdmissionCheckStatus | None = None
    """Whether the check can be asked."""


class TopologySpec(Model):
    """The levels."""

    levels: Annotated[
        list[topology.TopologyLevel],
        markers.list_atomic(at_least=1, at_most=16),
        markers.rules(markers.IMMUTABLE, *topology.LEVEL_RULES),
    ]
    """The levels, from the widest to the narrowest."""


class Topology(Root):
    """The levels of a data centre, as labels of nodes."""

    spec: TopologySpec | None = None
    """The levels."""
