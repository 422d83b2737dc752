"""The dashboard on a real API server: it shows each caller what `kubectl` would."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import waiting
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import free_port
from tests.integration import snapshot
from tests.integration.installed import KUEUE, Installed

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Board(Installed):
    """Everything of ours, with the dashboard; pods of the teams red and blue wait in one queue."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.port = free_port()
        self.red = self.blue = ""

    def fill(self) -> None:
        self.red, self.blue = (self.cluster.create_namespace(one) for one in ("red", "blue"))
        self.add_flavor(self.red)
        self.add_cluster_queue(self.red, quota=1, flavors=(self.red,))
        for namespace in (self.red, self.blue):
            self.add_local_queue(namespace, self.red)
            self.wait_for_queue(namespace)
        self.create_pod(self.red, "running")
        self.wait_released(self.red, "running")
        for namespace, name in ((self.red, "waits-in-red"), (self.blue, "waits-in-blue")):
            self.create_pod(namespace, name)
            self.wait_condition(namespace, name)

    def token(self, name: str, namespace: str, **roles: str) -> str:
        """A token of a new ServiceAccount, with roles in its namespace or ``everywhere``."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.api.post(accounts, {"metadata": {"name": name}})
        for scope, role in roles.items():
            place = "clusterrolebindings" if scope == "everywhere" else (
                f"namespaces/{namespace}/rolebindings"
            )  # fmt: skip
            self.api.post(
                f"{RBAC}/{place}",
                {
                    "metadata": {"name": f"{name}-{role}"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                                "name": role},
                    "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
                },
            )  # fmt: skip
        found = self.api.post(f"{accounts}/{name}/token", {"spec": {}})
        return str(found["status"]["token"])

    def get(self, path: str, token: str) -> tuple[int, str]:
        """Status and text of a page."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=waiting.PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def wait_for(self, path: str, token: str) -> str:
        """The page, once roles are in effect."""

        def look() -> str | None:
            status, text = self.get(path, token)
            return text if status == 200 else None

        return waiting.until(look, what=f"{path} is shown")

    def workload(self, namespace: str, pod: str) -> str:
        """Name of the Workload of a pod."""
        found: list[dict[str, Any]] = self.api.get(f"{KUEUE}/namespaces/{namespace}/workloads")[
            "items"
        ]
        return next(
            str(one["metadata"]["name"])
            for one in found
            if one["metadata"]["ownerReferences"][0]["name"] == pod
        )


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with snapshot.prepared(tmp_path_factory.mktemp("board"), Board, whole=True) as it:
        it.start("--dashboard-bind", f"127.0.0.1:{it.port}")
        it.fill()
        yield it


def test_an_administrator_sees_queues_workloads_and_gpus(board: Board) -> None:
    admin = board.cluster.admin_token
    status, text = board.get("/", admin)
    assert (status, board.red in text) == (200, True)
    assert "1 of 1 GPU of quota allocated; 2 Workloads wait" in text
    assert "1 of 1 used" in board.get("/quota", admin)[1]
    text = board.get(f"/queues/{board.red}", admin)[1]
    places = [
        text.index(name) for name in ("pod-waits-in-red", "pod-waits-in-blue", "pod-running")
    ]
    assert places == sorted(places)
    path = f"/namespaces/{board.blue}/workloads/{board.workload(board.blue, 'waits-in-blue')}"
    text = board.get(path, admin)[1]
    assert "for Pod waits-in-blue" in text
    assert "<dt>Place</dt><dd>2</dd>" in text
    assert board.get("/gpus", admin)[0] == 200


def test_an_editor_of_a_namespace_sees_its_own_workloads_and_nothing_of_the_cluster(
    board: Board,
) -> None:
    editor = board.token(
        "editor", board.red, here="edit", also="gpu-admission-batch-user-role"
    )  # fmt: skip
    own = f"/namespaces/{board.red}/workloads/{board.workload(board.red, 'waits-in-red')}"
    assert "for Pod waits-in-red" in board.wait_for(own, editor)
    other = f"/namespaces/{board.blue}/workloads/{board.workload(board.blue, 'waits-in-blue')}"
    for path in ("/quota", f"/queues/{board.red}", "/gpus", f"/namespaces/{board.blue}", other):
        status, text = board.get(path, editor)
        assert (status, "cannot" in text, "waits-in-blue" in text) == (403, True, path == other)


def test_a_member_of_a_team_is_led_to_the_local_queues_of_their_namespace(board: Board) -> None:
    member = board.token("member", board.red, here="gpu-admission-batch-user-role")
    own = board.wait_for(f"/namespaces/{board.red}", member)
    assert "pod-waits-in-red" in own
    assert "waits-in-blue" not in own
    status, text = board.get("/", member)
    assert (status, f'href="/namespaces/{board.red}"' in text) == (200, True)
    assert f'href="/namespaces/{board.blue}"' not in text


def test_names_of_another_namespace_are_left_out_of_a_queue(board: Board) -> None:
    viewer = board.token("viewer", board.red, here="gpu-admission-batch-user-role")
    role = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["clusterqueues"], "verbs": ["get"]}
    board.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "queue-reader"}, "rules": [role]})
    board.api.post(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "queue-reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "queue-reader"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "viewer", "namespace": board.red}
            ],
        },
    )  # fmt: skip
    waiting.until(
        lambda: "pod-waits-in-red" in board.wait_for(f"/queues/{board.red}", viewer),
        what="own Workloads are named",
    )
    text = board.wait_for(f"/queues/{board.red}", viewer)
    assert "waits-in-blue" not in text
    assert text.count("a Workload that you may not see") == 1


def test_nobody_without_a_good_token_sees_anything(board: Board) -> None:
    for path in ("/", f"/queues/{board.red}", "/gpus", "/changes"):
        assert board.get(path, "wrong")[0] == 401


def test_a_browser_signs_in_with_a_token_and_keeps_it_in_a_cookie(board: Board) -> None:
    cookies = urllib.request.HTTPCookieProcessor()
    browser = urllib.request.build_opener(cookies)
    form = urllib.parse.urlencode({"token": board.cluster.admin_token}).encode()
    url = f"http://127.0.0.1:{board.port}"
    with browser.open(f"{url}/login", form, timeout=waiting.PATIENCE_SECONDS) as answer:
        assert (answer.url, board.red in answer.read().decode()) == (f"{url}/", True)
    assert board.cluster.admin_token not in board.log.read_text()
