"""``gpu-admission config`` and the option ``--config``."""

import json
from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml

from admission.base import logs
from admission.cli.main import main
from admission.config.addresses import Address
from admission.config.derived import Settings
from admission.run import processes, webhook_process
from tests.config import files

FILE = (
    files.kueue(
        webhook={"host": "127.0.0.1", "port": 1, "certDir": "/from/the/file"},
        metrics={"bindAddress": "127.0.0.1:2"},
        leaderElection={"leaderElect": False, "resourceName": "kueue"},
    ),
    files.gpu(controller={"writers": 3}),
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump_all(FILE))
    return str(file)


def run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, arguments)


def test_a_valid_file_is_called_so_and_its_unused_fields_are_explained(path: str) -> None:
    done = run("config", "--config", path)
    assert done.exit_code == 0
    assert done.stdout.startswith(
        f"{path}: valid\n  without effect: leaderElection.resourceName ("
    )


def test_what_is_printed_is_a_file_with_the_same_meaning(path: str, tmp_path: Path) -> None:
    shown = run("config", "--print", "--config", path).stdout
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    kept = [line for line in shown.splitlines(keepends=True) if not line.startswith("#")]
    assert run("config", "--print", "--config", str(again)).stdout == "".join(kept)
    assert files.settings(*yaml.safe_load_all(shown)) == files.settings(*FILE)


def test_machines_get_json(path: str) -> None:
    shown = json.loads(run("config", "--print", "--config", path, "-o", "json").stdout)
    assert shown["configuration"]["leaderElection"]["leaderElect"] is False
    assert shown["gpuConfiguration"]["controller"]["writers"] == 3
    assert [one["path"] for one in shown["unused"]] == ["leaderElection.resourceName"]


@pytest.mark.parametrize(
    "command",
    [
        ["config"],
        ["install"],
        ["uninstall"],
        ["manifests"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("content", ["kind: Pod", None], ids=["wrong", "missing"])
def test_a_file_that_cannot_be_used_ends_every_command_with_advice(
    tmp_path: Path, command: list[str], content: str | None
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_text(content)
    done = run(*command, "--config", str(file))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {file}: ")
    assert "hint: check the file with: gpu-admission config" in done.stderr


@pytest.mark.parametrize("command", ["webhook", "controller", "run"])
def test_a_process_that_cannot_start_says_so_in_a_line_of_its_log(
    tmp_path: Path, command: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("kind: Pod")
    done = run(command, "--config", str(file), "--cert-dir", "certs")
    assert done.exit_code == 1
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["level"], line["event"]) == ("error", "cannot start")
    assert line["error"].startswith(f"{file}: ")
    assert "gpu-admission config" in line["next"]


@pytest.mark.parametrize(
    ("said", "option", "expected"),
    [("", "", "info"), ("warning", "", "warning"), ("warning", "debug", "debug")],
)
def test_the_level_of_the_log_is_that_of_the_option_else_of_the_file(
    served: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    said: str, option: str, expected: str,
) -> None:  # fmt: skip
    levels = list[str]()
    monkeypatch.setattr(logs, "configure", lambda level="INFO", **_: levels.append(level))
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(files.gpu(**({"logLevel": said} if said else {}))))
    options = ["--log-level", option] if option else []
    assert run("controller", "--config", str(file), *options).exit_code == 0
    assert levels[-1] == expected
    assert served


# ---------------------------------------------------------------------- who wins: argument, file


dashboards: list[Address | None] = []


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the processes are started with, without starting any."""
    calls: list[Any] = []
    dashboards.clear()

    def controller(
        _target: object,
        address: Address | None,
        settings: Settings,
        *,
        leader_election: bool,
        visibility: Address | None,
        certificates: Path | None,
        dashboard: Address | None,
    ) -> None:
        dashboards.append(dashboard)
        calls.append((address, settings, leader_election, visibility, certificates))

    def webhook(
        _target: object, address: Address, directory: Path, settings: Settings, _level: str
    ) -> None:
        calls.append((address, directory, settings))

    monkeypatch.setattr(processes, "run_controller", controller)
    monkeypatch.setattr(webhook_process, "serve", webhook)
    return calls


def test_the_file_says_how_the_controller_runs(served: list[Any], path: str) -> None:
    assert run("controller", "--config", path).exit_code == 0
    directory = Path("/from/the/file")
    assert served == [(Address("127.0.0.1", 2), files.settings(*FILE), False, None, directory)]


def test_arguments_of_the_controller_win_over_the_file(served: list[Any], path: str) -> None:
    arguments = ["--metrics-bind", "127.0.0.1:7", "--leader-election"]
    assert run("controller", "--config", path, *arguments).exit_code == 0
    directory = Path("/from/the/file")
    assert served == [(Address("127.0.0.1", 7), files.settings(*FILE), True, None, directory)]


def test_the_controller_serves_pending_workloads_where_it_is_told(
    served: list[Any], tmp_path: Path
) -> None:
    document = files.kueue(visibilityServer={"bindPort": 4}, webhook={"certDir": "/certs"})
    file = tmp_path / "visible.yaml"
    file.write_text(yaml.safe_dump(document))
    assert run("controller", "--config", str(file)).exit_code == 0
    arguments = ["--visibility-bind", "127.0.0.1:5", "--cert-dir", "here"]
    assert run("controller", "--config", str(file), *arguments).exit_code == 0
    assert [one[-2:] for one in served] == [
        (Address("0.0.0.0", 4), Path("/certs")),
        (Address("127.0.0.1", 5), Path("here")),
    ]
    assert run("controller", "--visibility-bind", ":5").exit_code == 2


@pytest.mark.usefixtures("served")
def test_the_controller_serves_the_dashboard_where_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "board.yaml"
    file.write_text(yaml.safe_dump(files.gpu(dashboardBindAddress="127.0.0.1:4")))
    assert run("controller", "--config", str(file)).exit_code == 0
    bind = ["--dashboard-bind", "127.0.0.1:5"]
    assert run("controller", "--config", str(file), *bind).exit_code == 0
    assert dashboards == [Address("127.0.0.1", 4), Address("127.0.0.1", 5)]
    assert run("controller", "--dashboard-bind", ":5").exit_code == 2  # without certificate


def test_without_either_the_controller_has_its_defaults(served: list[Any]) -> None:
    assert run("controller").exit_code == 0
    assert served == [(Address("127.0.0.1", 8080), Settings(), True, None, None)]


def test_the_file_says_how_the_webhook_runs(served: list[Any], path: str) -> None:
    assert run("webhook", "--config", path).exit_code == 0
    assert served == [(Address("127.0.0.1", 1), Path("/from/the/file"), files.settings(*FILE))]


def test_arguments_of_the_webhook_win_over_the_file(served: list[Any], path: str) -> None:
    arguments = ["--bind", ":9", "--cert-dir", "here"]
    assert run("webhook", "--config", path, *arguments).exit_code == 0
    assert served == [(Address("0.0.0.0", 9), Path("here"), files.settings(*FILE))]


def test_a_webhook_without_certificates_is_a_wrong_use(served: list[Any]) -> None:
    done = run("webhook")
    assert done.exit_code == 2
    assert "--cert-dir" in done.stderr
    assert served == []
