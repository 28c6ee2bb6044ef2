"""Logs: to stderr, readable on a terminal, JSON lines elsewhere; stdout belongs to data.

What libraries say through `logging` takes the same way, from warnings up.
"""

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

LEVELS = ("debug", "info", "warning", "error")


def configure(level: str) -> None:
    """Send every log line of the process to stderr, at `level` and above."""
    import structlog

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    errors: list[Processor] = [] if terminal else [structlog.processors.format_exc_info]
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *errors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        # Made anew for every line, so that it is the stderr of that moment.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[_bare, *errors, renderer])
    )
    logging.basicConfig(handlers=[handler], level=max(threshold, logging.WARNING), force=True)


def _bare(_logger: object, _name: str, event: "EventDict") -> "EventDict":
    """Drop what structlog adds for its own use."""
    return {key: value for key, value in event.items() if key not in {"_record", "_from_structlog"}}
