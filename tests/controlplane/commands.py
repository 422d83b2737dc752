"""Command lines of the control plane's programs."""

from pathlib import Path

from tests.controlplane import build
from tests.controlplane.credentials import FRONT_PROXY, Credentials
from tests.controlplane.processes import StartError

STAGES = Path(__file__).parent / "stages.yaml"


ETCD_SOCKET = "localhost:2379"
"""A socket file of this name in the folder in which a cluster's programs run."""

_ETCD = f"unix://{ETCD_SOCKET}"


def etcd(folder: Path) -> list[str]:
    """A store without durability: a test's data need not survive the machine."""
    return [
        _binary("etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        # One member has no peers: any port will do, and it is not the advertised one.
        "--listen-peer-urls=http://127.0.0.1:0",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(credentials: Credentials, port: int) -> list[str]:
    """An API server with RBAC, aggregation, client certificates, and tokens of two kinds."""
    return [
        _binary("kube-apiserver"),
        f"--etcd-servers={_ETCD}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # Without these two it looks for a network interface other than loopback.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={credentials.folder}",
        f"--tls-cert-file={credentials.server_certificate}",
        f"--tls-private-key-file={credentials.server_key}",
        f"--client-ca-file={credentials.ca_file}",
        f"--token-auth-file={credentials.token_file}",
        # Requests for aggregated APIs are passed on, as most clusters are set up to do.
        f"--requestheader-client-ca-file={credentials.proxy_ca_file}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={credentials.proxy_certificate}",
        f"--proxy-client-key-file={credentials.proxy_key}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={credentials.account_public}",
        f"--service-account-signing-key-file={credentials.account_key}",
        "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged",
    ]


def controller_manager(credentials: Credentials, kubeconfig: Path, port: int) -> list[str]:
    """All controllers but one, each under its own service account as on a usual cluster."""
    return [
        _binary("kube-controller-manager"),
        *_component(credentials, kubeconfig, port),
        "--use-service-account-credentials",
        # It checks the types in our policies, which no test asks for: a third of the whole start.
        "--controllers=*,-validatingadmissionpolicy-status-controller",
        f"--service-account-private-key-file={credentials.account_key}",
        f"--root-ca-file={credentials.ca_file}",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(credentials: Credentials, kubeconfig: Path, port: int) -> list[str]:
    """The scheduler with its default profile."""
    return [_binary("kube-scheduler"), *_component(credentials, kubeconfig, port)]


def kwok(kubeconfig: Path, port: int, stages: Path) -> list[str]:
    """Plays the kubelet of every node, as the stages say."""
    return [
        _binary("kwok"),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes",
        f"--server-address=127.0.0.1:{port}",
        f"--config={stages}",
        # Without leases the controller-manager takes each node for lost after 50 seconds.
        "--node-lease-duration-seconds=40",
    ]


def _component(credentials: Credentials, kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={credentials.server_certificate}",
        f"--tls-private-key-file={credentials.server_key}",
    ]


def _binary(name: str) -> str:
    if build.missing([name]):
        raise StartError(f"{build.folder()} holds no {name}; run 'make controlplane'")
    return str(build.folder() / name)
