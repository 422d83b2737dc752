"""Which Deployments have pods of an earlier revision that run while one of a later waits.

Kubernetes deletes an old pod of a Deployment that surges only once a new one is available, which
it cannot be while the old one holds the quota.
Source: kubernetes pkg/controller/deployment/sync.go (names and labels of ReplicaSets).
"""

from typing import Final

from admission.objects import views
from admission.owners import pod as pod_owner

_HASH: Final = "pod-template-hash"
_REPLICA_SET: Final = ("apps/v1", "ReplicaSet")


class Revisions:
    """Pods of Deployments that were released and have not ended."""

    def __init__(self) -> None:
        """Prepare an empty index."""
        self._released: dict[tuple[str, str], dict[str, str]] = {}
        """Hash of each pod by namespace and name of the Deployment, and UID."""
        self._deployments: dict[str, tuple[str, str]] = {}

    def on_update(self, pod: views.Pod) -> None:
        """Take a pod as it is now."""
        deployment, uid = _deployment(pod), pod.metadata.uid
        if not deployment or pod_owner.is_gated(pod) or pod_owner.is_terminal(pod):
            self.on_delete(uid)
            return
        key = pod.metadata.namespace, deployment
        self._deployments[uid] = key
        self._released.setdefault(key, {})[uid] = pod.metadata.label(_HASH)

    def on_delete(self, uid: str) -> None:
        """Take the news that a pod is gone."""
        key = self._deployments.pop(uid, None)
        if key is not None:
            del self._released[key][uid]
            if not self._released[key]:
                del self._released[key]

    def held_by_previous(self, pod: views.Pod) -> str:
        """Return the name of a pod's Deployment if pods of another revision run; else nothing."""
        deployment = _deployment(pod)
        others = self._released.get((pod.metadata.namespace, deployment), {})
        own = pod.metadata.label(_HASH)
        return deployment if any(one != own for one in others.values()) else ""


def _deployment(pod: views.Pod) -> str:
    """Return the name of the Deployment that a pod is of; empty for none.

    It is that of its ReplicaSet without the hash.
    """
    owner, own = pod.metadata.controller(), pod.metadata.label(_HASH)
    if owner is None or (owner.api_version, owner.kind) != _REPLICA_SET or not own:
        return ""
    name = owner.name.removesuffix(f"-{own}")
    return name if name != owner.name else ""
