"""AdmissionCheck: a question that another controller answers before admission."""

from typing import Annotated

from admission.objects import markers
from admission.objects.fields import KIND, LABEL, NOT_EMPTY, REQUIRED, SUBDOMAIN, text
from admission.objects.queue_status import Conditions
from admission.objects.viewbase import Object, View


class AdmissionCheckParameters(View, frozen=True, kw_only=True):
    """Reference to the controller's own settings."""

    api_group: Annotated[str, REQUIRED, SUBDOMAIN, NOT_EMPTY] = ""
    """Group of the settings' kind."""

    kind: Annotated[str, REQUIRED, KIND, NOT_EMPTY] = ""
    """Kind of the settings."""

    name: Annotated[str, REQUIRED, LABEL, NOT_EMPTY] = ""
    """Name of the settings."""


class AdmissionCheckSpec(View, frozen=True, kw_only=True):
    """The controller that answers, and its settings."""

    controller_name: Annotated[
        str, REQUIRED, text(at_least=1, at_most=253), markers.rules(markers.IMMUTABLE)
    ] = ""
    """The controller that answers; not a name of a pod or deployment."""

    parameters: AdmissionCheckParameters | None = None
    """The controller's settings for this check."""


class AdmissionCheckStatus(View, frozen=True, kw_only=True):
    """Whether the check is active."""

    conditions: Conditions | None = None
    """A check without ``Active=True`` makes every ClusterQueue that uses it inactive."""


class AdmissionCheck(Object, frozen=True, kw_only=True):
    """A question that another controller answers before a workload is admitted."""

    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    """The controller that answers, and its settings."""

    status: AdmissionCheckStatus = AdmissionCheckStatus()
    """Whether the check is active."""
