"""A Kubernetes cluster of one test session: etcd and kube-apiserver, and on demand the rest.

RBAC is on. There is no kubelet; pods run only where `Cluster.start_whole` added kwok. Pods need no
ServiceAccount: only the controller-manager would make the one called ``default``.
"""

import secrets
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self, Unpack

from tests.controlplane import commands, nodes, waiting
from tests.controlplane.credentials import Credentials
from tests.controlplane.etcd_client import EtcdClient
from tests.controlplane.processes import Daemon, Household, free_port
from tests.controlplane.rest import Json, Rest, RestError

_ATTEMPTS: Final = 3
_AUTHORITIES: Final = "/registry/configmaps/kube-system/extension-apiserver-authentication"
"""Whom API servers behind the aggregator trust. A cluster adds its own authorities to those that
are stored; the stored ones of another cluster have the same names and other keys."""
_ROLES: Final = {"clusterrole": "ClusterRole", "role": "Role"}


class Cluster:
    """A running control plane; `start` makes one and `stop` leaves nothing behind.

    Attributes:
        url: address of the API server.
        port: port of the API server on 127.0.0.1.
        ca_file: authority of the API server's certificate.
        admin_kubeconfig: a kubeconfig that may do everything.
        admin_token: the bearer token in it.
        api: a client with the administrator's rights.
        etcd: a client of its store.
        folder: data, logs and credentials; gone after `stop`.
    """

    def __init__(self, household: Household, api_flags: Sequence[str]) -> None:
        self._household = household
        self._credentials = Credentials(household.folder)
        self._daemons: dict[str, Daemon] = {}
        self.folder = household.folder
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca_file = self._credentials.ca_file
        self.admin_token = self._credentials.admin_token
        self.admin_kubeconfig = self._credentials.token_kubeconfig(
            "admin", self.url, self.admin_token
        )
        self.api = Rest(self.port, self.ca_file, self.admin_token)
        self.etcd = EtcdClient(self.folder / commands.ETCD_SOCKET)
        self.add("etcd", commands.etcd(self.folder))
        server = commands.apiserver(self._credentials, self.port)
        self.add("kube-apiserver", [*server, *api_flags])

    @classmethod
    def start(
        cls,
        *,
        api_flags: Sequence[str] = (),
        stored: Path | None = None,
        replaced: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts etcd and kube-apiserver and waits until they serve, which takes seconds.

        Args:
            api_flags: further flags of kube-apiserver.
            stored: a folder that `save_etcd` made, of what is stored from the beginning.
            replaced: texts in it and what stands in their place, of the same length each.

        Raises:
            StartError: a program is missing or does not start.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            household = Household()
            try:
                cluster = cls(household, api_flags)
                if stored is not None:
                    shutil.copytree(stored, cluster.folder / "etcd")
                cluster._daemons["etcd"].start()
                if stored is not None:
                    cluster._daemons["etcd"].wait_until(cluster.etcd.is_serving)
                    cluster.etcd.delete(_AUTHORITIES)
                    cluster.etcd.replace(replaced or {})
                cluster.start_apiserver()
            except BaseException as failure:
                household.close()
                # Somebody may have taken the free port meanwhile.
                if "address already in use" not in str(failure) or attempt == _ATTEMPTS:
                    raise
            else:
                return cluster
        raise AssertionError("the last attempt returns or raises")

    def stop(self) -> None:
        """Ends every process and removes the folder."""
        self._household.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # The processes

    @property
    def logs(self) -> Mapping[str, Path]:
        """Log file of each program."""
        return {name: daemon.log for name, daemon in self._daemons.items()}

    def pid(self, program: str) -> int:
        """Process id of a program."""
        return self._daemons[program].pid

    def program(self, name: str) -> Daemon:
        """A program by its name."""
        return self._daemons[name]

    def add(self, name: str, command: list[str]) -> Daemon:
        """Adds a program that was not started yet; it ends with the cluster."""
        daemon = self._daemons[name] = Daemon(self._household, name, command)
        return daemon

    def start_apiserver(self) -> None:
        """Starts the API server, again after `stop_apiserver`, and waits until it serves."""
        daemon = self._daemons["kube-apiserver"]
        daemon.start()
        # readyz comes before the first namespaces are made and the first classes are known.
        daemon.wait_until(lambda: self.api.answers("/readyz"))
        daemon.wait_until(lambda: self.api.answers("/api/v1/namespaces/default"))
        daemon.wait_until(lambda: self._is_usable("system-node-critical"))

    def stop_apiserver(self, *, grace_seconds: float = 0) -> None:
        """Kills the API server, or asks it to end where it gets some grace."""
        self._daemons["kube-apiserver"].stop(grace_seconds=grace_seconds)

    def restart_apiserver(self, *, grace_seconds: float = 0) -> None:
        """Stops the API server and starts it on the same port with the same data."""
        self.stop_apiserver(grace_seconds=grace_seconds)
        self.start_apiserver()

    def save_etcd(self, folder: Path) -> None:
        """Copies what etcd has stored to a folder that does not exist; etcd restarts for it."""
        self._daemons["etcd"].stop(grace_seconds=waiting.PATIENCE_SECONDS)
        shutil.copytree(self.folder / "etcd", folder)
        self._start_etcd()

    def restore_etcd(self, folder: Path, *, apiserver: bool = True) -> None:
        """Puts back what `save_etcd` copied, and waits until the API server serves it.

        Args:
            folder: the copy.
            apiserver: stop the API server before and start it after; else it runs on.
        """
        if apiserver:
            self.stop_apiserver()
        self._daemons["etcd"].stop()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(folder, self.folder / "etcd")
        self._start_etcd()
        if apiserver:
            self.start_apiserver()

    def _start_etcd(self) -> None:
        self._daemons["etcd"].start()

    @contextmanager
    def paused(self, program: str) -> Iterator[None]:
        """Stops a program by SIGSTOP inside the block: it keeps its connections, silently."""
        self._daemons[program].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._daemons[program].signal(signal.SIGCONT)

    def start_whole(
        self, stages: Path = commands.STAGES, scheduler_flags: Sequence[str] = ()
    ) -> None:
        """Adds kube-controller-manager, kube-scheduler and kwok: pods are bound and run.

        Pods of a Job succeed after a second, or after the time in the annotation
        `nodes.RUN_FOR` (``"250ms"``); other pods run until they are deleted.

        Args:
            stages: what kwok does with nodes and pods.
            scheduler_flags: further flags of kube-scheduler.
        """
        self.wait_for_roles()
        servers = []
        for name, make in (
            ("kube-controller-manager", commands.controller_manager),
            ("kube-scheduler", commands.scheduler),
        ):
            port = free_port()
            kubeconfig = self.kubeconfig(f"system:{name}")
            more = scheduler_flags if name == "kube-scheduler" else ()
            daemon = self.add(name, [*make(self._credentials, kubeconfig, port), *more])
            daemon.start()
            servers.append((daemon, Rest(port, self.ca_file)))
        self.add("kwok", commands.kwok(self.admin_kubeconfig, free_port(), stages)).start()
        for daemon, server in servers:
            daemon.wait_until(partial(server.answers, "/healthz"))

    # Who may ask

    def kubeconfig(self, user: str, groups: Iterable[str] = ()) -> Path:
        """A kubeconfig of any user; RBAC decides what the user may do."""
        members = tuple(groups)
        name = "-".join([user, *members])
        return self._credentials.certificate_kubeconfig(name, self.url, user, members)

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig of an existing service account, with a token of one hour."""
        answer = self.api.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
        token = answer["status"]["token"]
        return self._credentials.token_kubeconfig(f"{namespace}-{name}", self.url, token)

    def client(self, kubeconfig: Path) -> Rest:
        """A client with the rights of a kubeconfig."""
        return Rest(self.port, self.ca_file, kubeconfig=kubeconfig)

    def wait_for_roles(self) -> None:
        """Waits until the authorizer knows all roles and bindings that are stored now.

        It learns of each of the four kinds by a watch of its own, in order: what is older than a
        marker of the same kind is known with the marker.
        """
        marker = f"marker-{secrets.token_hex(4)}"
        rbac = "rbac.authorization.k8s.io"
        for scope, role in (("", "clusterrole"), ("/namespaces/default", "role")):
            path = f"/apis/{rbac}/v1{scope}/{role}"
            rule = {"apiGroups": [marker], "resources": [role], "verbs": ["get"]}
            reference = {"apiGroup": rbac, "kind": _ROLES[role], "name": marker}
            user = {"apiGroup": rbac, "kind": "User", "name": marker}
            metadata = {"name": marker}
            self.api.post(f"{path}s", {"metadata": metadata, "rules": [rule]})
            binding = {"metadata": metadata, "roleRef": reference, "subjects": [user]}
            self.api.post(f"{path}bindings", binding)
        for role, kind in _ROLES.items():
            waiting.until(partial(self._is_allowed, marker, role), what=f"the newest {kind} known")

    def _is_allowed(self, marker: str, role: str) -> bool:
        asked = {"group": marker, "resource": role, "verb": "get", "namespace": "default"}
        review = {"spec": {"user": marker, "resourceAttributes": asked}}
        answer = self.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    # What is in it

    def create_namespace(
        self, prefix: str = "test", labels: Mapping[str, str] | None = None
    ) -> str:
        """Creates a namespace with a name of its own and gives the name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        self.api.post("/api/v1/namespaces", {"metadata": metadata})
        return name

    def add_priority_class(self, name: str, value: int) -> None:
        """Creates a PriorityClass and waits until pods may name it."""
        body = {"metadata": {"name": name}, "value": value}
        self.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        waiting.until(lambda: self._is_usable(name), what=f"PriorityClass {name} known")

    def _is_usable(self, priority_class: str) -> bool:
        """Whether a pod may name a class: admission looks for it in a copy that lags behind."""
        spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": priority_class}
        pod = {"metadata": {"name": "try"}, "spec": spec}
        try:
            self.api.post("/api/v1/namespaces/default/pods?dryRun=All", pod)
        except RestError as refused:
            unknown = f"no PriorityClass with name {priority_class} was found"
            # Admission has not listed yet what it needs, on a busy machine for longer.
            if not any(text in refused.body for text in (unknown, "not yet ready to handle")):
                raise
            return False
        return True

    def kinds(self, group: str) -> dict[str, set[str]]:
        """Kinds of a group by version, as kubectl discovers them."""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups = self.api.get("/apis", accept=accept)["items"]
        return {
            version["version"]: {one["responseKind"]["kind"] for one in version["resources"]}
            for found in groups
            if found["metadata"]["name"] == group
            for version in found["versions"]
        }

    def add_gpu_node(self, name: str, **facts: Unpack[nodes.Facts]) -> Json:
        """Creates a node as `nodes.make_gpu_node` describes it, which is Ready.

        An API server alone taints it; this takes the taint off, as nobody else does.

        Raises:
            TimeoutError: a whole cluster did not make it Ready.
        """
        path = f"/api/v1/nodes/{name}"
        self.api.post("/api/v1/nodes", nodes.make_gpu_node(name, **facts))
        if "kwok" not in self._daemons:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.api.patch(f"{path}/status", {"status": ready})
            taints = [dict(taint) for taint in facts.get("taints", ())] or None
            return self.api.patch(path, {"spec": {"taints": taints}})
        return waiting.until(
            lambda: _if_ready(self.api.get(path)), what=f"node {name} Ready and free of taints"
        )


def _if_ready(node: Json) -> Json | None:
    """The node once it is Ready and the controller-manager has taken its own taint off."""
    conditions = node["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    keys = {taint["key"] for taint in node["spec"].get("taints", [])}
    return node if ready and "node.kubernetes.io/not-ready" not in keys else None
