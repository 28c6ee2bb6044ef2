"""`rebalance-monitor history GROUP`: what was found about one group, newest first, as far back as is kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalance_monitor.cli.answering import answer_options, answers_of, problem_of
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.sources import absolute, moment_option
from rebalance_monitor.cli.verbs.answers.groups import cause_text, moment, printable
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ("at", "finding", "generation", "severity", "members", "why", "who", "incident")
# What a narrow terminal shows last: the first one stays longest.
OPTIONAL = ("why", "who", "severity", "generation", "members", "incident")
PATTERN = frozenset("*?[")


@click.command("history")
@click.argument("group")
@answer_options
@moment_option("--since", "Not before: 1h (ago), a time (ISO 8601, UTC), or ms since epoch.")
@moment_option("--until", "Not after.")
@click.option("--kind", help="Only findings of this kind, such as storm.")
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
    since: int | None,
    until: int | None,
    kind: str | None,
    cause: str | None,
    limit: int,
    output: Form,
) -> int:
    """List the findings about GROUP, a name or a pattern ('orders-*'); exit code 1 if nothing was."""
    from rebalance_monitor.dashboard.web.http.answers import Unanswered, all_findings

    wanted = {"kind": kind, "cause": cause, "pattern" if PATTERN & set(group) else "group": group}
    with answers_of(config, assignments, url, tables, capture) as answers:
        try:
            # What is counted back from now is counted from theirs: a capture's ends with its last record.
            now = answers.ask("/incidents", limit=1)["now"] if min(since or 1, until or 1) <= 0 else 0
            times = {"since": absolute(since, now), "until": absolute(until, now)}
            found = all_findings(answers, limit, **times, **wanted)
        except Unanswered as error:
            raise problem_of(error) from error
    columns = COLUMNS if "group" in wanted else (COLUMNS[0], "group", *COLUMNS[1:])
    rows = [table_row(one) for one in found] if output.is_table else found
    write_rows(rows, output, columns, optional=OPTIONAL)
    if not found:
        click.echo(f"nothing was found about {printable(group)} at {answers.where}", err=True)
    return ExitCode.FINE if found else ExitCode.PROBLEMS


def table_row(finding: "Mapping[str, Any]") -> dict[str, object]:
    """Return one finding as a row that people read."""
    causes = finding["causes"]
    who = next((one["instance_id"] or one["client_id"] for one in causes if one["client_id"]), "")
    return {
        "at": moment(finding["at"]),
        "group": printable(finding["group"] or counted(finding["groups_total"], "group")),
        "finding": " ".join(filter(None, (finding["kind"].replace("_", " "), finding["phase"]))),
        "generation": finding["generation"],
        "severity": finding["severity"],
        "members": finding["members_total"],
        "why": cause_text(causes[0]["cause"], causes[0]["confidence"]) if causes else "",
        "who": printable(who),
        "incident": finding["incident"],
    }
