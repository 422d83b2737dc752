"""A kubelet whose containers are processes of this machine.

It does for pods what a kubelet does as far as a program can tell: arguments, volumes of ConfigMaps
and Secrets that follow changes, the account's token, the three probes, restarts, and at the end
preStop, SIGTERM and the grace period. Nothing is isolated, so where a pod has paths and ports of
its own, those in arguments and ConfigMaps are replaced by free ones. A process finds the packages
of the image only, and the account of its pod (`tests/controlplane/container`).
"""

import http.client
import os
import re
import signal
import ssl
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from admission.base.clock import SystemClock, to_wire
from tests.controlplane.cluster import Cluster
from tests.controlplane.network import Network
from tests.controlplane.processes import Daemon, free_port
from tests.controlplane.rest import Json, RestError

_LOOK_SECONDS: Final = 0.1
_SYNC_SECONDS: Final = 1.0
"""Between two looks at Secrets and ConfigMaps; a real kubelet takes up to a minute or two."""
_FIRST_RESTART: Final = 1
_BACKOFF_SECONDS: Final = 10.0
_ANY_HOST: Final = "0.0.0.0"
_ROOT: Final = Path(__file__).parents[2]
_CONTAINER: Final = Path(__file__).parent / "container"
_ACCOUNT: Final = "serviceaccount"
_READY: Final = ("Ready", "ContainersReady")
_BEFORE: Final = ("PodReadyToStartContainers", "Initialized", "PodScheduled")


@cache
def _lacking() -> tuple[str, ...]:
    """Return the modules of packages that are installed here and not in the image."""
    here, image = (
        set(re.findall(r"^([a-z0-9._-]+)==", (_ROOT / lock).read_text(), re.MULTILINE))
        for lock in ("requirements.lock", "deploy/requirements.lock")
    )
    return tuple(
        module
        for module, homes in sorted(metadata.packages_distributions().items())
        if {re.sub(r"[-_.]+", "-", one).lower() for one in homes} <= here - image
    )


class Kubelet:
    """Runs the pods of one namespace that are bound to a node, wherever that is.

    Attributes:
        problems: what went wrong in its own threads.
    """

    def __init__(
        self, cluster: Cluster, network: Network, namespace: str, program: Sequence[str]
    ) -> None:
        """Nothing runs yet.

        Args:
            cluster: whose pods.
            network: carries what the pods say to the API server.
            namespace: of the pods; nobody else may run them.
            program: what the entry point of every image is.
        """
        self.cluster = cluster
        self.network = network
        self.namespace = namespace
        self.program = tuple(program)
        self.problems: list[BaseException] = []
        self._pods: dict[str, PodProcess] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="kubelet")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for pod in self.pods():
            pod.abandon()

    def pods(self, component: str = "") -> list["PodProcess"]:
        """Return the pods that have not ended, of one component or of all, the oldest first."""
        found = list(self._pods.values())
        return [pod for pod in found if component in {"", pod.component} and not pod.has_ended]

    def endpoints(self, component: str, port: str) -> list[int]:
        """Return the ports that a Service leads to: of pods that are ready and are not ending."""
        return [
            pod.ports[port]
            for pod in self.pods(component)
            if pod.is_ready and not pod.is_ending and port in pod.ports
        ]

    def path(self, plural: str, name: str = "") -> str:
        """Return the path of objects of the core group in the namespace."""
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}".rstrip("/")

    def token(self, account: str) -> str:
        """Return a token of a service account, for one hour."""
        asks = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.cluster.api.post(f"{self.path('serviceaccounts', account)}/token", asks)
        return str(answer["status"]["token"])

    def _follow(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self._look()
            except (OSError, RestError):  # the API server is away, or still starting
                continue

    def _look(self) -> None:
        found = {
            one["metadata"]["uid"]: one for one in self.cluster.api.get(self.path("pods"))["items"]
        }
        for uid, document in found.items():
            is_ending = "deletionTimestamp" in document["metadata"]
            if uid in self._pods:
                self._pods[uid].see(document)
                if is_ending:
                    self._pods[uid].end()
            elif document["spec"].get("nodeName") and not is_ending:
                self._pods[uid] = PodProcess(self, document)
        for uid in set(self._pods) - set(found):
            self._pods[uid].end()


class PodProcess:
    """A pod of one container.

    Attributes:
        name: of the pod.
        component: value of its label ``app.kubernetes.io/component``.
        image: that its container should run.
        ports: on 127.0.0.1, by the name of the port of the container.
        api_port: through which it reaches the API server.
        is_ready: whether its container is.
        is_ending: whether it is being deleted.
        has_ended: whether it is gone.
        restarts: how often its container was started again.
    """

    def __init__(self, kubelet: Kubelet, document: Json) -> None:
        cluster, metadata = kubelet.cluster, document["metadata"]
        self.name: str = metadata["name"]
        self.component: str = metadata["labels"].get("app.kubernetes.io/component", "")
        self._kubelet = kubelet
        self._spec: Json = document["spec"]
        (self._container,) = self._spec["containers"]
        self.image: str = self._container["image"]
        listens = self._container.get("ports", ())
        self.ports = {one["name"]: free_port() for one in listens}
        self._texts = {_ANY_HOST: "127.0.0.1"} | {
            str(one["containerPort"]): str(self.ports[one["name"]]) for one in listens
        }
        self.api_port = kubelet.network.route(lambda: [cluster.port])
        self.is_ready = self.is_ending = self.has_ended = False
        self.restarts = 0
        self._clock = SystemClock()
        self._started_at = to_wire(self._clock.now())
        self._folder: Path = cluster.folder / "pods" / self.name
        self._folders = {
            one["name"]: self._folder / one["name"] for one in self._spec.get("volumes", ())
        }
        for mount in self._container.get("volumeMounts", ()):
            self._texts[mount["mountPath"]] = str(self._folders[mount["name"]])
        self._held: dict[str, Mapping[str, bytes]] = {}
        self._versions = count()
        self._daemon: Daemon | None = None
        self._has_started = threading.Event()
        self._deleted = threading.Event()
        self._over = threading.Event()
        self._unhealthy = threading.Event()
        self._told: Any = None
        self._told_at = 0.0
        self._seen = ""
        self._threads = [
            threading.Thread(target=self._guarded, args=(do,), name=self.name)
            for do in (self._live, self._starts, self._readies, self._lives)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Id of the container's first process, and of the group of all of them."""
        assert self._daemon is not None
        return self._daemon.pid

    @property
    def log(self) -> str:
        """The end of what the container has said."""
        return "" if self._daemon is None else self._daemon.tail()

    @property
    def own_ports(self) -> tuple[int, ...]:
        """All ports of the pod, and the one through which it reaches the API server."""
        return (*self.ports.values(), self.api_port)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the container."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside the block the container does not run: no process of it gets any time."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Inside the block nothing reaches the pod, and it reaches nothing."""
        with self._kubelet.network.cut(*self.own_ports):
            yield

    def see(self, document: Json) -> None:
        """Take notice of what is stored: others say that a pod is not ready if its node is not."""
        self._seen = next(
            (
                one["status"]
                for one in document["status"].get("conditions", ())
                if one["type"] == "Ready"
            ),
            "",
        )

    def end(self) -> None:
        """End the pod as its specification says; return at once."""
        self.is_ending = True
        self._deleted.set()

    def abandon(self) -> None:
        """Kill the container at once, and tell nobody."""
        self._over.set()
        self._deleted.set()
        if self._daemon is not None:
            self.signal(signal.SIGKILL)
        for thread in self._threads:
            thread.join()

    # ---------------------------------------------------------------------------- the container

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except BaseException as problem:
            if not self._over.is_set():
                self._kubelet.problems.append(problem)
            raise

    def _live(self) -> None:
        self._await_volumes()
        if not self._over.is_set():
            self._start()
        synced = self._clock.monotonic()
        while not self._deleted.wait(_LOOK_SECONDS / 2):
            if self._clock.monotonic() >= synced + _SYNC_SECONDS:
                self._sync()
                synced = self._clock.monotonic()
            if self._unhealthy.is_set():
                self._terminate()
            if self._daemon is not None and not self._daemon.is_running:
                self._restart()
            self._report()
        if not self._over.is_set():
            self._terminate()
            self._over.set()
            self._remove()
        self.has_ended = True

    def _await_volumes(self) -> None:
        while not self._sync() and not self._deleted.wait(_SYNC_SECONDS / 2):
            pass

    def _start(self) -> None:
        if self._daemon is None:
            self._mount_account()
            arguments = [self._translated(text) for text in self._container.get("args", ())]
            command = [*self._kubelet.program, *arguments]
            self._daemon = self._kubelet.cluster.add(self.name, command)
        environment = {one["name"]: one["value"] for one in self._container.get("env", ())}
        self._daemon.start(
            {
                **environment,
                "HOSTNAME": self.name,
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(self.api_port),
                "PYTHONPATH": str(_CONTAINER),
                "CONTAINER_ACCOUNT": str(self._folder / _ACCOUNT),
                "CONTAINER_LACKS": ",".join(_lacking()),
            }
        )

    def _restart(self) -> None:
        self._fall()
        self.signal(signal.SIGKILL)  # whatever the first process has left
        self._report()
        self.restarts += 1
        if self.restarts == _FIRST_RESTART or not self._deleted.wait(_BACKOFF_SECONDS):
            self._start()

    def _fall(self) -> None:
        self.is_ready = False
        self._has_started.clear()
        self._unhealthy.clear()

    def _terminate(self) -> None:
        """PreStop, SIGTERM, and SIGKILL when the grace period is over."""
        if self._daemon is None:
            return
        grace = float(self._spec.get("terminationGracePeriodSeconds", 30))
        until = self._clock.monotonic() + grace
        hook = self._container.get("lifecycle", {}).get("preStop", {})
        assert set(hook) <= {"sleep"}, hook
        self._wait_for_end(min(hook.get("sleep", {}).get("seconds", 0), grace))
        self._daemon.signal(signal.SIGTERM)
        self._wait_for_end(until - self._clock.monotonic())
        self.signal(signal.SIGKILL)
        self._daemon.stop()

    def _wait_for_end(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until and not self._over.wait(_LOOK_SECONDS / 2):
            if self._daemon is None or not self._daemon.is_running:
                return

    def _remove(self) -> None:
        path = f"{self._kubelet.path('pods')}/{self.name}"
        with suppress(RestError, OSError):
            self._kubelet.cluster.api.delete(path, {"gracePeriodSeconds": 0})

    # ------------------------------------------------------------------------------ its volumes

    def _mount_account(self) -> None:
        folder = self._folder / _ACCOUNT
        folder.mkdir(parents=True, exist_ok=True)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(self._kubelet.token(self._spec["serviceAccountName"]))
        (folder / "ca.crt").write_bytes(Path(self._kubelet.cluster.ca_file).read_bytes())
        (folder / "namespace").write_text(self._kubelet.namespace)

    def _translated(self, text: str) -> str:
        """Return a text with what paths and ports are on this machine."""
        known = "|".join(map(re.escape, sorted(self._texts, key=len, reverse=True)))
        return re.sub(rf"(?<![\w/])({known})(?!\w)", lambda found: self._texts[found[1]], text)

    def _sync(self) -> bool:
        """Write what volumes hold now; return whether all are there."""
        found = [self._fill(volume) for volume in self._spec.get("volumes", ())]
        return all(found)

    def _fill(self, volume: Json) -> bool:
        name = volume["name"]
        folder = self._folders[name]
        folder.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            return True
        try:
            content, source = self._content(volume)
        except RestError as refused:
            source = volume["secret"] if "secret" in volume else volume["configMap"]
            is_missing = refused.status == http.HTTPStatus.NOT_FOUND
            return is_missing and bool(source.get("optional"))
        except OSError:
            return name in self._held
        items = source.get("items") or [{"key": key, "path": key} for key in content]
        wanted = {one["path"]: content[one["key"]] for one in items if one["key"] in content}
        if len(wanted) < len(items) and not source.get("optional"):
            return False  # the kubelet does not mount a Secret without a key that is named
        if self._held.get(name) != wanted:
            self._write(folder, wanted)
            self._held[name] = wanted
        return True

    def _content(self, volume: Json) -> tuple[dict[str, bytes], Json]:
        api, path = self._kubelet.cluster.api, self._kubelet.path
        if "secret" in volume:
            source = volume["secret"]
            data = api.get(path("secrets", source["secretName"])).get("data", {})
            return {key: b64decode(value) for key, value in data.items()}, source
        source = volume["configMap"]
        data = api.get(path("configmaps", source["name"])).get("data", {})
        return {key: self._translated(text).encode() for key, text in data.items()}, source

    def _write(self, folder: Path, wanted: Mapping[str, bytes]) -> None:
        """Replace all files of a volume at once, as a kubelet does, by a link that is renamed."""
        version = folder / f"..{next(self._versions)}"
        version.mkdir()
        for name, content in wanted.items():
            (version / name).write_bytes(content)
        fresh = folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(folder / "..data")
        for name in wanted:
            link = folder / name
            if not link.is_symlink():
                link.symlink_to(Path("..data") / name)

    # ------------------------------------------------------------------------------- its probes

    def _starts(self) -> None:
        probe = self._container["startupProbe"]
        failures = 0
        while not self._over.wait(probe["periodSeconds"]):
            if self._has_started.is_set() or not self._runs():
                failures = 0
            elif self._answers(probe):
                self._has_started.set()
            else:
                failures += 1
                if failures >= probe["failureThreshold"]:
                    self._unhealthy.set()

    def _readies(self) -> None:
        probe = self._container["readinessProbe"]
        failures = 0
        while not self._over.is_set():
            if not self._has_started.wait(_LOOK_SECONDS):
                failures = 0
                continue
            began = self._clock.monotonic()
            if self._answers(probe):
                failures, self.is_ready = 0, self._has_started.is_set()
            else:
                failures += 1
                if failures >= probe["failureThreshold"]:
                    self.is_ready = False
            self._over.wait(max(0.0, began + probe["periodSeconds"] - self._clock.monotonic()))

    def _lives(self) -> None:
        probe = self._container["livenessProbe"]
        failures = 0
        while not self._over.wait(probe["periodSeconds"]):
            is_well = not self._has_started.is_set() or self._answers(probe)
            failures = 0 if is_well else failures + 1
            if failures >= probe["failureThreshold"]:
                self._unhealthy.set()
                failures = 0

    def _runs(self) -> bool:
        return self._daemon is not None and self._daemon.is_running

    def _answers(self, probe: Json) -> bool:
        """Return whether a page is served, within the time of the probe, with a good status."""
        page, seconds = probe["httpGet"], probe["timeoutSeconds"]
        port = self.ports[page["port"]]
        if self._kubelet.network.is_cut(port):
            self._over.wait(seconds)
            return False
        connection: http.client.HTTPConnection
        if page["scheme"] == "HTTPS":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(
                "127.0.0.1", port, timeout=seconds, context=context
            )
        else:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
        try:
            connection.request("GET", page["path"])
            return http.HTTPStatus.OK <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # ------------------------------------------------------------------------------- its status

    def _report(self) -> None:
        """Write the status where it is another."""
        ready = str(self.is_ready)
        state = (ready, self.restarts, self._runs())
        is_due = self._clock.monotonic() >= self._told_at + _SYNC_SECONDS
        if state == self._told and (self._seen == ready or not is_due):
            return
        now = to_wire(self._clock.now())
        conditions = [
            {"type": name, "status": status, "lastTransitionTime": now}
            for names, status in ((_BEFORE, "True"), (_READY, ready))
            for name in names
        ]
        status = {
            "phase": "Running",
            "startTime": self._started_at,
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": self._container["name"],
                    "image": self.image,
                    "imageID": self.image,
                    "ready": self.is_ready,
                    "started": self._has_started.is_set(),
                    "restartCount": self.restarts,
                    "state": {"running": {"startedAt": now}},
                }
            ],
        }
        path = f"{self._kubelet.path('pods')}/{self.name}/status"
        try:
            self._kubelet.cluster.api.patch(path, {"status": status})
        except (OSError, RestError):  # gone, or the API server is away: told again later
            return
        self._told, self._told_at = state, self._clock.monotonic()
