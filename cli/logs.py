"""Logs: to stderr, readable on a terminal, JSON lines elsewhere; stdout belongs to data.

What libraries say through `logging` takes the same way, from warnings up, within bounds (`repeats.py`). Where
nobody rolls what a process writes to stderr, a file of our own takes its place and rolls itself.
"""

import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS = ("debug", "info", "warning", "error")
FILE_BYTES, FILES_KEPT = 50_000_000, 5
"""Size at which a log file rolls, and how many rolled ones are kept beside it."""

OWN = "rebalance_monitor"


def configure(level: str, file: Path | None = None) -> None:
    """Send every log line of the process to stderr, or to a rolling `file`, at `level` and above.

    Raises OSError where the file cannot be written.
    """
    from logging.handlers import RotatingFileHandler

    from rebalance_monitor.cli.repeats import Repeats

    _load_structlog()
    import structlog

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    terminal = file is None and sys.stderr.isatty()
    renderer = _for_terminals() if terminal else structlog.processors.JSONRenderer()
    errors: list[Processor] = [] if terminal else [structlog.processors.format_exc_info]
    threshold = logging.getLevelNamesMapping()[level.upper()]
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
        ours: list[Processor] = [*errors, renderer]
    else:
        handler = RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
        ours = [structlog.stdlib.ProcessorFormatter.wrap_for_formatter]
    structlog.configure(
        processors=[*shared, *ours],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=_to_stderr if file is None else _to_handlers,
        cache_logger_on_first_use=False,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[_bare, *errors, renderer])
    )
    handler.addFilter(Repeats(OWN))
    logging.basicConfig(handlers=[handler], level=max(threshold, logging.WARNING), force=True)
    logging.getLogger(OWN).setLevel(threshold)


def _load_structlog() -> None:
    """Import structlog without rich, which it would load for tracebacks that are not shown (60 CPU-ms)."""
    if "rich" in sys.modules:
        return
    # Python takes a module of this name for one that is not installed.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


def _for_terminals() -> "Processor":
    """Return a renderer whose tracebacks show no local variables: those hold passwords."""
    import structlog

    from rebalance_monitor.engine.outputs.colours import takes_colours

    # Where rich is installed, structlog's own default shows them.
    return structlog.dev.ConsoleRenderer(
        colors=takes_colours(sys.stderr), exception_formatter=structlog.dev.plain_traceback
    )


class _Stderr:
    """Writes lines to the stderr of that moment. One that it does not take is lost: nothing ends over it."""

    def msg(self, line: str) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = msg


def _to_stderr(*_: object) -> "WrappedLogger":
    return _Stderr()


def _to_handlers(*_: object) -> "WrappedLogger":
    """Return a logger whose lines go to the root's handler, so that they and the libraries' roll together."""
    return logging.getLogger(OWN)


def _bare(_logger: object, _name: str, event: "EventDict") -> "EventDict":
    """Drop what structlog adds for its own use."""
    return {key: value for key, value in event.items() if key not in {"_record", "_from_structlog"}}
