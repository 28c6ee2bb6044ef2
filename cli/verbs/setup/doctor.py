"""`rebalance-monitor doctor`: checks that the job has what it needs, and the permissions for what it does.

One line per check: OK, or what to do. Ends with 1 if anything is wrong. What the job can do without is a
note and does not count.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.sources import connection_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.cli.checks.result import Result


@click.command("doctor")
@config_options
@connection_options
@output_option(Form.TABLE)
def command(
    *, config: Path | None, assignments: tuple[str, ...], connection: "Mapping[str, object]", output: Form
) -> int:
    """Check Java, jars, brokers and permissions, and say what to do."""
    settings = load_settings(config, assignments, connection)
    from rebalance_monitor.cli.checks.checks import run_checks

    results = run_checks(settings)
    seen = _lines(results) if output.is_table else list(results)
    if not output.is_table:
        write_rows([as_row(result) for result in seen], output)
    return ExitCode.PROBLEMS if any(verdict(result) == "problem" for result in seen) else ExitCode.FINE


def verdict(result: "Result") -> str:
    """Return ok, note (the job can do without) or problem."""
    return "ok" if result.ok else "note" if result.optional else "problem"


def as_row(result: "Result") -> dict[str, object]:
    """Return a result as it is written in JSON."""
    remedy = None if result.ok else result.remedy
    return {"check": result.check, "verdict": verdict(result), "found": result.found, "remedy": remedy}


def _lines(results: "Iterable[Result]") -> "list[Result]":
    """Write each line as soon as it is known."""
    seen = []
    for result in results:
        seen.append(result)
        word, colour = (
            ("OK", "green") if result.ok else ("NOTE", "yellow") if result.optional else ("FIX", "red")
        )
        click.echo(f"{click.style(f'{word:<5}', fg=colour)} {result.check}: {result.found}")
        if not result.ok and result.remedy:
            click.echo(f"      → {result.remedy}")
    return seen
