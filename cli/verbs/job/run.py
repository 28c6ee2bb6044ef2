"""`rebalance-monitor run`: the production job, until it is asked to stop.

Findings that are news go to stdout as they come, everything goes to the storage folder. SIGTERM and Ctrl-C
finish the batch under way and end with 0; a second Ctrl-C does not wait.
"""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_valid
from rebalance_monitor.cli.output import Form, output_option


@click.command("run")
@config_options
@click.option(
    "--rebuild-state",
    is_flag=True,
    help="Rebuild the state from the topic in a new folder; findings, tables and ledger are kept.",
)
@click.option("--available-now", is_flag=True, help="Read what there is, then exit.")
@output_option(Form.TABLE, Form.TABLE, Form.JSONL)
def command(
    *,
    config: Path | None,
    assignments: tuple[str, ...],
    rebuild_state: bool,
    available_now: bool,
    output: Form,
) -> int:
    """Watch a cluster: the production job."""
    settings = load_valid(config, assignments)
    from rebalance_monitor.engine.driver.job import Options
    from rebalance_monitor.engine.outputs.console import renderer, writer
    from rebalance_monitor.engine.outputs.sinks import Lines

    if settings.engine == "embedded":
        from rebalance_monitor.engine.embedded.engine import run_job
    else:
        from rebalance_monitor.streaming.job.job import run_job
    console = (
        [Lines(renderer(output.value, sys.stdout), writer(sys.stdout))] if settings.outputs.console else []
    )
    try:
        run_job(settings, Options(rebuild_state, available_now), stop_on_signals(), console)
    finally:
        for sink in console:
            sink.close()
    return ExitCode.FINE


class Stop(threading.Event):
    """An event that knows whether anybody asks for it by now, and that a handler of signals may set."""

    is_heeded = False

    def __init__(self) -> None:
        super().__init__()
        # The handler runs in the thread that it interrupts, which may hold the event's own lock.
        self._cond = threading.Condition(threading.RLock())

    def is_set(self) -> bool:
        """Whether it is set."""
        self.is_heeded = True
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for `timeout` seconds."""
        self.is_heeded = True
        return super().wait(timeout)


def stop_on_signals(*, keeps: bool = True) -> Stop:
    """Return an event that SIGTERM and Ctrl-C set; a second one interrupts at once.

    Without `keeps` there is nothing to put away at the start: until somebody asks for the event the first one
    interrupts, too. A broker that does not answer would be waited for.
    """
    stop = Stop()

    def ask(_number: int, _frame: FrameType | None) -> None:
        # Nothing of Spark may be called here: py4j is not reentrant.
        interrupts = not (keeps or stop.is_heeded) or threading.Event.is_set(stop)
        # In either case: an interrupt is lost where it meets a callback of Python's own.
        stop.set()
        if interrupts:
            raise KeyboardInterrupt

    # Another thread may set none: there whoever started it stops the process.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)
    return stop
