"""The entry point: `rebalance-monitor VERB …`.

Data goes to stdout, logs and errors to stderr. Nothing heavy is imported before a verb asks for it.
Errors that somebody must act on become one message and an exit code (`cli/exit_codes.py`); a bug of ours
keeps its traceback.
"""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from rebalance_monitor.cli.exit_codes import ExitCode, exit_code_of
from rebalance_monitor.cli.logs import LEVELS, configure
from rebalance_monitor.cli.registry import LazyGroup
from rebalance_monitor.engine.outputs.colours import is_plain, takes_colours

PROGRAM = "rebalance-monitor"
COLLECT_AFTER = 250_000
"""New objects between two collections of cyclic garbage: imports make many and no garbage."""

ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="The least severity that is logged.",
)
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A log file, in place of stderr; it rolls at 50 MB, five are kept.",
)
@click.pass_context
def cli(context: click.Context, log_level: str, log_file: Path | None) -> None:
    """Say which Kafka consumer group is rebalancing, why, whose fault it is, and when it is over."""
    if is_plain():
        context.color = False
    configure(log_level, log_file)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; verbs return one, or None for fine."""
    try:
        result = cli.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return ExitCode.USAGE
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code_of(error)
        if code is None:
            raise
        _print_error(error, code)
        return code
    return int(result or ExitCode.FINE)


def _print_error(error: BaseException, code: ExitCode) -> None:
    from socket import gaierror

    import structlog

    from rebalance_monitor.checkpoints.errors import is_full

    text = "interrupted" if code is ExitCode.INTERRUPTED else str(error)
    if isinstance(error, gaierror):
        text = f"a host's name is not known: {error.strerror}; check those configured, and `localhost`"
    elif isinstance(error, OSError) and error.errno is not None:
        what = "the output, or a temporary file," if is_full(error) else "a file or a connection"
        text = f"{error.filename or what} cannot be used: {error.strerror or error}"
    if structlog.is_configured():
        structlog.get_logger().debug("where it came from", exc_info=error)
    # The code says it where stderr takes nothing.
    with suppress(OSError):
        click.secho(f"{PROGRAM}: {text}", err=True, fg="red" if takes_colours(sys.stderr) else None)


def open_closed_streams() -> None:
    """Let standard streams that were closed lead nowhere: the next file or socket would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - stays open


def use_system_pool() -> None:
    """Let Arrow take all of its memory from the system's allocator (engine/memory.py), unless told otherwise.

    It chooses once, when it is loaded: its writers and compressors keep to that, whatever is set later.
    Spark's workers get a copy of `os.environ`, which is left as it was.
    """
    if ARROW_POOL not in os.environ:
        os.putenv(ARROW_POOL, "system")


def main() -> None:
    """Run this process's command line; return if all is fine: some platforms take any exit for failure."""
    open_closed_streams()
    use_system_pool()
    # An eighth of the CPU that a verb takes to start.
    gc.set_threshold(COLLECT_AFTER)
    if code := run(sys.argv[1:]):
        sys.exit(code)
