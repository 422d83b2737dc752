"""A Prometheus that scrapes every second and evaluates rules as often."""

import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.controlplane import waiting
from tests.controlplane.processes import free_port


class Asked:
    """What a running Prometheus answers."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self._url}/-/ready", timeout=waiting.PATIENCE_SECONDS
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Series and values of an expression, now."""
        text = urllib.parse.urlencode({"query": expr})
        url = f"{self._url}/api/v1/query?{text}"
        with urllib.request.urlopen(url, timeout=waiting.PATIENCE_SECONDS) as answer:
            found = msgspec.json.decode(answer.read())
        series: list[dict[str, Any]] = found["data"]["result"]
        return series


@contextmanager
def running(
    program: Path, folder: Path, scrapes: list[dict[str, Any]], rules: dict[str, Any]
) -> Iterator[Asked]:
    """Run Prometheus until the end of the block.

    Args:
        program: its binary.
        folder: for its data and its log.
        scrapes: ``scrape_configs``.
        rules: rule groups; all are evaluated every second.
    """
    groups = [{**group, "interval": "1s"} for group in rules["groups"]]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    found = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": scrapes,
    }
    configuration, log, port = folder / "prometheus.yaml", folder / "prometheus.log", free_port()
    configuration.write_text(yaml.safe_dump(found))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                str(program), f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=out, stderr=out, cwd=folder,
        )  # fmt: skip
        asked = Asked(port)
        try:
            waiting.until(asked.is_ready, what=f"Prometheus ready, see {log}")
            yield asked
        finally:
            process.terminate()
            process.wait(waiting.PATIENCE_SECONDS)
