"""Structured log lines, handed to Python's own logging under ``tidings.node``.

A library does not decide where lines go: a program that uses it configures ``logging`` as it
likes, and sees the warnings if it does nothing. ``tidings node`` calls ``configure``.
"""

import logging
from typing import Any, Literal

import structlog

Style = Literal["console", "json"]

_logger = logging.getLogger("tidings.node")
_json = structlog.processors.JSONRenderer(default=str)
_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
_style: Style = "console"


def get_logger(**bound: Any) -> Any:
    """A logger that says these things with every line."""
    return structlog.wrap_logger(
        _logger,
        processors=[structlog.stdlib.filter_by_level, _rendered],
        wrapper_class=structlog.stdlib.BoundLogger,
    ).bind(**bound)


def _rendered(logger: Any, level: str, event: Any) -> Any:
    if _style == "json":
        return _json(logger, level, _stamp(logger, level, event | {"level": level}))
    member, what = event.pop("member", ""), event.pop("event")
    details = ", ".join(f"{key} {value}" for key, value in event.items())
    return f"{member}: {what}" + (f": {details}" if details else "")


def configure(style: Style, level: str = "INFO") -> None:
    """For a program of ours: lines go to standard error, one JSON object each if asked for."""
    global _style
    _style = style
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    _logger.handlers[:] = [handler]
    _logger.setLevel(level)
    _logger.propagate = False
