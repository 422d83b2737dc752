"""Commands of ``kubectl gpu`` against a store behind HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from click.testing import CliRunner, Result

from admission.base.clock import Clock, SystemClock
from admission.cli.kubectl import main
from admission.kube.api import Api
from admission.kube.resources import Resource
from admission.sandbox.rest import StoreServer
from admission.sandbox.store import Store

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- {{name: here, context: {{cluster: store, user: me, namespace: team}}}}
- {{name: there, context: {{cluster: store, user: me}}}}
clusters: [{{name: store, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {{token: none}}}}]
"""


@dataclass(frozen=True)
class Served:
    """A store that commands ask.

    Attributes:
        clock: what the commands read; with the clock of the store, ages are the same each time.
        command: what every question begins with.
    """

    store: Store
    kubeconfig: Path
    clock: Clock = field(default_factory=SystemClock, kw_only=True)
    command: ClassVar[tuple[str, ...]] = ()

    def ask(self, *arguments: str, columns: int = 0, color: bool = False) -> Result:
        line = [*self.command, *arguments]
        env = {"COLUMNS": str(columns) if columns else "", "KUBECONFIG": str(self.kubeconfig)}
        return CliRunner().invoke(main, line, env=env, color=color, obj=self.clock)

    def lines(self, *arguments: str, columns: int = 0) -> list[str]:
        result = self.ask(*arguments, columns=columns)
        assert result.exit_code == 0, (result.stderr, result.exception)
        return result.stdout.splitlines()

    def told(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads("\n".join(self.lines(*arguments, "-o", "json")))
        return found


@contextmanager
def served(store: Api, kinds: tuple[Resource, ...], folder: Path) -> Iterator[Path]:
    """Serve a store inside the block; yields a kubeconfig."""
    server = StoreServer(store, kinds)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=server.url))
    try:
        yield kubeconfig
    finally:
        server.stop()
