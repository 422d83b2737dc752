"""Where lines of the log go, and what they look like."""

import json
from collections.abc import Iterator

import pytest
import structlog

from admission.base import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_lines_are_json_on_stderr_also_of_loggers_older_than_the_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    early = logs.get("early")
    logs.configure()
    early.info("begun", count=1)
    logs.get("late").info("ended")
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = map(json.loads, captured.err.splitlines())
    assert (first["component"], first["event"], first["count"]) == ("early", "begun", 1)
    assert (second["component"], second["level"]) == ("late", "info")


def test_an_older_logger_obeys_the_level(capsys: pytest.CaptureFixture[str]) -> None:
    early = logs.get("early")
    logs.configure("WARNING")
    early.info("begun")
    assert capsys.readouterr() == ("", "")


def test_for_people_a_line_is_text_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(human=True)
    logs.get("tool").warning("fields without effect", fields=["a"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fields without effect" in captured.err
    assert not captured.err.startswith("{")
