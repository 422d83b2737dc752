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
    owner, pod_revision = pod.metadata.controller(), revision(pod)
    if owner is None or (owner.api_version, owner.kind) != REPLICA_SET or not pod_revision:
        return ""
    name = owner.name.removesuffix(f"-{pod_revision}")
    return name if name != owner.name else ""


def revision(pod: views.Pod) -> str:
    """Return the hash of the pod template that a pod was made from; empty for none."""
    return pod.metadata.label(_HASH)


def replicas(spec: Mapping[str, Any]) -> int:
    """Return the number of replicas of a Deployment; 1 if it is not set."""
    replicas_ = spec.get("replicas")
    return max(0, replicas_) if isinstance(replicas_, int) else 1


def surge(spec: Mapping[str, Any]) -> int:
    """Return the number of pods beyond the replicas during a rolling update.

    What the API server would refuse counts as none.
    """
    strategy = spec.get("strategy") or {}
    if not isinstance(strategy, dict) or strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0
    rolling = strategy.get("rollingUpdate") or {}
    max_surge = rolling.get("maxSurge", _DEFAULT_SURGE) if isinstance(rolling, dict) else None
    if isinstance(max_surge, int):
        return max(0, max_surge)
    if not isinstance(max_surge, str) or not max_surge.endswith("%"):
        return 0
    percent = syntax.whole_number(max_surge.removesuffix("%")) or 0
    return -(-percent * replicas(spec) // 100)
