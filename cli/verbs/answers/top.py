"""`rebalance-monitor top`: a live table of groups, over a running monitor, its tables or a replay."""

import sys
from pathlib import Path

import click

from rebalance_monitor.cli.answering import answer_options, answers_of
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.sources import Duration


@click.command("top")
@answer_options
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Speed of a replay: seconds of record time a second; 0: all at once.",
)
@click.option(
    "--every",
    type=Duration(least_s=0.1),
    default="1s",
    show_default=True,
    help="Time between two refreshes.",
)
def command(
    *,
    config: Path | None,
    assignments: tuple[str, ...],
    url: str | None,
    tables: str | None,
    capture: Path | None,
    pace: float,
    every: float,
) -> int:
    """Watch the groups live: sort, filter, search, and look into one."""
    if not sys.stdout.isatty():
        raise click.UsageError("`top` needs a terminal; `rebalance-monitor groups` prints the same once")
    from rebalance_monitor.dashboard.top.app import Top

    with answers_of(config, assignments, url, tables, capture, pace) as answers:
        Top(answers, every).run()
    return ExitCode.FINE
