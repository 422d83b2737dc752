"""Namespaces with quota, and one who may edit what is in them."""

from typing import Any, Final

from tests.controlplane import waiting
from tests.controlplane.rest import Rest
from tests.integration.applied import Json
from tests.integration.installed import KUEUE, Installed

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_EVERYTHING: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]


def add_editor(system: Installed, *groups: str) -> Rest:
    """Return the client of a user with the role ``edit`` in all namespaces.

    Args:
        system: the installation.
        groups: API groups in which the user may do everything besides.
    """
    _bind(system, "editor", "edit")
    if groups:
        rule = {"apiGroups": sorted(groups), "resources": ["*"], "verbs": _EVERYTHING}
        role = {"metadata": {"name": "editor-of-more"}, "rules": [rule]}
        system.api.post(f"{_RBAC}/clusterroles", role)
        _bind(system, "editor-of-more", "editor-of-more")
    system.cluster.wait_for_roles()
    found = system.cluster.client(system.cluster.kubeconfig("editor"))
    waiting.until(
        lambda: found.answers("/api/v1/namespaces/default/pods"), what="the editor may read pods"
    )
    return found


def _bind(system: Installed, name: str, role: str) -> None:
    document = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": "editor"}],
    }
    system.api.post(f"{_RBAC}/clusterrolebindings", document)


class Team:
    """A namespace with quota for some GPUs, and one who may edit what is in it."""

    def __init__(self, system: Installed, editor: Rest, quota: int = 4, **queue: Any) -> None:
        self.system, self.editor, self.api = system, editor, system.api
        self.name = system.add_team(quota, **queue)
        self.pods = f"/api/v1/namespaces/{self.name}/pods"
        self.workloads = f"{KUEUE}/namespaces/{self.name}/workloads"

    def listed(self) -> dict[str, Json]:
        """Its pods by their name."""
        return {one["metadata"]["name"]: one for one in self.api.get(self.pods)["items"]}

    def gated(self) -> set[str]:
        """Names of the pods that wait."""
        return {n for n, one in self.listed().items() if one["spec"].get("schedulingGates")}

    def started(self) -> set[str]:
        """Names of the pods that wait for nothing of ours."""
        return {n for n, one in self.listed().items() if not one["spec"].get("schedulingGates")}

    def running(self, *pods: str) -> bool:
        """Whether exactly these pods run."""
        return set(pods) == {
            name
            for name, pod in self.listed().items()
            if pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }

    def wait_running(self, *pods: str) -> None:
        waiting.until(lambda: self.running(*pods), what=f"{', '.join(pods)} run, and no others")
