"""`rebalance-monitor audit`: whether records and tables keep their contracts, on a sample of the newest rows.

Exit code 1 where a contract does not hold. The job does the same now and then (`audit.every_batches`).
"""

from pathlib import Path

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings, storage_of
from rebalance_monitor.cli.output import Form, output_option, write_rows


@click.command("audit")
@config_options
@click.option(
    "--capture",
    type=click.Path(path_type=Path, exists=True),
    help="Take records from this capture instead of the live topic.",
)
@click.option("--tables-only", is_flag=True, help="Check the tables alone; needs no broker.")
@output_option(Form.TABLE)
def command(
    *,
    config: Path | None,
    assignments: tuple[str, ...],
    capture: Path | None,
    tables_only: bool,
    output: Form,
) -> int:
    """Check samples of records and tables against their contracts.

    With great-expectations (the extra `quality`) it writes Data Docs as well.
    """
    settings = load_settings(config, assignments)
    from rebalance_monitor.dashboard.audit.check import writes_docs
    from rebalance_monitor.engine.audit.auditing import audit, of_capture, of_topic
    from rebalance_monitor.engine.storage import storage_at

    storage = storage_of(settings) if tables_only else storage_at(settings.storage.path)
    sampled = None if tables_only else of_capture(capture) if capture else of_topic(settings)
    outcomes = audit(settings, storage, sampled)
    rows = [
        {
            "suite": one.suite,
            "contract": one.means,
            "holds": "yes" if one.holds else "NO",
            "rows": one.rows,
            "breaking": one.breaking,
            "examples": list(one.examples),
        }
        for one in outcomes
    ]
    write_rows(
        rows,
        output,
        ("suite", "contract", "holds", "rows", "breaking", "examples"),
        optional=("rows", "examples"),
    )
    if writes_docs():
        click.echo(f"Data Docs: {storage.audit / 'index.html'}", err=True)
    return ExitCode.FINE if all(one.holds for one in outcomes) else ExitCode.PROBLEMS
