"""Where lines of the log go, and what they look like."""

import json
import logging
import sys
import threading
import warnings
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


@pytest.fixture
def _of_libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a process that serves changes of the interpreter, until the end of a test."""
    for module, name in ((sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(logging.root, "handlers", [])
    level = logging.root.level
    logs.configure()
    logs.take_in_others()
    yield
    logging.captureWarnings(capture=False)
    logging.root.setLevel(level)


@pytest.mark.usefixtures("_of_libraries")
def test_what_libraries_and_threads_say_is_a_line_like_all_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger("urllib3.connectionpool").warning("Retrying %s", "it")
    logging.getLogger("urllib3").info("about itself")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    def fails() -> None:
        raise ValueError("broken\nin two lines")

    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["component"] for one in lines] == ["urllib3", "py", "process"]
    assert lines[0]["event"] == "Retrying it"
    assert "old" in lines[1]["event"]
    assert lines[2]["event"] == "uncaught exception"
    assert "ValueError: broken" in lines[2]["exception"]


def test_for_people_a_line_is_text_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(human=True)
    logs.get("tool").warning("fields without effect", fields=["a"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fields without effect" in captured.err
    assert not captured.err.startswith("{")
