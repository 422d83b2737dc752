"""Names of the Workloads that are made for pods and Jobs.

Source: kueue pkg/controller/jobframework/workload_names.go.
"""

import hashlib
from typing import Final

from admission.api import views
from admission.base import names

_MAX_NAME: Final = 253
_HASH_LENGTH: Final = 5


def name_for(kind: str, group: str, name: str, uid: str) -> str:
    """``<kind>-<name>-<hash>``, at most 253 characters.

    The hash makes the name of an owner that was made anew another one.
    """
    digest = hashlib.sha1(  # noqa: S324 - Kueue's naming rule, no security depends on it
        f"{kind}\n{group}\n{name}\n{uid}".encode()
    ).hexdigest()[:_HASH_LENGTH]
    prefix = f"{kind.lower()}-{name}"[: _MAX_NAME - _HASH_LENGTH - 1]
    return f"{prefix}-{digest}"


def key_for(kind: str, group: str, owner: views.Object) -> names.WorkloadKey:
    """Identity of an owner's Workload."""
    metadata = owner.metadata
    name = name_for(kind, group, metadata.name, metadata.uid)
    return names.WorkloadKey(metadata.namespace, name)
