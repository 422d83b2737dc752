"""What is held back, as a terminal shows it."""

import pytest
from click.testing import CliRunner

from admission.admin import stops
from admission.admin.stops import HeldBack
from admission.cli.main import main
from admission.run import connection


class _Nobody:
    def close(self) -> None:
        """Nothing is open."""


def test_names_and_messages_are_shown_as_users_wrote_them(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "[/] :bomb: node [bold]n[/bold] is gone\x1b[2J\nno stop(s) held back"
    one = HeldBack(kind="Pod", namespace="ml", name="[red]x", why=why)
    monkeypatch.setattr(stops, "held_back", lambda _: [one])
    monkeypatch.setattr(connection.ApiServerTarget, "connect", lambda *_, **__: _Nobody())
    monkeypatch.setattr(connection.ApiServerTarget, "place", lambda _: "here")
    result = CliRunner().invoke(main, ["stops"])
    assert result.exit_code == 0, result.output
    shown = why.replace("\x1b", "\N{REPLACEMENT CHARACTER}").replace("\n", " ")
    first, last = result.stdout.splitlines()
    assert first == f"Pod/[red]x -n ml: {shown}"
    assert last.startswith("1 stop held back")
