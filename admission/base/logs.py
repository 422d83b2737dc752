"""Structured logs: one JSON object a line on stderr, constant message, fields in snake case."""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

import msgspec
import structlog
from typing_extensions import override

Logger = structlog.typing.FilteringBoundLogger
Sink = Callable[[Mapping[str, Any]], None]

_SINKS: Final[dict[str, tuple[Sink, ...]]] = {}


def configure(level: str = "INFO", *, human: bool = False) -> None:
    """Set up logging for the process.

    Args:
        level: least level shown: DEBUG, INFO, WARNING, ERROR.
        human: aligned text instead of JSON, for a terminal.

    A process that serves sets this up once: loggers keep what they find at their first line.
    """
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if human
        else structlog.processors.JSONRenderer(serializer=_dumps)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _passed_on,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
        cache_logger_on_first_use=not human,
    )


class _Others(logging.Handler):
    """Writes what libraries log as one of our lines."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        log = get(record.name.partition(".")[0])
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)


def take_in_others() -> None:
    """Have log lines, warnings and uncaught exceptions of the whole process written as ours.

    For a process that serves. Libraries are heard from level warning on: what they say below it
    is about themselves.
    """
    logging.root.handlers = [_Others()]
    logging.root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda end: _uncaught(end.exc_type, end.exc_value, end.exc_traceback)
    sys.unraisablehook = lambda end: _uncaught(end.exc_type, end.exc_value, end.exc_traceback)


def _uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    raised = error or kind()
    get("process").error("uncaught exception", exc_info=(kind, raised, trace))


def get(component: str) -> Logger:
    """Return a logger whose lines carry the component's name; may be made before `configure`."""
    logger: Logger = structlog.get_logger(component=component)
    return logger


def pass_on(component: str, sink: Sink) -> None:
    """Have the lines of a component go to a function, too, which must not block."""
    _SINKS[component] = (*_SINKS.get(component, ()), sink)


def end_passing_on(component: str, sink: Sink) -> None:
    """Have the lines of a component go to a function no more."""
    _SINKS[component] = tuple(other for other in _SINKS.get(component, ()) if other != sink)


def to_json(line: Mapping[str, Any]) -> str:
    """Return a line as it is written."""
    return _dumps(line)


def _passed_on(
    _logger: Any, _method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for sink in _SINKS.get(line.get("component", ""), ()):
        sink(line)
    return line


def _dumps(event: Any, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
