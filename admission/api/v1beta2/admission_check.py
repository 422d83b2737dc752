"""AdmissionCheck: a question that another controller answers before admission."""

from typing import Annotated

from pydantic import StringConstraints

from admission.api import markers, scalars
from admission.api.common import Conditions
from admission.api.model import Model, Root


class AdmissionCheckParameters(Model):
    """Reference to the controller's own settings."""

    api_group: Annotated[
        str,
        StringConstraints(pattern=scalars.SUBDOMAIN_PATTERN, min_length=1, max_length=253),
    ]
    """Group of the settings' kind."""

    kind: Annotated[
        str, StringConstraints(pattern=scalars.KIND_PATTERN, min_length=1, max_length=63)
    ]
    """Kind of the settings."""

    name: Annotated[
        str, StringConstraints(pattern=scalars.LABEL_PATTERN, min_length=1, max_length=63)
    ]
    """Name of the settings."""


class AdmissionCheckSpec(Model):
    """Who answers."""

    controller_name: Annotated[
        str, StringConstraints(min_length=1, max_length=253), markers.rules(markers.IMMUTABLE)
    ]
    """The controller that answers; not a name of a pod or deployment."""

    parameters: AdmissionCheckParameters | None = None
    """The controller's settings for this check."""


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
