"""`rebalance-monitor table`: upkeep of the Parquet tables, and the SQL that people ask them.

Works beside a running job: only files that no batch may replace are merged. A Delta table has one writer:
the job keeps it, and the verb does while none runs.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings, storage_of
from rebalance_monitor.cli.output import Form, output_option, write_rows

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.dashboard.tables.upkeep import Report


@click.group("table")
def command() -> None:
    """Merge small files and delete old days of the tables; print the SQL of the usual questions."""


@command.command("optimize")
@config_options
@click.option(
    "--keep",
    metavar="DURATION",
    help="Delete findings older than this, such as 30d (default: tables.keep, else none).",
)
@output_option(Form.TABLE)
def optimize(*, config: Path | None, assignments: tuple[str, ...], keep: str | None, output: Form) -> int:
    """Merge the small files of the findings table, and delete old days."""
    settings = load_settings(config, assignments, {"tables.keep": keep})
    done = _kept(settings, datetime.now(UTC))
    row = {
        "files merged": done.merged,
        "into": done.into,
        "rows": done.rows,
        "days deleted": done.days_deleted,
    }
    write_rows([row], output)
    return ExitCode.FINE


def _kept(settings: "Settings", now: datetime) -> "Report":
    from rebalance_monitor.dashboard.tables.delta_log import is_delta
    from rebalance_monitor.engine.outputs.upkeep import ParquetFindings
    from rebalance_monitor.streaming.storage.delta import keep_alone

    storage = storage_of(settings)
    if is_delta(storage.findings):
        return keep_alone(settings, storage, settings.tables.keep_days, now)
    return ParquetFindings(storage).keep(settings.tables.keep_days, now)


@command.command("sql")
@click.argument("name", required=False)
@config_options
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="The SQL dialect of the views.",
)
def sql(*, name: str | None, config: Path | None, assignments: tuple[str, ...], engine: str) -> int:
    """Print the views over this job's tables and the query NAME; without NAME the questions."""
    from rebalance_monitor.dashboard import queries

    if name is None:
        write_rows(
            [{"name": each, "question": queries.question(each)} for each in queries.names()], Form.TABLE
        )
        return ExitCode.FINE
    if name not in queries.names():
        raise click.BadParameter(f"{name!r} is none of {', '.join(queries.names())}", param_hint="NAME")
    settings = load_settings(config, assignments)
    from rebalance_monitor.engine.storage import storage_at

    storage = storage_at(settings.storage.path)
    views = queries.views(engine, storage.findings, storage.groups, settings.detection.teams)
    click.echo(views + "\n" + queries.query(name))
    return ExitCode.FINE
