"""Keys, certificates and kubeconfigs of a test cluster.

One authority signs what the servers show and what users show: a client certificate's common name
is the user, its organizations are the groups.
"""

import base64
import secrets
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from admission.base.clock import SystemClock
from certs import authority

ADMIN_GROUP: Final = "system:masters"
FRONT_PROXY: Final = "front-proxy-client"
_LIFETIME: Final = timedelta(days=7)


class Credentials:
    """Everything secret of one cluster, as files in its folder.

    Attributes:
        folder: where the files are.
        ca_file: certificate of the authority.
        server_certificate, server_key: what servers on 127.0.0.1 show.
        account_key, account_public: sign and check service account tokens.
        proxy_ca_file: certificate of a second authority, of the API server as a front proxy.
        proxy_certificate, proxy_key: what it shows to servers to which it passes requests on.
        token_file: the API server's static tokens.
        admin_token: token of the user ``admin``, who may do everything.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._now = SystemClock().now()
        self._authority = authority.issue_authority(self._now)
        serving = authority.issue_serving(self._authority, ["127.0.0.1", "localhost"], self._now)
        account = ec.generate_private_key(ec.SECP256R1())
        self.admin_token = secrets.token_hex(16)
        self.ca_file = self._write("ca.crt", self._authority.certificate_pem())
        self.server_certificate = self._write("server.crt", serving.certificate_pem())
        self.server_key = self._write("server.key", serving.key_pem())
        self.account_key = self._write("accounts.key", _private_pem(account))
        self.account_public = self._write(
            "accounts.pub",
            account.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        )
        front = authority.issue_authority(self._now)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._client_certificate(front, key, FRONT_PROXY, ())
        self.proxy_ca_file = self._write("proxy-ca.crt", front.certificate_pem())
        self.proxy_certificate = self._write("proxy.crt", certificate)
        self.proxy_key = self._write("proxy.key", _private_pem(key))
        line = f'{self.admin_token},admin,admin,"{ADMIN_GROUP}"\n'
        self.token_file = self._write("tokens.csv", line.encode())

    def token_kubeconfig(self, name: str, server: str, token: str) -> Path:
        """A kubeconfig that authenticates by a bearer token."""
        return self._kubeconfig(name, server, {"token": token})

    def certificate_kubeconfig(
        self, name: str, server: str, user: str, groups: Iterable[str]
    ) -> Path:
        """A kubeconfig that authenticates as any user with any groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._client_certificate(self._authority, key, user, groups)
        return self._kubeconfig(
            name,
            server,
            {
                "client-certificate-data": _base64(certificate),
                "client-key-data": _base64(_private_pem(key)),
            },
        )

    def _client_certificate(
        self,
        issuer: authority.Pair,
        key: ec.EllipticCurvePrivateKey,
        user: str,
        groups: Iterable[str],
    ) -> bytes:
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - authority.BACKDATE)
            .not_valid_after(self._now + _LIFETIME)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
            .sign(issuer.key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _kubeconfig(self, name: str, server: str, user: dict[str, str]) -> Path:
        ca = _base64(self.ca_file.read_bytes())
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [
                {"name": "test", "cluster": {"server": server, "certificate-authority-data": ca}}
            ],
            "users": [{"name": name, "user": user}],
        }
        file = f"{name.replace(':', '-').replace('/', '-')}.kubeconfig"
        return self._write(file, yaml.safe_dump(content, sort_keys=False).encode())

    def _write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
