"""Structured logs: one JSON object a line on stderr, constant message, fields in snake case."""

import logging
import sys
from typing import Any

import msgspec
import structlog

Logger = structlog.typing.FilteringBoundLogger


def configure(level: str = "INFO", *, human: bool = False) -> None:
    """Sets up logging for the process.

    Args:
        level: least level shown: DEBUG, INFO, WARNING, ERROR.
        human: aligned text instead of JSON, for a terminal.
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
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def get(component: str) -> Logger:
    """A logger whose lines carry the component's name."""
    logger: Logger = structlog.get_logger().bind(component=component)
    return logger


def _dumps(event: Any, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
