"""Documents that the suite writes."""

from typing import Any

Document = dict[str, Any]

GATE = "kueue.x-k8s.io/admission"


def limit_range(name: str = "a", **labels: str) -> Document:
    """A small object of a built-in kind without status."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {"limits": []}}


def flavor(name: str, **metadata: Any) -> Document:
    """A small object of a custom kind, without status."""
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeLabels": {"a": "b"}}}


def local_queue(name: str = "a", queue: str = "q") -> Document:
    """A custom kind with status."""
    return {"metadata": {"name": name}, "spec": {"clusterQueue": queue}}


def workload(name: str = "a", **metadata: Any) -> Document:
    """A Workload of one pod."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    pod_set = {"name": "main", "count": 1, "template": template}
    return {"metadata": {"name": name, **metadata}, "spec": {"podSets": [pod_set]}}


def owned_by(owner: Document) -> list[Document]:
    """ownerReferences to an object."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
    ]


def condition(reason: str) -> Document:
    """A condition."""
    return {
        "type": "Active",
        "status": "False",
        "reason": reason,
        "message": "m",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
