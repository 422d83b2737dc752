"""What a Deployment says of its pods: how many it wants, and how it replaces them.

Source: kubernetes pkg/controller/deployment/util/deployment_util.go (MaxSurge, ResolveFenceposts)
and sync.go (names and labels of ReplicaSets).
"""

from collections.abc import Mapping
from typing import Any, Final

from admission.base import syntax
from admission.objects import views

REPLICA_SET: Final = ("apps/v1", "ReplicaSet")
_HASH: Final = "pod-template-hash"
_DEFAULT_SURGE: Final = "25%"


def of_pod(pod: views.Pod) -> str:
    """Return the name of the Deployment that a pod is of; empty for none.

    It is that of its ReplicaSet without the hash.
    """
    owner, own = pod.metadata.controller(), revision(pod)
    if owner is None or (owner.api_version, owner.kind) != REPLICA_SET or not own:
        return ""
    name = owner.name.removesuffix(f"-{own}")
    return name if name != owner.name else ""


def revision(pod: views.Pod) -> str:
    """Return the hash of the pod template that a pod was made from; empty for none."""
    return pod.metadata.label(_HASH)


def replicas(spec: Mapping[str, Any]) -> int:
    """Return the number of replicas of a Deployment; 1 if it is not set."""
    found = spec.get("replicas")
    return max(0, found) if isinstance(found, int) else 1


def surge(spec: Mapping[str, Any]) -> int:
    """Return the number of pods beyond the replicas during a rolling update.

    What the API server would refuse counts as none.
    """
    strategy = spec.get("strategy") or {}
    if not isinstance(strategy, dict) or strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0
    rolling = strategy.get("rollingUpdate") or {}
    found = rolling.get("maxSurge", _DEFAULT_SURGE) if isinstance(rolling, dict) else None
    if isinstance(found, int):
        return max(0, found)
    if not isinstance(found, str) or not found.endswith("%"):
        return 0
    percent = syntax.whole_number(found.removesuffix("%")) or 0
    return -(-percent * replicas(spec) // 100)
