"""`rebalance-monitor history GROUP`: what was found about one group, newest first, as far back as is kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalance_monitor.cli.answering import answer_options, answers_of, problem_of
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.verbs.groups import cause_text, moment, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ("at", "finding", "generation", "severity", "members", "why", "who", "incident")


@click.command("history")
@click.argument("group")
@answer_options
@click.option("--since", metavar="TIME", help="Not before this time (ISO 8601, UTC, or ms since epoch).")
@click.option("--until", metavar="TIME", help="Not after this time.")
@click.option("--kind", help="Only findings of this kind (docs/findings.md).")
@click.option("--cause", help="Only findings with this cause.")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="Findings at most.")
@output_option(Form.TABLE)
def command(
    *,
    group: str,
    config: Path | None,
    assignments: tuple[str, ...],
    url: str | None,
    tables: str | None,
    capture: Path | None,
    since: str | None,
    until: str | None,
    kind: str | None,
    cause: str | None,
    limit: int,
    output: Form,
) -> int:
    """Tell what was found about GROUP; exit code 1 if nothing was."""
    from rebalance_monitor.dashboard.web.http.answers import Unanswered, all_findings

    with answers_of(config, assignments, url, tables, capture) as answers:
        try:
            found = all_findings(
                answers, limit, group=group, since=since, until=until, kind=kind, cause=cause
            )
        except Unanswered as error:
            raise problem_of(error) from error
    write_rows(found if output is not Form.TABLE else [table_row(one) for one in found], output, COLUMNS)
    if not found:
        click.echo(f"nothing is known of {printable(group)} at {answers.where}", err=True)
    return ExitCode.FINE if found else ExitCode.PROBLEMS


def table_row(finding: "Mapping[str, Any]") -> dict[str, object]:
    """Return one finding as a row that people read."""
    causes = finding["causes"]
    who = next((one["instance_id"] or one["client_id"] for one in causes if one["client_id"]), "")
    return {
        "at": moment(finding["at"]),
        "finding": " ".join(filter(None, (finding["kind"].replace("_", " "), finding["phase"]))),
        "generation": finding["generation"],
        "severity": finding["severity"],
        "members": finding["members_total"],
        "why": cause_text(causes[0]["cause"], causes[0]["confidence"]) if causes else "",
        "who": printable(who),
        "incident": finding["incident"],
    }
