"""The kinds of owners that are served; a new kind is registered here."""

from typing import Any, Final

from admission.owners import batch_job, pod
from admission.owners.framework import Integration

INTEGRATIONS: Final[tuple[Integration[Any, Any], ...]] = (batch_job.INTEGRATION, pod.INTEGRATION)
"""In the order in which they are asked whose business a Workload is."""
